#include "base/ycbcr.h"

#include "base/base.h"

bool tachy_luma_weights(int matrix, double *kr, double *kb)
{
    static const struct {
        int matrix;
        double kr, kb;
    } known[] = {
        {1, 0.2126, 0.0722}, {4, 0.30, 0.11}, // BT.709, FCC
        {5, 0.299, 0.114},   {6, 0.299, 0.114}, // BT.601
        {7, 0.212, 0.087},   {9, 0.2627, 0.0593}, // SMPTE 240, BT.2020
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++)
        if (known[i].matrix == matrix) {
            *kr = known[i].kr, *kb = known[i].kb;
            return true;
        }
    *kr = known[0].kr, *kb = known[0].kb;
    return false;
}

bool tachy_same_matrix(int a, int b)
{
    double kr[2], kb[2];
    bool known = tachy_luma_weights(a, &kr[0], &kb[0]) && tachy_luma_weights(b, &kr[1], &kb[1]);
    return a == b || (known && kr[0] == kr[1] && kb[0] == kb[1]);
}

struct tachy_ycbcr_codes tachy_ycbcr_codes_of(int bits, bool full)
{
    int unit = 1 << (bits - 8), most = (1 << bits) - 1;
    return full ? (struct tachy_ycbcr_codes){most, most, 0} : (struct tachy_ycbcr_codes){219 * unit, 224 * unit, 16 * unit};
}

void tachy_ycbcr_weights(int matrix, int bits, bool full, int component, double weight[4])
{
    struct tachy_ycbcr_codes codes = tachy_ycbcr_codes_of(bits, full);
    double kr, kb;
    tachy_luma_weights(matrix, &kr, &kb);
    const double luma[3] = {kr, 1 - kr - kb, kb};
    for (int k = 0; k < 3; k++) {
        double own = component == 1 ? k == 2 : k == 0, by = component == 1 ? 1 - kb : 1 - kr;
        weight[k] = component ? codes.chroma * (own - luma[k]) / (2 * by) : codes.luma * luma[k];
    }
    weight[3] = component ? 1 << (bits - 1) : codes.black;
}

struct tachy_ycbcr_change tachy_ycbcr_change_of(int from_matrix, int to_matrix)
{
    double kr, kb, to_kr, to_kb;
    tachy_luma_weights(from_matrix, &kr, &kb);
    tachy_luma_weights(to_matrix, &to_kr, &to_kb);
    double kg = 1 - kr - kb, to_kg = 1 - to_kr - to_kb, blue = 2 * (1 - kb), red = 2 * (1 - kr);
    struct tachy_ycbcr_change c;
    c.y[0] = to_kb * blue - to_kg * kb * blue / kg; // R' and B' are luma and a part of chroma, G' what is left
    c.y[1] = to_kr * red - to_kg * kr * red / kg;
    c.cb[0] = (blue - c.y[0]) / (2 * (1 - to_kb));
    c.cb[1] = -c.y[1] / (2 * (1 - to_kb));
    c.cr[0] = -c.y[0] / (2 * (1 - to_kr));
    c.cr[1] = (red - c.y[1]) / (2 * (1 - to_kr));
    return c;
}
