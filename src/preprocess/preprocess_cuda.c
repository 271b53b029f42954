#include "preprocess/preprocess_cuda.h"

#include "cuda/kernels.h"
#include "media/frame_mem.h"
#include "preprocess/columns.h"
#include "preprocess/plan.h"
#include "preprocess/tone.h"

#include <math.h>
#include <stdlib.h>

enum {
    PLANS = 16, // kept; more than a launch has, so that what waits for it is never the oldest
    FRAMES = TACHY_CUDA_PRE_FRAMES,
};
// Bytes that memory of tables grows by: a view that follows something needs a few more or less each time, and the driver's
// calls for memory wait for the GPU.
static const size_t TABLES = (size_t)32 << 10;
static const size_t GRIDS = (size_t)256 << 20; // bytes for the grids of one launch, unless a single one needs more

// Memory on the GPU that only grows.
struct gpu_mem {
    cuda_address at;
    size_t size;
};

struct gpu_plan {
    struct tachy_plan host;
    struct tachy_cuda_pre_plan device;
    struct gpu_mem taps;
};

// Location of a tensor's images; bytes.
struct target {
    cuda_address data;
    int64_t image, row, channel;
    int channels, size;
};

struct tachy_preprocess_gpu {
    struct tachy_preprocess_params params; // dtype set
    struct tachy_device *device;
    const struct tachy_cuda_kernels *kernels;
    cuda_stream stream;
    uint64_t uses;
    struct gpu_plan plan[PLANS];
    struct tachy_growing staged;
    struct tachy_tone *tone;
    struct gpu_mem tone_gpu, grid;
    size_t grid_used; // by pictures that wait
    int rows;
    enum tachy_cuda_pre_kernel kernel, ran;

    // Arguments of the next launches; frames share a plan's format and colour.
    const struct gpu_plan *group; // first plan of it
    struct tachy_cuda_preprocess launch;
    const struct gpu_plan *launch_plan[TACHY_CUDA_PRE_PLANS];
    struct tachy_cuda_pre_turn turn;
    struct tachy_cuda_pre_border border;
};

static int checked(const struct tachy_preprocess_gpu *g, int status, const char *what)
{
    return tachy_cu_check(g->device->cu, status, g->params.log, what);
}

static int gpu_need(struct tachy_preprocess_gpu *g, struct gpu_mem *m, size_t size)
{
    if (m->size >= size)
        return TACHY_OK;
    const struct tachy_cu *cu = g->device->cu;
    int err = checked(g, cu->stream_wait(g->stream), "preprocess: the work before");
    if (m->at)
        cu->memory_free(m->at);
    *m = (struct gpu_mem){0};
    if (err == TACHY_OK)
        err = checked(g, cu->memory_alloc(&m->at, size), "preprocess: memory on the GPU");
    if (err == TACHY_OK)
        m->size = size;
    else
        m->at = 0;
    return err;
}

// ---- Tables

static void put_taps(struct tachy_cuda_pre_tap *to, const struct tachy_taps *t, float *mid)
{
    *mid = 0;
    for (int i = 0; i < t->outputs; i++) {
        const float *w = t->weight + (size_t)i * (size_t)t->max;
        int n = t->count[i];
        to[i] = (struct tachy_cuda_pre_tap){t->start[i], n, w[0], n > 1 ? w[n - 1] : 0};
        if (n > 2) // all that lie inside of a box weigh the same
            *mid = w[1];
    }
}

// The window that `tile` outputs from every multiple of it on need, in bytes.
static int widest_window(const struct tachy_pre_plane *s, int tile)
{
    const struct tachy_taps *t = &s->x;
    int widest = 0;
    for (int first = 0; first < t->outputs; first += tile) {
        int last = TACHY_MIN(first + tile, t->outputs) - 1, pixel = s->components * s->bytes;
        int begin = TACHY_MIN(t->start[first], t->start[last]) * pixel / 16 * 16;
        int end = TACHY_MAX(t->start[first] + t->count[first], t->start[last] + t->count[last]) * pixel;
        widest = TACHY_MAX(widest, end - begin);
    }
    return widest;
}

static int rows_of_two_lines(const struct tachy_taps *t)
{
    int most = t->max;
    for (int i = 1; i < t->outputs; i++) {
        int begin = TACHY_MIN(t->start[i - 1], t->start[i]);
        int end = TACHY_MAX(t->start[i - 1] + t->count[i - 1], t->start[i] + t->count[i]);
        most = TACHY_MAX(most, end - begin);
    }
    return most;
}

static int choose_tile(const struct tachy_plan *plan, int shapes)
{
    static const int tiles[] = {128, 96, 64, 32, 16, 8, 4, 2, 1};
    int taps = 1;
    for (int s = 0; s < shapes; s++)
        taps = TACHY_MAX(taps, TACHY_MAX(plan->shape[s].x.max, plan->shape[s].y.max));
    for (size_t i = 0; taps > 2 && i < TACHY_ARRAY_SIZE(tiles); i++) {
        bool fits = true;
        for (int s = 0; s < shapes; s++)
            fits = fits && widest_window(&plan->shape[s], tiles[i]) <= TACHY_CUDA_PRE_WINDOW;
        if (fits)
            return tiles[i];
    }
    return 0;
}

// For a rotated picture, whose view often changes per frame, the kernel computes the samples of each output itself.
static void set_axes(struct gpu_plan *p)
{
    for (int s = 0; s < TACHY_PRE_SHAPES; s++) {
        const struct tachy_axis *axes[2] = {&p->host.axis[s].x, &p->host.axis[s].y};
        struct tachy_cuda_pre_axis *to[2] = {&p->device.x[s], &p->device.y[s]};
        for (int k = 0; k < 2; k++)
            *to[k] = (struct tachy_cuda_pre_axis){.origin = axes[k]->origin, .step = axes[k]->step, .samples = axes[k]->samples};
    }
}

static int upload(struct tachy_preprocess_gpu *g, struct gpu_plan *p)
{
    const struct tachy_plan *plan = &p->host;
    struct tachy_cuda_pre_plan *d = &p->device;
    const struct tachy_pix_desc *desc = tachy_pix_desc(plan->key.format);
    int shapes = plan->plane[plan->planes - 1].shape + 1;
    size_t entries = 0, taps = 0, bytes = 0;
    *d = (struct tachy_cuda_pre_plan){.length = plan->length, .lines = plan->lines};
    if (!plan->geo.separable) {
        set_axes(p);
        return TACHY_OK;
    }
    for (int s = 0; s < shapes; s++) {
        int shift = s ? desc->chroma_shift_x : 0;
        entries += (size_t)(plan->shape[s].x.outputs + plan->shape[s].y.outputs);
        d->row_bytes[s] =
            ((plan->key.width + (1 << shift) - 1) >> shift) * plan->shape[s].components * plan->shape[s].bytes;
    }
    bytes = taps = entries * sizeof(struct tachy_cuda_pre_tap);
    if (tachy_columns_fit(plan, d->row_bytes, &d->columns))
        bytes += tachy_columns_bytes(plan, &d->columns);
    int err = tachy_growing_need(&g->staged, bytes);
    if (err < 0)
        return tachy_fail(g->params.log, err, "preprocess: out of memory");
    err = gpu_need(g, &p->taps, TACHY_ALIGN(bytes, TABLES));
    if (err < 0)
        return err;
    struct tachy_cuda_pre_tap *to = g->staged.p;
    cuda_address at = p->taps.at;
    for (int s = 0; s < shapes; s++) {
        const struct tachy_pre_plane *shape = &plan->shape[s];
        struct tachy_cuda_pre_axis *axes[2] = {&d->x[s], &d->y[s]};
        for (int k = 0; k < 2; k++) {
            const struct tachy_taps *t = k ? &shape->y : &shape->x;
            put_taps(to, t, &axes[k]->mid);
            axes[k]->taps = at;
            axes[k]->most = t->max;
            to += t->outputs;
            at += (cuda_address)t->outputs * sizeof(*to);
        }
        d->ring[s] = rows_of_two_lines(&shape->y);
    }
    d->tile = choose_tile(plan, shapes);
    if (d->columns.words)
        tachy_columns_fill(plan, d->row_bytes, &d->columns, (uint8_t *)g->staged.p + taps, p->taps.at + taps);
    d->left = plan->geo.px;
    d->top = plan->geo.py;
    d->transposed = plan->geo.transposed;
    // From pageable memory: it has been taken from when this returns.
    return checked(g, g->device->cu->copy_to_device_async(p->taps.at, g->staged.p, bytes, g->stream),
                   "preprocess: a copy of tables");
}

static int need_tone(struct tachy_preprocess_gpu *g, struct tachy_color c)
{
    if (tachy_tone_fits(g->tone, c))
        return TACHY_OK;
    tachy_tone_close(&g->tone);
    int err = tachy_tone_open(&g->tone, c);
    if (err < 0)
        return tachy_fail(g->params.log, err, "preprocess: out of memory");
    err = gpu_need(g, &g->tone_gpu, sizeof(*g->tone));
    if (err == TACHY_OK)
        err = checked(g, g->device->cu->copy_to_device_async(g->tone_gpu.at, g->tone, sizeof(*g->tone), g->stream),
                      "preprocess: a copy of tables");
    if (err < 0)
        tachy_tone_close(&g->tone);
    return err;
}

static int get_plan(struct tachy_preprocess_gpu *g, const struct tachy_plan_key *key, struct gpu_plan **out)
{
    struct gpu_plan *p = &g->plan[0];
    for (int i = 0; i < PLANS; i++) {
        struct gpu_plan *q = &g->plan[i];
        if (q->host.valid && tachy_plan_key_same(&q->host.key, key)) {
            q->host.last_use = ++g->uses;
            *out = q;
            return TACHY_OK;
        }
        if (!q->host.valid ? p->host.valid : p->host.valid && q->host.last_use < p->host.last_use)
            p = q;
    }
    int err = tachy_plan_build(&p->host, &g->params, NULL, key);
    if (err == TACHY_OK)
        err = upload(g, p);
    if (err < 0)
        p->host.valid = false;
    p->host.last_use = ++g->uses;
    *out = p;
    return err;
}

// ---- Launches

static struct tachy_pre_finish scaled(const struct tachy_pre_finish *f, float by)
{
    struct tachy_pre_finish s = *f;
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++)
            s.m[c][k] *= by;
    return s;
}

// Source and format; the kernel's lines are 1/256 of a code value.
static void set_source(struct tachy_cuda_preprocess *l, const struct tachy_plan *plan)
{
    l->planes = plan->planes;
    l->components = plan->shape[0].components;
    l->bytes = plan->shape[0].bytes;
    l->shift = plan->shape[0].shift;
}

static int add_plan(struct tachy_preprocess_gpu *g, const struct gpu_plan *p)
{
    for (int i = 0; i < g->launch.plans; i++)
        if (g->launch_plan[i] == p)
            return i;
    g->launch_plan[g->launch.plans] = p;
    g->launch.plan[g->launch.plans] = p->device;
    return g->launch.plans++;
}

static struct tachy_cuda_pre_frame source_of(const tachy_frame *f, int planes)
{
    struct tachy_cuda_pre_frame to = {0};
    for (int i = 0; i < planes; i++) {
        to.plane[i] = tachy_cu_address(f->data[i]);
        to.stride[i] = f->stride[i];
    }
    return to;
}

// Sets values that the launcher would otherwise have to determine each time.
static int start(struct tachy_preprocess_gpu *g, struct tachy_cuda_preprocess *l)
{
    l->kernel = g->kernel;
    l->overlap = g->device->cc_major >= 9;
    l->multiprocessors = (uint16_t)TACHY_MIN(g->device->sm_count, UINT16_MAX);
    g->ran = tachy_cuda_pre_kernel_of(l);
    l->rows = g->rows || g->ran != TACHY_CUDA_PRE_COLUMNS ? g->rows : tachy_columns_band(l);
    return checked(g, g->kernels->preprocess(l, g->stream), "preprocess on the GPU");
}

static int flush(struct tachy_preprocess_gpu *g, const struct target *t)
{
    const struct tachy_cuda_kernels *k = g->kernels;
    int err = TACHY_OK;
    if (g->launch.frames) {
        const struct tachy_pre_color *c = &g->group->host.color;
        struct tachy_cuda_preprocess *l = &g->launch;
        set_source(l, &g->group->host);
        l->row = t->row;
        l->channel = t->channel;
        l->channels = t->channels;
        l->hdr = c->hdr;
        l->tone = g->tone_gpu.at;
        l->decode = scaled(&c->decode, 256);
        l->finish = scaled(&c->finish, c->hdr ? 1 : 256);
        err = start(g, l);
    }
    if (err == TACHY_OK && g->turn.frames) {
        const struct tachy_pre_color *c = &g->group->host.color;
        struct tachy_cuda_pre_turn *l = &g->turn;
        l->planes = c->lines;
        l->width = g->params.width;
        l->height = g->params.height;
        l->row = t->row;
        l->channel = t->channel;
        l->channels = t->channels;
        l->hdr = c->hdr;
        l->tone = g->tone_gpu.at;
        l->decode = c->decode;
        l->finish = c->finish;
        err = checked(g, k->preprocess_turn(l, g->stream), "preprocess on the GPU");
    }
    if (err == TACHY_OK && g->border.frames)
        err = checked(g, k->preprocess_border(&g->border, g->stream), "preprocess on the GPU");
    g->launch.frames = g->launch.plans = g->turn.frames = g->border.frames = 0;
    g->grid_used = 0;
    g->group = NULL;
    return err;
}

// A picture that is turned by any angle: its grid at once, into its own part of the memory.
static int add_turned(struct tachy_preprocess_gpu *g, const struct gpu_plan *p, const tachy_frame *f, cuda_address dst,
                      cuda_address grid)
{
    const struct tachy_plan *plan = &p->host;
    const double *a = plan->geo.affine;
    struct tachy_cuda_preprocess l = {
        .frames = 1, .plans = 1, .plan = {p->device},
        .row = plan->grid.stride * (int64_t)sizeof(float),
        .channel = plan->grid.stride * plan->grid.h * (int64_t)sizeof(float),
        .channels = plan->color.lines,
        .finish = {.inputs = plan->color.lines, .channels = plan->color.lines, .dtype = TACHY_F32, .planar = true,
                   .m = {{256, 0, 0}, {0, 256, 0}, {0, 0, 256}}, .hi = {256, 256, 256}},
    };
    set_source(&l, plan);
    l.frame[0] = source_of(f, plan->planes);
    l.frame[0].dst = grid;
    struct tachy_cuda_pre_turn *t = &g->turn;
    int i = t->frames++;
    t->frame[i].grid = grid;
    t->frame[i].dst = dst;
    t->frame[i].w = plan->grid.w;
    t->frame[i].h = plan->grid.h;
    t->frame[i].stride = plan->grid.stride;
    t->frame[i].u = (a[0] * 0.5 + a[1] * 0.5 + a[2]) / plan->cell_x - 0.5 - plan->cell_x0;
    t->frame[i].v = (a[3] * 0.5 + a[4] * 0.5 + a[5]) / plan->cell_y - 0.5 - plan->cell_y0;
    t->frame[i].du_x = a[0] / plan->cell_x;
    t->frame[i].du_y = a[1] / plan->cell_x;
    t->frame[i].dv_x = a[3] / plan->cell_y;
    t->frame[i].dv_y = a[4] / plan->cell_y;
    return start(g, &l);
}

static size_t grid_bytes(const struct tachy_plan *plan)
{
    size_t one = (size_t)plan->grid.stride * (size_t)plan->grid.h * sizeof(float);
    return plan->geo.separable ? 0 : TACHY_ALIGN(one * (size_t)plan->color.lines, (size_t)256);
}

static void add_border(struct tachy_preprocess_gpu *g, const struct tachy_geometry *geo, const struct target *t,
                       cuda_address dst)
{
    const struct tachy_preprocess_params *p = &g->params;
    if (geo->pw == p->width && geo->ph == p->height)
        return;
    struct tachy_cuda_pre_border *b = &g->border;
    if (!b->frames) {
        uint8_t pixel[3][12] = {{0}};
        tachy_pre_pad(p, true, pixel);
        *b = (struct tachy_cuda_pre_border){.width = p->width, .height = p->height, .row = t->row,
                                            .channel = t->channel, .channels = t->channels, .size = t->size,
                                            .planar = p->layout == TACHY_NCHW};
        for (int c = 0; c < (p->channels == TACHY_LUMA ? 1 : 3); c++)
            memcpy(&b->value[c], pixel[c], sizeof(b->value[c]));
    }
    int i = b->frames++;
    b->frame[i].dst = dst;
    b->frame[i].x = geo->px;
    b->frame[i].y = geo->py;
    b->frame[i].w = geo->pw;
    b->frame[i].h = geo->ph;
}

// Frames of one launch: same planes, colour and kind of kernel.
static bool fits_group(const struct tachy_preprocess_gpu *g, const struct gpu_plan *p)
{
    if (!g->group)
        return true;
    const struct tachy_plan *a = &g->group->host, *b = &p->host;
    bool same = a->key.format == b->key.format && !memcmp(&a->key.color, &b->key.color, sizeof(a->key.color)) &&
                a->geo.separable == b->geo.separable && !g->group->device.tile == !p->device.tile &&
                g->group->device.columns.words == p->device.columns.words &&
                g->group->device.columns.cols == p->device.columns.cols;
    return same && g->launch.plans < TACHY_CUDA_PRE_PLANS && g->launch.frames < FRAMES && g->turn.frames < FRAMES;
}

// ---- The tensor

static int check_tensor(const struct tachy_preprocess_gpu *g, const struct tachy_tensor *t, int n, struct target *o)
{
    const struct tachy_preprocess_params *p = &g->params;
    const bool planar = p->layout == TACHY_NCHW;
    const int colours = p->channels == TACHY_LUMA ? 1 : 3, h = planar ? 2 : 1, w = planar ? 3 : 2, c = planar ? 1 : 3;
    bool ok = t->data && t->mem == TACHY_DEVICE && t->device == g->device->ordinal && t->dtype == p->dtype &&
              t->rank == 4 && t->shape[0] >= n && t->shape[h] == p->height && t->shape[w] == p->width &&
              t->shape[c] >= colours && t->shape[c] <= 16;
    if (!ok)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the output tensor must be in the memory of GPU %d, %s, of rank 4 with at least "
                          "%d images of %d x %d pixels and %d to 16 channels", g->device->ordinal,
                          tachy_dtype_name(p->dtype), n, p->width, p->height, colours);
    int64_t stride[4] = {t->shape[1] * t->shape[2] * t->shape[3], t->shape[2] * t->shape[3], t->shape[3], 1};
    if (t->stride[0] || t->stride[1] || t->stride[2] || t->stride[3])
        memcpy(stride, t->stride, sizeof(stride));
    if (stride[3] != 1 || (!planar && stride[2] != t->shape[3]))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the output tensor's pixels must lie side by side; only images, rows and "
                          "channel planes may have strides");
    int64_t size = (int64_t)tachy_dtype_size(t->dtype);
    *o = (struct target){.data = tachy_cu_address(t->data), .image = stride[0] * size,
                         .row = stride[planar ? 2 : 1] * size, .channel = planar ? stride[1] * size : 0,
                         .channels = (int)t->shape[c], .size = (int)size};
    return TACHY_OK;
}

// ---- Runs

static int key_of(const struct tachy_preprocess_gpu *g, const struct tachy_preprocess_picture *pic,
                  struct tachy_plan_key *key)
{
    const tachy_frame *f = pic->frame;
    int err = tachy_frame_check(f, g->params.log, "preprocess");
    if (err == TACHY_OK)
        *key = (struct tachy_plan_key){
            .format = f->format, .width = f->width, .height = f->height,
            .color = tachy_color_resolve(f->color, f->format, f->width, f->height), .view = pic->view,
        };
    return err;
}

static int add_picture(struct tachy_preprocess_gpu *g, const struct tachy_preprocess_picture *pic, const struct target *t,
                       cuda_address dst, struct tachy_placement *placement)
{
    struct tachy_plan_key key;
    struct gpu_plan *p;
    int err = key_of(g, pic, &key);
    if (err < 0 || (err = get_plan(g, &key, &p)) < 0)
        return err;
    if (!fits_group(g, p) && (err = flush(g, t)) < 0)
        return err;
    g->group = g->group ? g->group : p;
    if (p->host.color.hdr && (err = need_tone(g, key.color)) < 0)
        return err;
    if (p->host.geo.separable) {
        int i = g->launch.frames++;
        g->launch.frame[i] = source_of(pic->frame, p->host.planes);
        g->launch.frame[i].dst = dst;
        g->launch.frame[i].plan = add_plan(g, p);
    } else {
        size_t one = grid_bytes(&p->host);
        if (g->grid_used + one > g->grid.size) {
            size_t some = TACHY_MAX(one, TACHY_MIN(one * FRAMES, GRIDS));
            if ((err = flush(g, t)) < 0 || (err = gpu_need(g, &g->grid, some)) < 0)
                return err;
            g->group = p;
        }
        err = add_turned(g, p, pic->frame, dst, g->grid.at + (cuda_address)g->grid_used);
        g->grid_used += one;
    }
    add_border(g, &p->host.geo, t, dst);
    const struct tachy_geometry *geo = &p->host.geo;
    if (placement)
        *placement = (struct tachy_placement){geo->px, geo->py, geo->pw, geo->ph};
    return err;
}

int tachy_preprocess_gpu_run(struct tachy_preprocess_gpu *g, const struct tachy_preprocess_picture pictures[], int n,
                             const struct tachy_tensor *out, struct tachy_placement placement[])
{
    struct target t;
    int err = check_tensor(g, out, n, &t);
    if (err < 0 || (err = tachy_device_enter(g->device, g->params.log)) < 0)
        return err;
    g->launch.frames = g->launch.plans = g->turn.frames = g->border.frames = 0;
    g->grid_used = 0;
    g->group = NULL;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = add_picture(g, &pictures[i], &t, t.data + (cuda_address)(i * t.image), placement ? &placement[i] : NULL);
    if (err == TACHY_OK)
        err = flush(g, &t);
    tachy_device_leave(g->device);
    return err;
}

int tachy_preprocess_gpu_open(struct tachy_preprocess_gpu **out, const struct tachy_preprocess_params *p,
                              struct tachy_device *d, cuda_stream stream)
{
    *out = NULL;
    int err = tachy_pre_check_params(p, true);
    if (err < 0)
        return err;
    const struct tachy_cuda_kernels *k = tachy_cuda_kernels();
    if (!k)
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE,
                          "preprocess: this build has no CUDA kernels; build with -Dcuda=enabled");
    struct tachy_preprocess_gpu *g = calloc(1, sizeof(*g));
    if (!g)
        return tachy_fail(p->log, TACHY_ERR_NOMEM, "preprocess: out of memory");
    g->params = *p;
    g->params.isa = NULL;
    g->params.dtype = TACHY_DEF(p->dtype, TACHY_F32);
    g->device = d;
    g->kernels = k;
    g->stream = stream;
    *out = g;
    return TACHY_OK;
}

void tachy_preprocess_gpu_set_rows(struct tachy_preprocess_gpu *g, int rows) { g->rows = rows; }

void tachy_preprocess_gpu_set_kernel(struct tachy_preprocess_gpu *g, enum tachy_cuda_pre_kernel k) { g->kernel = k; }

enum tachy_cuda_pre_kernel tachy_preprocess_gpu_ran(const struct tachy_preprocess_gpu *g) { return g->ran; }

void tachy_preprocess_gpu_close(struct tachy_preprocess_gpu **p)
{
    struct tachy_preprocess_gpu *g = *p;
    if (!g)
        return;
    bool entered = tachy_device_enter(g->device, g->params.log) == TACHY_OK;
    const struct tachy_cu *cu = g->device->cu;
    if (entered)
        cu->stream_wait(g->stream);
    for (int i = 0; i < PLANS; i++) {
        if (entered && g->plan[i].taps.at)
            cu->memory_free(g->plan[i].taps.at);
        tachy_plan_free(&g->plan[i].host);
    }
    if (entered && g->tone_gpu.at)
        cu->memory_free(g->tone_gpu.at);
    if (entered && g->grid.at)
        cu->memory_free(g->grid.at);
    if (entered)
        tachy_device_leave(g->device);
    tachy_growing_free(&g->staged);
    tachy_tone_close(&g->tone);
    free(g);
    *p = NULL;
}
