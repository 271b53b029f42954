#include <tachy/tensor.h>

#include "base/base.h"

size_t tachy_dtype_size(enum tachy_dtype t)
{
    switch (t) {
    case TACHY_F32:
    case TACHY_I32:
        return 4;
    case TACHY_F16:
    case TACHY_BF16:
        return 2;
    case TACHY_U8:
    case TACHY_I8:
        return 1;
    case TACHY_I64:
        return 8;
    }
    return 0;
}

const char *tachy_dtype_name(enum tachy_dtype t)
{
    switch (t) {
    case TACHY_F32:
        return "float32";
    case TACHY_F16:
        return "float16";
    case TACHY_U8:
        return "uint8";
    case TACHY_I8:
        return "int8";
    case TACHY_I32:
        return "int32";
    case TACHY_I64:
        return "int64";
    case TACHY_BF16:
        return "bfloat16";
    }
    return "?";
}

int64_t tachy_tensor_elements(const struct tachy_tensor *t)
{
    if (!t)
        return 0;
    if (t->rank < 0 || t->rank > TACHY_MAX_RANK)
        return -1;
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(n, t->shape[i], &n))
            return -1;
    return n;
}

size_t tachy_tensor_bytes(const struct tachy_tensor *t)
{
    int64_t n = tachy_tensor_elements(t);
    size_t bytes;
    if (n <= 0 || __builtin_mul_overflow((size_t)n, tachy_dtype_size(t->dtype), &bytes))
        return 0;
    return bytes;
}

int tachy_tensor_alloc(struct tachy_tensor *t)
{
    if (!t)
        return TACHY_ERR_INVAL;
    t->data = NULL;
    size_t bytes = tachy_tensor_bytes(t);
    if (!bytes)
        return TACHY_ERR_INVAL;
    memset(t->stride, 0, sizeof(t->stride));
    t->mem = TACHY_HOST;
    t->data = tachy_aligned_alloc(bytes);
    return t->data ? TACHY_OK : TACHY_ERR_NOMEM;
}

void tachy_tensor_free(struct tachy_tensor *t)
{
    if (!t)
        return;
    tachy_aligned_free(t->data);
    t->data = NULL;
}
