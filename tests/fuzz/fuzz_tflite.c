// libFuzzer target: any bytes through the TFLite reader and the import.
#include "model/import.h"
#include "onnx/file.h"

#include <tachy/model.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_location(void *user, const char *location) { return TACHY_ERR_FORMAT; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tflite_model *m = NULL;
    struct onnx_graph *g = NULL;
    char *onnx = NULL;
    size_t n = 0;
    int err = tflite_open(&m, data, size, "fuzz", NULL);
    if (!err)
        err = import_graph(&g, m, "fuzz", NULL);
    if (!err)
        err = onnx_write(g, "fuzz", &onnx, &n);
    if (!err && onnx_each_location(onnx, n, on_location, NULL))
        __builtin_trap(); // what is written must be readable, and keeps its weights itself
    tachy_free(onnx);
    onnx_free(&g);
    tflite_close(&m);
    return 0;
}
