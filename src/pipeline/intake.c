#include "pipeline/intake.h"

#include "media/convert.h"
#include "media/frame_mem.h"
#include "pipeline/pipeline.h"

void pipeline_intake_init(struct pipeline_intake *in) { pthread_mutex_init(&in->lock, NULL); }

void pipeline_intake_close(struct pipeline_intake *in)
{
    tachy_convert_close(&in->convert);
    pthread_mutex_destroy(&in->lock);
}

int pipeline_fit(tachy_stream *s, tachy_frame *f, tachy_frame **out)
{
    const struct tachy_video_info *in = &s->bind->input;
    const struct tachy_log *log = s->pipeline->log;
    *out = NULL;
    int err = tachy_frame_check(f, log, "pipeline");
    if (err < 0)
        return err;
    if (f->format == in->format && f->width == in->width && f->height == in->height) {
        *out = tachy_frame_ref(f);
        return TACHY_OK;
    }
    struct tachy_convert_to to = {in->format, in->width, in->height, in->color};
    pthread_mutex_lock(&s->intake.lock);
    err = tachy_convert_frame(&s->intake.convert, f, &to, out, log);
    pthread_mutex_unlock(&s->intake.lock);
    return err;
}
