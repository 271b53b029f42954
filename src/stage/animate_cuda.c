#include "stage/stages.h"

#include "cuda/mem.h"
#include "ref/ref_mesh.h"
#include "stage/device_out.h"
#include "stage/neural.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// The portrait painted on the device as the stage `drive` says, or with what networks have made of its face. It is there once, for all
// workers; of a frame the mesh goes there, and the picture comes to the host unless an encoder reads it on the device.

// A portrait on a device.
struct there {
    tachy_frame *picture, *mouth; // mouth: grey, the three planes one below the other
};

struct animate_cuda {
    tachy_frame_pool *pool; // of pictures of the host's
    struct device_out out;
    struct tachy_video_info video;
    pthread_mutex_t lock; // of what follows
    bool has_lock;
    tachy_frame_pool *pictures[TACHY_MAX_GPUS], *mouths[TACHY_MAX_GPUS];
    struct there there[TACHY_MAX_GPUS][ANIMATE_PORTRAITS];
};

// What the stage keeps on a worker's part of a device.
struct part {
    struct device_painter painter; // first
    struct tachy_face_placed placed; // of the item in hand
    struct tachy_face_mesh mesh;
    struct tachy_block mesh_there, scratch;
};

// ---- A portrait

static void drop_portraits(struct tachy_stage *st)
{
    struct animate_cuda *a = tachy_stage_priv(st);
    struct task_devices *d = st->task->devices;
    for (int i = 0; i < d->nb; i++) {
        struct tachy_device *device = &d->list[i].gpu->device;
        bool in = tachy_device_enter(device, NULL) == TACHY_OK; // once for all that goes
        for (int k = 0; k < ANIMATE_PORTRAITS; k++) {
            tachy_frame_unref(&a->there[i][k].picture);
            tachy_frame_unref(&a->there[i][k].mouth);
        }
        tachy_frame_pool_close(&a->pictures[i]);
        tachy_frame_pool_close(&a->mouths[i]);
        if (in)
            tachy_device_leave(device);
    }
}

// The host's frame on the device; it is there when this returns.
static int copy_there(struct device_worker *g, tachy_frame_pool **pool, const tachy_frame *host, tachy_frame **out)
{
    int err = tachy_frame_pool_get_like(pool, g->gpu, TACHY_DEVICE, g->task->memory, host, out);
    if (err == TACHY_OK)
        err = tachy_frame_copy_planes(*out, host, &g->gpu->device, g->stream, true, g->task->log);
    if (err < 0)
        tachy_frame_unref(out);
    return err;
}

static int copy_mouth(struct device_worker *g, tachy_frame_pool **pool, const struct animate_portrait *p, tachy_frame **out)
{
    tachy_frame *grey = NULL;
    int err = tachy_frame_new(&grey, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8, .width = TACHY_MOUTH_SIZE,
                                                                  .height = 3 * TACHY_MOUTH_SIZE});
    for (int y = 0; y < 3 * TACHY_MOUTH_SIZE && err == TACHY_OK; y++)
        memcpy(tachy_frame_writable(grey, 0) + y * grey->stride[0],
               p->mouth[y / TACHY_MOUTH_SIZE] + y % TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE, TACHY_MOUTH_SIZE);
    if (err == TACHY_OK)
        err = copy_there(g, pool, grey, out);
    tachy_frame_unref(&grey);
    return err;
}

static int bring(struct device_group *p, const struct animate_portrait *portrait, const struct there **out)
{
    struct animate_cuda *a = tachy_stage_priv(p->st);
    int i = device_index(p->g->task->devices, p->g->device), err = TACHY_OK;
    struct there *t = &a->there[i][portrait->number];
    pthread_mutex_lock(&a->lock);
    if (!t->picture)
        err = copy_there(p->g, &a->pictures[i], portrait->picture, &t->picture);
    if (err == TACHY_OK && !t->mouth)
        err = copy_mouth(p->g, &a->mouths[i], portrait, &t->mouth);
    pthread_mutex_unlock(&a->lock);
    *out = t;
    return err;
}

// ---- A picture

// Of the planes from number `plane` on, of one size.
static void set_textures(struct tachy_cuda_mesh *k, const struct there *from, int plane)
{
    const tachy_frame *f = from->picture, *m = from->mouth;
    k->texture[0] = (struct tachy_cuda_texture){.data = tachy_cu_address(f->data[plane]), .row = f->stride[plane], .col = 1,
                                                .chan = plane ? f->data[2] - f->data[1] : 0, .width = k->width,
                                                .height = k->height};
    k->texture[1] = (struct tachy_cuda_texture){
        .data = tachy_cu_address(m->data[0] + plane * TACHY_MOUTH_SIZE * m->stride[0]), .row = m->stride[0], .col = 1,
        .chan = TACHY_MOUTH_SIZE * m->stride[0], .width = TACHY_MOUTH_SIZE, .height = TACHY_MOUTH_SIZE};
}

// Luma, or both planes of chroma as channels of one.
static int paint_planes(struct device_group *p, const struct there *from, tachy_frame *to, bool chroma, bool mirrored)
{
    struct part *own = p->part;
    const struct tachy_face_mesh *m = &own->mesh;
    int plane = chroma, width = chroma ? (to->width + 1) / 2 : to->width, height = chroma ? (to->height + 1) / 2 : to->height;
    uint8_t *dst = tachy_frame_writable(to, plane);
    struct tachy_cuda_mesh k = {
        .corner = tachy_cu_address(own->mesh_there.data) + (chroma ? sizeof(m->corner[0]) : 0),
        .triangle = tachy_cu_address(own->mesh_there.data) + offsetof(struct tachy_face_mesh, triangle),
        .other_from = m->mouth, .other_end = m->mouth_end, .dst = tachy_cu_address(dst) + (mirrored ? (size_t)width - 1 : 0),
        .scratch = tachy_cu_address(own->scratch.data), .row_dst = to->stride[plane], .col_dst = mirrored ? -1 : 1,
        .chan_dst = chroma ? tachy_frame_writable(to, 2) - dst : 0, .width = width, .height = height,
        .corners = TACHY_FACE_CORNERS, .triangles = m->triangles, .channels = chroma ? 2 : 1, .count = 1,
        .type = TACHY_MESH_U8, .fill = 1};
    set_textures(&k, from, plane);
    return device_failed(p->g, p->g->kernels->mesh(&k, p->g->stream), "starting the kernel that paints a mesh");
}

// Queues the mesh's way to the device. The driver has taken it from the host's memory when the copy returns.
static int send_mesh(struct device_group *p, const struct drive_item *of)
{
    struct device_worker *g = p->g;
    struct part *own = p->part;
    struct tachy_gpu_scratch s = {g->task->memory, g->device->mem, g->cu, g->stream, g->task->log};
    size_t pixels = (size_t)of->portrait->picture->width * (size_t)of->portrait->picture->height;
    tachy_face_place(&of->portrait->face, &of->motion, &own->placed);
    tachy_face_mesh(&of->portrait->face, &own->placed, &own->mesh);
    size_t bytes = offsetof(struct tachy_face_mesh, triangle) + (size_t)own->mesh.triangles * sizeof(own->mesh.triangle[0]);
    int err = tachy_gpu_scratch_need(&s, &own->mesh_there, sizeof(own->mesh));
    if (err == TACHY_OK)
        err = tachy_gpu_scratch_need(&s, &own->scratch, pixels * sizeof(int32_t));
    return err < 0 ? err : device_failed(g, g->cu->copy_to_device_async(tachy_cu_address(own->mesh_there.data), &own->mesh, bytes,
                                                                        g->stream), "a copy");
}

static int paint_mesh(struct device_group *p, const struct drive_item *of, const struct there *from, tachy_frame *surface)
{
    int err = send_mesh(p, of);
    for (int chroma = 0; chroma < 2 && err == TACHY_OK; chroma++)
        err = paint_planes(p, from, surface, chroma, of->mirrored);
    return err;
}

// What networks have made, over the portrait.
static int paste(struct device_group *p, const struct drive_item *of, const struct there *from, const void *made, int side,
                 tachy_frame *surface)
{
    const struct neural *n = neural_of(p->st);
    const tachy_frame *f = from->picture;
    struct tachy_cuda_paste k = {.rgb = tachy_cu_address(made), .planes = 3};
    for (int i = 0; i < 3; i++) {
        const int width = i ? (f->width + 1) / 2 : f->width, height = i ? (f->height + 1) / 2 : f->height;
        const struct tachy_face_plane plane = {.width = width, .height = height, .scale_x = i ? 0.5f : 1, .scale_y = i ? 0.5f : 1};
        struct tachy_face_paste how;
        int err = neural_paste(&how, n, of->portrait, side, i);
        if (err < 0)
            return err;
        k.plane[i] = (struct tachy_cuda_paste_plane){
            .src = tachy_cu_address(f->data[i]), .dst = tachy_cu_address(tachy_frame_writable(surface, i)) + (of->mirrored ? (size_t)width - 1 : 0),
            .row_src = f->stride[i], .row_dst = surface->stride[i], .col_dst = of->mirrored ? -1 : 1, .width = width, .height = height};
        tachy_face_paste_how(&k.plane[i].how, &how, &plane);
    }
    return device_failed(p->g, p->g->kernels->paste(&k, p->g->stream), "starting the kernel that pastes a picture");
}

static int paint(struct device_group *p, struct tachy_item *item, tachy_frame *surface)
{
    const struct drive_item *of = tachy_stage_item(tachy_stage_before(p->st, "drive"), item);
    const struct there *from;
    int side = 0, err = bring(p, of->portrait, &from);
    const void *made = neural_made(p, item, &side);
    surface->color = of->portrait->picture->color;
    if (err < 0)
        return err;
    device_kernels(p->g);
    err = made ? paste(p, of, from, made, side, surface) : paint_mesh(p, of, from, surface);
    device_kernels_end(p->g, 2 * device_bytes(surface));
    int kept = made ? neural_read_made(p, item) : TACHY_OK; // also after a failure
    return err < 0 ? err : kept;
}

// ---- The stage

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct animate_cuda *a = tachy_stage_priv(st);
    st->worker_of = st->task->devices->st->worker_of;
    a->has_lock = !pthread_mutex_init(&a->lock, NULL);
    return a->has_lock ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void close(struct tachy_stage *st)
{
    struct animate_cuda *a = tachy_stage_priv(st);
    drop_portraits(st);
    device_out_close(&a->out);
    tachy_frame_pool_close(&a->pool);
    if (a->has_lock)
        pthread_mutex_destroy(&a->lock);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct animate_cuda *a = tachy_stage_priv(st);
    animate_video(tachy_stage_priv(tachy_stage_before(st, "drive")), video);
    a->video = *video;
    drop_portraits(st);
    device_out_close(&a->out);
    return device_host_pool(st, &a->pool, video->format, video->width, video->height);
}

static int surfaces(struct tachy_stage *st, const struct tachy_surface_spec *spec)
{
    struct animate_cuda *a = tachy_stage_priv(st);
    bool fits = spec->format == a->video.format && spec->width == a->video.width && spec->height == a->video.height;
    return fits ? device_out_open(&a->out, st, spec) : TACHY_OK;
}

static void part_close(void *part)
{
    struct part *p = part;
    device_painter_close(&p->painter);
    tachy_memory_give(p->painter.g->task->memory, &p->mesh_there);
    tachy_memory_give(p->painter.g->task->memory, &p->scratch);
    free(p);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    const struct animate_cuda *a = tachy_stage_priv(st);
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->painter = (struct device_painter){.paint = paint, .out = &a->out, .host = &a->pool};
    int err = device_painter_open(&p->painter, g, a->video.format, a->video.width, a->video.height);
    if (err < 0) {
        part_close(p);
        *part = NULL;
    }
    return err;
}

const struct tachy_stage_ops tachy_stage_animate_cuda = {
    .name = "animate",
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct animate_cuda),
    .item_size = sizeof(struct device_painted),
    .open = open,
    .close = close,
    .start = start,
    .surfaces = surfaces,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = device_painter_run,
    .sync = device_painter_sync,
    .load = device_load,
    .queue = device_painter_queue,
};
