#include "task/segment_gpu_eye.h"

#include "task/segment_gpu_flight.h"

#include <stdlib.h>

enum {
    CHUNK_BYTES = 4 << 20, // about, of each place
    ALIGN = 256,
};

struct segment_gpu_piece {
    struct mask_chunk *of;
    bool taken;
    cuda_address device;
    uint8_t *host;
    cuda_event done;
};

struct mask_chunk {
    struct mask_chunk *next;
    struct tachy_block device, host;
    size_t bytes, nb, nb_free;      // of a piece; pieces
    size_t first;                   // no piece before this one is free
    struct segment_gpu_piece piece[];
};

struct segment_gpu_masks {
    struct tachy_memory *memory; // reference
    struct tachy_gpu *gpu;       // reference
    pthread_mutex_t lock;        // guards the chunks and their pieces
    struct mask_chunk *chunks;
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
    c->nb = c->nb_free = n;
    enum tachy_place device = tachy_place_of_gpu(p->gpu->device.ordinal);
    if (tachy_memory_take(p->memory, &c->device, device, TACHY_MEMORY_RESULTS, n * bytes) < 0 ||
        tachy_memory_take(p->memory, &c->host, TACHY_PINNED, TACHY_MEMORY_RESULTS, n * bytes) < 0 ||
        clear(&p->gpu->device, c, n * bytes) < 0) {
        close_chunk(p, c);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        c->piece[i] = (struct segment_gpu_piece){.of = c,
                                                 .device = (cuda_address)(uintptr_t)c->device.data + i * bytes,
                                                 .host = (uint8_t *)c->host.data + i * bytes};
    return c;
}

// Up to `n` free pieces next to each other: the first that are as many, else most; *at: the first of them.
static size_t find_run(struct mask_chunk *c, size_t n, size_t *at)
{
    size_t best = 0;
    for (size_t i = c->first, run = 0; i < c->nb && best < n; i++) {
        run = c->piece[i].taken ? 0 : run + 1;
        if (run == 1 && !best)
            c->first = i; // the first free one of all
        if (run > best) {
            best = run;
            *at = i + 1 - run;
        }
    }
    return best;
}

// Pieces next to each other, at most `n`; returns how many, 0: there is no memory. `bytes`: of a piece.
static size_t take_pieces(struct segment_gpu_masks *p, size_t bytes, size_t n, struct segment_gpu_piece **first)
{
    size_t at = 0, got = 0;
    struct mask_chunk *in = NULL;
    bytes = TACHY_ALIGN(bytes, (size_t)ALIGN);
    pthread_mutex_lock(&p->lock);
    for (struct mask_chunk *c = p->chunks; c && got < n; c = c->next) {
        size_t from = 0, run = c->bytes == bytes && c->nb_free > got ? find_run(c, n, &from) : 0;
        if (run > got) {
            got = run;
            at = from;
            in = c;
        }
    }
    if (!in && (in = open_chunk(p, bytes))) {
        in->next = p->chunks;
        p->chunks = in;
        got = TACHY_MIN(n, in->nb);
    }
    for (size_t i = at; i < at + got; i++)
        in->piece[i].taken = true;
    if (in) {
        in->nb_free -= got;
        *first = &in->piece[at];
    }
    pthread_mutex_unlock(&p->lock);
    return got;
}

static void put_piece(struct segment_gpu_masks *p, struct segment_gpu_piece *piece)
{
    struct mask_chunk *c = piece->of;
    pthread_mutex_lock(&p->lock);
    piece->taken = false;
    c->nb_free++;
    c->first = TACHY_MIN(c->first, (size_t)(piece - c->piece));
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

// How the bytes of an eye lie in a piece.
struct inside {
    size_t count, guide, all; // where the count and the guide begin; of the piece
};

static struct inside inside(const struct segment_gpu_eye *g, size_t bytes)
{
    size_t count = TACHY_ALIGN(bytes, sizeof(uint32_t)); // close to the mask, for one copy of both
    size_t guide = TACHY_ALIGN(count + sizeof(uint32_t), (size_t)ALIGN);
    return (struct inside){count, guide, g->guided ? guide + bytes : guide};
}

static void set_piece(struct segment_eye *e, struct segment_card *c, struct segment_gpu_piece *piece, const struct inside *in)
{
    struct segment_gpu_eye *g = e->gpu;
    g->card = c;
    g->piece = piece;
    g->done = piece->done;
    g->by = NULL;
    g->flight = NULL;
    g->unfetched = false;
    e->mask = piece->host;
    g->mask = piece->device;
    g->counted = g->mask + in->count;
    g->counted_host = (void *)(e->mask + in->count);
    e->guide = g->guided ? e->mask + in->guide : NULL;
    g->guide = g->guided ? g->mask + in->guide : 0;
}

// Gives the eye memory of a card in the place of what it has; `keep`: with what the host's side holds.
// Failures leave it as it was.
static int take(struct segment_eye *e, struct segment_card *c, size_t bytes, bool keep)
{
    struct segment_gpu_eye *g = e->gpu;
    struct inside in = inside(g, bytes);
    struct segment_gpu_piece *piece;
    int err = take_pieces(c->masks, in.all, 1, &piece) ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err < 0)
        return err;
    err = make_event(c->masks, piece);
    if (err < 0) {
        put_piece(c->masks, piece);
        return err;
    }
    if (keep)
        memcpy(piece->host, e->mask, bytes);
    if (keep && g->guided)
        memcpy(piece->host + in.guide, e->guide, bytes);
    if (g->piece)
        put_piece(g->card->masks, g->piece);
    set_piece(e, c, piece, &in);
    return TACHY_OK;
}

int segment_gpu_eyes_together(struct segment_eye *const eyes[], int n, struct segment_card *to)
{
    struct inside in = inside(eyes[0]->gpu, (size_t)eyes[0]->width * (size_t)eyes[0]->height);
    for (int i = 0; i < n; i++) {
        put_piece(eyes[i]->gpu->card->masks, eyes[i]->gpu->piece);
        eyes[i]->gpu->piece = NULL;
        eyes[i]->mask = eyes[i]->guide = NULL;
    }
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK;) {
        struct segment_gpu_piece *piece;
        size_t got = take_pieces(to->masks, in.all, (size_t)(n - i), &piece);
        err = got ? TACHY_OK : TACHY_ERR_NOMEM;
        for (size_t k = 0; k < got; k++, i++) {
            int made = make_event(to->masks, piece + k);
            err = err < 0 ? err : made;
            set_piece(eyes[i], to, piece + k, &in);
        }
    }
    return err;
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

// Whether the mask and count of `b` can be copied together with those of `a`, which lie `step` bytes before: nothing of
// the host's is in between.
static bool side_by_side(const struct segment_eye *a, const struct segment_eye *b, ptrdiff_t step)
{
    return a->gpu->unfetched && b->gpu->unfetched && !a->gpu->guided && a->gpu->card == b->gpu->card &&
           b->mask - a->mask == step && b->gpu->mask - a->gpu->mask == (cuda_address)step;
}

int segment_gpu_eyes_fetch(struct segment_eye *const eyes[], int n, cuda_stream stream, const struct tachy_log *log)
{
    int err = TACHY_OK;
    for (int i = 0, last; i < n && err == TACHY_OK; i = last) {
        struct segment_eye *e = eyes[i];
        ptrdiff_t step = (ptrdiff_t)e->gpu->piece->of->bytes;
        for (last = i + 1; last < n && side_by_side(eyes[last - 1], eyes[last], step);)
            last++;
        if (last == i + 1) {
            err = segment_gpu_eye_fetch(e, true, stream, log);
            continue;
        }
        const struct tachy_cu *cu = e->gpu->card->gpu->device.cu;
        size_t bytes = (size_t)((uint8_t *)(eyes[last - 1]->gpu->counted_host + 1) - e->mask);
        for (int k = i; k < last; k++)
            eyes[k]->gpu->unfetched = false;
        err = tachy_cu_check(cu, cu->copy_to_host_async(e->mask, e->gpu->mask, bytes, stream), log, "masks' copy");
    }
    return err;
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
    g->flight = NULL;
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
    if (err < 0)
        return err;
    return g->flight ? segment_gpu_flight_wait(g->flight, g->part) : segment_gpu_event_wait(g->card->gpu, g->done);
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
    g->flight = NULL;
    int err = tachy_cu_check(cu, cu->event_record(g->done, stream), log, "an event");
    g->pending = err == TACHY_OK;
    return err;
}

void segment_gpu_eye_flies(struct segment_eye *e, cuda_stream stream, struct segment_gpu_flight *f, uint64_t part)
{
    e->gpu->by = stream;
    e->gpu->flight = f;
    e->gpu->part = part;
    e->gpu->pending = true;
}

int segment_gpu_eye_there(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log)
{
    struct segment_gpu_eye *g = e->gpu;
    const struct tachy_cu *cu = g->card->gpu->device.cu;
    size_t n = (size_t)e->width * (size_t)e->height;
    bool ordered = stream == g->by || (g->stale && (!g->guide || g->guide_stale));
    if (!ordered && g->flight) {
        int err = segment_gpu_flight_follow(g->flight, g->part, stream);
        if (err < 0)
            return err;
        ordered = true;
    }
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
