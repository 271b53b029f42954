#include "model/onnx.h"

#include "base/base.h"

#include <stdlib.h>

// The reader: walks the protobuf fields of the messages that matter and skips all others.

struct span {
    const uint8_t *at, *end;
    bool bad;
};

struct field {
    int number, type;
    uint64_t value;    // of a varint
    struct span bytes; // of a length-delimited field
};

static uint64_t varint(struct span *s)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (s->at == s->end)
            break;
        uint8_t b = *s->at++;
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return v;
    }
    s->bad = true;
    return 0;
}

// The next field; false at the end or where the bytes are damaged (s->bad).
static bool next(struct span *s, struct field *f)
{
    if (s->bad || s->at == s->end)
        return false;
    uint64_t key = varint(s);
    *f = (struct field){.number = (int)(key >> 3 & 0x1fffffff), .type = (int)(key & 7)};
    uint64_t left, size = 0;
    switch (f->type) {
    case 0:
        f->value = varint(s);
        return !s->bad;
    case 1:
        size = 8;
        break;
    case 2:
        size = varint(s);
        break;
    case 5:
        size = 4;
        break;
    default:
        s->bad = true;
    }
    left = (uint64_t)(s->end - s->at);
    if (s->bad || size > left) {
        s->bad = true;
        return false;
    }
    f->bytes = (struct span){s->at, s->at + size, false};
    s->at += size;
    return true;
}

static bool is_message(const struct field *f, int number)
{
    return f->number == number && f->type == 2;
}

static char *text(struct span s)
{
    size_t n = (size_t)(s.end - s.at);
    char *p = malloc(n + 1);
    if (p) {
        memcpy(p, s.at, n);
        p[n] = '\0';
    }
    return p;
}

struct reader {
    struct onnx_info *info;
    int err; // TACHY_OK, TACHY_ERR_FORMAT, TACHY_ERR_NOMEM
};

static void replace(struct reader *r, char **to, struct span s)
{
    free(*to);
    *to = text(s);
    if (!*to)
        r->err = TACHY_ERR_NOMEM;
}

// Room for one more element of an array that grows by doubling.
static bool room(struct reader *r, void *array, int n, size_t size)
{
    if (n & (n - 1)) // room for the next power of two is there already
        return true;
    void *p = realloc(*(void **)array, (size_t)(n ? 2 * n : 1) * size);
    if (!p) {
        r->err = TACHY_ERR_NOMEM;
        return false;
    }
    *(void **)array = p;
    return true;
}

static void check(struct reader *r, const struct span *s)
{
    if (s->bad && !r->err)
        r->err = TACHY_ERR_FORMAT;
}

static void read_shape(struct reader *r, struct span s, struct onnx_info_io *io)
{
    struct field dim, f;
    io->has_shape = true;
    io->shape.rank = 0;
    while (next(&s, &dim)) {
        if (!is_message(&dim, 1))
            continue;
        if (io->shape.rank == ONNX_MAX_RANK) {
            r->err = r->err ? r->err : TACHY_ERR_LIMIT;
            return;
        }
        int64_t *d = &io->shape.dim[io->shape.rank++];
        *d = -1;
        while (next(&dim.bytes, &f))
            if (f.number == 1 && f.type == 0)
                *d = (int64_t)f.value;
        check(r, &dim.bytes);
    }
    check(r, &s);
}

static void read_type(struct reader *r, struct span s, struct onnx_info_io *io)
{
    struct field type, f;
    while (next(&s, &type)) {
        if (!is_message(&type, 1)) // sequences, maps: no tensor
            continue;
        while (next(&type.bytes, &f)) {
            if (f.number == 1 && f.type == 0)
                io->dtype = (int)(f.value & 0xff);
            else if (is_message(&f, 2))
                read_shape(r, f.bytes, io);
        }
        check(r, &type.bytes);
    }
    check(r, &s);
}

static void read_io(struct reader *r, struct span s, struct onnx_info_io **list, int *n)
{
    if (!room(r, list, *n, sizeof(**list)))
        return;
    struct onnx_info_io *io = &(*list)[(*n)++];
    *io = (struct onnx_info_io){0};
    struct field f;
    while (next(&s, &f)) {
        if (is_message(&f, 1))
            replace(r, &io->name, f.bytes);
        else if (is_message(&f, 2))
            read_type(r, f.bytes, io);
    }
    check(r, &s);
    if (!io->name)
        replace(r, &io->name, (struct span){s.end, s.end, false});
}

static void read_initializer(struct reader *r, struct span s)
{
    struct onnx_info *info = r->info;
    if (!room(r, &info->initializers, info->n_initializers, sizeof(char *)))
        return;
    char **name = &info->initializers[info->n_initializers++];
    *name = NULL;
    struct field f;
    while (next(&s, &f))
        if (is_message(&f, 8))
            replace(r, name, f.bytes);
    check(r, &s);
    if (!*name)
        replace(r, name, (struct span){s.end, s.end, false});
}

static void read_graph(struct reader *r, struct span s)
{
    struct field f;
    while (!r->err && next(&s, &f)) {
        if (is_message(&f, 1))
            r->info->n_nodes++;
        else if (is_message(&f, 5))
            read_initializer(r, f.bytes);
        else if (is_message(&f, 11))
            read_io(r, f.bytes, &r->info->in, &r->info->n_in);
        else if (is_message(&f, 12))
            read_io(r, f.bytes, &r->info->out, &r->info->n_out);
    }
    check(r, &s);
}

static void read_opset(struct reader *r, struct span s)
{
    struct field f;
    int64_t version = 0;
    bool standard = true;
    while (next(&s, &f)) {
        if (is_message(&f, 1))
            standard = f.bytes.at == f.bytes.end ||
                       (f.bytes.end - f.bytes.at == 7 && !memcmp(f.bytes.at, "ai.onnx", 7));
        else if (f.number == 2 && f.type == 0)
            version = (int64_t)f.value;
    }
    check(r, &s);
    if (standard)
        r->info->opset = version;
}

static void read_model(struct reader *r, struct span s)
{
    struct field f;
    while (!r->err && next(&s, &f)) {
        if (f.number == 1 && f.type == 0)
            r->info->ir_version = (int64_t)f.value;
        else if (is_message(&f, 2))
            replace(r, &r->info->producer, f.bytes);
        else if (is_message(&f, 7))
            read_graph(r, f.bytes);
        else if (is_message(&f, 8))
            read_opset(r, f.bytes);
    }
    check(r, &s);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Files of IR version 3 list their weights among the inputs.
static int drop_initializers(struct onnx_info *info)
{
    size_t n = (size_t)info->n_initializers;
    char **sorted = malloc((n + 1) * sizeof(*sorted));
    if (!sorted)
        return TACHY_ERR_NOMEM;
    if (n) {
        memcpy(sorted, info->initializers, n * sizeof(*sorted));
        qsort(sorted, n, sizeof(*sorted), compare_names);
    }
    int kept = 0;
    for (int i = 0; i < info->n_in; i++) {
        if (n && bsearch(&info->in[i].name, sorted, n, sizeof(*sorted), compare_names))
            free(info->in[i].name);
        else
            info->in[kept++] = info->in[i];
    }
    info->n_in = kept;
    free(sorted);
    return TACHY_OK;
}

int onnx_read_info(struct onnx_info **out, const void *data, size_t size, const char *path,
                   const struct tachy_log *log)
{
    *out = NULL;
    struct reader r = {.info = calloc(1, sizeof(*r.info))};
    if (!r.info)
        return TACHY_ERR_NOMEM;
    const uint8_t *p = data;
    read_model(&r, (struct span){p, p + size, false});
    if (!r.err && (!r.info->ir_version || !r.info->n_out))
        r.err = TACHY_ERR_FORMAT;
    if (!r.err)
        r.err = drop_initializers(r.info);
    if (r.err == TACHY_ERR_FORMAT || r.err == TACHY_ERR_LIMIT)
        tachy_msg(log, TACHY_LOG_ERR, "%s: is no ONNX model, or is truncated or damaged", path);
    if (r.err)
        onnx_info_free(&r.info);
    *out = r.info;
    return r.err;
}

static void free_ios(struct onnx_info_io *io, int n)
{
    for (int i = 0; i < n; i++)
        free(io[i].name);
    free(io);
}

void onnx_info_free(struct onnx_info **info)
{
    struct onnx_info *i = *info;
    if (!i)
        return;
    free_ios(i->in, i->n_in);
    free_ios(i->out, i->n_out);
    for (int k = 0; k < i->n_initializers; k++)
        free(i->initializers[k]);
    free(i->initializers);
    free(i->producer);
    free(i);
    *info = NULL;
}
