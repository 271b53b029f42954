#include "media/frame_priv.h"

// Pictures between a GPU's memory and the host's.

int tachy_frame_need_host(const tachy_frame *f, const struct tachy_log *log, const char *who)
{
    if (f->mem != TACHY_DEVICE)
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                      "%s works on the CPU, which cannot read a frame in the memory of GPU %d: "
                      "download it first (tachy_frame_download())", who, f->device);
}

static size_t bytes_of(const tachy_frame *f, const struct tachy_pix_desc *d)
{
    int last = d->planes - 1, rows = tachy_plane_rows(d, last, f->height);
    return (size_t)(f->data[last] - f->data[0]) + (size_t)f->stride[last] * (size_t)rows;
}

// True if both have the same planes at the same offsets of memory of their own: then one copy is enough.
static bool same_layout(const tachy_frame *a, const tachy_frame *b, const struct tachy_pix_desc *d)
{
    const struct tachy_frame_full *fa = (const void *)a, *fb = (const void *)b;
    bool same = fa->memory && fb->memory && fa->memory == a->data[0] && fb->memory == b->data[0];
    for (int i = 0; i < d->planes && same; i++)
        same = a->stride[i] == b->stride[i] && a->data[i] - a->data[0] == b->data[i] - b->data[0];
    return same;
}

int tachy_frame_copy_list(tachy_frame *to, const tachy_frame *from, struct tachy_gpu_plane planes[4])
{
    const struct tachy_pix_desc *desc = tachy_pix_desc(from->format);
    for (int i = 0; i < desc->planes; i++)
        planes[i] = (struct tachy_gpu_plane){
            .from = from->data[i],
            .to = tachy_frame_writable(to, i),
            .from_pitch = (size_t)from->stride[i],
            .to_pitch = (size_t)to->stride[i],
            .width = tachy_plane_row_bytes(desc, i, from->width),
            .height = (size_t)tachy_plane_rows(desc, i, from->height),
            .from_gpu = from->mem == TACHY_DEVICE,
            .to_gpu = to->mem == TACHY_DEVICE,
        };
    to->id = from->id;
    to->pts = from->pts;
    to->duration = from->duration;
    to->color = from->color;
    to->key = from->key;
    to->discontinuity = from->discontinuity;
    if (!planes[0].to || !same_layout(to, from, desc))
        return desc->planes;
    planes[0].from_pitch = planes[0].to_pitch = planes[0].width = bytes_of(from, desc);
    planes[0].height = 1;
    return 1;
}

int tachy_frame_copy_planes(tachy_frame *to, const tachy_frame *from, struct tachy_device *d,
                            cuda_stream stream, bool wait, const struct tachy_log *log)
{
    struct tachy_gpu_plane planes[4];
    int n = tachy_frame_copy_list(to, from, planes);
    return tachy_gpu_copy(d, planes, n, stream, wait, log);
}

static int download(tachy_frame *to, const tachy_frame *f, const struct tachy_log *log)
{
    const struct tachy_cu *cu;
    struct tachy_device d = {0};
    int err = tachy_cu_load(&cu, TACHY_LOG_ERR, log);
    if (err == TACHY_OK)
        err = tachy_device_describe(&d, cu, f->device, log);
    if (err == TACHY_OK)
        err = tachy_frame_copy_planes(to, f, &d, f->stream, true, log);
    tachy_device_close(&d);
    return err;
}

int tachy_frame_download(tachy_frame **out, tachy_frame *f, const struct tachy_log *log)
{
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(log, out && f))
        return TACHY_ERR_INVAL;
    if (f->mem != TACHY_DEVICE) {
        *out = tachy_frame_ref(f);
        return TACHY_OK;
    }
    tachy_frame *n;
    int err = tachy_frame_new(&n, &(struct tachy_frame_params){
                                      .format = f->format, .width = f->width, .height = f->height});
    if (err == TACHY_OK)
        err = download(n, f, log);
    if (err < 0)
        tachy_frame_unref(&n);
    *out = n;
    return err;
}
