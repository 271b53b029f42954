#pragma once
#include "base/base.h"
#include "ref/ref_mesh.h"

#include <tachy/result.h>

// A portrait's face as a textured mesh, and how another face moves it. Pure geometry: no file, no network. Coordinates are
// pixels of the picture that a face was found in, x to the right, y down, z away from the camera.

enum {
    TACHY_FACE_SKIN = 468,   // points of the face mesh network
    TACHY_FACE_POINTS = TACHY_FACE_SKIN + 10, // and of the irises: centre, right, top, left, bottom of each
    TACHY_FACE_OVAL = 36,    // of those, around the face
    TACHY_FACE_RINGS = 5,    // around the oval; the last one stays where it is
    TACHY_FACE_LIPS = 20,    // around the opening of the mouth
    TACHY_FACE_LIDS = 16,    // around the opening of an eye
    TACHY_FACE_IRIS = 8,     // around an iris
    TACHY_FACE_CORNERS = TACHY_FACE_POINTS + TACHY_FACE_RINGS * TACHY_FACE_OVAL + TACHY_FACE_LIPS +
                         TACHY_FACE_LIPS + 2 * (TACHY_FACE_LIDS + TACHY_FACE_IRIS),
    TACHY_FACE_TRIANGLES = 1600, // there is room for
};

// Irises without extent are not known: the eyes look where they look in the portrait.
typedef float tachy_face_points[TACHY_FACE_POINTS][3];

// b = scale * turn * (a - from) + to, in the least squares of the points that expressions leave in place.
struct tachy_face_fit {
    double turn[3][3], scale, from[3], to[3];
};
void tachy_face_fit(struct tachy_face_fit *fit, const tachy_face_points a, const tachy_face_points b);
// The same from a mean face that looks straight ahead, whose eyes' outer corners are 1 apart.
void tachy_face_pose(struct tachy_face_fit *fit, const tachy_face_points now);

// What a face does in one picture, each number under its name: head pose, then coefficients from 0 to 1 (signs.c).
enum { TACHY_FACE_POSE = 6, TACHY_FACE_SIGNS = 21 };
void tachy_face_signs(struct tachy_named v[TACHY_FACE_SIGNS], const tachy_face_points now, int width, int height);

// What a portrait's face does, in its own pixels.
struct tachy_face_motion {
    float turn[3];  // axis times radians
    float grow;     // natural logarithm of the scale
    float shift[2];
    tachy_face_points offset; // expression, before the turn
};

// How the portrait follows its driver.
struct tachy_face_strength {
    float pose, expression; // 1: as the driver does
    bool absolute; // the head is turned as the driver's is, not by what that has turned since its rest
};

// Three numbers of corners.
struct tachy_face_triangle {
    int16_t corner[3];
};

// Skin points near the outline, whose texture moves at a turn, and the points that each is joined to.
enum { TACHY_BAND_POINTS = 96, TACHY_BAND_NEAR = 9 };
struct tachy_face_band {
    int16_t point[TACHY_BAND_POINTS], near[TACHY_BAND_POINTS][TACHY_BAND_NEAR];
    int nb_near[TACHY_BAND_POINTS], nb;
};

struct tachy_face {
    tachy_face_points point;
    float centre[3]; // that the head turns about
    float radius;    // of the oval
    bool mouth_open; // the picture shows what is in the mouth
    bool irises;     // are known
    float reach[TACHY_FACE_OVAL]; // how much farther than the oval the skin reaches, at rest
    float ring[TACHY_FACE_RINGS][TACHY_FACE_OVAL][2];
    struct tachy_face_band band;
    // The rings, then what is behind the lips, the picture's own teeth if it shows them, the eyes, then the skin.
    struct tachy_face_triangle triangle[TACHY_FACE_TRIANGLES];
    int mouth, teeth, eyes, skin, triangles; // where those begin, and how many there are
};
// TACHY_ERR_INVAL: the points are no face (they have no extent).
int tachy_face_open(struct tachy_face *face, const tachy_face_points point);

// How the portrait moves when its driver goes from `neutral` to `now`. Bounded: 35 degrees, 0.6 of the face's radius, a scale
// of 0.7 to 1.4.
void tachy_face_drive(const struct tachy_face *face, const tachy_face_points neutral, const tachy_face_points now,
                      const struct tachy_face_strength *strength, struct tachy_face_motion *motion);
// Goes the share of the way back to rest.
void tachy_face_ease(struct tachy_face_motion *motion, float share);

// The mesh in place. Triangles from `order`[0] on lie behind those after them.
struct tachy_face_placed {
    struct tachy_mesh_corner corner[TACHY_FACE_CORNERS];
    float depth[TACHY_FACE_CORNERS];
    int16_t order[TACHY_FACE_TRIANGLES];
};
// The mouth's corners have u and v in TACHY_MOUTH_SIZE; all others in the portrait's pixels.
void tachy_face_place(const struct tachy_face *face, const struct tachy_face_motion *motion, struct tachy_face_placed *to);

// The placed mesh for cuda/mesh.h: triangles that face the camera, in their order, at the scale of luma and of halved chroma.
struct tachy_face_mesh {
    struct tachy_mesh_corner corner[2][TACHY_FACE_CORNERS];
    int32_t triangle[TACHY_FACE_TRIANGLES][3];
    int triangles, mouth, mouth_end; // those from `mouth` on have the mouth's texture
};
void tachy_face_mesh(const struct tachy_face *face, const struct tachy_face_placed *placed, struct tachy_face_mesh *mesh);

// One plane of 8-bit samples.
struct tachy_face_plane {
    const uint8_t *src;
    uint8_t *dst;
    ptrdiff_t stride_src, stride_dst;
    int width, height;
    float scale_x, scale_y; // its samples per pixel of the mesh
};
enum { TACHY_MOUTH_SIZE = 64 }; // pixels, square
// Paints the placed mesh: each pixel is the last triangle's that covers its centre; pixels outside stay. `mouth`: the same
// plane of what is behind closed lips.
void tachy_face_paint(const struct tachy_face *face, const struct tachy_face_placed *placed, const struct tachy_face_plane *plane,
                      const uint8_t mouth[TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE]);
// What is behind closed lips: plane 0 luma, 1 and 2 chroma. `skin`: the same of the skin around.
void tachy_face_mouth(uint8_t mouth[3][TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE], const int skin[3]);
