#pragma once
#include "base/base.h"

// What lights a picture (docs/lighting.md has formulas, sources and ranges). All functions are pure and thread-safe.

enum tachy_light_value {
    TACHY_L_EXPOSURE,    // stops from middle grey, -12..2.5
    TACHY_L_CONTRAST,    // standard deviation of luma, 0..0.5
    TACHY_L_SHADOWS,     // share of pixels that are black, 0..1
    TACHY_L_HIGHLIGHTS,  // share of pixels that are white in a channel, 0..1
    TACHY_L_TEMPERATURE, // kelvin, 1500..25000
    TACHY_L_TINT,        // Duv: above 0 greenish, below 0 magenta
    TACHY_L_DAY,         // 0 night .. 1 day
    TACHY_L_COLOR_COUNT, // colours that follow, 1..TACHY_LIGHT_COLORS
    TACHY_L_COLOR,       // 0xRRGGBB, the largest share first
    TACHY_L_SHARE = TACHY_L_COLOR + 5, // of the pixels, 0..1
    TACHY_L_FROM_FACE = TACHY_L_SHARE + 5, // 1: direction and softness are a face's; 0: of gradients
    TACHY_L_X,           // to the light, of length 1: right,
    TACHY_L_Y,           // down
    TACHY_L_Z,           // and towards the camera; all 0: no direction is seen
    TACHY_L_SOFTNESS,    // 0 a single lamp .. 1 from everywhere
    TACHY_L_EXPOSURE_CHANGE,    // from the frame before: stops
    TACHY_L_TEMPERATURE_CHANGE, // kelvin
    TACHY_L_DIRECTION_CHANGE,   // degrees
    TACHY_L_COUNT,
};
enum { TACHY_LIGHT_COLORS = 5 };
extern const char *const tachy_light_names[TACHY_L_COUNT];

// Sets the values up to TACHY_L_SHARE of an area average of the picture: R G B, full range, rows dense, `n` pixels.
void tachy_light_colors(const uint8_t *rgb, int n, double value[TACHY_L_COUNT]);

// Light of an sRGB code, 0..1 (IEC 61966-2-1).
double tachy_light_of(int code);

// A place of a surface: which way it faces (as TACHY_L_X to TACHY_L_Z) and how much light it gives, linear.
struct tachy_lit {
    double normal[3], light;
};
// The lamp and ambient light that best explain `n` places of one matt colour, in spherical harmonics of second order (Ramamoorthi and
// Hanrahan 2001); places that do not fit, such as brows, are left out. Sets direction and softness and returns true; false:
// too few places, or no direction.
bool tachy_light_fit(const struct tachy_lit *place, int n, double direction[3], double *softness);

// The same of the picture's shading if nothing is known of its shapes: the mean direction in which luma rises (after Zheng
// and Chellappa 1991), in the plane of the picture (z is 0). `luma`: rows dense.
bool tachy_light_gradients(const uint8_t *luma, int width, int height, double direction[3], double *softness);
