#include "test.h"

#include "pipeline/live_stream.h"
#include "stage/infer.h"
#include "tiny_onnx.h"

#include <math.h>
#include <tachy/engine.h>
#include <tachy/settings.h>
#include <unistd.h>

// The smaller input of mode live: a frame at that size gets the same result as with only the smaller card, for both
// eyes, whatever sizes the frames around it had; with smoothing, a frame at which the size changes is a discontinuity.
// The network is out = in + in with free extents.

enum { W = 160, H = 60, FRAMES = 24 };

static char folder[64];

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "     %s\n", msg);
}
static const struct tachy_log say = {.fn = print, .max_level = TACHY_LOG_INFO};

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

static void write_card(const char *name, int width, int height, const char *smaller)
{
    char file[60];
    snprintf(file, sizeof(file), "%s.json", name);
    FILE *f = fopen(in_folder(file), "w");
    fprintf(f,
            "{\"name\": \"%s\", \"task\": \"segment\", \"file\": \"tiny.onnx\", \"input\": {\"width\": %d, "
            "\"height\": %d, \"layout\": \"nhwc\", \"channels\": \"luma\", \"scale\": 0.002}, \"output\": "
            "{\"meaning\": \"probability\"}%s}",
            name, width, height, smaller);
    fclose(f);
}

static tachy_task *open_task(const char *model, const char *smooth)
{
    tachy_settings *set = NULL;
    tachy_task *t = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", model},     {"model.dir", folder},
                                   {"model.provider", "cpu"}, {"segment.mode", "mask"},
                                   {"segment.smooth", smooth}, {"segment.feather", "1"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &say), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

static tachy_frame *picture(int n)
{
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8, .width = W,
                                                               .height = H, .pts = n}),
              TACHY_OK);
    uint8_t *p = tachy_frame_writable(f, 0);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            p[y * f->stride[0] + x] = (uint8_t)(128 + 100 * sin((x + 3 * n) * 0.11) * cos((y - n) * 0.13));
    f->id = n;
    return f;
}

// Output of a task that runs the frames at the requested sizes (bit n of `small`).
struct outcome {
    uint8_t pixels[FRAMES][H][W];
    int width[FRAMES]; // of the left eye's mask
};

static void run(tachy_task *t, unsigned small, unsigned anew, struct outcome *o)
{
    struct tachy_video_info in = {.format = TACHY_PIX_GRAY8, .width = W, .height = H, .time_base = {1, 25},
                                  .fps = {25, 1}, .stereo = TACHY_STEREO_SBS}, out;
    void *worker[TACHY_MAX_STAGES], *state[TACHY_MAX_STAGES] = {0}, *priv = calloc(1, t->item_size);
    CHECK_INT(tachy_stages_start(t, &in, &out), TACHY_OK);
    CHECK_INT(t->eyes, 2);
    CHECK_INT(tachy_task_worker_open(t, worker), TACHY_OK);
    for (int i = 0; i < t->nb_stages; i++)
        CHECK_INT(tachy_stage_state_open(t->stage[i], &state[i]), TACHY_OK);
    for (int n = 0; n < FRAMES; n++) {
        struct tachy_item one = {.in = picture(n), .small = small >> n & 1, .anew = anew >> n & 1, .priv = priv}, *item = &one;
        int err = TACHY_OK;
        struct tachy_stage_pass p = {.task = t, .worker = worker, .state = state, .items = &item, .n = 1, .err = &err};
        tachy_stage_pass(&p, 0, t->nb_stages);
        CHECK_INT(err, TACHY_OK);
        CHECK_INT(tachy_task_sync(t, item), TACHY_OK);
        o->width[n] = item->result.mask[0].width;
        for (int y = 0; y < H; y++)
            memcpy(o->pixels[n][y], item->out->data[0] + y * item->out->stride[0], W);
        tachy_frame_unref(&item->in);
        tachy_frame_unref(&item->out);
    }
    for (int i = 0; i < t->nb_stages; i++)
        tachy_stage_state_close(t->stage[i], state[i]);
    tachy_task_worker_close(t, worker);
    tachy_task_item_close(t, priv);
    free(priv);
}

static struct outcome full, small, mixed;

// Every frame at its size equals the result with only that card.
static void compare(const char *model, const char *smaller, const char *smooth)
{
    // Without smoothing the size changes at any frame; with it, where a scene does.
    bool smooths = strcmp(smooth, "0") != 0;
    unsigned sizes = smooths ? 0xff00u : 0x6b4d36u, anew = smooths ? 1u | 1u << 8 | 1u << 16 : 1u;
    tachy_task *t = open_task(model, smooth);
    CHECK_INT(tachy_task_degrades(t), 1 << TACHY_DEGRADE_SMALL_INPUT);
    CHECK_INT(tachy_task_degrades(t), 1 << TACHY_DEGRADE_SMALL_INPUT); // for the next run
    run(t, sizes, 1, &mixed);
    tachy_task_close(&t);
    t = open_task(model, smooth);
    run(t, ~0u, anew, &full); // it was not made ready
    tachy_task_close(&t);
    t = open_task(smaller, smooth);
    CHECK_INT(tachy_task_degrades(t), 0);
    run(t, 0, anew, &small);
    tachy_task_close(&t);
    for (int n = 0; n < FRAMES; n++) {
        const struct outcome *want = sizes >> n & 1 ? &small : &full;
        CHECK_INT(mixed.width[n], want->width[n]);
        CHECK(!memcmp(mixed.pixels[n], want->pixels[n], sizeof(want->pixels[n])));
    }
    CHECK_INT(full.width[0], 64);
    CHECK_INT(small.width[0], 40);
    CHECK(memcmp(full.pixels[0], small.pixels[0], sizeof(full.pixels[0])) != 0);
}

TEST(another_card) { compare("named", "little", "0"); }
TEST(another_card_smoothed) { compare("named", "little", "0.7"); }
TEST(other_extents) { compare("free", "little", "0"); }

TEST(what_cannot_be)
{
    static const char *const names[] = {"missing", "cropped", "larger", "lone"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        tachy_task *t = open_task(names[i], "0");
        CHECK_INT(tachy_task_degrades(t), 0);
        run(t, ~0u, 1, &mixed); // at full size
        CHECK_INT(mixed.width[0], i == 2 ? 40 : 64);
        tachy_task_close(&t);
    }
}

TEST(only_where_a_controller_would_use_it)
{
    static const struct tachy_live_params cases[] = {
        {.mode = TACHY_RUN_LIVE}, {.mode = TACHY_RUN_LIVE, .max_latency_ms = 60, .no_degrade = true},
        {.max_latency_ms = 60},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        tachy_task *t = open_task("named", "0");
        struct live_stream *ls = NULL;
        CHECK_INT(live_stream_open(&ls, t, &cases[i], NULL), TACHY_OK);
        live_stream_close(&ls);
        run(t, ~0u, 1, &mixed);
        CHECK_INT(mixed.width[0], 64);
        tachy_task_close(&t);
    }
}

TEST(set_up)
{
    char *json = NULL;
    if (tachy_engine_library(&json, NULL, NULL) < 0)
        SKIP("ONNX Runtime is not here");
    tachy_free(json);
    CHECK(tiny_write(in_folder("tiny.onnx"), "Add", 1, (const int64_t[]){1, -1, -1, 1, 0}));
    write_card("little", 40, 40, "");
    write_card("named", 64, 64, ", \"smaller\": \"little\"");
    write_card("free", 64, 64, ", \"smaller\": {\"width\": 40, \"height\": 40}");
    write_card("lone", 64, 64, "");
    write_card("missing", 64, 64, ", \"smaller\": \"nowhere\"");
    write_card("cropped", 64, 64, ", \"smaller\": \"crop\"");
    write_card("larger", 40, 40, ", \"smaller\": \"lone\"");
    FILE *f = fopen(in_folder("crop.json"), "w");
    fprintf(f, "{\"name\": \"crop\", \"task\": \"segment\", \"file\": \"tiny.onnx\", \"input\": {\"width\": 40, "
               "\"height\": 40, \"layout\": \"nhwc\", \"channels\": \"luma\", \"fit\": \"crop\"}, \"output\": "
               "{\"meaning\": \"probability\"}}");
    fclose(f);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(set_up),        TEST_CASE(another_card),   TEST_CASE(another_card_smoothed),
        TEST_CASE(other_extents), TEST_CASE(what_cannot_be), TEST_CASE(only_where_a_controller_would_use_it),
    };
    snprintf(folder, sizeof(folder), "%s/tachy-small-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder))
        return 1;
    int status = test_run(cases, TACHY_ARRAY_SIZE(cases));
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) ? 1 : status;
}
