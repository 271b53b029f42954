#include "stage/flow_cache.h"

#include "model/digest.h"

#include <unistd.h>

enum { HEAD = 12 }; // "PIEH", width, height; then u and v of each pixel, little-endian

int flow_cache_open(struct flow_cache *c, const char *folder, const struct tachy_log *log)
{
    c->log = log;
    if (!folder)
        return TACHY_OK;
    c->folder = tachy_asprintf("%s", folder);
    return c->folder ? tachy_make_folders(folder, log) : TACHY_ERR_NOMEM;
}

void flow_cache_close(struct flow_cache *c) { tachy_free(c->folder); }

static void add_picture(struct AVSHA *d, const struct flow_cache *c, struct flow_picture p)
{
    for (int y = 0; y < c->height; y++)
        digest_add(d, p.data + y * p.stride, (size_t)c->width);
}

char *flow_cache_path(const struct flow_cache *c, struct flow_picture before, struct flow_picture here)
{
    static const char how[] = "flow 1"; // another one if the flow of the same pictures becomes another
    int32_t extents[2] = {c->width, c->height};
    struct AVSHA *d = digest_new();
    char hex[65];
    if (!d)
        return NULL;
    digest_add(d, how, sizeof(how));
    digest_add(d, extents, sizeof(extents));
    add_picture(d, c, before);
    add_picture(d, c, here);
    digest_hex(&d, hex);
    return tachy_asprintf("%s/%s.flo", c->folder, hex);
}

size_t flow_cache_bytes(const struct flow_cache *c) { return HEAD + 2 * sizeof(float) * (size_t)c->width * (size_t)c->height; }

bool flow_cache_read(const struct flow_cache *c, const char *path, float *u, float *v)
{
    size_t n = (size_t)c->width * (size_t)c->height, size, whole = flow_cache_bytes(c);
    char *data;
    int32_t head[2];
    if (access(path, F_OK) < 0 || tachy_read_file(path, whole, &data, &size, NULL) < 0)
        return false;
    bool sound = size == whole && !memcmp(data, "PIEH", 4);
    memcpy(head, sound ? data + 4 : (const char *)head, sizeof(head));
    sound = sound && head[0] == c->width && head[1] == c->height;
    for (size_t i = 0; i < n && sound; i++) {
        memcpy(&u[i], data + HEAD + 8 * i, sizeof(float));
        memcpy(&v[i], data + HEAD + 8 * i + 4, sizeof(float));
    }
    tachy_free(data);
    return sound;
}

void flow_cache_write(struct flow_cache *c, const char *path, const float *u, const float *v, void *memory)
{
    size_t n = (size_t)c->width * (size_t)c->height;
    int32_t extents[2] = {c->width, c->height};
    memcpy(memory, "PIEH", 4);
    memcpy((char *)memory + 4, extents, sizeof(extents));
    float *to = (float *)memory + HEAD / sizeof(float);
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = u[i];
        to[2 * i + 1] = v[i];
    }
    int err = tachy_write_file(path, memory, flow_cache_bytes(c), NULL);
    if (err < 0 && !atomic_exchange(&c->told, true))
        tachy_msg(c->log, TACHY_LOG_WARN, "motion: %s cannot be written (%s); the run goes on without keeping flow", path, tachy_err_name(err));
}
