#include "base/npy.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEAD = 10, ALIGN = 64 };
static const size_t most_bytes = (size_t)1 << 31;

struct tachy_npy tachy_npy_of(const struct tachy_tensor *t)
{
    struct tachy_npy a = {.kind = t->dtype == TACHY_F32 || t->dtype == TACHY_F16 ? 'f'
                                  : t->dtype == TACHY_U8                          ? 'u'
                                                                                  : 'i',
                          .size = (int)tachy_dtype_size(t->dtype),
                          .rank = t->rank,
                          .data = t->data,
                          .bytes = tachy_tensor_bytes(t)};
    memcpy(a.shape, t->shape, sizeof(a.shape));
    return a;
}

bool tachy_npy_fits(const struct tachy_npy *a, const struct tachy_tensor *t)
{
    struct tachy_npy want = tachy_npy_of(t);
    bool same = a->kind == want.kind && a->size == want.size && a->rank == want.rank;
    for (int i = 0; i < want.rank && same; i++)
        same = a->shape[i] == want.shape[i];
    return same && a->bytes == want.bytes;
}

size_t tachy_npy_header(char header[TACHY_NPY_HEADER], const struct tachy_npy *a)
{
    int n = snprintf(header + HEAD, TACHY_NPY_HEADER - HEAD,
                     "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", a->size > 1 ? '<' : '|',
                     a->kind, a->size);
    for (int i = 0; i < a->rank; i++)
        n += snprintf(header + HEAD + n, (size_t)(TACHY_NPY_HEADER - HEAD - n), "%lld,%s",
                      (long long)a->shape[i], i + 1 < a->rank ? " " : "");
    n += snprintf(header + HEAD + n, (size_t)(TACHY_NPY_HEADER - HEAD - n), "), }");
    size_t total = TACHY_ALIGN((size_t)(HEAD + n + 1), ALIGN);
    memset(header + HEAD + n, ' ', total - (size_t)(HEAD + n));
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - HEAD) & 255);
    header[9] = (char)((total - HEAD) >> 8);
    return total;
}

int tachy_npy_write(const char *path, const struct tachy_npy *a, const struct tachy_log *log)
{
    char header[TACHY_NPY_HEADER];
    size_t n = tachy_npy_header(header, a);
    char *all = malloc(n + a->bytes);
    if (!all)
        return TACHY_ERR_NOMEM;
    memcpy(all, header, n);
    if (a->bytes)
        memcpy(all + n, a->data, a->bytes);
    int err = tachy_write_file(path, all, n + a->bytes, log);
    free(all);
    return err;
}

// Behind "'key':" in the header, blanks passed; NULL: it has no such key.
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    at = at ? strchr(at + strlen(key), ':') : NULL;
    return at ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bool read_shape(struct tachy_npy *a, const char *at)
{
    char *end;
    if (!at || *at != '(')
        return false;
    for (at++; (at += strspn(at, " ,")), *at && *at != ')'; at = end) {
        long long n = strtoll(at, &end, 10);
        if (end == at || n < 0 || a->rank == TACHY_MAX_RANK)
            return false;
        a->shape[a->rank++] = n;
    }
    return *at == ')';
}

static bool read_type(struct tachy_npy *a, const char *at)
{
    if (!at || *at != '\'' || !at[1] || !strchr("<|=", at[1]) || !at[2] || !strchr("fiu", at[2]))
        return false;
    a->kind = at[2];
    a->size = at[3] - '0';
    bool known = a->size == 1 || a->size == 2 || a->size == 4 || a->size == 8;
    return known && at[4] == '\'' && !(a->kind == 'f' && a->size == 1);
}

// Bytes that type and shape make; SIZE_MAX: too many.
static size_t bytes_of(const struct tachy_npy *a)
{
    size_t n = (size_t)a->size;
    for (int i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(n, (size_t)a->shape[i], &n) || n > SIZE_MAX / 2)
            return SIZE_MAX;
    return n;
}

int tachy_npy_parse(struct tachy_npy *a, char *data, size_t size, const char *path,
                    const struct tachy_log *log)
{
    memset(a, 0, sizeof(*a));
    const unsigned char *u = (const unsigned char *)data;
    size_t head = size > HEAD && data[6] == 1 ? HEAD : 12;
    if (size <= 12 || memcmp(data, "\x93NUMPY", 6) || data[6] < 1 || data[6] > 3)
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: is no .npy file", path);
    size_t n = u[8] | (size_t)u[9] << 8;
    if (head == 12)
        n |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (n < 2 || n > size - head)
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: its header is cut off", path);
    data[head + n - 1] = '\0'; // its newline
    const char *order = value_of(data + head, "'fortran_order'");
    if (!order || !read_shape(a, value_of(data + head, "'shape'")))
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: its header is damaged", path);
    if (strncmp(order, "False", 5) || !read_type(a, value_of(data + head, "'descr'")))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "%s: must hold little-endian numbers in C order; save it with "
                          "numpy.ascontiguousarray()",
                          path);
    a->data = data + head + n;
    a->bytes = bytes_of(a);
    if (a->bytes != size - head - n)
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: has %zu bytes of data where its shape makes %zu",
                          path, size - head - n, a->bytes);
    return TACHY_OK;
}

int tachy_npy_read(struct tachy_npy *a, const char *path, const struct tachy_log *log)
{
    char *data = NULL;
    size_t size = 0;
    memset(a, 0, sizeof(*a));
    int err = tachy_read_file(path, most_bytes, &data, &size, log);
    if (err == TACHY_OK)
        err = tachy_npy_parse(a, data, size, path, log);
    if (err < 0) {
        tachy_free(data);
        memset(a, 0, sizeof(*a));
        return err;
    }
    a->file = data;
    return TACHY_OK;
}

void tachy_npy_free(struct tachy_npy *a)
{
    tachy_free(a->file);
    memset(a, 0, sizeof(*a));
}
