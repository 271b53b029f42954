#include "bench.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// docs/bench.md has the method and the JSON.

enum { WARM_UPS = 6 };

static json_t *case_json(const struct bench_run *b, int i) { return json_array_get(json_object_get(b->result, "cases"), (size_t)i); }

static json_t *runs_of(const json_t *c) { return json_object_get(c, "runs"); }

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static bool failed(const json_t *c) { return json_object_get(c, "error") != NULL; }

static json_t *new_case(const struct bench_case *k)
{
    char command[2048] = "tachy segment CLIP";
    for (int i = 0; i < k->n_words; i++)
        snprintf(command + strlen(command), sizeof(command) - strlen(command), " %s", k->word[i]);
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:[]}", "name", k->name, "suite", k->suite, "command",
                     k->peer ? "python3, cv2.VideoCapture in a loop" : command, "warm_up", 0, "frames", (json_int_t)0, "runs");
}

// Properties that must match for a bench to be continued.
static json_t *head(const struct bench_run *b)
{
    char suites[256] = "";
    for (int i = 0; i < b->n; i++)
        if (!i || strcmp(b->list[i].suite, b->list[i - 1].suite) != 0)
            snprintf(suites + strlen(suites), sizeof(suites) - strlen(suites), "%s%s", *suites ? ", " : "", b->list[i].suite);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:{s:s, s:f, s:i, s:f}}", "kind", "bench", "version", 1, "suite", suites, "input",
                     b->file ? b->file : "generated clips", "model", tachy_settings_str(b->c->settings, "model.name"), "device", tachy_settings_str(b->c->settings, "bench.device"), "method", "words",
                     "each case is warmed up until two runs in a row differ by less than 5 %; then all cases run in turn, in the reverse "
                     "order every other round; figures are medians of runs with bootstrap intervals; runs beyond 5 scaled median absolute "
                     "deviations are named outliers and kept",
                     "seconds", b->seconds, "rounds", b->rounds, "level", 0.95);
}

static int begin(struct bench_run *b)
{
    b->result = head(b);
    json_t *cases = json_array();
    for (int i = 0; i < b->n; i++)
        json_array_append_new(cases, new_case(&b->list[i]));
    json_object_set_new(b->result, "environment", environment_json());
    json_object_set_new(b->result, "complete", json_false());
    const char *label = tachy_settings_str(b->c->settings, "bench.label");
    if (label)
        json_object_set_new(b->result, "label", json_string(label));
    return json_object_set_new(b->result, "cases", cases) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

// Continues an interrupted bench where its file ends.
static bool resume(struct bench_run *b, const char *file)
{
    json_t *o = json_load_file(file, 0, NULL), *own = head(b), *v;
    const char *key;
    bool same = json_is_object(o) && json_is_false(json_object_get(o, "complete"));
    json_object_foreach(own, key, v)
        same = same && json_equal(v, json_object_get(o, key));
    json_decref(own);
    if (!same || json_array_size(json_object_get(o, "cases")) != (size_t)b->n) {
        json_decref(o);
        return false;
    }
    b->result = o;
    for (int i = 0; i < b->n; i++)
        b->list[i].frames = int_of(case_json(b, i), "frames");
    message_note(&b->c->log, "%s: continues the interrupted bench", file);
    return true;
}

static int save(struct bench_run *b, const char *file, bool complete)
{
    json_object_set_new(b->result, "complete", json_boolean(complete));
    char part[4200], *raw = json_dumps(b->result, JSON_REAL_PRECISION(9)), *text = NULL;
    int err = raw ? tachy_report_bench_sums(&text, raw) : TACHY_ERR_NOMEM;
    snprintf(part, sizeof(part), "%.4100s.part", file ? file : "");
    json_t *o = err == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    if (o) {
        json_decref(b->result);
        b->result = o;
    }
    if (err == TACHY_OK && file && !strcmp(file, "-"))
        err = complete ? write_text(file, text) : TACHY_OK;
    else if (err == TACHY_OK && file && (err = write_text(part, text)) == TACHY_OK && rename(part, file) < 0)
        err = write_failed(file);
    free(raw);
    tachy_free(text);
    return err;
}

static void show(struct bench_run *b, const struct bench_case *k, int round, const json_t *run)
{
    b->spent += get(run, "took_s");
    b->made++;
    b->left--;
    int eta = (int)(b->spent / b->made * b->left + 0.5);
    message_note(&b->c->log, "%s, %s %d: %s%.1f fps, %d:%02d left", k->name, round ? "round" : "warm-up", round ? round : b->made,
                 failed(run) ? "failed, " : "", get(run, "fps"), eta / 60, eta % 60);
}

static int warm_up(struct bench_run *b, int i)
{
    struct bench_case *k = &b->list[i];
    json_t *c = case_json(b, i), *run = NULL;
    double before = 0;
    int err = TACHY_OK, n = 0;
    while (n < WARM_UPS && err == TACHY_OK && !failed(c) && !bench_stopped(b)) {
        if ((err = bench_trial(b, k, k->frames, &run)) < 0 || !run)
            break;
        double fps = get(run, "fps");
        b->left++;
        show(b, k, 0, run);
        if (failed(run))
            json_object_set(c, "error", json_object_get(run, "error"));
        else
            k->frames = (int64_t)fmax(8, ceil(fps * b->seconds));
        json_decref(run);
        if (++n > 1 && before > 0 && fabs(fps / before - 1) < 0.05)
            break;
        before = n > 1 ? fps : 0; // the first one is of another length
    }
    json_object_set_new(c, "warm_up", json_integer(n));
    json_object_set_new(c, "frames", json_integer(k->frames));
    return err;
}

static int play(struct bench_run *b, int i, int round)
{
    json_t *c = case_json(b, i), *run = NULL;
    if (failed(c) || json_array_size(runs_of(c)) > (size_t)round)
        return TACHY_OK;
    int err = b->list[i].frames ? TACHY_OK : warm_up(b, i);
    if (err == TACHY_OK && !failed(c) && !bench_stopped(b))
        err = bench_trial(b, &b->list[i], b->list[i].frames, &run);
    if (err == TACHY_OK && run) {
        show(b, &b->list[i], round + 1, run);
        if (failed(run))
            json_object_set(c, "error", json_object_get(run, "error"));
        else
            json_array_append(runs_of(c), run);
    }
    json_decref(run);
    return err;
}

// A result in which every case failed is none.
static int check_any(const struct bench_run *b)
{
    for (int i = 0; i < b->n; i++)
        if (!failed(case_json(b, i)))
            return TACHY_OK;
    message_error("no case runs: %s", json_string_value(json_object_get(case_json(b, 0), "error")));
    return TACHY_ERR_INVAL;
}

static int play_all(struct bench_run *b, const char *file)
{
    int err = TACHY_OK;
    for (int i = 0; i < b->n; i++)
        b->left += b->rounds - (int)json_array_size(runs_of(case_json(b, i)));
    for (int r = 0; r < b->rounds && err == TACHY_OK && !bench_stopped(b); r++) {
        for (int i = 0; i < b->n && err == TACHY_OK && !bench_stopped(b); i++)
            err = play(b, r % 2 ? b->n - 1 - i : i, r);
        if (err == TACHY_OK && !bench_stopped(b))
            err = check_any(b);
        if (err == TACHY_OK)
            err = save(b, file, r + 1 == b->rounds && !bench_stopped(b));
    }
    return err;
}

static void clear_folder(const struct bench_run *b)
{
    char path[512];
    DIR *d = opendir(b->folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", b->folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(b->folder);
}

// -o FILE, or a folder ending in / that gets bench.json.
static int name_file(struct cli *c, char *buf, size_t size, const char **file)
{
    const char *o = tachy_settings_str(c->settings, "output.file");
    struct stat st;
    size_t n = o ? strlen(o) : 0;
    bool folder = o && n && (o[n - 1] == '/' || (stat(o, &st) == 0 && S_ISDIR(st.st_mode)));
    snprintf(buf, size, "%s%s", o ? o : "", !folder ? "" : o[n - 1] == '/' ? "bench.json" : "/bench.json");
    *file = o ? buf : NULL;
    return folder ? make_folders(o) : TACHY_OK;
}

static int append_history(const struct bench_run *b)
{
    const char *name = tachy_settings_str(b->c->settings, "bench.history");
    FILE *f = name ? fopen(name, "a") : NULL;
    if (!name)
        return TACHY_OK;
    bool ok = f && json_dumpf(b->result, f, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', f) != EOF;
    ok = f && fclose(f) == 0 && ok;
    return ok ? TACHY_OK : write_failed(name);
}

static int measure(struct bench_run *b, const char *file)
{
    tachy_control *control = NULL;
    strcpy(b->folder, "/tmp/tachy-bench-XXXXXX");
    b->log = tmpfile();
    if (!b->log || !mkdtemp(b->folder))
        return write_failed("/tmp/tachy-bench-XXXXXX");
    int status = bench_cases(b), err = status ? TACHY_ERR_INVAL : TACHY_OK;
    if (err == TACHY_OK && file && access(file, F_OK) == 0 && !tachy_settings_bool(b->c->settings, "output.overwrite") && !resume(b, file)) {
        message_error("%s already exists; use -y to overwrite it", file);
        err = TACHY_ERR_EXISTS;
    }
    if (err == TACHY_OK && !b->result)
        err = begin(b);
    if (err == TACHY_OK)
        err = control_open(&control);
    b->c->control = control;
    if (err == TACHY_OK)
        err = play_all(b, file);
    bool stopped = control && bench_stopped(b);
    b->c->control = NULL;
    control_close(&control);
    clear_folder(b);
    fclose(b->log);
    if (err == TACHY_OK && stopped) {
        message_error("interrupted%s", file ? "; the same command goes on" : "");
        err = TACHY_ERR_INTERRUPTED;
    }
    return err == TACHY_OK ? append_history(b) : err;
}

static int run_bench(struct cli *c)
{
    const tachy_settings *s = c->settings;
    bool quick = tachy_settings_bool(s, "bench.quick");
    struct bench_run b = {.c = c, .file = c->n_args ? c->args[0] : NULL, .rounds = (int)tachy_settings_int(s, "bench.rounds"),
                          .seconds = tachy_settings_float(s, "bench.seconds")};
    char name[4096], *json = NULL, *text = NULL;
    const char *file;
    if (c->n_args > 1)
        return message_usage("one input is measured: tachy bench [options] [FILE]");
    b.rounds = b.rounds ? b.rounds : quick ? 5 : 10;
    b.seconds = b.seconds > 0 ? b.seconds : quick ? 0.5 : 2;
    int err = name_file(c, name, sizeof(name), &file);
    if (err == TACHY_OK)
        err = measure(&b, file);
    if (err == TACHY_OK && !(json = json_dumps(b.result, JSON_INDENT(2) | JSON_REAL_PRECISION(9))))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_report_bench_text(&text, json);
    err = cli_report(c, err, json, text);
    json_decref(b.result);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_bench = {
    .name = "bench",
    .usage = "[options] [FILE]",
    .summary = "measure suites of runs, with repeats and intervals",
    .details =
        "Runs `tachy segment` on FILE, or on clips with motion and detail that it makes once and keeps in the cache. "
        "Without an option that names a suite, all suites run. Cases run in turn, round after round; figures are "
        "medians over the rounds with 95 % intervals.\n\n"
        "-o writes the result after each round, and after an interruption the same command continues. tachy compare "
        "and tachy report read the file. docs/bench.md has the method.",
    .options = TACHY_VERB_BENCH,
    .examples = EXAMPLES({"tachy bench --quick -o before.json", "takes a minute"},
                         {"tachy bench --batch-only --seconds 5 in.mp4 -o results/", "batches on your own video"},
                         {"tachy bench --peers --quick", "compared with typical loops in Python"}),
    .run = run_bench,
};
