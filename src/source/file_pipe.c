#include "source/file_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

// Reading that a stop can end. FFmpeg's own reading of a pipe waits for the writer, however
// long that takes; here the wait is cut into pieces.

enum { PIPE_BUFFER = 32 << 10, PIECE_MS = 100 };

static int stop_asked(void *user)
{
    const struct file_input *in = user;
    return in->stop && __atomic_load_n(in->stop, __ATOMIC_RELAXED);
}

static int pipe_read(void *user, uint8_t *data, int size)
{
    struct file_input *in = user;
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    for (;;) {
        if (stop_asked(in))
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
        fmt->interrupt_callback = (AVIOInterruptCB){.callback = stop_asked, .opaque = in};
    }
    return fmt;
}
