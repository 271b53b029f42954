#include "segment.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic(tachy_control *) signalled; // what a signal stops; NULL: nothing is left to

static void on_signal(int sig)
{
    tachy_control *control = signalled;
    if (!control || tachy_control_stopped(control))
        terminal_exit(STATUS_INTERRUPTED, "\ntachy: stopped at once; a .part file may be left\n");
    terminal_unblock();
    tachy_control_stop(control);
}

static void install_handlers(tachy_control *control)
{
    signalled = control;
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    // A terminal that is closed; nohup ignores it, and that stays so.
    struct sigaction old;
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &a, NULL);
}

static int open_source(const struct segment *s, const struct job *j, tachy_source **source)
{
    const tachy_settings *set = s->c->settings;
    static const char *const eyes[] = {"auto", "mono", "sbs", "tb"};
    const char *stereo = tachy_settings_str(set, "input.stereo");
    struct tachy_source_params p = {
        .url = strcmp(j->input, "-") ? j->input : "pipe:0",
        .start = tachy_settings_float(set, "input.start"),
        .duration = tachy_settings_float(set, "input.duration"),
        .max_frames = tachy_settings_int(set, "input.max_frames"),
        .every_nth = (int)tachy_settings_int(set, "input.every_nth"),
        .rate = tachy_settings_rate(set, "input.rate"),
        .threads = (int)tachy_settings_int(set, "pipeline.stages.decode.threads"),
        .decoders = (int)tachy_settings_int(set, "pipeline.stages.decode.decoders"),
        .gpus = s->gpus,
        .nb_gpus = s->nb_gpus,
        .on_gpu = text_is(tachy_settings_str(set, "gpu.device"), "cuda"),
        .in_order = !segment_writes_nothing(s) && !segment_is_text(s->format),
        .want_side = !segment_writes_nothing(s),
        .timeout = cli_timeout(s->c),
        .stop = tachy_control_stop_flag(s->c->control),
        .log = &s->c->log,
    };
    const char *decode = tachy_settings_str(set, "pipeline.stages.decode.device");
    p.decode = text_is(decode, "nvdec") ? TACHY_DECODE_NVDEC
               : text_is(decode, "cpu") ? TACHY_DECODE_CPU
                                        : TACHY_DECODE_AUTO;
    for (int i = TACHY_STEREO_AUTO; i <= TACHY_STEREO_TB; i++)
        if (text_is(stereo, eyes[i]))
            p.stereo = (enum tachy_stereo)i;
    return tachy_source_open(source, &p);
}

// What a preset (--profile) says, nobody asked for by name.
static bool of_preset(const tachy_settings *set, const char *path)
{
    return !strncmp(tachy_settings_origin(set, path), "preset ", 7);
}

static int open_sink(const struct segment *s, const struct job *j, tachy_sink **sink)
{
    const tachy_settings *set = s->c->settings;
    const char *encoder = tachy_settings_str(set, "output.encoder");
    return tachy_sink_open(sink, tachy_sink_params(
        .url = j->output ? j->output : "-",
        .format = s->format,
        .overwrite = segment_may_overwrite(s->c),
        .codec = tachy_settings_str(set, "output.codec"),
        .encode = text_is(encoder, "nvenc") ? TACHY_ENCODE_NVENC
                  : text_is(encoder, "cpu") ? TACHY_ENCODE_CPU
                                            : TACHY_ENCODE_AUTO,
        .on_gpu = text_is(tachy_settings_str(set, "gpu.device"), "cuda"),
        .gpu = s->nb_gpus ? s->gpus[0] : (int)tachy_settings_int(set, "gpu.id"),
        .preset = tachy_settings_str(set, "output.preset"),
        .preset_optional = of_preset(set, "output.preset"),
        .crf = tachy_settings_str(set, "output.crf"),
        .pix_fmt = tachy_settings_str(set, "output.pix_fmt"),
        .no_audio = tachy_settings_bool(set, "output.no_audio"),
        .no_subtitles = tachy_settings_bool(set, "output.no_subtitles"),
        .threads = (int)tachy_settings_int(set, "output.threads"),
        .resume = tachy_settings_bool(set, "output.resume"),
        .part_frames = tachy_settings_int(set, "processing.chunk_size"),
        .log = &s->c->log));
}

static int name_output(struct segment *s, const struct job *j)
{
    return j->output ? tachy_settings_set(s->c->settings, "output.file", j->output, "derived")
                     : TACHY_OK;
}

// One task serves runs one after the other; what its pictures look like may depend on the output's name.
static int open_task(struct segment *s, const struct job *j)
{
    const char *ext = segment_extension(j->output);
    if (s->task && !strcasecmp(ext, s->task_extension))
        return TACHY_OK;
    tachy_task_close(&s->task);
    s->task_extension = ext;
    int err = name_output(s, j);
    if (err < 0)
        return err;
    return tachy_task_open(&s->task, "segment", s->c->settings, &s->c->log);
}

// Adds the run's figures to what --json writes.
static int keep_summary(struct segment *s, const struct job *j, const struct tachy_summary *sum)
{
    json_error_t e;
    const tachy_settings *set = s->c->settings;
    json_t *context = json_pack("{s:s, s:s, s:s?, s:s, s:s?}", "tachy", tachy_version(), "input",
                                j->input, "output", j->output, "mode", s->mode, "model",
                                tachy_settings_str(set, "model.name"));
    char *text = context ? json_dumps(context, JSON_COMPACT) : NULL;
    char *json = NULL;
    json_decref(context);
    int err = text ? tachy_summary_json(&json, sum, text) : TACHY_ERR_NOMEM;
    free(text);
    if (err < 0)
        return err;
    json_t *one = json_loads(json, 0, &e);
    tachy_free(json);
    return one && json_array_append_new(s->summaries, one) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}

// One input: the object, indented. Several: an object a line.
static int write_summaries(const struct segment *s)
{
    size_t n = json_array_size(s->summaries), used = 0, i;
    if (!n)
        return TACHY_OK;
    json_t *one;
    char *text = n == 1 ? json_dumps(json_array_get(s->summaries, 0), JSON_INDENT(2)) : NULL;
    if (n > 1) {
        FILE *f = open_memstream(&text, &used);
        if (!f)
            return TACHY_ERR_NOMEM;
        json_array_foreach(s->summaries, i, one) {
            json_dumpf(one, f, JSON_COMPACT);
            fputc('\n', f);
        }
        fclose(f);
    }
    int err = text ? write_text(s->json, text) : TACHY_ERR_NOMEM;
    free(text);
    return err;
}

static void print_summary(const struct segment *s, const struct job *j,
                          const struct tachy_summary *sum)
{
    if (s->c->log.max_level < TACHY_LOG_INFO || s->c->profile) // its tables say more
        return;
    char *text = NULL;
    if (tachy_summary_text(&text, sum) < 0)
        return;
    FILE *f = text_is(j->output, "-") || text_is(s->json, "-") ? stderr : stdout;
    bool named = j->output && strcmp(j->output, "-");
    char *all = NULL;
    if (asprintf(&all, "%s%s%s", named ? j->output : "", named ? "\n" : "", text) < 0)
        all = NULL;
    message_text(f, all ? all : text);
    free(all);
    tachy_free(text);
}

// A stop by the user says what there is now.
static void say_interrupted(const struct job *j, const tachy_sink *sink,
                            const struct tachy_summary *sum)
{
    const char *path = tachy_sink_path(sink);
    if (sum->kept >= 0)
        message_error("interrupted; the same command goes on at frame %lld (what there is lies in "
                      "%s.tachy)",
                      (long long)sum->kept, segment_without_scheme(j->output));
    else if (path && sum->frames > 0)
        message_error("interrupted; %s holds the first %lld frames and is whole", path,
                      (long long)sum->frames);
    else
        message_error("interrupted; no file was left");
}

// Opens the input, the output and, where `own`, a task for this run alone.
static int open_job(struct segment *s, struct job *j, bool own)
{
    int err = open_source(s, j, &j->source);
    if (err < 0 && tachy_control_stopped(s->c->control)) {
        message_error("interrupted; no file was left");
        err = TACHY_ERR_INTERRUPTED;
    }
    if (err == TACHY_OK)
        err = open_sink(s, j, &j->sink);
    if (err == TACHY_OK && !own)
        err = open_task(s, j);
    else if (err == TACHY_OK && (err = name_output(s, j)) == TACHY_OK)
        err = tachy_task_open(&j->task, "segment", s->c->settings, &s->c->log);
    s->misused |= j->source && err == TACHY_ERR_INVAL;
    if (err == TACHY_OK) {
        live_options_say(s->c, j->input);
        progress_start(&j->progress, s->c, j->input);
    }
    return err;
}

// What the run of an opened job has to say.
static int report_job(struct segment *s, struct job *j, int err, const struct tachy_summary *sum)
{
    progress_end(&j->progress);
    s->misused |= err == TACHY_ERR_INVAL && sum->frames == 0;
    if (err == TACHY_ERR_INTERRUPTED)
        say_interrupted(j, j->sink, sum);
    if (sum->frames > 0)
        print_summary(s, j, sum);
    int kept = s->summaries && (err == TACHY_OK || sum->frames > 0) ? keep_summary(s, j, sum)
                                                                     : TACHY_OK;
    return err < 0 ? err : kept;
}

static void close_job(struct job *j)
{
    tachy_sink_close(&j->sink);
    tachy_source_close(&j->source);
    tachy_task_close(&j->task);
}

static int run_job(struct segment *s, struct job *j)
{
    const tachy_settings *set = s->c->settings;
    struct tachy_summary sum = {0};
    int err = open_job(s, j, false);
    if (err == TACHY_OK) {
        err = tachy_run(
            tachy_run_params(
                .task = s->task, .source = j->source, .sink = j->sink,
                .workers = (int)tachy_settings_int(set, "model.num_workers"),
                .max_bytes = tachy_settings_int(set, "processing.max_memory") << 20,
                .batch = (int)tachy_settings_int(set, "model.batch_size"),
                .batch_timeout_us =
                    (int64_t)(1000 * tachy_settings_float(set, "batching.dynamic.timeout_ms")),
                .trim_every = tachy_settings_int(set, "performance.clear_cache_interval"),
                .calibrate = tachy_settings_bool(set, "run.calibrate"),
                .live = live_options(set), .progress = progress_show, .user = &j->progress,
                .log = &s->c->log, .profile = s->c->profile, .control = s->c->control),
            &sum);
        err = report_job(s, j, err, &sum);
    }
    close_job(j);
    return err;
}

// ---- Several at once: called by one thread at a time ----

static int open_parallel(void *user, int job, struct tachy_run_params *p)
{
    struct segment *s = user;
    struct job *j = &s->jobs[job];
    message_log(s->c->log.user); // errors of this thread are the command's
    int err = open_job(s, j, true);
    if (err < 0)
        return err;
    j->progress.bar = false; // a terminal's line shows one run
    p->task = j->task;
    p->source = j->source;
    p->sink = j->sink;
    p->live = live_options(s->c->settings);
    p->trim_every = tachy_settings_int(s->c->settings, "performance.clear_cache_interval");
    p->progress = progress_show;
    p->user = &j->progress;
    p->control = s->c->control;
    return TACHY_OK;
}

static void close_parallel(void *user, int job, struct tachy_run_params *p, int err,
                           const struct tachy_summary *sum)
{
    struct segment *s = user;
    struct job *j = &s->jobs[job];
    message_log(s->c->log.user);
    if (p->sink)
        err = report_job(s, j, err, sum);
    if (err < 0 && err != TACHY_ERR_INTERRUPTED) {
        message_note(&s->c->log, "%s failed; the other inputs go on", j->input);
        int status = message_failed(err);
        s->told = s->told ? s->told : status;
    }
    close_job(j);
}

// What all of them took together.
static void print_all(const struct segment *s, const struct tachy_summary *all)
{
    if (all->frames > 0)
        message_note(&s->c->log, "%zu inputs: %lld frames in %.1f s, %.1f frames/s", s->n_jobs,
                     (long long)all->frames, all->seconds, all->fps);
}

static int run_parallel(struct segment *s)
{
    const tachy_settings *set = s->c->settings;
    struct tachy_summary all;
    int err = tachy_run_many(
        tachy_run_many_params(
            .jobs = (int)s->n_jobs, .parallel = (int)tachy_settings_int(set, "run.parallel"),
            .workers = (int)tachy_settings_int(set, "model.num_workers"),
            .max_bytes = tachy_settings_int(set, "processing.max_memory") << 20,
            .batch = (int)tachy_settings_int(set, "model.batch_size"),
            .batch_timeout_us =
                (int64_t)(1000 * tachy_settings_float(set, "batching.dynamic.timeout_ms")),
            .open = open_parallel, .close = close_parallel, .user = s,
            .stop = tachy_control_stop_flag(s->c->control),
            .log = &s->c->log, .profile = s->c->profile),
        &all);
    print_all(s, &all);
    return err;
}

static int run_in_turn(struct segment *s)
{
    int err = TACHY_OK;
    for (size_t i = 0; i < s->n_jobs && err == TACHY_OK && !tachy_control_stopped(s->c->control);
         i++) {
        if (s->jobs[i].done)
            message_note(&s->c->log, "%s is there already and is left alone", s->jobs[i].output);
        else
            err = run_job(s, &s->jobs[i]);
    }
    return err;
}

static int run_jobs(void *arg)
{
    struct segment *s = arg;
    bool parallel = s->n_jobs > 1 && tachy_settings_int(s->c->settings, "run.parallel") > 1;
    int err = parallel ? run_parallel(s) : run_in_turn(s); // the former has told each failure
    return err == TACHY_OK && tachy_control_stopped(s->c->control) ? TACHY_ERR_INTERRUPTED : err;
}

// With what a person or another program has a hand on it: a prompt or keys, metrics, signals.
static int run_watched(struct segment *s)
{
    struct cli *c = s->c;
    struct metrics *metrics;
    int err = metrics_start(&metrics, c);
    s->misused = err == TACHY_ERR_INVAL;
    if (err < 0)
        return err;
    if (tachy_settings_bool(c->settings, "run.interactive")) {
        err = console_run(c, run_jobs, s);
    } else {
        keys_start(c);
        err = run_jobs(s);
        keys_stop();
    }
    metrics_stop(&metrics);
    return err;
}

// The shell has a control and handlers of its own.
static int take_control(struct cli *c, tachy_control **own)
{
    *own = NULL;
    if (c->control)
        return TACHY_OK;
    int err = tachy_control_open(own, tachy_control_params());
    c->control = *own;
    if (err == TACHY_OK)
        install_handlers(c->control);
    return err;
}

static void drop_control(struct cli *c, tachy_control **own)
{
    if (!*own)
        return;
    signalled = NULL;
    c->control = NULL;
    tachy_control_close(own);
}

// Memory that is asked for begins as zeros. libx264 164 decides with some that it never wrote (lists
// of motion vectors, for mbtree with B pictures, in its AVX2 code), and an encoder that is opened
// for each part gets what others left there: the same frames would become other bytes.
static void begin_with_zeros(void)
{
#ifdef __GLIBC__
    mallopt(M_PERTURB, 255);
#endif
}

static int run_segment(struct cli *c)
{
    struct segment s = {.c = c};
    tachy_control *own = NULL;
    if (tachy_settings_bool(c->settings, "output.resume"))
        begin_with_zeros();
    int err = segment_prepare(&s), status = STATUS_OK;
    if (err < 0) {
        status = message_failed(err);
        status = err == TACHY_ERR_NOMEM ? status : STATUS_USAGE;
        goto done;
    }
    s.summaries = s.json ? json_array() : NULL;
    err = take_control(c, &own);
    if (err == TACHY_OK)
        err = tachy_gpus_asked(c->settings, s.gpus, &s.nb_gpus, &c->log);
    s.misused = err == TACHY_ERR_INVAL;
    if (err == TACHY_OK)
        err = segment_check_files(&s);
    if (err == TACHY_OK) {
        err = segment_enter_sandbox(&s);
        s.misused = err == TACHY_ERR_INVAL;
    }
    if (err == TACHY_OK)
        err = run_watched(&s);
    if (err < 0)
        status = s.told && err != TACHY_ERR_INTERRUPTED ? s.told : message_failed(err);
    if (s.misused)
        status = STATUS_USAGE;
    if (s.summaries) {
        int written = write_summaries(&s);
        if (written < 0)
            status = message_failed(written);
    }

done:
    drop_control(c, &own);
    tachy_task_close(&s.task);
    json_decref(s.summaries);
    for (size_t i = 0; i < s.n_jobs; i++)
        free(s.jobs[i].output);
    free(s.jobs);
    return status;
}

const struct verb verb_segment = {
    .name = "segment",
    .usage = "[options] [-i] FILE... [-o OUTPUT]",
    .summary = "cut people out of a video or picture",
    .details =
        "Finds the people in every frame and writes a video (or picture, or numbered pictures) of "
        "the same length, timing, rotation and colour, with its sound, subtitles, chapters and "
        "metadata. What is done with the people is the --mode.\n\n"
        "Several inputs are worked on one after the other, or with --parallel N as many at once "
        "through one set of workers; there a failing one does not end the others. Without -o the output stands beside "
        "the input: in.mp4 becomes in.cutout.mp4, with --mode alpha in.alpha.mov, with --mode "
        "json in.jsonl. Nothing is ever replaced without -y.\n\n"
        "With -f a last lone - is the output (standard output), as in FFmpeg: -f null - throws "
        "the frames away, -f framemd5 - prints a hash of each.\n\n"
        "Ctrl-C ends the output cleanly, so that it plays, and says how much is in it; a second "
        "Ctrl-C ends at once. With --resume the run is kept instead, whatever ended it, and the same "
        "command goes on.",
    .options = TACHY_VERB_SEGMENT,
    .examples =
        {
            {"tachy segment in.mp4 -o out.mp4",
             "people on black, as H.264 with the sound of in.mp4"},
            {"tachy segment --mode blur --smooth talk.mp4", "writes talk.blur.mp4; a calm mask"},
            {"tachy segment --mode replace --background beach.jpg in.mp4", "another place"},
            {"tachy segment --mode alpha in.mp4 -o out.webm", "with transparency, VP9"},
            {"tachy segment --mode mask -ss 1:30 -t 10 -c:v libx264 -crf 12 in.mkv",
             "ten seconds of the mask in grey"},
            {"tachy segment --mode json in.mp4 -o - | jq .", "a JSON line a frame"},
            {"tachy segment --mode mask --calibrate -f null in.mp4 -", "only the figures"},
            {"tachy segment 'shot_%04d.png' -r 24 -o cut/", "numbered pictures into a folder"},
        },
    .run = run_segment,
};
