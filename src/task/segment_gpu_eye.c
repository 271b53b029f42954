#include "task/segment_gpu_eye.h"

#include <stdlib.h>

enum {
    CHUNK_BYTES = 4 << 20, // about, of each place
    ALIGN = 256,
};

struct segment_gpu_piece {
    struct segment_gpu_piece *next; // while it is free
    struct mask_chunk *of;
    cuda_address device;
    uint8_t *host;
    cuda_event done;
};

struct mask_chunk {
    struct mask_chunk *next;
    struct tachy_block device, host;
    size_t bytes, nb;               // of a piece; pieces
    struct segment_gpu_piece *free;
    struct segment_gpu_piece piece[];
};

struct segment_gpu_masks {
    struct tachy_memory *memory; // reference
    struct tachy_gpu *gpu;       // reference
    pthread_mutex_t lock;        // guards the chunks and their pieces
    struct mask_chunk *chunks;   // the one that a piece was last found in comes first
};

int segment_gpu_masks_open(struct segment_gpu_masks **out, struct tachy_memory *m, struct tachy_gpu *g)
{
    struct segment_gpu_masks *p = *out = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->memory = tachy_memory_ref(m);
    p->gpu = tachy_gpu_ref(g);
    pthread_mutex_init(&p->lock, NULL);
    return TACHY_OK;
}

static void close_chunk(struct segment_gpu_masks *p, struct mask_chunk *c)
{
    struct tachy_device *d = &p->gpu->device;
    bool in = tachy_device_enter(d, NULL) == TACHY_OK;
    for (size_t i = 0; i < c->nb; i++)
        if (in && c->piece[i].done)
            d->cu->event_destroy(c->piece[i].done);
    if (in)
        tachy_device_leave(d);
    tachy_memory_give(p->memory, &c->device);
    tachy_memory_give(p->memory, &c->host);
    free(c);
}

void segment_gpu_masks_close(struct segment_gpu_masks **masks)
{
    struct segment_gpu_masks *p = *masks;
    *masks = NULL;
    if (!p)
        return;
    for (struct mask_chunk *c = p->chunks, *next; c; c = next) {
        next = c->next;
        close_chunk(p, c);
    }
    pthread_mutex_destroy(&p->lock);
    tachy_memory_close(&p->memory);
    tachy_gpu_unref(&p->gpu);
    free(p);
}

// `bytes`: of a piece, a multiple of ALIGN.
static struct mask_chunk *open_chunk(struct segment_gpu_masks *p, size_t bytes)
{
    size_t n = TACHY_MAX(CHUNK_BYTES / bytes, (size_t)1);
    struct mask_chunk *c = calloc(1, sizeof(*c) + n * sizeof(c->piece[0]));
    if (!c)
        return NULL;
    c->bytes = bytes;
    c->nb = n;
    if (tachy_memory_take(p->memory, &c->device, tachy_place_of_gpu(p->gpu->device.ordinal), TACHY_MEMORY_RESULTS, n * bytes) < 0 ||
        tachy_memory_take(p->memory, &c->host, TACHY_PINNED, TACHY_MEMORY_RESULTS, n * bytes) < 0) {
        close_chunk(p, c);
        return NULL;
    }
    for (size_t i = n; i-- > 0;) {
        c->piece[i] = (struct segment_gpu_piece){.next = c->free,
                                                 .of = c,
                                                 .device = (cuda_address)(uintptr_t)c->device.data + i * bytes,
                                                 .host = (uint8_t *)c->host.data + i * bytes};
        c->free = &c->piece[i];
    }
    return c;
}

static struct segment_gpu_piece *take_piece(struct segment_gpu_masks *p, size_t bytes)
{
    struct segment_gpu_piece *piece = NULL;
    bytes = TACHY_ALIGN(bytes, (size_t)ALIGN);
    pthread_mutex_lock(&p->lock);
    struct mask_chunk **at = &p->chunks;
    while (*at && ((*at)->bytes != bytes || !(*at)->free))
        at = &(*at)->next;
    struct mask_chunk *c = *at;
    if (c)
        *at = c->next;
    else
        c = open_chunk(p, bytes);
    if (c) {
        c->next = p->chunks;
        p->chunks = c;
        piece = c->free;
        c->free = piece->next;
    }
    pthread_mutex_unlock(&p->lock);
    return piece;
}

static void put_piece(struct segment_gpu_masks *p, struct segment_gpu_piece *piece)
{
    pthread_mutex_lock(&p->lock);
    piece->next = piece->of->free;
    piece->of->free = piece;
    pthread_mutex_unlock(&p->lock);
}

// The piece's event is made with its first use.
static int make_event(struct segment_gpu_masks *p, struct segment_gpu_piece *piece)
{
    struct tachy_device *d = &p->gpu->device;
    int err = piece->done ? TACHY_OK : tachy_device_enter(d, NULL);
    if (err < 0 || piece->done)
        return err;
    err = d->cu->event_create(&piece->done, CUDA_EVENT_BLOCKS) == CUDA_OK ? TACHY_OK : TACHY_ERR_NOMEM;
    tachy_device_leave(d);
    return err;
}

// Gives the eye memory of a card in the place of what it has, `kept` bytes of whose host side are
// copied. Failures leave it as it was.
static int take(struct segment_eye *e, struct segment_card *c, size_t bytes, size_t kept)
{
    struct segment_gpu_eye *g = e->gpu;
    struct segment_gpu_piece *piece = take_piece(c->masks, bytes);
    int err = piece ? make_event(c->masks, piece) : TACHY_ERR_NOMEM;
    if (err < 0) {
        if (piece)
            put_piece(c->masks, piece);
        return err;
    }
    if (kept)
        memcpy(piece->host, e->mask, kept);
    if (g->piece)
        put_piece(g->card->masks, g->piece);
    g->card = c;
    g->piece = piece;
    g->mask = piece->device;
    g->done = piece->done;
    e->mask = piece->host;
    return TACHY_OK;
}

int segment_gpu_ensure_eye(const struct segment *s, struct segment_eye *e, size_t bytes)
{
    e->gpu = calloc(1, sizeof(*e->gpu));
    return e->gpu ? take(e, s->cards, bytes, 0) : TACHY_ERR_NOMEM;
}

int segment_gpu_eye_move(struct segment_eye *e, struct segment_card *to, bool keep)
{
    size_t n = (size_t)e->width * (size_t)e->height;
    if (e->gpu->card == to)
        return TACHY_OK;
    int err = segment_gpu_settle(e);
    if (err == TACHY_OK)
        err = take(e, to, n, keep ? n : 0);
    if (err == TACHY_OK)
        e->gpu->stale = keep;
    return err;
}

void segment_gpu_eye_free(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    segment_gpu_settle(e); // what is being copied must have arrived before another gets the memory
    if (g->piece)
        put_piece(g->card->masks, g->piece);
    free(g);
    e->gpu = NULL;
    e->mask = NULL;
}

int segment_gpu_settle(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    if (!g || !g->pending)
        return TACHY_OK;
    g->pending = false;
    return g->card->gpu->device.cu->event_wait(g->done) == CUDA_OK ? TACHY_OK : TACHY_ERR_EXTERNAL;
}

void segment_gpu_touched(struct segment_eye *e)
{
    if (e->gpu)
        e->gpu->stale = true;
}
