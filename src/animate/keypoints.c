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
    const struct tachy_keypoints *first = strength->absolute ? portrait : rest; // that head and expression begin at
    float turned[3][3];
    float from[3][3], to[3][3], own[3][3];
    memcpy(from, first->turn, sizeof(from));
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
            k.expression[i][c] += (now->expression[i][c] - first->expression[i][c]) * strength->expression;
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

void tachy_face_paste_how(struct tachy_paste *how, const struct tachy_face_paste *p, const struct tachy_face_plane *plane)
{
    const double *a = p->crop.affine, det = a[0] * a[4] - a[1] * a[3], size = p->crop.size;
    const double scale[2] = {plane->scale_x, plane->scale_y};
    double low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            double v = (a[3 * k] * size * (i & 1) + a[3 * k + 1] * size * (i >> 1) + a[3 * k + 2]) * scale[k];
            low[k] = TACHY_MIN(low[k], v);
            high[k] = TACHY_MAX(high[k], v);
        }
    *how = (struct tachy_paste){
        .u = {(float)(a[4] / det / scale[0]), (float)(-a[1] / det / scale[1]), (float)((a[1] * a[5] - a[4] * a[2]) / det)},
        .v = {(float)(-a[3] / det / scale[0]), (float)(a[0] / det / scale[1]), (float)((a[3] * a[2] - a[0] * a[5]) / det)},
        .feather = p->feather, .size = p->crop.size,
        .x0 = (int)TACHY_CLAMP(floor(low[0]), 0, plane->width), .x1 = (int)TACHY_CLAMP(ceil(high[0]), 0, plane->width),
        .y0 = (int)TACHY_CLAMP(floor(low[1]), 0, plane->height), .y1 = (int)TACHY_CLAMP(ceil(high[1]), 0, plane->height)};
    memcpy(how->matrix, p->matrix, sizeof(how->matrix));
}

void tachy_face_paste(const struct tachy_face_paste *p, const float *rgb, const struct tachy_face_plane *plane)
{
    struct tachy_paste how;
    tachy_face_paste_how(&how, p, plane);
    for (int y = how.y0; y < how.y1; y++) {
        uint8_t *row = plane->dst + y * plane->stride_dst;
        for (int x = how.x0; x < how.x1; x++)
            row[x] = tachy_ref_paste(&how, rgb, x, y, row[x]);
    }
}
