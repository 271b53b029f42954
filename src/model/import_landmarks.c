#include "model/flex.h"
#include "model/import.h"

#include "base/base.h"

#include <math.h>

// MediaPipe's operators of networks that look at parts of a face a second time: a transform that crops around some of the
// points found, the crop, and points brought back. (mediapipe/util/tflite/operations, version 2 of each.) In ONNX they are
// arithmetic on a few numbers, a GridSample and products of matrices.

enum { MAX_SUBSET = 512 };

static int binary(struct onnx_graph *g, const char *op, int a, int b)
{
    struct onnx_shape s = g->values[a].shape;
    const struct onnx_shape *other = &g->values[b].shape;
    for (int i = 0; i < s.rank && other->rank == s.rank; i++)
        s.dim[i] = TACHY_MAX(s.dim[i], other->dim[i]);
    return onnx_add(g, op, 2, (int[]){a, b}, ONNX_FLOAT, &s);
}

static int times(struct onnx_graph *g, int a, float by) { return binary(g, "Mul", a, onnx_float(g, by)); }

// Operands are made one after the other, so that a file has the same bytes whichever compiler built this.
static int products(struct onnx_graph *g, const char *op, int a, int b, int c, int d)
{
    int left = binary(g, "Mul", a, b), right = binary(g, "Mul", c, d);
    return binary(g, op, left, right);
}

static int scaled(struct onnx_graph *g, const char *op, int a, float by_a, int b, float by_b)
{
    int left = times(g, a, by_a), right = times(g, b, by_b);
    return binary(g, op, left, right);
}

// Elements from..end - 1 of one axis.
static int part(struct onnx_graph *g, int x, int axis, int64_t from, int64_t end)
{
    struct onnx_shape s = g->values[x].shape;
    s.dim[axis] = end - from;
    int first = onnx_ints(g, 1, &from), last = onnx_ints(g, 1, &end), along = onnx_ints(g, 1, (int64_t[]){axis});
    return onnx_add(g, "Slice", 4, (int[]){x, first, last, along}, ONNX_FLOAT, &s);
}

// Points by number: [1][n][1] of one coordinate.
static int pick(struct onnx_graph *g, int x, int n, const int64_t *which, int coordinate)
{
    int64_t depth = g->values[x].shape.dim[2];
    int by = onnx_ints(g, n, which);
    int some = onnx_add(g, "Gather", 2, (int[]){x, by}, ONNX_FLOAT, &(struct onnx_shape){3, {1, n, depth}});
    onnx_set_int(onnx_maker(g, some), "axis", 1);
    return part(g, some, 2, coordinate, coordinate + 1);
}

static int reduce(struct onnx_graph *g, const char *op, int x)
{
    int y = onnx_add(g, op, 1, &x, ONNX_FLOAT, &(struct onnx_shape){3, {1, 1, 1}});
    onnx_set_ints(onnx_maker(g, y), "axes", 1, (int64_t[]){1});
    return y;
}

struct crop {
    int64_t subset[MAX_SUBSET], left, right;
    int n;
    double width, height, scale_x, scale_y, target;
};

static bool read_crop(const struct import *im, int64_t points, struct crop *c)
{
    struct flex_map m;
    if (!flex_open(&m, im->op->raw, im->op->raw_size))
        return false;
    double left = flex_number(&m, "left_rotation_idx", -1), right = flex_number(&m, "right_rotation_idx", -1);
    c->width = flex_number(&m, "output_width", 0);
    c->height = flex_number(&m, "output_height", 0);
    c->scale_x = flex_number(&m, "scale_x", 0);
    c->scale_y = flex_number(&m, "scale_y", 0);
    c->target = flex_number(&m, "target_rotation_radians", 0);
    c->n = flex_ints(&m, "subset_idxs", c->subset, MAX_SUBSET);
    bool good = c->n > 0 && left >= 0 && left < (double)points && right >= 0 && right < (double)points && isfinite(c->target) &&
                c->width >= 1 && c->width <= 65536 && c->height >= 1 && c->height <= 65536 && c->scale_x > 0 && c->scale_y > 0;
    for (int i = 0; i < c->n; i++)
        good = good && c->subset[i] >= 0 && c->subset[i] < points;
    c->left = good ? (int64_t)left : 0;
    c->right = good ? (int64_t)right : 0;
    return good;
}

// Cosine and sine of the angle that brings the line from left to right to the target's direction.
static void angle(struct onnx_graph *g, int x, const struct crop *c, int *cosine, int *sine)
{
    int right_x = pick(g, x, 1, &c->right, 0), left_x = pick(g, x, 1, &c->left, 0), dx = binary(g, "Sub", right_x, left_x);
    int right_y = pick(g, x, 1, &c->right, 1), left_y = pick(g, x, 1, &c->left, 1), dy = binary(g, "Sub", right_y, left_y);
    int squares = products(g, "Add", dx, dx, dy, dy);
    int size = onnx_unary(g, "Sqrt", binary(g, "Max", squares, onnx_float(g, 1e-20f)));
    int along = binary(g, "Div", dx, size), down = binary(g, "Div", dy, size);
    float ct = (float)cos(c->target), st = (float)sin(c->target);
    *cosine = scaled(g, "Add", along, ct, down, st);
    *sine = scaled(g, "Sub", along, st, down, ct);
}

// Rows of the matrix from the crop's pixels to the points' plane: shift to the middle, turn back, scale, centre.
static int matrix(struct onnx_graph *g, int x, const struct crop *c)
{
    int co, si;
    angle(g, x, c, &co, &si);
    int px = pick(g, x, c->n, c->subset, 0), py = pick(g, x, c->n, c->subset, 1);
    int tx = products(g, "Sub", px, co, py, si);
    int ty = products(g, "Add", px, si, py, co);
    int x1 = reduce(g, "ReduceMax", tx), x0 = reduce(g, "ReduceMin", tx);
    int y1 = reduce(g, "ReduceMax", ty), y0 = reduce(g, "ReduceMin", ty);
    int mx = times(g, binary(g, "Add", x0, x1), 0.5f), my = times(g, binary(g, "Add", y0, y1), 0.5f);
    int sx = times(g, binary(g, "Sub", x1, x0), (float)(c->scale_x / c->width));
    int sy = times(g, binary(g, "Sub", y1, y0), (float)(c->scale_y / c->height));
    int a = binary(g, "Mul", co, sx), b = binary(g, "Mul", si, sy);
    int d = times(g, binary(g, "Mul", si, sx), -1), e = binary(g, "Mul", co, sy);
    float w = (float)(c->width / 2), h = (float)(c->height / 2);
    int cx = products(g, "Add", mx, co, my, si);
    int cy = products(g, "Sub", my, co, mx, si);
    int tx0 = binary(g, "Sub", cx, scaled(g, "Add", a, w, b, h));
    int ty0 = binary(g, "Sub", cy, scaled(g, "Add", d, w, e, h));
    int none = times(g, co, 0), one = binary(g, "Add", none, onnx_float(g, 1));
    int all[16] = {a, b, none, tx0, d, e, none, ty0, none, none, one, none, none, none, none, one};
    int y = onnx_add(g, "Concat", 16, all, ONNX_FLOAT, &(struct onnx_shape){3, {1, 16, 1}});
    onnx_set_int(onnx_maker(g, y), "axis", 1);
    return onnx_reshape(g, y, &(struct onnx_shape){3, {1, 4, 4}});
}

int import_landmarks_matrix(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    struct crop c;
    if (!x || x->rank != 3 || x->shape[0] != 1 || x->shape[2] != 3 || import_dtype(x) != ONNX_FLOAT)
        return import_unsupported(im, "its input is not one list of points x, y, z");
    if (!read_crop(im, x->shape[1], &c))
        return import_damaged(im, "its options are missing or out of range");
    int v = import_get(im, 0, IMPORT_NATIVE);
    return import_set(im, 0, IMPORT_NATIVE, v ? matrix(im->g, v, &c) : 0);
}

static bool is_matrix(const struct tflite_tensor *m)
{
    return m && m->rank == 3 && m->shape[0] == 1 && m->shape[1] == 4 && m->shape[2] == 4 && import_dtype(m) == ONNX_FLOAT;
}

// The centres of a crop's pixels as columns x, y, 1; a matrix's row for x and y takes them to the picture.
static int centres(struct onnx_graph *g, int64_t w, int64_t h)
{
    int v = onnx_const(g, ONNX_FLOAT, &(struct onnx_shape){2, {3, h * w}});
    float *p = v ? g->values[v].data : NULL;
    for (int64_t i = 0; p && i < h * w; i++) {
        p[i] = (float)(i % w) + 0.5f;
        p[h * w + i] = (float)(i / w) + 0.5f;
        p[2 * h * w + i] = 1;
    }
    return v;
}

// The crop is 0 where a position leaves the picture: the position is moved far away, where GridSample finds only zeros.
static int far_outside(struct onnx_graph *g, int at, float most)
{
    struct onnx_shape s = g->values[at].shape;
    int least = onnx_float(g, 0), top = onnx_float(g, most);
    int inside = onnx_add(g, "Clip", 3, (int[]){at, least, top}, ONNX_FLOAT, &s);
    return binary(g, "Add", at, times(g, binary(g, "Sub", at, inside), 1e4f));
}

int import_transform_bilinear(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *m = import_tensor(im, 1);
    struct flex_map options;
    struct onnx_graph *g = im->g;
    if (!x || x->rank != 4 || x->shape[0] != 1 || import_dtype(x) != ONNX_FLOAT || x->shape[1] < 2 || x->shape[2] < 2 ||
        !is_matrix(m) || !flex_open(&options, im->op->raw, im->op->raw_size))
        return import_unsupported(im, "its inputs are not one picture and one matrix");
    double w = flex_number(&options, "output_width", 0), h = flex_number(&options, "output_height", 0);
    if (!(w >= 1 && w <= 4096 && h >= 1 && h <= 4096))
        return import_damaged(im, "its size is out of range");
    int64_t cols = (int64_t)w, rows = (int64_t)h, cells = rows * cols;
    int in = import_get(im, 0, IMPORT_PLANAR), by = import_get(im, 1, IMPORT_NATIVE);
    int two = part(g, by, 1, 0, 2), axes = part(g, two, 2, 0, 2), shift = part(g, two, 2, 3, 4);
    int joined = onnx_add(g, "Concat", 2, (int[]){axes, shift}, ONNX_FLOAT, &(struct onnx_shape){3, {1, 2, 3}});
    onnx_set_int(onnx_maker(g, joined), "axis", 2);
    int at = onnx_add(g, "MatMul", 2, (int[]){joined, centres(g, cols, rows)}, ONNX_FLOAT, &(struct onnx_shape){3, {1, 2, cells}});
    int axis[2];
    for (int k = 0; k < 2; k++) { // to -1..1 from the first element's centre to the last's
        float most = (float)(x->shape[k ? 1 : 2] - 1);
        int pixel = part(g, at, 1, k, k + 1), place = binary(g, "Sub", pixel, onnx_float(g, 0.5f));
        int span = times(g, far_outside(g, place, most), 2 / most);
        axis[k] = binary(g, "Sub", span, onnx_float(g, 1));
    }
    int both = onnx_add(g, "Concat", 2, axis, ONNX_FLOAT, &(struct onnx_shape){3, {1, 2, cells}});
    onnx_set_int(onnx_maker(g, both), "axis", 1);
    int grid = onnx_reshape(g, onnx_transpose(g, both, (int[]){0, 2, 1}), &(struct onnx_shape){4, {1, rows, cols, 2}});
    int y = onnx_add(g, "GridSample", 2, (int[]){in, grid}, ONNX_FLOAT, &(struct onnx_shape){4, {1, x->shape[3], rows, cols}});
    onnx_set_string(onnx_maker(g, y), "mode", "bilinear");
    onnx_set_string(onnx_maker(g, y), "padding_mode", "zeros");
    onnx_set_int(onnx_maker(g, y), "align_corners", 1);
    return import_set(im, 0, IMPORT_PLANAR, y);
}

int import_transform_landmarks(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    struct onnx_graph *g = im->g;
    if (!x || x->rank != 3 || x->shape[0] != 1 || x->shape[2] != 2 || import_dtype(x) != ONNX_FLOAT || !is_matrix(import_tensor(im, 1)))
        return import_unsupported(im, "its inputs are not one list of points x, y and one matrix");
    int v = import_get(im, 0, IMPORT_NATIVE), two = part(g, import_get(im, 1, IMPORT_NATIVE), 1, 0, 2);
    int axes = onnx_transpose(g, part(g, two, 2, 0, 2), (int[]){0, 2, 1});
    int shift = onnx_transpose(g, part(g, two, 2, 3, 4), (int[]){0, 2, 1});
    struct onnx_shape s = import_shape(x);
    int turned = onnx_add(g, "MatMul", 2, (int[]){v, axes}, ONNX_FLOAT, &s);
    return import_set(im, 0, IMPORT_NATIVE, binary(g, "Add", turned, shift));
}
