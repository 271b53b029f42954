#include "postprocess/regions.h"

#include <stdlib.h>

// Copies of regions with all that they point to: in another list, or as bytes.

enum { TEXT = -1 }; // extent of a part that ends with a zero, or that does not exist

// Goes through the parts of regions: each is `bytes` at *p, which becomes the copy.
struct copier {
    bool (*part)(struct copier *c, const void **p, size_t bytes);
    struct tachy_regions *to; // whose memory has the copies; NULL: they become bytes
    char *bytes;              // NULL: their number is counted only
    const char *from;         // bytes that are read, `size` of them
    size_t size;
    int err; // TACHY_ERR_NOMEM, TACHY_ERR_FORMAT
};

static bool failed(struct copier *c, int err)
{
    c->err = err;
    return false;
}

static size_t extent(const void *p, size_t bytes) { return bytes != (size_t)TEXT ? bytes : p ? strlen(p) + 1 : 0; }

static bool to_list(struct copier *c, const void **p, size_t bytes)
{
    size_t n = extent(*p, bytes);
    void *copy = n ? tachy_regions_alloc(c->to, n) : NULL;
    if (n && !copy)
        return failed(c, TACHY_ERR_NOMEM);
    if (copy)
        memcpy(copy, *p, n);
    *p = copy;
    return true;
}

static bool to_bytes(struct copier *c, const void **p, size_t bytes)
{
    uint64_t n = extent(*p, bytes);
    if (c->bytes) {
        memcpy(c->bytes + c->size, &n, sizeof(n));
        if (n)
            memcpy(c->bytes + c->size + sizeof(n), *p, n);
    }
    c->size += sizeof(n) + n;
    return true;
}

// Takes the next bytes in place: *n of them.
static bool take(struct copier *c, const char **at, uint64_t *n)
{
    if (c->size < sizeof(*n))
        return failed(c, TACHY_ERR_FORMAT);
    memcpy(n, c->from, sizeof(*n));
    *at = c->from + sizeof(*n);
    c->size -= sizeof(*n);
    if (*n > c->size)
        return failed(c, TACHY_ERR_FORMAT);
    c->from = *at + *n;
    c->size -= *n;
    return true;
}

static bool from_bytes(struct copier *c, const void **p, size_t bytes)
{
    const char *at;
    uint64_t n;
    if (!take(c, &at, &n))
        return false;
    if (bytes == (size_t)TEXT ? n && at[n - 1] : n != bytes)
        return failed(c, TACHY_ERR_FORMAT);
    *p = at;
    return to_list(c, p, n);
}

// Copies the data that a region points to. A mask has no gaps between its rows.
static bool parts(struct copier *c, struct tachy_region *r)
{
    const void *label = r->label, *points = r->points, *embedding = r->embedding, *values = r->values, *mask = r->mask.data;
    if (r->mask.width < 0 || r->mask.height < 0)
        return failed(c, TACHY_ERR_FORMAT);
    bool ok = c->part(c, &label, (size_t)TEXT) &&
              c->part(c, &points, sizeof(*r->points) * (size_t)r->nb_points) &&
              c->part(c, &embedding, sizeof(*r->embedding) * (size_t)r->nb_embedding) &&
              c->part(c, &values, sizeof(*r->values) * (size_t)r->nb_values) &&
              c->part(c, &mask, mask ? (size_t)r->mask.width * (size_t)r->mask.height : 0);
    r->label = label;
    r->points = points;
    r->embedding = embedding;
    r->values = values;
    r->mask.data = mask;
    for (int i = 0; i < r->nb_values && ok; i++) {
        struct tachy_named *v = (struct tachy_named *)(uintptr_t)&r->values[i];
        const void *name = v->name;
        ok = c->part(c, &name, (size_t)TEXT);
        if (c->to)
            v->name = name;
    }
    return ok;
}

static bool copy_mask(struct tachy_regions *to, struct tachy_mask *copy, const struct tachy_mask *m)
{
    *copy = *m;
    if (!m->data)
        return true;
    uint8_t *data = tachy_regions_alloc(to, (size_t)m->width * (size_t)m->height);
    for (int y = 0; data && y < m->height; y++)
        memcpy(data + (size_t)y * (size_t)m->width, m->data + y * m->stride, (size_t)m->width);
    copy->data = data;
    copy->stride = m->width;
    return data;
}

int tachy_regions_copy(struct tachy_regions *to, const struct tachy_region *from, int nb)
{
    struct copier c = {.part = to_list, .to = to};
    int before = to->nb;
    for (int i = 0; i < nb; i++) {
        struct tachy_region *r = tachy_regions_add(to);
        if (r) {
            *r = from[i];
            r->mask.data = NULL;
        }
        if (!r || !parts(&c, r) || !copy_mask(to, &r->mask, &from[i].mask)) {
            to->nb = before;
            return TACHY_ERR_NOMEM;
        }
    }
    return TACHY_OK;
}

static void write_lists(struct copier *c, const struct tachy_regions list[], int n)
{
    c->size = 0;
    for (int i = 0; i < n; i++) {
        const void *nb = &list[i].nb;
        c->part(c, &nb, sizeof(list[i].nb));
        for (int k = 0; k < list[i].nb; k++) {
            struct tachy_region r = list[i].v[k];
            const void *self = &r;
            c->part(c, &self, sizeof(r));
            parts(c, &r);
        }
    }
}

int tachy_regions_save(const struct tachy_regions list[], int n, void **data, size_t *size)
{
    struct copier c = {.part = to_bytes};
    write_lists(&c, list, n);
    *size = c.size;
    *data = c.bytes = malloc(c.size);
    if (!c.bytes)
        return TACHY_ERR_NOMEM;
    write_lists(&c, list, n);
    return TACHY_OK;
}

static bool read_whole(struct copier *c, void *to, size_t size)
{
    const char *at;
    uint64_t n;
    if (!take(c, &at, &n))
        return false;
    if (n != size)
        return failed(c, TACHY_ERR_FORMAT);
    memcpy(to, at, size);
    return true;
}

static bool read_list(struct copier *c)
{
    int nb;
    bool ok = read_whole(c, &nb, sizeof(nb));
    for (int i = 0; ok && i < nb; i++) {
        struct tachy_region *r = tachy_regions_add(c->to);
        ok = r ? read_whole(c, r, sizeof(*r)) && parts(c, r) : failed(c, TACHY_ERR_NOMEM);
    }
    return ok;
}

int tachy_regions_load(struct tachy_regions list[], int n, const void *data, size_t size)
{
    struct copier c = {.part = from_bytes, .from = data, .size = size};
    bool ok = true;
    for (int i = 0; i < n; i++)
        tachy_regions_clear(&list[i]);
    for (int i = 0; i < n && ok; i++) {
        c.to = &list[i];
        ok = read_list(&c);
    }
    if (ok && !c.size)
        return TACHY_OK;
    for (int i = 0; i < n; i++)
        tachy_regions_clear(&list[i]);
    return ok ? TACHY_ERR_FORMAT : c.err;
}
