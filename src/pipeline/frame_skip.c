#include "pipeline/frame_skip.h"

#include "base/base.h"

#include <stdlib.h>

void tachy_frame_skip_open(struct tachy_frame_skip *s, int eyes, enum tachy_stereo stereo,
                           float threshold, const struct tachy_log *log)
{
    memset(s, 0, sizeof(*s));
    s->eyes = TACHY_CLAMP(eyes, 1, TACHY_MAX_EYES);
    s->stereo = stereo;
    s->threshold = threshold;
    s->log = log;
}

void tachy_frame_skip_close(struct tachy_frame_skip *s) { tachy_signature_gpu_close(&s->gpu); }

static struct tachy_rect eye_of(const struct tachy_frame_skip *s, const tachy_frame *f, int eye)
{
    struct tachy_rect r = {0, 0, f->width, f->height};
    if (s->eyes == 2 && s->stereo == TACHY_STEREO_SBS && f->width >= 2) {
        r.x = eye ? f->width / 2 : 0;
        r.w = eye ? f->width - r.x : f->width / 2;
    } else if (s->eyes == 2 && s->stereo == TACHY_STEREO_TB && f->height >= 2) {
        r.y = eye ? f->height / 2 : 0;
        r.h = eye ? f->height - r.y : f->height / 2;
    }
    return r;
}

static bool make(struct tachy_frame_skip *s, struct tachy_signature *out, const tachy_frame *f, const struct tachy_rect *r)
{
    if (f->mem != TACHY_DEVICE)
        return tachy_signature_make(out, f, r) == TACHY_OK;
    if (!s->gpu_fails && tachy_signature_make_gpu(&s->gpu, out, f, r, s->log) == TACHY_OK)
        return true;
    if (!s->gpu_fails)
        tachy_msg(s->log, TACHY_LOG_WARN, "frames on the GPU cannot be compared: the model runs for all of them");
    s->gpu_fails = true;
    return false;
}

static bool look_eye(struct tachy_frame_skip *s, struct tachy_frame_skip_eye *e, const tachy_frame *f,
                     const struct tachy_rect *r, unsigned allowed)
{
    e->similar = false;
    if (!make(s, &e->now, f, r) || !e->known)
        return false;
    float d = tachy_signature_distance(&e->last, &e->now);
    e->similar = d <= s->threshold && allowed & 1u << TACHY_DEGRADE_SIMILAR;
    bool between = e->inferred && d <= TACHY_ALTERNATE_MOST;
    return e->similar || (between && allowed & 1u << TACHY_DEGRADE_ALTERNATE);
}

unsigned tachy_frame_skip_look(struct tachy_frame_skip *s, const tachy_frame *f, unsigned allowed,
                               bool anew)
{
    unsigned reuse = 0;
    allowed &= 1u << TACHY_DEGRADE_SIMILAR | 1u << TACHY_DEGRADE_ALTERNATE;
    for (int i = 0; i < s->eyes; i++) {
        struct tachy_frame_skip_eye *e = &s->eye[i];
        struct tachy_rect r = eye_of(s, f, i);
        e->known = e->known && !anew && allowed;
        if (allowed && look_eye(s, e, f, &r, allowed))
            reuse |= 1u << i;
    }
    return reuse;
}

void tachy_frame_skip_take(struct tachy_frame_skip *s, unsigned allowed, unsigned reuse)
{
    for (int i = 0; i < s->eyes; i++) {
        struct tachy_frame_skip_eye *e = &s->eye[i];
        e->inferred = !(reuse >> i & 1);
        if (!e->inferred) {
            s->similar += e->similar;
            s->alternate += !e->similar;
        } else if (allowed) {
            e->last = e->now;
            e->known = true;
        }
    }
}

// Saved state of an eye.
struct saved {
    struct tachy_signature last;
    int32_t known, inferred;
};

int tachy_frame_skip_save(const struct tachy_frame_skip *s, void **data, size_t *size)
{
    *size = (size_t)s->eyes * sizeof(struct saved);
    struct saved *to = *data = calloc((size_t)s->eyes, sizeof(*to));
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < s->eyes; i++)
        to[i] = (struct saved){s->eye[i].last, s->eye[i].known, s->eye[i].inferred};
    return TACHY_OK;
}

int tachy_frame_skip_load(struct tachy_frame_skip *s, const void *data, size_t size)
{
    struct saved from;
    if (size != (size_t)s->eyes * sizeof(from))
        return TACHY_ERR_FORMAT;
    for (int i = 0; i < s->eyes; i++) {
        memcpy(&from, (const char *)data + (size_t)i * sizeof(from), sizeof(from));
        s->eye[i].last = from.last;
        s->eye[i].known = from.known != 0;
        s->eye[i].inferred = from.inferred != 0;
    }
    return TACHY_OK;
}
