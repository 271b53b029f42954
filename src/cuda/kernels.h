#pragma once
#include "cuda/alpha_any.h"
#include "cuda/alpha_out.h"
#include "cuda/blend.h"
#include "cuda/blur.h"
#include "cuda/cells.h"
#include "cuda/composite.h"
#include "cuda/convert.h"
#include "cuda/device.h"
#include "cuda/draw.h"
#include "cuda/edges.h"
#include "cuda/flow_pyramid.h"
#include "cuda/flow_refine.h"
#include "cuda/flow_search.h"
#include "cuda/front.h"
#include "cuda/grid_sample.h"
#include "cuda/grow.h"
#include "cuda/luma.h"
#include "cuda/mesh.h"
#include "cuda/paste.h"
#include "cuda/preprocess.h"
#include "cuda/prob.h"
#include "cuda/refine.h"
#include "cuda/resize.h"
#include "cuda/signature.h"

#include <stdbool.h>

// The CUDA kernels, one operation per file: <operation>.h declares its arguments, <operation>.cu has the kernel and its
// launcher. They are compiled if -Dcuda finds a toolkit (docs/gpu.md), so callers reach them through this table, which
// is NULL in a build without them.
//
// A launcher queues its work on `stream` and returns at once. The device's context must be current to the calling
// thread (tachy_device_enter). It returns a status in the driver's numbers: 0, or one that tachy_cu_check() turns into
// our code. Arguments that it cannot take give CUDA_INVALID_VALUE and start nothing. Pointers in its arguments are
// device addresses unless the header says otherwise; the arguments themselves are copied. Any thread may launch.
// kernels.inc: one line KERNEL(name, struct) each, in alphabetical order.
struct tachy_cuda_kernels {
#define KERNEL(name, type) int (*name)(const struct type *a, cuda_stream stream);
#include "cuda/kernels.inc"
#undef KERNEL
};

// NULL: built without.
const struct tachy_cuda_kernels *tachy_cuda_kernels(void);
