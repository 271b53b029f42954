#include "test.h"

#include "onnx/graph.h"
#include "stage/stage.h"

#include <stdlib.h>
#include <tachy/engine.h>
#include <tachy/settings.h>
#include <unistd.h>

// The stages of a network whose items hold the model's tensors: of a recurrent model only the calls of the model are
// in order, so frames may be preprocessed long before, and their masks made long after. The network is
// y = (x + state) / 2, which is the next state.

enum { W = 16, H = 8, FRAMES = 6 };

static char folder[64];

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "     %s\n", msg);
}
static const struct tachy_log say = {.fn = print, .max_level = TACHY_LOG_WARN};

static void write_model(void)
{
    const struct onnx_shape shape = {4, {1, H, W, 1}};
    struct onnx_graph *g = onnx_new(1000);
    int x = onnx_input(g, "x", ONNX_FLOAT, &shape), s = onnx_input(g, "s", ONNX_FLOAT, &shape);
    int sum = onnx_add(g, "Add", 2, (int[]){x, s}, ONNX_FLOAT, &shape);
    int y = onnx_add(g, "Mul", 2, (int[]){sum, onnx_float(g, 0.5f)}, ONNX_FLOAT, &shape);
    onnx_output(g, y, "y");
    onnx_output(g, onnx_unary(g, "Identity", y), "t");
    onnx_prune(g);
    char *data = NULL, path[128];
    size_t size;
    CHECK_INT(onnx_write(g, "recurrent", &data, &size), TACHY_OK);
    snprintf(path, sizeof(path), "%s/rec.onnx", folder);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    tachy_free(data);
    onnx_free(&g);
    test_write(folder, "rec.json",
               "{\"name\": \"rec\", \"task\": \"segment\", \"file\": \"rec.onnx\", \"input\": {\"name\": \"x\", \"width\": 16, "
               "\"height\": 8, \"layout\": \"nhwc\", \"channels\": \"luma\", \"scale\": 0.003921568}, "
               "\"output\": {\"name\": \"y\", \"meaning\": \"probability\"}, \"state\": [{\"input\": \"s\", \"output\": \"t\"}]}");
}

static tachy_task *open_task(bool saved)
{
    static const struct tachy_video_info in = {.format = TACHY_PIX_GRAY8, .width = W, .height = H, .time_base = {1, 25},
                                               .fps = {25, 1}};
    char dir[128];
    tachy_settings *set = NULL;
    struct tachy_video_info out;
    tachy_task *t = NULL;
    snprintf(dir, sizeof(dir), "%s/saved", folder);
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", "rec"}, {"model.dir", folder}, {"model.provider", "cpu"},
                                   {"segment.mode", "mask"}, {"debug.save_stage", dir}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with) - !saved; i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &say), TACHY_OK);
    tachy_settings_free(&set);
    if (!t)
        exit(1);
    CHECK_INT(tachy_stages_start(t, &in, &out), TACHY_OK);
    return t;
}

// Objects of a run: two workers, the stream's states, and items.
struct run {
    tachy_task *t;
    void *worker[2][TACHY_MAX_STAGES], *state[TACHY_MAX_STAGES];
    struct tachy_item item[FRAMES];
};

static void open_run(struct run *r)
{
    memset(r, 0, sizeof(*r));
    r->t = open_task(false);
    for (int w = 0; w < 2; w++)
        CHECK_INT(tachy_task_worker_open(r->t, r->worker[w]), TACHY_OK);
    for (int i = 0; i < r->t->nb_stages; i++)
        if (tachy_stage_has_state(r->t->stage[i]))
            CHECK_INT(tachy_stage_state_open(r->t->stage[i], &r->state[i]), TACHY_OK);
    for (int n = 0; n < FRAMES; n++) {
        const struct tachy_frame_params p = {.format = TACHY_PIX_GRAY8, .width = W, .height = H, .pts = n,
                                           .color = {.range = 2}};
        struct tachy_item *item = &r->item[n];
        CHECK_INT(tachy_frame_new(&item->in, &p), TACHY_OK);
        for (int y = 0; y < H; y++)
            memset(tachy_frame_writable(item->in, 0) + y * item->in->stride[0], 40 * n + y, W);
        item->anew = n == 0 || n == 4;
        item->priv = calloc(1, r->t->item_size);
    }
}

static void close_run(struct run *r)
{
    for (int n = 0; n < FRAMES; n++) {
        tachy_frame_unref(&r->item[n].in);
        tachy_frame_unref(&r->item[n].out);
        tachy_task_item_close(r->t, r->item[n].priv);
        free(r->item[n].priv);
    }
    for (int i = 0; i < r->t->nb_stages; i++)
        tachy_stage_state_close(r->t->stage[i], r->state[i]);
    for (int w = 0; w < 2; w++)
        tachy_task_worker_close(r->t, r->worker[w]);
    tachy_task_close(&r->t);
}

static void pass(struct run *r, int worker, int n, int first, int end)
{
    struct tachy_item *item = &r->item[n];
    int err = TACHY_OK;
    struct tachy_stage_pass p = {.task = r->t, .worker = r->worker[worker], .state = r->state, .items = &item, .n = 1, .err = &err};
    tachy_stage_pass(&p, first, end);
    CHECK_INT(err, TACHY_OK);
}

TEST(only_the_model_is_in_order)
{
    struct run one, apart;
    open_run(&one);
    for (int n = 0; n < FRAMES; n++)
        pass(&one, 0, n, 0, one.t->nb_stages);
    open_run(&apart);
    for (int n = FRAMES; n-- > 0;)
        pass(&apart, n & 1, n, 0, 1);
    for (int n = 0; n < FRAMES; n++)
        pass(&apart, ~n & 1, n, 1, 2);
    for (int n = FRAMES; n-- > 0;)
        pass(&apart, n & 1, n, 2, apart.t->nb_stages);
    double state = 0;
    for (int n = 0; n < FRAMES; n++) {
        const struct tachy_mask *a = &one.item[n].result.mask[0], *b = &apart.item[n].result.mask[0];
        state = ((one.item[n].anew ? 0 : state) + 40 * n) / 2; // of the first row
        CHECK_INT(a->data[0], (int)(state + 0.5));
        CHECK(a->width == W && b->width == W && !memcmp(a->data, b->data, (size_t)W * H));
    }
    close_run(&apart);
    close_run(&one);
}

// The saving stage reads the worker's tensors right after they were used.
TEST(flags)
{
    for (int saved = 0; saved < 2; saved++) {
        tachy_task *t = open_task(saved);
        CHECK_INT(!(t->stage[0]->flags & TACHY_STAGE_ORDERED), !saved);
        CHECK_INT(!(t->stage[1]->flags & TACHY_STAGE_ORDERED), false);
        CHECK_INT(!(t->stage[2]->flags & TACHY_STAGE_ORDERED), !saved);
        tachy_task_close(&t);
    }
}

TEST(set_up)
{
    char *json = NULL;
    if (tachy_engine_library(&json, NULL, NULL) < 0)
        SKIP("ONNX Runtime is not here");
    tachy_free(json);
    write_model();
}

int main(void)
{
    static const struct test_case cases[] = {TEST_CASE(set_up), TEST_CASE(only_the_model_is_in_order), TEST_CASE(flags)};
    snprintf(folder, sizeof(folder), "%s/tachy-infer-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder))
        return 1;
    int status = test_run(cases, TACHY_ARRAY_SIZE(cases));
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) ? 1 : status;
}
