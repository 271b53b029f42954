#include "check.h"

#include "base/base.h"
#include "preprocess/signature.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The luma signature: the same numbers from every instruction set, and the cells against means in
// double over the pixels.

static const char *const isas[] = {"avx2", "avx512", "neon"};

// A frame of random pixels that ends with its last one.
struct picture {
    tachy_frame frame; // nobody counts it
    uint8_t *data;
};

static void picture_open(struct check *c, struct picture *p, enum tachy_pix format, int w, int h)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    ptrdiff_t row = (ptrdiff_t)w * d->components[0] * d->bytes, stride = row + check_range(c, 0, 70);
    size_t need = (size_t)(stride * (h - 1) + row);
    p->data = check_alloc(need, 1);
    check_fill(c, p->data, need);
    if (check_range(c, 0, 9) == 0)
        memset(p->data, 255, need); // the largest sums
    // Only the first plane is read.
    p->frame = (tachy_frame){
        .format = format, .width = w, .height = h, .data = {p->data}, .stride = {stride}};
}

static void picture_close(struct picture *p) { check_free(p->data); }

static double luma(const tachy_frame *f, int x, int y) // 0..255
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const uint8_t *p = f->data[0] + y * f->stride[0] + x * d->components[0] * d->bytes;
    if (d->rgb) {
        bool bgr = f->format == TACHY_PIX_BGRA;
        return 0.2126 * p[bgr ? 2 : 0] + 0.7152 * p[1] + 0.0722 * p[bgr ? 0 : 2];
    }
    if (d->bytes == 1)
        return p[0];
    return ((p[0] | p[1] << 8) >> d->shift & 1023) * (255.0 / 1023);
}

// The mean of a cell in the middle of a frame whose cells are whole groups and not thinned.
static void against_means(struct check *c)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_GRAY8, TACHY_PIX_YUV420P10, TACHY_PIX_P010,
                                             TACHY_PIX_RGB24, TACHY_PIX_BGRA, TACHY_PIX_RGBA};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(formats); k++) {
        struct picture p;
        picture_open(c, &p, formats[k], 32 * 16, 18 * 10);
        struct tachy_signature s;
        tachy_signature_make(&s, &p.frame, NULL);
        for (int cell = 0; cell < s.columns * s.rows; cell += 37) {
            int cx = cell % s.columns, cy = cell / s.columns;
            double sum = 0;
            for (int y = cy * 10; y < cy * 10 + 10; y++)
                for (int x = cx * 16; x < cx * 16 + 16; x++)
                    sum += luma(&p.frame, x, y);
            double got = s.cell[cell] * (255.0 / TACHY_SIGNATURE_ONE);
            // RGB: weights in 128ths are off by at most 0.0019 each, of 255
            check_case(c, fabs(got - sum / 160) < (tachy_pix_desc(formats[k])->rgb ? 0.6 : 0.003),
                       "%s cell %d: %f, mean %f", tachy_pix_desc(formats[k])->name, cell, got,
                       sum / 160);
        }
        picture_close(&p);
    }
}

static void against_twin(struct check *c, const char *isa)
{
    enum tachy_pix format = (enum tachy_pix)check_range(c, TACHY_PIX_GRAY8, TACHY_PIX_COUNT - 1);
    int w = check_range(c, 0, 3) ? check_range(c, 500, 1400) : check_range(c, 1, 600);
    int h = check_range(c, 0, 3) ? check_range(c, 1, 100) : check_range(c, 700, 1500);
    struct picture p;
    picture_open(c, &p, format, w, h);
    struct tachy_rect r = {0, 0, w, h};
    if (check_range(c, 0, 1)) {
        r.w = check_range(c, 1, w);
        r.h = check_range(c, 1, h);
        r.x = check_range(c, 0, w - r.w);
        r.y = check_range(c, 0, h - r.h);
    }
    struct tachy_signature a = {0}, b = {0};
    int err = tachy_signature_make_isa(&a, &p.frame, &r, isa);
    int twin = tachy_signature_make_isa(&b, &p.frame, &r, "c");
    check_case(c, !err && !twin && !memcmp(&a, &b, sizeof(a)), "%s %s %dx%d of %dx%d", isa,
               tachy_pix_desc(format)->name, r.w, r.h, w, h);
    check_case(c, tachy_signature_distance(&a, &b) == 0, "%s distance to itself", isa);
    picture_close(&p);
}

struct timed {
    const tachy_frame *frame;
    const char *isa;
    struct tachy_signature s;
};

static void once(void *arg)
{
    struct timed *t = arg;
    tachy_signature_make_isa(&t->s, t->frame, NULL, t->isa);
}

static void bench(struct check *c, const char *isa)
{
    static const struct {
        enum tachy_pix format;
        int w, h;
    } cases[] = {{TACHY_PIX_YUV420P, 1280, 720},
                 {TACHY_PIX_YUV420P, 1920, 1080},
                 {TACHY_PIX_P010, 1920, 1080},
                 {TACHY_PIX_YUV420P, 7680, 3840},
                 {TACHY_PIX_RGB24, 1280, 720},
                 {TACHY_PIX_BGRA, 1280, 720}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct picture p;
        char what[64];
        const struct tachy_pix_desc *d = tachy_pix_desc(cases[i].format);
        picture_open(c, &p, cases[i].format, cases[i].w, cases[i].h);
        struct timed t = {.frame = &p.frame, .isa = "c"};
        double twin = check_time(once, &t);
        t.isa = isa;
        snprintf(what, sizeof(what), "%s %dx%d", d->name, cases[i].w, cases[i].h);
        check_row("signature", isa, what, check_time(once, &t),
                  (double)cases[i].w * cases[i].h * d->components[0] * d->bytes, twin);
        picture_close(&p);
    }
}

static void run(struct check *c)
{
    against_means(c);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(isas); i++) {
        if (!tachy_cpu_has((enum tachy_isa)tachy_isa_by_name(isas[i])))
            continue;
        for (int k = 0; k < 300; k++)
            against_twin(c, isas[i]);
        if (c->bench && strcmp(isas[i], "avx512")) // AVX-512 has no version of its own
            bench(c, isas[i]);
    }
}

const struct check_op check_signature = {.name = "signature", .run = run};
