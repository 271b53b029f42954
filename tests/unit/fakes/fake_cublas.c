// cuBLAS without a GPU: a product takes the fake GPU's time and computes nothing.
#include "fake.h"

#include <dlfcn.h>
#include <stdlib.h>

struct cublas_handle_context {
    cuda_stream stream;
    void (*launch)(cuda_stream s, uint64_t ns);
    struct fake_cuda_counts *counts;
};

FAKE_API int cublasCreate_v2(cublas_handle *handle)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    struct fake_cuda_counts *(*count)(void) = NULL;
    *handle = calloc(1, sizeof(**handle));
    *(void **)&(*handle)->launch = dlsym(cuda, "fake_cuda_launch");
    *(void **)&count = dlsym(cuda, "fake_cuda_count");
    (*handle)->counts = count();
    return 0;
}

FAKE_API int cublasDestroy_v2(cublas_handle handle)
{
    free(handle);
    return 0;
}

FAKE_API int cublasSetStream_v2(cublas_handle handle, cuda_stream stream)
{
    handle->stream = stream;
    return 0;
}

FAKE_API int cublasGemmEx(cublas_handle handle, int op_a, int op_b, int m, int n, int k,
                          const void *alpha, cuda_address a, int a_type, int lda, cuda_address b,
                          int b_type, int ldb, const void *beta, cuda_address c, int c_type,
                          int ldc, int compute, int algo)
{
    double rate = a_type == CUBLAS_F16 ? FAKE_FP16 : FAKE_TF32;
    handle->counts->gemms++;
    handle->launch(handle->stream, (uint64_t)(2.0 * m * n * k / rate * 1e9));
    return a && b && c && a_type == b_type ? 0 : 7;
}
