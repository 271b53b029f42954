#pragma once
#include "cli.h"

// Shared by the subcommands of `tachy engine`.

// A name of the zoo, or the path of an ONNX file, as the file's path. Free *path.
int engine_model(const struct cli *c, const char *name, char **path);
// The command's model options; `provider` and `options` (room for OPTIONS + 1) as for tachy_engine_open().
enum { ENGINE_OPTIONS = 32 };
struct tachy_engine_params engine_params(const struct cli *c, const char *path, const char **options);

double engine_now_ms(void); // of a clock that only runs forward

// True if plans shall run on a GPU: by --device, or with auto if there is one.
bool engine_on_gpu(const struct cli *c);

// Each is a word; a code, or an exit status.
int engine_bench(struct cli *c); // engine_bench.c
int engine_build(struct cli *c); // engine_build.c
int engine_ls(struct cli *c);    // engine_store.c
int engine_gc(struct cli *c);    // engine_store.c

// engine_memory.c: growth in MiB of the peak resident set of a separate process, from loading ONNX Runtime until after
// three runs of the model; NAN if it does not run or the system lacks the figure.
double engine_memory(const struct tachy_engine_params *p);

// engine_tensors.c: inputs with shapes of all sizes as a picture has, the same every time, from 0 to 1 (bytes: to
// 255; whole numbers: zeros), and outputs. engine_tensors_free() for both, also after a failure. The sentence is
// left for message_failed(): free dimensions that are not the batch, a batch that the model fixes.
struct engine_tensors {
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    int n_in, n_out;
};
// engine_frames.c: frames of a video as inputs, spread over it. `model`: of the zoo, whose card says how pictures become
// inputs; else they are stretched, RGB from 0 to 1. next(): 1, 0 at the end, or a code; fills every picture of in[0].
struct engine_frames;
int engine_frames_open(struct engine_frames **out, const char *video, const struct tachy_model_params *model);
int engine_frames_next(struct engine_frames *f, struct engine_tensors *t);
void engine_frames_close(struct engine_frames **f);
int engine_tensors(struct engine_tensors *t, const tachy_engine *e, int batch);
void engine_tensors_free(struct engine_tensors *t);
