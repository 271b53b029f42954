#include "graph_build.h"
#include "plan/cpu/plan_parts.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// Memory next to inaccessible pages, and plans that run in it: an access outside a tensor or a step's scratch ends the
// process, and nothing else changes.

// True if `fn` ends its process by `signal`.
static bool dies(void (*fn)(void *), void *arg, int signal_number)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr); // an abort's message is expected
        signal(SIGSEGV, SIG_DFL); // a sanitizer's otherwise
        signal(SIGABRT, SIG_DFL);
        fn(arg);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == signal_number;
}

static void read_byte(void *at) { (void)*(volatile char *)at; }
static void write_byte(void *at) { *(volatile char *)at = 1; }
static void give_back(void *p) { tachy_guard_free(p); }

TEST(memory)
{
    long page = sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {1, 60, (size_t)page - 1, (size_t)page, (size_t)page + 3};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sizes); i++) {
        char *end = tachy_guard_alloc(sizes[i], 1, TACHY_GUARD_END);
        char *begin = tachy_guard_alloc(sizes[i], 1, TACHY_GUARD_BEGIN);
        CHECK(end[0] == -1 && end[sizes[i] - 1] == -1 && begin[0] == -1 && begin[sizes[i] - 1] == -1);
        memset(end, 1, sizes[i]);
        memset(begin, 1, sizes[i]);
        CHECK(dies(read_byte, end + sizes[i], SIGSEGV) && dies(write_byte, end + sizes[i], SIGSEGV));
        CHECK(dies(read_byte, begin - 1, SIGSEGV) && dies(write_byte, begin - 1, SIGSEGV));
        CHECK(!dies(give_back, end, SIGABRT)); // in the child: it is still here
        tachy_guard_free(end);
        tachy_guard_free(begin);
    }
    char *none = tachy_guard_alloc(0, 4, TACHY_GUARD_END);
    CHECK(none && dies(read_byte, none, SIGSEGV) && dies(read_byte, none - 1, SIGSEGV));
    tachy_guard_free(none);
    tachy_guard_free(NULL);
}

TEST(rest_of_a_page)
{
    char *end = tachy_guard_alloc(100, 64, TACHY_GUARD_END), *begin = tachy_guard_alloc(100, 64, TACHY_GUARD_BEGIN);
    CHECK((uintptr_t)end % 64 == 0);
    CHECK(dies(read_byte, end + 128, SIGSEGV));
    char kept = end[-1];
    end[-1] = 0;
    CHECK(dies(give_back, end, SIGABRT));
    end[-1] = kept;
    begin[100] = 0;
    CHECK(dies(give_back, begin, SIGABRT));
    begin[100] = kept;
    tachy_guard_free(end);
    tachy_guard_free(begin);
}

// A chain whose steps use scratch, several kinds of values, and an output that a step writes itself.
static void chain(void)
{
    struct tachy_plan_attr a = {.resize = {
        .mode = TACHY_PLAN_LINEAR, .coords = TACHY_PLAN_HALF_PIXEL, .scale = {2, 2}}};
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_HSWISH, conv(input(4, SHAPE(1, 3, 9, 11)), 7, 3, true));
    x = make(TACHY_OP_RESIZE, a, VALUE(1, 7, 18, 22), x, NULL, NULL);
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, conv(x, 7, 1, true), x));
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
}

enum { IN = 3 * 9 * 11, OUT = 7 * 18 * 22 };

struct job {
    struct tachy_cpu_plan *plan;
    int step;        // that goes wrong
    ptrdiff_t where; // offset in floats: negative before the memory, otherwise past its end
    bool scratch;
};

static struct job *job; // of a step that goes wrong
static plan_run_fn *right;

static void go_wrong(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    right(s, r, row0, row1);
    struct tachy_view v = plan_at(&s->out, r);
    size_t floats = job->scratch ? TACHY_ALIGN(s->scratch, 16) : (size_t)(v.n * v.h * v.w * v.c);
    float *at = job->scratch ? r->base[BASE_SCRATCH] : v.data;
    write_byte(job->where < 0 ? at + job->where : at + floats + job->where);
}

static void run_wrong(void *arg)
{
    float x[IN] = {0}, y[OUT];
    job = arg;
    right = job->plan->steps[job->step].run;
    job->plan->steps[job->step].run = go_wrong;
    tachy_cpu_plan_run(job->plan, (const float *const[]){x}, (float *const[]){y});
}

TEST(a_step_that_goes_wrong)
{
    for (int scratch = 0; scratch < 2; scratch++) {
        struct tachy_cpu_plan *end = NULL, *begin_plan = NULL;
        chain();
        CHECK_INT(tachy_cpu_plan_open(&end, g, &(struct tachy_plan_params){.guard = TACHY_GUARD_END}), TACHY_OK);
        CHECK_INT(tachy_cpu_plan_open(&begin_plan, g, &(struct tachy_plan_params){.guard = TACHY_GUARD_BEGIN}),
                  TACHY_OK);
        for (int i = 0; i < end->nb_steps; i++) {
            CHECK(dies(run_wrong, &(struct job){end, i, 0, scratch}, SIGSEGV));
            CHECK(dies(run_wrong, &(struct job){begin_plan, i, -1, scratch}, SIGSEGV));
        }
        tachy_cpu_plan_close(&end);
        tachy_cpu_plan_close(&begin_plan);
        tachy_graph_close(&g);
    }
}

TEST(several_threads_and_runs)
{
    static float x[IN], y[OUT], want[OUT];
    chain();
    for (int i = 0; i < IN; i++)
        x[i] = noise();
    for (int i = 0; i < 7; i++) { // threads and guards
        struct tachy_cpu_plan *p = NULL;
        struct tachy_plan_params params = {.threads = 1 + i / 3, .guard = i % 3, .effort = 1};
        CHECK_INT(tachy_cpu_plan_open(&p, g, &params), TACHY_OK);
        for (int k = 0; k < 2; k++) {
            memset(y, 0, sizeof(y));
            CHECK_INT(tachy_cpu_plan_run(p, (const float *const[]){x}, (float *const[]){y}), TACHY_OK);
            if (!i && !k)
                memcpy(want, y, sizeof(y));
            CHECK(!memcmp(want, y, sizeof(y)));
        }
        tachy_cpu_plan_close(&p);
    }
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(memory), TEST_CASE(rest_of_a_page), TEST_CASE(a_step_that_goes_wrong),
          TEST_CASE(several_threads_and_runs))
