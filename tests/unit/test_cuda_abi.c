#include "test.h"

#include "cuda/abi.h"
#include "media/frame_priv.h"

// Compares src/cuda/abi.h with NVIDIA's own headers, if they are installed.

#if !HAVE_CUDA_HEADERS
int main(void) { SKIP("CUDA's headers are not installed"); }
#else

#include <cublasLt.h>
#include <cublas_api.h>
#include <cuda.h>
#include <cupti.h>
#include <libavutil/hwcontext_cuda.h>
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#define SAME(ours, theirs) CHECK_INT(ours, theirs)
#define AT(type, member, theirs, their_member)                                                     \
    do {                                                                                           \
        CHECK_INT(offsetof(struct type, member), offsetof(theirs, their_member));                  \
        CHECK_INT(sizeof(((struct type *)0)->member), sizeof(((theirs *)0)->their_member));        \
    } while (0)

TEST(driver)
{
    SAME(CUDA_OK, CUDA_SUCCESS);
    SAME(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
    SAME(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
    SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
    SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
    SAME(CUDA_STREAM_OWN_ORDER, CU_STREAM_NON_BLOCKING);
    SAME(CUDA_EVENT_TIMED, CU_EVENT_DEFAULT);
    SAME(CUDA_EVENT_ORDERS, CU_EVENT_DISABLE_TIMING);
    SAME(CUDA_EVENT_BLOCKS, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    SAME(CUDA_ATTR_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    SAME(CUDA_ATTR_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    SAME(CUDA_ATTR_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    SAME(CUDA_ATTR_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    SAME(sizeof(cuda_device), sizeof(CUdevice));
    SAME(sizeof(cuda_address), sizeof(CUdeviceptr));
    SAME(sizeof(cuda_stream), sizeof(CUstream));
}

TEST(copies)
{
    SAME(CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
    SAME(CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
#if CUDA_VERSION >= 12080
    SAME(sizeof(struct cuda_copy_attributes), sizeof(CUmemcpyAttributes));
    AT(cuda_copy_attributes, order, CUmemcpyAttributes, srcAccessOrder);
    AT(cuda_copy_attributes, from, CUmemcpyAttributes, srcLocHint);
    AT(cuda_copy_attributes, to, CUmemcpyAttributes, dstLocHint);
    AT(cuda_copy_attributes, flags, CUmemcpyAttributes, flags);
    SAME(CUDA_COPY_IN_ORDER, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
#endif
    SAME(sizeof(struct cuda_copy_2d), sizeof(CUDA_MEMCPY2D));
    AT(cuda_copy_2d, from_kind, CUDA_MEMCPY2D, srcMemoryType);
    AT(cuda_copy_2d, from_host, CUDA_MEMCPY2D, srcHost);
    AT(cuda_copy_2d, from_device, CUDA_MEMCPY2D, srcDevice);
    AT(cuda_copy_2d, from_pitch, CUDA_MEMCPY2D, srcPitch);
    AT(cuda_copy_2d, to_kind, CUDA_MEMCPY2D, dstMemoryType);
    AT(cuda_copy_2d, to_host, CUDA_MEMCPY2D, dstHost);
    AT(cuda_copy_2d, to_device, CUDA_MEMCPY2D, dstDevice);
    AT(cuda_copy_2d, to_pitch, CUDA_MEMCPY2D, dstPitch);
    AT(cuda_copy_2d, width, CUDA_MEMCPY2D, WidthInBytes);
    AT(cuda_copy_2d, height, CUDA_MEMCPY2D, Height);
}

// FFmpeg's header, which can only be read where CUDA's is.
TEST(ffmpeg_device)
{
    SAME(sizeof(struct tachy_av_cuda), sizeof(AVCUDADeviceContext));
    AT(tachy_av_cuda, context, AVCUDADeviceContext, cuda_ctx);
    AT(tachy_av_cuda, stream, AVCUDADeviceContext, stream);
}

TEST(cupti)
{
    SAME(CUPTI_OK, CUPTI_SUCCESS);
    SAME(CUPTI_NO_MORE_RECORDS, CUPTI_ERROR_MAX_LIMIT_REACHED);
    SAME(CUPTI_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
    SAME(CUPTI_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
    SAME(CUPTI_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
    SAME(CUPTI_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    SAME(CUPTI_MEMCPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
    SAME(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    SAME(CUPTI_ALIGNMENT, ACTIVITY_RECORD_ALIGNMENT);
    AT(cupti_kernel, kind, CUpti_ActivityKernel9, kind);
    AT(cupti_kernel, start, CUpti_ActivityKernel9, start);
    AT(cupti_kernel, end, CUpti_ActivityKernel9, end);
    AT(cupti_kernel, device, CUpti_ActivityKernel9, deviceId);
    AT(cupti_kernel, context, CUpti_ActivityKernel9, contextId);
    AT(cupti_kernel, stream, CUpti_ActivityKernel9, streamId);
    AT(cupti_kernel, static_shared, CUpti_ActivityKernel9, staticSharedMemory);
    AT(cupti_kernel, correlation, CUpti_ActivityKernel9, correlationId);
    AT(cupti_kernel, name, CUpti_ActivityKernel9, name);
    AT(cupti_memcpy, copy, CUpti_ActivityMemcpy5, copyKind);
    AT(cupti_memcpy, from, CUpti_ActivityMemcpy5, srcKind);
    AT(cupti_memcpy, to, CUpti_ActivityMemcpy5, dstKind);
    AT(cupti_memcpy, bytes, CUpti_ActivityMemcpy5, bytes);
    AT(cupti_memcpy, start, CUpti_ActivityMemcpy5, start);
    AT(cupti_memcpy, end, CUpti_ActivityMemcpy5, end);
    AT(cupti_memcpy, device, CUpti_ActivityMemcpy5, deviceId);
    AT(cupti_memcpy, stream, CUpti_ActivityMemcpy5, streamId);
    AT(cupti_memcpy, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
    AT(cupti_memcpy, start, CUpti_ActivityMemcpyPtoP4, start);
    AT(cupti_memcpy, stream, CUpti_ActivityMemcpyPtoP4, streamId);
    AT(cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
    AT(cupti_memset, start, CUpti_ActivityMemset4, start);
    AT(cupti_memset, end, CUpti_ActivityMemset4, end);
    AT(cupti_memset, device, CUpti_ActivityMemset4, deviceId);
    AT(cupti_memset, stream, CUpti_ActivityMemset4, streamId);
}

TEST(cublas)
{
    SAME(CUBLAS_OK, CUBLAS_STATUS_SUCCESS);
    SAME(CUBLAS_NOT_TRANSPOSED, CUBLAS_OP_N);
    SAME(CUBLAS_ALGO_DEFAULT, CUBLAS_GEMM_DEFAULT);
    SAME(CUBLAS_F32, CUDA_R_32F);
    SAME(CUBLAS_F16, CUDA_R_16F);
    SAME(CUBLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F);
    SAME(CUBLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
}

TEST(cublaslt)
{
    SAME(CUBLAS_TRANSPOSED, CUBLAS_OP_T);
    SAME(CUBLASLT_DESC_OP_A, CUBLASLT_MATMUL_DESC_TRANSA);
    SAME(CUBLASLT_DESC_OP_B, CUBLASLT_MATMUL_DESC_TRANSB);
    SAME(CUBLASLT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
    SAME(CUBLASLT_DESC_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
    SAME(CUBLASLT_DESC_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
    SAME(CUBLASLT_END_NONE, CUBLASLT_EPILOGUE_DEFAULT);
    SAME(CUBLASLT_END_RELU | CUBLASLT_END_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
    SAME(CUBLASLT_END_GELU | CUBLASLT_END_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
    SAME(CUBLASLT_LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
    SAME(CUBLASLT_LAYOUT_NEXT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
    SAME(CUBLASLT_PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    SAME(CUBLASLT_PREF_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    SAME(CUBLASLT_PREF_ALIGN_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    SAME(CUBLASLT_MAJOR, MAJOR_VERSION);
    SAME(CUBLASLT_PATCH, PATCH_LEVEL);
    SAME(sizeof(struct cublaslt_algo), sizeof(cublasLtMatmulAlgo_t));
    SAME(sizeof(struct cublaslt_found), sizeof(cublasLtMatmulHeuristicResult_t));
    AT(cublaslt_found, algo, cublasLtMatmulHeuristicResult_t, algo);
    AT(cublaslt_found, workspace, cublasLtMatmulHeuristicResult_t, workspaceSize);
    AT(cublaslt_found, state, cublasLtMatmulHeuristicResult_t, state);
}

TEST(nvtx)
{
    SAME(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
    SAME(NVTX_TABLE_VERSION, NVTX_ETID_VERSIONINFO);
    SAME(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
    SAME(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
    SAME(NVTX_CORE_SIZE, NVTX_CBID_CORE_SIZE);
    SAME(NVTX_CORE2_SIZE, NVTX_CBID_CORE2_SIZE);
    SAME(NVTX_CORE2_RANGE_PUSH, NVTX_CBID_CORE2_DomainRangePushEx);
    SAME(NVTX_CORE2_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
    SAME(NVTX_CORE2_DOMAIN_CREATE, NVTX_CBID_CORE2_DomainCreateA);
    SAME(NVTX_CORE2_INITIALIZE, NVTX_CBID_CORE2_Initialize);
    SAME(NVTX_API_VERSION, NVTX_VERSION);
    SAME(NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
    SAME(sizeof(struct nvtx_attributes), sizeof(nvtxEventAttributes_t));
    AT(nvtx_attributes, version, nvtxEventAttributes_t, version);
    AT(nvtx_attributes, size, nvtxEventAttributes_t, size);
    AT(nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
    AT(nvtx_attributes, message, nvtxEventAttributes_t, message);
    SAME(sizeof(struct nvtx_callbacks_table), sizeof(NvtxExportTableCallbacks));
    SAME(sizeof(struct nvtx_version_table), sizeof(NvtxExportTableVersionInfo));
    AT(nvtx_version_table, version, NvtxExportTableVersionInfo, version);
}

TEST_MAIN(TEST_CASE(driver), TEST_CASE(copies), TEST_CASE(ffmpeg_device), TEST_CASE(cupti), TEST_CASE(cublas), TEST_CASE(cublaslt), TEST_CASE(nvtx))
#endif
