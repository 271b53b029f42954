// libFuzzer target: any bytes through the TFLite reader, the import and the ONNX reader.
#include "model/import.h"

#include <tachy/model.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tflite_model *m = NULL;
    struct onnx_graph *g = NULL;
    struct onnx_info *info = NULL;
    char *onnx = NULL;
    size_t n = 0;
    int err = tflite_open(&m, data, size, "fuzz", NULL);
    if (!err)
        err = import_graph(&g, m, "fuzz", NULL);
    if (!err)
        err = onnx_write(g, "fuzz", &onnx, &n);
    if (!err && onnx_read_info(&info, onnx, n, "fuzz", NULL))
        __builtin_trap(); // what is written must be readable
    onnx_info_free(&info);
    tachy_free(onnx);
    onnx_free(&g);
    tflite_close(&m);
    if (!onnx_read_info(&info, data, size, "fuzz", NULL))
        onnx_info_free(&info);
    return 0;
}
