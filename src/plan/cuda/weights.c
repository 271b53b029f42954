#include "base/base.h"
#include "base/cpu.h"
#include "base/team.h"
#include "plan/cuda/parts.h"

#include <stdlib.h>

// Weights in the order and the type that kernels want. A large network has a hundred million: they are written when all
// steps are known, by several threads.

enum { THREADS = 16, FEW = 1 << 20 }; // at most; elements that one thread writes sooner than others begin
enum { BLOCK = 16 };                  // rows that are written together if their elements lie side by side: a cache line

cuda_address cuda_put(struct cuda_build *b, struct cuda_put p)
{
    ptrdiff_t at = cuda_blob(b, (size_t)(p.rows * p.taps * p.row) * tachy_dtype_size(p.dtype));
    if (at < 0)
        return 0;
    if (!b->trial && b->nb_puts == b->max_puts) {
        int max = TACHY_MAX(64, 2 * b->max_puts);
        struct cuda_put *puts = realloc(b->puts, sizeof(*puts) * (size_t)max);
        if (!puts)
            return 0;
        b->puts = puts;
        b->max_puts = max;
    }
    p.at = (size_t)at;
    if (!b->trial)
        b->puts[b->nb_puts++] = p;
    return cuda_at(BASE_WEIGHTS, (size_t)at);
}

struct part {
    const struct cuda_put *put;
    void *to;
    int64_t begin, end; // rows
};

// Inlined with a constant type, so that the innermost loops are of one conversion.
static inline __attribute__((always_inline)) void put_rows(const struct part *part, enum tachy_dtype t)
{
    const struct cuda_put p = *part->put;
    const int64_t block = p.row_step == 1 ? BLOCK : 1, planes = TACHY_MAX(p.planes, 1);
    for (int64_t r = part->begin; r < part->end; r += block) {
        const int64_t n = TACHY_MIN(block, part->end - r);
        for (int64_t k = 0; k < p.taps; k++) {
            const float *from = p.from + r * p.row_step + k / planes * p.tap_step + k % planes * p.plane_step;
            const int64_t to = (r * p.taps + k) * p.row, next = p.taps * p.row;
            for (int64_t c = 0; n > 1 && c < p.columns; c++)
                for (int64_t i = 0; i < n; i++)
                    cuda_store(part->to, t, to + i * next + c, from[i + c * p.column_step] * p.factor);
            for (int64_t c = 0; n == 1 && p.column_step == 1 && c < p.columns; c++)
                cuda_store(part->to, t, to + c, from[c] * p.factor);
            for (int64_t c = 0; n == 1 && p.column_step != 1 && c < p.columns; c++)
                cuda_store(part->to, t, to + c, from[c * p.column_step] * p.factor);
        }
    }
}

static inline __attribute__((always_inline)) void put_part(const struct part *part)
{
    switch (part->put->dtype) {
    case TACHY_F16: put_rows(part, TACHY_F16); break;
    case TACHY_BF16: put_rows(part, TACHY_BF16); break;
    default: put_rows(part, TACHY_F32); break;
    }
}
TACHY_CPU_BEST(put_part, const struct part *)

struct share {
    const struct cuda_build *b;
    int pieces;
};

static void put_piece(void *user, int thread, int piece)
{
    const struct share *s = user;
    for (int i = 0; i < s->b->nb_puts; i++) {
        const struct cuda_put *p = &s->b->puts[i];
        put_part_best(&(struct part){p, s->b->blob + p->at, p->rows * piece / s->pieces, p->rows * (piece + 1) / s->pieces});
    }
}

void cuda_put_all(struct cuda_build *b)
{
    struct share s = {b, b->nb_blob > FEW ? TACHY_MIN(tachy_cpu_count(), (int)THREADS) : 1};
    tachy_team_once(s.pieces, put_piece, &s);
}
