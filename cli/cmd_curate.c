#include "cli.h"

#include <string.h>
#include <strings.h>
#include <tachy/curate.h>

// docs/curate.md documents the job file, the expressions and the folder of results.

static void show(void *user, const struct tachy_curate_progress *now) { progress_inputs(user, now); }

static json_t *steps_json(const struct tachy_curate_summary *s)
{
    json_t *all = json_array();
    for (int i = 0; i < s->nb_steps; i++)
        json_array_append_new(all, json_pack("{s:s, s:I, s:f}", "name", s->steps[i].name, "calls", (json_int_t)s->steps[i].calls, "busy_s",
                                             s->steps[i].busy_s));
    return all;
}

static int print(const struct cli *c, const struct tachy_curate_summary *s, int err)
{
    char text[640];
    json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:f, s:I, s:I, s:o}", "files", s->files, "done", s->done, "before", s->before,
                          "same", s->same, "other", s->other, "failed", s->failed, "left", s->left, "decoded", (json_int_t)s->decoded, "frames",
                          (json_int_t)s->frames, "kept", (json_int_t)s->kept, "seconds", s->seconds, "duplicates", (json_int_t)s->duplicates,
                          "near_duplicates", (json_int_t)s->near_duplicates, "steps", steps_json(s));
    snprintf(text, sizeof(text), "%d inputs: %d done, %d done before, %d copies, %d failed, %d of other shards, %d left\n"
             "%lld frames decoded in %.1f s (%.1f a second); %lld frames have results, %lld are kept\n", s->files, s->done, s->before,
             s->same, s->failed, s->other, s->left, (long long)s->decoded, s->seconds, s->seconds > 0 ? (double)s->decoded / s->seconds : 0,
             (long long)s->frames, (long long)s->kept);
    if (s->duplicates || s->near_duplicates)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%lld frames are exact duplicates, %lld near ones\n",
                 (long long)s->duplicates, (long long)s->near_duplicates);
    const char *file = tachy_settings_str(c->settings, "run.json");
    if (file)
        return cli_write_json(c, o);
    json_decref(o);
    if (s->files && c->log.max_level >= TACHY_LOG_INFO) {
        fputs(text, stdout);
        progress_table(s->steps, s->nb_steps);
    }
    return err;
}

static bool ends(const char *name, const char *tail)
{
    size_t n = strlen(name), m = strlen(tail);
    return n >= m && !strcasecmp(name + n - m, tail);
}

// A first argument that is a YAML file is the job; all others are inputs.
static int take_job(struct cli *c)
{
    bool job = c->n_args && (ends(c->args[0], ".yaml") || ends(c->args[0], ".yml"));
    int err = job ? tachy_settings_load(c->settings, c->args[0]) : TACHY_OK;
    for (size_t i = job; i < c->n_args && err == TACHY_OK; i++)
        err = tachy_settings_set(c->settings, "input.files", c->args[i], "command line");
    return err;
}

static int run_merge(struct cli *c)
{
    const char *out = tachy_settings_str(c->settings, "output.file");
    if (!out || c->n_args < 2)
        return message_usage("shards are joined like this: tachy curate merge DIR DIR... -o DIR");
    int err = tachy_curate_merge(tachy_curate_merge_params(.folder = out, .dirs = &c->args[1], .nb_dirs = c->n_args - 1, .log = &c->log));
    return err < 0 ? message_failed(err) : STATUS_OK;
}

static int run_curate(struct cli *c)
{
    struct tachy_curate_summary s = {0};
    struct progress bar;
    tachy_control *control = NULL;
    if (c->n_args && !strcmp(c->args[0], "merge"))
        return run_merge(c);
    int err = take_job(c);
    if (err < 0)
        return err == TACHY_ERR_FORMAT || err == TACHY_ERR_INVAL ? (message_failed(err), STATUS_USAGE) : message_failed(err);
    cli_level(c); // of the job file
    err = control_open(&control);
    if (err < 0)
        return message_failed(err);
    progress_start(&bar, c, "curate");
    err = tachy_curate(tachy_curate_params(.settings = c->settings, .progress = show, .user = &bar, .control = control, .log = &c->log),
                       &s);
    progress_end(&bar);
    control_close(&control);
    int printed = print(c, &s, TACHY_OK);
    bool misused = err == TACHY_ERR_INVAL && !s.files;
    err = err < 0 ? err : printed;
    int status = err < 0 ? message_failed(err) : STATUS_OK;
    return misused ? STATUS_USAGE : status;
}

const struct verb verb_curate = {
    .name = "curate",
    .usage = "[options] [JOB.yaml] IN... [-o DIR]",
    .summary = "run several tasks on many files, decoding each once",
    .details =
        "Every input is decoded once, and all tasks of the job see the same frames. Inputs are videos, pictures, "
        "folders with everything below them, patterns in quotes and lists (.txt, one path per line).\n\n"
        "JOB.yaml is a configuration file: curate.tasks lists the tasks, and each has its settings in a section, with "
        "`when`, a condition on what the tasks before it found. The settings of a task can be given as --TASK.NAME as "
        "well. curate.keep is a filter. docs/curate.md has the expressions.\n\n"
        "DIR (curated) gets results.jsonl, one line per frame, and files.jsonl, one line for each finished input. "
        "After an interruption of any kind the same command continues; inputs are recognised by their bytes. An input "
        "that fails is listed in failed.jsonl, the others are processed, and the exit status is 75.\n\n"
        "--shard K/N works on one of N parts of the inputs, for instance on one of N machines; `tachy curate merge "
        "DIR... -o DIR` joins the results.",
    .options = TACHY_VERB_CURATE,
    .by_path = TACHY_VERB_TASKS,
    .examples = EXAMPLES({"tachy curate --tasks detect,pose clips/ -o found", "faces and poses of all videos and pictures"},
                         {"tachy curate job.yaml 'raw/*.mp4' more.txt -o found", "what the job file says"},
                         {"tachy curate --tasks detect,pose --pose.when 'detect >= 1' --keep 'pose.score > 0.5' clips/",
                          "poses only in frames with a face"}),
    .run = run_curate,
};
