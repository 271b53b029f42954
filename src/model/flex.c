#include "model/flex.h"

#include <string.h>

// Scalars are little-endian with 1, 2, 4 or 8 bytes; longer values are stored as an offset backwards from its own
// position. The last two bytes are the root's type and width; a type is its kind times four plus the logarithm of its
// elements' width.

enum { KIND_INT = 1, KIND_UINT = 2, KIND_FLOAT = 3, KIND_MAP = 9, KIND_INTS = 11, KIND_UINTS = 12 };

static bool is_width(uint64_t w) { return w == 1 || w == 2 || w == 4 || w == 8; }

static bool read_uint(const struct flex_map *m, size_t at, size_t width, uint64_t *v)
{
    *v = 0;
    if (at > m->size || m->size - at < width)
        return false;
    for (size_t k = width; k-- > 0;)
        *v = *v << 8 | m->data[at + k];
    return true;
}

static int64_t sign(uint64_t v, size_t width)
{
    unsigned shift = 64 - 8 * (unsigned)width;
    return (int64_t)(v << shift) >> shift;
}

// Follows the offset at `at`.
static bool follow(const struct flex_map *m, size_t at, size_t width, size_t *to)
{
    uint64_t back;
    if (!read_uint(m, at, width, &back) || back > at)
        return false;
    *to = at - (size_t)back;
    return true;
}

// The length before a vector, whose elements must lie within the bytes.
static bool length(const struct flex_map *m, size_t at, size_t width, size_t *n)
{
    uint64_t v;
    if (at < width || !read_uint(m, at - width, width, &v) || v > (m->size - at) / width)
        return false;
    *n = (size_t)v;
    return true;
}

bool flex_open(struct flex_map *m, const uint8_t *data, size_t size)
{
    uint64_t key_width;
    *m = (struct flex_map){.data = data, .size = size};
    if (!data || size < 3)
        return false;
    size_t root = data[size - 1], type = data[size - 2];
    m->width = (size_t)1 << (type & 3);
    if (type >> 2 != KIND_MAP || !is_width(root) || size < root + 2 || !follow(m, size - 2 - root, root, &m->at) ||
        !length(m, m->at, m->width, &m->n) || m->at < 3 * m->width || m->n > (m->size - m->at) / (m->width + 1))
        return false;
    size_t n;
    if (!follow(m, m->at - 3 * m->width, m->width, &m->keys) ||
        !read_uint(m, m->at - 2 * m->width, m->width, &key_width) || !is_width(key_width))
        return false;
    m->key_width = (size_t)key_width;
    return length(m, m->keys, m->key_width, &n) && n == m->n;
}

// Number of the value of this key; m->n: there is none.
static size_t find(const struct flex_map *m, const char *key)
{
    size_t i = 0, at, n = strlen(key) + 1;
    for (; i < m->n; i++)
        if (follow(m, m->keys + i * m->key_width, m->key_width, &at) && m->size - at >= n && !memcmp(m->data + at, key, n))
            break;
    return i;
}

static int type_of(const struct flex_map *m, size_t i) { return m->data[m->at + m->n * m->width + i]; }

double flex_number(const struct flex_map *m, const char *key, double def)
{
    size_t i = find(m, key);
    uint64_t v;
    if (i == m->n || !read_uint(m, m->at + i * m->width, m->width, &v))
        return def;
    switch (type_of(m, i) >> 2) {
    case KIND_INT: return (double)sign(v, m->width);
    case KIND_UINT: return (double)v;
    case KIND_FLOAT: break;
    default: return def;
    }
    if (m->width == 4) {
        uint32_t u = (uint32_t)v;
        float f;
        memcpy(&f, &u, sizeof(f));
        return (double)f;
    }
    double d;
    memcpy(&d, &v, sizeof(d));
    return m->width == 8 ? d : def;
}

int flex_ints(const struct flex_map *m, const char *key, int64_t *v, int max)
{
    size_t i = find(m, key), at, n;
    if (i == m->n)
        return -1;
    int type = type_of(m, i), kind = type >> 2;
    size_t width = (size_t)1 << (type & 3);
    if ((kind != KIND_INTS && kind != KIND_UINTS) || !follow(m, m->at + i * m->width, m->width, &at) ||
        !length(m, at, width, &n) || n > (size_t)max)
        return -1;
    for (size_t k = 0; k < n; k++) {
        uint64_t u = 0;
        read_uint(m, at + k * width, width, &u);
        v[k] = kind == KIND_INTS ? sign(u, width) : (int64_t)u;
    }
    return (int)n;
}
