// Measures the cost of an ordered stage before the model: the task mask with a first stage that takes frames in order and
// does nothing.
//
//   build/bench/ordered [--device] [--rounds N] CLIP [SETTING=VALUE]...
//
// Prints the median of N runs (5). On the CPU: the light ratio, which must be 0.92 at 720p; a clip of 600 frames or more,
// since a short run is mostly its beginning. With --device: frames per second, which bench/gpu (row ordered) holds against
// decoding alone. Exit status 1 if the figure does not hold, 77 without a device.
#include "base/base.h"
#include "stage/composite.h"
#include "stage/infer.h"
#include "stage/stages.h"
#include "task/task.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/job.h>
#include <tachy/settings.h>
#include <unistd.h>

enum { MOST = 99 };

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[]) {}

static const struct tachy_stage_ops nothing = {.name = "nothing", .flags = TACHY_STAGE_ORDERED, .run = run};

static const struct tachy_option options[] = {
    {"ordered.model", NULL, 0, TACHY_OPT_STRING, "selfie", .arg = "NAME|FILE", .over = "model.name", .group = "Segment", .help = "the network"},
    {"ordered.mode", NULL, 0, TACHY_OPT_ENUM, "mask", .values = "mask", .over = "segment.mode", .group = "Segment", .help = "what is written"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&nothing, &nothing},
    {&tachy_stage_preprocess, &tachy_stage_preprocess_cuda},
    {&tachy_stage_model, &tachy_stage_model_cuda},
    {&tachy_stage_mask, &tachy_stage_mask_cuda},
    {&tachy_stage_composite, &tachy_stage_composite_cuda},
    {0},
};

const struct tachy_task_ops tachy_task_ordered = {
    .info = {.name = "ordered", .summary = "masks, in order", .details = "Masks after a stage that does nothing, in order."},
    .options = options,
    .stages = stages,
};

static void print_log(void *user, enum tachy_log_level level, const char *msg) { fprintf(stderr, "%s\n", msg); }
static const struct tachy_log say = {.fn = print_log, .max_level = TACHY_LOG_WARN};

static int settings_of(tachy_settings **out, bool device, const char *clip, const char *summary, char **more, int n)
{
    const char *const with[][2] = {
        {"input.files", clip},   {"output.file", "-"},      {"output.format", "null"}, {"run.calibrate", device ? "no" : "yes"},
        {"run.json", summary},   {"output.overwrite", "yes"}, {"gpu.device", device ? "cuda" : "cpu"}};
    tachy_settings *s = NULL;
    int err = tachy_settings_new(&s, &say);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with) && err == TACHY_OK; i++)
        err = tachy_settings_set(s, with[i][0], with[i][1], "the bench");
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        char key[128], *value = strchr(more[i], '=');
        snprintf(key, sizeof(key), "%.*s", value ? (int)(value - more[i]) : 0, more[i]);
        err = value ? tachy_settings_set(s, key, value + 1, "the bench") : TACHY_ERR_INVAL;
    }
    *out = s;
    return err;
}

// One run: its frames per second, or its light ratio.
static int measure(const tachy_settings *s, const char *path, const char *figure, double *value)
{
    tachy_job *j = NULL;
    int err = tachy_job_open(&j, tachy_job_params(.task = "ordered", .settings = s, .log = &say));
    if (err == TACHY_OK)
        err = tachy_job_run(j);
    tachy_job_close(&j);
    json_t *o = err == TACHY_OK ? json_load_file(path, 0, NULL) : NULL;
    *value = json_number_value(json_object_get(o, figure));
    json_decref(o);
    return err == TACHY_OK && *value <= 0 ? TACHY_ERR_STATE : err;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
    return v[n / 2];
}

static int bench(const tachy_settings *s, const char *summary, int rounds, bool device)
{
    double value[MOST];
    for (int i = 0; i < rounds; i++) {
        int err = measure(s, summary, device ? "fps" : "light_ratio", &value[i]);
        if (err == TACHY_ERR_UNAVAILABLE && device)
            return 77;
        if (err < 0)
            return 1;
    }
    double middle = median(value, rounds);
    bool holds = device || middle >= 0.92;
    if (device)
        printf("ordered    %.1f frames/s, median of %d\n", middle, rounds);
    else
        printf("ordered    light ratio %.3f (at least 0.92 at 720p), median of %d: %s\n", middle, rounds,
               holds ? "holds" : "does not hold");
    return !holds;
}

int main(int argc, char **argv)
{
    bool device = false;
    int rounds = 5, i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--device"))
            device = true;
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            break;
    }
    if (i >= argc || argv[i][0] == '-' || rounds < 1 || rounds > MOST) {
        fprintf(stderr, "usage: ordered [--device] [--rounds N] CLIP [SETTING=VALUE]...\n");
        return 2;
    }
    char summary[] = "/tmp/tachy-ordered-XXXXXX";
    int fd = mkstemp(summary);
    if (fd < 0)
        return 1;
    close(fd);
    tachy_settings *s = NULL;
    int status = settings_of(&s, device, argv[i], summary, argv + i + 1, argc - i - 1) < 0 ? 2 : bench(s, summary, rounds, device);
    tachy_settings_free(&s);
    unlink(summary);
    return status;
}
