#include "test.h"

#include "base/base.h"
#include "cuda/mem.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "stage/mask_cuda.h"

#include <tachy/gpu.h>
#include <tachy/run.h>
#include <tachy/source.h>

// Several GPUs for one job, over a driver that counts as many as the test says (fakes/): which are asked
// for, who gets the next decoder, whose memory is whose, and masks that change devices. The work itself
// needs real ones: tests/gpu/test_gpu_multi.c.

static char last_message[1024];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static void *driver(const char *name) { return fake_symbol("libcuda.so.1", name); }
static void list(int gpus) { ((__typeof__(fake_cuda_list) *)driver("fake_cuda_list"))(gpus); }
static struct fake_cuda_counts *counts(void) { return ((__typeof__(fake_cuda_count) *)driver("fake_cuda_count"))(); }

// ---- --gpus, --gpu-id

struct asked {
    const char *device, *ids, *id; // NULL: not given
};

static int ask(struct asked a, const char *origin, int ids[TACHY_MAX_GPUS], int *n)
{
    tachy_settings *s;
    last_message[0] = '\0';
    CHECK_INT(tachy_settings_new(&s, &log_errors), TACHY_OK);
    if (a.device)
        CHECK_INT(tachy_settings_set(s, "gpu.device", a.device, "command line"), TACHY_OK);
    if (a.ids)
        CHECK_INT(tachy_settings_set(s, "gpu.ids", a.ids, "command line"), TACHY_OK);
    if (a.id)
        CHECK_INT(tachy_settings_set(s, "gpu.id", a.id, origin), TACHY_OK);
    int err = tachy_gpus_asked(s, ids, n, &log_errors);
    tachy_settings_free(&s);
    return err;
}

TEST(lists)
{
    static const struct {
        struct asked a;
        int n, ids[4];
    } right[] = {
        {{"cuda", NULL, NULL}, 1, {0}},    {{"cuda", NULL, "2"}, 1, {2}},   {{"cuda", "0", NULL}, 1, {0}},
        {{"cuda", "0,1", NULL}, 2, {0, 1}}, {{"cuda", "2,0", NULL}, 2, {2, 0}}, {{"cuda", "all", NULL}, 3, {0, 1, 2}},
        {{NULL, "0,1", NULL}, 0, {0}},     {{NULL, "all", NULL}, 0, {0}},   {{NULL, NULL, "3"}, 0, {0}},
    };
    int ids[TACHY_MAX_GPUS], n;
    list(3);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(right); i++) {
        CHECK_INT(ask(right[i].a, "command line", ids, &n), TACHY_OK);
        CHECK_INT(n, right[i].n);
        CHECK(n == right[i].n && !memcmp(ids, right[i].ids, (size_t)n * sizeof(int)));
    }
    list(TACHY_MAX_GPUS + 4); // as many as have places
    CHECK_INT(ask((struct asked){"cuda", "all", NULL}, "command line", ids, &n), TACHY_OK);
    CHECK_INT(n, TACHY_MAX_GPUS);
    list(1);
}

TEST(wrong_lists)
{
    static const struct {
        const char *ids, *says;
    } wrong[] = {
        {",", "takes numbers of GPUs"},    {"0,", "takes numbers of GPUs"},
        {"0,,1", "takes numbers of GPUs"}, {"-1", "takes numbers of GPUs"},  {"0 1", "takes numbers of GPUs"},
        {"16", "takes numbers of GPUs"},   {"All", "takes numbers of GPUs"}, {"99999999999999999999", "takes numbers of GPUs"},
        {"0,1,0", "GPU 0 is named twice"}, {"0,2", "there is no GPU 2: the driver counts 2"},
    };
    int ids[TACHY_MAX_GPUS], n;
    list(2);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(wrong); i++) {
        CHECK_INT(ask((struct asked){"cuda", wrong[i].ids, NULL}, "command line", ids, &n), TACHY_ERR_INVAL);
        CHECK(strstr(last_message, "--gpus") && strstr(last_message, wrong[i].says));
        bool there = strstr(wrong[i].says, "driver"); // needs it to be known
        CHECK_INT(ask((struct asked){NULL, wrong[i].ids, NULL}, "command line", ids, &n), there ? TACHY_OK : TACHY_ERR_INVAL);
    }
    CHECK_INT(ask((struct asked){"cuda", NULL, "2"}, "command line", ids, &n), TACHY_ERR_INVAL);
    CHECK(strstr(last_message, "--gpu-id: there is no GPU 2: the driver counts 2"));
    list(0);
    CHECK_INT(ask((struct asked){"cuda", "all", NULL}, "command line", ids, &n), TACHY_ERR_UNAVAILABLE);
    CHECK(strstr(last_message, "the driver counts no GPU"));
    list(1);
}

// Both on one command line contradict each other; what is typed goes before what a file says.
TEST(both_options)
{
    int ids[TACHY_MAX_GPUS], n;
    list(2);
    CHECK_INT(ask((struct asked){"cuda", "0,1", "0"}, "command line", ids, &n), TACHY_ERR_INVAL);
    CHECK(strstr(last_message, "--gpus (gpu.ids) and --gpu-id (gpu.id)"));
    CHECK_INT(ask((struct asked){"cuda", "0,1", "1"}, "my.yaml:3", ids, &n), TACHY_OK);
    CHECK_INT(n, 2);
    list(1);
}

TEST(source_refuses)
{
    static const int twice[] = {1, 1}, far[] = {0, TACHY_MAX_GPUS}, two[] = {0, 1};
    int stream;
    const struct tachy_source_params wrong[] = {
        {.url = "null:64x64,frames=1", .gpus = twice, .nb_gpus = 2}, {.url = "null:", .gpus = far, .nb_gpus = 2},
        {.url = "null:64x64,frames=1", .nb_gpus = 1},                {.url = "null:", .gpus = two, .nb_gpus = -1},
        {.url = "null:64x64,frames=1", .gpus = two, .nb_gpus = 2, .gpu_stream = &stream},
    };
    tachy_source *s;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(wrong); i++) {
        CHECK_INT(tachy_source_open(&s, &wrong[i]), TACHY_ERR_INVAL);
        CHECK(!s);
    }
    const struct tachy_source_params right = {.url = "null:64x64,frames=1", .gpus = two, .nb_gpus = 2};
    CHECK_INT(tachy_source_open(&s, &right), TACHY_OK);
    tachy_source_close(&s);
}

// ---- Dealing

TEST(decoders_go_to_the_least_loaded)
{
    struct tachy_gpu *g[3];
    list(3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(tachy_gpu_open(&g[i], i, NULL, &log_errors), TACHY_OK);
    for (int i = 0; i < 6; i++)
        CHECK_INT(tachy_gpu_take_decoder(g, 3), i % 3);
    tachy_gpu_give_decoder(g[1]);
    CHECK_INT(tachy_gpu_take_decoder(g, 3), 1);
    struct tachy_gpu *other[] = {g[2], g[0]}; // another source's list: the counts are the process's
    tachy_gpu_give_decoder(g[0]);
    CHECK_INT(tachy_gpu_take_decoder(other, 2), 1);
    CHECK_INT(tachy_gpu_take_decoder(other, 2), 0);
    CHECK_INT(tachy_gpu_take_decoder(&g[1], 1), 0);
    for (int i = 0; i < 8; i++)
        tachy_gpu_give_decoder(g[i < 2 ? 0 : i < 5 ? 1 : 2]);
    CHECK_INT(tachy_gpu_take_decoder(g, 3), 0); // all are given back
    tachy_gpu_give_decoder(g[0]);
    for (int i = 0; i < 3; i++)
        tachy_gpu_unref(&g[i]);
    CHECK_INT(counts()->streams + counts()->contexts, 0);
    list(1);
}

// ---- Memory

static struct tachy_memory *memory_of(struct tachy_gpu *g[], int n)
{
    struct tachy_memory *m;
    struct tachy_gpu_mem_params p = {.fraction = 0.25, .log = &log_errors};
    CHECK_INT(tachy_memory_open(&m, &(struct tachy_memory_params){.log = &log_errors}), TACHY_OK);
    for (int i = 0; i < n; i++) {
        CHECK_INT(tachy_gpu_open(&g[i], i, NULL, &log_errors), TACHY_OK);
        CHECK_INT(tachy_gpu_mem_open(m, &g[i]->device, &p), TACHY_OK);
    }
    return m;
}

// A device's blocks count against its own budget, and the places stay while the manager does.
TEST(a_budget_a_device)
{
    struct tachy_gpu *g[2];
    struct tachy_block a = {0}, b = {0}, c = {0}, d = {0};
    struct tachy_memory_stats s;
    const size_t gib = (size_t)1 << 30;
    list(2);
    struct tachy_memory *m = memory_of(g, 2);
    struct tachy_gpu_mem_params again = {.fraction = 0.5};
    CHECK_INT(tachy_gpu_mem_open(m, &g[1]->device, &again), TACHY_OK); // another task's: nothing changes
    for (int i = 0; i < 2; i++)
        tachy_gpu_unref(&g[i]);
    CHECK_INT(tachy_memory_take(m, &a, tachy_mem_of_gpu(0), TACHY_MEMORY_FRAMES, 3 * gib), TACHY_OK);
    CHECK_INT(tachy_memory_take(m, &b, tachy_mem_of_gpu(1), TACHY_MEMORY_FRAMES, 4 * gib), TACHY_OK);
    CHECK_INT(tachy_memory_take(m, &c, tachy_mem_of_gpu(1), TACHY_MEMORY_TENSORS, 1), TACHY_ERR_NOMEM);
    CHECK(strstr(last_message, "of device 1 memory are taken"));
    CHECK_INT(tachy_memory_take(m, &c, tachy_mem_of_gpu(0), TACHY_MEMORY_TENSORS, gib), TACHY_OK);
    tachy_memory_read(m, &s);
    CHECK(s.total[TACHY_DEVICE] == 4 * gib && s.total[tachy_mem_of_gpu(1)] == 4 * gib);
    CHECK_INT(tachy_memory_take(m, &d, tachy_mem_of_gpu(2), TACHY_MEMORY_TENSORS, 1), TACHY_ERR_UNSUPPORTED);
    tachy_memory_give(m, &a);
    tachy_memory_give(m, &b);
    tachy_memory_give(m, &c);
    tachy_memory_close(&m);
    list(1);
}

// ---- Failures

static void fail_push(int pushes) { ((__typeof__(fake_cuda_fail_push) *)driver("fake_cuda_fail_push"))(pushes); }

// A device whose context cannot be made current any more ends who waits for its work.
TEST(lost_context_ends_a_wait)
{
    struct tachy_gpu *g;
    struct device_flight *f;
    uint64_t part;
    CHECK_INT(tachy_gpu_open(&g, 0, NULL, &log_errors), TACHY_OK);
    CHECK_INT(tachy_device_enter(&g->device, NULL), TACHY_OK);
    CHECK_INT(device_flight_open(&f, g, g->stream, &log_errors), TACHY_OK);
    CHECK_INT(device_flight_mark(f, &part), TACHY_OK);
    tachy_device_leave(&g->device);
    fail_push(0);
    CHECK_INT(device_flight_wait(f, part), TACHY_ERR_EXTERNAL);
    CHECK(strstr(last_message, "Fake GPU"));
    fail_push(-1);
    device_flight_close(&f);
    tachy_gpu_unref(&g);
    CHECK_INT(counts()->events, 0);
}

// However far it comes, opening a device's places leaves nothing when it fails.
TEST(places_that_fail_leave_nothing)
{
    const struct tachy_cu *cu;
    struct tachy_device d;
    struct tachy_memory *m;
    CHECK_INT(tachy_cu_load(&cu, TACHY_LOG_ERR, NULL), TACHY_OK);
    CHECK_INT(tachy_device_describe(&d, cu, 0, NULL), TACHY_OK);
    for (int pushes = 0; pushes < 3; pushes++) {
        CHECK_INT(tachy_memory_open(&m, &(struct tachy_memory_params){0}), TACHY_OK);
        fail_push(pushes);
        CHECK_INT(tachy_gpu_mem_open(m, &d, &(struct tachy_gpu_mem_params){0}), TACHY_ERR_EXTERNAL);
        fail_push(-1);
        CHECK(!tachy_memory_has(m, TACHY_DEVICE));
        tachy_memory_close(&m);
        CHECK_INT(counts()->contexts, 0);
    }
}

// ---- Masks

TEST(masks_change_devices)
{
    struct tachy_gpu *g[2];
    list(2);
    struct tachy_memory *m = memory_of(g, 2);
    struct task_devices of = {.list = {{.gpu = g[0], .mem = tachy_mem_of_gpu(0)}, {.gpu = g[1], .mem = tachy_mem_of_gpu(1)}}};
    struct task_device *devices = of.list;
    tachy_task t = {.devices = &of};
    struct tachy_stage st = {.task = &t};
    const struct tachy_masks masks = {.st = &st};
    struct tachy_mask_eye e = {0};
    for (int i = 0; i < 2; i++)
        CHECK_INT(mask_pieces_open(&devices[i].masks, m, g[i]), TACHY_OK);
    CHECK_INT(mask_there_room(&masks, &e, 40, 30), TACHY_OK);
    CHECK(e.mask && e.there->device == &devices[0]);
    memset(e.mask, 77, 1200);
    const uint8_t *first = e.mask;
    CHECK_INT(mask_there_move(&e, &devices[0], true), TACHY_OK);
    CHECK(e.mask == first && !e.there->stale);
    CHECK_INT(mask_there_move(&e, &devices[1], true), TACHY_OK);
    CHECK(e.mask != first && e.there->device == &devices[1] && e.there->stale); // the host's is the true one
    for (int i = 0; i < 1200; i++)
        CHECK(e.mask[i] == 77);
    CHECK_INT(mask_there_move(&e, &devices[0], false), TACHY_OK);
    CHECK(e.mask == first && e.there->device == &devices[0] && !e.there->stale); // the piece that was given back
    struct tachy_memory_stats before, after;
    tachy_memory_read(m, &before);
    for (int i = 0; i < 100; i++)
        CHECK_INT(mask_there_move(&e, &devices[i % 2], i % 3 == 0), TACHY_OK);
    tachy_memory_read(m, &after);
    CHECK(!memcmp(before.total, after.total, sizeof(before.total))); // nothing is allocated again
    mask_there_free(&e);
    for (int i = 0; i < 2; i++)
        mask_pieces_close(&devices[i].masks);
    tachy_memory_read(m, &after);
    CHECK(!after.total[tachy_mem_of_gpu(0)] && !after.total[tachy_mem_of_gpu(1)] && !after.total[TACHY_PINNED]);
    tachy_memory_close(&m);
    for (int i = 0; i < 2; i++)
        tachy_gpu_unref(&g[i]);
    CHECK_INT(counts()->streams, 0);
    CHECK_INT(counts()->contexts, 0);
    CHECK_INT(counts()->events, 0);
    CHECK_INT(counts()->allocations, 0);
    list(1);
}

TEST(summary_names_them)
{
    struct tachy_summary s = {.frames = 5, .nb_gpus = 2, .gpus = {{.gpu = 0, .frames = 3}, {.gpu = 5, .frames = 2}}};
    char *text, *json;
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "GPUs: 3 frames on GPU 0, 2 on GPU 5\n"));
    CHECK_INT(tachy_summary_json(&json, &s, NULL), TACHY_OK);
    CHECK(strstr(json, "\"gpus\"") && strstr(json, "\"gpu\": 5"));
    tachy_free(text);
    tachy_free(json);
    s.nb_gpus = 0;
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(!strstr(text, "GPU"));
    tachy_free(text);
}

TEST_MAIN(TEST_CASE(lists), TEST_CASE(wrong_lists), TEST_CASE(both_options), TEST_CASE(source_refuses),
          TEST_CASE(decoders_go_to_the_least_loaded), TEST_CASE(a_budget_a_device), TEST_CASE(masks_change_devices),
          TEST_CASE(lost_context_ends_a_wait), TEST_CASE(places_that_fail_leave_nothing),
          TEST_CASE(summary_names_them))
