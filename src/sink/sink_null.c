#include "base/clock.h"
#include "sink/sink_ops.h"

#include <stdlib.h>

// Counts frames (in sink.c) and drops them. The name may say what a frame costs, for
// measurement and tests: "null:cost_us=N,sleep_us=N,io_us=N".

struct priv {
    uint64_t cost_ns;  // simulated work per frame, on the calling thread
    uint64_t sleep_ns; // and waiting for a device or other threads
    uint64_t io_ns;    // and for a slow disk
};

static bool null_probe(const char *url, const char *format)
{
    return format && !strcmp(format, "null");
}

static int parse_item(tachy_sink *s, char *item)
{
    struct priv *p = (void *)s->priv;
    static const char *const keys[] = {"cost_us", "sleep_us", "io_us"};
    uint64_t *const ns[] = {&p->cost_ns, &p->sleep_ns, &p->io_ns};
    char *value = strchr(item, '='), *end = NULL;
    if (value)
        *value++ = '\0';
    long long n = value ? strtoll(value, &end, 10) : -1;
    for (int i = 0; i < 3; i++) {
        if (strcmp(item, keys[i]) || !value || end == value || *end || n < 0 || n > 10000000)
            continue;
        *ns[i] = (uint64_t)n * 1000;
        return TACHY_OK;
    }
    return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                      "%s: write null:cost_us=N,sleep_us=N,io_us=N, each from 0 to 10000000",
                      s->params.url);
}

static int null_open(tachy_sink *s)
{
    if (!s->params.url || strncmp(s->params.url, "null:", 5))
        return TACHY_OK;
    char *text = strdup(s->params.url + 5), *rest = NULL;
    int err = text ? TACHY_OK : TACHY_ERR_NOMEM;
    if (text)
        for (char *i = strtok_r(text, ",", &rest); i && !err; i = strtok_r(NULL, ",", &rest))
            err = parse_item(s, i);
    free(text);
    return err;
}

static int null_start(tachy_sink *s, const struct tachy_video_info *info) { return TACHY_OK; }

static int null_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    const struct priv *p = (const void *)s->priv;
    uint64_t start = p->cost_ns ? tachy_thread_cpu_ns() : 0;
    while (p->cost_ns && tachy_thread_cpu_ns() < start + p->cost_ns)
        continue; // busy, as an encoder would be
    if (p->sleep_ns)
        tachy_sleep_until(tachy_now_ns() + p->sleep_ns);
    if (p->io_ns) {
        start = tachy_now_ns();
        tachy_sleep_until(start + p->io_ns);
        s->write_ns += tachy_now_ns() - start;
    }
    return TACHY_OK;
}

static int null_finish(tachy_sink *s, bool interrupted) { return TACHY_OK; }
static void null_close(tachy_sink *s) {}

const struct tachy_sink_ops tachy_sink_null = {
    .name = "null",
    .no_pixels = true,
    .priv_size = sizeof(struct priv),
    .no_file = true,
    .probe = null_probe,
    .open = null_open,
    .start = null_start,
    .write = null_write,
    .finish = null_finish,
    .close = null_close,
};
