#include "counting.h"

#include <stdint.h>
#include <tachy/tachy.h>

// Every public function with NULL for each of its pointers, singly and all at once: the rule of <tachy/common.h>;
// functions without pointers get numbers out of range. api_calls.py writes the calls from the headers. test_api NAME:
// only that function.

static int logged;
static const char *function, *null;

static void count(void *user, enum tachy_log_level level, const char *msg)
{
    logged += level == TACHY_LOG_ERR;
}

static void api_begin(const char *name, const char *which)
{
    function = name;
    null = which;
    logged = 0;
    fprintf(stderr, "%s: %s\n", name, which); // the last one shows where a crash was
}

static void api_failed(const char *what)
{
    fprintf(stderr, "failed: %s with NULL for %s: %s\n", function, null, what);
    test_failures++;
}

static void api_check_logged(void)
{
    if (logged != 1)
        api_failed(logged ? "is logged more than once" : "is not logged");
}

static void api_check_cleared(const void *out)
{
    if (out)
        api_failed("the output is not NULL");
}

static bool all_zero(const void *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const char *)p)[i])
            return false;
    return true;
}

#define API_POISON ((void *)(uintptr_t)64)
#define API_VOID(call) call
#define API_ANY(call) ((void)(call))
#define API_INT(call)                                                                              \
    do {                                                                                           \
        if ((call) != TACHY_ERR_INVAL)                                                             \
            api_failed("does not return TACHY_ERR_INVAL");                                         \
    } while (0)
#define API_POINTER(call)                                                                          \
    do {                                                                                           \
        if (call)                                                                                  \
            api_failed("does not return NULL");                                                    \
    } while (0)
#define API_ZERO(call)                                                                             \
    do {                                                                                           \
        if (call)                                                                                  \
            api_failed("does not return 0");                                                       \
    } while (0)
#define API_STRUCT(type, call)                                                                     \
    do {                                                                                           \
        type r_ = call;                                                                            \
        if (!all_zero(&r_, sizeof(r_)))                                                            \
            api_failed("does not return zeros");                                                   \
    } while (0)

#include "api_calls.h"

static int no_job(void *user, int job, struct tachy_run_params *p) { return TACHY_ERR_EOF; }
static void no_end(void *user, int job, struct tachy_run_params *p, int err, const struct tachy_summary *s) {}

static tachy_task *task;
static tachy_pipeline *joined; // that api.tachy_stream is of

// Parameters with which the call would do its work.
static void fill_params(void)
{
    static const struct tachy_video_info info = {
        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    api.text = "x";
    api.log = (struct tachy_log){.fn = count};
    api_hand_log();
    api.given_tachy_batcher_params.workers = TACHY_BATCHER_NO_WORKERS;
    api.given_tachy_compare_params.a = api.given_tachy_compare_params.b = "null:16x16@10,frames=2,format=gray";
    api.given_tachy_engine_params.provider = "null";
    api.given_tachy_frame_params.format = TACHY_PIX_GRAY8;
    api.given_tachy_frame_params.width = api.given_tachy_frame_params.height = 16;
    api.given_tachy_model_params.name = "selfie";
    api.given_tachy_preprocess_params.width = api.given_tachy_preprocess_params.height = 16;
    api.given_tachy_replay_params.dir = ".";
    api.given_tachy_run_many_params.jobs = 1;
    api.given_tachy_run_many_params.open = no_job;
    api.given_tachy_run_many_params.close = no_end;
    api.given_tachy_sink_params.format = "null";
    api.given_tachy_source_params.url = "null:16x16@10,frames=2,format=gray";
    api.given_tachy_stream_params.task = task;
    api.given_tachy_stream_params.input = api.given_tachy_video_info = info;
}

// Working objects, each with a log if it takes one.
static void open_objects(void)
{
    CHECK_INT(tachy_batcher_open(&api.tachy_batcher, &api.given_tachy_batcher_params), TACHY_OK);
    CHECK_INT(tachy_batcher_submit(api.tachy_batcher, &api.given_tachy_submit_params, &api.tachy_ticket), TACHY_OK);
    CHECK_INT(tachy_compare_mattes(&api.tachy_comparison, &api.given_tachy_compare_params), TACHY_OK);
    CHECK_INT(tachy_control_open(&api.tachy_control, &api.given_tachy_control_params), TACHY_OK);
    CHECK_INT(tachy_control_mark(api.tachy_control, &api.tachy_mark), TACHY_OK);
    CHECK_INT(tachy_engine_open(&api.tachy_engine, &api.given_tachy_engine_params), TACHY_OK);
    CHECK_INT(tachy_frame_new(&api.tachy_frame, &api.given_tachy_frame_params), TACHY_OK);
    CHECK_INT(tachy_pipeline_open(&api.tachy_pipeline, tachy_pipeline_params(.workers = 1, .log = &api.log)), TACHY_OK);
    CHECK_INT(tachy_pipeline_open(&joined, tachy_pipeline_params(.workers = 1, .log = &api.log)), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(joined, &api.tachy_stream, &api.given_tachy_stream_params), TACHY_OK);
    CHECK_INT(tachy_preprocess_open(&api.tachy_preprocess, &api.given_tachy_preprocess_params), TACHY_OK);
    CHECK_INT(tachy_profile_open(&api.tachy_profile, &api.given_tachy_profile_params), TACHY_OK);
    CHECK_INT(tachy_settings_new(&api.tachy_settings, &api.log), TACHY_OK);
    CHECK_INT(tachy_sink_open(&api.tachy_sink, &api.given_tachy_sink_params), TACHY_OK);
    CHECK_INT(tachy_source_open(&api.tachy_source, &api.given_tachy_source_params), TACHY_OK);
    api.given_tachy_run_params.task = task;
    api.given_tachy_run_params.source = api.tachy_source;
    api.given_tachy_run_params.sink = api.tachy_sink;
}

static void close_objects(void)
{
    tachy_source_close(&api.tachy_source);
    tachy_sink_close(&api.tachy_sink);
    tachy_settings_free(&api.tachy_settings);
    tachy_profile_close(&api.tachy_profile);
    tachy_preprocess_close(&api.tachy_preprocess);
    tachy_stream_leave(&api.tachy_stream);
    tachy_pipeline_close(&joined);
    tachy_pipeline_close(&api.tachy_pipeline);
    tachy_frame_unref(&api.tachy_frame);
    tachy_engine_close(&api.tachy_engine);
    tachy_comparison_free(&api.tachy_comparison);
    tachy_free(api.tachy_mark);
    tachy_control_close(&api.tachy_control);
    tachy_ticket_close(&api.tachy_ticket);
    tachy_batcher_close(&api.tachy_batcher);
    test_task_free(task);
}

int main(int argc, char **argv)
{
    size_t n = sizeof(api_cases) / sizeof(api_cases[0]), run = 0;
    task = task_new(never);
    fill_params();
    open_objects();
    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && strcmp(argv[1], api_cases[i].name))
            continue;
        api_cases[i].run();
        run++;
    }
    close_objects();
    CHECK(run > 0);
    printf("%zu functions, %d failures\n", run, test_failures);
    return test_failures ? 1 : 0;
}
