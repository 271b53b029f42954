#include "segment_gpu.h"

#include "pipeline/stage_save.h"
#include "stage/stage.h"

// The stages of segment with its model on a device (segment_gpu.h), one frame after the other without a pipeline: states, and what
// engines take.

struct bench {
    tachy_task *t;
    struct tachy_memory *memory;
    void *worker[TACHY_MAX_STAGES], *state;
    struct tachy_stage *model; // whose state it is
};

static void open_bench(struct bench *b, const char *model, int eyes)
{
    list(1);
    struct tachy_video_info out, in = video;
    in.stereo = eyes == 2 ? TACHY_STEREO_SBS : TACHY_STEREO_MONO;
    *b = (struct bench){.t = open_task(model, "mask", "0", "0.5")};
    CHECK_INT(tachy_memory_open(&b->memory, &(struct tachy_memory_params){.log = &log_errors}), TACHY_OK);
    b->t->memory = b->memory;
    CHECK_INT(tachy_stages_start(b->t, &in, &out), TACHY_OK);
    CHECK_INT(tachy_task_worker_open(b->t, b->worker), TACHY_OK);
    b->model = tachy_stage_save_of(b->t);
    CHECK_INT(b->model->ops->state_open(b->model, &b->state), TACHY_OK);
}

static void close_bench(struct bench *b)
{
    b->model->ops->state_close(b->state);
    tachy_task_worker_close(b->t, b->worker);
    tachy_task_close(&b->t);
    tachy_memory_close(&b->memory);
    nothing_is_left();
}

// Frame `id` through the model from `state`; each region's mask.
struct stepped {
    struct bench *b;
    int *mask;
};

static void look(struct tachy_stage_pass *p, int region)
{
    const struct stepped *s = p->user;
    struct tachy_stage_tensors t;
    const struct tachy_piece piece = {p->items[0], region};
    void *worker = tachy_stage_worker(s->b->model, p->worker);
    CHECK_INT(s->b->model->ops->tensors(s->b->model, worker, &piece, &t), TACHY_OK); // also waits for the mask
    CHECK_INT(t.n_in, 3);
    CHECK_INT(t.n_out, 4);
    const float *h = t.out[OUT_H].data, *k = t.out[OUT_K].data, *y = t.out[OUT_Y].data;
    CHECK(h[0] + k[0] == y[0]); // states are fetched with the rest
    s->mask[region] = p->items[0]->result.mask[region].data[0];
}

static void step(struct bench *b, void *state, int64_t id, bool anew, int mask[2])
{
    struct tachy_item one = {.priv = calloc(1, b->t->item_size), .anew = anew}, *item = &one;
    void *states[TACHY_MAX_STAGES] = {0};
    int err = TACHY_OK;
    CHECK_INT(tachy_frame_new(&one.in, &(struct tachy_frame_params){.format = TACHY_PIX_NV12, .width = W, .height = H}),
              TACHY_OK);
    draw(one.in, id);
    one.result.frame_id = id;
    states[b->model->index] = state;
    struct stepped s = {b, mask};
    struct tachy_stage_pass p = {.task = b->t, .worker = b->worker, .state = states, .items = &item, .n = 1, .err = &err,
                                 .region_done = look, .user = &s};
    tachy_stage_pass(&p, 0, tachy_task_copies(b->t)->index + 1);
    CHECK_INT(err, TACHY_OK);
    tachy_frame_unref(&one.in);
    tachy_task_item_close(b->t, one.priv);
    free(one.priv);
}

TEST(states_are_saved_and_loaded)
{
    for (int eyes = 1; eyes <= 2; eyes++) {
        struct bench b;
        void *data[2] = {0}, *other;
        size_t size[2];
        int one[2], two[2];
        open_bench(&b, "rec", eyes);
        const struct tachy_stage_ops *ops = b.model->ops;
        CHECK_INT(ops->state_save(b.state, &data[0], &size[0]), TACHY_OK);
        CHECK_INT(size[0], (sizeof(int32_t) + (8 + 16) * sizeof(float)) * (size_t)eyes);
        const int32_t *warm_up = data[0]; // as the host's: none, zeros, then the start of the other
        const float *f = (const float *)(warm_up + 1);
        CHECK_INT(*warm_up, 0);
        CHECK(f[0] == 0 && f[7] == 0 && f[8] == START && f[23] == START);
        for (int i = 0; i < 7; i++)
            step(&b, b.state, i, false, one);
        CHECK_INT(ops->state_save(b.state, &data[1], &size[1]), TACHY_OK);
        CHECK(size[1] == size[0] && memcmp(data[0], data[1], size[0]));
        CHECK_INT(ops->state_open(b.model, &other), TACHY_OK);
        CHECK_INT(ops->state_load(other, data[1], size[1] - 1), TACHY_ERR_FORMAT);
        CHECK_INT(ops->state_load(other, data[1], size[1]), TACHY_OK);
        struct pair state[2] = {first, first};
        for (int i = 0; i < 12; i++) {
            int want[2];
            for (int eye = 0; eye < eyes; eye++)
                want[eye] = mask_of(state, i, eye, false);
            if (i < 7)
                continue;
            step(&b, b.state, i, false, one);
            step(&b, other, i, false, two);
            for (int eye = 0; eye < eyes; eye++) {
                CHECK_INT(one[eye], want[eye]);
                CHECK_INT(two[eye], want[eye]);
            }
        }
        state[0] = state[1] = first; // after a discontinuity a frame is like the first one
        step(&b, other, 3, true, two);
        for (int eye = 0; eye < eyes; eye++)
            CHECK_INT(two[eye], mask_of(state, 3, eye, false));
        ops->state_close(other);
        for (int i = 0; i < 2; i++)
            free(data[i]);
        close_bench(&b);
    }
}

// The network of the card `warm` sees a first picture three times, also after a discontinuity and from a saved state.
TEST(a_first_picture_warms_up)
{
    enum { WARM_UP = 2 };
    for (int eyes = 1; eyes <= 2; eyes++) {
        struct bench b;
        void *fresh, *other;
        size_t size;
        open_bench(&b, "warm", eyes);
        const struct tachy_stage_ops *ops = b.model->ops;
        CHECK_INT(ops->state_save(b.state, &fresh, &size), TACHY_OK);
        CHECK_INT(*(const int32_t *)fresh, WARM_UP);
        CHECK_INT(ops->state_open(b.model, &other), TACHY_OK);
        CHECK_INT(ops->state_load(other, fresh, size), TACHY_OK);
        struct pair state[2] = {first, first};
        for (int i = 1; i < 8; i++) {
            int want[2], one[2], two[2];
            bool anew = i == 4;
            for (int eye = 0; eye < eyes; eye++) {
                state[eye] = anew ? first : state[eye];
                for (int k = 0; k < (i == 1 || anew ? WARM_UP : 0); k++)
                    mask_of(state, i, eye, false);
                want[eye] = mask_of(state, i, eye, false);
            }
            step(&b, b.state, i, anew, one);
            step(&b, other, i, anew, two);
            for (int eye = 0; eye < eyes; eye++) {
                CHECK_INT(one[eye], want[eye]);
                CHECK_INT(two[eye], want[eye]);
            }
        }
        ops->state_close(other);
        free(fresh);
        close_bench(&b);
    }
}

// The engines count in the share of the memory; if they do not fit, an error comes before the first frame.
TEST(engines_are_counted)
{
    for (int i = 0; i < 2; i++) {
        static const char *const fractions[] = {"0.5", "0.05"}; // of 16 GiB
        struct tachy_memory *memory;
        struct tachy_memory_stats stats;
        struct tachy_video_info out;
        list(2);
        tachy_task *t = open_task("flat", "mask", "0,1", fractions[i]);
        CHECK_INT(tachy_memory_open(&memory, &(struct tachy_memory_params){.log = NULL}), TACHY_OK);
        t->memory = memory;
        CHECK_INT(tachy_stages_start(t, &video, &out), i ? TACHY_ERR_NOMEM : TACHY_OK);
        tachy_memory_read(memory, &stats);
        for (int gpu = 0; gpu < 2 && !i; gpu++)
            CHECK(stats.used[tachy_mem_of_gpu(gpu)][TACHY_MEMORY_TENSORS] >= TAKEN);
        CHECK(strstr(last, "takes 900 MiB there, more than gpu.memory_fraction") ? i : !i);
        tachy_task_close(&t);
        tachy_memory_close(&memory);
        list(1);
        nothing_is_left();
    }
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(engines_are_counted), TEST_CASE(states_are_saved_and_loaded), TEST_CASE(a_first_picture_warms_up),
          TEST_CASE(cleans))
