#pragma once
#include "plan/cpu/vec/vec_act.h"
#include "plan/cpu/vec/vec_names.h"

// The epilogue on accumulators that are named variables: an array of them is spilled to memory
// by some compilers, which halves the speed. A list of accumulators is two macros: ROWS(EACH, M)
// expands EACH(p, M) for each pixel p, and EACH expands M(accumulator, p, v) for each vector v.
//
// The macros use what the tile functions have in scope: t (the tile), and the macros ADD_AT(p, v)
// (what is added), STORE_AT(acc, p, v) and SLOPE_AT(v) of the including file.

#define ROWS1(E, M) E(0, M)
#define ROWS2(E, M) ROWS1(E, M) E(1, M)
#define ROWS3(E, M) ROWS2(E, M) E(2, M)
#define ROWS4(E, M) ROWS3(E, M) E(3, M)
#define ROWS5(E, M) ROWS4(E, M) E(4, M)
#define ROWS6(E, M) ROWS5(E, M) E(5, M)
#define ROWS7(E, M) ROWS6(E, M) E(6, M)
#define ROWS8(E, M) ROWS7(E, M) E(7, M)
#define ROWS9(E, M) ROWS8(E, M) E(8, M)
#define ROWS10(E, M) ROWS9(E, M) E(9, M)
#define ROWS11(E, M) ROWS10(E, M) E(10, M)
#define ROWS12(E, M) ROWS11(E, M) E(11, M)

#define EACH1(p, M) M(a##p##_0, p, 0)
#define EACH2(p, M) EACH1(p, M) M(a##p##_1, p, 1)
#define EACH3(p, M) EACH2(p, M) M(a##p##_2, p, 2)

#define F_ADD(acc, p, v) acc = vadd(acc, ADD_AT(p, v));
#define F_CLIP(acc, p, v) acc = vclip(acc, act_a, act_b);
#define F_RELU(acc, p, v) acc = vmax(act_a, acc);
#define F_HSIGMOID(acc, p, v) acc = vhsigmoid(acc, act_a, act_b);
#define F_HSWISH(acc, p, v) acc = vmul(acc, vhsigmoid(acc, act_a, act_b));
#define F_LEAKY(acc, p, v) acc = vprelu(acc, act_a);
#define F_LEVELS(acc, p, v) acc = vlevels(acc, act_a, act_b);
#define F_PRELU(acc, p, v) acc = vprelu(acc, SLOPE_AT(v));
// Too long to be written out for each accumulator: they go through memory, so that one loop works
// on several at a time.
#define F_KEEP(acc, p, v)                                                                          \
    vstore(at, acc);                                                                               \
    at += VW;
#define F_TAKE(acc, p, v)                                                                          \
    acc = vload(at);                                                                               \
    at += VW;
enum { KEPT = 24 }; // accumulators of the largest tile

#define FINISH(ROWS, EACH)                                                                         \
    if (t->add && !t->add_last) {                                                                  \
        ROWS(EACH, F_ADD)                                                                          \
    }                                                                                              \
    if (t->act->kind != TACHY_ACT_NONE) {                                                          \
        const VF act_a = vset1(t->act->a), act_b = vset1(t->act->b);                               \
        switch (t->act->kind) {                                                                    \
        case TACHY_ACT_CLIP:                                                                       \
            if (t->act->b == INFINITY) {                                                           \
                ROWS(EACH, F_RELU)                                                                 \
            } else {                                                                               \
                ROWS(EACH, F_CLIP)                                                                 \
            }                                                                                      \
            break;                                                                                 \
        case TACHY_ACT_HSIGMOID: ROWS(EACH, F_HSIGMOID) break;                                     \
        case TACHY_ACT_HSWISH: ROWS(EACH, F_HSWISH) break;                                         \
        case TACHY_ACT_LEAKY: ROWS(EACH, F_LEAKY) break;                                           \
        case TACHY_ACT_PRELU: ROWS(EACH, F_PRELU) break;                                           \
        case TACHY_ACT_LEVELS: ROWS(EACH, F_LEVELS) break;                                         \
        default: {                                                                                 \
            float kept[KEPT * VW], *at = kept;                                                     \
            VARRAY_POINTER(at);                                                                    \
            ROWS(EACH, F_KEEP)                                                                     \
            ISA_NAME(tachy_unary)(kept, kept, (int)(at - kept), t->act);                           \
            at = kept;                                                                             \
            VARRAY_POINTER(at);                                                                    \
            ROWS(EACH, F_TAKE)                                                                     \
            break;                                                                                 \
        }                                                                                          \
        }                                                                                          \
    }                                                                                              \
    if (t->add && t->add_last) {                                                                   \
        ROWS(EACH, F_ADD)                                                                          \
    }                                                                                              \
    ROWS(EACH, STORE_AT)
