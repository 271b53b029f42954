#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <tachy/curate.h>
#include <unistd.h>

enum { BAR_MIN = 10, BAR_MAX = 40, LINE_EVERY_S = 5 };

// "1:02:03" or "2:03".
static void clock_text(char *buf, size_t size, double seconds)
{
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(buf, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, size, "%ld:%02ld", s / 60, s % 60);
}

static void draw_bar(char *buf, size_t size, int cells, double share)
{
    int full = (int)(cells * share);
    size_t n = 0;
    buf[n++] = '[';
    for (int i = 0; i < cells && n + 2 < size; i++)
        buf[n++] = i < full ? '#' : '-';
    buf[n++] = ']';
    buf[n] = '\0';
}

// Parts come in order of weight; one that no longer fits is left out.
static void add(char *buf, size_t size, int width, const char *part)
{
    size_t n = strlen(buf), m = strlen(part);
    size_t gap = n ? 2 : 0;
    if (!m || n + gap + m > (size_t)width || n + gap + m >= size)
        return;
    snprintf(buf + n, size - n, "%s%s", gap ? "  " : "", part);
}

void progress_line(char *buf, size_t size, int width, bool bar, const struct tachy_progress *now)
{
    bool known = now->total > 0;
    double share = known ? (double)now->frames / (double)now->total : 0;
    share = share > 1 ? 1 : share;
    char text[64] = "", eta[32], cells[BAR_MAX + 3] = "";
    buf[0] = '\0';
    if (known)
        snprintf(text, sizeof(text), "%3.0f %%", share * 100);
    int room = width - 62;
    if (bar && known && room >= BAR_MIN)
        draw_bar(cells, sizeof(cells), room > BAR_MAX ? BAR_MAX : room, share);
    add(buf, size, width, cells);
    add(buf, size, width, text);
    if (known)
        snprintf(text, sizeof(text), "%lld/%lld frames", (long long)now->frames,
                 (long long)now->total);
    else
        snprintf(text, sizeof(text), "%lld frames", (long long)now->frames);
    add(buf, size, width, text);
    snprintf(text, sizeof(text), "%.1f fps", now->fps);
    add(buf, size, width, text);
    if (known && now->fps > 0 && now->frames < now->total) {
        clock_text(eta, sizeof(eta), (double)(now->total - now->frames) / now->fps);
        snprintf(text, sizeof(text), "ETA %s", eta);
        add(buf, size, width, text);
    }
    const char *limit = now->limited_by;
    if (now->frames > 0 && limit && !strcmp(limit, "source-rate"))
        add(buf, size, width, "keeping up");
    else if (now->frames > 0 && limit && strcmp(limit, "none")) {
        snprintf(text, sizeof(text), "bottleneck: %s", limit);
        add(buf, size, width, text);
    }
}

void progress_start(struct progress *p, const struct cli *c, const char *name)
{
    const char *term = getenv("TERM");
    *p = (struct progress){.name = name, .log = &c->log, .control = c->control};
    p->off = c->log.max_level < TACHY_LOG_INFO || message_hooked(); // a prompt has `stats`
    p->bar = isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
}

// Time stands still during a pause, so its line comes at once, and once.
static bool show_pause(struct progress *p, const struct tachy_progress *now)
{
    char line[64];
    bool paused = p->control && tachy_control_state(p->control) == TACHY_RUN_PAUSED;
    if (paused && p->bar && p->shown_paused != now->frames + 1) {
        snprintf(line, sizeof(line), "paused at %lld frames", (long long)now->frames);
        message_status(line);
    }
    p->shown_paused = paused ? now->frames + 1 : 0;
    return paused;
}

bool progress_show(void *progress, const struct tachy_progress *now)
{
    struct progress *p = progress;
    double every = p->bar ? 0.24 : LINE_EVERY_S; // the caller comes about four times per second
    if (p->off || show_pause(p, now) || now->seconds - p->last_s < every)
        return true;
    p->last_s = now->seconds;
    char line[256];
    size_t lead = 0;
    if (p->bar) {
        if (p->several)
            lead = (size_t)snprintf(line, sizeof(line), "%s  ", p->name);
        progress_line(line + lead, sizeof(line) - lead, terminal_width(stderr) - 1 - (int)lead, true, now);
        message_status(line);
    } else {
        progress_line(line, sizeof(line), 200, false, now);
        message_note(p->log, "%s: %s", p->name, line);
    }
    return true;
}

// The rows of one task, whose names begin with its own and a dot, or one row of another name.
struct part {
    char name[TACHY_STEP_NAME];
    int from, to;   // rows
    int64_t frames; // that have come to its last stage: others may be called more than once per frame
    double share;   // of the time of all
};

static int read_parts(struct part part[TACHY_MAX_STEPS], const struct tachy_step_stats steps[], int nb_steps)
{
    double busy_s = 0;
    int n = 0;
    for (int i = 0; i < nb_steps; i++)
        busy_s += steps[i].busy_s;
    for (int i = 0; i < nb_steps && busy_s > 0; i++) {
        int size = (int)strcspn(steps[i].name, ".");
        if (!n || (int)strlen(part[n - 1].name) != size || strncmp(part[n - 1].name, steps[i].name, (size_t)size) != 0) {
            part[n] = (struct part){.from = i};
            snprintf(part[n++].name, sizeof(part->name), "%.*s", size, steps[i].name);
        }
        part[n - 1].to = i + 1;
        part[n - 1].frames = steps[i].calls;
        part[n - 1].share += steps[i].busy_s / busy_s;
    }
    return n;
}

// "pose            1235 frames   41 %  track 38 %  smooth 2 %"
static void part_line(char *line, size_t size, int width, const struct part *p, const struct tachy_step_stats steps[])
{
    char text[TACHY_STEP_NAME + 16];
    double busy_s = 0;
    for (int i = p->from; i < p->to; i++)
        busy_s += steps[i].busy_s;
    snprintf(line, size, "  %-12.31s %9lld frames %4.0f %%", p->name, (long long)p->frames, 100 * p->share);
    for (int i = p->from; i < p->to && p->to - p->from > 1 && busy_s > 0; i++) {
        snprintf(text, sizeof(text), "%s %.0f %%", strchr(steps[i].name, '.') + 1, 100 * p->share * steps[i].busy_s / busy_s);
        add(line, size, width, text);
    }
}

// A line for each task, if the terminal has room for all of them.
static void show_block(const char *line, int width, const struct tachy_curate_progress *now)
{
    struct part part[TACHY_MAX_STEPS];
    char block[2000], text[256];
    int n = read_parts(part, now->steps, now->nb_steps), at = snprintf(block, sizeof(block), "%s", line);
    bool room = n + 1 < terminal_height(stderr);
    for (int i = 0; i < n && room; i++) {
        part_line(text, sizeof(text), width, &part[i], now->steps);
        if (part[i].frames && at + 1 + (int)strlen(text) < (int)sizeof(block))
            at += snprintf(block + at, sizeof(block) - (size_t)at, "\n%.*s", width, text);
    }
    message_status(block);
}

static void note_parts(const struct progress *p, const struct tachy_curate_progress *now)
{
    struct part part[TACHY_MAX_STEPS];
    char line[900] = "", text[96];
    int n = read_parts(part, now->steps, now->nb_steps);
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof(text), "%.31s %lld frames %.0f %%", part[i].name, (long long)part[i].frames, 100 * part[i].share);
        if (part[i].frames)
            add(line, sizeof(line), sizeof(line) - 1, text);
    }
    if (*line)
        message_note(p->log, "%s: %s", p->name, line);
}

void progress_table(const struct tachy_step_stats steps[], int nb_steps)
{
    struct part part[TACHY_MAX_STEPS];
    int n = read_parts(part, steps, nb_steps);
    double busy_s = 0;
    for (int i = 0; i < nb_steps; i++)
        busy_s += steps[i].busy_s;
    if (n)
        printf("  %-24s %9s %13s %6s\n", "stage", "frames", "ms per frame", "share");
    for (int k = 0; k < n; k++)
        for (int i = part[k].from; i < part[k].to && part[k].frames; i++)
            printf("  %-24s %9lld %13.3f %4.0f %%\n", steps[i].name, (long long)part[k].frames,
                   1e3 * steps[i].busy_s / (double)part[k].frames, 100 * steps[i].busy_s / busy_s);
}

void progress_inputs(struct progress *p, const struct tachy_curate_progress *now)
{
    char line[256] = "", part[128];
    int width = p->bar ? terminal_width(stderr) - 1 : 200;
    if (p->off || now->seconds - p->last_s < (p->bar ? 0.24 : LINE_EVERY_S))
        return;
    p->last_s = now->seconds;
    snprintf(part, sizeof(part), "%3.0f %%", now->share * 100);
    add(line, sizeof(line), width, part);
    snprintf(part, sizeof(part), "%d/%d inputs", now->done, now->files);
    add(line, sizeof(line), width, part);
    snprintf(part, sizeof(part), "%lld frames  %.1f fps", (long long)now->frames, now->fps);
    add(line, sizeof(line), width, part);
    if (now->eta >= 0) {
        memcpy(part, "ETA ", 4);
        clock_text(part + 4, sizeof(part) - 4, now->eta);
        add(line, sizeof(line), width, part);
    }
    const char *slash = now->file ? strrchr(now->file, '/') : NULL;
    snprintf(part, sizeof(part), "%.80s", slash ? slash + 1 : now->file ? now->file : "");
    add(line, sizeof(line), width, part);
    if (p->bar) {
        show_block(line, width, now);
        return;
    }
    message_note(p->log, "%s: %s", p->name, line);
    note_parts(p, now);
}

void progress_end(struct progress *p)
{
    if (p->bar && !p->off)
        message_status(NULL);
}
