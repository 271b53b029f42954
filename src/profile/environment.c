#include "profile/profile_priv.h"

#include "base/cpu.h"

#include <stdlib.h>

// Conditions that a figure depends on besides the program: machine, clocks, versions, settings.

static void copy(json_t *to, const json_t *from, const char *key)
{
    json_t *v = json_object_get(from, key);
    if (v)
        json_object_set(to, key, v);
}

static double read_mhz(const char *path)
{
    FILE *f = fopen(path, "r");
    long khz = 0;
    if (f && fscanf(f, "%ld", &khz) != 1)
        khz = 0;
    if (f)
        fclose(f);
    return (double)khz * 1e-3;
}

// Of the first core now; 0: unknown.
static double current_mhz(void)
{
    double mhz = read_mhz("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
    FILE *f = mhz > 0 ? NULL : fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "cpu MHz : %lf", &mhz) == 1)
            break;
    if (f)
        fclose(f);
    return mhz;
}

static json_t *mhz_json(double mhz) { return mhz > 0 ? json_real(mhz) : json_null(); }

static json_t *clocks(void)
{
    return json_pack("{s:s, s:f, s:o, s:o}", "spans",
                     tachy_tick_rate.counter ? "cycle counter, calibrated against CLOCK_MONOTONIC"
                                             : "CLOCK_MONOTONIC",
                     "span_ticks_mhz",
                     1e3 * (double)((uint64_t)1 << 32) / (double)tachy_tick_rate.mult, "cpu_mhz",
                     mhz_json(current_mhz()), "cpu_max_mhz",
                     mhz_json(read_mhz("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")));
}

// Of the first GPU; null without one.
static json_t *driver(const json_t *doctor)
{
    json_t *v = json_object_get(json_array_get(json_object_get(doctor, "gpu"), 0), "driver");
    return v ? json_incref(v) : json_null();
}

json_t *profile_environment(struct tachy_profile *p)
{
    char *text = NULL;
    json_t *env = json_object();
    bool known = p->params.machine && p->params.machine(&text, NULL) == TACHY_OK;
    json_t *doctor = known ? json_loads(text, 0, NULL)
                           : json_pack("{s:s, s:{s:s, s:i}}", "tachy", tachy_version(), "cpu", "name", tachy_cpu_name(),
                                       "cores", tachy_cpu_count());
    static const char *const keys[] = {"tachy", "cpu", "gpu", "onnxruntime"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(keys); i++)
        copy(env, doctor, keys[i]);
    json_t *ffmpeg = json_object();
    static const char *const libs[] = {"libavcodec", "libavformat", "libavutil", "libswscale"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(libs); i++)
        copy(ffmpeg, json_object_get(doctor, "ffmpeg"), libs[i]);
    json_object_set_new(env, "ffmpeg", ffmpeg);
    json_object_set_new(env, "driver", driver(doctor));
    json_object_set_new(env, "clocks", clocks());
    if (p->context)
        json_object_update(env, p->context);
    json_decref(doctor);
    tachy_free(text);
    return env;
}
