#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <tachy/engine.h>

// ONNX files of users, as bytes in memory. Any bytes are safe: every length is checked. All functions may be called
// from any thread.

// ---- Weights in other files

// Calls `each` with the location of every tensor that lies in another file, relative to the model's folder, wherever in
// the model the tensor is. Ends with the first negative code of `each`. TACHY_ERR_FORMAT, not logged: a message is
// damaged or lies deeper than protobuf's own reader goes, so that a location might have been missed; TACHY_ERR_NOMEM.
int onnx_each_location(const void *data, size_t size, int (*each)(void *user, const char *location), void *user);

// ---- Free dimensions

// A dimension of an input that is free and has a name.
struct onnx_free_dim {
    const char *input, *name;
    bool first; // the input is the graph's first
    int rank, axis;
};

// Calls `each` for each of them, input by input in the file's order. Initializers are no inputs. Ends with the first negative code of
// `each`. TACHY_ERR_FORMAT, not logged: no ONNX file; TACHY_ERR_NOMEM.
int onnx_each_free_dim(const void *data, size_t size, int (*each)(void *user, const struct onnx_free_dim *d), void *user);

// ---- Fixed inputs

// Inputs that get a size or become constants.
struct onnx_fix {
    const char *path;              // names the file in messages
    const struct tachy_io *shapes; // as tachy_engine_params.shapes
    int nb_shapes;
    const struct tachy_engine_constant *constants; // as tachy_engine_params.constants
    int nb_constants;              // up to TACHY_MAX_IO
    // Leading dimension of the first input, if that is free, and of those whose leading dimension has the same name; 0: they stay free.
    int batch;
};

// The file with its inputs fixed; all other bytes stay as they are. *out is for free(), NULL on failure.
// TACHY_ERR_MISMATCH: a constant does not fit; TACHY_ERR_FORMAT: no ONNX file; TACHY_ERR_NOMEM.
int onnx_fix_inputs(void **out, size_t *out_size, const void *data, size_t size, const struct onnx_fix *fix,
                    const struct tachy_log *log);
