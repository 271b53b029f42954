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
};

struct mask_chunk {
    struct mask_chunk *next;
    struct tachy_block device, host;
    size_t bytes;                   // of a piece
    struct segment_gpu_piece *free;
    struct segment_gpu_piece piece[];
};

struct segment_gpu_masks {
    struct tachy_memory *memory; // reference
    pthread_mutex_t lock;        // guards the chunks and their pieces
    struct mask_chunk *chunks;   // the one that a piece was last found in comes first
};

int segment_gpu_masks_open(struct segment_gpu_masks **out, struct tachy_memory *m)
{
    struct segment_gpu_masks *p = *out = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->memory = tachy_memory_ref(m);
    pthread_mutex_init(&p->lock, NULL);
    return TACHY_OK;
}

static void close_chunk(struct segment_gpu_masks *p, struct mask_chunk *c)
{
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
    if (tachy_memory_take(p->memory, &c->device, TACHY_DEVICE, TACHY_MEMORY_RESULTS, n * bytes) < 0 ||
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

int segment_gpu_ensure_eye(const struct segment *s, struct segment_eye *e, size_t bytes)
{
    bool guided = segment_needs_guide(s);
    size_t behind = TACHY_ALIGN(bytes, (size_t)ALIGN); // the mask lies the guide
    const struct tachy_cu *cu = s->gpu->device.cu;
    struct segment_gpu_eye *g = calloc(1, sizeof(*g));
    if (!g)
        return TACHY_ERR_NOMEM;
    e->gpu = g;
    g->gpu = tachy_gpu_ref(s->gpu);
    g->masks = s->masks;
    g->piece = take_piece(s->masks, guided ? behind + bytes : bytes);
    if (!g->piece)
        return TACHY_ERR_NOMEM;
    e->mask = g->piece->host;
    g->mask = g->piece->device;
    if (guided) {
        e->guide = e->mask + behind;
        g->guide = g->mask + behind;
    }
    int err = tachy_device_enter(&g->gpu->device, NULL);
    if (err < 0)
        return err;
    if (cu->event_create(&g->done, CUDA_EVENT_BLOCKS) != CUDA_OK)
        err = TACHY_ERR_NOMEM;
    tachy_device_leave(&g->gpu->device);
    return err;
}

void segment_gpu_eye_free(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    segment_gpu_settle(e); // what is being copied must have arrived before another gets the memory
    if (g->done && tachy_device_enter(&g->gpu->device, NULL) == TACHY_OK) {
        g->gpu->device.cu->event_destroy(g->done);
        tachy_device_leave(&g->gpu->device);
    }
    if (g->piece)
        put_piece(g->masks, g->piece);
    tachy_gpu_unref(&g->gpu);
    free(g);
    e->gpu = NULL;
    e->mask = e->guide = NULL;
}

int segment_gpu_settle(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    if (!g || !g->pending)
        return TACHY_OK;
    g->pending = false;
    return g->gpu->device.cu->event_wait(g->done) == CUDA_OK ? TACHY_OK : TACHY_ERR_EXTERNAL;
}

void segment_gpu_touched(struct segment_eye *e)
{
    if (e->gpu)
        e->gpu->stale = e->gpu->guide_stale = true;
}

int segment_gpu_eye_there(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log)
{
    struct segment_gpu_eye *g = e->gpu;
    const struct tachy_cu *cu = g->gpu->device.cu;
    size_t n = (size_t)e->width * (size_t)e->height;
    int status = g->stale && (!g->guide || g->guide_stale) ? CUDA_OK : cu->stream_wait_event(stream, g->done, 0);
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
        err = tachy_device_enter(&g->gpu->device, NULL);
    if (err < 0)
        return err;
    int status = g->gpu->device.cu->copy_to_host(e->guide, g->guide, (size_t)e->width * (size_t)e->height);
    tachy_device_leave(&g->gpu->device);
    return status == CUDA_OK ? TACHY_OK : TACHY_ERR_EXTERNAL;
}
