#include "test.h"

#include "pipeline/spans.h"
#include "stage/stage.h"

#include <stdlib.h>

// How a task's stages are cut into spans, and that a pass calls them as promised.

static int calls;

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    calls += 1000 + n;
}
static int open_worker(struct tachy_stage *st, int batch, void **worker)
{
    *worker = malloc(1);
    return TACHY_OK;
}
static int copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region) { return TACHY_OK; }

// A stage a letter: p, m, b (batches), k (regions, copies), o (ordered, no worker), r (ordered, with one), a (ordered, apart),
// c (writes), g (writes in batches).
static struct tachy_stage_ops ops_of(char letter)
{
    struct tachy_stage_ops o = {.name = "stage", .run = run};
    switch (letter) {
    case 'p': o.flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS; break;
    case 'm': o.flags = TACHY_STAGE_REGIONS; break;
    case 'b': o.flags = TACHY_STAGE_REGIONS | TACHY_STAGE_BATCHES; break;
    case 'k': o.flags = TACHY_STAGE_REGIONS; o.copy = copy; break;
    case 'o': o.flags = TACHY_STAGE_ORDERED; break;
    case 'a': o.flags = TACHY_STAGE_REGIONS | TACHY_STAGE_ORDERED | TACHY_STAGE_APART; break;
    case 'r': o.flags = TACHY_STAGE_ORDERED; o.worker_open = open_worker; o.worker_close = free; break;
    case 'c': o.flags = TACHY_STAGE_WRITES; break;
    case 'g': o.flags = TACHY_STAGE_WRITES | TACHY_STAGE_BATCHES; break;
    case 'C': o.flags = TACHY_STAGE_WRITES | TACHY_STAGE_READS; break;
    default: abort();
    }
    return o;
}

struct made {
    tachy_task task;
    struct tachy_stage_ops ops[TACHY_MAX_STAGES];
};

static void make(struct made *m, const char *stages)
{
    memset(m, 0, sizeof(*m));
    m->task.eyes = 1;
    for (int i = 0; stages[i]; i++) {
        m->ops[i] = ops_of(stages[i]);
        CHECK_INT(tachy_stage_add(&m->task, &m->ops[i], NULL), TACHY_OK);
    }
}

// As text: stages of a span, with [ordered), {batched}, ^ before the one that writes, = where results are copied, !
// where the picture is dropped, ~ where the time counts for nobody.
static void text_of(const struct pipeline_span *span, int n, const char *stages, char *text)
{
    for (int i = 0; i < n; i++) {
        const struct pipeline_span *s = &span[i];
        text += sprintf(text, "%s%s%s", s->kind == SPAN_ORDERED ? "[" : s->kind == SPAN_BATCHED ? "{" : "(",
                        s->writes ? "^" : "", s->copies ? "=" : "");
        text += sprintf(text, "%.*s%s%s)", s->end - s->first, stages + s->first, s->own ? "~" : "", s->drops ? "!" : "");
    }
}

TEST(spans_of_tasks)
{
    static const struct {
        const char *stages;
        bool batched, copies;
        const char *want;
    } cases[] = {
        {"pmkc", false, false, "(pmk!)(^c!)"},           // everything in any order
        {"pmk", false, false, "(pmk!)"},                 // nothing is written
        {"pmkC", false, false, "(pmk)(^C!)"},            // the picture is needed to the end
        {"pmkoc", false, false, "(pmk!)[o~!)(^c!)"},     // smoothing
        {"pmkooC", false, false, "(pmk)[oo~)(^C!)"},     // two in one turn
        {"pbkc", true, false, "(p!){b!)(k!)(^c!)"},      // batches
        {"pbkc", false, false, "(pbk!)(^c!)"},
        {"pb", true, false, "(p!){b!)(!)"},              // where items come back to
        {"prkoc", false, false, "(p!)[r!)(k!)[o~!)(^c!)"}, // only a recurrent model
        {"opmkC", false, false, "[o~)(pmk)(^C!)"},       // before the model
        {"pmkC", false, true, "(pmk)[=~)(^C!)"},         // frame skip
        {"pmkoC", false, true, "(pmk)[=o~)(^C!)"},       // in one turn with smoothing
        {"pmk", false, true, "(pmk!)[=~!)"},
        {"prk", false, true, "(p!)[r!)(k!)[=~!)"},
        {"rakc", false, false, "[r!)[a~!)(k!)(^c!)"},    // track: the stage that only calms its points has a separate turn
        {"rakoC", false, true, "[r)[a~)(k)[=o~)(^C!)"},
        {"pmkoac", false, false, "(pmk!)[o~!)[a~!)(^c!)"},
        {"pmkccc", false, false, "(pmk!)(^ccc!)"},       // one gate
        {"rogC", true, false, "[ro)(^){g)(C!)"},         // it is before the batch
        {"rogC", false, false, "[ro)(^gC!)"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct made m;
        struct pipeline_span span[PIPELINE_SPANS];
        char text[200] = "";
        make(&m, cases[i].stages);
        int n = pipeline_spans(&m.task, cases[i].batched, cases[i].copies, span);
        text_of(span, n, cases[i].stages, text);
        CHECK_STR(text, cases[i].want);
        tachy_stages_close(&m.task);
    }
}

static void region_done(struct tachy_stage_pass *p, int region) { calls += 1000000; }

// A single item is a group of one, and what is taken over is left out.
TEST(a_pass_calls_each_stage)
{
    struct made m;
    make(&m, "pmkc");
    m.task.eyes = 2;
    struct tachy_item item[3] = {{.reuse = 0}, {.reuse = 1}, {.reuse = 3}}, *items[] = {&item[0], &item[1], &item[2]};
    void *worker[TACHY_MAX_STAGES] = {0};
    int err[3] = {0};
    struct tachy_stage_pass p = {.task = &m.task, .worker = worker, .items = items, .n = 1, .err = err,
                                 .region_done = region_done};
    calls = 0;
    tachy_stage_pass(&p, 0, 4);
    CHECK_INT(calls, 2000000 + 7 * 1001); // two regions through three stages, and one item
    p.n = 3;
    calls = 0;
    tachy_stage_pass(&p, 0, 4);
    CHECK_INT(calls, 2000000 + 3 * 1001 + 3 * 1002 + 1003);
    err[0] = TACHY_ERR_EXTERNAL; // one that failed goes no further
    calls = 0;
    tachy_stage_pass(&p, 3, 4);
    CHECK_INT(calls, 1002);
    CHECK_INT(err[0], TACHY_ERR_EXTERNAL);
    tachy_stages_close(&m.task);
}

TEST_MAIN(TEST_CASE(spans_of_tasks), TEST_CASE(a_pass_calls_each_stage))
