#pragma once
// Tests of engines: what is logged, a folder for models, and engines that run side by side.
#include "test.h"

#include "base/base.h"

#include <pthread.h>
#include <tachy/engine.h>
#include <stdint.h>
#include <unistd.h>

static char said[1024], told[1024]; // the last message at ERR, at INFO

static inline void listen_to(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(said, sizeof(said), "%s", msg);
    if (level == TACHY_LOG_INFO)
        snprintf(told, sizeof(told), "%s", msg);
}

static const struct tachy_log logger = {.fn = listen_to};

#define CHECK_TEXT(where, text)                                                                    \
    do {                                                                                           \
        if (!strstr(where, text)) {                                                                \
            fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__, where, text);\
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)

static inline bool have_runtime(void)
{
    char *json;
    int err = tachy_engine_library(&json, NULL, &logger);
    tachy_free(json);
    if (err)
        printf("skipped without ONNX Runtime: %s\n", said);
    return err == TACHY_OK;
}

static char folder[64];

static inline const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

// test_run() with a folder that is there as long as it runs.
static inline int run_in_folder(const struct test_case *cases, size_t n)
{
    snprintf(folder, sizeof(folder), "/tmp/tachy-engine-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    int status = test_run(cases, n);
    char *command = tachy_asprintf("rm -rf %s", folder);
    if (command && system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
    tachy_free(command);
    return status;
}

// The public selfie model of the shared material, to be freed; NULL, and a printed line, if it is absent.
static inline char *shared_selfie(void)
{
    const char *shared = getenv("TACHY_SHARED"), *root = getenv("TACHY_TEST_ROOT");
    char *path = tachy_asprintf("%s%s/models/segment/selfie_segmentation.onnx",
                                shared ? shared : root ? root : "", shared ? "" : "/../shared");
    if (path && access(path, R_OK) == 0)
        return path;
    printf("skipped: the public selfie model of the shared material is not here\n");
    tachy_free(path);
    return NULL;
}

enum { THREADS = 8, RUNS = 4 };

struct job {
    const char *provider, *path;
    int inside; // threads of a run
    pthread_barrier_t *start;
    struct tachy_tensor out[RUNS];
};

// Numbers from 0 to 1, others for each run.
static inline void fill(struct tachy_tensor *t, int run)
{
    uint32_t x = 12345u + (uint32_t)run;
    for (int64_t i = 0, n = tachy_tensor_elements(t); i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ((float *)t->data)[i] = (float)(x >> 8) / (float)(1 << 24);
    }
}

// Opens an engine when all threads are there and runs it: the job, NULL where something failed.
static inline void *run_job(void *arg)
{
    struct job *j = arg;
    tachy_engine *e = NULL;
    const struct tachy_io *in, *out;
    pthread_barrier_wait(j->start);
    if (tachy_engine_open(&e, tachy_engine_params(.provider = j->provider, .model_path = j->path,
                                                  .threads = j->inside)))
        return NULL;
    tachy_engine_inputs(e, &in);
    tachy_engine_outputs(e, &out);
    struct tachy_tensor a = in->spec;
    int err = tachy_tensor_alloc(&a);
    for (int run = 0; run < RUNS && !err; run++) {
        fill(&a, run);
        j->out[run] = out->spec;
        err = tachy_tensor_alloc(&j->out[run]);
        if (!err)
            err = tachy_engine_run(e, &a, &j->out[run]);
    }
    tachy_tensor_free(&a);
    tachy_engine_close(&e);
    return err ? NULL : j;
}

// Eight engines on eight threads give the same bits; every second one has `inside` threads.
static inline void check_threads(const char *provider, const char *path, int inside)
{
    struct job jobs[THREADS] = {0};
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){provider, path, .start = &start, .inside = i % 2 ? inside : 1};
        CHECK_INT(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    bool ok = true;
    for (int i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(threads[i], &done);
        CHECK(done);
        ok = ok && done;
    }
    pthread_barrier_destroy(&start);
    for (int run = 0; run < RUNS && ok; run++) {
        size_t n = tachy_tensor_bytes(&jobs[0].out[run]);
        for (int i = 1; i < THREADS; i++)
            CHECK(!memcmp(jobs[0].out[run].data, jobs[i].out[run].data, n));
        if (run) // another input gives another output
            CHECK(memcmp(jobs[0].out[0].data, jobs[0].out[run].data, n));
    }
    for (int i = 0; i < THREADS; i++)
        for (int run = 0; run < RUNS; run++)
            tachy_tensor_free(&jobs[i].out[run]);
}
