#include "segment_gpu.h"

#include "pipeline/pipeline.h"

#include <tachy/run.h>
#include <tachy/sink.h>
#include <tachy/source.h>

// Streams of segment with its model on a device (segment_gpu.h): states, batches, several devices, the light ratio.

struct way {
    const char *mode;
    bool on_gpu; // decoded frames are
    int workers, streams, eyes, frames, devices;
    bool flat;
    int batch; // pictures a run of the host's engine; 0: one
    bool mixed; // frames of several devices come in turn, as of many decoders
};

enum { CARDS = 3, IN_A_ROW = 7 }; // frames on one device

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
        if (tachy_frame_pool_get(g->pool[i / (g->way->mixed ? 1 : IN_A_ROW) % g->way->devices], &f) < 0)
            break;
        draw(f, i);
        int err = tachy_stream_push(g->s, f);
        tachy_frame_unref(&f);
        if (err < 0)
            break;
    }
    tachy_stream_push(g->s, NULL);
    return NULL;
}

static void pull_all(struct guest *g)
{
    const struct way *way = g->way;
    struct pair state[2] = {first, first};
    for (int n = 0; n < way->frames; n++) {
        tachy_frame *f = NULL;
        const struct tachy_result *r;
        int err = tachy_stream_pull(g->s, &f, &r);
        CHECK_INT(err, TACHY_OK);
        if (err < 0)
            return;
        CHECK_INT(r->frame_id, n);
        CHECK_INT(r->eyes, way->eyes);
        int want[2];
        for (int eye = 0; eye < way->eyes; eye++) {
            want[eye] = mask_of(state, n, eye, way->flat);
            CHECK(smooths || r->mask[eye].data[0] == want[eye]); // test_composite covers the effect of smoothing
        }
        if (f)
            CHECK(f->data[0][0] == (strcmp(way->mode, "mask") ? byte_of(n, 0) : want[0]) || (smooths && !strcmp(way->mode, "mask")));
        tachy_frame_unref(&f);
    }
    CHECK_INT(tachy_stream_pull(g->s, NULL, NULL), TACHY_ERR_EOF);
}

static void open_guest(struct guest *g, const struct way *way, tachy_pipeline *p, tachy_task *t, struct tachy_gpu **gpu)
{
    struct tachy_video_info in = video;
    in.mem = way->on_gpu ? TACHY_DEVICE : TACHY_HOST;
    in.stereo = way->eyes == 2 ? TACHY_STEREO_SBS : TACHY_STEREO_MONO;
    g->way = way;
    for (int i = 0; i < way->devices; i++)
        CHECK_INT(tachy_frame_pool_open_gpu(&g->pool[i], way->on_gpu ? gpu[i] : NULL, TACHY_PIX_NV12, W, H), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &g->s, tachy_stream_params(.task = t, .input = in, .window = 32)), TACHY_OK);
    pthread_create(&g->thread, NULL, feed_main, g);
}

static void close_guest(struct guest *g)
{
    pthread_join(g->thread, NULL);
    tachy_stream_leave(&g->s);
    for (int i = 0; i < CARDS; i++)
        tachy_frame_pool_close(&g->pool[i]);
}

// Frames on a device are processed there; host frames of a recurrent model go where the stream's state is.
static void check_shares(const tachy_task *t, const struct way *way)
{
    struct tachy_gpu_share share[TACHY_MAX_GPUS];
    int used = 0, all = 0;
    CHECK_INT(tachy_task_gpus(t, share), way->devices);
    for (int i = 0; i < way->devices; i++) {
        used += share[i].frames > 0;
        all += (int)share[i].frames;
    }
    CHECK_INT(all, way->streams * way->frames);
    CHECK_INT(used, way->on_gpu ? way->devices : TACHY_MIN(way->devices, way->streams));
}

static void run_pipeline(const struct way *way, tachy_task *t, struct tachy_gpu **gpu)
{
    enum { MOST = 3 };
    tachy_pipeline *p = NULL;
    struct guest g[MOST] = {0};
    const struct tachy_pipeline_params params = {.workers = way->workers, .batch = way->batch, .log = &log_errors};
    CHECK_INT(tachy_pipeline_open(&p, &params), TACHY_OK);
    for (int i = 0; i < way->streams; i++)
        open_guest(&g[i], way, p, t, gpu);
    for (int i = 0; i < way->streams; i++)
        pull_all(&g[i]);
    for (int i = 0; i < way->streams; i++)
        close_guest(&g[i]);
    tachy_pipeline_close(&p);
}

static void run(const struct way *way)
{
    list(way->devices);
    tachy_task *t = open_task(way->flat ? "flat" : "rec", way->mode, "all", "0.5");
    struct tachy_gpu *gpu[CARDS] = {0};
    int before = runs;
    bool there = tachy_engine_takes_stream(provider);
    CHECK_INT(opened, there ? way->devices : 1); // an engine each before the first frame
    for (int i = 0; i < way->devices; i++)
        CHECK_INT(tachy_gpu_open(&gpu[i], i, NULL, &log_errors), TACHY_OK);
    run_pipeline(way, t, gpu);
    if (way->on_gpu || (there && !way->flat))
        check_shares(t, way);
    for (int i = 0; i < way->devices; i++)
        tachy_gpu_unref(&gpu[i]);
    tachy_task_close(&t);
    list(1);
    CHECK(way->batch || !strcmp(provider, "tachy") || runs - before == way->streams * way->eyes * way->frames);
    nothing_is_left();
}

TEST(states_stay_on_the_device)
{
    static const char *const modes[] = {"mask", "cutout", "json"};
    for (int i = 0; i < 12; i++)
        run(&(struct way){modes[i % 3], i & 2, i % 4, 1 + i % 3, 1 + (i / 3) % 2, 40, 1, false, 0, false});
}

TEST(states_go_with_their_frames)
{
    for (int i = 0; i < 8; i++)
        run(&(struct way){i & 1 ? "cutout" : "mask", i & 2, 2 * (i % 3), 1 + i % 3, 1 + (i / 4) % 2, 40, 2 + (i & 1),
                          false, 0, false});
}

TEST(a_model_on_every_device)
{
    for (int i = 0; i < 8; i++)
        run(&(struct way){i & 1 ? "cutout" : "mask", i & 2, 1 + i % 4, 1 + i % 2, 1 + (i / 4) % 2, 60, 1 + i % 3,
                          true, 0, false});
}

// The frames that a worker takes at once are a batch on the device: nothing is gathered on the host, whatever --batch says.
TEST(batches_on_the_device)
{
    provider = "tachy";
    for (int i = 0; i < 4 || (!batches && i < 60); i++) // until frames waited for a worker
        run(&(struct way){i & 1 ? "cutout" : "mask", i & 2, 1 + i % 2, 1 + i % 3, 1 + (i / 4) % 2, 60, 1 + i % 2, true,
                          i & 1 ? 4 : 0, false});
    CHECK(batches > 0);
    provider = "cuda-ort";
}

// Frames of a device are a batch though frames of others are between them: else each would be a run, as long as that of a whole batch.
TEST(batches_of_mixed_frames)
{
    enum { FRAMES = 60 };
    int fewest = FRAMES;
    provider = "tachy";
    for (int i = 0; i < 4 || (fewest > FRAMES / 2 && i < 60); i++) { // until frames waited for a worker
        const int before = batches;
        run(&(struct way){i & 1 ? "cutout" : "mask", true, 1 + i % 2, 1, 1, FRAMES, 2 + i % 2, true, 0, true});
        fewest = TACHY_MIN(fewest, batches - before);
    }
    CHECK(fewest <= FRAMES / 2);
    provider = "cuda-ort";
}

// Workers of the next input take the engines for batches that those of the input before have left.
TEST(engines_outlive_an_input)
{
    const struct way way = {"mask", true, 1, 1, 1, 24, 2, true, 0, false};
    struct tachy_gpu *gpu[CARDS] = {0};
    const int before = opened_for_batches;
    provider = "tachy";
    list(way.devices);
    tachy_task *t = open_task("flat", way.mode, "all", "0.5");
    for (int i = 0; i < way.devices; i++)
        CHECK_INT(tachy_gpu_open(&gpu[i], i, NULL, &log_errors), TACHY_OK);
    for (int input = 0; input < 3; input++) {
        run_pipeline(&way, t, gpu);
        CHECK_INT(opened_for_batches - before, way.devices);
    }
    tachy_pipeline *p = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 1, .log = &log_errors)), TACHY_OK);
    for (int input = 0; input < 3; input++) {
        struct guest g = {0};
        open_guest(&g, &way, p, t, gpu);
        pull_all(&g);
        close_guest(&g);
        CHECK_INT(opened_for_batches - before, way.devices);
    }
    tachy_pipeline_close(&p);
    for (int i = 0; i < way.devices; i++)
        tachy_gpu_unref(&gpu[i]);
    tachy_task_close(&t);
    list(1);
    nothing_is_left();
    provider = "cuda-ort";
}

// Without the memory for a batch smaller ones run, and the masks are the same.
TEST(a_batch_that_fits)
{
    static const int rooms[][2] = {{4, 256}, {256, 4}, {256, 2}, {3, 2}, {1, 256}, {256, 1}};
    provider = "tachy";
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rooms); i++) {
        const int most = TACHY_MIN(rooms[i][0], rooms[i][1]);
        batches = largest = 0;
        room_open = rooms[i][0], room_run = rooms[i][1];
        for (int k = 0; k < 4 || (most > 1 && !batches && k < 60); k++)
            run(&(struct way){k & 1 ? "cutout" : "mask", false, 1 + k % 2, 1 + k % 3, 1, 60, 1 + k % 2, true, 0, false});
        CHECK(most > 1 ? batches > 0 : !batches);
        CHECK_INT(largest, most);
    }
    room_open = room_run = 256;
    provider = "cuda-ort";
}

// The model's picture comes to the host, and the mask goes to the device.
TEST(a_model_on_the_host)
{
    static const char *const modes[] = {"mask", "cutout", "json"};
    provider = "openvino";
    for (int i = 0; i < 12; i++) {
        bool flat = i & 1;
        smooths = i % 5 > 2;
        refines = i % 4 == 3;
        run(&(struct way){modes[i % 3], i & 2, i % 4, 1 + i % 2, 1 + (i / 3) % 2, 40, 1 + (i / 2) % 3, flat,
                          flat ? i / 2 : 0, false});
    }
    provider = "cuda-ort";
    smooths = refines = false;
}

// ---- The light ratio

// The model's time is that of its runs on each device, one per frame, on the stream that all workers share.
TEST(the_light_ratio_counts_the_model)
{
    struct tachy_summary s;
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    list(2);
    asking_us = 0; // else the host asks more slowly than the device runs, and each measurement is made again and again
    setenv("XDG_CACHE_HOME", folder, 1);
    tachy_task *t = open_task("flat", "cutout", "all", "0.5");
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = "null:64x32@25,frames=40")), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null")), TACHY_OK);
    CHECK_INT(tachy_run(tachy_run_params(.task = t, .source = source, .sink = sink, .workers = 2, .calibrate = true,
                                         .log = &log_errors), &s), TACHY_OK);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    tachy_task_close(&t);
    list(1);
    asking_us = 50;
    remove_one("tachy/light.json");
    remove_one("tachy/gpu-rates.json");
    remove_one("tachy");
    CHECK(s.frames == 40 && s.nb_gpus == 2 && s.light_ratio > 0);
    for (int i = 0; i < 2; i++) {
        const struct tachy_resource_stats *r = s.gpus[i].resources;
        CHECK(r[TACHY_RESOURCE_SMS].light_ms > RUN_NS * 1e-6 && r[TACHY_RESOURCE_SMS].light_ms < 4 * RUN_NS * 1e-6);
        CHECK(r[TACHY_RESOURCE_TO_HOST].light_ms > 0 && r[TACHY_RESOURCE_TO_DEVICE].light_ms > 0);
        CHECK(r[TACHY_RESOURCE_NVDEC].light_ms == 0);
    }
    nothing_is_left();
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(states_stay_on_the_device), TEST_CASE(states_go_with_their_frames),
          TEST_CASE(a_model_on_every_device), TEST_CASE(batches_on_the_device), TEST_CASE(batches_of_mixed_frames), TEST_CASE(engines_outlive_an_input),
          TEST_CASE(a_batch_that_fits), TEST_CASE(the_light_ratio_counts_the_model), TEST_CASE(a_model_on_the_host),
          TEST_CASE(cleans))
