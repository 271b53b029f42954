// libFuzzer target: any bytes as an ONNX file. What was read is then looked through.
#include "model/onnx.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Touches every byte that the answer promises.
static size_t look(const struct onnx_info_io *io, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (io[i].shape.rank < 0 || io[i].shape.rank > ONNX_MAX_RANK)
            __builtin_trap();
        sum += strlen(io[i].name) + (size_t)io[i].dtype;
        for (int d = 0; d < io[i].shape.rank; d++)
            if (io[i].shape.dim[d] < -1)
                __builtin_trap();
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct onnx_info *info = NULL;
    if (onnx_read_info(&info, data, size, "fuzz", NULL))
        return info ? __builtin_trap(), 0 : 0;
    volatile size_t sum = look(info->in, info->n_in) + look(info->out, info->n_out);
    for (int i = 0; i < info->n_initializers; i++)
        sum += strlen(info->initializers[i]);
    sum += info->producer ? strlen(info->producer) : 0;
    onnx_info_free(&info);
    return 0;
}
