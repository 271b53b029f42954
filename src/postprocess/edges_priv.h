#pragma once
#include "base/cpu.h"
#include "postprocess/edges.h"

// Shared by the files of edges: operations on blocks of floats at any address, in functions that TACHY_CPU_BEST
// compiles for each instruction set. With a vector type each line is an instruction or two, even where planes may
// overlap.

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

enum { BLOCK = 8 };
typedef float vec __attribute__((vector_size(4 * BLOCK), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(4 * BLOCK)));
#define AT(p) (*(vec *)(p))
#define CHOOSE(cond, a, b) ((vec)(((bits)(a) & (cond)) | ((bits)(b) & ~(cond))))
