#include "pipeline/light_priv.h"

#include "base/clock.h"
#include "base/side_by_side.h"
#include "cuda/rates.h"
#include "media/device.h"

// Cost of a frame's copies between device and host. Pictures: the number copied per second, as a run copies them but
// with nothing else running, from the best number of threads. The rest, a few masks: by the link's own rate.

enum { MOST_LANES = 8, PICTURES = 4 };

struct link_lane {
    struct link *k;
    cuda_stream stream;
    tachy_frame *there[PICTURES], *here[PICTURES]; // on the device and the host's
    uint64_t frames, ns;
    int err;
};

// Pictures that go one way.
struct link {
    const struct light_bench *b;
    struct tachy_gpu *gpu;
    tachy_frame_pool *there, *here;
    bool up; // to the device
    uint64_t until_ns;
    struct link_lane lane[MOST_LANES];
    int opened; // of them
};

static int copy(struct link_lane *l, int i, bool wait)
{
    struct link *k = l->k;
    const tachy_frame *from = k->up ? l->here[i] : l->there[i];
    tachy_frame *to = k->up ? l->there[i] : l->here[i];
    return tachy_frame_copy_planes(to, from, &k->gpu->device, l->stream, wait, k->b->p->log);
}

static void *lane_main(void *arg)
{
    struct link_lane *l = arg;
    uint64_t start = tachy_now_ns(), now = start;
    l->frames = 0;
    l->err = TACHY_OK;
    do {
        for (int i = 0; i < PICTURES && l->err == TACHY_OK; i++)
            l->err = copy(l, i, i == PICTURES - 1);
        l->frames += PICTURES;
        now = tachy_now_ns();
    } while (now < l->k->until_ns && l->err == TACHY_OK);
    l->ns = now - start;
    return NULL;
}

static int lanes_rate(struct link *k, int n, double seconds, double *rate)
{
    k->until_ns = tachy_now_ns() + (uint64_t)(seconds * 1e9);
    int err = light_in_threads(k->lane, sizeof(k->lane[0]), n, lane_main);
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        err = k->lane[i].err;
        *rate += k->lane[i].ns ? (double)k->lane[i].frames / ((double)k->lane[i].ns * 1e-9) : 0;
    }
    return err;
}

static int open_lane(struct link *k, struct link_lane *l)
{
    struct tachy_device *d = &k->gpu->device;
    int err = tachy_device_enter(d, k->b->p->log);
    if (err < 0)
        return err;
    l->k = k;
    err = tachy_cu_check(d->cu, d->cu->stream_create(&l->stream, CUDA_STREAM_OWN_ORDER), k->b->p->log, "a stream");
    tachy_device_leave(d);
    for (int i = 0; i < PICTURES && err == TACHY_OK; i++) {
        err = tachy_frame_pool_get(k->there, &l->there[i]);
        if (err == TACHY_OK)
            err = tachy_frame_pool_get(k->here, &l->here[i]);
    }
    return err;
}

// Pictures a second of n lanes.
static int rate_of(void *user, int n, double *rate)
{
    struct link *k = user;
    int err = TACHY_OK;
    while (k->opened < n && err == TACHY_OK)
        err = open_lane(k, &k->lane[k->opened++]);
    return err < 0 ? err : lanes_rate(k, n, light_seconds(k->b) / 8, rate);
}

static void close_link(struct link *k)
{
    struct tachy_device *d = &k->gpu->device;
    bool in = tachy_device_enter(d, NULL) == TACHY_OK;
    for (int n = 0; n < MOST_LANES; n++) {
        struct link_lane *l = &k->lane[n];
        if (in && l->stream) {
            d->cu->stream_wait(l->stream);
            d->cu->stream_destroy(l->stream);
        }
        for (int i = 0; i < PICTURES; i++) {
            tachy_frame_unref(&l->there[i]);
            tachy_frame_unref(&l->here[i]);
        }
    }
    if (in)
        tachy_device_leave(d);
    tachy_frame_pool_close(&k->there);
    tachy_frame_pool_close(&k->here);
}

// Pictures like `like`, the host's, to the device (`up`) or from it: what one of them costs is added to *l.
static int measure(struct light_bench *b, struct tachy_gpu *gpu, const tachy_frame *like, bool up,
                   struct tachy_light *l)
{
    enum tachy_resource r = up ? TACHY_RESOURCE_TO_DEVICE : TACHY_RESOURCE_TO_HOST;
    struct link k = {.b = b, .gpu = gpu, .up = up};
    double most = 0;
    int copies = 0;
    int err = tachy_frame_pool_open_mem(&k.there, gpu, TACHY_DEVICE, like->format, like->width, like->height);
    if (err == TACHY_OK)
        err = tachy_frame_pool_open_mem(&k.here, gpu, up ? TACHY_PINNED : like->mem, like->format, like->width, like->height);
    if (err == TACHY_OK)
        err = tachy_side_by_side(&copies, &most, MOST_LANES, NULL, rate_of, &k);
    l->link_copies[r] = TACHY_DEF(copies, l->link_copies[r]);
    close_link(&k);
    if (err == TACHY_OK && most > 0)
        l->link_ms[r] += 1e3 / most;
    return err;
}

// Masks and other small things.
static int add_rest(const struct light_gpu_task *t, const struct tachy_log *log, struct tachy_light *l)
{
    struct tachy_gpu_rates r;
    int err = t->to_host > 0 || t->to_device > 0 ? tachy_gpu_rates(&r, t->device, log) : TACHY_ERR_NOT_FOUND;
    if (err < 0)
        return err == TACHY_ERR_NOT_FOUND ? TACHY_OK : err;
    l->link_ms[TACHY_RESOURCE_TO_HOST] += r.to_host_bps > 0 ? 1e3 * t->to_host / r.to_host_bps : 0;
    l->link_ms[TACHY_RESOURCE_TO_DEVICE] += r.to_device_bps > 0 ? 1e3 * t->to_device / r.to_device_bps : 0;
    return TACHY_OK;
}

int light_gpu_link(struct light_bench *b, struct tachy_light *l)
{
    const struct light_gpu_task *t = &b->gpu.task;
    const tachy_frame *in = b->frames[0], *out = t->writes ? b->outs[0] : NULL;
    struct tachy_gpu *gpu;
    bool known = l->link_ms[TACHY_RESOURCE_TO_HOST] > 0 || l->link_ms[TACHY_RESOURCE_TO_DEVICE] > 0;
    if (known || (!t->steps && !b->gpu.decodes))
        return TACHY_OK;
    int err = tachy_gpu_open(&gpu, t->steps ? t->device->ordinal : b->p->source->gpu, NULL, b->p->log);
    if (err < 0)
        return err;
    bool host = in->mem != TACHY_DEVICE;
    if (host && b->gpu.decodes)
        err = measure(b, gpu, in, false, l);
    if (host && t->steps && err == TACHY_OK)
        err = measure(b, gpu, in, true, l);
    if (out && out->mem != TACHY_DEVICE && err == TACHY_OK)
        err = measure(b, gpu, out, false, l);
    tachy_gpu_unref(&gpu);
    return err == TACHY_OK && t->steps ? add_rest(t, b->p->log, l) : err;
}
