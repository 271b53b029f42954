#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// One run of a case: a process of this command, or of a peer, and what else the machine did meanwhile.

enum { FIRST_FRAMES = 30 };

bool bench_stopped(const struct bench_run *b) { return tachy_control_stopped(b->c->control); }

// CPU seconds that the whole machine was busy; negative: the system does not say.
static double machine_busy(void)
{
    unsigned long long user, nice, system, idle, wait, irq, soft, steal;
    FILE *f = fopen("/proc/stat", "r");
    int n = f ? fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal) : 0;
    if (f)
        fclose(f);
    return n == 8 ? (double)(user + nice + system + irq + soft + steal) / (double)sysconf(_SC_CLK_TCK) : -1;
}

static double of_time(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static double children_busy(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return of_time(u.ru_utime) + of_time(u.ru_stime);
}

// Of the first sensor; null without one.
static json_t *temperature(void)
{
    int v;
    FILE *f = fopen("/sys/class/thermal/thermal_zone0/temp", "r");
    json_t *o = f && fscanf(f, "%d", &v) == 1 ? json_real(v / 1000.0) : json_null();
    if (f)
        fclose(f);
    return o;
}

static json_t *clock_mhz(void)
{
    char line[256];
    double mhz = 0;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "cpu MHz : %lf", &mhz) != 1)
        ;
    if (f)
        fclose(f);
    return mhz > 0 ? json_real(mhz) : json_null();
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

// The part of a run's summary that a bench keeps.
static json_t *kept(const json_t *s)
{
    const json_t *latency = json_object_get(s, "latency_ms"), *step;
    double frames = get(s, "frames"), seconds = get(s, "seconds");
    json_t *o = json_object(), *steps = json_object();
    size_t i;
    if (frames <= 0 || seconds <= 0) {
        json_decref(steps);
        json_object_set_new(o, "error", json_string("it worked on no frame"));
        return o;
    }
    json_object_set_new(o, "fps", json_real(frames / seconds));
    json_object_set_new(o, "frames", json_integer((json_int_t)frames));
    static const char *const keys[] = {"p50", "p95", "p99"}, *const names[] = {"p50_ms", "p95_ms", "p99_ms"};
    for (int k = 0; k < 3; k++)
        json_object_set(o, names[k], json_object_get(latency, keys[k]));
    json_object_set_new(o, "cpu_ms", json_real(1e3 * get(s, "utilisation") * get(s, "cores") * seconds / frames));
    json_object_set(o, "utilisation", json_object_get(s, "utilisation"));
    json_object_set(o, "memory_mib", json_object_get(s, "peak_memory_mib"));
    json_t *joules = json_object_get(json_object_get(s, "energy"), "joules_per_frame");
    if (joules)
        json_object_set(o, "joules", joules);
    json_array_foreach(json_object_get(s, "steps"), i, step)
        if (get(step, "calls") > 0)
            json_object_set_new(steps, text_of(step, "name"), json_real(1e3 * get(step, "busy_s") / frames));
    json_object_set_new(o, "steps_ms", steps);
    return o;
}

// A peer's program: what comes before its work(picture), with its imports and packages, and the loop over the clip. Its arguments:
// clip, model, frames (0: all).
#define PEER_BEGIN \
    "import sys, json, time, resource\n" \
    "try:\n" \
    "    import cv2, numpy as np\n" \
    "    %s\n" \
    "except ImportError as e:\n" \
    "    sys.exit(f'{e}; to get it: pip install opencv-python-headless %s')\n" \
    "clip, model, frames = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
static const char peer_loop[] =
    "v = cv2.VideoCapture(clip)\n"
    "n, t, took = 0, time.perf_counter(), []\n"
    "while not frames or n < frames:\n"
    "    at = time.perf_counter()\n"
    "    ok, f = v.read()\n"
    "    if not ok: break\n"
    "    work(f)\n"
    "    took.append((time.perf_counter() - at) * 1e3)\n"
    "    n += 1\n"
    "p = lambda q: float(np.percentile(took, q)) if took else 0\n"
    "u = resource.getrusage(resource.RUSAGE_SELF)\n"
    "s = time.perf_counter() - t\n"
    "print(json.dumps(dict(frames=n, seconds=s, latency_ms=dict(p50=p(50), p95=p(95), p99=p(99)), cores=1,\n"
    "    utilisation=(u.ru_utime + u.ru_stime) / s, peak_memory_mib=u.ru_maxrss / 1024)))\n";

// The last line that the process wrote.
static json_t *failure(FILE *f)
{
    char line[512], last[300] = "it failed";
    rewind(f);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            snprintf(last, sizeof(last), "%.280s", strncmp(line, "tachy: ", 7) ? line : line + 7);
    }
    return json_pack("{s:s}", "error", last);
}

static int run_tachy(struct bench_run *b, const struct bench_case *k, const char *clip, int64_t frames, FILE *out, int *status)
{
    const tachy_settings *s = b->c->settings;
    const char *argv[BENCH_WORDS + 16] = {"tachy", "segment", clip, "--json", "-q"}, *card = tachy_settings_str(s, "model.card");
    char most[64], device[64];
    int n = 5;
    snprintf(most, sizeof(most), "--input.max_frames=%lld", (long long)frames);
    snprintf(device, sizeof(device), "--device=%s", tachy_settings_str(s, "bench.device"));
    argv[n++] = "--model";
    argv[n++] = tachy_settings_str(s, "model.name");
    if (card) {
        argv[n++] = "--card";
        argv[n++] = card;
    }
    for (int i = 0; i < k->n_words; i++)
        argv[n++] = k->word[i];
    if (frames)
        argv[n++] = most;
    argv[n++] = device;
    return child_run(b->c, &(struct child){.name = k->name, .argv = argv, .out = out, .err = b->log}, status);
}

static int run_peer(struct bench_run *b, const struct bench_case *k, const char *clip, int64_t frames, FILE *out, int *status)
{
    char count[32], source[4096];
    tachy_model *m;
    snprintf(count, sizeof(count), "%lld", (long long)frames);
    snprintf(source, sizeof(source), PEER_BEGIN "%s%s", k->peer->imports, k->peer->packages, k->peer->source, peer_loop);
    int err = tachy_model_open(&m, &(struct tachy_model_params){.name = "selfie", .log = &b->c->log});
    if (err < 0)
        return err;
    const char *argv[] = {"python3", "-c", source, clip, tachy_model_path(m), count, NULL};
    err = child_run(b->c, &(struct child){.name = k->name, .program = "python3", .argv = argv, .out = out, .err = b->log}, status);
    tachy_model_close(&m);
    return err;
}

int bench_trial(struct bench_run *b, const struct bench_case *k, int64_t frames, json_t **out)
{
    char *clip = NULL;
    int status = 0, err = b->file ? TACHY_OK
                                  : bench_clip(k, tachy_settings_bool(b->c->settings, "bench.quick"), &b->c->log,
                                               tachy_control_stop_flag(b->c->control), &clip);
    FILE *f = err == TACHY_OK ? tmpfile() : NULL;
    *out = NULL;
    if (err == TACHY_OK && !f)
        err = write_failed("a temporary file");
    double busy = machine_busy(), own = children_busy(), start = now_s();
    if (err == TACHY_OK)
        err = (k->peer ? run_peer : run_tachy)(b, k, b->file ? b->file : clip, frames ? frames : FIRST_FRAMES, f, &status);
    double took = now_s() - start, others = busy >= 0 ? (machine_busy() - busy - (children_busy() - own)) / took : 0;
    if (err == TACHY_OK && !bench_stopped(b)) {
        rewind(f);
        json_t *s = status ? NULL : json_loadf(f, 0, NULL);
        *out = s ? kept(s) : failure(b->log);
        json_object_set_new(*out, "load", json_real(others > 0 ? others : 0));
        json_object_set_new(*out, "mhz", clock_mhz());
        json_object_set_new(*out, "celsius", temperature());
        json_object_set_new(*out, "took_s", json_real(took));
        json_decref(s);
    }
    if (f)
        fclose(f);
    free(clip);
    return err;
}
