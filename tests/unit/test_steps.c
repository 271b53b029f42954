#include "test.h"

#include "base/base.h"
#include "profile/profile.h"
#include "rows.h"
#include "stage/stage.h"

#include <jansson.h>

// Whatever the stages of a task are, its figures have a row for each name of theirs: in the summary, as text and JSON,
// in metrics and in the profile. The task here is not of segment's shape.

static void work(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    uint64_t until = tachy_ticks() + 20000;
    while (tachy_ticks() < until)
        continue;
}

static void draw(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    work(st, worker, state, pieces, n, err);
    for (int i = 0; i < n; i++)
        pieces[i].item->out = tachy_frame_ref(pieces[i].item->in);
}

static const struct tachy_stage_ops stages[] = {
    {.name = "find", .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS | TACHY_STAGE_MODEL, .run = work},
    {.name = "track", .flags = TACHY_STAGE_ORDERED, .run = work, .remedy = "track less"},
    {.name = "euro filter", .flags = TACHY_STAGE_ORDERED, .run = work, .step = "track"},
    {.name = "blur", .flags = TACHY_STAGE_ORDERED, .run = work},
    {.name = "draw", .flags = TACHY_STAGE_WRITES | TACHY_STAGE_READS, .run = draw},
};
static const char *const names[] = {"decode", "find", "track", "blur", "draw", "encode"};
enum { FRAMES = 50, ROWS = TACHY_ARRAY_SIZE(names) };

static tachy_task *open_task(void)
{
    tachy_task *t = calloc(1, sizeof(*t));
    t->name = "other";
    t->eyes = 1;
    t->pinned = -1;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(stages); i++)
        CHECK_INT(tachy_stage_add(t, &stages[i], NULL), TACHY_OK);
    return t;
}

static void close_task(tachy_task *t)
{
    tachy_stages_close(t);
    free(t);
}

static void run(tachy_task *t, tachy_control *control, tachy_profile *profile, struct tachy_summary *s)
{
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = "null:32x16@30,frames=50")), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null")), TACHY_OK);
    CHECK_INT(tachy_run(tachy_run_params(.task = t, .source = source, .sink = sink, .workers = 2, .control = control,
                                         .profile = profile), s), TACHY_OK);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
}

// The names of a list of objects, in its order.
static void check_names(const json_t *list, const char *const want[], size_t n)
{
    CHECK_INT(json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        CHECK_STR(json_string_value(json_object_get(json_array_get(list, i), "name")), want[i]);
}

TEST(summary_has_the_task_s_rows)
{
    static struct tachy_summary s;
    tachy_task *t = open_task();
    char *text = NULL;
    // Two stages of one row take longer than one, unless the machine holds up just that one.
    for (int i = 0; i < 20 && !(i && s.steps[2].busy_s > s.steps[3].busy_s); i++)
        run(t, NULL, NULL, &s);
    CHECK_INT(s.nb_steps, ROWS);
    for (int i = 0; i < ROWS; i++) {
        CHECK_STR(s.steps[i].name, names[i]);
        CHECK_INT(s.steps[i].calls, i == ROWS - 1 ? FRAMES + 1 : FRAMES); // and the flush
    }
    CHECK(s.steps[2].busy_s > s.steps[3].busy_s);
    CHECK(s.verdict.step >= 0 && s.verdict.step < ROWS);
    CHECK_INT(tachy_summary_json(&text, &s, NULL), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL);
    check_names(json_object_get(o, "steps"), names, ROWS);
    bool unknown = s.verdict.limit == TACHY_LIMIT_NONE;
    CHECK_STR(unknown ? "" : json_string_value(json_object_get(o, "limited_by")), unknown ? "" : s.steps[s.verdict.step].name);
    CHECK(json_is_null(json_object_get(o, "limited_by")) == unknown);
    json_decref(o);
    tachy_free(text);
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    for (int i = 0; i < ROWS; i++) {
        char row[40];
        snprintf(row, sizeof(row), "\n  %-12s ", names[i]);
        CHECK(strstr(text, row));
    }
    CHECK(!strstr(text, "\n  model") && !strstr(text, "\n  composite"));
    tachy_free(text);
    close_task(t);
}

// Two tasks under one control and one profile: each name once.
TEST(metrics_and_profile_have_all_rows)
{
    static const struct tachy_stage_ops more = {.name = "more", .flags = TACHY_STAGE_READS, .run = work};
    static struct tachy_snapshot snap;
    static struct tachy_summary s;
    tachy_control *c = NULL;
    tachy_profile *p = NULL;
    char *text, row[100];
    CHECK_INT(tachy_control_open(&c, &(struct tachy_control_params){0}), TACHY_OK);
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = -1)), TACHY_OK);
    CHECK_INT(tachy_control_snapshot(c, &snap), TACHY_OK);
    CHECK_INT(snap.totals.nb_steps, 0);
    for (int i = 0; i < 2; i++) {
        tachy_task *t = open_task();
        if (i)
            CHECK_INT(tachy_stage_add(t, &more, NULL), TACHY_OK);
        run(t, c, p, &s);
        close_task(t);
    }
    CHECK_INT(s.steps[s.nb_steps - 1].calls, FRAMES); // "more", only of the second run
    CHECK_INT(tachy_control_snapshot(c, &snap), TACHY_OK);
    CHECK_INT(snap.totals.nb_steps, ROWS + 1);
    CHECK_INT(tachy_snapshot_metrics(&text, &snap), TACHY_OK);
    for (int i = 0; i <= ROWS; i++) {
        const char *name = i < ROWS ? names[i] : "more";
        CHECK_STR(snap.totals.step[i].name, name);
        int calls = i == ROWS ? FRAMES : i == ROWS - 1 ? 2 * FRAMES + 2 : 2 * FRAMES;
        snprintf(row, sizeof(row), "tachy_step_seconds_count{step=\"%s\"} %d\n", name, calls);
        CHECK(strstr(text, row));
        snprintf(row, sizeof(row), "tachy_step_busy_seconds_total{step=\"%s\"} ", name);
        CHECK(strstr(text, row));
    }
    CHECK(!strstr(text, "step=\"composite\""));
    tachy_free(text);
    static const char *const lanes[] = {"decode", "find", "draw", "more", "track", "blur", "encode"};
    CHECK_INT(tachy_profile_json(p, &text), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL);
    check_names(json_object_get(o, "steps"), lanes, TACHY_ARRAY_SIZE(lanes));
    json_decref(o);
    tachy_free(text);
    tachy_profile_close(&p);
    tachy_control_close(&c);
}

TEST(a_full_table_shares_its_last_row)
{
    struct tachy_rows t;
    char name[60];
    tachy_rows_open(&t);
    for (int i = 1; i < 100; i++) {
        snprintf(name, sizeof(name), "stage %d", i);
        CHECK_INT(tachy_rows_add(&t, name, 0, NULL), i < TACHY_MAX_STEPS - 1 ? i : TACHY_MAX_STEPS - 1);
    }
    CHECK_INT(tachy_rows_count(&t), TACHY_MAX_STEPS);
    CHECK_STR(t.row[TACHY_MAX_STEPS - 1].name, "other");
    CHECK_INT(tachy_rows_add(&t, "stage 3", TACHY_STEP_MODEL, NULL), 3);
    CHECK(tachy_rows_has(&t, 3, TACHY_STEP_MODEL) && !tachy_rows_has(&t, 2, TACHY_STEP_MODEL));
    tachy_rows_close(&t);
    tachy_rows_open(&t);
    int odd = tachy_rows_add(&t, "a \"very\" long name\nwith {what} would break; a file", 0, NULL);
    CHECK_STR(t.row[odd].name, "a _very_ long name_with _what_ ");
    CHECK_INT(tachy_rows_add(&t, "a \"very\" long name\nwith {what} would break; a file", 0, NULL), odd);
    tachy_rows_close(&t);
}

TEST_MAIN(TEST_CASE(summary_has_the_task_s_rows), TEST_CASE(metrics_and_profile_have_all_rows),
          TEST_CASE(a_full_table_shares_its_last_row))
