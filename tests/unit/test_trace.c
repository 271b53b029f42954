#include "test.h"

#include "base/base.h"
#include "profile/profile.h"
#include "rows.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <tachy/doctor.h>
#include <tachy/profile.h>
#include <unistd.h>

// The clock of spans, the ring, and the windows of the files.

static uint64_t (*records(const struct tachy_ring *r))[TACHY_RING_WORDS]
{
    return malloc(tachy_ring_capacity(r) * sizeof(uint64_t[TACHY_RING_WORDS]));
}

static void add_number(struct tachy_ring *r, uint64_t n)
{
    tachy_span_add(
        r, &(struct tachy_span){n, n + 1, n * 3, (int64_t)n, (uint32_t)n ^ 5, (uint32_t)n % 6});
}

static bool is_number(const uint64_t *word, uint64_t n)
{
    struct tachy_span s = tachy_span_of(word);
    return s.start == n && s.end == n + 1 && s.wait == n * 3 && s.frame == (int64_t)n &&
           s.stream == ((uint32_t)n ^ 5) && s.step == (uint32_t)n % 6;
}

TEST(clocks_agree)
{
    for (int counter = 0; counter <= 1; counter++) {
        struct tachy_tick_rate r = tachy_ticks_calibrate(counter);
        CHECK(r.mult > 0);
        CHECK(!r.counter || counter);
        CHECK(r.counter || r.mult == (uint64_t)1 << 32);
    }
    tachy_ticks_init();
    struct tachy_tick_anchor a = tachy_ticks_anchor();
    uint64_t t = tachy_ticks();
    usleep(50000);
    uint64_t ticks = tachy_ticks() - t;
    struct tachy_tick_anchor b = tachy_ticks_anchor();
    double ns = (double)(b.ns - a.ns);
    CHECK(fabs((double)tachy_ticks_ns(b.ticks - a.ticks) / ns - 1) < 0.005);
    CHECK((double)tachy_ticks_ns(ticks) <= ns * 1.005);
    CHECK_INT(tachy_ticks_at(a.ticks, &a, &b), a.ns);
    CHECK_INT(tachy_ticks_at(b.ticks, &a, &b), b.ns);
    // Before and after the anchors, and with no distance between them.
    CHECK(tachy_ticks_at(a.ticks - (b.ticks - a.ticks), &a, &b) + 2 - (a.ns - (b.ns - a.ns)) <= 4);
    CHECK(fabs((double)(tachy_ticks_at(b.ticks, &a, &a) - b.ns)) < 0.005 * ns ||
          fabs((double)(b.ns - tachy_ticks_at(b.ticks, &a, &a))) < 0.005 * ns);
}

TEST(ring_keeps_the_newest)
{
    struct tachy_ring *r = tachy_ring_new(50);
    CHECK_INT(tachy_ring_capacity(r), 64);
    uint64_t(*out)[TACHY_RING_WORDS] = records(r);
    static const uint64_t totals[] = {0, 1, 63, 64, 65, 1000};
    uint64_t added = 0, dropped;
    for (size_t t = 0; t < sizeof(totals) / sizeof(totals[0]); t++) {
        while (added < totals[t])
            add_number(r, added++);
        uint64_t n = tachy_ring_read(r, out, &dropped);
        CHECK_INT(n, added < 64 ? added : 63);
        CHECK_INT(dropped, added - n);
        for (uint64_t i = 0; i < n; i++)
            CHECK(is_number(out[i], dropped + i));
    }
    free(out);
    tachy_aligned_free(r);
}

static void *write_many(void *ring)
{
    for (uint64_t n = 0; n < 2000000; n++)
        add_number(ring, n);
    return NULL;
}

// A concurrent reader sees complete records in order, or none.
TEST(ring_is_read_while_it_is_written)
{
    struct tachy_ring *r = tachy_ring_new(1024);
    uint64_t(*out)[TACHY_RING_WORDS] = records(r);
    uint64_t last = 0, seen = 0;
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, write_many, r));
    while (last < 2000000 - 1) {
        uint64_t dropped, n = tachy_ring_read(r, out, &dropped);
        for (uint64_t i = 0; i < n; i++)
            if (!is_number(out[i], dropped + i)) {
                CHECK(!"a record is torn or out of order");
                i = n;
                last = 2000000;
            }
        seen += n;
        if (n && last < 2000000)
            last = dropped + n - 1;
    }
    pthread_join(thread, NULL);
    CHECK(seen > 0);
    free(out);
    tachy_aligned_free(r);
}

// Two lanes through which `frames` frames pass: decoded in one, a model step in the other.
static tachy_profile *filled(int64_t frames, int64_t max_spans, int64_t max_bytes)
{
    tachy_profile *p;
    CHECK_INT(tachy_profile_open(
                  &p, tachy_profile_params(.max_spans = max_spans, .max_trace_bytes = max_bytes,
                                           .machine = tachy_doctor)),
              TACHY_OK);
    struct tachy_rows *steps = test_rows(tachy_profile_rows(p));
    struct tachy_prof *source = tachy_prof_new(steps), *worker = tachy_prof_new(steps);
    uint32_t stream = tachy_profile_stream(p);
    CHECK_INT(tachy_profile_join(p, TACHY_LANE_SOURCE, source), TACHY_OK);
    CHECK_INT(tachy_profile_join(p, TACHY_LANE_WORKER, worker), TACHY_OK);
    uint64_t t = tachy_ticks();
    for (int64_t i = 0; i < frames; i++, t += 1000) {
        tachy_prof_add(source, TEST_STEP_DECODE, (struct tachy_prof_item){i, stream}, t, t + 400,
                       0);
        tachy_prof_add(worker, TEST_STEP_MODEL, (struct tachy_prof_item){i, stream}, t + 500,
                       t + 900, 100);
        tachy_prof_latency(worker, 900);
    }
    tachy_profile_leave(p, source);
    tachy_profile_leave(p, worker);
    tachy_aligned_free(source);
    tachy_aligned_free(worker);
    return p;
}

static json_t *trace_of(tachy_profile *p, long *size)
{
    char path[] = P_tmpdir "/tachy-trace-XXXXXX";
    close(mkstemp(path));
    CHECK_INT(tachy_profile_write_trace(p, path), TACHY_OK);
    char *text;
    size_t n = 0;
    CHECK_INT(tachy_read_file(path, (size_t)1 << 30, &text, &n, NULL), TACHY_OK);
    json_error_t e;
    json_t *o = json_loads(text, 0, &e);
    CHECK(o);
    *size = (long)n;
    tachy_free(text);
    unlink(path);
    return o;
}

// Number of events of a phase; *first and *last: the frames of steps.
static int count(const json_t *trace, const char *ph, int64_t *first, int64_t *last)
{
    int n = 0;
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e)
    {
        if (strcmp(json_string_value(json_object_get(e, "ph")), ph))
            continue;
        json_t *frame = json_object_get(json_object_get(e, "args"), "frame");
        if (frame && first) {
            *first = n ? TACHY_MIN(*first, json_integer_value(frame)) : json_integer_value(frame);
            *last = n ? TACHY_MAX(*last, json_integer_value(frame)) : json_integer_value(frame);
        }
        n++;
    }
    return n;
}

static int64_t dropped(const json_t *trace)
{
    return json_integer_value(
        json_object_get(json_object_get(trace, "otherData"), "dropped_spans"));
}

TEST(trace_window_by_spans)
{
    long size;
    int64_t first, last;
    tachy_profile *p = filled(500, 64, 0);
    json_t *trace = trace_of(p, &size);
    CHECK_INT(count(trace, "X", &first, &last), 2 * 63);
    CHECK_INT(first, 437);
    CHECK_INT(last, 499);
    CHECK_INT(dropped(trace), 1000 - 2 * 63);
    CHECK_INT(count(trace, "s", NULL, NULL), 63);
    CHECK_INT(count(trace, "f", NULL, NULL), 63);
    json_decref(trace);
    tachy_profile_close(&p);
}

TEST(trace_window_by_bytes)
{
    long size;
    int64_t first, last;
    tachy_profile *p = filled(5000, 0, 256 << 10);
    json_t *trace = trace_of(p, &size);
    int n = count(trace, "X", &first, &last);
    CHECK(size <= 256 << 10);
    CHECK(n > 300 && n < 1200);
    CHECK_INT(last, 4999);
    CHECK_INT(dropped(trace), 10000 - n);
    // An arrow has two ends even if the window cuts a frame in two.
    CHECK_INT(count(trace, "s", NULL, NULL), count(trace, "f", NULL, NULL));
    json_decref(trace);
    tachy_profile_close(&p);
}

TEST(tables_count_everything)
{
    char *text;
    tachy_profile *p = filled(1000, 16, 0); // more than are kept
    CHECK_INT(tachy_profile_describe(p, "{\"settings\": {\"a.b\": \"c\"}}"), TACHY_OK);
    CHECK_INT(tachy_profile_describe(p, "[1]"), TACHY_ERR_INVAL);
    CHECK_INT(tachy_profile_json(p, &text), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL);
    json_t *steps = json_object_get(o, "steps"), *model = json_array_get(steps, 1);
    CHECK_INT(json_array_size(steps), 2);
    CHECK_STR(json_string_value(json_object_get(model, "stage")), "worker");
    CHECK_STR(json_string_value(json_object_get(model, "name")), "model");
    CHECK_INT(json_integer_value(json_object_get(model, "calls")), 1000);
    double ns = (double)tachy_ticks_ns(400000), latency = (double)tachy_ticks_ns(900) * 1e-6;
    CHECK(fabs(json_number_value(json_object_get(model, "busy_s")) * 1e9 / ns - 1) < 0.01);
    CHECK(fabs(json_number_value(json_object_get(model, "share")) - 0.5) < 0.01);
    json_t *l = json_object_get(o, "latency_ms");
    CHECK(fabs(json_number_value(json_object_get(l, "p50")) / latency - 1) < 0.05);
    CHECK(json_number_value(json_object_get(l, "max")) >=
          json_number_value(json_object_get(l, "p99")));
    json_t *env = json_object_get(o, "environment");
    CHECK(json_object_get(env, "cpu") && json_object_get(env, "ffmpeg") &&
          json_object_get(env, "settings"));
    CHECK(json_is_null(json_object_get(env, "driver")) ||
          json_is_string(json_object_get(env, "driver")));
    json_decref(o);
    tachy_free(text);
    CHECK_INT(tachy_profile_text(p, &text), TACHY_OK);
    CHECK(strstr(text, "model") && strstr(text, "1000") && strstr(text, "Latency"));
    tachy_free(text);
    tachy_profile_close(&p);
}

TEST(lanes_are_used_again)
{
    tachy_profile *p;
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.max_spans = 16)), TACHY_OK);
    struct tachy_rows *steps = test_rows(tachy_profile_rows(p));
    struct tachy_prof *a = tachy_prof_new(steps), *b = tachy_prof_new(steps);
    for (int run = 0; run < 100;
         run++) { // a thousand sources that come and go stay within two lanes
        CHECK_INT(tachy_profile_join(p, TACHY_LANE_WORKER, a), TACHY_OK);
        CHECK_INT(tachy_profile_join(p, TACHY_LANE_WORKER, b), TACHY_OK);
        CHECK(a->lane != b->lane);
        tachy_prof_add(a, TEST_STEP_MODEL, (struct tachy_prof_item){run, 0}, 10, 20, 0);
        tachy_profile_leave(p, a);
        tachy_profile_leave(p, b);
        memset((void *)a, 0, sizeof(*a));
        a->steps = steps;
    }
    long size;
    json_t *trace = trace_of(p, &size);
    CHECK_INT(count(trace, "M", NULL, NULL), 2 * 2 + 1);
    json_decref(trace);
    tachy_aligned_free(a);
    tachy_aligned_free(b);
    tachy_profile_close(&p);
}

static void *work(void *prof)
{
    for (int64_t i = 0; i < 20000; i++) {
        uint64_t t = tachy_ticks();
        tachy_prof_add(prof, TEST_STEP_MODEL, (struct tachy_prof_item){i, 0}, t, t + 10, 0);
        tachy_prof_latency(prof, 10);
    }
    return NULL;
}

TEST(files_while_it_runs)
{
    tachy_profile *p;
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.max_spans = 256)), TACHY_OK);
    struct tachy_prof *prof = tachy_prof_new(test_rows(tachy_profile_rows(p)));
    CHECK_INT(tachy_profile_join(p, TACHY_LANE_WORKER, prof), TACHY_OK);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, work, prof));
    for (int i = 0; i < 5; i++) {
        long size;
        char *text;
        json_t *trace = trace_of(p, &size);
        CHECK(count(trace, "X", NULL, NULL) <= 256);
        json_decref(trace);
        CHECK_INT(tachy_profile_text(p, &text), TACHY_OK);
        tachy_free(text);
    }
    pthread_join(thread, NULL);
    tachy_profile_leave(p, prof);
    tachy_aligned_free(prof);
    tachy_profile_close(&p);
}

TEST(files_that_cannot_be_written)
{
    tachy_profile *p = filled(3, 0, 0);
    CHECK_INT(tachy_profile_write_trace(p, "/nowhere/x.json"), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_profile_write_csv(p, "/nowhere/x.csv"), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_profile_write_folded(p, "/nowhere/x.folded"), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_profile_write_json(p, "/nowhere/x.json"), TACHY_ERR_NOT_FOUND);
    tachy_profile_close(&p);
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.max_spans = -1)), TACHY_ERR_INVAL);
    CHECK(!p);
}

TEST_MAIN(TEST_CASE(clocks_agree), TEST_CASE(ring_keeps_the_newest),
          TEST_CASE(ring_is_read_while_it_is_written), TEST_CASE(trace_window_by_spans),
          TEST_CASE(trace_window_by_bytes), TEST_CASE(tables_count_everything),
          TEST_CASE(lanes_are_used_again), TEST_CASE(files_while_it_runs),
          TEST_CASE(files_that_cannot_be_written))
