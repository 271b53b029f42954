#include "model/card.h"

#include <stdlib.h>

// A card skeleton from the contents of a model's file. Facts that it lacks stay open: loading such a card fails with
// the question to answer.

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// "selfie_segmentation" of "/x/Selfie segmentation.onnx": a card's name is plain and lower case.
static char *stem(const char *path)
{
    char *s = tachy_asprintf("%s", base_name(path));
    char *dot = s ? strrchr(s, '.') : NULL;
    if (dot && dot != s)
        *dot = '\0';
    for (char *p = s; p && *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        bool plain = letter || (*p >= '0' && *p <= '9') || (p > s && strchr("._-", *p));
        *p = !plain ? '_' : letter ? (char)(*p | 32) : *p;
    }
    if (s && *s == '_')
        *s = 'm';
    return s;
}

// The file's name; a plain one if the card may not have that.
static json_t *file_json(const char *path, const char *name)
{
    const char *base = base_name(path);
    bool plain = !base[strspn(base, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-")] && base[0] != '.';
    return plain ? json_string(base) : json_sprintf("%s.onnx", name);
}

static bool few(int64_t channels, int most) { return channels >= 1 && channels <= most; }

// Channels of a picture (with its batch), whose position tells the layout; 0: it is not a picture with at most that
// many.
static int64_t picture(const struct tachy_tensor *t, int most, const char **layout)
{
    const int64_t *s = t->shape + 1;
    bool first = t->rank == 4 && few(s[0], most) && !few(s[1], most) && !few(s[2], most);
    bool last = t->rank == 4 && few(s[2], most) && !few(s[0], most) && !few(s[1], most);
    *layout = first ? "nchw" : last ? "nhwc" : "";
    return first ? s[0] : last ? s[2] : 0;
}

static json_t *open_or(int64_t extent) { return extent > 0 ? json_integer(extent) : json_null(); }

static json_t *input_json(const struct tachy_io *io)
{
    const char *layout;
    int64_t channels = picture(&io->spec, 3, &layout);
    const int64_t *s = io->spec.shape + 1;
    bool nchw = !strcmp(layout, "nchw"), bytes = io->spec.dtype == TACHY_U8;
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:o}", "name", io->name, "width",
                     *layout ? open_or(s[nchw ? 2 : 1]) : json_null(), "height",
                     *layout ? open_or(s[nchw ? 1 : 0]) : json_null(), "layout", layout, "channels",
                     channels == 1 ? "luma" : "", "dtype", tachy_dtype_name(io->spec.dtype), "batch",
                     io->spec.rank == 4 && io->spec.shape[0] < 0 ? "free" : "one", "fit", "stretch", "scale",
                     bytes ? json_real(1) : json_null());
}

// The output that may be a mask: the picture with the fewest channels, at most two. -1: none.
static int mask_of(const struct tachy_io out[], int n)
{
    const char *layout;
    int best = -1;
    int64_t least = 3;
    for (int i = 0; i < n; i++) {
        int64_t channels = picture(&out[i].spec, 2, &layout);
        if (channels && channels < least) {
            least = channels;
            best = i;
        }
    }
    return best;
}

static void put_outputs(json_t *card, const struct tachy_io out[], int n)
{
    const char *layout;
    int mask = mask_of(out, n);
    if (mask >= 0) {
        bool two = picture(&out[mask].spec, 2, &layout) == 2;
        json_object_set_new(card, "output", json_pack("{s:s, s:s, s:s}", "name", out[mask].name, "meaning", "", "layout", layout));
        if (two)
            json_object_set_new(json_object_get(card, "output"), "channel", json_null());
        return;
    }
    json_t *list = json_array();
    for (int i = 0; i < n && i < TACHY_MAX_DECODERS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", out[i].name, "meaning", ""));
    json_object_set_new(card, "outputs", list);
}

// Writes the first input that is a picture; the values of the others are left open.
static void put_inputs(json_t *card, const struct tachy_io in[], int n)
{
    const char *layout;
    int at = 0;
    json_t *others = json_object();
    for (int i = n - 1; i >= 0; i--)
        at = picture(&in[i].spec, 3, &layout) ? i : at;
    for (int i = 0; i < n; i++)
        if (i != at)
            json_object_set_new(others, in[i].name, json_null());
    json_object_set_new(card, "input", input_json(&in[at]));
    if (json_object_size(others))
        json_object_set(card, "constants", others);
    json_decref(others);
}

int tachy_model_skeleton(char **json, const char *onnx_path, const struct tachy_io *in, int nb_in,
                         const struct tachy_io *out, int nb_out, const struct tachy_log *log)
{
    char sha256[65], *name;
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(log, json && onnx_path && in && nb_in > 0 && out && nb_out > 0))
        return TACHY_ERR_INVAL;
    int err = tachy_sha256_file(onnx_path, sha256, log);
    if (err < 0)
        return err;
    name = stem(onnx_path);
    json_t *card = name ? json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:s}", "version", 1, "name", name, "title", name,
                                    "task", "", "network", "", "license", "", "file", file_json(onnx_path, name), "sha256", sha256)
                        : NULL;
    if (card) {
        put_inputs(card, in, nb_in);
        put_outputs(card, out, nb_out);
        *json = json_dumps(card, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    }
    json_decref(card);
    free(name);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}
