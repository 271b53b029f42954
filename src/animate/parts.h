#pragma once
#include "animate/face.h"

// Parts of the 468 points by number, in the order of the way around them.

static const int16_t face_oval[TACHY_FACE_OVAL] = {10,  338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288,
                                                   397, 365, 379, 378, 400, 377, 152, 148, 176, 149, 150, 136,
                                                   172, 58,  132, 93,  234, 127, 162, 21,  54,  103, 67,  109};
// Both brows, along their edges.
enum { FACE_BROWS = 20 };
static const int16_t face_brows[FACE_BROWS] = {70, 63, 105, 66, 107, 46, 53, 52, 65, 55, 300, 293, 334, 296, 336, 276, 283, 282, 295, 285};
// From the mouth's left corner over the upper lip, then back below: i and 20 - i face each other.
static const int16_t face_lips[TACHY_FACE_LIPS] = {78,  191, 80,  81,  82, 13, 312, 311, 310, 415,
                                                   308, 324, 318, 402, 317, 14, 87, 178, 88,  95};
// The same of both eyes, i and 16 - i.
static const int16_t face_lids[2][TACHY_FACE_LIDS] = {
    {33, 246, 161, 160, 159, 158, 157, 173, 133, 155, 154, 153, 145, 144, 163, 7},
    {362, 398, 384, 385, 386, 387, 388, 466, 263, 249, 390, 373, 374, 380, 381, 382}};
