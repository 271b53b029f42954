#include "base/base.h"
#include "base/cpu.h"
#include "provider/provider.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

// Options that a program passes to the provider: ONNX Runtime stores them among a session's entries, as ep.<name of the
// provider, lower case>.<key>.

struct option {
    const char *key;
    size_t at; // in struct provider_options: of an int, or of a text of `size` bytes
    int lo, hi;
    size_t size;
    const char *const *words; // what the int may be, by name; ends with NULL
};

static const char *const devices[] = {"cpu", "cuda", NULL};
static const struct plan_backend *const backends[] = {&tachy_plan_cpu, &tachy_plan_cuda};

enum { MOST_THREADS = 256 };

static const struct option known[] = {
    {"device", offsetof(struct provider_options, device), .words = devices},
    {"gpu_id", offsetof(struct provider_options, plan.gpu), .lo = 0, .hi = TACHY_MAX_GPUS - 1},
    {"precision", offsetof(struct provider_options, plan.precision), .words = tachy_plan_precisions},
    {"memory_limit", offsetof(struct provider_options, plan.memory_limit), .lo = 0, .hi = 1 << 24},
    {"deterministic", offsetof(struct provider_options, deterministic), .lo = 0, .hi = 1},
    {"threads", offsetof(struct provider_options, plan.threads), .lo = 0, .hi = MOST_THREADS},
    {"build_effort", offsetof(struct provider_options, plan.effort), .lo = 0, .hi = 3},
    {"claim_qdq", offsetof(struct provider_options, claim_qdq), .lo = 0, .hi = 1},
    {"direct", offsetof(struct provider_options, plan.direct), .lo = 0, .hi = 1},
    {"apart", offsetof(struct provider_options, plan.apart), .lo = 0, .hi = 1},
    {"guard", offsetof(struct provider_options, plan.guard), .lo = 0, .hi = 2},
    {"store", offsetof(struct provider_options, store), .size = sizeof(((struct provider_options *)0)->store)},
};

static OrtStatus *fail(const struct provider *p, const char *fmt, const char *a, const char *b)
{
    char text[300];
    snprintf(text, sizeof(text), fmt, a, b);
    return p->api->CreateStatus(ORT_INVALID_ARGUMENT, text);
}

static OrtStatus *unknown(const struct provider *p, const char *key)
{
    char names[200] = "";
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "", known[i].key);
    return fail(p, "tachy: there is no provider option `%.60s`; there are %s", key, names);
}

static OrtStatus *set_word(const struct provider *p, const struct option *k, struct provider_options *o, const char *value)
{
    char words[100] = "";
    for (int i = 0; k->words[i]; i++) {
        if (!strcmp(k->words[i], value)) {
            *(int *)((char *)o + k->at) = i;
            return NULL;
        }
        snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", i ? " or " : "", k->words[i]);
    }
    return fail(p, "tachy: the provider option `%s` is %s", k->key, words);
}

// Checks the options against each other.
static OrtStatus *settle(const struct provider *p, struct provider_options *o)
{
    o->backend = backends[o->device];
    if (o->on_gpu && !o->backend->queue)
        return fail(p, "tachy: device=%s cannot be had on a session's %s: add the provider for the CPU device",
                    o->backend->name, "GPU device");
    bool loops = o->plan.precision == TACHY_PLAN_INT8 && o->claim_qdq; // by plain loops, for tests
    if (o->plan.precision != TACHY_PLAN_FP32 && !loops && !o->backend->queue)
        return fail(p, "tachy: precision=%s needs device=%s: a CPU computes in fp32", tachy_plan_precisions[o->plan.precision],
                    "cuda");
    if (o->plan.memory_limit && !o->backend->queue)
        return fail(p, "tachy: %s needs device=%s", "memory_limit, of a GPU's memory,", "cuda");
    o->plan.deterministic = o->deterministic;
    o->shares = !o->plan.threads;
    if (o->shares)
        o->plan.threads = TACHY_MIN(tachy_cpu_count(), MOST_THREADS);
    return NULL;
}

static OrtStatus *set(const struct provider *p, struct provider_options *o, const char *key, const char *value)
{
    const struct option *k = known;
    if (!strcmp(key, "context")) { // of programs that use the function table
        provider_context_close(&o->context);
        o->context = provider_context_find(value);
        return o->context ? NULL : fail(p, "tachy: the provider option `%s` is %s", key, "the id of an open context");
    }
    while (k < known + TACHY_ARRAY_SIZE(known) && strcmp(k->key, key) != 0)
        k++;
    if (k == known + TACHY_ARRAY_SIZE(known))
        return unknown(p, key);
    if (k->size) {
        if (!*value || strlen(value) >= k->size)
            return fail(p, "tachy: the provider option `%s` is %s", key, "a folder, or 0 for none");
        memcpy((char *)o + k->at, value, strlen(value) + 1);
        return NULL;
    }
    if (k->words)
        return set_word(p, k, o, value);
    char *end, range[40];
    long v = strtol(value, &end, 10);
    snprintf(range, sizeof(range), "%d to %d", k->lo, k->hi);
    if (end == value || *end || v < k->lo || v > k->hi)
        return fail(p, "tachy: the provider option `%s` is a whole number from %s", key, range);
    *(int *)((char *)o + k->at) = (int)v;
    return NULL;
}

OrtStatus *provider_read_options(struct provider_options *o, const struct provider *p, const char *name,
                                 const OrtSessionOptions *options, bool on_gpu)
{
    char prefix[64];
    OrtKeyValuePairs *entries = NULL;
    const char *const *keys = NULL, *const *values = NULL;
    size_t nb = 0;
    *o = (struct provider_options){.on_gpu = on_gpu, .device = on_gpu, .plan = {.effort = 2}};
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "ep.%.50s.", name);
    for (char *c = prefix; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    OrtStatus *s = p->api->GetSessionOptionsConfigEntries(options, &entries);
    if (s)
        return s;
    p->api->GetKeyValuePairs(entries, &keys, &values, &nb);
    for (size_t i = 0; i < nb && !s; i++)
        if (!strncmp(keys[i], prefix, length))
            s = set(p, o, keys[i] + length, values[i]);
    p->api->ReleaseKeyValuePairs(entries);
    return s ? s : settle(p, o);
}
