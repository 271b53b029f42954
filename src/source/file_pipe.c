#include "source/file_priv.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

// Reading that a stop or too long a silence can end. FFmpeg's own reading of a pipe waits for the
// writer, however long that takes; here the wait is cut into pieces.

static const uint64_t CAMERA_WAIT = 1000000u; // ns between looks for a picture
enum { PIPE_BUFFER = 32 << 10, PIECE_MS = 100 };

// True if anything arrived since the last call: bytes, or, if another part of FFmpeg has the connection (RTSP, the
// segments of a playlist), packets.
static bool heard(struct file_input *in)
{
    const AVIOContext *io = in->fmt ? in->fmt->pb : NULL;
    int64_t bytes = io ? io->bytes_read : 0;
    bool any = bytes != in->heard_bytes;
    in->heard_bytes = bytes;
    for (unsigned i = 0; in->fmt && i < in->fmt->nb_streams; i++) {
        AVStream *st = in->fmt->streams[i];
        any = any || st->event_flags & AVSTREAM_EVENT_FLAG_NEW_PACKETS;
        st->event_flags &= ~AVSTREAM_EVENT_FLAG_NEW_PACKETS;
    }
    return any;
}

// FFmpeg asks about ten times per second while it waits.
static int should_end(void *user)
{
    struct file_input *in = user;
    if (in->silent || (in->stop && __atomic_load_n(in->stop, __ATOMIC_RELAXED)))
        return 1;
    if (!in->patience_ns)
        return 0;
    uint64_t now = tachy_now_ns();
    if (heard(in))
        in->heard_ns = now;
    in->silent = now - in->heard_ns > in->patience_ns;
    return in->silent;
}

void file_input_wait(struct file_input *in) { in->heard_ns = tachy_now_ns(); }

int file_input_read(struct file_input *in, AVPacket *packet)
{
    file_input_wait(in);
    int e = av_read_frame(in->fmt, packet);
    while (in->camera && e == AVERROR(EAGAIN)) { // it would wait where a stop cannot reach it
        if (should_end(in))
            return AVERROR_EXIT;
        tachy_sleep_until(tachy_now_ns() + CAMERA_WAIT);
        e = av_read_frame(in->fmt, packet);
    }
    return e;
}

int file_input_silent(const struct file_input *in, const char *url, const struct tachy_log *log)
{
    return tachy_fail(log, TACHY_ERR_AGAIN,
                      "%s: sent nothing for %g s and was given up; try again later, or wait longer with "
                      "--timeout SECONDS", url, (double)in->patience_ns * 1e-9);
}

static int pipe_read(void *user, uint8_t *data, int size)
{
    struct file_input *in = user;
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    for (;;) {
        if (should_end(in))
            return AVERROR_EXIT;
        int ready = poll(&p, 1, PIECE_MS);
        if (ready < 0 && errno != EINTR)
            return AVERROR(errno);
        if (ready <= 0)
            continue;
        ssize_t n = read(in->fd, data, (size_t)size);
        if (n > 0)
            return (int)n;
        if (!n)
            return AVERROR_EOF;
        if (errno != EINTR && errno != EAGAIN)
            return AVERROR(errno);
    }
}

int file_pipe_open(struct file_input *in, const char *fifo)
{
    // Without O_NONBLOCK it would wait here for a writer; poll() does that instead.
    in->fd = fifo ? open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                  : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (in->fd < 0)
        return AVERROR(errno);
    uint8_t *buffer = av_malloc(PIPE_BUFFER);
    in->pb = buffer ? avio_alloc_context(buffer, PIPE_BUFFER, 0, in, pipe_read, NULL, NULL) : NULL;
    if (in->pb)
        return 0;
    av_free(buffer);
    close(in->fd);
    return AVERROR(ENOMEM);
}

void file_pipe_close(struct file_input *in)
{
    if (in->pb) {
        av_freep(&in->pb->buffer);
        avio_context_free(&in->pb);
        close(in->fd);
    }
}

AVFormatContext *file_context(struct file_input *in)
{
    AVFormatContext *fmt = avformat_alloc_context();
    if (fmt) {
        fmt->pb = in->pb;
        fmt->interrupt_callback = (AVIOInterruptCB){.callback = should_end, .opaque = in};
    }
    return fmt;
}
