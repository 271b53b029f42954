#include "animate/keypoints.h"

#include <math.h>

// ---- What the motion network says

float tachy_keypoints_angle(const float bins[TACHY_ANGLE_BINS])
{
    double most = bins[0], sum = 0, mean = 0;
    for (int i = 1; i < TACHY_ANGLE_BINS; i++)
        most = TACHY_MAX(most, (double)bins[i]);
    for (int i = 0; i < TACHY_ANGLE_BINS; i++) {
        double share = exp(bins[i] - most);
        sum += share;
        mean += share * i;
    }
    return (float)((mean / sum * 3 - 97.5) * 3.14159265358979323846 / 180);
}

static void times(float to[3][3], float a[3][3], float b[3][3], bool b_turned_back)
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            to[i][j] = 0;
            for (int k = 0; k < 3; k++)
                to[i][j] += a[i][k] * (b_turned_back ? b[j][k] : b[k][j]);
        }
}

void tachy_keypoints_turn(struct tachy_keypoints *k, float pitch, float yaw, float roll)
{
    float x[3][3] = {{1, 0, 0}, {0, cosf(pitch), -sinf(pitch)}, {0, sinf(pitch), cosf(pitch)}};
    float y[3][3] = {{cosf(yaw), 0, sinf(yaw)}, {0, 1, 0}, {-sinf(yaw), 0, cosf(yaw)}};
    float z[3][3] = {{cosf(roll), -sinf(roll), 0}, {sinf(roll), cosf(roll), 0}, {0, 0, 1}};
    float zy[3][3], zyx[3][3];
    times(zy, z, y, false);
    times(zyx, zy, x, false);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            k->turn[i][j] = zyx[j][i];
}

void tachy_keypoints_place(const struct tachy_keypoints *k, float at[TACHY_KEYPOINTS][3])
{
    for (int i = 0; i < TACHY_KEYPOINTS; i++)
        for (int c = 0; c < 3; c++) {
            float v = k->expression[i][c];
            for (int j = 0; j < 3; j++)
                v += k->canonical[i][j] * k->turn[j][c];
            at[i][c] = k->scale * v + (c < 2 ? k->shift[c] : 0);
        }
}

// The rotation `part` of the way from none to `turn`, about the same axis.
static void turn_partly(float turn[3][3], float part)
{
    double v[3] = {(double)turn[2][1] - turn[1][2], (double)turn[0][2] - turn[2][0], (double)turn[1][0] - turn[0][1]};
    double sine = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) / 2, cosine = ((double)turn[0][0] + turn[1][1] + turn[2][2] - 1) / 2;
    double angle = atan2(sine, cosine) * part, c = cos(angle), s = sin(angle);
    if (part == 1 || sine < 1e-9)
        return;
    double a[3] = {v[0] / (2 * sine), v[1] / (2 * sine), v[2] / (2 * sine)};
    double cross[3][3] = {{0, -a[2], a[1]}, {a[2], 0, -a[0]}, {-a[1], a[0], 0}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            turn[i][j] = (float)((i == j) * c + (1 - c) * a[i] * a[j] + s * cross[i][j]); // Rodrigues
}

void tachy_keypoints_drive(const struct tachy_keypoints *portrait, const struct tachy_keypoints *rest, const struct tachy_keypoints *now,
                           const struct tachy_face_strength *strength, float at[TACHY_KEYPOINTS][3])
{
    struct tachy_keypoints k = *portrait;
    float turned[3][3];
    float from[3][3], to[3][3], own[3][3];
    memcpy(from, rest->turn, sizeof(from));
    memcpy(to, now->turn, sizeof(to));
    memcpy(own, portrait->turn, sizeof(own));
    times(turned, to, from, true);
    turn_partly(turned, strength->pose);
    times(k.turn, turned, own, false);
    float grown = rest->scale > 0 && now->scale > 0 ? now->scale / rest->scale : 1;
    k.scale *= powf(grown, strength->pose);
    for (int c = 0; c < 2; c++)
        k.shift[c] += (now->shift[c] - rest->shift[c]) * strength->pose;
    for (int i = 0; i < TACHY_KEYPOINTS; i++)
        for (int c = 0; c < 3; c++)
            k.expression[i][c] += (now->expression[i][c] - rest->expression[i][c]) * strength->expression;
    tachy_keypoints_place(&k, at);
}

// ---- Crops

int tachy_face_crop(struct tachy_face_crop *c, const tachy_face_points p, double grow, double up, int size)
{
    enum { EYE = 33, OTHER = 263, LIP = 13 };
    double right[2] = {(double)p[OTHER][0] - p[EYE][0], (double)p[OTHER][1] - p[EYE][1]}, wide = hypot(right[0], right[1]);
    double low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30};
    if (!(wide > 1e-3) || !isfinite(wide) || size < 1)
        return TACHY_ERR_INVAL;
    right[0] /= wide;
    right[1] /= wide;
    const double down[2] = {-right[1], right[0]};
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        double along[2] = {p[i][0] * right[0] + p[i][1] * right[1], p[i][0] * down[0] + p[i][1] * down[1]};
        for (int k = 0; k < 2; k++) {
            low[k] = TACHY_MIN(low[k], along[k]);
            high[k] = TACHY_MAX(high[k], along[k]);
        }
    }
    double side = grow * TACHY_MAX(high[0] - low[0], high[1] - low[1]), pixel = side / size;
    double x = (low[0] + high[0]) / 2, y = (low[1] + high[1]) / 2 - up * side;
    double middle[2] = {x * right[0] + y * down[0], x * right[1] + y * down[1]};
    if (!(side > 1) || !isfinite(side))
        return TACHY_ERR_INVAL;
    c->size = size;
    for (int k = 0; k < 2; k++) {
        c->affine[3 * k] = right[k] * pixel;
        c->affine[3 * k + 1] = down[k] * pixel;
        c->affine[3 * k + 2] = middle[k] - (right[k] + down[k]) * side / 2;
    }
    return TACHY_OK;
}

// The share of the crop at a place in it, 0..1 from edge to edge: 1 but for the feathered edge.
static float feather_at(float x, float y, float feather)
{
    float edge = TACHY_MIN(TACHY_MIN(x, 1 - x), TACHY_MIN(y, 1 - y));
    float v = feather > 0 ? edge / feather : edge >= 0;
    return v <= 0 ? 0 : v >= 1 ? 1 : v * v * (3 - 2 * v);
}

// Between four neighbours, edges repeated; x and y are places of pixel centres.
static void look(const struct tachy_face_paste *p, float x, float y, float rgb[3])
{
    int n = p->crop.size, x0 = (int)floorf(x), y0 = (int)floorf(y);
    float fx = x - (float)x0, fy = y - (float)y0;
    int left = TACHY_CLAMP(x0, 0, n - 1), right = TACHY_CLAMP(x0 + 1, 0, n - 1);
    int top = TACHY_CLAMP(y0, 0, n - 1), bottom = TACHY_CLAMP(y0 + 1, 0, n - 1);
    for (int c = 0; c < 3; c++) {
        const float *v = p->rgb + (size_t)c * (size_t)n * (size_t)n, *a = v + (size_t)top * (size_t)n, *b = v + (size_t)bottom * (size_t)n;
        rgb[c] = (a[left] * (1 - fx) + a[right] * fx) * (1 - fy) + (b[left] * (1 - fx) + b[right] * fx) * fy;
    }
}

void tachy_face_paste(const struct tachy_face_paste *p, const struct tachy_face_plane *plane)
{
    const double *a = p->crop.affine, det = a[0] * a[4] - a[1] * a[3], size = p->crop.size;
    double low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            double v = (a[3 * k] * size * (i & 1) + a[3 * k + 1] * size * (i >> 1) + a[3 * k + 2]) * (k ? plane->scale_y : plane->scale_x);
            low[k] = TACHY_MIN(low[k], v);
            high[k] = TACHY_MAX(high[k], v);
        }
    int x0 = (int)TACHY_CLAMP(floor(low[0]), 0, plane->width), x1 = (int)TACHY_CLAMP(ceil(high[0]), 0, plane->width);
    int y0 = (int)TACHY_CLAMP(floor(low[1]), 0, plane->height), y1 = (int)TACHY_CLAMP(ceil(high[1]), 0, plane->height);
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            double px = (x + 0.5) / plane->scale_x - a[2], py = (y + 0.5) / plane->scale_y - a[5];
            float u = (float)((a[4] * px - a[1] * py) / det), v = (float)((a[0] * py - a[3] * px) / det), rgb[3];
            float share = feather_at(u / (float)size, v / (float)size, p->feather);
            if (share <= 0)
                continue;
            look(p, u - 0.5f, v - 0.5f, rgb);
            float value = p->matrix[3];
            for (int c = 0; c < 3; c++)
                value += p->matrix[c] * TACHY_CLAMP(rgb[c], 0, 1);
            uint8_t *to = plane->dst + y * plane->stride_dst + x;
            *to = (uint8_t)(TACHY_CLAMP(*to + share * (value - *to), 0, 255) + 0.5f);
        }
}
