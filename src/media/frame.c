#include "media/frame_priv.h"

#include <stdlib.h>

enum { ALIGN = 64, GPU_ALIGN = 256, MAX_SIDE = 65535 };

// name, planes, bits, bytes, shift, chroma shifts, components, rgb, alpha
static const struct tachy_pix_desc descs[TACHY_PIX_COUNT] = {
    [TACHY_PIX_GRAY8] = {"gray", 1, 8, 1, 0, 0, 0, {1}, false, false},
    [TACHY_PIX_GRAY10] = {"gray10le", 1, 10, 2, 0, 0, 0, {1}, false, false},
    [TACHY_PIX_YUV420P] = {"yuv420p", 3, 8, 1, 0, 1, 1, {1, 1, 1}, false, false},
    [TACHY_PIX_YUV422P] = {"yuv422p", 3, 8, 1, 0, 1, 0, {1, 1, 1}, false, false},
    [TACHY_PIX_YUV444P] = {"yuv444p", 3, 8, 1, 0, 0, 0, {1, 1, 1}, false, false},
    [TACHY_PIX_YUV420P10] = {"yuv420p10le", 3, 10, 2, 0, 1, 1, {1, 1, 1}, false, false},
    [TACHY_PIX_YUV422P10] = {"yuv422p10le", 3, 10, 2, 0, 1, 0, {1, 1, 1}, false, false},
    [TACHY_PIX_YUV444P10] = {"yuv444p10le", 3, 10, 2, 0, 0, 0, {1, 1, 1}, false, false},
    [TACHY_PIX_NV12] = {"nv12", 2, 8, 1, 0, 1, 1, {1, 2}, false, false},
    [TACHY_PIX_P010] = {"p010le", 2, 10, 2, 6, 1, 1, {1, 2}, false, false},
    [TACHY_PIX_RGB24] = {"rgb24", 1, 8, 1, 0, 0, 0, {3}, true, false},
    [TACHY_PIX_BGRA] = {"bgra", 1, 8, 1, 0, 0, 0, {4}, true, true},
    [TACHY_PIX_RGBA] = {"rgba", 1, 8, 1, 0, 0, 0, {4}, true, true},
    [TACHY_PIX_YUVA420P] = {"yuva420p", 4, 8, 1, 0, 1, 1, {1, 1, 1, 1}, false, true},
    [TACHY_PIX_YUVA444P] = {"yuva444p", 4, 8, 1, 0, 0, 0, {1, 1, 1, 1}, false, true},
    [TACHY_PIX_YUVA444P10] = {"yuva444p10le", 4, 10, 2, 0, 0, 0, {1, 1, 1, 1}, false, true},
};

const struct tachy_pix_desc *tachy_pix_desc(enum tachy_pix f)
{
    return (int)f > TACHY_PIX_NONE && (int)f < TACHY_PIX_COUNT ? &descs[f] : NULL;
}

enum tachy_pix tachy_pix_by_name(const char *name)
{
    for (int f = TACHY_PIX_NONE + 1; name && f < TACHY_PIX_COUNT; f++)
        if (!strcmp(descs[f].name, name))
            return (enum tachy_pix)f;
    return TACHY_PIX_NONE;
}

bool tachy_frame_size_ok(enum tachy_pix format, int width, int height)
{
    return tachy_pix_desc(format) && width > 0 && height > 0 && width <= MAX_SIDE &&
           height <= MAX_SIDE;
}

static bool is_chroma(const struct tachy_pix_desc *d, int plane)
{
    return !d->rgb && (plane == 1 || plane == 2);
}

static int ceil_shift(int v, int shift) { return (v + (1 << shift) - 1) >> shift; }

size_t tachy_plane_row_bytes(const struct tachy_pix_desc *d, int plane, int width)
{
    int w = is_chroma(d, plane) ? ceil_shift(width, d->chroma_shift_x) : width;
    return (size_t)w * d->components[plane] * d->bytes;
}

int tachy_plane_rows(const struct tachy_pix_desc *d, int plane, int height)
{
    return is_chroma(d, plane) ? ceil_shift(height, d->chroma_shift_y) : height;
}

// Offsets and strides of the planes in one allocation; returns its size.
static size_t layout(enum tachy_pix format, int width, int height, size_t align, size_t offset[4],
                     ptrdiff_t stride[4])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    size_t total = 0;
    for (int i = 0; i < d->planes; i++) {
        size_t row = TACHY_ALIGN(tachy_plane_row_bytes(d, i, width), align);
        stride[i] = (ptrdiff_t)row;
        offset[i] = total;
        total += row * (size_t)tachy_plane_rows(d, i, height);
    }
    return total + ALIGN; // swscale and some encoders read a few bytes past the last row
}

size_t tachy_frame_bytes(enum tachy_pix format, int width, int height)
{
    size_t offset[4];
    ptrdiff_t stride[4];
    return tachy_frame_size_ok(format, width, height)
               ? layout(format, width, height, ALIGN, offset, stride)
               : 0;
}

static int alloc_pixels(struct tachy_frame_full *f, size_t bytes, struct tachy_gpu *gpu, enum tachy_mem mem,
                        const struct tachy_log *log)
{
    void *data = mem == TACHY_HOST ? tachy_aligned_alloc(bytes) : NULL;
    int err = mem == TACHY_DEVICE   ? tachy_gpu_alloc(gpu, bytes, &data, log)
              : mem == TACHY_PINNED ? tachy_gpu_pinned_alloc(gpu, bytes, &data, log)
              : data                  ? TACHY_OK
                                      : TACHY_ERR_NOMEM;
    if (err < 0)
        return err;
    f->memory = data;
    f->pub.mem = mem;
    f->gpu = tachy_gpu_ref(gpu);
    if (mem == TACHY_DEVICE) {
        f->pub.device = gpu->device.ordinal;
        f->pub.stream = gpu->stream;
    } else {
        memset(f->memory + bytes - ALIGN, 0, ALIGN);
    }
    return TACHY_OK;
}

int tachy_frame_alloc(struct tachy_frame_full **out, enum tachy_pix format, int width, int height, struct tachy_gpu *gpu,
                      enum tachy_mem mem, const struct tachy_log *log)
{
    *out = NULL;
    struct tachy_frame_full *f = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    size_t offset[4];
    size_t bytes = layout(format, width, height, gpu ? GPU_ALIGN : ALIGN, offset, f->pub.stride);
    int err = alloc_pixels(f, bytes, gpu, mem, log);
    if (err < 0) {
        free(f);
        return err;
    }
    for (int i = 0; i < tachy_pix_desc(format)->planes; i++)
        f->pub.data[i] = f->memory + offset[i];
    f->pub.format = format;
    f->pub.width = width;
    f->pub.height = height;
    atomic_init(&f->refs, 1);
    *out = f;
    return TACHY_OK;
}

void tachy_frame_destroy(struct tachy_frame_full *f)
{
    if (f->gpu && f->pub.mem == TACHY_DEVICE)
        tachy_gpu_free(f->gpu, f->memory);
    else if (f->gpu)
        tachy_gpu_pinned_free(f->gpu, f->memory);
    else
        tachy_aligned_free(f->memory);
    tachy_gpu_unref(&f->gpu);
    av_frame_free(&f->av);
    if (f->release)
        f->release(f->user);
    free(f);
}

tachy_frame *tachy_frame_ref(tachy_frame *f)
{
    if (f)
        atomic_fetch_add_explicit(&tachy_frame_full(f)->refs, 1, memory_order_relaxed);
    return f;
}

void tachy_frame_unref(tachy_frame **f)
{
    if (!f || !*f)
        return;
    struct tachy_frame_full *full = tachy_frame_full(*f);
    *f = NULL;
    if (atomic_fetch_sub_explicit(&full->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (full->pool)
        tachy_frame_pool_put(full->pool, full);
    else
        tachy_frame_destroy(full);
}

// Rows lie apart by a stride, which may be negative in memory that the CPU reads; samples of two bytes are aligned.
static bool plane_ok(const tachy_frame *f, const struct tachy_pix_desc *d, int plane)
{
    ptrdiff_t stride = f->stride[plane];
    size_t apart = stride < 0 ? 0 - (size_t)stride : (size_t)stride;
    bool one = tachy_plane_rows(d, plane, f->height) == 1;
    return f->data[plane] && (f->mem != TACHY_DEVICE || stride >= 0) &&
           ((uintptr_t)f->data[plane] | apart) % d->bytes == 0 &&
           (one || apart >= tachy_plane_row_bytes(d, plane, f->width));
}

static bool frame_ok(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    bool ok = tachy_frame_size_ok(f->format, f->width, f->height) && (unsigned)f->mem <= TACHY_DEVICE;
    for (int i = 0; ok && i < d->planes; i++)
        ok = plane_ok(f, d, i);
    return ok;
}

int tachy_frame_check(const tachy_frame *f, const struct tachy_log *log, const char *who)
{
    if (frame_ok(f))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_INVAL,
                      "%s: a frame of format %d and %d x %d pixels is not valid, or its planes are too small for it",
                      who, (int)f->format, f->width, f->height);
}

static struct tachy_frame_full *wrap(const struct tachy_frame_params *p)
{
    struct tachy_frame_full *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    for (int i = 0; i < tachy_pix_desc(p->format)->planes; i++) {
        f->pub.data[i] = p->data[i];
        f->pub.stride[i] = p->stride[i];
    }
    f->pub.format = p->format;
    f->pub.width = p->width;
    f->pub.height = p->height;
    f->pub.mem = p->mem;
    f->pub.device = p->device;
    f->pub.stream = p->stream;
    f->release = p->release;
    f->user = p->user;
    atomic_init(&f->refs, 1);
    return f;
}

int tachy_frame_new_sized(size_t p_size, tachy_frame **out, const struct tachy_frame_params *p)
{
    struct tachy_frame_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!out || !p || !tachy_frame_size_ok(p->format, p->width, p->height))
        return TACHY_ERR_INVAL;
    if (!p->data[0] && p->mem != TACHY_HOST)
        return TACHY_ERR_INVAL;
    struct tachy_frame_full *f = p->data[0] ? wrap(p) : NULL;
    if (!p->data[0])
        tachy_frame_alloc(&f, p->format, p->width, p->height, NULL, TACHY_HOST, NULL);
    if (!f)
        return TACHY_ERR_NOMEM;
    if (!frame_ok(&f->pub)) {
        free(f); // wrapped memory stays the caller's
        return TACHY_ERR_INVAL;
    }
    f->pub.color = p->color;
    f->pub.pts = p->pts;
    f->pub.duration = p->duration;
    *out = &f->pub;
    return TACHY_OK;
}

uint8_t *tachy_frame_writable(tachy_frame *f, int plane)
{
    struct tachy_frame_full *full = f ? tachy_frame_full(f) : NULL;
    if (!full || !full->memory || plane < 0 || plane > 3 || !full->pub.data[plane] ||
        atomic_load_explicit(&full->refs, memory_order_acquire) != 1)
        return NULL;
    return full->memory + (full->pub.data[plane] - full->memory);
}
