// Feeds a pipeline with frames from one's own code (here: raw RGB from standard input, as a camera's
// or game's interface would deliver them) and takes the results back while more are pushed.
//
//   ffmpeg -i in.mp4 -f rawvideo -pix_fmt rgb24 - | push_pull 1280x720 [OUT.rgb]
//
// Prints a line a frame: number and share of the picture that is person. OUT.rgb receives the
// composited pictures, raw again.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tachy/run.h>

static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

static const struct tachy_log log_to_stderr = {.fn = print_log, .max_level = TACHY_LOG_WARN};

struct feed {
    tachy_pipeline *pipeline;
    int width, height;
    int err; // of the pushing thread; read after it was joined
};

// Reads one picture from standard input. The frame wraps our memory and gives it back through
// `release` when the library no longer needs it: no pixel is copied. NULL at the end.
static tachy_frame *next_frame(const struct feed *feed, int64_t number)
{
    size_t size = (size_t)feed->width * (size_t)feed->height * 3;
    uint8_t *pixels = malloc(size);
    tachy_frame *frame = NULL;
    if (!pixels || fread(pixels, 1, size, stdin) != size) {
        free(pixels);
        return NULL;
    }
    int err = tachy_frame_new(&frame, &(struct tachy_frame_params){.format = TACHY_PIX_RGB24,
                                                                   .width = feed->width,
                                                                   .height = feed->height,
                                                                   .pts = number,
                                                                   .duration = 1,
                                                                   .data = {pixels},
                                                                   .stride = {feed->width * 3},
                                                                   .release = free,
                                                                   .user = pixels});
    if (err < 0)
        free(pixels); // after a failure the memory is still ours
    return frame;
}

// The pushing thread: push blocks while the pipeline is full, so memory stays bounded.
static void *push_all(void *arg)
{
    struct feed *feed = arg;
    int64_t number = 0;
    for (tachy_frame *frame; feed->err == TACHY_OK && (frame = next_frame(feed, number));) {
        frame->id = number++;
        feed->err = tachy_pipeline_push(feed->pipeline, frame);
        tachy_frame_unref(&frame); // the pipeline took its own reference
    }
    int end = tachy_pipeline_push(feed->pipeline, NULL);
    feed->err = feed->err < 0 ? feed->err : end;
    return NULL;
}

static void write_picture(FILE *out, const tachy_frame *frame)
{
    for (int y = 0; out && y < frame->height; y++)
        fwrite(frame->data[0] + y * frame->stride[0], 3, (size_t)frame->width, out);
}

static int pull_all(tachy_pipeline *pipeline, FILE *out)
{
    for (;;) {
        tachy_frame *frame = NULL;
        const struct tachy_result *result;
        int err = tachy_pipeline_pull(pipeline, &frame, &result);
        if (err < 0)
            return err == TACHY_ERR_EOF ? TACHY_OK : err;
        printf("%lld %.4f\n", (long long)result->frame_id, result->coverage);
        if (frame)
            write_picture(out, frame);
        tachy_frame_unref(&frame);
    }
}

static int run(tachy_task *task, int width, int height, FILE *out)
{
    struct tachy_video_info input = {.format = TACHY_PIX_RGB24,
                                     .width = width,
                                     .height = height,
                                     .time_base = {1, 25},
                                     .fps = {25, 1},
                                     .stereo = TACHY_STEREO_MONO};
    struct feed feed = {.width = width, .height = height};
    int err = tachy_pipeline_open(
        &feed.pipeline, tachy_pipeline_params(.task = task, .input = input, .log = &log_to_stderr));
    if (err < 0)
        return err;
    pthread_t thread;
    if (pthread_create(&thread, NULL, push_all, &feed) != 0) {
        tachy_pipeline_close(&feed.pipeline);
        return TACHY_ERR_NOMEM;
    }
    err = pull_all(feed.pipeline, out);
    pthread_join(thread, NULL);
    tachy_pipeline_close(&feed.pipeline);
    return err < 0 ? err : feed.err;
}

int main(int argc, char **argv)
{
    int width, height;
    if (argc < 2 || sscanf(argv[1], "%dx%d", &width, &height) != 2 || width < 1 || height < 1) {
        fprintf(stderr, "usage: %s WIDTHxHEIGHT [OUT.rgb] <frames.rgb\n", argv[0]);
        return 2;
    }
    FILE *out = argc > 2 ? fopen(argv[2], "wb") : NULL;
    if (argc > 2 && !out) {
        perror(argv[2]);
        return 1;
    }
    tachy_task *task = NULL;
    int err = tachy_task_open(&task, "segment", NULL, &log_to_stderr);
    if (err == TACHY_OK)
        err = run(task, width, height, out);
    tachy_task_close(&task);
    if (out && fclose(out) != 0) {
        perror(argv[2]);
        return 1;
    }
    return err == TACHY_OK ? 0 : 1;
}
