#include "model/card.h"

#include <stdio.h>

// Holding a loaded model against its card.

static const char *shape_text(const struct tachy_tensor *t, char buf[128])
{
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < t->rank && used < 100; i++) {
        int n = t->shape[i] < 0 ? snprintf(buf + used, 128 - used, "%s?", i ? "x" : "")
                                : snprintf(buf + used, 128 - used, "%s%lld", i ? "x" : "",
                                           (long long)t->shape[i]);
        used += (size_t)n;
    }
    return buf;
}

static void join_names(const struct tachy_io *io, int n, char *buf, size_t size)
{
    buf[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t used = strlen(buf);
        snprintf(buf + used, size - used, "%s`%s`", i ? ", " : "", io[i].name);
    }
}

// The one with this name, or the only one for "". NULL and a sentence otherwise.
static const struct tachy_io *find(const struct tachy_card *c, const char *kind, const char *name,
                                   const struct tachy_io *io, int n, const struct tachy_log *log)
{
    bool any = !name || !*name;
    if (any && n == 1)
        return io;
    for (int i = 0; i < n && !any; i++)
        if (!strcmp(io[i].name, name))
            return &io[i];
    char names[256];
    join_names(io, n, names, sizeof(names));
    if (any)
        tachy_msg(log, TACHY_LOG_ERR,
                  "model %s: has %d %ss (%s), and its card does not name one in `%s.name`", c->name,
                  n, kind, names, kind);
    else
        tachy_msg(log, TACHY_LOG_ERR, "model %s: its card names the %s `%s`, the model has %s",
                  c->name, kind, name, names);
    return NULL;
}

static bool fits(int64_t have, int64_t want) { return have < 0 || have == want; }

// True if the shape (rank 4, or 3 without a batch) is this picture in this layout.
static bool is_picture(const struct tachy_tensor *t, enum tachy_layout layout, int width,
                       int height, int channels)
{
    if (t->rank != 3 && t->rank != 4)
        return false;
    const int64_t *s = t->shape + (t->rank - 3);
    return layout == TACHY_NHWC ? fits(s[0], height) && fits(s[1], width) && fits(s[2], channels)
                                : fits(s[0], channels) && fits(s[1], height) && fits(s[2], width);
}

// `channels`: that the card says of it.
static int check_input(const struct tachy_card *c, const struct tachy_io *in, int channels, const struct tachy_log *log)
{
    static const char *const layouts[] = {"nhwc", "nchw"};
    const struct tachy_tensor *t = &in->spec;
    enum tachy_dtype dtype = TACHY_DEF(c->in.dtype, TACHY_F32);
    enum tachy_layout other = c->in.layout == TACHY_NHWC ? TACHY_NCHW : TACHY_NHWC;
    char shape[128];
    shape_text(t, shape);
    if (t->dtype != dtype)
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the input `%s` takes %s, its card says dtype %s", c->name,
                          in->name, tachy_dtype_name(t->dtype), tachy_dtype_name(dtype));
    if (t->rank == 4 && !fits(t->shape[0], 1))
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the input `%s` is %s, a fixed batch of %lld pictures; only 1 "
                          "or a free batch can be run",
                          c->name, in->name, shape, (long long)t->shape[0]);
    if (is_picture(t, c->in.layout, c->in.width, c->in.height, channels))
        return TACHY_OK;
    bool turned = is_picture(t, other, c->in.width, c->in.height, channels);
    return tachy_fail(log, TACHY_ERR_MISMATCH,
                      "model %s: the input `%s` is %s, its card says %d wide, %d high, %d channel%s, "
                      "layout %s%s%s",
                      c->name, in->name, shape, c->in.width, c->in.height, channels,
                      channels == 1 ? "" : "s", layouts[c->in.layout],
                      turned ? "; it fits as layout " : "", turned ? layouts[other] : "");
}

static int check_picture(const struct tachy_card *c, const struct tachy_io *out, const struct tachy_log *log)
{
    const struct tachy_tensor *t = &out->spec;
    char shape[128];
    if (t->dtype == TACHY_F32 && is_picture(t, c->out_layout, c->in.width, c->in.height, 3))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: the output `%s` is %s %s; a filled picture is float32, has 3 channels in "
                      "layout %s and the size of the input, %d wide and %d high", c->name, out->name, tachy_dtype_name(t->dtype),
                      shape_text(t, shape), c->out_layout == TACHY_NHWC ? "nhwc" : "nchw", c->in.width, c->in.height);
}

// A picture of rank 4 with a batch of one, or of rank 3.
static int check_output(const struct tachy_card *c, const struct tachy_io *out,
                        const struct tachy_log *log)
{
    const struct tachy_tensor *t = &out->spec;
    bool several = c->meaning == TACHY_OUT_SOFTMAX || c->meaning == TACHY_OUT_PROBABILITIES;
    bool nhwc = c->out_layout == TACHY_NHWC;
    char shape[128];
    if (c->meaning == TACHY_OUT_PICTURE)
        return check_picture(c, out, log);
    shape_text(t, shape);
    if (t->dtype != TACHY_F32 && t->dtype != TACHY_F16)
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the output `%s` is %s; masks are read from float32 or float16",
                          c->name, out->name, tachy_dtype_name(t->dtype));
    if ((t->rank != 3 && t->rank != 4) || (t->rank == 4 && !fits(t->shape[0], 1)))
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the output `%s` is %s, which is not one picture", c->name,
                          out->name, shape);
    const int64_t *s = t->shape + (t->rank - 3);
    int64_t channels = nhwc ? s[2] : s[0], h = nhwc ? s[0] : s[1], w = nhwc ? s[1] : s[2];
    char says[64] = "a single channel";
    if (several)
        snprintf(says, sizeof(says), "several, the person in channel %d", c->channel);
    if (channels >= 0 && (several ? channels <= c->channel || channels < 2 : channels != 1))
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the output `%s` is %s, %lld channel%s in layout %s; its card "
                          "says %s",
                          c->name, out->name, shape, (long long)channels, channels == 1 ? "" : "s",
                          nhwc ? "nhwc" : "nchw", says);
    if (c->out_width && (!fits(w, c->out_width) || !fits(h, c->out_height)))
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the output `%s` is %s, its card says %d wide and %d high",
                          c->name, out->name, shape, c->out_width, c->out_height);
    return TACHY_OK;
}

static int find_name(const struct tachy_io *io, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(io[i].name, name))
            return i;
    return -1;
}

// The person's own colours: three channels of the input's size.
static int check_foreground(const struct tachy_card *c, const struct tachy_io out[], int n, const struct tachy_log *log)
{
    char shape[128];
    if (!*c->foreground)
        return TACHY_OK;
    int i = find_name(out, n, c->foreground);
    if (i < 0)
        return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: its card names the output `%s` in `output.foreground`, which the "
                          "model does not have", c->name, c->foreground);
    const struct tachy_tensor *t = &out[i].spec;
    if ((t->dtype == TACHY_F32 || t->dtype == TACHY_F16) && is_picture(t, c->out_layout, c->in.width, c->in.height, 3))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: the output `%s` is %s %s; a foreground is float32 or float16, has 3 "
                      "channels in layout %s and the size of the input, %d wide and %d high", c->name, out[i].name,
                      tachy_dtype_name(t->dtype), shape_text(t, shape), c->out_layout == TACHY_NHWC ? "nhwc" : "nchw",
                      c->in.width, c->in.height);
}

// The input of this name, which must not have been claimed yet. `key`: of the card.
static const struct tachy_io *claim(const struct tachy_card *c, const char *key, const char *name,
                                    const struct tachy_io *in, int n, bool claimed[],
                                    const struct tachy_log *log)
{
    int i = find_name(in, n, name);
    if (i < 0)
        tachy_msg(log, TACHY_LOG_ERR, "model %s: its card names the input `%s` in `%s`, which the "
                  "model does not have", c->name, name, key);
    else if (claimed[i])
        tachy_msg(log, TACHY_LOG_ERR, "model %s: its card gives the input `%s` twice", c->name, name);
    if (i < 0 || claimed[i])
        return NULL;
    claimed[i] = true;
    return &in[i];
}

static bool same_extents(const struct tachy_tensor *a, const struct tachy_tensor *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] < 0 || b->shape[i] < 0 || a->shape[i] == b->shape[i];
    return same;
}

static int check_state(const struct tachy_card *c, const struct tachy_io *in,
                       const struct tachy_io *out, const struct tachy_log *log)
{
    char is[128], other[128];
    shape_text(&in->spec, is);
    shape_text(&out->spec, other);
    if (in->spec.dtype != out->spec.dtype || !same_extents(&in->spec, &out->spec))
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "model %s: the state `%s` takes %s %s, but `%s` gives %s %s", c->name,
                          in->name, tachy_dtype_name(in->spec.dtype), is, out->name,
                          tachy_dtype_name(out->spec.dtype), other);
    return TACHY_OK;
}

static int check_states(const struct tachy_card *c, const struct tachy_io *in, int n_in,
                        const struct tachy_io *out, int n_out, bool claimed[],
                        const struct tachy_log *log)
{
    int err = TACHY_OK;
    for (int i = 0; i < c->n_states && err == TACHY_OK; i++) {
        const struct tachy_card_state *s = &c->state[i];
        const struct tachy_io *to = claim(c, "state", s->input, in, n_in, claimed, log);
        int from = find_name(out, n_out, s->output);
        if (!to)
            return TACHY_ERR_MISMATCH;
        for (int k = 0; k < i; k++)
            if (!strcmp(c->state[k].output, s->output))
                return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: its card gives the output `%s` "
                                  "to two states", c->name, s->output);
        err = from < 0 ? tachy_fail(log, TACHY_ERR_MISMATCH,
                                    "model %s: its card names the output `%s` in `state`, which the "
                                    "model does not have", c->name, s->output)
                       : check_state(c, to, &out[from], log);
    }
    return err;
}

static int check_constants(const struct tachy_card *c, const struct tachy_io *in, int n_in,
                           bool claimed[], const struct tachy_log *log)
{
    for (int i = 0; i < c->n_constants; i++) {
        const struct tachy_card_constant *k = &c->constant[i];
        const struct tachy_io *to = claim(c, "constants", k->input, in, n_in, claimed, log);
        char shape[128];
        if (!to)
            return TACHY_ERR_MISMATCH;
        int64_t n = 1;
        for (int e = 0; e < to->spec.rank; e++)
            n *= to->spec.shape[e] < 0 ? 1 : to->spec.shape[e];
        if (to->spec.dtype != TACHY_F32)
            return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: the constant `%s` is %s; only "
                              "float32 can be given", c->name, k->input,
                              tachy_dtype_name(to->spec.dtype));
        if (k->n != 1 && k->n != n)
            return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: the input `%s` is %s, but its card "
                              "gives %d numbers in `constants`", c->name, k->input,
                              shape_text(&to->spec, shape), k->n);
    }
    return TACHY_OK;
}

int tachy_card_check(const struct tachy_card *card, const struct tachy_io *in, int n_in,
                     const struct tachy_io *out, int n_out, const struct tachy_log *log)
{
    bool claimed[TACHY_MAX_IO] = {false};
    const struct tachy_io *picture = find(card, "input", card->input, in, n_in, log);
    bool mask = !card->n_decoders; // what decoders read they check when they are opened
    const struct tachy_io *result =
        picture && mask ? find(card, "output", card->output, out, n_out, log) : NULL;
    if (!picture || (mask && !result))
        return TACHY_ERR_MISMATCH;
    claimed[picture - in] = true;
    const struct tachy_io *plate = *card->plate ? claim(card, "input.plate", card->plate, in, n_in, claimed, log) : NULL;
    const struct tachy_io *hole = *card->hole ? claim(card, "input.hole", card->hole, in, n_in, claimed, log) : NULL;
    if ((*card->plate && !plate) || (*card->hole && !hole))
        return TACHY_ERR_MISMATCH;
    int err = check_states(card, in, n_in, out, n_out, claimed, log);
    if (err == TACHY_OK)
        err = check_constants(card, in, n_in, claimed, log);
    for (int i = 0; i < n_in && err == TACHY_OK; i++)
        if (!claimed[i])
            err = tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: its card says nothing of the input "
                             "`%s`; it must be in `input`, `state` or `constants`", card->name,
                             in[i].name);
    int channels = card->in.channels == TACHY_LUMA ? 1 : 3;
    if (err == TACHY_OK)
        err = check_input(card, picture, channels, log);
    if (err == TACHY_OK && plate)
        err = check_input(card, plate, channels, log);
    if (err == TACHY_OK && hole)
        err = check_input(card, hole, 1, log);
    if (err == TACHY_OK && mask)
        err = check_output(card, result, log);
    return err < 0 || !mask ? err : check_foreground(card, out, n_out, log);
}
