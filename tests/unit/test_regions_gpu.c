#include "test.h"

#include "base/clock.h"
#include "cuda/kernels.h"
#include "engine/engine_ops.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/device.h"
#include "pipeline/pipeline.h"
#include "ref/ref_draw.h"

#include <math.h>
#include <tachy/run.h>
#include <tachy/settings.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <unistd.h>

// detect, track and faces on a GPU over a driver without one (fakes/): the networks are engines of this file, on the
// device of their stream, or on the host, also in batches. A box or a score encodes the first byte of its frame, so the
// test sees that every region is from its own frame and eye, and that the drawing is of the region. Nobody may read
// data that the device has not written yet. tests/gpu/run uses real networks and kernels.

enum { W = 64, H = 32, SIDE = 16, STEP = 3, BOXES = 2, CARDS = 2 };

static void *symbol(const char *name) { return fake_symbol("libcuda.so.1", name); }

static struct fake_cuda_counts *(*counts)(void);
static int (*launch)(cuda_stream s, uint64_t ns);
static uint64_t (*busy)(cuda_stream s);
static void (*list)(int gpus);
static const char *(*calls)(int i, int *times);

static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

// ---- The kernels

static uint64_t run_ns = 1500000, kernel_ns = 30000; // what an engine's run on a device and a kernel take
static _Atomic int drawn, wrong;
static int part;  // width of an eye
static bool still; // the box stays at that of the first frame
static int faces;  // that the detector finds side by side; 0: the one box
static int nobody; // frames before the first that shows the box
static const char *together = "1"; // frames that the detector looks at

static int run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    for (int i = 0; i < a->frames; i++)
        *(float *)(void *)at(a->frame[i].dst) = *at(a->frame[i].plane[0]);
    return launch(stream, kernel_ns);
}

// For a grid that run_preprocess() has begun.
static int run_turn(const struct tachy_cuda_pre_turn *a, cuda_stream stream)
{
    for (int i = 0; i < a->frames; i++)
        memcpy(at(a->frame[i].dst), at(a->frame[i].grid), sizeof(float));
    return launch(stream, kernel_ns);
}

static int run_border(const struct tachy_cuda_pre_border *a, cuda_stream stream) { return CUDA_OK; }

// Centre of the box of a picture that begins with this byte.
static float centre_of(int byte, int width) { return (float)byte / 255 * (float)width; }

static uint8_t byte_of(int64_t id, int eye) { return (uint8_t)(id * STEP + 40 + eye * 60); }

// The first shape is an edge of the first box, whose left end is there.
static int run_draw(const struct tachy_cuda_draw *a, cuda_stream stream)
{
    const struct tachy_shape *s = (const void *)at(a->shapes);
    float left = INFINITY;
    for (int i = 0; i < a->count && i < 4; i++)
        left = fminf(left, fminf(s[i].x0, s[i].x1));
    drawn++;
    wrong += a->width != W || a->height != H || a->nb != 3;
    wrong += fabsf(left - (centre_of(still ? byte_of(nobody, 0) : *at(a->component[0]), part) - (float)part / 8)) > 3;
    return launch(stream, kernel_ns);
}

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.preprocess = run_preprocess, .preprocess_border = run_border,
                                                  .preprocess_turn = run_turn, .draw = run_draw};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

// ---- The engines. A detector: a box whose centre is the first number of the picture, and one with too low a score.
// Points: two near the corners of the crop, so that it does not move, and a score that is the first number; a mesh has
// more in between. A vector: the first number, and 1.

enum { MESH = 468 };
struct network {
    int batch;
    bool points, vector;
    int nb_points;
};
static _Atomic int opened, runs, looks, elsewhere; // looks: runs of points
static _Atomic int searches; // calls of the detector's engine, for one picture or more
static _Atomic uint64_t ready[256]; // by the picture's byte: when its results are complete, CLOCK_MONOTONIC, ns

// The first run of a network waits until all frames of this stream are parked but those whose turn it is; who runs networks
// then.
static tachy_stream *_Atomic watched;
static int watched_frames;
static pthread_t follower;
static _Atomic int followers;

static void wait_for_frames(void)
{
    for (int n = watched->turns; n < watched_frames; n++)
        while (atomic_load(&pipeline_slot(watched, n)->state) != SLOT_PARKED)
            sched_yield();
}

static void count_followers(void)
{
    if (!followers)
        wait_for_frames();
    followers += !followers || !pthread_equal(follower, pthread_self());
    follower = pthread_self();
}

static float score_of(float byte) { return 0.6f + byte / 1000; }

static struct tachy_io io_of(const char *name, int rank, const int64_t *shape)
{
    struct tachy_io io = {.name = name, .spec = {.dtype = TACHY_F32, .rank = rank}};
    memcpy(io.spec.shape, shape, (size_t)rank * sizeof(*shape));
    return io;
}

static int network_open(tachy_engine *e)
{
    struct network *d = (void *)e->priv;
    d->batch = TACHY_MAX(e->params.batch_max, 1);
    d->nb_points = strstr(e->params.model_path, "mesh.onnx") ? MESH : 2;
    d->points = d->nb_points == MESH || strstr(e->params.model_path, "points.onnx");
    d->vector = strstr(e->params.model_path, "vector.onnx");
    e->stream = e->params.gpu_stream;
    e->on_device = e->stream != NULL;
    e->n_in = 1;
    e->n_out = 2;
    e->in[0] = io_of("x", 4, (int64_t[]){d->batch, SIDE, SIDE, 1});
    const int rows = TACHY_DEF(faces, BOXES);
    e->out[0] = io_of("scores", d->points ? 2 : 3, (int64_t[]){d->batch, d->points ? 1 : rows, 2}); // points: [batch, 1]
    e->out[1] = io_of("boxes", d->points ? 2 : 3, (int64_t[]){d->batch, d->points ? 2 * d->nb_points : rows, 4});
    if (d->vector) {
        e->n_out = 1;
        e->out[0] = io_of("vector", 2, (int64_t[]){d->batch, 2});
    }
    snprintf(e->version, sizeof(e->version), "test");
    opened++;
    return TACHY_OK;
}

// For the mesh: corners of the eyes, tip of the nose, corners of the mouth.
static void put_points(float *place, int n)
{
    static const struct {
        int at;
        float x, y;
    } known[] = {{0, 1 / 6.0f, 1 / 6.0f}, {1, 5 / 6.0f, 5 / 6.0f}, {33, 0.3f, 0.4f}, {133, 0.4f, 0.4f}, {362, 0.6f, 0.4f},
                 {263, 0.7f, 0.4f}, {4, 0.5f, 0.55f}, {61, 0.4f, 0.7f}, {291, 0.6f, 0.7f}};
    for (int i = 0; i < 2 * n; i++)
        place[i] = 0.5f;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known) && known[i].at < n; i++) {
        place[2 * known[i].at] = known[i].x;
        place[2 * known[i].at + 1] = known[i].y;
    }
}

static void run_one(const struct network *d, int i, float byte, float *score, float *place)
{
    if (d->vector) {
        memcpy(score, (float[]){byte, 1}, 2 * sizeof(float));
        return;
    }
    if (d->points) {
        *score = score_of(byte);
        put_points(place, d->nb_points);
        looks++;
        return;
    }
    runs++;
    for (int k = 0; k < faces; k++) {
        const float n = (float)faces;
        memcpy(score + k * 2, (float[]){0.1f, 0.9f}, 2 * sizeof(float));
        memcpy(place + k * 4, (float[]){((float)k + 0.5f) / n, 0.5f, 0.5f / n, 0.5f / n * W / H}, 4 * sizeof(float));
    }
    if (faces)
        return;
    memcpy(score + i * BOXES * 2, (float[]){0.1f, byte < (float)byte_of(nobody, 0) ? 0.1f : 0.9f, 0.2f, 0.3f}, BOXES * 2 * sizeof(float));
    memcpy(place + i * BOXES * 4, (float[]){byte / 255, 0.5f, 0.25f, 0.5f, 0, 0, 1, 1}, BOXES * 4 * sizeof(float));
}

static int network_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    const struct network *d = (void *)e->priv;
    if (watched)
        count_followers();
    for (int i = 0; i < e->n_out; i++)
        elsewhere += (out[i].mem == TACHY_DEVICE) != e->on_device || (in[0].mem == TACHY_DEVICE) != e->on_device;
    searches += !d->points && !d->vector;
    for (int i = 0; i < d->batch; i++) {
        float byte = ((const float *)in[0].data)[i * SIDE * SIDE];
        run_one(d, i, byte, out[0].data, out[1].data);
        if (e->stream && launch(e->stream, run_ns))
            return tachy_fail(NULL, TACHY_ERR_EXTERNAL, "the run cannot be queued");
        ready[(uint8_t)byte] = e->stream ? busy(e->stream) : 0;
    }
    return TACHY_OK;
}

static void network_close(tachy_engine *e) { opened--; }

const struct tachy_engine_ops tachy_engine_ep = {.name = "", .needs_model = true, .priv_size = sizeof(struct network),
                                                 .open = network_open, .run = network_run, .close = network_close};
bool tachy_engine_takes_stream(const char *name) { return name && !strcmp(name, "cuda-ort"); }

// ---- The task

static char folder[64];
static const struct tachy_log log_errors = {.fn = NULL};

struct way {
    const char *task;
    bool text, on_gpu, there; // JSON lines; decoded frames are on the device; the engine is
    int workers, streams, eyes, frames, devices;
    int batch; // pictures a run of the host's engine; 0: one
};

static tachy_settings *settings_of(const struct way *way)
{
    tachy_settings *set = NULL;
    const bool vectors = !strcmp(way->task, "faces");
    char number[8];
    snprintf(number, sizeof(number), "%d", TACHY_DEF(faces, 1));
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", vectors ? "mesh" : still ? "points" : "boxes"}, {"model.dir", folder}, {"gpu.device", "cuda"}, {"gpu.ids", "all"},
                                   {"model.provider", way->there ? "cuda-ort" : "openvino"}, {"draw.names", "no"},
                                   {"tracking.detector", "boxes"}, {"tracking.smoothing", "no"},
                                   {"tracking.max_num_faces", number}, {"processing.face_detection_batch", together},
                                   {"faces.embed", "vector"}, {"faces.size", "0"}, {"faces.blur", "1"}, {"faces.angle", "90"},
                                   {"output.file", way->text ? "x.jsonl" : "x.mkv"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    return set;
}

static tachy_task *open_task(const struct way *way)
{
    tachy_settings *set = settings_of(way);
    tachy_task *t = NULL;
    CHECK_INT(tachy_task_open(&t, way->task, set, &log_errors), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

// ---- Streams

struct guest {
    const struct way *way;
    tachy_stream *s;
    tachy_frame_pool *pool[CARDS];
    pthread_t thread;
};

static void *feed_main(void *arg)
{
    struct guest *g = arg;
    for (int i = 0; i < g->way->frames; i++) {
        tachy_frame *f = NULL;
        if (tachy_frame_pool_get(g->pool[i / 3 % g->way->devices], &f) < 0)
            break;
        for (int eye = 0; eye < 2; eye++)
            tachy_frame_writable(f, 0)[eye * (W / 2)] = byte_of(i, eye);
        f->id = i;
        f->pts = i * 10;
        int err = tachy_stream_push(g->s, f);
        tachy_frame_unref(&f);
        if (err < 0)
            break;
    }
    tachy_stream_push(g->s, NULL);
    return NULL;
}

static void check_face(int n, const struct tachy_region *g)
{
    CHECK_INT(g->track, 0);
    CHECK_INT(g->nb_points, 2);
    CHECK(fabsf(g->score - score_of(byte_of(n, 0))) < 1e-5f);
    CHECK(fabs((double)g->x - (double)centre_of(byte_of(nobody, 0), W)) < 0.01 && fabs((double)g->w - W / 4.0) < 0.01);
}

// Has unit length and is from this frame.
static void check_vector(int n, const struct tachy_region *g)
{
    CHECK_INT(g->nb_embedding, 2);
    CHECK(g->nb_embedding == 2 && fabsf(g->embedding[0] - g->embedding[1] * (float)byte_of(n, 0)) < 1e-3f);
    CHECK(g->nb_embedding == 2 && fabsf(hypotf(g->embedding[0], g->embedding[1]) - 1) < 1e-5f);
}

// Each at its place, by its number, with this frame's score.
static void check_faces(int n, const struct tachy_result *r)
{
    CHECK_INT(r->nb_regions, faces);
    for (int k = 0; k < r->nb_regions; k++) {
        const struct tachy_region *g = &r->regions[k];
        CHECK_INT(g->track, k);
        CHECK(g->nb_points == 2 || g->nb_points == MESH);
        CHECK(fabsf(g->score - score_of(byte_of(n, 0))) < 1e-5f);
        CHECK(fabs((double)g->x - (k + 0.5) / faces * W) < 0.01);
        if (g->nb_points == MESH)
            check_vector(n, g);
    }
}

static void check_regions(const struct way *way, int n, const struct tachy_result *r)
{
    if (faces) {
        check_faces(n, r);
        return;
    }
    int width = W / way->eyes;
    CHECK_INT(r->frame_id, n);
    CHECK_INT(r->nb_regions, n < nobody ? 0 : way->eyes);
    for (int eye = 0; eye < way->eyes && eye < r->nb_regions; eye++) {
        const struct tachy_region *g = &r->regions[eye];
        if (still) {
            check_face(n, g);
            continue;
        }
        CHECK_INT(g->class_id, 1);
        CHECK(fabs((double)g->x - (double)centre_of(byte_of(n, eye), width) - eye * width) < 0.01);
        CHECK(fabs((double)g->y - H / 2) < 0.01 && fabs((double)g->w - width / 4.0) < 0.01);
    }
    CHECK(!r->json == !way->text);
    if (way->streams == 1 && way->eyes == 1)
        CHECK(tachy_now_ns() >= ready[byte_of(n, 0)]);
}

static void pull_all(struct guest *g)
{
    for (int n = 0; n < g->way->frames; n++) {
        tachy_frame *f = NULL;
        const struct tachy_result *r;
        int err = tachy_stream_pull(g->s, &f, &r);
        CHECK_INT(err, TACHY_OK);
        if (err < 0)
            return;
        check_regions(g->way, n, r);
        CHECK(!f == g->way->text);
        if (f)
            CHECK(f->mem == TACHY_PINNED && f->id == n && f->pts == n * 10 && f->data[0][0] == byte_of(n, 0));
        tachy_frame_unref(&f);
    }
    CHECK_INT(tachy_stream_pull(g->s, NULL, NULL), TACHY_ERR_EOF);
}

static void open_guest(struct guest *g, const struct way *way, tachy_pipeline *p, tachy_task *t, struct tachy_gpu **gpu)
{
    struct tachy_video_info in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250}, .fps = {25, 1},
                                  .mem = way->on_gpu ? TACHY_DEVICE : TACHY_HOST,
                                  .stereo = way->eyes == 2 ? TACHY_STEREO_SBS : TACHY_STEREO_MONO};
    g->way = way;
    for (int i = 0; i < way->devices; i++)
        CHECK_INT(tachy_frame_pool_open_gpu(&g->pool[i], way->on_gpu ? gpu[i] : NULL, TACHY_PIX_NV12, W, H), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &g->s, tachy_stream_params(.task = t, .input = in, .window = 32)), TACHY_OK);
    watched = watched_frames ? g->s : NULL;
    pthread_create(&g->thread, NULL, feed_main, g);
}

static void close_guest(struct guest *g)
{
    pthread_join(g->thread, NULL);
    tachy_stream_leave(&g->s);
    for (int i = 0; i < CARDS; i++)
        tachy_frame_pool_close(&g->pool[i]);
}

static void nothing_is_left(void)
{
    struct fake_cuda_counts *c = counts();
    CHECK_INT(c->allocations, 0);
    CHECK_INT(c->events, 0);
    CHECK_INT(c->streams, 0);
    CHECK_INT(c->contexts, 0);
    CHECK_INT(opened, 0);
    CHECK_INT(elsewhere, 0);
    CHECK_INT(wrong, 0);
}

static void run(const struct way *way)
{
    enum { MOST = 2 };
    list(way->devices);
    part = W / way->eyes;
    still = strcmp(way->task, "detect");
    tachy_task *t = open_task(way);
    struct tachy_gpu *gpu[CARDS] = {0};
    tachy_pipeline *p = NULL;
    struct guest g[MOST] = {0};
    int before = runs, looks_before = looks, drawn_before = drawn, all = way->streams * way->frames;
    for (int i = 0; i < way->devices; i++)
        CHECK_INT(tachy_gpu_open(&gpu[i], i, NULL, &log_errors), TACHY_OK);
    const struct tachy_pipeline_params params = {.workers = way->workers, .batch = way->batch, .log = &log_errors};
    CHECK_INT(tachy_pipeline_open(&p, &params), TACHY_OK);
    for (int i = 0; i < way->streams; i++)
        open_guest(&g[i], way, p, t, gpu);
    for (int i = 0; i < way->streams; i++)
        pull_all(&g[i]);
    for (int i = 0; i < way->streams; i++)
        close_guest(&g[i]);
    tachy_pipeline_close(&p);
    for (int i = 0; i < way->devices; i++)
        tachy_gpu_unref(&gpu[i]);
    tachy_task_close(&t);
    list(1);
    CHECK(way->batch || nobody || runs - before == (still ? way->streams : all * way->eyes));
    CHECK_INT(looks - looks_before, still ? (all - nobody) * TACHY_DEF(faces, 1) : 0);
    CHECK_INT(drawn - drawn_before, way->text ? 0 : all - nobody);
    nothing_is_left();
}

TEST(a_detector_on_the_device)
{
    for (int i = 0; i < 8; i++)
        run(&(struct way){"detect", i & 1, i & 2, true, i % 4, 1 + (i / 4) % 2, 1 + (i / 3) % 2, 24, 1 + (i / 2) % 2, 0});
}

TEST(a_detector_on_the_host)
{
    for (int i = 0; i < 12; i++)
        run(&(struct way){"detect", i & 1, i & 2, false, i % 4, 1 + i % 2, 1 + (i / 3) % 2, 30, 1 + (i / 2) % 2, i / 4 * 2});
}

// The detector looks once, then the face is followed, over frames of both devices.
TEST(a_face_is_followed)
{
    for (int i = 0; i < 16; i++)
        run(&(struct way){"track", i & 1, i & 2, i & 8, i % 3, 1 + (i / 4) % 2, 1, 20, 1 + (i / 2) % 2, 0});
}

// While nobody is followed, the detector sees several frames of the device at once; the results are those of frames that it sees one by
// one. It looks at no frame twice.
TEST(frames_without_a_face_are_searched_together)
{
    nobody = 18;
    together = "4";
    for (int i = 0; i < 8; i++) {
        const bool on_gpu = i & 1, there = i & 2;
        const int before = searches;
        run(&(struct way){"track", i & 4, on_gpu, there, 1 + i % 3, 1, 1, 24, 1, 0});
        CHECK_INT(searches - before, on_gpu ? nobody + 2 : nobody + 1); // four at a time; one by one
    }
    nobody = 0;
    together = "1";
}

// The driver copies other memory by way of its own, for one thread at a time.
TEST(frames_of_the_host_are_copied_from_pinned_memory)
{
    const int before = counts()->pageable;
    run(&(struct way){"detect", true, false, true, 2, 1, 1, 24, 1, 0});
    run(&(struct way){"track", true, false, true, 2, 1, 1, 24, 1, 0});
    CHECK(counts()->pageable - before < 24); // 48 frames, and tables of each worker's
}

// The next frame waits for its networks.
TEST(a_followed_frame_goes_first)
{
    const int before = counts()->first;
    run(&(struct way){"detect", true, true, true, 2, 1, 1, 8, 1, 0});
    CHECK_INT(counts()->first - before, 0);
    run(&(struct way){"track", true, true, true, 2, 1, 1, 8, 1, 0});
    CHECK_INT(counts()->first - before, 2); // its networks' streams
}

static int called(const char *name)
{
    const char *is;
    for (int i = 0, times; (is = calls(i, &times)); i++)
        if (!strcmp(is, name))
            return times;
    return 0;
}

// The host waits once for the faces of a frame, so more faces need no more events and, with a network on the host, no
// more copies; beyond the size of a launch there is another round.
TEST(faces_of_a_frame_go_together)
{
    const uint64_t run_before = run_ns;
    run_ns = 50000;
    for (int there = 0; there < 2; there++) {
        int events[4], copies[4];
        for (int i = 0; i < 4; i++) {
            faces = (int[]){1, 3, 8, 10}[i];
            int events_before = called("cuEventRecord"), copies_before = called("cuMemcpyDtoHAsync_v2");
            run(&(struct way){"track", true, true, there, 1, 1, 1, 12, 1, 0});
            events[i] = called("cuEventRecord") - events_before;
            copies[i] = called("cuMemcpyDtoHAsync_v2") - copies_before;
        }
        CHECK(events[0] == events[1] && events[1] == events[2] && events[2] < events[3]);
        CHECK(there || (copies[0] == copies[1] && copies[1] == copies[2] && copies[2] < copies[3]));
    }
    for (int i = 0; i < 8; i++) {
        faces = (int[]){4, 11}[i & 1];
        run(&(struct way){"track", i & 1, i & 2, i & 4, 3, 1 + (i & 1), 1, 20, 1 + (i / 2) % 2, 0});
    }
    faces = 0;
    run_ns = run_before;
}

// Faces get their vectors, up to 32 at once; the network is on the device or on the host.
TEST(faces_have_vectors)
{
    const uint64_t run_before = run_ns;
    run_ns = 50000;
    for (int i = 0; i < 16; i++) {
        faces = (int[]){1, 4, 8, 11}[i & 3];
        run(&(struct way){"faces", true, i & 4, i & 8, 1 + i % 3, 1 + (i & 1), 1, 12, 1 + (i / 2) % 2, 0});
    }
    faces = 0;
    run_ns = run_before;
}

// Of frames that had their turns one after the other the faces come to the host together, in one copy.
TEST(faces_of_several_frames_go_together)
{
    const uint64_t run_before = run_ns;
    run_ns = 50000;
    faces = 3;
    watched_frames = 24;
    followers = 0;
    int before = called("cuMemcpyDtoHAsync_v2");
    run(&(struct way){"faces", true, true, true, 3, 1, 1, watched_frames, 1, 0});
    int copies = called("cuMemcpyDtoHAsync_v2") - before;
    CHECK(copies >= 3 && copies <= 5); // eight frames a copy; the first turn may have fewer
    watched_frames = faces = 0;
    watched = NULL;
    run_ns = run_before;
}

// Driver calls for a followed frame of a decoder, for which threads of one process wait in turn: the network's stream
// follows the decoder's once, and the host waits for one event.
TEST(a_followed_frame_is_few_calls)
{
    static const char *const names[] = {"cuEventRecord", "cuStreamWaitEvent", "cuMemcpy2DAsync_v2"};
    const uint64_t run_before = run_ns;
    int first[3], more[3];
    run_ns = 50000;
    faces = 4;
    for (int k = 0; k < 2; k++) { // what a run's beginning takes is in both
        for (int i = 0; i < 3; i++)
            (k ? more : first)[i] = -called(names[i]);
        run(&(struct way){"track", true, true, true, 1, 1, 1, k ? 60 : 20, 1, 0});
        for (int i = 0; i < 3; i++)
            (k ? more : first)[i] += called(names[i]);
    }
    CHECK_INT(more[0] - first[0], 40 * 2);
    CHECK_INT(more[1] - first[1], 40);
    CHECK_INT(more[2] - first[2], 40 * 2); // of the network's two outputs
    faces = 0;
    run_ns = run_before;
}

// The turn is kept while frames are parked, and other workers write the lines.
TEST(turns_stay_with_a_worker)
{
    const uint64_t run_before = run_ns;
    run_ns = 50000;
    watched_frames = 24;
    for (int i = 0; i < 4; i++) {
        followers = 0;
        run(&(struct way){"track", i & 1, true, i & 2, 3, 1, 1, watched_frames, 1, 0});
        CHECK_INT(followers, 1);
    }
    watched_frames = 0;
    watched = NULL;
    run_ns = run_before;
}

// Nobody sleeps for work that the device has done already.
TEST(what_is_done_is_not_slept_for)
{
    const uint64_t run_before = run_ns;
    int slept = called("cuEventSynchronize");
    run_ns = kernel_ns = 0;
    run(&(struct way){"track", true, true, true, 1, 1, 1, 12, 1, 0});
    CHECK_INT(called("cuEventSynchronize"), slept);
    run_ns = run_before;
    kernel_ns = 30000;
}

// ---- A call of the driver that fails

enum { FEW = 5 };
static int (*fail_at)(int n, int status, int how);
static const char *(*failed)(void);

static int pull_until(tachy_stream *s)
{
    for (;;) {
        tachy_frame *f = NULL;
        const struct tachy_result *r;
        int err = tachy_stream_pull(s, &f, &r);
        tachy_frame_unref(&f);
        if (err < 0)
            return err == TACHY_ERR_EOF ? TACHY_OK : err;
    }
}

// Frames that have been made before anything fails.
static int run_frames(tachy_task *t, tachy_frame *const frame[FEW])
{
    struct tachy_video_info in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250}, .fps = {25, 1},
                                  .mem = TACHY_DEVICE};
    tachy_pipeline *p = NULL;
    tachy_stream *s = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 1, .log = &log_errors)), TACHY_OK);
    int err = tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in, .window = 32));
    for (int i = 0; i < FEW && err == TACHY_OK; i++)
        err = tachy_stream_push(s, frame[i]);
    if (s) {
        tachy_stream_push(s, NULL);
        int end = pull_until(s);
        err = err < 0 ? err : end;
        tachy_stream_leave(&s);
    }
    tachy_pipeline_close(&p);
    return err;
}

// The driver call number `at` fails, with `status`. False: there are fewer calls.
static bool fails_well(const struct way *way, int at, int status, int how)
{
    struct tachy_gpu *gpu = NULL;
    tachy_frame_pool *pool = NULL;
    tachy_frame *frame[FEW] = {0};
    CHECK_INT(tachy_gpu_open(&gpu, 0, NULL, &log_errors), TACHY_OK);
    CHECK_INT(tachy_frame_pool_open_gpu(&pool, gpu, TACHY_PIX_NV12, W, H), TACHY_OK);
    for (int i = 0; i < FEW; i++) {
        CHECK_INT(tachy_frame_pool_get(pool, &frame[i]), TACHY_OK);
        tachy_frame_writable(frame[i], 0)[0] = byte_of(i, 0);
        frame[i]->id = i;
        frame[i]->pts = i * 10;
    }
    part = W;
    still = strcmp(way->task, "detect");
    tachy_settings *set = settings_of(way);
    tachy_task *t = NULL;
    fail_at(at, status, how);
    int err = tachy_task_open(&t, way->task, set, &log_errors);
    if (err == TACHY_OK)
        err = run_frames(t, frame);
    tachy_task_close(&t);
    for (int i = 0; i < FEW; i++)
        tachy_frame_unref(&frame[i]);
    tachy_frame_pool_close(&pool);
    tachy_gpu_unref(&gpu);
    tachy_settings_free(&set);
    bool came = failed();
    fail_at(-1, 0, FAKE_ONCE);
    CHECK(came || err == TACHY_OK);
    nothing_is_left();
    return came;
}

TEST(a_call_that_fails_leaves_nothing_behind)
{
    const int step = getenv("TACHY_SANITIZER") ? 4 : 1; // many times as slow
    run_ns = 0;
    for (int i = 0; i < 12; i++) {
        const struct way way = {i >= 8 ? "faces" : i & 1 ? "track" : "detect", i & 2 || i >= 8, true, i & 4 || i >= 10, 1, 1, 1, FEW, 1, 0};
        faces = i >= 8 ? 3 : 0;
        int at = i;
        while (fails_well(&way, at, i & 1 ? CUDA_OUT_OF_MEMORY : CUDA_INVALID_VALUE, FAKE_ONCE))
            at += 3 * step;
        CHECK(at > 60);
        for (at = i; fails_well(&way, at, 700, FAKE_STAYS);) // CUDA_ERROR_ILLEGAL_ADDRESS
            at += 11 * step;
    }
    faces = 0;
}

// Each step's own cost is measured, on the device and on the host.
TEST(the_light_ratio_knows_all_steps)
{
    run_ns = 0;
    part = W;
    for (int i = 0; i < 4; i++) {
        const struct way way = {i & 1 ? "track" : "detect", false, false, i & 2, 1, 1, 1, FEW, 1, 0};
        tachy_source *source = NULL;
        tachy_sink *sink = NULL;
        struct tachy_summary sum;
        still = i & 1;
        tachy_task *t = open_task(&way);
        CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = "null:64x32@25,frames=30")), TACHY_OK);
        CHECK_INT(tachy_sink_open(&sink, &(struct tachy_sink_params){.url = "-", .format = "null"}), TACHY_OK);
        const struct tachy_run_params p = {.task = t, .source = source, .sink = sink, .workers = 2, .calibrate = true,
                                           .cache_dir = folder, .log = &log_errors};
        CHECK_INT(tachy_run(&p, &sum), TACHY_OK);
        CHECK_INT(sum.frames, 30);
        CHECK(sum.light_ratio > 0);
        tachy_sink_close(&sink);
        tachy_source_close(&source);
        tachy_task_close(&t);
        wrong = 0; // the source's pictures do not begin with a frame's byte
        nothing_is_left();
    }
}

TEST(opens)
{
    snprintf(folder, sizeof(folder), "/tmp/test_regions_gpu-XXXXXX");
    CHECK(mkdtemp(folder));
    counts = (__typeof__(counts))symbol("fake_cuda_count");
    launch = (__typeof__(launch))symbol("fake_cuda_launch");
    busy = (__typeof__(busy))symbol("fake_cuda_busy");
    list = (__typeof__(list))symbol("fake_cuda_list");
    calls = (__typeof__(calls))symbol("fake_cuda_called");
    fail_at = (__typeof__(fail_at))symbol("fake_cuda_fail_at");
    failed = (__typeof__(failed))symbol("fake_cuda_failed");
    test_write(folder, "boxes.json", "{\"name\": \"boxes\", \"task\": \"detect\", \"file\": \"boxes.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"outputs\": [{\"meaning\": "
               "\"boxes\", \"form\": \"detr\", \"name\": \"boxes\", \"scores\": \"scores\", \"labels\": [\"one\", \"two\"]}]}");
    test_write(folder, "points.json", "{\"name\": \"points\", \"task\": \"track\", \"file\": \"points.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"outputs\": [{\"meaning\": "
               "\"points\", \"name\": \"boxes\", \"points\": 2, \"unit\": \"share\"}, {\"meaning\": \"score\", \"name\": "
               "\"scores\"}]}");
    test_write(folder, "mesh.json", "{\"name\": \"mesh\", \"task\": \"track\", \"file\": \"mesh.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"outputs\": [{\"meaning\": "
               "\"points\", \"name\": \"boxes\", \"points\": 468, \"unit\": \"share\"}, {\"meaning\": \"score\", \"name\": "
               "\"scores\"}]}");
    test_write(folder, "vector.json", "{\"name\": \"vector\", \"task\": \"embed\", \"file\": \"vector.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"outputs\": [{\"meaning\": "
               "\"embedding\"}]}");
    test_write(folder, "mesh.onnx", "no model");
    test_write(folder, "vector.onnx", "no model");
    test_write(folder, "boxes.onnx", "no model"); // nobody reads them
    test_write(folder, "points.onnx", "no model");
}

TEST(cleans)
{
    static const char *const names[] = {"boxes.json", "boxes.onnx", "points.json", "points.onnx", "mesh.json", "mesh.onnx",
                                        "vector.json", "vector.onnx", "light.json",
                                        "gpu-rates.json"};
    char path[128];
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(a_detector_on_the_device), TEST_CASE(a_detector_on_the_host),
          TEST_CASE(a_face_is_followed), TEST_CASE(frames_without_a_face_are_searched_together),
          TEST_CASE(frames_of_the_host_are_copied_from_pinned_memory), TEST_CASE(a_followed_frame_goes_first),
          TEST_CASE(faces_of_a_frame_go_together), TEST_CASE(faces_have_vectors), TEST_CASE(faces_of_several_frames_go_together), TEST_CASE(a_followed_frame_is_few_calls),
          TEST_CASE(turns_stay_with_a_worker), TEST_CASE(what_is_done_is_not_slept_for), TEST_CASE(a_call_that_fails_leaves_nothing_behind), TEST_CASE(the_light_ratio_knows_all_steps), TEST_CASE(cleans))
