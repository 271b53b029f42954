#include "test.h"

#include "stage/stage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <tachy/pipeline.h>

// Ordered stages that see items after the one whose turn it is.

enum { SEVEN = 7, NEVER = -1 };

static struct {
    int frames, ahead[2]; // of the two stages; 0: it is an ordered one like others
    int anew_at, fail_at, flush_at; // frames
    atomic_int out;       // frames that have come out
    int wrong[2], turns[2]; // of the two stages, which run side by side
} now = {.flush_at = NEVER};

// Marks that a frame's stages have left.
struct own {
    int64_t seven, sum;
};

static void fill(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++) {
        struct own *own = tachy_stage_item(st, pieces[i].item);
        int64_t id = pieces[i].item->result.frame_id;
        *own = (struct own){SEVEN * id + 1, 0};
        if (id % 3 == 0) // later frames overtake it
            usleep(50);
        err[i] = id == now.fail_at ? TACHY_ERR_EXTERNAL : TACHY_OK;
    }
}

// Frames after `id` that there are to see.
static int64_t left_after(int64_t id)
{
    int64_t end = now.fail_at == NEVER ? now.frames : now.fail_at;
    if (now.anew_at > id)
        end = TACHY_MIN(end, now.anew_at);
    return end - 1 - id;
}

// The index of a stage: the first adds up what it sees, the second reads these sums.
static void look(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    int which = st->index - 1;
    struct own *own = tachy_stage_item(st->task->stage[0], pieces[0].item);
    int64_t id = pieces[0].item->result.frame_id;
    now.wrong[which] += id != now.turns[which]++;
    now.wrong[which] += n != 1 + TACHY_MIN(now.ahead[which], left_after(id));
    for (int i = 0; i < n; i++) {
        const struct own *seen = tachy_stage_item(st->task->stage[0], pieces[i].item);
        now.wrong[which] += seen->seven != SEVEN * (id + i) + 1;
        now.wrong[which] += which ? i > 0 && seen->sum == 0 : seen->sum != 0;
        own->sum += which ? 0 : seen->seven;
    }
}

static int open_first(struct tachy_stage *st, const tachy_settings *s)
{
    st->ahead = now.ahead[0];
    return TACHY_OK;
}

static int open_second(struct tachy_stage *st, const tachy_settings *s)
{
    st->ahead = now.ahead[1];
    return TACHY_OK;
}

static void *feed(void *stream)
{
    for (int i = 0; i < now.frames; i++) {
        tachy_frame *f;
        tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8, .width = 16, .height = 2});
        f->id = i;
        f->discontinuity = i == now.anew_at && i != now.flush_at;
        if (i == now.flush_at) {
            tachy_stream_flush(stream);
            while (atomic_load(&now.out) < i) // all of them come out, though no frame follows
                usleep(100);
        }
        int err = tachy_stream_push(stream, f);
        tachy_frame_unref(&f);
        if (err < 0)
            break;
    }
    tachy_stream_push(stream, NULL);
    return NULL;
}

// Returns how many frames came out.
static int run(int frames, int first, int second, int anew_at, int fail_at, int workers, int64_t max_bytes)
{
    static const struct tachy_stage_ops fills = {.name = "fill", .run = fill, .item_size = sizeof(struct own)};
    static const struct tachy_stage_ops firsts = {.name = "first", .flags = TACHY_STAGE_ORDERED, .open = open_first, .run = look};
    static const struct tachy_stage_ops seconds = {.name = "second", .flags = TACHY_STAGE_ORDERED, .open = open_second, .run = look};
    tachy_task task = {.name = "looks", .eyes = 1};
    const struct tachy_video_info in = {.format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    tachy_pipeline *p;
    tachy_stream *stream;
    pthread_t thread;
    atomic_store(&now.out, 0);
    now.frames = frames;
    now.ahead[0] = first;
    now.ahead[1] = second;
    now.anew_at = anew_at;
    now.fail_at = fail_at;
    memset(now.wrong, 0, sizeof(now.wrong));
    memset(now.turns, 0, sizeof(now.turns));
    CHECK_INT(tachy_stage_add(&task, &fills, NULL), TACHY_OK);
    CHECK_INT(tachy_stage_add(&task, &firsts, NULL), TACHY_OK);
    CHECK_INT(tachy_stage_add(&task, &seconds, NULL), TACHY_OK);
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = workers, .max_bytes = max_bytes)), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &stream, tachy_stream_params(.task = &task, .input = in)), TACHY_OK);
    pthread_create(&thread, NULL, feed, stream);
    const struct tachy_result *r;
    int n = 0, end;
    while ((end = tachy_stream_pull(stream, NULL, &r)) == TACHY_OK) {
        CHECK_INT(r->frame_id, n++);
        atomic_store(&now.out, n);
    }
    CHECK_INT(end, fail_at == NEVER ? TACHY_ERR_EOF : TACHY_ERR_EXTERNAL);
    pthread_join(thread, NULL);
    tachy_stream_leave(&stream);
    tachy_pipeline_close(&p);
    CHECK_INT(now.wrong[0] + now.wrong[1], 0);
    CHECK_INT(now.turns[1], n);
    tachy_stages_close(&task);
    return n;
}

TEST(each_frame_sees_those_after_it)
{
    static const int ahead[][2] = {{0, 0}, {1, 0}, {0, 3}, {4, 2}, {31, 31}};
    static const int frames[] = {0, 1, 2, 40, 150};
    for (size_t a = 0; a < TACHY_ARRAY_SIZE(ahead); a++)
        for (size_t f = 0; f < TACHY_ARRAY_SIZE(frames); f++)
            for (int workers = 1; workers <= 4; workers += 3) {
                CHECK_INT(run(frames[f], ahead[a][0], ahead[a][1], NEVER, NEVER, workers, 0), frames[f]);
                CHECK_INT(run(frames[f], ahead[a][0], ahead[a][1], NEVER, NEVER, workers, 1), frames[f]); // the least memory
            }
}

TEST(none_is_seen_beyond_a_new_beginning)
{
    for (int workers = 1; workers <= 3; workers++)
        CHECK_INT(run(60, 4, 2, 23, NEVER, workers, 0), 60);
}

TEST(a_flush_waits_for_none)
{
    for (int at = 1; at < 12; at += 5)
        for (int workers = 1; workers <= 3; workers++) {
            now.flush_at = at;
            CHECK_INT(run(30, 4, 2, at, NEVER, workers, 0), 30);
        }
    now.flush_at = NEVER;
}

TEST(a_failure_ends_what_is_seen)
{
    for (int at = 0; at < 12; at += 3)
        for (int workers = 1; workers <= 3; workers++)
            CHECK_INT(run(60, 4, 2, NEVER, at, workers, 0), at);
}

TEST_MAIN(TEST_CASE(each_frame_sees_those_after_it), TEST_CASE(none_is_seen_beyond_a_new_beginning),
          TEST_CASE(a_flush_waits_for_none), TEST_CASE(a_failure_ends_what_is_seen))
