// tflite in, onnx out: what `tachy model import` does, for the import's own tests.
#include <stdio.h>
#include <tachy/model.h>

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

int main(int argc, char **argv)
{
    struct tachy_log log = {.fn = print};
    char *report = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: import_tool IN.tflite OUT.onnx [CARD.json]\n");
        return 2;
    }
    int err = tachy_model_import(argv[1], argv[2], argc > 3 ? argv[3] : NULL, &report, &log);
    if (report)
        printf("%s\n", report);
    tachy_free(report);
    return -err;
}
