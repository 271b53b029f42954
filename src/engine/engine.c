#include "base/clock.h"
#include "base/options.h"
#include "engine/engine_ops.h"
#include "engine/ep_builtin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const struct tachy_engine_ops *const engines[] = {
    &tachy_engine_tachy,
    &tachy_engine_cpu,
    &tachy_engine_null,
};

const char *tachy_tensor_text(const struct tachy_tensor *t, char buf[128])
{
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < TACHY_MIN(t->rank, TACHY_MAX_RANK) && used < 100; i++) {
        const char *cross = i ? "x" : "";
        used += (size_t)(t->shape[i] < 0
                             ? snprintf(buf + used, 128 - used, "%s?", cross)
                             : snprintf(buf + used, 128 - used, "%s%lld", cross,
                                        (long long)t->shape[i]));
    }
    snprintf(buf + used, 128 - used, "%s%s", t->rank ? " " : "scalar ",
             tachy_dtype_name(t->dtype));
    return buf;
}

int tachy_engine_option(const tachy_engine *e, const char *option, const char *const keys[],
                        const char **value)
{
    char names[256] = "";
    size_t length = strcspn(option, "=");
    for (int i = 0; keys[i]; i++) {
        if (option[length] && strlen(keys[i]) == length && !strncmp(option, keys[i], length)) {
            *value = option + length + 1;
            return i;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%s=...", used ? ", " : "", keys[i]);
    }
    return tachy_fail(e->params.log, TACHY_ERR_INVAL,
                      "engine %s: the provider option `%s` does not exist; there are %s", e->name,
                      option, names);
}

int tachy_engine_check_precision(const tachy_engine *e, const char *has)
{
    const char *asked = e->params.precision;
    if (!asked || tachy_word_in(has, asked))
        return TACHY_OK;
    if (!strcmp(has, "fp32"))
        return tachy_fail(e->params.log, TACHY_ERR_UNSUPPORTED, "%s: precision %s needs the model on a GPU (--device cuda), and "
                          "it is on the CPU, which computes in fp32", e->path, asked);
    return tachy_fail(e->params.log, TACHY_ERR_UNSUPPORTED, "%s: precision %s is not built; the provider %s has %s", e->path,
                      asked, e->name, has);
}

int tachy_engine_option_int(const tachy_engine *e, const char *option, const char *value, int lo,
                            int hi, int *out)
{
    char *end;
    errno = 0;
    long v = strtol(value, &end, 10);
    if (end == value || *end || errno || v < lo || v > hi)
        return tachy_fail(e->params.log, TACHY_ERR_INVAL,
                          "engine %s: the provider option `%s` needs a whole number from %d to %d",
                          e->name, option, lo, hi);
    *out = (int)v;
    return TACHY_OK;
}

static int check_model(const struct tachy_engine_params *p)
{
    struct stat st;
    if (!p->model_path || !p->model_path[0])
        return tachy_fail(p->log, TACHY_ERR_INVAL, "engine: model_path is required");
    if (stat(p->model_path, &st) < 0)
        return tachy_fail(p->log, tachy_err_from_errno(errno), "%s: cannot be opened: %s",
                          p->model_path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return tachy_fail(p->log, TACHY_ERR_INVAL, "%s: is not a regular file", p->model_path);
    return TACHY_OK;
}

static int check_params(const struct tachy_engine_params *p)
{
    return TACHY_CHECK(p->log, p->batch_max >= 0 && p->batch_max <= 256) &&
                   TACHY_CHECK(p->log, p->nb_constants >= 0 && p->nb_constants <= TACHY_MAX_IO) &&
                   TACHY_CHECK(p->log, p->threads >= 0 && p->threads <= 256) &&
                   TACHY_CHECK(p->log, p->build_effort >= 0 && p->build_effort <= 3)
               ? TACHY_OK
               : TACHY_ERR_INVAL;
}

static int try_look(tachy_engine **out, const struct tachy_engine_ops *ops,
                    const struct tachy_engine_params *p, bool picking, const struct tachy_session_look *look)
{
    int err = ops->needs_model ? check_model(p) : TACHY_OK;
    if (err < 0)
        return err;
    tachy_engine *e = calloc(1, sizeof(*e) + ops->priv_size);
    if (!e)
        return TACHY_ERR_NOMEM;
    e->ops = ops;
    e->params = *p;
    e->params.threads = TACHY_DEF(p->threads, 1);
    e->picking = picking;
    e->look = look;
    snprintf(e->name, sizeof(e->name), "%s", *ops->name ? ops->name : p->provider);
    e->path = tachy_asprintf("%s", ops->needs_model ? p->model_path : ops->name);
    err = e->path ? ops->open(e) : TACHY_ERR_NOMEM;
    if (err < 0) {
        tachy_engine_close(&e);
        return err;
    }
    e->params.provider = e->params.model_path = e->params.library = NULL; // the caller's memory
    e->params.provider_options = NULL;
    e->params.shapes = NULL;
    e->params.constants = NULL;
    e->params.gpu_stream = NULL;
    e->params.device = e->params.precision = NULL;
    *out = e;
    return TACHY_OK;
}

static int try_open(tachy_engine **out, const struct tachy_engine_ops *ops,
                    const struct tachy_engine_params *p, bool picking)
{
    return try_look(out, ops, p, picking, NULL);
}

int tachy_engine_look(const struct tachy_engine_params *p, const struct tachy_session_look *look)
{
    tachy_engine *e = NULL;
    int err = check_params(p);
    if (err == TACHY_OK)
        err = try_look(&e, &tachy_engine_tachy, p, false, look);
    tachy_engine_close(&e);
    return err;
}

// One that ONNX Runtime may have, or that a plugin brings.
static bool is_other(const struct tachy_engine_params *p)
{
    for (const char *const *o = p->provider_options; o && *o; o++)
        if (!strncmp(*o, "library=", 8) && p->provider[0] && strlen(p->provider) < 32)
            return true;
    return tachy_ep_builtin(p->provider);
}

static int unknown_provider(const struct tachy_engine_params *p)
{
    const char *names[64] = {"auto"}, *near;
    size_t n = 1;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(engines); i++)
        names[n++] = engines[i]->name;
    for (size_t i = 0; tachy_ep_builtin_name(i) && n < TACHY_ARRAY_SIZE(names); i++)
        names[n++] = tachy_ep_builtin_name(i);
    near = tachy_nearest(p->provider, names, n);
    return tachy_fail(p->log, TACHY_ERR_INVAL, "--provider %.32s is not known%s%s%s", p->provider,
                      near ? "; did you mean " : "; a plugin is named with --provider-option library=FILE", near ? near : "",
                      near ? "?" : "");
}

// Replaces the log while a provider is only tried: its errors become details, and are kept as the reason why another
// provider runs.
struct trial {
    const struct tachy_log *log;
    char why[1024];
};

static void on_trial(void *user, enum tachy_log_level level, const char *text)
{
    struct trial *t = user;
    if (level == TACHY_LOG_ERR)
        snprintf(t->why, sizeof(t->why), "%s", text);
    else
        tachy_msg(t->log, level, "%s", text);
}

static int try_tachy(tachy_engine **out, const struct tachy_engine_params *p, struct trial *t)
{
    struct tachy_log quiet = {on_trial, t, p->log ? p->log->max_level : TACHY_LOG_ERR};
    struct tachy_engine_params trial = *p;
    trial.log = &quiet;
    int err = try_open(out, &tachy_engine_tachy, &trial, !p->strict);
    if (!err)
        (*out)->params.log = p->log;
    return err;
}

bool tachy_engine_asks_gpu(const struct tachy_engine_params *p)
{
    return p->device ? !strcmp(p->device, "cuda") : p->gpu_stream != NULL;
}

// "tachy" if it runs the whole model, first on the GPU if one is requested, then on the CPU; else "cpu".
static int pick(tachy_engine **out, const struct tachy_engine_params *p)
{
    struct trial t = {.log = p->log};
    struct tachy_engine_params host = *p;
    bool only = p->strict || (p->precision && strcmp(p->precision, "fp32") != 0); // no other will do
    int err = try_tachy(out, p, &t);
    if (err && tachy_engine_asks_gpu(p) && !only) {
        tachy_msg(p->log, TACHY_LOG_INFO, "engine: the model stays on the CPU, because: %s", t.why);
        host.device = "cpu";
        err = try_tachy(out, &host, &t);
    }
    p = &host;
    if (!err)
        return err;
    if (only) {
        tachy_msg(p->log, TACHY_LOG_ERR, "%s", t.why);
    } else {
        err = try_open(out, &tachy_engine_cpu, p, false);
        if (!err)
            tachy_msg(p->log, TACHY_LOG_INFO, "engine: ONNX Runtime's own kernels run %s, because: %s",
                      (*out)->path, t.why);
    }
    return err;
}

int tachy_engine_open_sized(size_t p_size, tachy_engine **out, const struct tachy_engine_params *p)
{
    struct tachy_engine_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p) || check_params(p) < 0)
        return TACHY_ERR_INVAL;
    bool any = !p->provider || !strcmp(p->provider, "auto");
    size_t i = 0;
    while (i < TACHY_ARRAY_SIZE(engines) && !any && strcmp(p->provider, engines[i]->name) != 0)
        i++;
    if (i == TACHY_ARRAY_SIZE(engines) && !is_other(p))
        return unknown_provider(p);
    const struct tachy_engine_ops *ops = i < TACHY_ARRAY_SIZE(engines) ? engines[i] : &tachy_engine_ep;
    if (p->varying && (any || ops == &tachy_engine_tachy)) { // plans have fixed shapes
        if (p->strict)
            return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED, "%s: its inputs change their sizes, and the provider tachy runs fixed ones "
                              "alone; leave out --strict", p->model_path ? p->model_path : "engine");
        ops = &tachy_engine_cpu;
        any = false;
    }
    int err = any ? pick(out, p) : try_open(out, ops, p, false);
    if (!err)
        tachy_msg(p->log, TACHY_LOG_VERBOSE, "engine: %s runs on %s (%s), as %s", (*out)->path,
                  (*out)->name, (*out)->version, any ? "picked" : "asked for");
    return err;
}

int tachy_engine_inputs(const tachy_engine *e, const struct tachy_io **io)
{
    TACHY_CLEAR(io);
    if (!TACHY_CHECK(TACHY_LOG_OF(e, params.log), e && io))
        return TACHY_ERR_INVAL;
    *io = e->in;
    return e->n_in;
}

int tachy_engine_outputs(const tachy_engine *e, const struct tachy_io **io)
{
    TACHY_CLEAR(io);
    if (!TACHY_CHECK(TACHY_LOG_OF(e, params.log), e && io))
        return TACHY_ERR_INVAL;
    *io = e->out;
    return e->n_out;
}

static bool same_shape(const struct tachy_tensor *want, const struct tachy_tensor *t)
{
    if (want->rank != t->rank || want->dtype != t->dtype)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] <= 0 || (want->shape[i] >= 0 && want->shape[i] != t->shape[i]))
            return false;
    return true;
}

// Strides are all zero or those of a dense row-major tensor.
static bool is_dense(const struct tachy_tensor *t)
{
    int64_t expected = 1;
    bool zero = true, dense = true;
    for (int i = t->rank - 1; i >= 0; i--) {
        zero = zero && t->stride[i] == 0;
        dense = dense && (t->shape[i] == 1 || t->stride[i] == expected);
        expected *= t->shape[i];
    }
    return zero || dense;
}

static int check_tensor(const tachy_engine *e, const char *kind, const struct tachy_io *io,
                        const struct tachy_tensor *want, const struct tachy_tensor *t)
{
    char is[128], should[128];
    if (!same_shape(want, t))
        return tachy_fail(e->params.log, TACHY_ERR_MISMATCH,
                          "%s: the %s `%s` is %s, the tensor given is %s", e->path, kind, io->name,
                          tachy_tensor_text(want, should), tachy_tensor_text(t, is));
    if (!t->data || (t->mem == TACHY_DEVICE && !tachy_engine_on_device(e)) || !is_dense(t))
        return tachy_fail(e->params.log, TACHY_ERR_INVAL,
                          "%s: the tensor for the %s `%s` must be dense, with data in host memory%s",
                          e->path, kind, io->name, tachy_engine_on_device(e) ? " or a GPU's" : "");
    return TACHY_OK;
}

// An output that varies: all but its extents, which follow from the inputs'.
static struct tachy_tensor any_extents(const tachy_engine *e, const struct tachy_io *io)
{
    struct tachy_tensor t = io->spec;
    for (int i = 0; i < t.rank && e->params.varying; i++)
        t.shape[i] = -1;
    return t;
}

static int check_all(const tachy_engine *e, const struct tachy_tensor in[],
                     const struct tachy_tensor out[])
{
    int err = TACHY_OK;
    for (int i = 0; i < e->n_in && !err; i++)
        err = check_tensor(e, "input", &e->in[i], e->fixed ? &e->fixed_in[i] : &e->in[i].spec,
                           &in[i]);
    for (int i = 0; i < e->n_out && !err; i++) {
        struct tachy_tensor any;
        if (!e->fixed)
            any = any_extents(e, &e->out[i]);
        err = check_tensor(e, "output", &e->out[i], e->fixed ? &e->fixed_out[i] : &any, &out[i]);
    }
    return err;
}

int tachy_engine_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    if (!TACHY_CHECK(TACHY_LOG_OF(e, params.log), e && in && out))
        return TACHY_ERR_INVAL;
    int err = check_all(e, in, out);
    if (err < 0)
        return err;
    err = e->ops->run(e, in, out);
    if (!err && !e->fixed && !e->params.varying) {
        memcpy(e->fixed_in, in, sizeof(*in) * (size_t)e->n_in);
        memcpy(e->fixed_out, out, sizeof(*out) * (size_t)e->n_out);
        e->fixed = true;
    }
    return err;
}

int tachy_engine_time(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[], int runs, double *ms)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(e, params.log), e && in && out && ms && runs > 0))
        return TACHY_ERR_INVAL;
    int err = check_all(e, in, out);
    if (!err)
        err = e->ops->time ? e->ops->time(e, in, runs, ms) : TACHY_ERR_UNSUPPORTED;
    if (err != TACHY_ERR_UNSUPPORTED)
        return err;
    uint64_t start = tachy_now_ns();
    err = TACHY_OK;
    for (int i = 0; i < runs && !err; i++)
        err = tachy_engine_run(e, in, out);
    *ms = (double)(tachy_now_ns() - start) / 1e6 / runs;
    return err;
}

int64_t tachy_engine_memory(const tachy_engine *e) { return e ? e->memory : 0; }
const char *tachy_engine_provider(const tachy_engine *e) { return e ? e->name : NULL; }
const char *tachy_engine_version(const tachy_engine *e) { return e ? e->version : NULL; }
uint64_t tachy_engine_transfer_ns(const tachy_engine *e) { return e ? atomic_load(&e->transfer_ns) : 0; }

void tachy_engine_close(tachy_engine **e)
{
    tachy_engine *x = e ? *e : NULL;
    if (!x)
        return;
    *e = NULL;
    x->ops->close(x);
    free(x->path);
    free(x);
}
