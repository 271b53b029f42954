#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/batcher.h>

// docs/tune.md: costs of each value alone, trials where the model and what was seen so far promise most, then the best against each
// other.

enum { COMBINATIONS = 200000, LEAST_TRIALS = 16, MOST_TRIALS = 48, LAST_TRIALS = 8, FIRST = 3, GUESSED = 2 };
static const double SHARE = 0.095;        // of the time of trying all
static const double WORTH_A_TRIAL = 1e-6; // expected gain; less is none
static const double SURE = 2.33;          // standard deviations of the noise that a gain must exceed
static const double NOISE = 0.02;         // of a trial, before it is known, as sure as if GUESSED trials said it
static const double WARY = 2;             // the fit is surer than it should be

double tune_score(const struct tune *t, const struct tune_trial *r)
{
    if (!r->fps)
        return 0;
    if (t->objective == TUNE_ENERGY)
        return r->joules > 0 ? 1 / r->joules : 0;
    return t->objective == TUNE_LATENCY ? 1000 / fmax(r->p99_ms, 0.001) : r->fps;
}

// Why the limits refuse a trial; NULL: they do not.
static const char *over_limit(const struct tune *t, const struct tune_trial *r, char *buf, size_t size)
{
    double fps = t->min_fps, ms = t->max_latency_ms, mib = t->max_memory_mib;
    if (fps > 0 && r->fps < fps)
        snprintf(buf, size, "%.1f fps miss %.1f", r->fps, fps);
    else if (ms > 0 && r->p99_ms > ms)
        snprintf(buf, size, "%.1f ms miss %.1f ms", r->p99_ms, ms);
    else if (mib > 0 && r->memory_mib > mib)
        snprintf(buf, size, "%.0f MiB exceed %.0f MiB", r->memory_mib, mib);
    else if (t->max_vram_mib > 0 && r->vram_mib > t->max_vram_mib)
        snprintf(buf, size, "%.0f MiB of a GPU's memory exceed %.0f MiB", r->vram_mib, t->max_vram_mib);
    else
        return NULL;
    return buf;
}

// Runs a setting and remembers what it gave.
static int trial(struct tune *t, const int *at, double seconds, struct tune_trial *out)
{
    char why[96];
    int err = tune_run(t, at, seconds, out);
    if (err < 0 || tune_stopped(t))
        return err;
    if (out->fps > 0 && !tune_score(t, out))
        snprintf(out->why, sizeof(out->why), "its energy is not known");
    t->spent_s += out->wall_s;
    if (t->n_seen == TUNE_SEEN)
        return TACHY_OK;
    struct tune_seen *s = &t->seen[t->n_seen++];
    memcpy(s->at, at, sizeof(s->at));
    s->score = tune_score(t, out);
    s->seconds = seconds;
    s->beside_s = out->wall_s - seconds;
    s->fits = !over_limit(t, out, why, sizeof(why));
    return TACHY_OK;
}

static bool same_results(const struct tune *t, const int *a, const int *b)
{
    for (int i = 0; i < t->n_rows; i++)
        if (t->row[i].changes && a[i] != b[i])
            return false;
    return true;
}

// Whether the results with these values were judged already, and how good they are. 1 where nothing changes them.
static bool known_quality(const struct tune *t, const int *at, double *iou)
{
    static const int none[TUNE_ROWS] = {0};
    bool known = same_results(t, at, none);
    *iou = known ? 1 : -1;
    for (int i = 0; i < t->n_judged && !known; i++)
        if ((known = same_results(t, at, t->judged[i].at)))
            *iou = t->judged[i].quality;
    return known;
}

// The guard. Each choice of values that may change results is judged once. Stopped early, *iou means nothing.
static int judge(struct tune *t, const int *at, double *iou)
{
    if (known_quality(t, at, iou))
        return TACHY_OK;
    int err = tune_judge(t, at, iou);
    if (err == TACHY_OK && !tune_stopped(t) && t->n_judged < (int)(sizeof(t->judged) / sizeof(t->judged[0]))) {
        struct tune_setting *s = &t->judged[t->n_judged++];
        memcpy(s->at, at, sizeof(s->at));
        s->quality = *iou;
    }
    return err;
}

static double asked_quality(const struct tune *t) { return tachy_settings_float(t->c->settings, "tune.quality"); }

static void say_refused(const struct tune *t, double iou, char *why, size_t size)
{
    snprintf(why, size, "refused: %s %.4f, wanted %g", tune_measure(t->guard), iou, asked_quality(t));
}

// ---- Costs: each value once, alone ----

// The setting that costs are measured at: one worker and one decoder, so that nothing waits and no core is short. Where the command
// gives their number, that.
static void alone(const struct tune *t, int *at)
{
    memset(at, 0, sizeof(int) * TUNE_ROWS);
    for (int i = 0; i < t->n_rows; i++)
        for (int v = 1; v < t->row[i].n; v++)
            if ((t->row[i].part == TUNE_WORKERS || t->row[i].part == TUNE_DECODERS) && !strcmp(t->row[i].value[v], "1"))
                at[i] = v;
}

// Compares the cost of a frame with a value and without it.
static int measure_value(struct tune *t, const int *solo, int row, int v)
{
    struct tune_row *r = &t->row[row];
    struct tune_trial got;
    int at[TUNE_ROWS];
    memcpy(at, solo, sizeof(at));
    at[row] = v;
    int err = trial(t, at, t->seconds / 2, &got);
    if (err < 0 || tune_stopped(t))
        return err;
    r->cost[v] = got.cost;
    r->gain[v] = tune_score(t, &got) / tune_score(t, &t->base);
    snprintf(r->why[v], sizeof(r->why[v]), "%s", got.why);
    return err;
}

// With one decoder a GPU is mostly idle, so a value that slows it does not show. The command as given runs with such a value, too.
static int measure_on_gpu(struct tune *t, int row, int v)
{
    static const double NOTHING = 0.1;
    struct tune_row *r = &t->row[row];
    struct tune_trial got;
    int at[TUNE_ROWS] = {0};
    if (r->part != TUNE_OTHER || !tune_gpu_decodes(t) || fabs(r->gain[v] - 1) > NOTHING)
        return TACHY_OK;
    at[row] = v;
    int err = trial(t, at, t->seconds / 2, &got);
    r->given_fps[v] = got.fps;
    return err;
}

// A value of a row that may change what is seen of a frame passes the guard or is out. Threads and batches change the order of sums
// at most: they are judged with the last settings.
static int judge_value(struct tune *t, int row, int v)
{
    struct tune_row *r = &t->row[row];
    double iou = 0;
    int at[TUNE_ROWS] = {0};
    if (!r->changes || r->part != TUNE_OTHER || !(r->gain[v] > 1 / TUNE_WORTH)) // one that is slow needs no judge
        return TACHY_OK;
    at[row] = v;
    int err = tune_stopped(t) ? TACHY_OK : judge(t, at, &iou); // a stop leaves nothing that was not judged
    if (iou < asked_quality(t) && !tune_stopped(t))
        say_refused(t, iou, r->why[v], sizeof(r->why[v]));
    if (iou < asked_quality(t) || tune_stopped(t))
        r->gain[v] = 0;
    return err;
}

static void say_gain(const struct tune *t, struct tune_row *r, int v)
{
    if (r->gain[v] > 0)
        snprintf(r->why[v], sizeof(r->why[v]), r->gain[v] >= 1 ? "gains %.0f %%" : "loses %.0f %%", fabs(r->gain[v] - 1) * 100);
    if (r->why[v][0])
        message_note(&t->c->log, "%s %s: %s", r->option->path, r->value[v], r->why[v]);
}

static double size_of(const struct tune_row *r, int v) { return fmax(1, r->number[v]); }

// Threads and batches follow a law: what is done once, and what is shared by their number. Every other value is measured.
static bool follows(const struct tune_row *r, int v)
{
    return (r->part == TUNE_THREADS || r->part == TUNE_BATCH) && v % 2 == 0 && v + 1 < r->n && size_of(r, v) > size_of(r, v - 1) &&
           size_of(r, v + 1) > size_of(r, v);
}

static double between(double low, double high, double x) { return low + (high - low) * x; }

// Costs between those of its neighbours, linear in one over the number.
static void follow(const struct tune *t, struct tune_row *r, int v)
{
    double a = 1 / size_of(r, v - 1), b = 1 / size_of(r, v + 1), x = (a - 1 / size_of(r, v)) / (a - b);
    double before = v > 1 ? r->gain[v - 1] : 1;
    const struct tune_cost *l = &r->cost[v - 1], *h = &r->cost[v + 1];
    if (!(before > 0) || !(r->gain[v + 1] > 0)) // one of them fails: it may as well
        return;
    r->gain[v] = between(before, r->gain[v + 1], x);
    for (size_t i = 0; i < sizeof(*l) / sizeof(double); i++)
        ((double *)&r->cost[v])[i] = between(((const double *)l)[i], ((const double *)h)[i], x);
    r->cost[v].batch = between(l->batch, h->batch, (size_of(r, v) - size_of(r, v - 1)) / (size_of(r, v + 1) - size_of(r, v - 1)));
    say_gain(t, r, v);
}

static int measure_row(struct tune *t, const int *solo, int row)
{
    struct tune_row *r = &t->row[row];
    int err = TACHY_OK;
    for (int v = 1; v < r->n && err == TACHY_OK && !tune_stopped(t); v++) {
        if (follows(r, v))
            continue;
        err = measure_value(t, solo, row, v);
        if (err == TACHY_OK && !tune_stopped(t))
            err = measure_on_gpu(t, row, v);
        if (err == TACHY_OK && !tune_stopped(t))
            err = judge_value(t, row, v);
        if (!tune_stopped(t) || r->gain[v] > 0)
            say_gain(t, r, v);
    }
    for (int v = 1; v < r->n && err == TACHY_OK && !tune_stopped(t); v++)
        if (follows(r, v))
            follow(t, r, v);
    return err;
}

// The costs of the base and of each value of the rows whose effect is not that of the pipeline's shape.
static int measure_costs(struct tune *t)
{
    int solo[TUNE_ROWS];
    alone(t, solo);
    int err = trial(t, solo, t->seconds, &t->base);
    if (err < 0 || tune_stopped(t))
        return err;
    if (!tune_score(t, &t->base)) {
        message_error("the command fails with one worker and one decoder: %s", t->base.why);
        return TACHY_ERR_UNAVAILABLE;
    }
    for (int i = 0; i < t->n_rows; i++)
        if (t->row[i].part != TUNE_WORKERS && t->row[i].part != TUNE_DECODERS && err == TACHY_OK && !tune_stopped(t))
            err = measure_row(t, solo, i);
    return err;
}

static void read_settings(struct tune *t)
{
    static const char *const objectives[] = {[TUNE_THROUGHPUT] = "throughput", [TUNE_LATENCY] = "latency", [TUNE_ENERGY] = "energy"};
    const tachy_settings *s = t->c->settings;
    for (int i = 0; i < 3; i++)
        if (!strcmp(tachy_settings_str(s, "tune.objective"), objectives[i]))
            t->objective = (enum tune_objective)i;
    t->min_fps = tachy_settings_float(s, "tune.min_fps");
    t->max_latency_ms = tachy_settings_float(s, "tune.max_latency_ms");
    t->max_memory_mib = tachy_settings_float(s, "tune.max_memory");
    t->max_vram_mib = tachy_settings_float(s, "tune.max_vram");
    if (!(t->patience_ms > 0)) // a table's batches have theirs
        t->patience_ms = tachy_settings_float(s, "batching.dynamic.timeout_ms");
    if (!(t->patience_ms > 0))
        t->patience_ms = TACHY_BATCH_TIMEOUT_US / 1000.0;
    if (!(t->seconds > 0)) // a table's trials have theirs
        t->seconds = tachy_settings_float(s, "tune.trial_seconds");
    for (int i = 0; i < t->n_rows; i++)
        for (int v = 0; v < t->row[i].n; v++)
            t->row[i].number[v] = atof(t->row[i].value[v]);
}

int tune_run_given(struct tune *t)
{
    static const int none[TUNE_ROWS] = {0};
    read_settings(t);
    int err = trial(t, none, t->seconds, &t->given);
    if (err < 0 || tune_stopped(t))
        return err;
    if (!t->given.fps) {
        message_error("the command as given fails: %s", t->given.why);
        return TACHY_ERR_UNAVAILABLE;
    }
    if (t->max_vram_mib > 0 && t->given.vram_mib < 0) {
        message_error("--max-vram: NVML (libnvidia-ml.so.1) does not say how much of a GPU's memory is in use; leave that out, or install "
                      "NVIDIA's driver");
        return TACHY_ERR_UNAVAILABLE;
    }
    if (!tune_score(t, &t->given)) {
        message_error("--objective energy: no energy counter can be read, neither NVML's for the run's GPUs nor "
                      "/sys/class/powercap/intel-rapl:*/energy_uj, which sudo chmod a+r opens to all users");
        return TACHY_ERR_UNAVAILABLE;
    }
    return TACHY_OK;
}

// ---- Prediction ----

static void keep(struct tune *t, const struct tune_setting *s)
{
    int i = t->n_final;
    if (i == TUNE_FINAL + 1 && s->predicted <= t->final[i - 1].predicted)
        return;
    i = i == TUNE_FINAL + 1 ? i - 1 : i;
    t->n_final = i + 1;
    for (; i > 1 && t->final[i - 1].predicted < s->predicted; i--)
        t->final[i] = t->final[i - 1];
    t->final[i] = *s;
}

// A prediction that exceeds a limit by little may be wrong.
static bool too_much(double mib, double limit) { return limit > 0 && mib > 1.2 * limit; }

double tune_expected(const struct tune *t, const struct tune_fit *f, const int *at, double *sd)
{
    struct tune_trial p;
    tune_predict(t, at, &p);
    bool fits = !too_much(p.memory_mib, t->max_memory_mib) && !too_much(p.vram_mib, t->max_vram_mib);
    double score = fits ? tune_score(t, &p) : 0;
    *sd = 0;
    return score > 0 ? log(score) + tune_off(f, at, &p, sd) : -INFINITY;
}

static bool possible(const struct tune *t, const int *at)
{
    for (int k = 0; k < t->n_rows; k++)
        if (t->row[k].part != TUNE_WORKERS && t->row[k].part != TUNE_DECODERS && at[k] && !(t->row[k].gain[at[k]] > 0))
            return false;
    return true;
}

static void say_predicted(struct tune_row *r, int v)
{
    if (r->part == TUNE_OTHER && r->why[v][0] == 'r') // refused
        return;
    snprintf(r->why[v], sizeof(r->why[v]), r->gain[v] >= 1 ? "gains %.0f %%" : "loses %.0f %%", fabs(r->gain[v] - 1) * 100);
}

// Compares the predictions of the best combination with a value and of the best one without it.
static void predict_gains(struct tune *t, double best[TUNE_ROWS][TUNE_VALUES])
{
    for (int k = 0; k < t->n_rows; k++)
        for (int v = 1; v < t->row[k].n; v++)
            if (best[k][v] > 0 && best[k][0] > 0) {
                t->row[k].gain[v] = best[k][v] / best[k][0];
                say_predicted(&t->row[k], v);
            } else if (best[k][0] > 0 && t->row[k].gain[v] > 0) {
                snprintf(t->row[k].why[v], sizeof(t->row[k].why[v]), "exceeds the limits");
            }
}

// Goes on to the next combination, the first row fastest; false: it was the last one.
static bool next(const struct tune *t, int *at)
{
    for (int i = 0; i < t->n_rows; at[i++] = 0)
        if (++at[i] < t->row[i].n)
            return true;
    return false;
}

static const struct tune_seen *find_seen(const struct tune *t, const int *at)
{
    for (int i = 0; i < t->n_seen; i++)
        if (!memcmp(t->seen[i].at, at, sizeof(t->seen[i].at)))
            return &t->seen[i];
    return NULL;
}

// A prediction without a trial may be wrong, and then those near it are: one of the last settings has run.
static void keep_one_that_ran(struct tune *t, const struct tune_setting *ran)
{
    bool some = !(ran->predicted > 0);
    for (int i = 1; i < t->n_final; i++)
        some |= find_seen(t, t->final[i].at) != NULL;
    if (!some)
        t->final[t->n_final - 1] = *ran;
}

// The combinations of values that are expected to be the best; final[0] is the command as given.
static void rank(struct tune *t, const struct tune_fit *f)
{
    struct tune_setting s = {.quality = -1}, ran = {.predicted = 0};
    double best[TUNE_ROWS][TUNE_VALUES] = {0}, sd, given = tune_expected(t, f, s.at, &sd);
    t->final[0] = (struct tune_setting){.predicted = 1, .quality = 1};
    t->n_final = 1;
    long tried = 0;
    do {
        const struct tune_seen *seen = find_seen(t, s.at);
        bool out = !possible(t, s.at) || (seen && (!seen->fits || !(seen->score > 0)));
        s.predicted = out ? 0 : exp(tune_expected(t, f, s.at, &sd) - (given > -INFINITY ? given : 0));
        for (int k = 0; k < t->n_rows; k++)
            best[k][s.at[k]] = fmax(best[k][s.at[k]], s.predicted);
        if (tried && s.predicted > 0)
            keep(t, &s);
        if (tried && seen && s.predicted > ran.predicted)
            ran = s;
    } while (next(t, s.at) && ++tried < COMBINATIONS);
    if (t->n_final == TUNE_FINAL + 1)
        keep_one_that_ran(t, &ran);
    predict_gains(t, best);
}

// A value that looked slow alone may gain by now: it passes the guard as well.
static int judge_gaining(struct tune *t, const struct tune_fit *f)
{
    int err = TACHY_OK, refused = 0;
    rank(t, f);
    for (int k = 0; k < t->n_rows; k++)
        for (int v = 1; v < t->row[k].n && err == TACHY_OK && !tune_stopped(t); v++) {
            bool before = t->row[k].gain[v] > 0;
            err = judge_value(t, k, v);
            refused += before && !(t->row[k].gain[v] > 0);
        }
    if (refused)
        rank(t, f);
    return err;
}

// ---- Trials where most is to be gained ----

// The gain over `best` that can be expected of a normally distributed one.
static double improvement(double mean, double sd, double best)
{
    double z = sd > 0 ? (mean - best) / sd : 0;
    return sd > 0 ? (mean - best) * erfc(-z / sqrt(2)) / 2 + sd * exp(-z * z / 2) / sqrt(2 * acos(-1)) : 0;
}

// The setting without a trial that promises most beside those with one; `first`: of which least is known. Returns how much, as a share;
// `*n`: how many are possible.
static double most_promising(const struct tune *t, const struct tune_fit *f, bool first, int *at, long *n)
{
    int s[TUNE_ROWS] = {0};
    double best = -INFINITY, most = 0, sd;
    long tried = 0;
    for (int i = 0; i < t->n_seen; i++)
        if (t->seen[i].score > 0 && t->seen[i].fits)
            best = fmax(best, tune_expected(t, f, t->seen[i].at, &sd));
    *n = 0;
    do {
        if (!possible(t, s))
            continue;
        double mean = tune_expected(t, f, s, &sd), gain = 0;
        ++*n;
        if (mean > -INFINITY)
            gain = first ? sd : best > -INFINITY ? improvement(mean, WARY * sd, best) : exp(mean);
        if (gain > most && !find_seen(t, s)) {
            most = gain;
            memcpy(at, s, sizeof(s));
        }
    } while (next(t, s) && ++tried < COMBINATIONS);
    return most;
}

// Seconds that a process takes outside its trial: the mean of the trials so far, and the mean that is expected over all settings.
// Each decoder that a GPU opens takes time, and the best settings have many, so a line is fitted over the number of decoders.
static void beside_of(const struct tune *t, double *seen, double *all)
{
    const int row = tune_row_of(t, TUNE_DECODERS);
    const struct tune_row *r = row >= 0 ? &t->row[row] : NULL;
    double n = t->n_seen, x = 0, y = 0, xx = 0, xy = 0, values = 0;
    for (int i = 0; i < t->n_seen; i++) {
        double decoders = r ? tune_number(t, r, t->seen[i].at[row]) : 0;
        x += decoders / n;
        y += t->seen[i].beside_s / n;
        xx += decoders * decoders / n;
        xy += decoders * t->seen[i].beside_s / n;
    }
    for (int v = 0; r && v < r->n; v++)
        values += tune_number(t, r, v) / r->n;
    *seen = y;
    *all = xx > x * x ? fmax(0, y + (xy - x * y) / (xx - x * x) * (values - x)) : y;
}

// Whether there is time for a trial of `seconds` and then `more` of full length: a tenth of what all `n` settings would take.
static bool in_time(const struct tune *t, long n, double seconds, int more)
{
    double beside, all;
    beside_of(t, &beside, &all);
    double full = beside + t->seconds, share = SHARE * (double)n * (all + t->seconds) / full;
    return t->spent_s + beside + seconds + more * full <= full * fmax(LEAST_TRIALS, fmin(MOST_TRIALS, share));
}

// Half as long as others: what a trial says counts together with those near it.
static int explore(struct tune *t, struct tune_fit *f, long *n)
{
    struct tune_trial got;
    int err = TACHY_OK, tries = 0, at[TUNE_ROWS];
    for (tune_fit(f, t, tune_score); err == TACHY_OK && !tune_stopped(t); tune_fit(f, t, tune_score)) {
        bool some = most_promising(t, f, tries++ < FIRST, at, n) > WORTH_A_TRIAL;
        if (!some || !in_time(t, *n, t->seconds / 2, LAST_TRIALS) || t->n_seen + LAST_TRIALS >= TUNE_SEEN)
            break;
        err = trial(t, at, t->seconds / 2, &got);
    }
    if (err == TACHY_OK)
        err = judge_gaining(t, f);
    return err;
}

// ---- The best against each other ----

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

// Of the gains measured; before the first round the prediction.
static double median(const struct tune_setting *s)
{
    double v[TUNE_ROUNDS];
    memcpy(v, s->gain, sizeof(v));
    qsort(v, (size_t)s->rounds, sizeof(*v), by_size);
    return s->rounds ? (v[s->rounds / 2] + v[(s->rounds - 1) / 2]) / 2 : s->predicted;
}

// One turn of all that are left, the command first: the pairs that gains come from.
static int play_round(struct tune *t, int round)
{
    double base = 0;
    for (int i = 0; i < t->n_final && !tune_stopped(t); i++) {
        struct tune_setting *s = &t->final[i];
        if (s->why[0] && i)
            continue;
        int err = trial(t, s->at, t->seconds, &s->last);
        if (err < 0 || tune_stopped(t))
            return err;
        base = i ? base : tune_score(t, &s->last);
        s->gain[round] = base > 0 ? tune_score(t, &s->last) / base : 0;
        s->rounds = round + 1;
        if (!tune_score(t, &s->last))
            snprintf(s->why, sizeof(s->why), "%s", s->last.why);
        else if (!over_limit(t, &s->last, s->why, sizeof(s->why)))
            s->why[0] = '\0';
    }
    return TACHY_OK;
}

static int leader(const struct tune *t)
{
    int best = -1;
    for (int i = 0; i < t->n_final; i++)
        if (!t->final[i].why[0] && (best < 0 || median(&t->final[i]) > median(&t->final[best])))
            best = i;
    return best;
}

static bool in(const struct tune_setting *s) { return !s->why[0]; }

// The slower half goes; after the first round none that beat the leader in a round, since their difference is within the noise.
static int drop_half(struct tune *t)
{
    bool slow[TUNE_FINAL + 1] = {0};
    int left = 0, best = leader(t);
    for (int i = 1; i < t->n_final; i++) {
        int better = 0, all = 0, beat = 0;
        for (int k = 1; k < t->n_final; k++) {
            all += in(&t->final[k]);
            better += in(&t->final[k]) && median(&t->final[k]) > median(&t->final[i]);
        }
        for (int r = 0; r < t->final[i].rounds && best >= 0 && t->final[i].rounds > 1; r++)
            beat += t->final[i].gain[r] > t->final[best].gain[r];
        slow[i] = in(&t->final[i]) && i != best && !beat && better * 2 >= all;
    }
    for (int i = 1; i < t->n_final; i++) {
        struct tune_setting *s = &t->final[i];
        if (slow[i] && s->rounds > 1)
            snprintf(s->why, sizeof(s->why), "slower in all %d rounds", s->rounds);
        else if (slow[i])
            snprintf(s->why, sizeof(s->why), "slower in the first round");
        left += in(s);
    }
    return left;
}

// Standard deviation of the log of a trial's score, by the settings that ran more than once.
static double noise_of(const struct tune *t)
{
    double squares = GUESSED * pow(NOISE, 2);
    int n = GUESSED; // trials that say something
    for (int i = 0; i < t->n_seen; i++) {
        const struct tune_seen *a = &t->seen[i], *before = find_seen(t, a->at);
        double sum = 0, weights = 0;
        for (int k = 0; before == a && k < t->n_seen; k++)
            if (!memcmp(t->seen[k].at, a->at, sizeof(a->at)) && t->seen[k].score > 0) {
                sum += t->seen[k].seconds * log(t->seen[k].score);
                weights += t->seen[k].seconds;
                n++;
            }
        for (int k = 0; weights > 0 && k < t->n_seen; k++)
            if (!memcmp(t->seen[k].at, a->at, sizeof(a->at)) && t->seen[k].score > 0)
                squares += pow(log(t->seen[k].score) - sum / weights, 2) * t->seen[k].seconds / t->seconds;
        n -= weights > 0;
    }
    return sqrt(squares / n);
}

// The least gain that is none of the noise: a round compares two trials.
static double least_gain(const struct tune *t, const struct tune_setting *s)
{
    return fmax(TUNE_WORTH, 1 + SURE * noise_of(t) * sqrt(2.0 / fmax(s->rounds, 1)));
}

// Whether the leader is the command as given, or beyond the noise better in all rounds or worse in all.
static bool decided(const struct tune *t)
{
    int best = leader(t), won = 0;
    for (int r = 0; best > 0 && r < t->final[best].rounds; r++)
        won += t->final[best].gain[r] > 1;
    return best <= 0 || !won || (won == t->final[best].rounds && median(&t->final[best]) >= least_gain(t, &t->final[best]));
}

// The leader must pass the guard as it is: errors add up. Else the next one leads.
static int judge_leaders(struct tune *t)
{
    int err = TACHY_OK, i;
    while (err == TACHY_OK && !tune_stopped(t) && (i = leader(t)) >= 0) {
        struct tune_setting *s = &t->final[i];
        err = judge(t, s->at, &s->quality);
        if (err < 0 || tune_stopped(t) || s->quality >= asked_quality(t))
            break;
        say_refused(t, s->quality, s->why, sizeof(s->why));
    }
    return err;
}

// A setting that is not faster beyond noise, or was not judged before a stop, gives way to the command as given.
static void choose(struct tune *t)
{
    for (int i = 1; i < t->n_final; i++) {
        struct tune_setting *s = &t->final[i];
        if (!known_quality(t, s->at, &s->quality) && !s->why[0])
            snprintf(s->why, sizeof(s->why), "not judged");
        else if (s->quality >= 0 && s->quality < asked_quality(t))
            say_refused(t, s->quality, s->why, sizeof(s->why));
        else if (t->final[0].rounds && !s->rounds && !s->why[0])
            snprintf(s->why, sizeof(s->why), "not measured");
    }
    t->best = leader(t);
    if (t->best <= 0 || t->final[0].why[0])
        return;
    const struct tune_setting *s = &t->final[t->best];
    int won = 0;
    for (int r = 0; r < s->rounds; r++)
        won += s->gain[r] > 1;
    if (median(s) < least_gain(t, s) || won * 3 < s->rounds * 2)
        t->best = 0;
}

int tune_search(struct tune *t)
{
    for (int i = 0; i < t->n_rows; i++)
        t->row[i].gain[0] = 1;
    int err = tune_run_given(t);
    if (err == TACHY_OK && !tune_stopped(t))
        err = measure_costs(t);
    if (err < 0 || !t->given.fps || !t->base.fps)
        return err;
    struct tune_fit *f = calloc(1, sizeof(*f));
    long n = 0;
    if (!f)
        return TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = explore(t, f, &n);
    free(f);
    for (int r = 0; r < TUNE_ROUNDS && err == TACHY_OK && !tune_stopped(t); r++) {
        err = play_round(t, r);
        int left = err == TACHY_OK ? drop_half(t) : 0;
        if (r >= 1 && ((left <= 1 && decided(t)) || !in_time(t, n, 0, left + 1)))
            break;
    }
    if (err == TACHY_OK)
        err = judge_leaders(t);
    choose(t);
    for (int i = 0; i < t->n_final; i++)
        t->final[i].predicted = median(&t->final[i]);
    return err;
}
