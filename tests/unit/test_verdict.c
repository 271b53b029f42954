#include "test.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "steps.h"
#include "profile/system.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <tachy/engine.h>
#include <unistd.h>

// Each limit is made on purpose, with null source and sink and a task whose steps take as long
// as they are told; the run is then repeated without it, and what was gained must be what the
// verdict had expected, within 15 %. Costs are waiting time where possible, so that other
// programs on the machine disturb little; what needs computing is tried again when it was
// disturbed.
enum { TRIES = 6, TOLERANCE_PERCENT = 15, BATCH = 8 };

struct costs {
    int preprocess_us, model_us, postprocess_us, composite_us; // waiting
    int compute_us;    // the model computes, by the thread's clock
    int order_us;      // computing, in order, by the wall clock
    int batch_us;      // a run of the model that takes up to BATCH frames; 0: none
    int transfer_us;   // the null engine copies to and from a device
    int stall_us;      // a page of the model has to be read back, which takes so long
    bool hot;          // the clock is half of what it may be
    bool recurs;       // the model takes one frame after the other
};

struct job {
    const char *source, *sink;
    struct costs costs;
    int workers;
    int64_t max_bytes;
};

struct null_task {
    struct costs c;
};

static struct null_task *conf(const tachy_task *t) { return test_priv(t); }

static int wait_us(int us)
{
    if (us)
        tachy_sleep_until(tachy_now_ns() + (uint64_t)us * 1000);
    return TACHY_OK;
}

static void spin_us(int us)
{
    for (uint64_t end = tachy_now_ns() + (uint64_t)us * 1000; us && tachy_now_ns() < end;)
        continue;
}

// A simulated processor and system, in a folder instead of / ($TACHY_SYSROOT), and a file whose pages are not in
// memory.
static struct machine {
    char root[40];
    int pages;
    pthread_mutex_t lock; // guards the rest
    long long stalled_us, throttled;
} machine = {.root = "/dev/shm/tachy-verdict-XXXXXX", .lock = PTHREAD_MUTEX_INITIALIZER};

static void says(const char *path, const char *format, long long value)
{
    char *name = tachy_asprintf("%s/%s", machine.root, path);
    FILE *f = fopen(name, "w"); // tachy_write_file() waits for the disk
    CHECK(f && fprintf(f, format, value) > 0 && fclose(f) == 0);
    tachy_free(name);
}

#define CPU0 "sys/devices/system/cpu/cpu0/"
enum { PAGES = 16, PAGE = 4096 };

static bool machine_open(void)
{
    static const char zeros[PAGES * PAGE];
    char name[] = "test_verdict-XXXXXX";
    if (access("/dev/shm", W_OK) != 0) // where writing waits for no disk
        snprintf(machine.root, sizeof(machine.root), "/tmp/tachy-verdict-XXXXXX");
    if (!mkdtemp(machine.root))
        return false;
    static const char *const folders[] = {"proc/pressure", CPU0 "cpufreq", CPU0 "thermal_throttle"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(folders); i++) {
        char *path = tachy_asprintf("%s/%s", machine.root, folders[i]);
        CHECK_INT(tachy_make_folders(path, NULL), TACHY_OK);
        tachy_free(path);
    }
    char *stat = tachy_asprintf("%s/proc/stat", machine.root);
    CHECK_INT(symlink("/proc/stat", stat), 0);
    tachy_free(stat);
    says(CPU0 "cpufreq/cpuinfo_max_freq", "%lld\n", 3000000);
    machine.pages = mkstemp(name); // in the build folder: a disk, if there is any
    unlink(name);
    return machine.pages >= 0 && write(machine.pages, zeros, sizeof(zeros)) == sizeof(zeros) &&
           fsync(machine.pages) == 0;
}

static void machine_close(void)
{
    char *command = tachy_asprintf("rm -r %s", machine.root);
    CHECK(command && system(command) == 0);
    tachy_free(command);
    close(machine.pages);
}

// Its page comes back from the disk, and nobody could go on for that long.
static int stall(int us)
{
    uint64_t start = tachy_now_ns();
    pthread_mutex_lock(&machine.lock);
    posix_fadvise(machine.pages, 0, 0, POSIX_FADV_DONTNEED);
    volatile char *page = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, machine.pages, 0);
    CHECK(page != MAP_FAILED && page[3 * PAGE] == 0);
    munmap((void *)page, PAGES * PAGE);
    tachy_sleep_until(start + (uint64_t)us * 1000);
    machine.stalled_us += (long long)(tachy_now_ns() - start) / 1000;
    says("proc/pressure/memory", "full avg10=0.00 avg60=0.00 avg300=0.00 total=%lld\n", machine.stalled_us);
    pthread_mutex_unlock(&machine.lock);
    return TACHY_OK;
}

static void throttle(void)
{
    pthread_mutex_lock(&machine.lock);
    says(CPU0 "thermal_throttle/core_throttle_count", "%lld\n", ++machine.throttled);
    pthread_mutex_unlock(&machine.lock);
}

struct worker {
    tachy_task *task;
    tachy_engine *engine; // NULL: no copies
    struct tachy_tensor in, out;
};

static struct null_task *of_worker(void *w) { return conf(((struct worker *)w)->task); }

static int t_worker_open(tachy_task *t, void **w)
{
    struct worker *k = *w = calloc(1, sizeof(*k));
    const struct tachy_io *in, *out;
    char copies[32];
    k->task = t;
    snprintf(copies, sizeof(copies), "transfer_us=%d", conf(t)->c.transfer_us);
    const char *const options[] = {copies, NULL};
    if (!conf(t)->c.transfer_us)
        return TACHY_OK;
    CHECK_INT(tachy_engine_open(&k->engine, tachy_engine_params(.provider = "null", .provider_options = options,
                                                                .null_shape_in = {1, 8, 8, 3},
                                                                .null_shape_out = {1, 8, 8, 1})),
              TACHY_OK);
    tachy_engine_inputs(k->engine, &in);
    tachy_engine_outputs(k->engine, &out);
    k->in = in->spec;
    k->out = out->spec;
    CHECK_INT(tachy_tensor_alloc(&k->in), TACHY_OK);
    CHECK_INT(tachy_tensor_alloc(&k->out), TACHY_OK);
    return TACHY_OK;
}
static void t_worker_close(void *w)
{
    struct worker *k = w;
    tachy_engine_close(&k->engine);
    tachy_tensor_free(&k->in);
    tachy_tensor_free(&k->out);
    free(k);
}
static int t_preprocess(void *w, struct tachy_item *item, int eye)
{
    return wait_us(of_worker(w)->c.preprocess_us);
}
static const char *t_batch_key(const tachy_task *t) { return conf(t)->c.batch_us ? "null" : NULL; }
static int t_batch_open(tachy_task *t, int most, void **engine)
{
    *engine = t;
    return TACHY_OK;
}
static void t_batch_close(void *engine) {}
// The same time for one as for all: the session's batch is fixed.
static int t_batch_model(void *engine, const struct tachy_piece pieces[], int n) { return wait_us(conf(engine)->c.batch_us); }
static int t_model(void *w, struct tachy_item *item, int eye)
{
    struct null_task *n = of_worker(w);
    uint64_t end = tachy_thread_cpu_ns() + (uint64_t)n->c.compute_us * 1000;
    while (n->c.compute_us && tachy_thread_cpu_ns() < end)
        continue;
    struct worker *k = w;
    if (k->engine) {
        uint64_t before = tachy_engine_transfer_ns(k->engine);
        CHECK_INT(tachy_engine_run(k->engine, &k->in, &k->out), TACHY_OK);
        atomic_fetch_add(&k->task->stage[TEST_MODEL]->transfer_ns, tachy_engine_transfer_ns(k->engine) - before);
    }
    if (n->c.stall_us)
        stall(n->c.stall_us);
    if (n->c.hot)
        throttle();
    return wait_us(n->c.model_us);
}
static int t_recur(void *w, void *state, struct tachy_item *item, int eye) { return t_model(w, item, eye); }
static int t_postprocess(void *w, struct tachy_item *item, int eye)
{
    return wait_us(of_worker(w)->c.postprocess_us);
}
static int t_order_open(tachy_task *t, void **state)
{
    *state = t;
    return TACHY_OK;
}
static void t_order_close(void *state) {}
static int t_order(void *state, struct tachy_item *item)
{
    spin_us(conf(state)->c.order_us);
    return TACHY_OK;
}
static int t_composite(void *w, struct tachy_item *item)
{
    item->out = tachy_frame_ref(item->in);
    return wait_us(of_worker(w)->c.composite_us);
}
static const struct test_steps ops = {
    .name = "null",
    .worker_open = t_worker_open,
    .worker_close = t_worker_close,
    .preprocess = t_preprocess,
    .model = t_model,
    .postprocess = t_postprocess,
    .order_open = t_order_open,
    .order_close = t_order_close,
    .order = t_order,
    .composite = t_composite,
    .batch_key = t_batch_key,
    .batch_open = t_batch_open,
    .batch_close = t_batch_close,
    .batch_model = t_batch_model,
};

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}
static const struct tachy_log say = {.fn = print, .max_level = TACHY_LOG_WARN};

static void run(const struct job *j, struct tachy_summary *sum)
{
    tachy_source *source;
    tachy_sink *sink;
    const struct null_task of = {j->costs};
    struct test_steps steps = ops;
    steps.recur = j->costs.recurs ? t_recur : NULL;
    tachy_task *t = test_task(&steps, &of, sizeof(of));
    says(CPU0 "cpufreq/scaling_cur_freq", "%lld\n", j->costs.hot ? 1500000 : 3000000);
    setenv("TACHY_SYSROOT", machine.root, 1);
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = j->source, .log = &say)), 0);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = j->sink ? j->sink : "-",
                                                       .format = "null", .log = &say)),
              0);
    CHECK_INT(tachy_run(tachy_run_params(.task = t, .source = source, .sink = sink,
                                         .workers = j->workers ? j->workers : 2,
                                         .max_bytes = j->max_bytes, .log = &say,
                                         .batch = j->costs.batch_us ? BATCH : 1, .batch_timeout_us = 200),
                        sum),
              TACHY_OK);
    unsetenv("TACHY_SYSROOT");
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    test_task_free(t);
}

static bool computes(const struct costs *c) { return c->compute_us || c->order_us; }

// The machine's and this process's time.
struct moment {
    struct tachy_system system;
    uint64_t own_ns, wall_ns;
};

static struct moment moment_now(void)
{
    struct moment m = {.own_ns = tachy_process_cpu_ns(), .wall_ns = tachy_now_ns()};
    tachy_system_read(&m.system, NULL);
    return m;
}

// True if other programs had more than this share of the cores since then.
static bool others_compute(const struct moment *since, double share)
{
    struct moment now = moment_now();
    double all = (double)(now.system.cpu_ms - since->system.cpu_ms) * 1e6;
    double own = (double)(now.own_ns - since->own_ns);
    return all - own > share * now.system.cores * (double)(now.wall_ns - since->wall_ns);
}

// Runs with the limit and without until both the verdict and the gain are as measured.
static void expect(const char *limit, const struct job *with, const struct job *without)
{
    struct moment start = moment_now();
    static struct tachy_summary a, b;
    double measured = 0, expected = 0;
    bool ok = false, hopeless = false; // there is no core to compute on, or not even to wake up on
    int before = test_failures;
    for (int i = 0; i < TRIES && !ok && test_failures == before && !(i && hopeless); i++) {
        run(with, &a);
        run(without, &b);
        measured = b.fps / a.fps;
        expected = a.verdict.expected_gain;
        ok = !strcmp(a.verdict.name, limit) &&
             fabs(expected / measured - 1) * 100 <= TOLERANCE_PERCENT;
        hopeless = others_compute(&start, computes(&with->costs) ? 0.25 : 0.75);
    }
    printf("     %-16s expected %.2fx, measured %.2fx: %s\n", a.verdict.name,
           expected, measured, a.verdict.words);
    if (!ok && hopeless) {
        printf("     not judged: other programs keep this machine's cores busy\n");
        return;
    }
    CHECK_STR(a.verdict.name, limit);
    CHECK(ok);
    CHECK(a.verdict.n_evidence >= 3 && !a.verdict.remedy[0] == (a.verdict.limit == TACHY_LIMIT_SOURCE_RATE));
}

#define SOURCE "null:32x16,format=gray,frames=112"
static const char quick[] = SOURCE ",sleep_us=3000"; // what most cases are left with: 3 ms per frame

TEST(decode)
{
    struct job with = {.source = SOURCE ",sleep_us=9000", .costs = {.model_us = 6000}}, without = with;
    without.source = SOURCE;
    expect("decode", &with, &without);
}

TEST(disk_of_the_input)
{
    struct job with = {.source = SOURCE ",io_us=7000,sleep_us=3000", .costs = {.model_us = 4000}};
    struct job without = with;
    without.source = quick;
    expect("disk", &with, &without);
}

TEST(source_rate)
{
    struct job with = {.source = "null:32x16@100,format=gray,frames=100,pace=1",
                       .costs = {.model_us = 6000}};
    struct job without = with;
    without.source = SOURCE;
    expect("source-rate", &with, &without);
}

TEST(preprocess)
{
    struct job with = {.source = quick, .costs = {.preprocess_us = 14000, .model_us = 4000}};
    struct job without = {.source = quick, .costs = {.model_us = 4000}};
    expect("preprocess", &with, &without);
}

TEST(engine)
{
    struct job with = {.source = SOURCE, .costs = {.model_us = 16000, .preprocess_us = 6000}};
    struct job without = {.source = SOURCE, .costs = {.preprocess_us = 6000}};
    expect("engine", &with, &without);
}

TEST(postprocess)
{
    struct job with = {.source = quick, .costs = {.postprocess_us = 14000, .model_us = 4000}};
    struct job without = {.source = quick, .costs = {.model_us = 4000}};
    expect("postprocess", &with, &without);
}

TEST(composite)
{
    struct job with = {.source = quick, .costs = {.composite_us = 14000, .model_us = 4000}};
    struct job without = {.source = quick, .costs = {.model_us = 4000}};
    expect("composite", &with, &without);
}

TEST(encode)
{
    struct job with = {.source = quick, .sink = "null:sleep_us=9000", .costs = {.model_us = 4000}};
    struct job without = with;
    without.sink = NULL;
    expect("encode", &with, &without);
}

TEST(disk_of_the_output)
{
    struct job with = {.source = quick, .sink = "null:io_us=7000,sleep_us=2000"}, without = with;
    without.sink = "null:sleep_us=2000";
    expect("disk", &with, &without);
}

TEST(memory)
{
    struct job with = {.source = quick, .workers = 8, .max_bytes = 140000, .costs = {.model_us = 16000}};
    struct job without = with;
    without.max_bytes = 0;
    expect("memory", &with, &without);
}

// One worker, so that nobody goes on while it stands still.
TEST(short_of_memory)
{
    struct job with = {.source = SOURCE, .workers = 1, .costs = {.model_us = 4000, .stall_us = 4000}};
    struct job without = with;
    without.costs.stall_us = 0;
    expect("memory", &with, &without);
}

TEST(transfer)
{
    struct job with = {.source = quick, .costs = {.preprocess_us = 4000, .transfer_us = 14000}};
    struct job without = {.source = quick, .costs = {.preprocess_us = 4000}};
    expect("transfer", &with, &without);
}

// At half of the clock the same work takes twice as long.
TEST(thermal)
{
    struct job with = {.source = SOURCE, .workers = tachy_cpu_count(), .costs = {.compute_us = 10000, .hot = true}};
    struct job without = with;
    without.costs = (struct costs){.compute_us = 5000};
    expect("thermal", &with, &without);
}

TEST(one_core_of_workers)
{
    int cores = tachy_cpu_count();
    if (cores < 2)
        return;
    struct job with = {.source = SOURCE, .workers = 1, .costs = {.compute_us = 8000}}, without = with;
    without.workers = cores;
    expect("one-core-busy", &with, &without);
}

TEST(one_core_of_order)
{
    struct job with = {.source = quick, .workers = 3, .costs = {.order_us = 9000, .model_us = 2000}};
    struct job without = with;
    without.costs.order_us = 0;
    expect("one-core-busy", &with, &without);
}

// The model of the next frame waits for the one before, on a GPU for example, and so do all workers.
TEST(order_of_a_network)
{
    struct job with = {.source = quick, .workers = 3, .costs = {.model_us = 9000, .recurs = true}};
    struct job without = {.source = quick, .workers = 3};
    expect("one-core-busy", &with, &without);
}

TEST(busy_cores)
{
    int cores = tachy_cpu_count();
    if (cores > 4)
        return; // only the null source would be the next limit
    struct job with = {.source = quick, .workers = cores, .costs = {.compute_us = 12000}};
    struct job without = with;
    without.costs.compute_us = 0;
    expect("engine", &with, &without);
}

// So few frames fit that a run of the model never has many of them.
TEST(batch_too_small)
{
    struct job with = {.source = quick, .max_bytes = 150000, .costs = {.batch_us = 16000}}, without = with;
    without.max_bytes = 0;
    expect("batch-too-small", &with, &without);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(decode),          TEST_CASE(disk_of_the_input), TEST_CASE(source_rate),
        TEST_CASE(preprocess),      TEST_CASE(engine),            TEST_CASE(postprocess),
        TEST_CASE(composite),       TEST_CASE(encode),            TEST_CASE(disk_of_the_output),
        TEST_CASE(memory),          TEST_CASE(short_of_memory),   TEST_CASE(transfer),
        TEST_CASE(thermal),         TEST_CASE(one_core_of_workers), TEST_CASE(one_core_of_order), TEST_CASE(order_of_a_network),
        TEST_CASE(busy_cores),      TEST_CASE(batch_too_small),
    };
    if (!machine_open())
        return 1;
    int status = test_run(cases, TACHY_ARRAY_SIZE(cases));
    machine_close();
    return status;
}
