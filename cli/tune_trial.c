#include "tune.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tachy/gpu.h>
#include <unistd.h>

// A trial is a process of this command: the user's words, without those that say where results go, and the values to try.

enum { EXTRA = TUNE_ROWS + TUNE_FIXED + TUNE_EXTRA + 8, WORD = 256 };

// Whether a trial leaves out what the user gave: results go elsewhere, and nobody watches it.
static bool left_out(const struct tachy_option *o, bool results)
{
    static const char *const paths[] = {"output.file", "output.overwrite", "output.no_overwrite", "output.skip_existing", "output.resume",
                                        "run.json", "run.interactive", "run.watch", "run.quiet", "run.log_level", "run.calibrate",
                                        "faces.people", "faces.put", "faces.names"};
    if (!o)
        return false;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (!strcmp(o->path, paths[i]))
            return true;
    return !strncmp(o->path, "metrics.", 8) || !strncmp(o->path, "debug.", 6) || (results && !strncmp(o->path, "output.", 7));
}

// The extension of the user's output decides what a trial writes, too.
static int name_output(struct tune *t)
{
    const char *format = tachy_settings_str(t->c->settings, "output.format"), *name = tachy_settings_str(t->c->settings, "output.file");
    const char *slash = name ? strrchr(name, '/') : NULL, *dot = name ? strrchr(slash ? slash : name, '.') : NULL;
    bool plain = dot && strlen(dot) < 16 && !strstr(name, "://") && !strpbrk(name, "%[");
    if (format && (!strcmp(format, "null") || !strcmp(format, "framemd5")))
        strcpy(t->output, "-");
    else if (plain)
        snprintf(t->output, sizeof(t->output), "%s/out%s", t->folder, dot);
    else
        snprintf(t->output, sizeof(t->output), "%s/", t->folder);
    return TACHY_OK;
}

int tune_open(struct tune *t)
{
    strcpy(t->folder, "/tmp/tachy-tune-XXXXXX");
    t->argv = calloc(t->c->n_inner + EXTRA + 2, sizeof(*t->argv));
    t->log = tmpfile();
    if (!t->argv)
        return TACHY_ERR_NOMEM;
    if (t->log && mkdtemp(t->folder))
        return name_output(t);
    t->folder[0] = '\0';
    return write_failed("/tmp/tachy-tune-XXXXXX");
}

static void clear_folder(const struct tune *t)
{
    char path[512];
    DIR *d = opendir(t->folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", t->folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
}

void tune_close(struct tune *t)
{
    if (t->folder[0]) {
        clear_folder(t);
        rmdir(t->folder);
    }
    if (t->log)
        fclose(t->log);
    free(t->argv);
}

bool tune_stopped(const struct tune *t) { return tachy_control_stopped(t->c->control); }

struct words {
    char text[EXTRA][WORD];
    int n;
};

__attribute__((format(printf, 2, 3))) static void add_word_to(struct words *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(w->text[w->n++], WORD, fmt, args);
    va_end(args);
}

// The user's words up to "--", ours, which so go first, and the rest.
static void join(struct tune *t, const struct words *own, bool results)
{
    const struct cli *c = t->c;
    const char *output = c->args[c->n_args]; // where an argument without an option names it; else NULL
    size_t n = 0, i = 0;
    t->argv[n++] = "tachy";
    for (; i < c->n_inner && strcmp(c->inner_argv[i], "--") != 0; i++)
        if (!left_out(c->inner_row[i], results) && c->inner_argv[i] != output)
            t->argv[n++] = c->inner_argv[i];
    for (int k = 0; k < own->n; k++)
        t->argv[n++] = own->text[k];
    for (; i < c->n_inner; i++)
        if (c->inner_argv[i] != output)
            t->argv[n++] = c->inner_argv[i];
    t->argv[n] = NULL;
}

static void add_values(const struct tune *t, const int *at, struct words *w)
{
    const char *const *fixed;
    size_t n = tachy_settings_list(t->c->settings, "tune.fix", &fixed);
    for (size_t i = 0; i < n; i++)
        add_word_to(w, "--%s", fixed[i]);
    for (int i = 0; i < t->n_rows; i++)
        if (at[i])
            add_word_to(w, "--%s=%s", t->row[i].option->path, t->row[i].value[at[i]]);
    for (int i = 0; i < t->n_extra; i++)
        add_word_to(w, "%s", t->extra[i]);
}

void tune_last_line(const struct tune *t, char *buf, size_t size)
{
    char line[512];
    snprintf(buf, size, "it failed");
    rewind(t->log);
    while (fgets(line, sizeof(line), t->log)) {
        line[strcspn(line, "\n")] = '\0';
        const char *text = strncmp(line, "tachy: ", 7) ? line : line + 7;
        if (*text)
            snprintf(buf, size, "%.90s", text);
    }
}

static int run(struct tune *t, const struct words *own, bool results, int *status)
{
    join(t, own, results);
    return child_run(t->c, &(struct child){.name = "a trial", .argv = t->argv, .err = t->log}, status);
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

// The cost of a frame in a part is that of its own frames: when a trial ends, more are decoded than written. The CPU time's is by the
// work done.
static void read_cost(struct tune_cost *c, const json_t *o)
{
    double busy[3] = {0}, frames[3] = {0}, model = 0, each = 0; // decoding, workers, sink
    size_t i;
    const json_t *s;
    json_array_foreach(json_object_get(o, "steps"), i, s) {
        const char *name = text_of(s, "name");
        int part = !strcmp(name, "decode") ? 0 : !strcmp(name, "encode") ? 2 : 1;
        busy[part] += 1e3 * get(s, "busy_s");
        frames[part] = fmax(frames[part], get(s, "calls")); // frames may skip a step
        model += !strcmp(name, "model") ? 1e3 * get(s, "busy_s") : 0;
    }
    for (int k = 0; k < 3; k++)
        each += busy[k] / fmax(frames[k], 1);
    c->decode_ms = busy[0] / fmax(frames[0], 1);
    c->model_ms = model / fmax(frames[1], 1);
    c->work_ms = (busy[1] - model) / fmax(frames[1], 1);
    c->write_ms = busy[2] / fmax(frames[2], 1);
    c->batch = get(json_object_get(o, "batches"), "mean");
    double done = each > 0 ? (busy[0] + busy[1] + busy[2]) / each : get(o, "frames");
    c->cpu_ms = 1e3 * get(o, "utilisation") * get(o, "cores") * get(o, "seconds") / done;
}

static void read_summary(struct tune_trial *out, const json_t *o)
{
    const json_t *v = json_object_get(o, "verdict");
    out->fps = get(o, "steady_fps") > 0 ? get(o, "steady_fps") : get(o, "frames") / get(o, "seconds");
    out->p99_ms = get(json_object_get(o, "latency_ms"), "p99");
    out->memory_mib = get(o, "peak_memory_mib");
    out->joules = get(json_object_get(o, "energy"), "joules_per_frame");
    read_cost(&out->cost, o);
    out->cost.fps = out->fps;
    out->cost.memory_mib = out->memory_mib;
    out->cost.vram_mib = out->vram_mib;
    out->workers = (int)int_of(o, "workers");
    out->decoders = (int)int_of(o, "decoders");
    out->decode_engines = (int)int_of(o, "decode_engines");
    out->cores = (int)int_of(o, "cores");
    snprintf(out->limit, sizeof(out->limit), "%s", text_of(v, "limit"));
    snprintf(out->verdict, sizeof(out->verdict), "%s", text_of(v, "words"));
    snprintf(out->remedy, sizeof(out->remedy), "%s", text_of(v, "remedy"));
    out->gain = get(v, "expected_gain");
}

// Watches the GPUs that the trial's settings name: --only may try gpu.ids, too. NULL: that cannot be done.
static tachy_gpu_watch *watch_gpus(const struct tune *t, const int *at)
{
    tachy_settings *s;
    tachy_gpu_watch *w = NULL;
    int err = tachy_settings_copy(&s, t->c->settings, NULL);
    tachy_settings_for(s, t->c->inner->name); // few tasks have settings of their own for GPUs
    for (int i = 0; i < t->n_rows && err == TACHY_OK; i++)
        if (at[i])
            err = tachy_settings_set(s, t->row[i].option->path, t->row[i].value[at[i]], "command line");
    if (err == TACHY_OK)
        tachy_gpu_watch_open(&w, s);
    tachy_settings_free(&s);
    return w;
}

int tune_run(struct tune *t, const int *at, double seconds, struct tune_trial *out)
{
    struct words w = {0};
    char path[128];
    int status = 0;
    *out = (struct tune_trial){0};
    snprintf(path, sizeof(path), "%s/summary.json", t->folder);
    unlink(path);
    add_word_to(&w, "--run.json=%s", path);
    add_word_to(&w, "--run.quiet=yes");
    add_word_to(&w, "--output.overwrite=yes");
    add_word_to(&w, "--output.file=%s", t->output);
    add_word_to(&w, "--run.time_limit=%g", seconds);
    add_values(t, at, &w);
    tachy_gpu_watch *gpus = watch_gpus(t, at); // the trial before has ended
    double start = now_s();
    int err = run(t, &w, false, &status);
    if (!gpus || tachy_gpu_watch_read(gpus, &out->vram_mib) < 0)
        out->vram_mib = -1;
    tachy_gpu_watch_close(&gpus);
    if (err < 0)
        return err;
    t->trials++;
    json_t *o = status ? NULL : json_load_file(path, 0, NULL);
    if (o && get(o, "seconds") > 0 && get(o, "frames") > 0) {
        read_summary(out, o);
    } else {
        tune_last_line(t, out->why, sizeof(out->why));
    }
    json_decref(o);
    out->wall_s = now_s() - start;
    return TACHY_OK;
}

int tune_write(struct tune *t, const int *at, const char *const words[2], const char *path, int *status)
{
    struct words w = {0};
    add_word_to(&w, "--run.quiet=yes");
    for (int i = 0; i < 2 && words[i]; i++)
        add_word_to(&w, "%s", words[i]);
    add_word_to(&w, "--output.overwrite=yes");
    add_word_to(&w, "--output.file=%s", path);
    if (!tachy_settings_is_set(t->c->settings, "input.max_frames"))
        add_word_to(&w, "--input.max_frames=300");
    add_values(t, at, &w);
    return run(t, &w, true, status);
}
