// A fixed amount of work on one thread, for bench/instructions, which counts what N more rounds of it cost.
//
//   fixed preprocess N      a 1280x720 NV12 picture to 256x256 float32, N times
//   fixed composite N       the modes cutout, blur and mask of the same picture, N times each
//   fixed import N FILE     FILE.tflite to an ONNX file that is deleted, N times
#include "../tests/unit/composite_frames.h"

#include <tachy/model.h>
#include <tachy/preprocess.h>
#include <unistd.h>

enum { WIDTH = 1280, HEIGHT = 720, SIDE = 256 };

// Whatever fails here makes the count wrong, so it ends the program.
static void must(int err, const char *what)
{
    if (err == TACHY_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, tachy_err_text(err));
    exit(1);
}

static void preprocess(int n)
{
    tachy_frame *f = noise(TACHY_PIX_NV12, WIDTH, HEIGHT);
    tachy_preprocess *p;
    struct tachy_tensor out = {.dtype = TACHY_F32, .rank = 4, .shape = {1, SIDE, SIDE, 3}};
    must(tachy_tensor_alloc(&out), "tensor");
    must(tachy_preprocess_open(&p, tachy_preprocess_params(.width = SIDE, .height = SIDE, .scale = 1 / 255.0f)), "preprocess");
    for (int i = 0; i < n; i++)
        must(tachy_preprocess_run(p, f, NULL, &out, NULL), "preprocess");
    tachy_preprocess_close(&p);
    tachy_tensor_free(&out);
    tachy_frame_unref(&f);
}

static void composite(int n)
{
    static const enum tachy_mode modes[] = {TACHY_MODE_CUTOUT, TACHY_MODE_BLUR, TACHY_MODE_MASK};
    tachy_frame *f = noise(TACHY_PIX_NV12, WIDTH, HEIGHT);
    struct tachy_result r = soft_result(WIDTH, HEIGHT);
    for (size_t m = 0; m < TACHY_ARRAY_SIZE(modes); m++) {
        struct tachy_composite_params p = {.mode = modes[m], .color = 0x00ff00ff, .threshold = 0.5f, .feather = 0.3f};
        struct tachy_video_info in = {.format = f->format, .width = WIDTH, .height = HEIGHT}, want;
        tachy_composite *c;
        must(tachy_composite_output(&p, &in, &want), "composite");
        must(tachy_composite_open(&c, &p), "composite");
        tachy_frame *out = picture(want.format, want.width, want.height);
        for (int i = 0; i < n; i++)
            must(tachy_composite_run(c, f, &r, NULL, NULL, out), "composite");
        tachy_frame_unref(&out);
        tachy_composite_close(&c);
    }
    tachy_frame_unref(&f);
}

static void import(int n, const char *file)
{
    char path[] = "/tmp/tachy-fixed-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        must(TACHY_ERR_IO, path);
    close(fd);
    for (int i = 0; i < n; i++) {
        char *report = NULL;
        must(tachy_model_import(file, path, NULL, &report, NULL), file);
        tachy_free(report);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (n > 0 && !strcmp(argv[1], "preprocess"))
        preprocess(n);
    else if (n > 0 && !strcmp(argv[1], "composite"))
        composite(n);
    else if (n > 0 && argc > 3 && !strcmp(argv[1], "import"))
        import(n, argv[3]);
    else
        return fprintf(stderr, "usage: fixed preprocess|composite N; fixed import N FILE.tflite\n"), 2;
    return 0;
}
