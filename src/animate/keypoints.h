#pragma once
#include "animate/face.h"
#include "ref/ref_paste.h"

// Faces as networks of the LivePortrait family see them: keypoints that nobody named, their expression, and how the head is
// turned (Guo et al., "LivePortrait: Efficient Portrait Animation with Stitching and Retargeting Control", 2024, equations 1 and 2).
// Pure geometry: no file, no network.

enum { TACHY_KEYPOINTS = 21, TACHY_ANGLE_BINS = 66 };

// What the motion network says of a face, in units of its crop: -1..1.
struct tachy_keypoints {
    float turn[3][3]; // of row vectors: canonical * turn
    float shift[3], scale;
    float canonical[TACHY_KEYPOINTS][3], expression[TACHY_KEYPOINTS][3];
};
// Radians of a score for each of 66 angles, 3 degrees apart from -97.5 on.
float tachy_keypoints_angle(const float bins[TACHY_ANGLE_BINS]);
// Sets `turn` from angles in radians.
void tachy_keypoints_turn(struct tachy_keypoints *k, float pitch, float yaw, float roll);
// Where the keypoints are: scale * (canonical * turn + expression) + shift, whose depth is left out.
void tachy_keypoints_place(const struct tachy_keypoints *k, float at[TACHY_KEYPOINTS][3]);
// The portrait as its driver moves from `rest` to `now`, placed. Absolute motion holds for the expression, too.
void tachy_keypoints_drive(const struct tachy_keypoints *portrait, const struct tachy_keypoints *rest, const struct tachy_keypoints *now,
                           const struct tachy_face_strength *strength, float at[TACHY_KEYPOINTS][3]);

// ---- Crops

// A square of a picture with an upright face, and how its pixels (edges at integers) lie in the picture: as tachy_view.affine
// of a tensor of `size` pixels.
struct tachy_face_crop {
    double affine[6];
    int size;
};
// `grow`: its width in that of the face, along the eyes or from brows to chin; `up`: how far its middle lies above the face's, in
// its own width. TACHY_ERR_INVAL: the points are no face.
int tachy_face_crop(struct tachy_face_crop *c, const tachy_face_points point, double grow, double up, int size);

// How a square picture of RGB from 0 to 1 is pasted over a plane of a frame of bytes.
struct tachy_face_paste {
    struct tachy_face_crop crop; // in luma pixels
    float matrix[4];             // of struct tachy_paste
    float feather;               // share of the crop's width over which its edge fades
};
// `plane`: its size and scales; the pixels are not read.
void tachy_face_paste_how(struct tachy_paste *how, const struct tachy_face_paste *p, const struct tachy_face_plane *plane);
// rgb: 3 x size x size.
void tachy_face_paste(const struct tachy_face_paste *p, const float *rgb, const struct tachy_face_plane *plane);
