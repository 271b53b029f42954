#pragma once
#include <stdbool.h>

// Kr and Kb of a matrix (ITU-T H.273, table 4); false: none that has them, and those of BT.709.
bool tachy_luma_weights(int matrix, double *kr, double *kb);
// True if two have the same weights: BT.601 has two numbers.
bool tachy_same_matrix(int a, int b);

// Codes from end to end, and that of black, of a range of 8 bits or more (ITU-T H.273, 8.3).
struct tachy_ycbcr_codes {
    double luma, chroma;
    int black;
};
struct tachy_ycbcr_codes tachy_ycbcr_codes_of(int bits, bool full);

// The code of luma (0), Cb (1) or Cr (2) of R'G'B' from 0 to 1: what each of these weighs, and what is added.
void tachy_ycbcr_weights(int matrix, int bits, bool full, int component, double weight[4]);

// Y'CbCr of one matrix as that of another, where luma is 0..1 and chroma -0.5..0.5: what is added to luma, and what
// chroma becomes, both as parts of Cb and Cr. Grey has no colour in either.
struct tachy_ycbcr_change {
    double y[2], cb[2], cr[2];
};
struct tachy_ycbcr_change tachy_ycbcr_change_of(int from_matrix, int to_matrix);
