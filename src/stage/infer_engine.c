#include "stage/infer_priv.h"

#include "model/card.h"

// Opens the model. A session has fixed shapes: dimensions that the model leaves free get their size from the card, and
// a state's shape from a trial run on one picture.

// Memory that the engine's parameters point to.
struct asked {
    struct tachy_io shape[2 + TACHY_MAX_STATES];
    struct tachy_engine_constant constant[TACHY_MAX_CONSTANTS];
    int nb_shapes;
};

static struct tachy_engine_params ask(const struct tachy_infer *s, const struct tachy_infer_net *net, int batch, int device,
                                      struct asked *a)
{
    const struct tachy_card *c = net->card;
    const tachy_model *model = net->model ? net->model : s->net[TACHY_INFER_FULL].model;
    bool nchw = c->in.layout == TACHY_NCHW;
    int w = c->in.width, h = c->in.height;
    // The batch stands in batch_max, but in the inputs as well if several have it; a recurrent model's is one in every input.
    a->shape[0] = (struct tachy_io){c->input && *c->input ? c->input : NULL,
                                    {.rank = 4, .shape = {c->n_states || *c->hole ? batch : -1, nchw ? -1 : h, nchw ? h : w, nchw ? w : -1}}};
    a->nb_shapes = 1;
    if (*c->plate)
        a->shape[a->nb_shapes++] = (struct tachy_io){c->plate, a->shape[0].spec};
    if (*c->hole)
        a->shape[a->nb_shapes++] = (struct tachy_io){c->hole, a->shape[0].spec};
    for (int i = 0; i < c->n_states; i++)
        if (s->state[i].spec.rank)
            a->shape[a->nb_shapes++] = (struct tachy_io){c->state[i].input, s->state[i].spec};
    for (int i = 0; i < c->n_constants; i++)
        a->constant[i] = (struct tachy_engine_constant){c->constant[i].input, c->constant[i].value, c->constant[i].n};
    struct tachy_engine_params p = tachy_engine_setup_params(&s->setup);
    p.shapes = a->shape;
    p.nb_shapes = a->nb_shapes;
    p.constants = a->constant;
    p.nb_constants = c->n_constants;
    p.settle = c->n_states > 0 || c->n_decoders > 0;
    p.model_path = tachy_model_path(model);
    p.batch_max = batch > 1 ? batch : 0;
    p.gpu_stream = s->device_stream[device];
    if (p.gpu_stream)
        p.gpu = s->device_id[device];
    p.log = s->st->task->log;
    const int64_t in[] = {batch, nchw ? 3 : h, nchw ? h : w, nchw ? w : 3};
    const int64_t out[] = {batch, c->out_height ? c->out_height : h, c->out_width ? c->out_width : w, 1};
    if (s->pretends) {
        memcpy(p.null_shape_in, in, sizeof(in));
        memcpy(p.null_shape_out, out, sizeof(out));
    }
    return p;
}

// The engine has found that the constants fit, and has no inputs for them.
static int check(const struct tachy_card *card, const tachy_engine *e, const struct tachy_log *log)
{
    const struct tachy_io *in, *out;
    struct tachy_card c = *card;
    c.n_constants = 0;
    int n = tachy_engine_inputs(e, &in), m = tachy_engine_outputs(e, &out);
    return tachy_card_check(&c, in, n, out, m, log);
}

int infer_open_engine(const struct tachy_infer *s, const struct tachy_infer_net *net, int batch, int device,
                      tachy_engine **out)
{
    struct asked a;
    struct tachy_engine_params p = ask(s, net, batch, device, &a);
    int err = tachy_engine_open(out, &p);
    // A batch is asked for once the same model has been checked with a single picture.
    if (err < 0 || batch > 1 || s->pretends)
        return err;
    err = check(net->card, *out, p.log);
    if (err < 0)
        tachy_engine_close(out);
    return err;
}

// ---- States

static int index_of(const struct tachy_io *io, int n, const char *name)
{
    int i = 0;
    while (i < n - 1 && strcmp(io[i].name, name))
        i++;
    return i;
}

static int unknown_size(const struct tachy_infer *s, const struct tachy_card *c, const char *state)
{
    return tachy_fail(s->st->task->log, TACHY_ERR_MISMATCH,
                      "model %s: the size of the state `%s` cannot be found by running the model on one picture; "
                      "its card must say it: \"shape\": [...] beside its name", c->name, state);
}

// If the card gives no shape: takes what the model fixes, else what a run on one picture yields.
static int take_shape(struct tachy_infer *s, const struct tachy_card *c, const tachy_engine *e, int k)
{
    const struct tachy_io *in, *out;
    int n_in = tachy_engine_inputs(e, &in), n_out = tachy_engine_outputs(e, &out);
    const struct tachy_tensor *to = &in[index_of(in, n_in, c->state[k].input)].spec,
                              *from = &out[index_of(out, n_out, c->state[k].output)].spec;
    struct tachy_tensor *spec = &s->state[k].spec;
    if (spec->rank)
        return TACHY_OK;
    *spec = *to;
    for (int a = 0; a < to->rank; a++) {
        spec->shape[a] = to->shape[a] > 0 ? to->shape[a] : from->shape[a];
        if (spec->shape[a] <= 0)
            return unknown_size(s, c, c->state[k].input);
    }
    return to->rank ? TACHY_OK : unknown_size(s, c, c->state[k].input);
}

// One run on a black picture. A network with several inputs is not run: what the others are is not known yet.
static int try_run(struct tachy_infer *s, const struct tachy_infer_net *net, tachy_engine *e)
{
    const struct tachy_io *is;
    struct infer_tensors t = {0};
    if (tachy_engine_inputs(e, &is) > 1)
        return TACHY_OK;
    int err = infer_tensors_open(s, net, e, 1, &t);
    if (err == TACHY_OK) {
        memset(t.in[0].data, 0, tachy_tensor_bytes(&t.in[0]));
        err = tachy_engine_run(e, t.in, t.out);
    }
    infer_tensors_free(&t);
    return err;
}

// Opens the model unchanged except for the picture's size.
static int look(struct tachy_infer *s, const struct tachy_infer_net *net, bool runs, const struct tachy_log *log)
{
    const struct tachy_card *c = net->card;
    struct asked a;
    struct tachy_engine_params p = ask(s, net, 1, 0, &a);
    tachy_engine *e = NULL;
    p.provider = "cpu";
    p.provider_options = NULL;
    p.precision = NULL;
    p.strict = false;
    p.log = log;
    int err = tachy_engine_open(&e, &p);
    if (err == TACHY_OK)
        err = check(c, e, log);
    for (int k = 0; k < s->nb_states && err == TACHY_OK; k++)
        err = take_shape(s, c, e, k);
    if (err == TACHY_OK && runs)
        err = try_run(s, net, e);
    tachy_engine_close(&e);
    return err;
}

bool infer_takes_size(struct tachy_infer *s, const struct tachy_infer_net *net, bool runs)
{
    return s->pretends || look(s, net, runs, NULL) == TACHY_OK;
}

int infer_find_states(struct tachy_infer *s)
{
    const struct tachy_infer_net *net = &s->net[TACHY_INFER_FULL];
    bool known = true;
    s->nb_states = s->pretends ? 0 : net->card->n_states;
    s->warm_up = net->card->warm_up;
    for (int k = 0; k < s->nb_states; k++) {
        const struct tachy_card_state *from = &net->card->state[k];
        struct tachy_infer_state *io = &s->state[k];
        io->start = from->start;
        io->spec.rank = from->rank;
        memcpy(io->spec.shape, from->shape, sizeof(io->spec.shape));
        known = known && from->rank;
    }
    const struct tachy_log *log = s->st->task->log;
    struct tachy_log errors = log ? *log : (struct tachy_log){0}; // messages about the rest will come again
    errors.max_level = TACHY_LOG_ERR;
    return known ? TACHY_OK : look(s, net, false, &errors);
}

int infer_match_states(struct tachy_infer *s)
{
    const struct tachy_log *log = s->st->task->log;
    const struct tachy_card *c = s->net[TACHY_INFER_FULL].card;
    const struct tachy_io *in, *out;
    int n_in = tachy_engine_inputs(s->net[TACHY_INFER_FULL].first, &in),
        n_out = tachy_engine_outputs(s->net[TACHY_INFER_FULL].first, &out);
    for (int k = 0; k < s->nb_states; k++) {
        struct tachy_infer_state *io = &s->state[k];
        io->in = index_of(in, n_in, c->state[k].input);
        io->out = index_of(out, n_out, c->state[k].output);
        const struct tachy_tensor *is = &in[io->in].spec;
        bool same = is->rank == io->spec.rank;
        for (int a = 0; a < is->rank && same; a++)
            same = is->shape[a] == io->spec.shape[a];
        if (!same)
            return tachy_fail(log, TACHY_ERR_MISMATCH,
                              "model %s: the state `%s` has other extents in the model than in its card's `shape`",
                              c->name, c->state[k].input);
        io->spec = *is;
        if (io->start != 0 && is->dtype != TACHY_F32)
            return tachy_fail(log, TACHY_ERR_MISMATCH,
                              "model %s: the state `%s` is %s; only float32 can have a `start`", c->name,
                              c->state[k].input, tachy_dtype_name(is->dtype));
    }
    return TACHY_OK;
}
