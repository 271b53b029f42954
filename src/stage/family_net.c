#include "stage/family_net.h"

#include "engine/engine_ops.h"

#include <string.h>

void family_net_close(struct family_net *n)
{
    for (int i = 0; i < n->nb_in; i++)
        if (i != n->lent && n->in[i].mem != TACHY_DEVICE)
            tachy_tensor_free(&n->in[i]);
    for (int i = 0; i < n->nb_out; i++)
        if (n->out[i].mem != TACHY_DEVICE)
            tachy_tensor_free(&n->out[i]);
    tachy_engine_close(&n->engine);
    *n = (struct family_net){.lent = -1};
}

static int take_io(struct tachy_tensor *t, const struct tachy_io *io, int n, bool there)
{
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        t[i] = io[i].spec;
        for (int k = 0; k < t[i].rank; k++)
            t[i].shape[k] = t[i].shape[k] < 0 ? 1 : t[i].shape[k];
        err = t[i].dtype != TACHY_F32 ? TACHY_ERR_MISMATCH : there ? TACHY_OK : tachy_tensor_alloc(&t[i]);
    }
    return err;
}

int family_net_open(struct family_net *n, const struct tachy_family *f, enum tachy_role role, const struct tachy_engine_setup *setup,
                    const struct tachy_log *log)
{
    *n = (struct family_net){.lent = -1, .file = f->file[role], .role = tachy_role_name(role), .log = log};
    struct tachy_engine_params p = tachy_engine_setup_params(setup);
    p.model_path = n->file;
    p.settle = true;
    p.log = log;
    int err = tachy_engine_open(&n->engine, &p);
    if (err < 0)
        return err;
    n->nb_in = tachy_engine_inputs(n->engine, &n->ins);
    n->nb_out = tachy_engine_outputs(n->engine, &n->outs);
    bool there = p.gpu_stream;
    if (there && !tachy_engine_on_device(n->engine))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: provider %s does not run it on the GPU; leave --device cuda out, or use "
                          "--provider tachy", n->file, tachy_engine_provider(n->engine));
    err = take_io(n->in, n->ins, n->nb_in, there);
    if (err == TACHY_OK)
        err = take_io(n->out, n->outs, n->nb_out, there);
    return err == TACHY_ERR_MISMATCH ? tachy_fail(log, err, "%s: takes or gives other numbers than float32", n->file) : err;
}

static bool all_have(const struct tachy_io *io, int n, int pictures)
{
    bool all = true;
    for (int i = 0; i < n; i++)
        all = all && io[i].spec.rank && io[i].spec.shape[0] == pictures;
    return all;
}

static bool all_have_one(const struct tachy_tensor *t, int n)
{
    bool all = true;
    for (int i = 0; i < n; i++)
        all = all && t[i].rank && t[i].shape[0] == 1;
    return all;
}

int family_net_open_batch(const struct family_net *n, int pictures, const struct tachy_engine_setup *setup, tachy_engine **out)
{
    struct tachy_io shapes[TACHY_MAX_IO];
    const struct tachy_io *in, *outs;
    struct tachy_engine_params p = tachy_engine_setup_params(setup);
    *out = NULL;
    if (!all_have_one(n->in, n->nb_in) || !all_have_one(n->out, n->nb_out))
        return TACHY_ERR_MISMATCH;
    for (int i = 0; i < n->nb_in; i++) {
        shapes[i] = (struct tachy_io){n->ins[i].name, n->in[i]};
        shapes[i].spec.shape[0] = pictures;
    }
    p.model_path = n->file;
    p.settle = true;
    p.log = n->log;
    p.batch_max = pictures;
    p.shapes = shapes;
    p.nb_shapes = n->nb_in;
    int err = tachy_engine_open(out, &p);
    if (err < 0)
        return err;
    int nb_in = tachy_engine_inputs(*out, &in), nb_out = tachy_engine_outputs(*out, &outs);
    bool all = all_have(in, nb_in, pictures) && all_have(outs, nb_out, pictures) &&
               tachy_engine_on_device(*out) == tachy_engine_on_device(n->engine);
    if (!all)
        tachy_engine_close(out);
    return all ? TACHY_OK : TACHY_ERR_MISMATCH;
}

static int find(const struct family_net *n, const struct tachy_io *io, const struct tachy_tensor *t, int nb, const char *name, int64_t elements)
{
    int at = -1;
    for (int i = 0; i < nb; i++)
        if (!name ? nb == 1 : !strcmp(io[i].name, name))
            at = i;
    if (at < 0)
        return tachy_fail(n->log, TACHY_ERR_MISMATCH, "%s: as `%s` it needs %s%s", n->file, n->role,
                          name ? "an input or output called " : "one input and one output", name ? name : "");
    int64_t found = tachy_tensor_elements(&t[at]);
    if (elements && found != elements)
        return tachy_fail(n->log, TACHY_ERR_MISMATCH, "%s: as `%s` its %s should have %lld numbers, and has %lld", n->file, n->role,
                          io[at].name, (long long)elements, (long long)found);
    return at;
}

int family_net_in(const struct family_net *n, const char *name, int64_t elements)
{
    return find(n, n->ins, n->in, n->nb_in, name, elements);
}

int family_net_out(const struct family_net *n, const char *name, int64_t elements)
{
    return find(n, n->outs, n->out, n->nb_out, name, elements);
}

int family_net_side(const struct family_net *n, const struct tachy_tensor *t)
{
    bool square = t->rank == 4 && t->shape[0] == 1 && t->shape[1] == 3 && t->shape[2] == t->shape[3] && t->shape[2] <= 4096;
    return square ? (int)t->shape[2]
                  : tachy_fail(n->log, TACHY_ERR_MISMATCH, "%s: as `%s` it needs pictures of 1 x 3 x N x N", n->file, n->role);
}
