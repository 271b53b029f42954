#include "base/path.h"
#include "engine/session.h"
#include "onnx/file.h"

#include <stdlib.h>

// A model's file before ONNX Runtime reads it.

struct model {
    const char *path;
    const struct tachy_log *log;
    bool refused; // and logged
};

// ONNX Runtime 1.23 opens whatever file is named as weights; they must lie below the model's folder. It marks weights
// in its own memory by a location that begins with "*/"; no file may.
static bool may_name(const char *model, const char *location)
{
    const char *slash = strrchr(model, '/');
    char *path = tachy_asprintf("%.*s%s", slash ? (int)(slash - model + 1) : 0, model, location);
    char *real = realpath(model, NULL); // a download cache links to its files
    bool may = path && location[0] != '/' && strncmp(location, "*/", 2) != 0 &&
               (!tachy_path_outside(path, model) || (real && !tachy_path_outside(path, real)));
    free(real);
    tachy_free(path);
    return may;
}

static int check_location(void *user, const char *location)
{
    struct model *m = user;
    m->refused = !may_name(m->path, location);
    if (!m->refused)
        return TACHY_OK;
    return tachy_fail(m->log, TACHY_ERR_FORMAT,
                      "%s: has weights in %.200s, which does not lie below the model's folder; only files there are read",
                      m->path, location);
}

// A flat buffer of ONNX Runtime's own format, in which weights are no files.
static bool is_ort_format(const char *data, size_t size) { return size >= 8 && !memcmp(data + 4, "ORTM", 4); }

static int check_weights(const char *data, size_t size, const char *path, const struct tachy_log *log)
{
    struct model m = {.path = path, .log = log};
    int err = is_ort_format(data, size) ? TACHY_OK : onnx_each_location(data, size, check_location, &m);
    return err == TACHY_ERR_FORMAT && !m.refused
               ? tachy_fail(log, err, "%s: is no ONNX model, or it is damaged", path)
               : err;
}

static int fix(void **out, size_t *out_size, const char *data, size_t size, const struct tachy_session_params *p,
               const struct tachy_log *log)
{
    struct onnx_fix f = {.path = p->path, .shapes = p->shapes, .nb_shapes = p->nb_shapes, .constants = p->constants,
                         .nb_constants = p->nb_constants, .batch = p->batch};
    return onnx_fix_inputs(out, out_size, data, size, &f, log);
}

int tachy_session_file(void **data, size_t *size, const struct tachy_session_params *p,
                       int (*each)(void *user, const struct onnx_free_dim *d), void *user, const struct tachy_log *log)
{
    enum { MOST = INT32_MAX }; // of a protocol buffer
    char *file;
    size_t n;
    *data = NULL;
    *size = 0;
    int err = tachy_read_file(p->path, MOST, &file, &n, log);
    if (err < 0)
        return err;
    err = check_weights(file, n, p->path, log);
    if (err == TACHY_OK && tachy_session_fixes(p))
        err = fix(data, size, file, n, p, log);
    else if (err == TACHY_OK && !is_ort_format(file, n) && onnx_each_free_dim(file, n, each, user) == TACHY_ERR_NOMEM)
        err = TACHY_ERR_NOMEM; // what else is wrong ONNX Runtime says
    tachy_free(file);
    return err;
}
