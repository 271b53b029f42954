#include "base/path.h"
#include "sink/sink_ops.h"
#include "sink/upright.h"

#include <dlfcn.h>
#include <stdlib.h>

// An NDI source on the local network. NewTek's library is loaded if it is installed: it is not free software and is not
// shipped. The functions used are declared here by its documented interface, version 5 and 6.

struct ndi_send {
    const char *name, *groups;
    bool clock_video, clock_audio; // calls wait until a picture is due
};

struct ndi_video {
    int width, height;
    uint32_t fourcc;
    int rate_num, rate_den;
    float aspect; // 0: square pixels
    int progressive;
    int64_t time; // 100 ns; INT64_MAX: now
    uint8_t *data;
    int stride;
    const char *metadata;
    int64_t sent;
};

#define FUNCTIONS(F)                                                                \
    F(bool, initialize, (void))                                                     \
    F(void *, send_create, (const struct ndi_send *))                               \
    F(void, send_destroy, (void *))                                                 \
    F(void, send_send_video_v2, (void *, const struct ndi_video *))                 \
    F(int, send_get_no_connections, (void *, uint32_t))

struct ndi {
    void *library;
#define MEMBER(result, name, args) result(*name) args;
    FUNCTIONS(MEMBER)
#undef MEMBER
    void *sender;
    struct tachy_upright upright;
    int width, height;
};

static struct ndi *ndi_of(const tachy_sink *s) { return (struct ndi *)(uintptr_t)s->priv; }

static bool ndi_probe(const char *url, const char *format) { return !format && url && tachy_path_says(url, "ndi"); }

static int ndi_open(tachy_sink *s)
{
    static const char *const names[] = {"libndi.so.6", "libndi.so.5", "libndi.so"};
    struct ndi *n = ndi_of(s);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names) && !n->library; i++)
        n->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bool whole = n->library;
#define LOAD(result, name, args) whole = whole && (*(void **)&n->name = dlsym(n->library, "NDIlib_" #name));
    FUNCTIONS(LOAD)
#undef LOAD
    if (!whole || !n->initialize())
        return tachy_fail(s->params.log, TACHY_ERR_UNAVAILABLE, "%s: needs NDI's library, version 5 or later, where the system looks for "
                          "libraries: libndi.so.6 from ndi.video", s->params.url);
    return TACHY_OK;
}

static int ndi_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct ndi *n = ndi_of(s);
    const char *name = s->params.url[3] == ':' && s->params.url[4] ? s->params.url + 4 : "tachy";
    tachy_upright_size(info, &n->width, &n->height);
    n->width = TACHY_MAX(n->width / 2 * 2, 2); // two pixels share their colour
    n->sender = n->send_create(&(struct ndi_send){.name = name});
    if (!n->sender)
        return tachy_fail(s->params.log, TACHY_ERR_UNAVAILABLE, "%s: NDI makes no source of this name", s->params.url);
    tachy_msg(s->params.log, TACHY_LOG_INFO, "%s: the source %s of NDI, %dx%d", s->params.url, name, n->width, n->height);
    return tachy_upright_open(&n->upright, info, AV_PIX_FMT_UYVY422, n->width, n->height, s->params.log);
}

static int ndi_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct ndi *n = ndi_of(s);
    AVFrame *made;
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: this run makes no pictures to show; choose another --mode", s->params.url);
    if (!n->send_get_no_connections(n->sender, 0))
        return TACHY_OK; // nobody looks
    int err = tachy_upright_run(&n->upright, f, &made);
    if (err < 0)
        return err;
    const struct tachy_rational rate = s->info.fps;
    n->send_send_video_v2(n->sender, &(struct ndi_video){
        .width = n->width, .height = n->height, .fourcc = MKTAG('U', 'Y', 'V', 'Y'), .rate_num = rate.num > 0 ? rate.num : 30,
        .rate_den = rate.num > 0 ? rate.den : 1, .progressive = 1, .time = INT64_MAX, .data = made->data[0], .stride = made->linesize[0]});
    s->bytes += 2 * (int64_t)n->width * n->height;
    av_frame_free(&made);
    return TACHY_OK;
}

static int ndi_finish(tachy_sink *s, bool interrupted) { return TACHY_OK; }

static void ndi_close(tachy_sink *s)
{
    struct ndi *n = ndi_of(s);
    if (n->sender)
        n->send_destroy(n->sender);
    tachy_upright_close(&n->upright); // the library stays loaded: it has its own threads
}

const struct tachy_sink_ops tachy_sink_ndi = {
    .name = "ndi",
    .priv_size = sizeof(struct ndi),
    .no_file = true,
    .probe = ndi_probe,
    .open = ndi_open,
    .start = ndi_start,
    .write = ndi_write,
    .finish = ndi_finish,
    .close = ndi_close,
};
