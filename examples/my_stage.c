// A stage of your own. It measures the share of moving pixels in each picture and adds it to the frame's result as the
// value "motion".
//
//   my_stage VIDEO       runs segment with this stage and prints the number and the motion of each frame
//
// The same file, built as a shared library, works with the command: tachy segment in.mp4 --mode json --stage ./my_stage.so
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/pipeline.h>
#include <tachy/run.h>
#include <tachy/stage.h>

enum { MOVES = 24 }; // steps of brightness (of 255) from which a pixel counts as moving

// The brightness of a stream's last frame.
struct motion {
    int width, height;
    bool known; // there is a last frame
    uint8_t luma[];
};

static int state_open(void *priv, const struct tachy_video_info *in, void **state)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(in->format);
    if (!d || d->rgb || d->bits != 8)
        return TACHY_ERR_UNSUPPORTED; // the first plane is not one byte of brightness a pixel
    struct motion *m = calloc(1, sizeof(*m) + (size_t)in->width * (size_t)in->height);
    if (!m)
        return TACHY_ERR_NOMEM;
    m->width = in->width;
    m->height = in->height;
    *state = m;
    return TACHY_OK;
}

// For --resume. The state holds no pointers, so its bytes can be saved as they are.
static size_t size_of(const struct motion *m) { return sizeof(*m) + (size_t)m->width * (size_t)m->height; }

static int state_save(const void *state, void **data, size_t *size)
{
    *size = size_of(state);
    *data = malloc(*size);
    if (!*data)
        return TACHY_ERR_NOMEM;
    memcpy(*data, state, *size);
    return TACHY_OK;
}

static int state_load(void *state, const void *data, size_t size)
{
    if (size != size_of(state))
        return TACHY_ERR_FORMAT;
    memcpy(state, data, size);
    return TACHY_OK;
}

static int run(void *priv, void *state, struct tachy_item *item)
{
    const tachy_frame *f = tachy_item_frame(item);
    struct motion *m = state;
    int64_t moving = 0;
    if (tachy_item_restarts(item))
        m->known = false;
    for (int y = 0; y < m->height; y++) {
        const uint8_t *now = f->data[0] + y * f->stride[0];
        uint8_t *last = m->luma + (size_t)y * (size_t)m->width;
        for (int x = 0; x < m->width; x++) {
            moving += m->known && abs(now[x] - last[x]) >= MOVES;
            last[x] = now[x];
        }
    }
    m->known = true;
    return tachy_item_set_value(item, "motion", (double)moving / ((double)m->width * m->height));
}

// `--stage ./my_stage.so` loads this symbol; the program below registers it itself.
#ifdef MY_STAGE_LIBRARY
TACHY_API
#else
static
#endif
const struct tachy_stage_def tachy_stage = {
    .version = TACHY_STAGE_VERSION,
    .name = "motion",
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS,
    .state_open = state_open,
    .state_close = free,
    .state_save = state_save,
    .state_load = state_load,
    .run = run,
};

#ifndef MY_STAGE_LIBRARY
static void print_log(void *user, enum tachy_log_level level, const char *msg) { fprintf(stderr, "%s\n", msg); }

static const struct tachy_log log_to_stderr = {.fn = print_log, .max_level = TACHY_LOG_WARN};

static int open_task(tachy_task **task)
{
    tachy_settings *settings = NULL;
    int err = tachy_stage_register(&tachy_stage, &log_to_stderr);
    if (err == TACHY_OK)
        err = tachy_settings_new(&settings, &log_to_stderr);
    if (err == TACHY_OK)
        err = tachy_settings_set(settings, "task.stages", "motion", NULL);
    if (err == TACHY_OK)
        err = tachy_settings_set(settings, "segment.mode", "mask", NULL);
    if (err == TACHY_OK)
        err = tachy_task_open(task, "segment", settings, &log_to_stderr);
    tachy_settings_free(&settings);
    return err;
}

static void print_values(const struct tachy_result *r)
{
    printf("%lld", (long long)r->frame_id);
    for (int i = 0; i < r->nb_values; i++)
        printf(" %s %.6f", r->values[i].name, r->values[i].value);
    printf("\n");
}

// One frame in, one result out: simple, and slower than a thread that pushes.
static int run_frames(tachy_source *source, tachy_pipeline *pipeline)
{
    const struct tachy_result *result;
    tachy_frame *frame = NULL;
    int err;
    while ((err = tachy_source_read(source, &frame)) == TACHY_OK) {
        err = tachy_pipeline_push(pipeline, frame);
        tachy_frame_unref(&frame);
        if (err == TACHY_OK)
            err = tachy_pipeline_pull(pipeline, NULL, &result);
        if (err < 0)
            return err;
        print_values(result);
    }
    return err == TACHY_ERR_EOF ? TACHY_OK : err;
}

int main(int argc, char **argv)
{
    tachy_source *source = NULL;
    tachy_pipeline *pipeline = NULL;
    tachy_task *task = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: my_stage VIDEO\n");
        return 2;
    }
    int err = open_task(&task);
    if (err == TACHY_OK)
        err = tachy_source_open(&source, tachy_source_params(.url = argv[1], .log = &log_to_stderr));
    if (err == TACHY_OK)
        err = tachy_pipeline_open(&pipeline, tachy_pipeline_params(.task = task, .input = *tachy_source_info(source),
                                                                   .log = &log_to_stderr));
    if (err == TACHY_OK)
        err = run_frames(source, pipeline);
    if (err < 0)
        fprintf(stderr, "my_stage: %s\n", tachy_err_text(err));
    tachy_pipeline_close(&pipeline);
    tachy_source_close(&source);
    tachy_task_close(&task);
    return err < 0;
}
#endif
