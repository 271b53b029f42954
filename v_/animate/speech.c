#include "animate/speech.h"

#include <math.h>

// Louder speech has a wider mouth, open vowels have a high first formant (/a/ 700 to 900 Hz, /i/ and /u/ about 300), spread lips
// a high second one (/i/ 2300 Hz, /u/ 800), and hissing consonants are made with the teeth together (Peterson and Barney,
// "Control methods used in a study of the vowels", 1952). A formant is the centre of the power where it may lie.

static const double silent = 1e-6, quiet = 3e-5; // power: -60 and -45 dB of a full-scale sine

struct bands {
    double power, hertz; // and their centre
};

static struct bands between(const uint8_t level[TACHY_SOUND_BANDS], double low, double high)
{
    struct bands b = {0};
    for (int i = 0; i < TACHY_SOUND_BANDS; i++) {
        double centre = (tachy_sound_edge(i) + tachy_sound_edge(i + 1)) / 2, power = tachy_sound_power(level[i]);
        if (centre < low || centre >= high)
            continue;
        b.power += power;
        b.hertz += power * centre;
    }
    b.hertz = b.power > 0 ? b.hertz / b.power : (low + high) / 2;
    return b;
}

static float share(double v, double none, double all) { return (float)TACHY_CLAMP((v - none) / (all - none), 0, 1); }

void tachy_speech_hear(struct tachy_speech *s, const uint8_t level[TACHY_SOUND_BANDS], double seconds)
{
    struct bands voice = between(level, 100, 4000), hiss = between(level, 4000, 8000);
    struct bands first = between(level, 200, 1100), second = between(level, 800, 2800);
    double fading = exp(-seconds / 8); // a quieter voice counts as loud after some seconds
    s->loudest = (float)TACHY_MAX(TACHY_MAX(s->loudest * fading, quiet), voice.power);
    // The fourth root of power: loudness as it is heard spans less than the amplitude.
    double loud = voice.power > silent ? pow(voice.power / s->loudest, 0.25) : 0;
    float open = share(loud, 0.15, 1) * (0.65f + 0.35f * share(first.hertz, 350, 700));
    if (hiss.power > voice.power)
        open *= (float)(voice.power / hiss.power);
    float wide = 2 * share(second.hertz, 1000, 2000) - 1;
    s->open = open;
    s->wide += 0.4f * (wide * share(loud, 0.15, 0.5f) - s->wide); // lips form slower than a jaw drops
}

// ---- The mouth

enum { UPPER_LIP = 13, LOWER_LIP = 14, LEFT = 61, RIGHT = 291, CHIN = 152, NOSE = 168, EYE_LEFT = 33, EYE_RIGHT = 263 };

// A closed mouth's lips lie on each other: which is which the numbers tell.
static const int16_t lower[] = {95, 88, 178, 87, 14, 317, 402, 318, 324, 146, 91, 181, 84, 17, 314, 405, 321, 375,
                                96, 89, 179, 86, 15, 316, 403, 319, 325, 77, 90, 180, 85, 16, 315, 404, 320, 307};
static const int16_t upper[] = {191, 80, 81, 82, 13, 312, 311, 310, 415, 185, 40, 39, 37, 0, 267, 269, 270, 409,
                                183, 42, 41, 38, 12, 268, 271, 272, 407, 184, 74, 73, 72, 11, 302, 303, 304, 408};

// The mouth's own frame: axes of length 1 along it and down to the chin, and its middle.
struct mouth {
    float middle[3], along[3], down[3], half; // half its width
    float eyes;                               // distance of the eyes' outer corners
};

static float length(const float v[3]) { return sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }
static float dot(const float a[3], const float b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void axis(const float from[3], const float to[3], float out[3])
{
    for (int k = 0; k < 3; k++)
        out[k] = to[k] - from[k];
    float size = TACHY_MAX(length(out), 1e-6f);
    for (int k = 0; k < 3; k++)
        out[k] /= size;
}

static struct mouth mouth_of(const tachy_face_points p)
{
    struct mouth m;
    float eyes[3], wide[3];
    for (int k = 0; k < 3; k++) {
        m.middle[k] = (p[LEFT][k] + p[RIGHT][k]) / 2;
        wide[k] = p[RIGHT][k] - p[LEFT][k];
        eyes[k] = p[EYE_RIGHT][k] - p[EYE_LEFT][k];
    }
    axis(p[LEFT], p[RIGHT], m.along);
    axis(p[NOSE], p[CHIN], m.down);
    m.half = TACHY_MAX(length(wide) / 2, 1e-3f);
    m.eyes = length(eyes);
    return m;
}

static bool is_one_of(const int16_t list[], size_t n, int i)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == i)
            return true;
    return false;
}

static float smooth(float x) { return x <= 0 ? 0 : x >= 1 ? 1 : x * x * (3 - 2 * x); }

// How much of the jaw's drop point i takes part in: lower lip and jaw all of it, the upper lip goes the other way a little, and
// what is aside or above stays.
static float part_of(const struct mouth *m, const float p[3], int i)
{
    const float from[3] = {p[0] - m->middle[0], p[1] - m->middle[1], p[2] - m->middle[2]};
    float x = fabsf(dot(from, m->along)) / m->half, y = dot(from, m->down) / m->eyes;
    float bow = TACHY_MAX(1 - x * x, 0);
    if (is_one_of(lower, TACHY_ARRAY_SIZE(lower), i))
        return 0.35f * bow + 0.65f * sqrtf(bow);
    if (is_one_of(upper, TACHY_ARRAY_SIZE(upper), i))
        return -0.15f * bow;
    return y > 0 ? 0.9f * smooth(y / 0.2f) * (1 - smooth((x - 0.6f) / 1.6f)) : 0;
}

void tachy_speech_face(const struct tachy_speech *s, const tachy_face_points rest, tachy_face_points now)
{
    const struct mouth m = mouth_of(rest);
    const float drop = 0.22f * s->open * m.eyes, spread = 0.1f * s->wide;
    memcpy(now, rest, sizeof(tachy_face_points));
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        const float from[3] = {rest[i][0] - m.middle[0], rest[i][1] - m.middle[1], rest[i][2] - m.middle[2]};
        float x = dot(from, m.along), size = length(from) / m.half, near = expf(-size * size / 2);
        float part = part_of(&m, rest[i], i);
        for (int k = 0; k < 3; k++)
            now[i][k] += drop * part * m.down[k] + spread * near * x * m.along[k];
    }
}
