#include "base/base.h"
#include "provider/read_windows.h"

// Operators that sample pictures between their pixels.

static bool resize_modes(struct reader_node *n, struct tachy_plan_attr *a)
{
    static const char *const coords[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    static const char *const rounds[] = {"round_prefer_floor", "floor", "round_prefer_ceil", "ceil"};
    char text[40];
    bool mode = reader_string(n, "mode", text, sizeof(text)) && *text;
    if (mode && strcmp(text, "nearest") && strcmp(text, "linear") && strcmp(text, "cubic"))
        return false;
    a->resize.mode = mode && !strcmp(text, "linear")  ? TACHY_PLAN_LINEAR
                     : mode && !strcmp(text, "cubic") ? TACHY_PLAN_CUBIC
                                                      : TACHY_PLAN_NEAREST;
    a->resize.cubic = reader_float(n, "cubic_coeff_a", -0.75f);
    a->resize.exclude = reader_int(n, "exclude_outside", 0);
    int found = n->since < 11 ? TACHY_PLAN_ASYMMETRIC : TACHY_PLAN_HALF_PIXEL;
    if (reader_string(n, "coordinate_transformation_mode", text, sizeof(text)) && *text) {
        found = -1;
        for (int i = 0; i < 4; i++)
            found = strcmp(text, coords[i]) ? found : i;
    }
    a->resize.coords = (enum tachy_plan_coords)TACHY_MAX(found, 0);
    a->resize.round = n->since < 11 ? 1 : 0;
    if (reader_string(n, "nearest_mode", text, sizeof(text)) && *text)
        for (int i = 0; i < 4; i++)
            a->resize.round = strcmp(text, rounds[i]) ? a->resize.round : i;
    if (reader_string(n, "keep_aspect_ratio_policy", text, sizeof(text)) && *text && strcmp(text, "stretch"))
        return false;
    return found >= 0 && !reader_int(n, "antialias", 0) &&
           (!a->resize.exclude || a->resize.mode == TACHY_PLAN_CUBIC);
}

// Scales of the last two dimensions, or one if only one is resized; 1 for the others. -1: none given, -2: something
// else.
static int scales_of(const struct reader_node *n, int at, int dims, float *to)
{
    float given[TACHY_MAX_RANK];
    int64_t axes[TACHY_MAX_RANK];
    const struct tachy_value *x = n->in[0];
    int nb_axes = reader_ints(n, "axes", axes, TACHY_MAX_RANK), count = reader_const_floats(n, at, given, TACHY_MAX_RANK);
    if (reader_in(n, at) && count < 0)
        return -2;
    if (count < 1)
        return -1;
    if (count != (nb_axes > 0 ? nb_axes : x->rank))
        return -2;
    for (int i = 0; i < count; i++) {
        int axis = i;
        if (nb_axes > 0 && !reader_axis(axes[i], x->rank, &axis))
            return -2;
        if (axis >= x->rank - dims)
            to[axis - (x->rank - dims)] = given[i];
        else if (given[i] != 1)
            return -2;
    }
    return count;
}

// One dimension of pixels is a picture of one row.
const char *reader_resize(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    struct tachy_value *x = n->in[0], *y = n->out[0], *in = x, *out = y;
    int at = n->since < 11 ? 1 : 2, dims = x->rank - 2;
    float scale[WINDOW_AXES] = {1, 1, 1};
    if (dims < 1 || dims > WINDOW_AXES || y->rank != x->rank || !resize_modes(n, &a))
        return READER_ATTRIBUTE;
    for (int i = 0; i < dims; i++)
        scale[WINDOW_AXES - dims + i] = (float)y->shape[2 + i] / (float)x->shape[2 + i];
    // Without sizes the scales count, also if they do not divide.
    int given = scales_of(n, at, dims, scale + WINDOW_AXES - dims);
    if (given == -2 || (given == -1 && reader_in(n, at) && tachy_value_elements(n->in[at]) != 0 && !reader_in(n, 3)))
        return "scales that are not constant, or of other dimensions";
    memcpy(a.resize.scale, scale + 1, sizeof(a.resize.scale));
    if (dims == 3)
        return a.resize.mode == TACHY_PLAN_CUBIC ? READER_ATTRIBUTE : reader_volume_resize(n, &a, scale[0]);
    if (dims == 1) {
        in = reader_temp(n, 4, (int64_t[]){x->shape[0], x->shape[1], 1, x->shape[2]});
        out = reader_temp(n, 4, (int64_t[]){y->shape[0], y->shape[1], 1, y->shape[2]});
        if (!in || !out || !reader_emit(n, TACHY_OP_RESHAPE, NULL, &x, 1, in))
            return READER_NOMEM;
    }
    if (!reader_emit(n, TACHY_OP_RESIZE, &a, &in, 1, out))
        return READER_NOMEM;
    return out == y || reader_emit(n, TACHY_OP_RESHAPE, NULL, &out, 1, y) ? NULL : READER_NOMEM;
}

const char *reader_grid_sample(struct reader_node *n)
{
    static const struct {
        const char *name;
        enum tachy_plan_resize mode;
    } modes[] = {{"bilinear", TACHY_PLAN_LINEAR}, {"linear", TACHY_PLAN_LINEAR}, {"nearest", TACHY_PLAN_NEAREST},
                 {"bicubic", TACHY_PLAN_CUBIC},   {"cubic", TACHY_PLAN_CUBIC}};
    static const char *const outsides[] = {"zeros", "border", "reflection"};
    struct tachy_plan_attr a = {.grid = {TACHY_PLAN_LINEAR, TACHY_PLAN_ZEROS, false}};
    char text[16];
    bool known = true;
    if (reader_string(n, "mode", text, sizeof(text)) && *text) {
        known = false;
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(modes); i++)
            if (!strcmp(text, modes[i].name)) {
                a.grid.mode = modes[i].mode;
                known = true;
            }
    }
    if (known && reader_string(n, "padding_mode", text, sizeof(text)) && *text) {
        known = false;
        for (int i = 0; i < 3; i++)
            if (!strcmp(text, outsides[i])) {
                a.grid.outside = (enum tachy_plan_outside)i;
                known = true;
            }
    }
    a.grid.align_corners = reader_int(n, "align_corners", 0);
    if (!known || !reader_in(n, 1))
        return READER_ATTRIBUTE;
    return reader_emit(n, TACHY_OP_GRID_SAMPLE, &a, n->in, 2, n->out[0]) ? NULL : READER_NOMEM;
}
