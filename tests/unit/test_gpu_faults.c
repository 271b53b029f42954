#include "test.h"

#include "fakes/fake.h"
#include "fakes/marks.h"
#include "fakes/symbol.h"
#include "engine/engine_ops.h"
#include "media/device.h"
#include "pipeline/pipeline.h"
#include "preprocess/signature_cuda.h"
#include "sink/nvenc.h"
#include "sink/sink_ops.h"

#include <signal.h>
#include <tachy/run.h>
#include <tachy/settings.h>
#include <unistd.h>

// Whatever the driver refuses, a run of segment ends well. Each of its calls fails once (fakes/), as a real driver's
// allocations, copies, streams, events, contexts and launches may, by a transient or a persistent error. Every run
// ends, logs the failure with the right code or continues correctly, leaks nothing, and the next run works.
// TACHY_FAULTS=all, or a job's name: each of its calls, with a line about each; else a sample.

enum { W = 64, H = 32, FRAMES = 10, CLIP = 3, DEVICES = 2, STREAMS = 2, HANGS_S = 60 };

// ---- The driver

static struct {
    __typeof__(fake_cuda_count) *count;
    __typeof__(fake_cuda_list) *list;
    __typeof__(fake_cuda_fail_at) *fail_at;
    __typeof__(fake_cuda_failed) *failed;
    __typeof__(fake_cuda_depth) *depth;
    __typeof__(fake_cuda_one_by_one) *one_by_one;
} fake;

static void *symbol(const char *name) { return fake_symbol("libcuda.so.1", name); }

static void find_fake(void)
{
    fake.count = (__typeof__(fake.count))symbol("fake_cuda_count");
    fake.list = (__typeof__(fake.list))symbol("fake_cuda_list");
    fake.fail_at = (__typeof__(fake.fail_at))symbol("fake_cuda_fail_at");
    fake.failed = (__typeof__(fake.failed))symbol("fake_cuda_failed");
    fake.depth = (__typeof__(fake.depth))symbol("fake_cuda_depth");
    fake.one_by_one = (__typeof__(fake.one_by_one))symbol("fake_cuda_one_by_one");
    launch = (__typeof__(launch))symbol("fake_cuda_launch");
}

// ---- Messages

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char first_error[400]; // of a run
static int errors;
static const char *failed_call;

static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    pthread_mutex_lock(&lock);
    if (level == TACHY_LOG_ERR && !errors++)
        snprintf(first_error, sizeof(first_error), "%s", msg);
    pthread_mutex_unlock(&lock);
}
static const struct tachy_log to_here = {.fn = on_message, .max_level = TACHY_LOG_WARN};

// ---- The engine: if the provider takes a stream, each run is queued there, and h counts them

enum { SIDE = 16, IN_X = 0, IN_H, OUT_Y = 0, OUT_H };
static _Atomic int runs; // of the job, by a recurrent model; -1: it goes on from those of another

static struct tachy_io io_of(const char *name, int batch, int side)
{
    struct tachy_io io = {.name = name, .spec = {.dtype = TACHY_F32, .rank = 4, .shape = {batch, side, side, 1}}};
    return io;
}

static int model_open(tachy_engine *e)
{
    int batch = TACHY_MAX(e->params.batch_max, 1);
    bool counts = strstr(e->params.model_path, "counts");
    e->stream = e->params.gpu_stream;
    e->on_device = e->stream != NULL;
    e->n_in = e->n_out = counts ? 2 : 1;
    e->in[IN_X] = io_of("x", batch, SIDE);
    e->out[OUT_Y] = io_of("y", batch, SIDE);
    e->in[IN_H] = io_of("h_in", 1, 1);
    e->out[OUT_H] = io_of("h_out", 1, 1);
    return TACHY_OK;
}

static int model_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    int status = e->stream ? launch(e->stream, KERNEL_NS) : CUDA_OK;
    if (status)
        return status == CUDA_OUT_OF_MEMORY ? tachy_fail(&to_here, TACHY_ERR_NOMEM, "the model has no memory left")
                                            : tachy_fail(&to_here, TACHY_ERR_EXTERNAL, "the model cannot be queued");
    if (!e->stream)
        for (size_t i = 0; i < tachy_tensor_bytes(&out[OUT_Y]) / sizeof(float); i++)
            ((float *)out[OUT_Y].data)[i] = 200.0f / 255;
    if (e->n_in == 2) {
        float h = *(const float *)in[IN_H].data;
        runs = runs < 0 ? (int)h : runs;
        wrong += h != (float)runs++;
        *(float *)out[OUT_H].data = h + 1;
    }
    return TACHY_OK;
}

static void model_close(tachy_engine *e) {}

const struct tachy_engine_ops tachy_engine_ep = {.name = "", .needs_model = true, .open = model_open, .run = model_run,
                                                 .close = model_close};
bool tachy_engine_takes_stream(const char *name) { return name && !strcmp(name, "cuda-ort"); }

// ---- A job

struct job {
    const char *name, *mode;
    bool on_gpu; // decoded frames are
    int workers, devices; // 0: 1
    bool smooth, refine;
    const char *model, *provider, *behind; // NULL: tiny, null, a picture
    enum tachy_pix format;                 // 0: NV12
    int batch, streams, in_turn;           // of streams at once, and one after the other; 0: 1
    const char *file;                      // that tachy_run() writes; "-": none; NULL: a stream without a run
    bool calibrate, encodes, resume, one_by_one;
    int every;                             // of its calls, if there are too many; 0: 1
    int (*other)(const tachy_frame *first); // in the place of segment, with the first frame; NULL: it is segment
};

static char folder[64];

static void remove_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

static tachy_settings *settings_of(const struct job *job)
{
    tachy_settings *set = NULL;
    char picture[128];
    snprintf(picture, sizeof(picture), "%s/%s", folder, job->behind ? job->behind : "behind.ppm");
    const char *const with[][2] = {{"model.name", job->model ? job->model : "tiny"}, {"model.dir", folder},
                                   {"model.provider", job->provider ? job->provider : "null"},
                                   {"segment.background", strcmp(job->mode, "replace") ? "black" : picture},
                                   {"segment.mode", job->mode}, {"gpu.device", "cuda"},
                                   {"segment.smooth", job->smooth ? "0.5" : "0"},
                                   {"segment.refine", job->refine ? "yes" : "no"}, {"gpu.ids", "all"}};
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    return set;
}

static uint8_t byte_of(int64_t id) { return (uint8_t)(id * STEP + 5); }

static enum tachy_pix format_of(const struct job *job) { return TACHY_DEF(job->format, TACHY_PIX_NV12); }
static int devices_of(const struct job *job) { return TACHY_MAX(job->devices, 1); }

// The decoder's side, which no fault concerns.
struct input {
    struct tachy_gpu *gpu[DEVICES];
    tachy_frame_pool *pool[DEVICES];
    tachy_frame *frame[FRAMES];
};

struct guest {
    const struct input *in;
    tachy_stream *to;
    pthread_t thread;
};

static void open_input(struct input *in, const struct job *job)
{
    *in = (struct input){0};
    for (int i = 0; i < devices_of(job); i++) {
        CHECK_INT(tachy_gpu_open(&in->gpu[i], i, NULL, &to_here), TACHY_OK);
        struct tachy_gpu *g = job->on_gpu ? in->gpu[i] : NULL;
        CHECK_INT(tachy_frame_pool_open_gpu(&in->pool[i], g, format_of(job), W, H), TACHY_OK);
        if (!job->on_gpu)
            tachy_gpu_unref(&in->gpu[i]);
    }
    for (int64_t i = 0; i < FRAMES; i++) {
        tachy_frame *f = NULL;
        CHECK_INT(tachy_frame_pool_get(in->pool[i / 2 % devices_of(job)], &f), TACHY_OK);
        tachy_frame_writable(f, 0)[0] = byte_of(i);
        f->id = i;
        f->pts = i * 10;
        in->frame[i] = f;
    }
}

static void close_input(struct input *in)
{
    for (int i = 0; i < FRAMES; i++)
        tachy_frame_unref(&in->frame[i]);
    for (int i = 0; i < DEVICES; i++) {
        tachy_frame_pool_close(&in->pool[i]);
        tachy_gpu_unref(&in->gpu[i]);
    }
}

static void *feed(void *arg)
{
    struct guest *g = arg;
    for (int i = 0; i < FRAMES; i++)
        if (tachy_stream_push(g->to, g->in->frame[i]) < 0)
            break;
    tachy_stream_push(g->to, NULL);
    return NULL;
}

// All pictures that came out are right, whatever happened.
static void check_pulled(const struct job *job, int n, const tachy_frame *f, const struct tachy_result *r)
{
    CHECK(r->frame_id == n && r->pts == n * 10 && r->eyes == 1);
    if (f && strcmp(job->mode, "mask"))
        CHECK_INT(f->data[0][0], byte_of(n));
    CHECK(r->mask[0].data[0] == 200);
    CHECK(!f || r->coverage == (float)COUNT / (W * H));
}

static int pull_all(tachy_stream *s, const struct job *job)
{
    for (int n = 0;; n++) {
        tachy_frame *f;
        const struct tachy_result *r;
        int err = tachy_stream_pull(s, &f, &r);
        if (err < 0 && err != TACHY_ERR_EOF)
            return err;
        if (err == TACHY_ERR_EOF) {
            CHECK_INT(n, FRAMES);
            return TACHY_OK;
        }
        check_pulled(job, n, f, r);
        tachy_frame_unref(&f);
    }
}

// Streams at once; one that the fault spares is whole.
static int run_guests(tachy_pipeline *p, tachy_task *t, const struct job *job, const struct input *in)
{
    struct guest g[STREAMS] = {0};
    int n = 0, err = TACHY_OK;
    struct tachy_video_info video = {.format = format_of(job), .width = W, .height = H, .time_base = {1, 250},
                                     .fps = {25, 1}, .mem = job->on_gpu ? TACHY_DEVICE : TACHY_HOST};
    for (int i = 0; i < TACHY_MAX(job->streams, 1) && err == TACHY_OK; i++) {
        g[n].in = in;
        err = tachy_pipeline_join(p, &g[n].to, tachy_stream_params(.task = t, .input = video));
        CHECK((err == TACHY_OK) == !!g[n].to);
        if (err == TACHY_OK)
            pthread_create(&g[n].thread, NULL, feed, &g[n]);
        n += err == TACHY_OK;
    }
    for (int i = 0; i < n; i++) {
        int end = pull_all(g[i].to, job);
        err = err < 0 ? err : end;
    }
    for (int i = 0; i < n; i++) {
        pthread_join(g[i].thread, NULL);
        tachy_stream_leave(&g[i].to);
    }
    return err;
}

static int run_streams(tachy_task *t, const struct job *job, const struct input *in)
{
    tachy_pipeline *p = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = TACHY_MAX(job->workers, 1), .batch = job->batch,
                                                        .log = &to_here)), TACHY_OK);
    int err = run_guests(p, t, job, in);
    for (int i = 1; i < job->in_turn; i++) { // with the workers and the memory of those before
        int end = run_guests(p, t, job, in);
        err = err < 0 ? err : end;
    }
    tachy_pipeline_close(&p);
    return err;
}

// One of each frame, in order.
static void check_lines(const char *path)
{
    char line[512], begin[32];
    FILE *f = fopen(path, "r");
    int n = 0;
    for (; f && fgets(line, sizeof(line), f); n++) {
        snprintf(begin, sizeof(begin), "{\"frame\":%d,", n);
        CHECK(!strncmp(line, begin, strlen(begin)) && strchr(line, '\n'));
    }
    CHECK(f && n == FRAMES);
    if (f)
        fclose(f);
}

// From the host's source to a file, with NVENC if that can be.
static int run_file(tachy_task *t, const struct job *job)
{
    char path[128], url[128];
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    struct tachy_summary sum;
    bool null = !strcmp(job->file, "-");
    snprintf(path, sizeof(path), null ? "-" : "%s/%s", folder, job->file);
    snprintf(url, sizeof(url), "%s/in.y4m", folder);
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = url, .log = &to_here)), TACHY_OK);
    const struct tachy_sink_params out = {.url = path, .format = null ? "null" : NULL, .preset = null ? NULL : "ultrafast",
                                          .overwrite = !job->resume, .resume = job->resume,
                                          .part_frames = job->resume ? 3 : 0, .on_gpu = true, .log = &to_here};
    CHECK_INT(tachy_sink_open(&sink, &out), TACHY_OK);
    const struct tachy_run_params params = {.task = t, .source = source, .sink = sink, .workers = TACHY_MAX(job->workers, 1),
                                            .batch = job->batch, .calibrate = job->calibrate, .cache_dir = folder,
                                            .log = &to_here};
    int err = tachy_run(&params, &sum);
    CHECK(err < 0 || sum.frames + sum.resumed == FRAMES);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    CHECK(err < 0 || null || access(path, F_OK) == 0);
    if (job->resume && err == TACHY_OK)
        check_lines(path);
    unlink(path);
    remove_file("light.json");
    remove_file("gpu-rates.json");
    return err;
}

// Runs the job with the fault and returns its code.
static int run(const struct job *job, int at, int status, int how, int *calls)
{
    struct input in;
    tachy_task *t = NULL;
    int depth = fake.depth(), wrong_before = wrong;
    const struct fake_cuda_counts before = *fake.count();
    errors = 0;
    first_error[0] = '\0';
    fake.list(devices_of(job));
    fake.one_by_one(job->one_by_one);
    runs = job->resume ? -1 : 0;
    open_input(&in, job);
    tachy_settings *set = settings_of(job);
    fake.fail_at(at, status, how);
    int err = job->other ? job->other(in.frame[0]) : tachy_task_open(&t, "segment", set, &to_here);
    if (err == TACHY_OK && t)
        err = job->file ? run_file(t, job) : run_streams(t, job, &in);
    tachy_task_close(&t);
    CHECK_INT(fake.depth(), depth);
    close_input(&in); // the last to hold the context
    tachy_settings_free(&set);
    CHECK(err < 0 || wrong == wrong_before);
    const struct fake_cuda_counts *c = fake.count();
    CHECK_INT(c->contexts, before.contexts);
    CHECK_INT(c->allocations, before.allocations);
    CHECK_INT(c->events, before.events);
    CHECK_INT(c->streams, before.streams);
    failed_call = fake.failed();
    *calls = fake.fail_at(-1, 0, FAKE_ONCE);
    return err;
}

// ---- The sweep

// The job all of whose calls are tried; NULL: a sample of all.
static const char *asked_for(void)
{
    const char *name = getenv("TACHY_FAULTS");
    return name && *name ? name : NULL;
}

static const struct fault {
    int status, code; // and what it is to be of ours
    int how;
} faults[] = {
    {CUDA_OUT_OF_MEMORY, TACHY_ERR_NOMEM, FAKE_ONCE},
    {CUDA_INVALID_VALUE, TACHY_ERR_EXTERNAL, FAKE_ONCE},
    {700, TACHY_ERR_EXTERNAL, FAKE_STAYS},        // CUDA_ERROR_ILLEGAL_ADDRESS
    {719, TACHY_ERR_EXTERNAL, FAKE_STAYS | FAKE_INSIDE}, // CUDA_ERROR_LAUNCH_FAILED
};

static char at_work[160];
static void hangs(int sig)
{
    ssize_t n = write(2, at_work, strlen(at_work));
    _exit(n < 0 ? 2 : 1);
}

// False: the run had no such call.
static bool try_one(const struct job *job, const struct fault *fault, int at, bool all)
{
    int calls, failures = test_failures, taken = fake.count()->taken_along;
    snprintf(at_work, sizeof(at_work), "%s, call %d, status %d: the run hangs\n", job->name, at, fault->status);
    alarm(HANGS_S);
    // FFmpeg's encoder leaks everything, including its reference to the context, if that cannot be made current when
    // the encoder is closed.
    int err = run(job, at, fault->status, fault->how | (job->encodes ? FAKE_INSIDE : 0), &calls);
    alarm(0);
    if (!failed_call)
        return false;
    bool by_ffmpeg = job->encodes && err == TACHY_ERR_EXTERNAL; // which names no other
    CHECK(err == TACHY_OK || err == fault->code || by_ffmpeg);
    CHECK(err == TACHY_OK || (errors && strlen(first_error) > 20));
    taken = fake.count()->taken_along - taken;
    bool kept = fault->how & FAKE_STAYS || !strcmp(failed_call, "cuCtxPushCurrent_v2"); // nothing can be given back
    CHECK(!taken || kept);
    if (all || test_failures > failures)
        printf("%s%s, call %d (%s), status %d: %s, %d taken along; %s\n", test_failures > failures ? "WRONG " : "", job->name,
               at, failed_call, fault->status, tachy_err_name(err), taken, first_error);
    if (job->resume && err < 0) // continues after the existing parts
        CHECK_INT(run(job, -1, 0, FAKE_ONCE, &calls), TACHY_OK);
    return true;
}

static void sweep(const struct job *job)
{
    const char *asked = asked_for();
    bool all = asked;
    int calls, step = TACHY_MAX(job->every, 1) * (all ? 1 : 61);
    if (all && strcmp(asked, "all") && strcmp(asked, job->name))
        return;
    CHECK_INT(run(job, -1, 0, FAKE_ONCE, &calls), TACHY_OK);
    CHECK_INT(errors, 0);
    printf("%s: %d calls\n", job->name, calls);
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(faults); k++) {
        for (int at = all ? 0 : (int)k * 3; try_one(job, &faults[k], at, all); at += step)
            ;
        CHECK_INT(run(job, -1, 0, FAKE_ONCE, &calls), TACHY_OK);
    }
}

TEST(masks)
{
    sweep(&(struct job){"masks", "mask", .on_gpu = true});
    sweep(&(struct job){"masks of the host's frames", "mask", .workers = 1});
}

TEST(cutouts)
{
    sweep(&(struct job){"cutouts", "cutout", .on_gpu = true, .workers = 2});
    sweep(&(struct job){"cutouts, refined and smoothed", "cutout", .on_gpu = true, .workers = 2, .smooth = true,
                        .refine = true});
}

TEST(two_streams)
{
    sweep(&(struct job){"two streams", "cutout", .on_gpu = true, .workers = 2, .streams = 2, .in_turn = 2,
                        .one_by_one = true});
    sweep(&(struct job){"two streams, refined and smoothed", "cutout", .workers = 2, .smooth = true, .refine = true,
                        .streams = 2});
}

TEST(lines)
{
    sweep(&(struct job){"lines", "json", .on_gpu = true, .smooth = true});
}

static bool has_nvenc(void)
{
    char why[300];
    const AVCodec *c = avcodec_find_encoder_by_name("h264_nvenc");
    tachy_av_quiet();
    return HAVE_NVENC_HEADER && c && tachy_nvenc_try(c, NULL, AV_PIX_FMT_NV12, 128, 64, why, sizeof(why)) == TACHY_OK;
}

// The signature by which --frame-skip compares frames.
static int make_signature(const tachy_frame *first)
{
    struct tachy_signature_gpu *g = NULL;
    struct tachy_signature s;
    int err = tachy_signature_make_gpu(&g, &s, first, NULL, &to_here);
    CHECK(err < 0 || s.cell[0] == byte_of(0));
    tachy_signature_gpu_close(&g);
    return err;
}

// NVDEC is asked what it decodes, and FFmpeg for a context; then the host decodes, since the fake cannot.
static int decode(const tachy_frame *first)
{
    char url[128];
    int n = 0, err;
    tachy_source *s = NULL;
    tachy_frame *f;
    snprintf(url, sizeof(url), "%s/clip.mp4", folder);
    err = tachy_source_open(&s, tachy_source_params(.url = url, .on_gpu = true, .log = &to_here));
    for (; err == TACHY_OK && (err = tachy_source_read(s, &f)) == TACHY_OK; n++)
        tachy_frame_unref(&f);
    CHECK(err != TACHY_ERR_EOF || n == CLIP);
    tachy_source_close(&s);
    return err == TACHY_ERR_EOF ? TACHY_OK : err;
}

TEST(beside_segment)
{
    char command[300];
    sweep(&(struct job){"a signature", "mask", .on_gpu = true, .other = make_signature});
    snprintf(command, sizeof(command), "ffmpeg -nostdin -v error -f lavfi -i testsrc2=s=64x64 -frames:v %d -pix_fmt yuv420p "
             "-c:v libx264 %s/clip.mp4", CLIP, folder);
    if (system(command) == 0)
        sweep(&(struct job){"a decoder", "mask", .other = decode});
    remove_file("clip.mp4");
}

TEST(models)
{
    sweep(&(struct job){"a model on the GPU", "mask", .on_gpu = true, .workers = 2, .provider = "cuda-ort"});
    sweep(&(struct job){"a recurrent one", "cutout", .on_gpu = true, .workers = 2, .model = "counts", .provider = "cuda-ort"});
    sweep(&(struct job){"a recurrent one on two devices", "mask", .on_gpu = true, .workers = 2, .devices = 2, .model = "counts",
                        .provider = "cuda-ort"});
    sweep(&(struct job){"a model on the host", "cutout", .on_gpu = true, .provider = "openvino", .refine = true});
    sweep(&(struct job){"batches", "cutout", .on_gpu = true, .workers = 2, .provider = "openvino", .batch = 3});
}

TEST(pictures_behind)
{
    sweep(&(struct job){"a picture behind", "replace", .on_gpu = true});
    sweep(&(struct job){"a video behind", "replace", .on_gpu = true, .devices = 2, .behind = "behind.y4m"});
    sweep(&(struct job){"RGB", "replace", .smooth = true, .refine = true, .format = TACHY_PIX_RGB24});
    sweep(&(struct job){"RGB, blurred", "blur", .format = TACHY_PIX_RGB24});
}

TEST(files)
{
    sweep(&(struct job){"a run", "cutout", .workers = 2, .file = "-"});
    if (asked_for()) // hundreds of thousands of calls, for half a second
        sweep(&(struct job){"a calibrated run", "cutout", .file = "-", .calibrate = true, .every = 4001});
    sweep(&(struct job){"a resumed run", "json", .smooth = true, .model = "counts", .provider = "cuda-ort",
                        .file = "out.json", .resume = true, .every = 3}); // it waits for the disk
    if (has_nvenc())
        sweep(&(struct job){"an encoded run", "cutout", .file = "out.mp4", .encodes = true});
}

TEST(two_devices)
{
    sweep(&(struct job){"two devices", "cutout", .on_gpu = true, .workers = 2, .devices = 2, .smooth = true,
                        .refine = true});
    sweep(&(struct job){"two devices, the host's frames", "cutout", .workers = 2, .devices = 2, .smooth = true, .refine = true});
}

static void write_grey(const char *name, const char *head, int n, int grey)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fputs(head, f);
    for (int i = 0; i < n; i++)
        fputc(grey, f);
    fclose(f);
}

static void write_video(const char *name, int width, int height, const char *fps, int frames, bool numbered)
{
    char path[128];
    int luma = width * height;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fprintf(f, "YUV4MPEG2 W%d H%d F%s Ip A1:1 C420jpeg\n", width, height, fps);
    for (int i = 0; i < frames; i++) {
        fputs("FRAME\n", f);
        for (int k = 0; k < luma * 3 / 2; k++)
            fputc(!k && numbered ? byte_of(i) : k < luma ? GREY : 128, f);
    }
    fclose(f);
}

TEST(opens)
{
    snprintf(folder, sizeof(folder), "/tmp/test_gpu_faults-XXXXXX");
    CHECK(mkdtemp(folder));
    test_write(folder, "tiny.json", "{\"name\": \"tiny\", \"task\": \"segment\", \"file\": \"tiny.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"meaning\": "
               "\"probability\"}}");
    test_write(folder, "counts.json", "{\"name\": \"counts\", \"task\": \"segment\", \"file\": \"counts.onnx\", \"input\": "
               "{\"name\": \"x\", \"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": "
               "{\"name\": \"y\", \"meaning\": \"probability\"}, \"state\": [{\"input\": \"h_in\", \"output\": \"h_out\", "
               "\"shape\": [1, 1, 1, 1]}]}");
    test_write(folder, "tiny.onnx", "no model"); // nobody reads them
    test_write(folder, "counts.onnx", "no model");
    write_grey("behind.ppm", "P6 4 2 255\n", 4 * 2 * 3, 128);
    write_video("behind.y4m", W / 2, H / 4, "25:2", 3, false); // of another size and format than the stream's
    write_video("in.y4m", 2 * W, 2 * H, "25:1", FRAMES, true);
    signal(SIGALRM, hangs);
}

TEST(cleans)
{
    static const char *const names[] = {"tiny.json", "tiny.onnx", "counts.json", "counts.onnx", "behind.ppm", "behind.y4m", "in.y4m"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        remove_file(names[i]);
    rmdir(folder);
}

int main(void)
{
    find_fake();
    static const struct test_case cases[] = {TEST_CASE(opens), TEST_CASE(masks), TEST_CASE(cutouts), TEST_CASE(two_streams), TEST_CASE(lines),
                                             TEST_CASE(two_devices), TEST_CASE(files), TEST_CASE(models), TEST_CASE(pictures_behind),
                                             TEST_CASE(beside_segment), TEST_CASE(cleans)};
    return test_run(cases, TACHY_ARRAY_SIZE(cases));
}
