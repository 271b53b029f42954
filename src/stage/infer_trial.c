#include "profile/system.h"
#include "stage/infer_priv.h"

// Runs of a network with made-up pictures, for who looks for the batch size that pays.

bool tachy_infer_batches(const struct tachy_infer *in)
{
    return !in->nb_states && !in->pretends && in->net[TACHY_INFER_FULL].nb_in == 1;
}

int tachy_infer_try(const struct tachy_infer *in, int batch, double *ms, int64_t *grown)
{
    enum { LEAST_MS = 60, MOST_RUNS = 50 };
    const struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    struct infer_tensors t = {0};
    struct tachy_log quiet = {0}; // what does not fit is no error here
    const struct tachy_log *log = in->st->task->log;
    tachy_engine *e = NULL;
    int64_t before = tachy_resident_memory();
    in->st->task->log = log ? &quiet : NULL;
    int err = infer_open_engine(in, net, batch, 0, &e);
    if (err == TACHY_OK)
        err = infer_tensors_open(in, net, e, batch, &t);
    if (err == TACHY_OK && t.in[net->picture].shape[0] != batch)
        err = TACHY_ERR_MISMATCH; // the network fixes its batch
    for (int i = 0; i < t.nb_in && err == TACHY_OK; i++)
        memset(t.in[i].data, 0, tachy_tensor_bytes(&t.in[i]));
    if (err == TACHY_OK)
        err = tachy_engine_time(e, t.in, t.out, 1, ms); // the first run is slower
    if (err == TACHY_OK)
        err = tachy_engine_time(e, t.in, t.out, 1, ms);
    if (err == TACHY_OK)
        err = tachy_engine_time(e, t.in, t.out, (int)TACHY_CLAMP(LEAST_MS / TACHY_MAX(*ms, 0.01), 2, MOST_RUNS), ms);
    *ms /= batch;
    *grown = tachy_resident_memory() - before;
    in->st->task->log = log;
    infer_tensors_free(&t);
    tachy_engine_close(&e);
    return err;
}
