#include "pipeline/checkpoint.h"

#include <stdlib.h>

struct checkpoint_entry {
    int64_t id;
    int part;
    struct checkpoint_bytes bytes;
    struct checkpoint_entry *next;
};

// A block: `magic`, then the size of each part, then the parts.
struct head {
    uint64_t magic, size[CHECKPOINT_PARTS];
};

static const uint64_t magic = 0x3154505948434154; // "TACHYPT1"

void checkpoint_open(struct checkpoint *c)
{
    memset(c, 0, sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
}

void checkpoint_close(struct checkpoint *c)
{
    while (c->entries) {
        struct checkpoint_entry *e = c->entries;
        c->entries = e->next;
        free(e->bytes.data);
        free(e);
    }
    pthread_mutex_destroy(&c->lock);
}

int checkpoint_add(struct checkpoint *c, int64_t id, int part, struct checkpoint_bytes *b,
                   int err)
{
    struct checkpoint_entry *e = err < 0 ? NULL : calloc(1, sizeof(*e));
    if (err == TACHY_OK && !e)
        err = TACHY_ERR_NOMEM;
    pthread_mutex_lock(&c->lock);
    if (e) {
        *e = (struct checkpoint_entry){id, part, *b, c->entries};
        c->entries = e;
    } else if (!c->err) {
        c->err = err;
    }
    pthread_mutex_unlock(&c->lock);
    if (!e)
        free(b->data);
    *b = (struct checkpoint_bytes){0};
    return err;
}

static struct checkpoint_bytes remove_part(struct checkpoint *c, int64_t id, int part, bool *found)
{
    struct checkpoint_bytes b = {0};
    *found = false;
    pthread_mutex_lock(&c->lock);
    for (struct checkpoint_entry **at = &c->entries; *at; at = &(*at)->next) {
        struct checkpoint_entry *e = *at;
        if (e->id != id || e->part != part)
            continue;
        b = e->bytes;
        *found = true;
        *at = e->next;
        free(e);
        break;
    }
    pthread_mutex_unlock(&c->lock);
    return b;
}

static int join(const struct checkpoint_bytes part[CHECKPOINT_PARTS], struct checkpoint_bytes *all)
{
    struct head h = {.magic = magic};
    all->size = sizeof(h);
    for (int i = 0; i < CHECKPOINT_PARTS; i++) {
        h.size[i] = part[i].size;
        all->size += part[i].size;
    }
    char *to = all->data = malloc(all->size);
    if (!to)
        return TACHY_ERR_NOMEM;
    memcpy(to, &h, sizeof(h));
    to += sizeof(h);
    for (int i = 0; i < CHECKPOINT_PARTS; i++) {
        if (part[i].size)
            memcpy(to, part[i].data, part[i].size);
        to += part[i].size;
    }
    return TACHY_OK;
}

int checkpoint_take(struct checkpoint *c, int64_t id, struct checkpoint_bytes *all)
{
    struct checkpoint_bytes part[CHECKPOINT_PARTS] = {0};
    *all = (struct checkpoint_bytes){0};
    pthread_mutex_lock(&c->lock);
    int err = c->err;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < CHECKPOINT_PARTS && err == TACHY_OK; i++) {
        bool found = false;
        if (c->parts >> i & 1)
            part[i] = remove_part(c, id, i, &found);
        if (c->parts >> i & 1 && !found)
            err = TACHY_ERR_STATE;
    }
    if (err == TACHY_OK && c->parts)
        err = join(part, all);
    for (int i = 0; i < CHECKPOINT_PARTS; i++)
        free(part[i].data);
    return err;
}

int checkpoint_split(const struct checkpoint *c, const void *data, size_t size,
                     struct checkpoint_bytes part[CHECKPOINT_PARTS])
{
    struct head h;
    if (size < sizeof(h))
        return TACHY_ERR_FORMAT;
    memcpy(&h, data, sizeof(h));
    const char *at = (const char *)data + sizeof(h);
    size_t left = size - sizeof(h);
    for (int i = 0; i < CHECKPOINT_PARTS; i++) {
        bool wanted = c->parts >> i & 1;
        if (h.size[i] > left || (!wanted && h.size[i]))
            return TACHY_ERR_FORMAT;
        part[i] = (struct checkpoint_bytes){(void *)(uintptr_t)at, h.size[i]};
        at += h.size[i];
        left -= h.size[i];
    }
    return h.magic == magic && !left ? TACHY_OK : TACHY_ERR_FORMAT;
}
