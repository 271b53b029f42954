#include "stage/infer_priv.h"

// The smaller network that a card names, for mode live and for parts of a frame: kept ready beside the full one, so
// that frames switch between them without waiting.

// The reason why the two cannot take turns; NULL: none.
static const char *unfit(const struct tachy_card *full, const struct tachy_card *small)
{
    if (strcmp(small->task, full->task))
        return "is no model of this task";
    if (small->n_states || full->n_states)
        return "and the full one would not share a state";
    if (full->in.fit == TACHY_FIT_CROP || small->in.fit == TACHY_FIT_CROP)
        return "would see another part of the picture (fit crop)";
    if ((int64_t)small->in.width * small->in.height >= (int64_t)full->in.width * full->in.height)
        return "sees no smaller picture";
    return NULL;
}

void infer_resize_card(struct tachy_infer_net *net, const struct tachy_card *from, int width, int height)
{
    net->own = *from;
    net->own.in.width = width;
    net->own.in.height = height;
    net->own.out_width = from->out_width * width / from->in.width;
    net->own.out_height = from->out_height * height / from->in.height;
    net->card = &net->own;
}

// The same model with the extents that its card names.
static int same_model(struct tachy_infer_net *net, const struct tachy_card *full)
{
    infer_resize_card(net, full, full->smaller_width, full->smaller_height);
    return TACHY_OK;
}

static void say_absent(const struct tachy_infer *in, const struct tachy_card *full, int err)
{
    tachy_msg(in->st->task->log, TACHY_LOG_INFO, "the smaller model %s cannot be read (%s), so %s is the only one; `tachy model pull %s` gets it",
              full->smaller, tachy_err_text(err), full->name, full->smaller);
}

static int other_model(const struct tachy_infer *in, struct tachy_infer_net *net, const struct tachy_card *full)
{
    struct tachy_model_params p = {.name = full->smaller, .dir = in->model_dir}; // told below
    int err = tachy_model_open(&net->model, &p);
    if (err < 0) {
        say_absent(in, full, err);
        return err;
    }
    net->card = tachy_model_card(net->model);
    return TACHY_OK;
}

static int open_net(const struct tachy_infer *in, struct tachy_infer_net *net, const struct tachy_card *full)
{
    int err = *full->smaller ? other_model(in, net, full) : same_model(net, full);
    if (err < 0)
        return err;
    const char *why = unfit(full, net->card);
    if (why) {
        tachy_msg(in->st->task->log, TACHY_LOG_WARN, "the smaller input of model %s %s; it is not used", full->name, why);
        return TACHY_ERR_MISMATCH;
    }
    err = infer_open_engine(in, net, 1, 0, &net->first); // which tells what fails
    return err < 0 ? err : infer_net_describe(in, net);
}

// True if there is one. It is opened once.
static bool open_small(struct tachy_infer *in)
{
    struct tachy_infer_net *net = &in->net[TACHY_INFER_SMALL];
    const struct tachy_card *full = in->net[TACHY_INFER_FULL].card;
    if (net->card)
        return true;
    if (!*full->smaller && !full->smaller_width)
        return false;
    if (open_net(in, net, full) == TACHY_OK) {
        in->st->task->model[TACHY_INFER_SMALL].name = net->card->name;
        return true;
    }
    infer_net_free(net);
    return false;
}

static unsigned degrades(struct tachy_infer *in)
{
    if (!open_small(in))
        return 0;
    const struct tachy_card *full = in->net[TACHY_INFER_FULL].card, *small = in->net[TACHY_INFER_SMALL].card;
    tachy_msg(in->st->task->log, TACHY_LOG_VERBOSE, "live: %s %dx%d is held ready beside %s %dx%d", small->name,
              small->in.width, small->in.height, full->name, full->in.width, full->in.height);
    return 1u << TACHY_DEGRADE_SMALL_INPUT;
}

unsigned tachy_task_degrades(tachy_task *t)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (t->stage[i]->ops == &tachy_stage_preprocess || t->stage[i]->ops == &tachy_stage_preprocess_cuda)
            return degrades(tachy_stage_priv(t->stage[i]));
    return 0;
}

void infer_open_by_shape(struct tachy_infer *in)
{
    const struct tachy_card *full = in->net[TACHY_INFER_FULL].card;
    in->by_shape = *full->smaller && open_small(in);
    if (in->by_shape)
        tachy_msg(in->st->task->log, in->automatic ? TACHY_LOG_INFO : TACHY_LOG_VERBOSE,
                  "%s sees what has the shape of its input, %s the rest (--model %s: that alone)",
                  in->net[TACHY_INFER_SMALL].card->name, full->name, full->name);
    else if (in->automatic && !*full->smaller) // else open_small() has said it
        tachy_msg(in->st->task->log, TACHY_LOG_INFO, "the model is %s, the only one for this that is installed", full->name);
}

// ---- --fast-mode

// Half of it as a multiple of 32, which most networks need.
static int half(int extent) { return TACHY_MAX((extent / 2 + 16) / 32 * 32, 32); }

static int take_smaller_model(struct tachy_infer *in, const tachy_settings *set)
{
    const struct tachy_card *full = in->net[TACHY_INFER_FULL].card;
    const struct tachy_log *log = in->st->task->log;
    struct tachy_infer small = {0};
    int err = infer_open_model(&small, in->st, full->smaller, NULL, set, NULL);
    const struct tachy_card *card = small.net[TACHY_INFER_FULL].card;
    bool fits = err == TACHY_OK && !strcmp(card->task, full->task);
    if (fits)
        tachy_msg(log, TACHY_LOG_INFO, "--fast-mode: model %s in place of %s", card->name, full->name);
    else if (err == TACHY_OK)
        tachy_msg(log, TACHY_LOG_WARN, "--fast-mode: %s, which the card of %s names, is no model of task %s; it is not used", card->name,
                  full->name, full->task);
    else
        say_absent(in, full, err);
    infer_free(fits ? in : &small);
    if (fits)
        *in = small;
    return err == TACHY_ERR_NOMEM ? err : TACHY_OK;
}

int infer_choose_fast(struct tachy_infer *in, const tachy_settings *set)
{
    struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    const struct tachy_card *full = net->card;
    const struct tachy_log *log = in->st->task->log;
    int w = TACHY_DEF(full->smaller_width, half(full->in.width)), h = TACHY_DEF(full->smaller_height, half(full->in.height));
    if (!tachy_settings_bool(set, "curate.fast_mode") || tachy_settings_is_set(set, "model.input_size"))
        return TACHY_OK;
    if (*full->smaller)
        return take_smaller_model(in, set);
    // Other networks of the card take what this one makes of a picture of the full size.
    bool alone = !*full->prompts.file && !*full->memory.encoder;
    infer_resize_card(net, full, w, h);
    if (alone && (int64_t)w * h < (int64_t)full->in.width * full->in.height && infer_takes_size(in, net, true)) {
        tachy_msg(log, TACHY_LOG_INFO, "--fast-mode: model %s sees pictures of %dx%d, not of %dx%d", full->name, w, h, full->in.width,
                  full->in.height);
        return TACHY_OK;
    }
    net->card = full;
    tachy_msg(log, TACHY_LOG_INFO, "--fast-mode: model %s takes pictures of %dx%d only", full->name, full->in.width, full->in.height);
    return TACHY_OK;
}
