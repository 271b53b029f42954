#pragma once
#include "plan/cpu/kernels.h"
#include "plan/cpu/vec/vec.h"

// Functions that the files of this folder define for each instruction set; kernels.c collects them.
void ISA_NAME(tachy_unary)(float *y, const float *x, int n, const struct tachy_act *act);
void ISA_NAME(tachy_binary)(const struct tachy_binary_row *r);
void ISA_NAME(tachy_lerp)(float *y, const float *a, const float *b, float t, int n);
void ISA_NAME(tachy_resize_row)(const struct tachy_resize_row *r);
void ISA_NAME(tachy_pool_window)(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel,
                                 int rows, int columns, int channels, float scale);
void ISA_NAME(tachy_sum)(float *y, const float *x, int count, ptrdiff_t step, int n, float scale);
void ISA_NAME(tachy_softmax_pixel)(float *y, const float *x, int n, bool log);
void ISA_NAME(tachy_layer_norm_pixel)(float *y, const float *x, const float *scale,
                                      const float *shift, float epsilon, int n);
void ISA_NAME(tachy_transpose)(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step,
                               int rows, int columns);
void ISA_NAME(tachy_narrow_row)(const struct tachy_narrow_row *r);
extern void (*const ISA_NAME(tachy_winograd_in)[2])(const float *const *x, int channels, float *to, ptrdiff_t step);
extern void (*const ISA_NAME(tachy_winograd_out)[2])(const struct tachy_winograd_tile *t);
void ISA_NAME(tachy_function)(const struct tachy_plan_act_of *f, const float *restrict x, float *restrict y, int n);
void ISA_NAME(tachy_enter)(enum tachy_dtype type, const void *x, float *restrict y, int64_t n);
void ISA_NAME(tachy_leave)(enum tachy_dtype type, const float *restrict x, ptrdiff_t step, void *y, int64_t at, int64_t n);
double ISA_NAME(tachy_total)(const float *x, int64_t n);
float ISA_NAME(tachy_most)(const float *x, int64_t n, bool least);
float ISA_NAME(tachy_peak)(int rounds);
