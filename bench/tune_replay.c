// tune_replay TABLE... [--seeds N] [--check] [--leave-one-out] [--off]: plays the search of `tachy tune` on stored workloads (bench/tune_workload) instead of
// running them, with the noise of their repeated settings, and prints how good a setting it finds in which share of the time of
// trying all, and how far the predictions are off. --check: exit status 1 unless each search finds 98 % in 10 % of the time and predicts 90 % of the
// settings within 10 %. --leave-one-out: a search begins with the constants that fit the other tables, each in turn, instead of the
// program's own guess. --off: the settings that the formulas miss by more than 10 %.
//
// A setting's true rate is the mean of its later runs if it was repeated, else that of its one run: those that are repeated were
// chosen by their first run, which so says too much. A setting that is not in the table fails.
#include "../cli/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES = 16, SETTINGS = 2048, RUNS = 8, RATIOS = 1024 };
static const double FOUND = 0.98, TIME = 0.1, NEAR = 0.1, PREDICTED = 0.9; // what must hold

struct setting {
    int at[TUNE_ROWS];
    int n;
    struct tune_trial run[RUNS];
    double fps; // true
};

struct table {
    struct tune t;
    struct setting setting[SETTINGS];
    int n, order[TUNE_ROWS][TUNE_VALUES]; // a row's value in the file for each of the search's
    char own[TUNE_ROWS][TUNE_TEXT];       // text of the search's first value
    double ratio[RATIOS], best, all_s;    // of a run's rate to the true one; seconds of trying all
    int n_ratios, engines;
    uint64_t rng;
};

static struct table *table; // that tune_run() reads

static double luck(struct table *w)
{
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(w->rng >> 40) / (1 << 24);
}

static struct setting *find(struct table *w, const int *at)
{
    for (int i = 0; i < w->n; i++)
        if (!memcmp(w->setting[i].at, at, sizeof(w->setting[i].at)))
            return &w->setting[i];
    return NULL;
}

// Replaces the processes of cli/tune_trial.c: a trial is a lookup in the table.
bool tune_stopped(const struct tune *t) { return false; }

const char *tune_measure(const struct tune_guard *g) { return "quality"; }

int tune_judge(struct tune *t, const int *at, double *iou)
{
    *iou = 1;
    return TACHY_OK;
}

// A shorter trial is noisier.
int tune_run(struct tune *t, const int *at, double seconds, struct tune_trial *out)
{
    struct setting *s = find(table, at);
    t->trials++;
    if (!s) {
        *out = (struct tune_trial){.why = "it was not measured"};
        return TACHY_OK;
    }
    *out = s->run[(int)(luck(table) * s->n)];
    out->decode_engines = table->engines;
    double ratio = table->n_ratios ? table->ratio[(int)(luck(table) * table->n_ratios)] : 1;
    out->fps = s->fps * pow(ratio, sqrt(t->seconds / seconds));
    out->wall_s += seconds - t->seconds;
    return TACHY_OK;
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

// 0 if there is none.
static double column(const json_t *columns, const json_t *run, const char *name)
{
    size_t i;
    const json_t *o;
    json_array_foreach(columns, i, o)
        if (!strcmp(json_string_value(o) ? json_string_value(o) : "", name))
            return json_number_value(json_array_get(run, i + 1));
    return 0;
}

// A run is the settings' values and then the columns.
static void read_run(struct tune_trial *r, const json_t *k, const json_t *run)
{
    double mib = column(k, run, "memory_mib");
    *r = (struct tune_trial){.fps = column(k, run, "fps"), .p99_ms = column(k, run, "p99_ms"), .memory_mib = mib,
                             .workers = (int)column(k, run, "workers"), .decoders = (int)column(k, run, "decoders"),
                             .cores = (int)column(k, run, "cores"), .wall_s = column(k, run, "wall_s")};
    r->cost = (struct tune_cost){.decode_ms = column(k, run, "decode"), .work_ms = column(k, run, "work"),
                                 .model_ms = column(k, run, "model"), .write_ms = column(k, run, "encode"),
                                 .cpu_ms = column(k, run, "cpu_ms"), .batch = column(k, run, "batch"), .fps = r->fps,
                                 .memory_mib = mib};
}

// The row's value that is nearest to what the command has by itself; where that is not known, the first one.
static int own_value(const json_t *values, double given)
{
    size_t i;
    const json_t *v;
    int best = 0;
    double least = INFINITY;
    json_array_foreach(values, i, v) {
        double n = atof(json_string_value(v)), off = given > 0 && n > 0 ? fabs(log(n / given)) : INFINITY;
        if (off < least) {
            least = off;
            best = (int)i;
        }
    }
    return best;
}

static bool read_rows(struct table *w, const json_t *o)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(o, "rows"), i, row) {
        const char *key = json_string_value(json_object_get(row, "key"));
        const json_t *values = json_object_get(row, "values");
        if (!key || i == TUNE_ROWS || json_array_size(values) > TUNE_VALUES)
            return false;
        struct tune_row *r = &w->t.row[w->t.n_rows++];
        *r = (struct tune_row){.option = tachy_option_lookup(key, NULL), .part = tune_part_of(key), .n = 1};
        if (!r->option)
            return false;
        int own = own_value(values, get(json_object_get(o, "given"), key));
        w->order[i][0] = own;
        snprintf(w->own[i], TUNE_TEXT, "%s", json_string_value(json_array_get(values, (size_t)own)));
        for (int v = 0; v < (int)json_array_size(values); v++)
            if (v != own) {
                w->order[i][r->n] = v;
                snprintf(r->value[r->n++], TUNE_TEXT, "%s", json_string_value(json_array_get(values, (size_t)v)));
            }
    }
    return w->t.n_rows > 0;
}

static bool read_at(const struct table *w, const json_t *list, int *at)
{
    memset(at, 0, sizeof(int) * TUNE_ROWS);
    for (int i = 0; i < w->t.n_rows; i++) {
        int v = (int)json_integer_value(json_array_get(list, (size_t)i));
        while (at[i] < w->t.row[i].n && w->order[i][at[i]] != v)
            at[i]++;
        if (at[i] == w->t.row[i].n)
            return false;
    }
    return true;
}

// The rate that trying all gives: the setting that the repeated runs without the k-th say is the best, by that k-th, and the mean over k.
// The largest of many noisy rates would say more than there is. 0: nothing was repeated twice.
static double best_of(const struct table *w)
{
    double sum = 0;
    int n = 0;
    for (int k = 1; k < RUNS; k++) {
        double most = 0, rate = 0;
        for (int i = 0; i < w->n; i++) {
            const struct setting *s = &w->setting[i];
            double others = s->n > 2 && k < s->n ? ((s->n - 1) * s->fps - s->run[k].fps) / (s->n - 2) : 0;
            if (others > most) {
                most = others;
                rate = s->run[k].fps;
            }
        }
        sum += rate;
        n += rate > 0;
    }
    return n ? sum / n : 0;
}

static void finish(struct table *w)
{
    double most = 0;
    for (int i = 0; i < w->n; i++) {
        struct setting *s = &w->setting[i];
        int from = s->n > 1;
        for (int k = from; k < s->n; k++)
            s->fps += s->run[k].fps / (s->n - from);
        // A mean of n runs is nearer to them than the truth.
        double nearer = s->n - from > 1 ? sqrt((double)(s->n - from) / (s->n - from - 1)) : 0;
        for (int k = from; k < s->n && nearer > 0 && w->n_ratios < RATIOS; k++)
            w->ratio[w->n_ratios++] = pow(s->run[k].fps / s->fps, nearer);
        if (s->n == 2 && w->n_ratios < RATIOS)
            w->ratio[w->n_ratios++] = pow(s->run[0].fps / s->run[1].fps, sqrt(0.5)); // of two noisy rates
        most = fmax(most, s->fps);
        w->all_s += s->run[0].wall_s;
    }
    w->best = best_of(w);
    w->best = w->best > 0 ? w->best : most;
}

static struct table *read_table(const char *path)
{
    json_t *o = json_load_file(path, 0, NULL), *runs = json_object_get(o, "runs"), *columns = json_object_get(o, "columns");
    struct table *w = calloc(1, sizeof(*w));
    size_t i;
    const json_t *r;
    bool ok = w && o && columns && read_rows(w, o);
    json_array_foreach(runs, i, r) {
        int at[TUNE_ROWS];
        if (!ok || !(ok = read_at(w, json_array_get(r, 0), at)) || !(column(columns, r, "fps") > 0))
            continue;
        struct setting *s = find(w, at);
        if (!s && w->n < SETTINGS) {
            s = &w->setting[w->n++];
            memcpy(s->at, at, sizeof(at));
        }
        if (s && s->n < RUNS)
            read_run(&s->run[s->n++], columns, r);
    }
    if (ok) {
        finish(w);
        w->t.seconds = get(o, "seconds");
        w->t.patience_ms = get(json_object_get(o, "given"), "batching.dynamic.timeout_ms");
        w->engines = (int)get(json_object_get(o, "given"), "decode_engines");
    }
    json_decref(o);
    if (ok)
        return w;
    fprintf(stderr, "tune_replay: %s: it is no table of bench/tune_workload\n", path);
    free(w);
    return NULL;
}

struct found {
    double share, time, predicted, model; // of the best rate; of the time of trying all; settings predicted within 10 %, by the model alone
};

static double rate(const struct table *w, const struct tune_fit *f, const struct setting *s)
{
    struct tune_trial model;
    double sd;
    if (f)
        return exp(tune_expected(&w->t, f, s->at, &sd));
    tune_predict(&w->t, s->at, &model);
    return model.fps;
}

// The share of the settings that are predicted within 10 %. `f`: NULL for the model alone.
static double predicted(const struct table *w, const struct tune_fit *f)
{
    double n = 0;
    for (int i = 0; i < w->n; i++)
        n += fabs(rate(w, f, &w->setting[i]) / w->setting[i].fps - 1) <= NEAR;
    return n / w->n;
}

static bool search(const struct table *of, struct table *w, uint64_t seed, struct cli *c)
{
    *w = *of;
    w->rng = seed * 2654435761u + 1;
    w->t.c = c;
    table = w;
    luck(w);
    return tune_search(&w->t) == TACHY_OK;
}

static struct found play(const struct table *of, struct table *w, uint64_t seed, struct cli *c)
{
    static struct tune_fit f;
    if (!search(of, w, seed, c))
        return (struct found){0};
    const struct setting *s = find(w, w->t.final[w->t.best < 0 ? 0 : w->t.best].at);
    struct found found = {s ? fmin(1, s->fps / w->best) : 0, w->t.spent_s / w->all_s, 0, 0};
    tune_fit(&f, &w->t, tune_score);
    found.predicted = predicted(w, &f);
    w->t.k = of->t.guess ? *of->t.guess : tune_guess;
    found.model = predicted(w, NULL);
    return found;
}

// A workload with its costs, and as many of its settings as a search may see.
static struct tune *sampled(const struct table *of, struct table *w, struct cli *c)
{
    search(of, w, 0, c);
    struct tune *t = &w->t;
    t->n_seen = 0;
    for (int i = 0; i < w->n && t->n_seen < TUNE_SEEN; i += 1 + w->n / (TUNE_SEEN + 1)) {
        struct tune_seen *s = &t->seen[t->n_seen++];
        memcpy(s->at, w->setting[i].at, sizeof(s->at));
        s->score = w->setting[i].fps;
        s->seconds = t->seconds;
        s->fits = true;
    }
    return t;
}

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

// Median and worst of a row; `high`: the worst is the largest.
static double say(const char *name, double *v, int n, bool high)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
    double worst = v[high ? n - 1 : 0];
    printf("  %s %5.1f %% (worst %5.1f %%)", name, 100 * v[n / 2], 100 * worst);
    return worst;
}

// The settings that the formulas alone miss, with the costs of the last search.
static void print_off(const struct table *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct setting *s = &w->setting[i];
        double off = rate(w, NULL, s) / s->fps - 1;
        if (fabs(off) <= NEAR)
            continue;
        printf("   ");
        for (int k = 0; k < w->t.n_rows; k++) {
            const struct tune_row *r = &w->t.row[k];
            const char *path = strrchr(r->option->path, '.');
            printf(" %s %s,", path ? path + 1 : r->option->path, s->at[k] ? r->value[s->at[k]] : w->own[k]);
        }
        printf(" %.4g frames per second: %+.0f %%\n", s->fps, 100 * off);
    }
}

static bool replay(const char *path, const struct table *of, int seeds, bool off, struct cli *c)
{
    struct table *w = calloc(1, sizeof(*w));
    double *v = calloc(4 * (size_t)seeds, sizeof(*v)), noise = 0;
    bool ok = w && v;
    for (int i = 0; ok && i < seeds; i++) {
        struct found f = play(of, w, (uint64_t)i, c);
        v[i] = f.share;
        v[seeds + i] = f.time;
        v[2 * seeds + i] = f.predicted;
        v[3 * seeds + i] = f.model;
    }
    for (int i = 0; ok && i < of->n_ratios; i++)
        noise += (of->ratio[i] - 1) * (of->ratio[i] - 1) / of->n_ratios;
    if (ok) {
        printf("%s: %d settings, noise %.1f %%, %d trials\n", path, of->n, 100 * sqrt(noise), w->t.trials);
        double found = say("of the best", v, seeds, false);
        double time = say("of the time", v + seeds, seeds, true);
        double near = say("predicted within 10 %", v + 2 * seeds, seeds, false);
        say("by the model alone", v + 3 * seeds, seeds, false);
        printf("\n");
        ok = found >= FOUND && time <= TIME && near >= PREDICTED;
        if (off)
            print_off(w);
    }
    free(v);
    free(w);
    return ok;
}

static void print_constants(const char *name, const struct tune_constants *k)
{
    printf("  without %s: sharp %.3g, crowd %.3g, cores %.3g, gpu_ms %.3g, model_turn %.3g, place %.3g, late %.3g\n", name, k->sharp,
           k->crowd, k->cores, k->gpu_ms, k->model_turn, k->place, k->late);
}

// Each table with the constants that fit the others best, together.
static bool leave_out(struct table *const of[], const char *const path[], int n, struct cli *c, struct tune_constants *guess)
{
    struct table *w = calloc((size_t)n, sizeof(*w));
    struct tune *all[TABLES], *others[TABLES];
    for (int i = 0; w && i < n; i++)
        all[i] = sampled(of[i], &w[i], c);
    for (int i = 0; w && i < n; i++) {
        int k = 0;
        for (int j = 0; j < n; j++)
            if (j != i)
                others[k++] = all[j];
        tune_choose(others, k, tune_score);
        guess[i] = others[0]->k;
        print_constants(path[i], &guess[i]);
    }
    for (int i = 0; w && i < n; i++)
        of[i]->t.guess = &guess[i];
    free(w);
    return w;
}

int main(int argc, char **argv)
{
    struct tune_constants guess[TABLES];
    struct table *of[TABLES];
    const char *path[TABLES];
    struct cli c = {0};
    int seeds = 50, n = 0;
    bool check = false, left_out = false, off = false, ok = tachy_settings_new(&c.settings, NULL) == TACHY_OK;
    for (int i = 1; i < argc && ok; i++)
        if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
            seeds = atoi(argv[++i]) > 0 ? atoi(argv[i]) : 1;
        else if (!strcmp(argv[i], "--check"))
            check = true;
        else if (!strcmp(argv[i], "--off"))
            off = true;
        else if (!strcmp(argv[i], "--leave-one-out"))
            left_out = true;
        else if ((ok = n < TABLES && (of[n] = read_table(argv[i]))))
            path[n++] = argv[i];
    if (ok && left_out)
        ok = n > 1 && leave_out(of, path, n, &c, guess);
    bool hold = n > 0;
    for (int i = 0; i < n && ok; i++)
        hold = replay(path[i], of[i], seeds, off, &c) && hold;
    for (int i = 0; i < n; i++)
        free(of[i]);
    tachy_settings_free(&c.settings);
    return !ok || (check && !hold);
}
