#include "task/segment_gpu_eye.h"

#include "task/segment_gpu_flight.h"

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

// Counts begin at 0.
static int clear(struct tachy_device *d, const struct mask_chunk *c, size_t bytes)
{
    int err = tachy_device_enter(d, NULL);
    if (err < 0)
        return err;
    memset(c->host.data, 0, bytes);
    int status = d->cu->copy_to_device((cuda_address)(uintptr_t)c->device.data, c->host.data, bytes);
    tachy_device_leave(d);
    return status == CUDA_OK ? TACHY_OK : TACHY_ERR_EXTERNAL;
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
    enum tachy_place device = tachy_place_of_gpu(p->gpu->device.ordinal);
    if (tachy_memory_take(p->memory, &c->device, device, TACHY_MEMORY_RESULTS, n * bytes) < 0 ||
        tachy_memory_take(p->memory, &c->host, TACHY_PINNED, TACHY_MEMORY_RESULTS, n * bytes) < 0 ||
        clear(&p->gpu->device, c, n * bytes) < 0) {
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
    err = d->cu->event_create(&piece->done, CUDA_EVENT_ORDERS) == CUDA_OK ? TACHY_OK : TACHY_ERR_NOMEM;
    tachy_device_leave(d);
    return err;
}

// Gives the eye memory of a card in the place of what it has; `keep`: with what the host's side holds.
// Failures leave it as it was.
static int take(struct segment_eye *e, struct segment_card *c, size_t bytes, bool keep)
{
    struct segment_gpu_eye *g = e->gpu;
    size_t count_at = TACHY_ALIGN(bytes, sizeof(uint32_t)); // close to the mask, for one copy of both
    size_t behind = TACHY_ALIGN(count_at + sizeof(uint32_t), (size_t)ALIGN); // lies the guide
    struct segment_gpu_piece *piece = take_piece(c->masks, g->guided ? behind + bytes : behind);
    int err = piece ? make_event(c->masks, piece) : TACHY_ERR_NOMEM;
    if (err < 0) {
        if (piece)
            put_piece(c->masks, piece);
        return err;
    }
    if (keep)
        memcpy(piece->host, e->mask, bytes);
    if (keep && g->guided)
        memcpy(piece->host + behind, e->guide, bytes);
    if (g->piece)
        put_piece(g->card->masks, g->piece);
    g->card = c;
    g->piece = piece;
    g->done = piece->done;
    g->by = NULL;
    g->unfetched = false;
    e->mask = piece->host;
    g->mask = piece->device;
    g->counted = g->mask + count_at;
    g->counted_host = (void *)(e->mask + count_at);
    e->guide = g->guided ? e->mask + behind : NULL;
    g->guide = g->guided ? g->mask + behind : 0;
    return TACHY_OK;
}

int segment_gpu_ensure_eye(const struct segment *s, struct segment_eye *e, size_t bytes)
{
    e->gpu = calloc(1, sizeof(*e->gpu));
    if (!e->gpu)
        return TACHY_ERR_NOMEM;
    e->gpu->guided = segment_needs_guide(s);
    return take(e, s->cards, bytes, false);
}

int segment_gpu_eye_move(struct segment_eye *e, struct segment_card *to, bool keep)
{
    struct segment_gpu_eye *g = e->gpu;
    if (g->card == to)
        return TACHY_OK;
    int err = keep ? segment_gpu_guide_settle(e) : TACHY_OK;
    if (err == TACHY_OK)
        err = segment_gpu_settle(e);
    if (err == TACHY_OK)
        err = take(e, to, (size_t)e->width * (size_t)e->height, keep);
    if (err == TACHY_OK)
        g->stale = g->guide_stale = keep;
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
    e->mask = e->guide = NULL;
}

int segment_gpu_eye_fetch(struct segment_eye *e, bool with_count, cuda_stream stream, const struct tachy_log *log)
{
    struct segment_gpu_eye *g = e->gpu;
    const struct tachy_cu *cu = g->card->gpu->device.cu;
    uint8_t *to = g->unfetched ? e->mask : (uint8_t *)g->counted_host;
    uint8_t *end = with_count ? (uint8_t *)(g->counted_host + 1) : e->mask + (size_t)e->width * (size_t)e->height;
    if (!with_count && !g->unfetched)
        return TACHY_OK;
    g->unfetched = false;
    cuda_address from = g->mask + (cuda_address)(to - e->mask);
    return tachy_cu_check(cu, cu->copy_to_host_async(to, from, (size_t)(end - to), stream), log, "a mask's copy");
}

// On the stream that made the mask, behind what else has been put there by now.
static int fetch_late(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    struct tachy_device *d = &g->card->gpu->device;
    int err = tachy_device_enter(d, NULL);
    if (err < 0)
        return err;
    err = segment_gpu_eye_fetch(e, false, g->by, NULL);
    if (err == TACHY_OK)
        err = tachy_cu_check(d->cu, d->cu->event_record(g->done, g->by), NULL, "an event");
    tachy_device_leave(d);
    return err;
}

int segment_gpu_settle(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    if (!g || !g->pending)
        return TACHY_OK;
    g->pending = false;
    int err = g->unfetched ? fetch_late(e) : TACHY_OK;
    return err < 0 ? err : segment_gpu_event_wait(g->card->gpu, g->done);
}

void segment_gpu_touched(struct segment_eye *e)
{
    if (e->gpu)
        e->gpu->stale = e->gpu->guide_stale = true;
}

int segment_gpu_eye_written(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log)
{
    struct segment_gpu_eye *g = e->gpu;
    const struct tachy_cu *cu = g->card->gpu->device.cu;
    g->by = stream;
    int err = tachy_cu_check(cu, cu->event_record(g->done, stream), log, "an event");
    g->pending = err == TACHY_OK;
    return err;
}

int segment_gpu_eye_there(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log)
{
    struct segment_gpu_eye *g = e->gpu;
    const struct tachy_cu *cu = g->card->gpu->device.cu;
    size_t n = (size_t)e->width * (size_t)e->height;
    bool ordered = stream == g->by || (g->stale && (!g->guide || g->guide_stale));
    int status = ordered ? CUDA_OK : cu->stream_wait_event(stream, g->done, 0);
    if (status == CUDA_OK && g->stale)
        status = cu->copy_to_device_async(g->mask, e->mask, n, stream);
    if (status == CUDA_OK && g->guide && g->guide_stale)
        status = cu->copy_to_device_async(g->guide, e->guide, n, stream);
    return tachy_cu_check(cu, status, log, "the mask's way to the GPU");
}

int segment_gpu_guide_settle(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    if (!g || !g->guide || g->guide_stale)
        return TACHY_OK;
    int err = segment_gpu_settle(e);
    if (err == TACHY_OK)
        err = tachy_device_enter(&g->card->gpu->device, NULL);
    if (err < 0)
        return err;
    int status = g->card->gpu->device.cu->copy_to_host(e->guide, g->guide, (size_t)e->width * (size_t)e->height);
    tachy_device_leave(&g->card->gpu->device);
    return status == CUDA_OK ? TACHY_OK : TACHY_ERR_EXTERNAL;
}
