#include "stage/mask_cuda.h"

#include "cuda/mem.h"

#include <pthread.h>

#include <stdlib.h>

enum {
    CHUNK_BYTES = 4 << 20, // about, of each place
    ALIGN = 256,
};

struct mask_piece {
    struct mask_piece *next; // free one
    size_t bytes;
    cuda_address device;
    uint8_t *host;
    bool used, miscounted; // miscounted: the device's count is not the host's
    size_t count_at;       // its offset
    cuda_event done; // NULL before its first use
};

struct mask_chunk {
    struct mask_chunk *next;
    struct tachy_block device, host;
    size_t nb; // pieces
    struct mask_piece piece[];
};

struct mask_pieces {
    struct tachy_memory *memory; // reference
    struct tachy_gpu *gpu;       // reference
    pthread_mutex_t lock;        // guards the lists
    struct mask_chunk *chunks;
    struct mask_piece *free;
};

int mask_pieces_open(struct mask_pieces **out, struct tachy_memory *m, struct tachy_gpu *g)
{
    struct mask_pieces *p = *out = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->memory = tachy_memory_ref(m);
    p->gpu = tachy_gpu_ref(g);
    pthread_mutex_init(&p->lock, NULL);
    return TACHY_OK;
}

static void close_chunk(struct mask_pieces *p, struct mask_chunk *c)
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

void mask_pieces_close(struct mask_pieces **masks)
{
    struct mask_pieces *p = *masks;
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

// Counts on the device begin at 0.
static int clear(struct tachy_device *d, const struct mask_chunk *c, size_t bytes, const struct tachy_log *log)
{
    int err = tachy_device_enter(d, log);
    if (err < 0)
        return err;
    int status = d->cu->fill(tachy_cu_address(c->device.data), 0, bytes);
    if (status == CUDA_OK)
        status = d->cu->stream_wait(NULL);
    tachy_device_leave(d);
    return tachy_cu_check(d->cu, status, log, "memory for masks");
}

// More free pieces of `bytes`, a multiple of ALIGN.
static int add_chunk(struct mask_pieces *p, size_t bytes)
{
    size_t n = TACHY_MAX(CHUNK_BYTES / bytes, (size_t)1);
    struct mask_chunk *c = calloc(1, sizeof(*c) + n * sizeof(c->piece[0]));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->nb = n;
    enum tachy_mem device = tachy_mem_of_gpu(p->gpu->device.ordinal);
    int err = tachy_memory_take(p->memory, &c->device, device, TACHY_MEMORY_RESULTS, n * bytes);
    if (err == TACHY_OK)
        err = tachy_memory_take(p->memory, &c->host, TACHY_PINNED, TACHY_MEMORY_RESULTS, n * bytes);
    if (err == TACHY_OK)
        err = clear(&p->gpu->device, c, n * bytes, tachy_memory_log(p->memory));
    if (err < 0) {
        close_chunk(p, c);
        return err;
    }
    c->next = p->chunks;
    p->chunks = c;
    for (size_t i = n; i-- > 0;) {
        c->piece[i] = (struct mask_piece){.next = p->free, .bytes = bytes,
                                                 .device = tachy_cu_address(c->device.data) + i * bytes,
                                                 .host = (uint8_t *)c->host.data + i * bytes};
        p->free = &c->piece[i];
    }
    return TACHY_OK;
}

static struct mask_piece **find_free(struct mask_pieces *p, size_t bytes)
{
    struct mask_piece **at = &p->free;
    while (*at && (*at)->bytes != bytes)
        at = &(*at)->next;
    return at;
}

static int take_piece(struct mask_pieces *p, size_t bytes, struct mask_piece **out)
{
    bytes = TACHY_ALIGN(bytes, (size_t)ALIGN);
    pthread_mutex_lock(&p->lock);
    struct mask_piece **at = find_free(p, bytes);
    int err = *at ? TACHY_OK : add_chunk(p, bytes);
    if (err == TACHY_OK) {
        at = *at ? at : &p->free;
        *out = *at;
        *at = (*out)->next;
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

static void put_piece(struct mask_pieces *p, struct mask_piece *piece)
{
    pthread_mutex_lock(&p->lock);
    piece->next = p->free;
    p->free = piece;
    pthread_mutex_unlock(&p->lock);
}

// Layout of an eye's bytes in a piece.
struct inside {
    size_t count, guide, all; // offsets of the count and the guide; size of the piece
};

static struct inside inside(const struct tachy_mask_there *g, size_t bytes)
{
    size_t count = TACHY_ALIGN(bytes, sizeof(uint32_t)); // close to the mask, for one copy of both
    size_t guide = TACHY_ALIGN(count + sizeof(uint32_t), (size_t)ALIGN);
    return (struct inside){count, guide, g->guided ? guide + bytes : guide};
}

static void set_piece(struct tachy_mask_eye *e, struct task_device *c, struct mask_piece *piece, const struct inside *in)
{
    struct tachy_mask_there *g = e->there;
    g->device = c;
    g->piece = piece;
    g->by = NULL;
    g->flight = NULL;
    g->unfetched = false;
    e->mask = piece->host;
    g->mask = piece->device;
    g->counted = g->mask + in->count;
    g->counted_host = (void *)(e->mask + in->count);
    if (!piece->used)
        *g->counted_host = 0;
    piece->miscounted |= piece->used && piece->count_at != in->count; // something else was there
    piece->count_at = in->count;
    piece->used = true;
    e->guide = g->guided ? e->mask + in->guide : NULL;
    g->guide = g->guided ? g->mask + in->guide : 0;
}

// Gives the eye memory of a device in the place of what it has; `keep`: with what the host's side holds.
// Failures leave it as it was.
static int take(struct tachy_mask_eye *e, struct task_device *c, size_t bytes, bool keep)
{
    struct tachy_mask_there *g = e->there;
    struct inside in = inside(g, bytes);
    struct mask_piece *piece = NULL;
    int err = take_piece(c->masks, in.all, &piece);
    if (err < 0)
        return err;
    if (keep)
        memcpy(piece->host, e->mask, bytes);
    if (keep && g->guided)
        memcpy(piece->host + in.guide, e->guide, bytes);
    if (g->piece)
        put_piece(g->device->masks, g->piece);
    set_piece(e, c, piece, &in);
    return TACHY_OK;
}

int mask_there_room(const struct tachy_masks *m, struct tachy_mask_eye *e, int width, int height)
{
    if (e->mask && e->width == width && e->height == height)
        return TACHY_OK;
    if (e->there)
        mask_there_free(e);
    e->width = width;
    e->height = height;
    e->there = calloc(1, sizeof(*e->there));
    if (!e->there)
        return TACHY_ERR_NOMEM;
    e->there->guided = m->guided;
    int err = take(e, m->st->task->devices->list, (size_t)width * (size_t)height, false);
    if (err < 0)
        mask_there_free(e); // the next try must not take the half for the whole
    return err;
}

int mask_there_move(struct tachy_mask_eye *e, struct task_device *to, bool keep)
{
    struct tachy_mask_there *g = e->there;
    if (g->device == to)
        return TACHY_OK;
    int err = keep ? mask_there_sync_guide(e) : TACHY_OK;
    if (err == TACHY_OK)
        err = mask_there_sync(e);
    if (err == TACHY_OK)
        err = take(e, to, (size_t)e->width * (size_t)e->height, keep);
    if (err == TACHY_OK)
        g->stale = g->guide_stale = keep;
    return err;
}

void mask_there_free(struct tachy_mask_eye *e)
{
    struct tachy_mask_there *g = e->there;
    mask_there_sync(e); // what is being copied must have arrived before another gets the memory
    if (g->piece)
        put_piece(g->device->masks, g->piece);
    free(g);
    e->there = NULL;
    e->mask = e->guide = NULL;
}

int mask_there_to_fetch(struct tachy_mask_eye *e, bool with_count, struct tachy_gpu_plane *p)
{
    struct tachy_mask_there *g = e->there;
    uint8_t *to = g->unfetched ? e->mask : (uint8_t *)g->counted_host;
    uint8_t *end = with_count ? (uint8_t *)(g->counted_host + 1) : e->mask + (size_t)e->width * (size_t)e->height;
    if (!with_count && !g->unfetched)
        return 0;
    g->unfetched = false;
    *p = (struct tachy_gpu_plane){.from = (const uint8_t *)(uintptr_t)g->mask + (to - e->mask), .to = to,
                                  .width = (size_t)(end - to), .height = 1, .from_gpu = true};
    return 1;
}

int mask_there_count_from(struct tachy_mask_eye *e, cuda_stream stream, const struct tachy_log *log, uint32_t *from)
{
    struct tachy_mask_there *g = e->there;
    const struct tachy_cu *cu = g->device->gpu->device.cu;
    *from = g->piece->miscounted ? 0 : *g->counted_host; // the device's only grows
    if (!g->piece->miscounted)
        return TACHY_OK;
    int err = tachy_cu_check(cu, cu->fill_async(g->counted, 0, sizeof(*from), stream), log, "clearing a count");
    g->piece->miscounted = err < 0;
    return err;
}

void mask_there_miscounts(struct tachy_mask_eye *e)
{
    if (e->there && e->there->piece)
        e->there->piece->miscounted = true;
}

// Records on a stream, whose context is current, what `done` is.
static int record(struct tachy_mask_there *g, cuda_stream stream, const struct tachy_log *log)
{
    const struct tachy_cu *cu = g->device->gpu->device.cu;
    int status = g->piece->done ? CUDA_OK : cu->event_create(&g->piece->done, CUDA_EVENT_ORDERS);
    g->flight = NULL;
    return tachy_cu_check(cu, status == CUDA_OK ? cu->event_record(g->piece->done, stream) : status, log, "an event");
}

static const struct tachy_log *log_of(const struct tachy_mask_there *g) { return tachy_memory_log(g->device->masks->memory); }

// On the stream that made the mask, after everything queued there meanwhile.
static int fetch_late(struct tachy_mask_eye *e)
{
    struct tachy_mask_there *g = e->there;
    struct tachy_gpu_plane mask;
    struct tachy_device *d = &g->device->gpu->device;
    int err = tachy_device_enter(d, log_of(g));
    if (err < 0)
        return err;
    err = tachy_gpu_copy(d, &mask, mask_there_to_fetch(e, false, &mask), g->by, false, log_of(g));
    if (err == TACHY_OK)
        err = record(g, g->by, log_of(g));
    g->flight = NULL;
    tachy_device_leave(d);
    return err;
}

int mask_there_sync(struct tachy_mask_eye *e)
{
    struct tachy_mask_there *g = e->there;
    if (!g || !g->pending)
        return TACHY_OK;
    g->pending = false;
    int err = g->unfetched ? fetch_late(e) : TACHY_OK;
    if (err < 0)
        return err;
    return g->flight ? device_flight_wait(g->flight, g->part)
                     : device_event_wait(g->device->gpu, g->piece->done, log_of(g));
}

void mask_there_touched(struct tachy_mask_eye *e)
{
    if (e->there)
        e->there->stale = e->there->guide_stale = true;
}

void mask_there_flies(struct tachy_mask_eye *e, cuda_stream stream, struct device_flight *f, uint64_t part)
{
    e->there->by = stream;
    e->there->flight = f;
    e->there->part = part;
    e->there->pending = true;
}

int mask_there_ready(struct tachy_mask_eye *e, cuda_stream stream, const struct tachy_log *log)
{
    struct tachy_mask_there *g = e->there;
    const struct tachy_cu *cu = g->device->gpu->device.cu;
    size_t n = (size_t)e->width * (size_t)e->height;
    bool ordered = stream == g->by || (g->stale && (!g->guide || g->guide_stale));
    if (!ordered && g->flight) {
        int err = device_flight_follow(g->flight, g->part, stream);
        if (err < 0)
            return err;
        ordered = true;
    }
    int status = ordered ? CUDA_OK : cu->stream_wait_event(stream, g->piece->done, 0);
    if (status == CUDA_OK && g->stale)
        status = cu->copy_to_device_async(g->mask, e->mask, n, stream);
    if (status == CUDA_OK && g->guide && g->guide_stale)
        status = cu->copy_to_device_async(g->guide, e->guide, n, stream);
    return tachy_cu_check(cu, status, log, "the mask's way to the GPU");
}

int mask_there_sync_guide(struct tachy_mask_eye *e)
{
    struct tachy_mask_there *g = e->there;
    if (!g || !g->guide || g->guide_stale)
        return TACHY_OK;
    int err = mask_there_sync(e);
    if (err == TACHY_OK)
        err = tachy_device_enter(&g->device->gpu->device, log_of(g));
    if (err < 0)
        return err;
    const struct tachy_cu *cu = g->device->gpu->device.cu;
    err = tachy_cu_check(cu, cu->copy_to_host(e->guide, g->guide, (size_t)e->width * (size_t)e->height), log_of(g), "a copy");
    tachy_device_leave(&g->device->gpu->device);
    return err;
}
