#include "postprocess/alpha.h"

#include <math.h>
#include <stdlib.h>

bool tachy_buf_need(struct tachy_buf *b, size_t size)
{
    if (size <= b->size)
        return true;
    tachy_aligned_free(b->p);
    b->p = tachy_aligned_alloc(size);
    b->size = b->p ? size : 0;
    return b->p != NULL;
}

void tachy_buf_free(struct tachy_buf *b)
{
    tachy_aligned_free(b->p);
    *b = (struct tachy_buf){0};
}

int tachy_stretch_at(double pos, int src, int *frac)
{
    double whole = floor(pos);
    *frac = 0;
    if (!(pos > 0))
        return 0;
    if (whole >= src - 1)
        return src - 1;
    *frac = TACHY_MIN((int)lrint((pos - whole) * 32768), 32767);
    return (int)whole;
}

// One block of memory for the arrays of n padded to whole vectors.
static bool allocate(struct tachy_stretch *t, int n)
{
    size_t padded = TACHY_ALIGN((size_t)n, (size_t)32);
    uint8_t *p = tachy_aligned_alloc(padded * 18);
    if (!p)
        return false;
    memset(p, 0, padded * 18);
    t->memory = p;
    t->index = (void *)p;
    t->rel8 = (void *)(p + padded * 4);
    t->weight = (void *)(p + padded * 8);
    t->frac = (void *)(p + padded * 12);
    t->rel = (void *)(p + padded * 14);
    t->bytes = p + padded * 16;
    return true;
}

int tachy_stretch_build(struct tachy_stretch *t, int src, double scale, int first, int n)
{
    tachy_stretch_free(t);
    if (!allocate(t, n))
        return TACHY_ERR_NOMEM;
    t->n = n;
    t->src = src;
    t->blocks = true;
    for (int i = 0; i < n; i++) {
        int frac;
        t->index[i] = tachy_stretch_at((first + i + 0.5) * scale - 0.5, src, &frac);
        t->frac[i] = (int16_t)frac;
        t->weight[i] = (float)frac / 32768.0f;
        int rel = t->index[i] - t->index[i & ~31], rel8 = t->index[i] - t->index[i & ~7];
        t->blocks &= rel < 32 && rel8 < 8;
        t->rel[i] = (uint16_t)rel;
        t->rel8[i] = rel8;
        t->bytes[2 * i] = (uint8_t)(2 * rel8);
        t->bytes[2 * i + 1] = (uint8_t)(2 * rel8 + 1);
    }
    return TACHY_OK;
}

void tachy_stretch_free(struct tachy_stretch *t)
{
    tachy_aligned_free(t->memory);
    *t = (struct tachy_stretch){0};
}
