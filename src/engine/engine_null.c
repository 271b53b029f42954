#include "base/clock.h"
#include "engine/engine_ops.h"

#include <stdio.h>
#include <stdlib.h>

// Pretends to be a model, with its inputs and outputs or with one of each: writes zeros (nothing into a GPU's memory, which stays as it
// is), takes as long as it is told, fails when it is told. Measures what the pipeline costs, and reaches every caller's error path.
struct priv {
    int cost_us;  // busy, a run
    int sleep_us; // waiting as for a device, a run
    int sleep_ns; // the same, for each element of the input
    int transfer_us; // waiting as for copies to and from a device, a run
    int fail_every;
    int64_t runs;
};

static int read_options(tachy_engine *e, struct priv *p)
{
    static const char *const keys[] = {"cost_us", "sleep_us", "sleep_ns", "transfer_us", "fail_every", NULL};
    int *const values[] = {&p->cost_us, &p->sleep_us, &p->sleep_ns, &p->transfer_us, &p->fail_every};
    const char *const *o = e->params.provider_options;
    for (; o && *o; o++) {
        const char *value;
        int key = tachy_engine_option(e, *o, keys, &value);
        if (key < 0)
            return key;
        int most = values[key] == &p->fail_every ? 1000000 : 10000000;
        int err = tachy_engine_option_int(e, *o, value, 0, most, values[key]);
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

// Extents up to the first 0; {0}: `def`.
static int pretend(tachy_engine *e, struct tachy_io *io, const char *name, const int64_t shape[4], const int64_t def[4])
{
    const int64_t *from = shape[0] ? shape : def;
    *io = (struct tachy_io){strdup(name), {.dtype = TACHY_F32}};
    for (int i = 0; i < 4 && from[i]; i++)
        io->spec.shape[io->spec.rank++] = from[i];
    if (tachy_tensor_bytes(&io->spec))
        return io->name ? TACHY_OK : TACHY_ERR_NOMEM;
    char text[128];
    return tachy_fail(e->params.log, TACHY_ERR_INVAL, "engine null: %s cannot be the shape of %s",
                      tachy_tensor_text(&io->spec, text), name);
}

static int copy_names(struct tachy_io *to, const struct tachy_io *from, int n)
{
    bool named = true;
    for (int i = 0; i < n; i++) {
        to[i] = (struct tachy_io){strdup(from[i].name), from[i].spec};
        named = named && to[i].name;
    }
    return named ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Inputs and outputs of the model, which runs once if it leaves shapes open.
static int take_after(tachy_engine *e)
{
    struct tachy_engine_params p = e->params;
    const struct tachy_io *in, *out;
    tachy_engine *model;
    p.provider = "cpu";
    p.provider_options = NULL;
    p.device = p.precision = NULL;
    p.gpu_stream = NULL;
    p.settle = true;
    int err = tachy_engine_open(&model, &p);
    if (err < 0)
        return err;
    e->n_in = tachy_engine_inputs(model, &in);
    e->n_out = tachy_engine_outputs(model, &out);
    err = copy_names(e->in, in, e->n_in);
    if (err == TACHY_OK)
        err = copy_names(e->out, out, e->n_out);
    tachy_engine_close(&model);
    return err;
}

static int null_open(tachy_engine *e)
{
    const struct tachy_engine_params *p = &e->params;
    int err = read_options(e, (void *)e->priv);
    if (err < 0)
        return err;
    snprintf(e->version, sizeof(e->version), "null");
    if (p->model_path && !p->null_shape_in[0])
        return take_after(e);
    e->n_in = e->n_out = 1;
    err = pretend(e, &e->in[0], "input", p->null_shape_in, (const int64_t[4]){1, 256, 256, 3});
    return err < 0 ? err : pretend(e, &e->out[0], "output", p->null_shape_out, (const int64_t[4]){1, 256, 256, 1});
}

static void transfer(tachy_engine *e, int us)
{
    uint64_t start = tachy_now_ns();
    tachy_sleep_until(start + (uint64_t)us * 1000);
    atomic_fetch_add(&e->transfer_ns, tachy_now_ns() - start);
}

static int null_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    struct priv *p = (void *)e->priv;
    uint64_t end = tachy_now_ns() + (uint64_t)p->cost_us * 1000;
    p->runs++;
    if (p->fail_every && p->runs % p->fail_every == 0)
        return tachy_fail(e->params.log, TACHY_ERR_EXTERNAL,
                          "engine null: run %lld fails because of fail_every=%d",
                          (long long)p->runs, p->fail_every);
    for (int i = 0; i < e->n_out; i++)
        if (out[i].mem != TACHY_DEVICE)
            memset(out[i].data, 0, tachy_tensor_bytes(&out[i]));
    while (p->cost_us && tachy_now_ns() < end)
        ; // busy, as a model would be
    uint64_t sleep = (uint64_t)p->sleep_us * 1000 +
                     (uint64_t)p->sleep_ns * (uint64_t)tachy_tensor_elements(&in[0]);
    if (sleep)
        tachy_sleep_until(tachy_now_ns() + sleep);
    if (p->transfer_us)
        transfer(e, p->transfer_us);
    return TACHY_OK;
}

static void null_close(tachy_engine *e)
{
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        free((char *)(uintptr_t)e->in[i].name);
        free((char *)(uintptr_t)e->out[i].name);
    }
}

const struct tachy_engine_ops tachy_engine_null = {
    .name = "null",
    .priv_size = sizeof(struct priv),
    .open = null_open,
    .run = null_run,
    .close = null_close,
    .device = true,
};
