#include "escape.h"

#include "test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <tachy/sandbox.h>

// Everything happens in children: there is no way back out of a sandbox.

enum { WORKED = 99, ENTERED_NOT = 98 };

static char root[] = "/tmp/tachy-sandbox-XXXXXX";
static char in[64], out[64], away[64], home[64];

static void prepare(void)
{
    char command[1024];
    snprintf(in, sizeof(in), "%s/in/a.mp4", root);
    snprintf(out, sizeof(out), "%s/out", root);
    snprintf(away, sizeof(away), "%s/away", root);
    snprintf(command, sizeof(command),
             "rm -rf %s/*; mkdir %s/in %s %s && echo a > %s && echo b > %s/in/b && echo own > %s/own && echo secret > "
             "%s/secret && ln -s %s/secret %s/link",
             root, root, out, away, in, root, out, away, away, out);
    CHECK_INT(system(command), 0);
}

static char said[1024];

static void keep(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(said, sizeof(said), "%s", msg);
}

static const struct tachy_log to_said = {.fn = keep};

static int enter(void)
{
    char output[80];
    snprintf(output, sizeof(output), "%s/o.mp4", out);
    const char *inputs[] = {in}, *outputs[] = {output};
    return tachy_sandbox(tachy_sandbox_params(.inputs = inputs, .nb_inputs = 1, .outputs = outputs, .nb_outputs = 1,
                                              .log = &to_said));
}

// The exit status of `run` in a child; minus the signal that ended it.
static int in_child(int (*run)(void *arg), void *arg)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int result = run(arg);
        fflush(stdout);
        fflush(stderr);
        _exit(result);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct trial {
    const struct escape *e;
    bool inside;
    struct escape_ground g;
};

static int try_one(void *arg)
{
    const struct trial *t = arg;
    if (!freopen("/dev/null", "w", stdout)) // of programs that do run
        return ENTERED_NOT;
    if (t->inside && enter() < 0) {
        fprintf(stderr, "%s\n", said);
        return ENTERED_NOT;
    }
    int error = t->e->attempt(&t->g);
    return error ? error : WORKED;
}

static int enter_only(void *arg) { return enter() < 0 ? ENTERED_NOT : 0; }

// Rules that this machine's kernel lacks cannot be tested here.
static bool can(void)
{
    static int known = -1;
    prepare();
    known = known < 0 ? in_child(enter_only, NULL) == 0 : known;
    return known;
}

TEST(no_way_out)
{
    int pair[2];
    if (!can())
        return;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int i = 0; i < N_ESCAPES; i++) {
        for (int inside = !escapes[i].works; inside < 2; inside++) { // the others may do harm
            prepare();
            int folder = open(away, O_RDONLY | O_DIRECTORY);
            struct trial t = {&escapes[i], inside, {in, out, away, folder, pair[0]}};
            int status = in_child(try_one, &t);
            close(folder);
            bool held = status < 0 || escape_is_held(status);
            if (inside ? !held : status != WORKED) {
                fprintf(stderr, "%s %s a sandbox: %s\n", escapes[i].name, inside ? "in" : "outside of",
                        status == WORKED ? "it worked" : status < 0 ? strsignal(-status) : strerror(status));
                test_failures++;
            }
        }
    }
    close(pair[0]);
    close(pair[1]);
}

#define NEED(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: in the sandbox: %s: %s\n", __FILE__, __LINE__, #cond, strerror(errno)); \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static void *nothing(void *arg) { return arg; }

static int work(void *arg)
{
    pthread_t thread;
    char a[80], b[96], folder[80];
    snprintf(a, sizeof(a), "%s/a", out);
    snprintf(folder, sizeof(folder), "%s/parts", out);
    snprintf(b, sizeof(b), "%s/b", folder);
    NEED(enter() == TACHY_OK);
    NEED(open(in, O_RDONLY) >= 0);
    int fd = open(a, O_RDWR | O_CREAT | O_EXCL, 0666);
    NEED(fd >= 0 && write(fd, "abc", 3) == 3 && ftruncate(fd, 1) == 0);
    NEED(mkdir(folder, 0777) == 0 && rename(a, b) == 0 && rename(b, a) == 0 && rmdir(folder) == 0);
    NEED(open(a, O_RDWR | O_TRUNC) >= 0 && unlink(a) == 0);
    NEED(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    NEED(access("/proc/self/status", R_OK) == 0 && open("/proc/self/status", O_RDONLY) >= 0);
    NEED(open("/sys/devices/system/cpu/online", O_RDONLY) >= 0);
    NEED(kill(getpid(), 0) == 0 && raise(0) == 0);
    return 0;
}

TEST(what_a_job_needs_works)
{
    if (can())
        CHECK_INT(in_child(work, NULL), 0);
}

// Only the file that was named, not its neighbours; all of a folder of numbered pictures.
static int neighbours(void *arg)
{
    const char *inputs[] = {arg};
    char neighbour[80];
    snprintf(neighbour, sizeof(neighbour), "%s/in/b", root);
    NEED(tachy_sandbox(tachy_sandbox_params(.inputs = inputs, .nb_inputs = 1, .log = &to_said)) == TACHY_OK);
    return open(neighbour, O_RDONLY) < 0 ? 2 : 0;
}

TEST(inputs)
{
    char pattern[80];
    snprintf(pattern, sizeof(pattern), "%s/in/%%d.png", root);
    if (!can())
        return;
    CHECK_INT(in_child(neighbours, in), 2);
    CHECK_INT(in_child(neighbours, pattern), 0);
}

struct refusal {
    struct tachy_sandbox_params p;
    int err;
    const char *words[3]; // of the sentence
};

// 0: refused as it should be, and the process is as it was.
static int refuse(void *arg)
{
    struct refusal *r = arg;
    r->p.log = &to_said;
    NEED(tachy_sandbox(&r->p) == r->err);
    for (int i = 0; i < 3 && r->words[i]; i++)
        if (!strstr(said, r->words[i])) {
            fprintf(stderr, "\"%s\" is not in: %s\n", r->words[i], said);
            return 1;
        }
    return 0;
}

TEST(refusals_of_what_is_not_local)
{
    static const char *const address[] = {"http://127.0.0.1/a.mp4"}, *const device[] = {"/dev/zero"},
                             *const at_home[] = {"/tmp/x.mp4"}, *const nowhere[] = {"/tmp/no/such/x.mp4"};
    prepare();
    setenv("HOME", "/tmp", 1);
    struct refusal all[] = {
        {{.inputs = address, .nb_inputs = 1}, TACHY_ERR_INVAL, {"http://127.0.0.1/a.mp4", "local"}},
        {{.inputs = device, .nb_inputs = 1}, TACHY_ERR_INVAL, {"/dev/zero", "local"}},
        {{.outputs = at_home, .nb_outputs = 1}, TACHY_ERR_INVAL, {"/tmp/x.mp4", "home"}},
        {{.outputs = nowhere, .nb_outputs = 1}, TACHY_ERR_NOT_FOUND, {"/tmp/no/such/x.mp4"}},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && can(); i++)
        CHECK_INT(in_child(refuse, &all[i]), 0);
    setenv("HOME", home, 1);
}

TEST(refusals_of_settings)
{
    static const char *const rows[][2] = {
        {"gpu.device", "cuda"}, {"gpu.ids", "0,1"}, {"pipeline.stages.decode.device", "nvdec"},
        {"output.encoder", "nvenc"}, {"model.provider", "cuda-ort"}, {"metrics.address", "9464"},
        {"run.interactive", "yes"}, {"run.calibrate", "yes"},
        {"model.provider_options", "library=/tmp/x.so"}, {"model.card", "x.json"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tachy_settings *s;
        CHECK_INT(tachy_settings_new(&s, NULL), TACHY_OK);
        CHECK_INT(tachy_settings_set(s, rows[i][0], rows[i][1], "command line"), TACHY_OK);
        struct refusal r = {{.settings = s}, TACHY_ERR_INVAL, {"--sandbox"}};
        CHECK_INT(in_child(refuse, &r), 0);
        tachy_settings_free(&s);
    }
}

static int with_a_thread(void *arg)
{
    pthread_t thread;
    int wait[2];
    NEED(pipe(wait) == 0 && pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))getchar, NULL) == 0);
    return refuse(arg);
}

TEST(refuses_beside_other_threads)
{
    int wait[2];
    struct refusal r = {{.nb_inputs = 0}, TACHY_ERR_STATE, {"threads"}};
    CHECK_INT(pipe(wait), 0); // the other thread reads what never comes
    int before = dup(STDIN_FILENO);
    dup2(wait[0], STDIN_FILENO);
    CHECK_INT(in_child(with_a_thread, &r), 0);
    dup2(before, STDIN_FILENO);
    close(before);
    close(wait[0]);
    close(wait[1]);
}

// A kernel that answers a call so; what the rest of the system does stays.
struct kernel {
    int call, error;
    struct refusal r;
};

static int in_kernel(void *arg)
{
    struct kernel *k = arg;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)k->call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)k->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    return refuse(&k->r);
}

TEST(refuses_on_kernels_that_cannot)
{
    struct kernel all[] = {
        {SYS_landlock_create_ruleset, ENOSYS, {{0}, TACHY_ERR_UNSUPPORTED, {"Landlock", "5.19"}}},
        {SYS_landlock_create_ruleset, EOPNOTSUPP, {{0}, TACHY_ERR_UNSUPPORTED, {"Landlock", "lsm="}}},
        {SYS_landlock_create_ruleset, 0, {{0}, TACHY_ERR_UNSUPPORTED, {"version 0", "5.19"}}}, // the call gives 0
        {SYS_landlock_restrict_self, EPERM, {{0}, TACHY_ERR_UNSUPPORTED, {"Landlock"}}},
        {SYS_seccomp, ENOSYS, {{0}, TACHY_ERR_UNSUPPORTED, {"seccomp"}}},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (i < 3 || can()) // without Landlock the sentence is the first one
            CHECK_INT(in_child(in_kernel, &all[i]), 0);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(no_way_out), TEST_CASE(what_a_job_needs_works), TEST_CASE(inputs),
        TEST_CASE(refusals_of_what_is_not_local), TEST_CASE(refusals_of_settings),
        TEST_CASE(refuses_beside_other_threads), TEST_CASE(refuses_on_kernels_that_cannot),
    };
    char command[64];
    CHECK(mkdtemp(root));
    snprintf(home, sizeof(home), "%s/home", root);
    setenv("HOME", home, 1);
    bool here = can();
    int result = test_run(cases, sizeof(cases) / sizeof(cases[0]));
    snprintf(command, sizeof(command), "rm -rf %s", root);
    CHECK_INT(system(command), 0);
    if (!result && !here)
        SKIP("this kernel has no Landlock; what is refused then was tested");
    return result;
}
