#include "engine/engine_ort.h"

#include <stdio.h>

// ONNX Runtime's own CPU kernels.

static struct tachy_ort_engine *priv(tachy_engine *e) { return (void *)e->priv; }

static int cpu_open(tachy_engine *e)
{
    struct tachy_ort_options o;
    int err = tachy_engine_check_precision(e, "fp32");
    if (!err)
        err = tachy_ort_options(&o, e, false);
    if (!err)
        err = tachy_ort_engine_open(e, priv(e), &o.session);
    if (!err)
        snprintf(e->version, sizeof(e->version), "ONNX Runtime %s", priv(e)->session->ort->version);
    return err;
}

static int cpu_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    return tachy_ort_engine_run(e, priv(e), in, out);
}

static void cpu_close(tachy_engine *e) { tachy_ort_engine_close(priv(e)); }

const struct tachy_engine_ops tachy_engine_cpu = {
    .name = "cpu",
    .needs_model = true,
    .priv_size = sizeof(struct tachy_ort_engine),
    .open = cpu_open,
    .run = cpu_run,
    .close = cpu_close,
};
