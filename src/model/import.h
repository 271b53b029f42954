#pragma once
#include "model/tflite.h"
#include "onnx/graph.h"

// From a TFLite graph to an ONNX graph. TFLite keeps pictures as N H W C; the ONNX graph
// computes in N C H W ("planar"), where ONNX Runtime is fast, and converts only at its borders
// and where an operator mixes the order of elements. A tensor of rank 4 may be known in one
// form or both; the other is made when it is first asked for.

enum import_form { IMPORT_NATIVE, IMPORT_PLANAR };

struct import_slot {
    int value[2]; // by form, 0: not made yet
};

struct import {
    const struct tflite_model *m;
    struct onnx_graph *g;
    const struct tachy_log *log;
    const char *path;
    struct import_slot *slots; // one a tensor
    const struct tflite_op *op;
    int op_index;
};

// Translates the current operator. TACHY_OK or a code that has been logged.
typedef int import_fn(struct import *im);

// Failures of the current operator: "FILE: operator 12 (CONV_2D): <what>".
int import_unsupported(const struct import *im, const char *what);
int import_damaged(const struct import *im, const char *what);

// Operator's name for messages and the report; `buf` is used for custom and unknown ones.
const char *import_op_name(const struct tflite_op *op, char *buf, size_t size);

// Tensor of the operator's i-th input or output; NULL: absent.
const struct tflite_tensor *import_tensor(const struct import *im, int i);
const struct tflite_tensor *import_result(const struct import *im, int i);
struct onnx_shape import_shape(const struct tflite_tensor *t);

// The i-th input in a form. 0 with graph.err set or the tensor not computed yet (the caller's
// node then fails with TACHY_ERR_FORMAT). Planar needs rank 4.
int import_get(struct import *im, int i, enum import_form form);
// Planar if the tensor has rank 4 and is already known to be planar, else native.
enum import_form import_form(const struct import *im, int i);
bool import_is_const(const struct import *im, int i);

// Hands over the i-th output; TACHY_ERR_FORMAT if its shape differs from the file's.
int import_set(struct import *im, int i, enum import_form form, int value);
// As import_set(), followed by the fused activation with schema number `act`.
int import_set_act(struct import *im, int i, enum import_form form, int value, int act);
// Passes input i on as output 0.
int import_alias(struct import *im, int i);

// Integers of a constant input (INT32 or INT64, at most `max`); their count, or -1.
int import_ints(struct import *im, int i, int64_t *v, int max);

// Axis of a rank-4 tensor in the planar order: N 0, H 2, W 3, C 1.
int import_axis(enum import_form form, int axis);
// A native shape in a form's order.
struct onnx_shape import_order(enum import_form form, const struct onnx_shape *native);

// A value of rank 4 from one form to the other.
int import_to_planar(struct import *im, int v);
int import_to_native(struct import *im, int v);

// The type of a tensor in the ONNX graph: ONNX_FLOAT for quantised and fp16 numbers, ONNX_INT64 for integers. 0: not
// supported.
int import_dtype(const struct tflite_tensor *t);

// Operators, by group.
import_fn import_conv_2d, import_depthwise, import_transpose_conv, import_transpose_conv_bias,
    import_fully_connected;
import_fn import_pool, import_mean, import_reduce, import_arg_max, import_softmax;
import_fn import_unary, import_binary, import_prelu, import_leaky_relu, import_hard_swish,
    import_cast, import_pass;
import_fn import_reshape, import_concat, import_pad, import_slice, import_strided_slice,
    import_split, import_pack, import_unpack, import_transpose, import_resize, import_depth_space,
    import_gather, import_gather_nd, import_shape_op;
import_fn import_landmarks_matrix, import_transform_bilinear, import_transform_landmarks;

// The whole graph, rewritten and pruned. Used by tachy_model_import() and by tests.
int import_graph(struct onnx_graph **out, const struct tflite_model *m, const char *path,
                 const struct tachy_log *log);

// Writes a card skeleton; makes the report (import_report.c).
int import_card(const struct onnx_graph *g, const char *onnx_path, const char *card_path, const struct tachy_log *log);
int import_report(char **json, const struct tflite_model *m, const struct onnx_graph *g,
                  size_t bytes);

// Makes the first dimension of all inputs and outputs free if the graph treats pictures independently (import_batch.c).
// Call it after the rewrites.
void import_free_batch(struct onnx_graph *g);

// Rewrites that keep the outputs but let the runtime go faster (import_rewrite.c).
void import_rewrite(struct onnx_graph *g);
