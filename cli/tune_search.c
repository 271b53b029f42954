#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// docs/tune.md: each value alone, a product of their gains as the prediction, then the best predictions against each other.

enum { COMBINATIONS = 200000 };

// Larger is better; 0: it failed.
static double score(const struct tune *t, const struct tune_trial *r)
{
    bool latency = !strcmp(tachy_settings_str(t->c->settings, "tune.objective"), "latency");
    return !r->fps ? 0 : latency ? 1000 / fmax(r->p99_ms, 0.001) : r->fps;
}

// Why the limits refuse a trial; NULL: they do not.
static const char *over_limit(const struct tune *t, const struct tune_trial *r, char *buf, size_t size)
{
    const tachy_settings *s = t->c->settings;
    double fps = tachy_settings_float(s, "tune.min_fps"), ms = tachy_settings_float(s, "tune.max_latency_ms"),
           mib = tachy_settings_float(s, "tune.max_memory");
    if (fps > 0 && r->fps < fps)
        snprintf(buf, size, "%.1f fps miss %.1f", r->fps, fps);
    else if (ms > 0 && r->p99_ms > ms)
        snprintf(buf, size, "%.1f ms miss %.1f ms", r->p99_ms, ms);
    else if (mib > 0 && r->memory_mib > mib)
        snprintf(buf, size, "%.0f MiB exceed %.0f MiB", r->memory_mib, mib);
    else
        return NULL;
    return buf;
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
    struct tune_trial trial;
    int at[TUNE_ROWS];
    memcpy(at, solo, sizeof(at));
    at[row] = v;
    int err = tune_run(t, at, t->seconds, &trial);
    if (err < 0 || tune_stopped(t))
        return err;
    r->cost[v] = trial.cost;
    r->gain[v] = trial.fps / t->base.fps;
    snprintf(r->why[v], sizeof(r->why[v]), "%s", trial.why);
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

static double size_of(const struct tune_row *r, int v) { return fmax(1, atof(r->value[v])); }

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
    r->cost[v] = (struct tune_cost){between(l->decode_ms, h->decode_ms, x), between(l->work_ms, h->work_ms, x), between(l->model_ms, h->model_ms, x),
                                    between(l->write_ms, h->write_ms, x), between(l->cpu_ms, h->cpu_ms, x),
                                    between(l->memory_mib, h->memory_mib, x)};
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
    int err = tune_run(t, solo, t->seconds, &t->base);
    if (err < 0 || tune_stopped(t))
        return err;
    if (!t->base.fps) {
        message_error("the command fails with one worker and one decoder: %s", t->base.why);
        return TACHY_ERR_UNAVAILABLE;
    }
    for (int i = 0; i < t->n_rows; i++) {
        t->row[i].cost[0] = t->base.cost;
        if (t->row[i].part != TUNE_WORKERS && t->row[i].part != TUNE_DECODERS && err == TACHY_OK && !tune_stopped(t))
            err = measure_row(t, solo, i);
    }
    return err;
}

int tune_run_given(struct tune *t)
{
    static const int none[TUNE_ROWS] = {0};
    t->seconds = tachy_settings_float(t->c->settings, "tune.trial_seconds");
    int err = tune_run(t, none, t->seconds, &t->given);
    if (err < 0 || tune_stopped(t))
        return err;
    if (!t->given.fps) {
        message_error("the command as given fails: %s", t->given.why);
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

// The score that the model expects; 0: it would not fit into the memory that is allowed.
static double predicted_score(const struct tune *t, const int *at)
{
    struct tune_trial p;
    double mib = tachy_settings_float(t->c->settings, "tune.max_memory");
    tune_predict(t, at, &p);
    return mib > 0 && p.memory_mib > 1.2 * mib ? 0 : score(t, &p);
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
            }
}

// The combinations of values that are predicted to be the best; final[0] is the command as given.
static void predict(struct tune *t)
{
    struct tune_setting s = {.quality = -1};
    double best[TUNE_ROWS][TUNE_VALUES] = {0}, given = predicted_score(t, s.at);
    given = given > 0 ? given : 1;
    t->final[0] = (struct tune_setting){.predicted = 1, .quality = 1};
    t->n_final = 1;
    for (long tried = 0; tried < COMBINATIONS; tried++) {
        s.predicted = possible(t, s.at) ? predicted_score(t, s.at) / given : 0;
        for (int k = 0; k < t->n_rows; k++)
            best[k][s.at[k]] = fmax(best[k][s.at[k]], s.predicted);
        if (tried && s.predicted > 0)
            keep(t, &s);
        int i = 0;
        while (i < t->n_rows && ++s.at[i] == t->row[i].n) // counts, the first row fastest
            s.at[i++] = 0;
        if (i == t->n_rows)
            break;
    }
    predict_gains(t, best);
}

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
static int play_round(struct tune *t, int round, double seconds)
{
    double base = 0;
    for (int i = 0; i < t->n_final && !tune_stopped(t); i++) {
        struct tune_setting *s = &t->final[i];
        if (s->why[0] && i)
            continue;
        int err = tune_run(t, s->at, seconds, &s->last);
        if (err < 0 || tune_stopped(t))
            return err;
        base = i ? base : score(t, &s->last);
        s->gain[round] = base > 0 ? score(t, &s->last) / base : 0;
        s->rounds = round + 1;
        if (!s->last.fps)
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
    if (median(s) < TUNE_WORTH || won * 3 < s->rounds * 2)
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
    predict(t);
    for (int r = 0; r < TUNE_ROUNDS && err == TACHY_OK && !tune_stopped(t); r++) {
        err = play_round(t, r, r ? t->seconds : t->seconds / 2); // the first only sorts out the slow ones
        if (err == TACHY_OK && drop_half(t) <= 1 && r >= 1)
            break;
    }
    if (err == TACHY_OK)
        err = judge_leaders(t);
    choose(t);
    for (int i = 0; i < t->n_final; i++)
        t->final[i].predicted = median(&t->final[i]);
    return err;
}
