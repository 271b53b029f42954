#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// docs/tune.md: each value alone, a product of their gains as the prediction, then the best predictions against each other.

enum { COMBINATIONS = 200000 };
static const double worth = 1.02; // a gain below it is no reason to change anything

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
    snprintf(why, size, "refused: mean IoU %.4f, wanted %g", iou, asked_quality(t));
}

// A value beside those that are the best so far, against `base`, the score of those.
static int try_value(struct tune *t, const int *best, int row, int value, double base)
{
    struct tune_row *r = &t->row[row];
    struct tune_trial trial;
    int at[TUNE_ROWS];
    memcpy(at, best, sizeof(at));
    at[row] = value;
    int err = tune_run(t, at, t->frames, &trial);
    if (err < 0 || tune_stopped(t))
        return err;
    snprintf(r->why[value], sizeof(r->why[value]), "%.*s", (int)sizeof(r->why[value]) - 1, trial.why);
    r->gain[value] = tune_score(t, &trial) / base;
    return err;
}

// A value that may change results passes the guard or is out.
static int judge_value(struct tune *t, const int *best, int row, int value)
{
    struct tune_row *r = &t->row[row];
    double iou = 0;
    int at[TUNE_ROWS];
    if (!r->changes || !(r->gain[value] > 1 / worth)) // one that is slow needs no judge
        return TACHY_OK;
    memcpy(at, best, sizeof(at));
    at[row] = value;
    int err = tune_stopped(t) ? TACHY_OK : judge(t, at, &iou); // a stop leaves nothing that was not judged
    if (iou < asked_quality(t) && !tune_stopped(t))
        say_refused(t, iou, r->why[value], sizeof(r->why[value]));
    if (iou < asked_quality(t) || tune_stopped(t))
        r->gain[value] = 0;
    return err;
}

static void say_gains(const struct tune *t, struct tune_row *r)
{
    for (int v = 1; v < r->n; v++) {
        if (r->gain[v] > 0)
            snprintf(r->why[v], sizeof(r->why[v]), r->gain[v] >= 1 ? "gains %.0f %%" : "loses %.0f %%", fabs(r->gain[v] - 1) * 100);
        if (r->why[v][0])
            message_note(&t->c->log, "%s %s: %s", r->option->path, r->value[v], r->why[v]);
    }
}

// Each value of a row, beside the best of the rows before it, which is measured before and after them.
static int screen_row(struct tune *t, int *best, int row)
{
    struct tune_row *r = &t->row[row];
    struct tune_trial base, after = {0};
    int err = tune_run(t, best, t->frames, &base), top = 0;
    for (int v = 1; v < r->n && err == TACHY_OK && base.fps > 0 && !tune_stopped(t); v++)
        err = try_value(t, best, row, v, tune_score(t, &base));
    if (err == TACHY_OK && !tune_stopped(t))
        err = tune_run(t, best, t->frames, &after);
    double before = tune_score(t, &base), later = tune_score(t, &after);
    for (int v = 1; v < r->n; v++)
        r->gain[v] *= later > 0 && before > 0 ? 2 * before / (before + later) : 1;
    for (int v = 1; v < r->n && err == TACHY_OK; v++)
        err = judge_value(t, best, row, v);
    for (int v = 1; v < r->n; v++)
        top = r->gain[v] > r->gain[top] ? v : top;
    say_gains(t, r);
    best[row] = r->gain[top] > worth ? top : 0;
    return err;
}

// As many frames as the command works on in --trial-seconds.
static int size_trials(struct tune *t)
{
    static const int none[TUNE_ROWS] = {0};
    struct tune_trial first = {0};
    double seconds = tachy_settings_float(t->c->settings, "tune.trial_seconds");
    int64_t most = tachy_settings_int(t->c->settings, "input.max_frames");
    int err = tune_run(t, none, most && most < 60 ? most : 60, &first);
    if (err < 0 || tune_stopped(t))
        return err;
    if (!first.fps) {
        message_error("the command as given fails: %s", first.why);
        return TACHY_ERR_UNAVAILABLE;
    }
    t->frames = (int64_t)fmax(16, first.fps * seconds);
    t->frames = most && t->frames > most ? most : t->frames;
    return TACHY_OK;
}

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

// The combinations of values that are predicted to be the fastest; final[0] is the command as given.
static void predict(struct tune *t)
{
    struct tune_setting s = {.quality = -1};
    t->final[0] = (struct tune_setting){.predicted = 1, .quality = 1};
    t->n_final = 1;
    for (long tried = 0; tried < COMBINATIONS; tried++) {
        int i = 0;
        while (i < t->n_rows && ++s.at[i] == t->row[i].n) // counts, the first row fastest
            s.at[i++] = 0;
        if (i == t->n_rows)
            return;
        s.predicted = 1;
        for (int k = 0; k < t->n_rows; k++)
            s.predicted *= t->row[k].gain[s.at[k]];
        if (s.predicted > worth)
            keep(t, &s);
    }
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
static int play_round(struct tune *t, int round, int64_t frames)
{
    double base = 0;
    for (int i = 0; i < t->n_final && !tune_stopped(t); i++) {
        struct tune_setting *s = &t->final[i];
        if (s->why[0] && i)
            continue;
        int err = tune_run(t, s->at, frames, &s->last);
        if (err < 0 || tune_stopped(t))
            return err;
        base = i ? base : tune_score(t, &s->last);
        s->gain[round] = base > 0 ? tune_score(t, &s->last) / base : 0;
        s->rounds = round + 1;
        if (!s->last.fps)
            snprintf(s->why, sizeof(s->why), "%s", s->last.why);
        else if (!tune_limit(t, &s->last, s->why, sizeof(s->why)))
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

// The slower half goes, but none that beat the leader in a round: their difference is within the noise.
static int drop_half(struct tune *t)
{
    int left = 0, best = leader(t);
    for (int i = 1; i < t->n_final; i++) {
        struct tune_setting *s = &t->final[i];
        int better = 0, beat = 0;
        for (int k = 1; k < t->n_final && !s->why[0]; k++)
            better += !t->final[k].why[0] && median(&t->final[k]) > median(s);
        for (int r = 0; r < s->rounds && best >= 0; r++)
            beat += s->gain[r] > t->final[best].gain[r];
        if (!s->why[0] && i != best && s->rounds > 1 && !beat && better * 2 >= t->n_final)
            snprintf(s->why, sizeof(s->why), "slower in all %d rounds", s->rounds);
        left += !s->why[0];
    }
    return left;
}

// Settings that change results must pass the guard as they are, too: errors add up.
static int judge_finals(struct tune *t)
{
    int err = TACHY_OK;
    for (int i = 0; i < t->n_final && err == TACHY_OK && !tune_stopped(t); i++) {
        struct tune_setting *s = &t->final[i];
        err = judge(t, s->at, &s->quality);
        if (!tune_stopped(t) && s->quality < asked_quality(t))
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
        else if (s->quality < asked_quality(t))
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
    if (median(s) < worth || won * 3 < s->rounds * 2)
        t->best = 0;
}

int tune_search(struct tune *t)
{
    int best[TUNE_ROWS] = {0};
    for (int i = 0; i < t->n_rows; i++)
        t->row[i].gain[0] = 1;
    int err = size_trials(t);
    for (int i = 0; i < t->n_rows && err == TACHY_OK && !tune_stopped(t); i++)
        err = screen_row(t, best, i);
    predict(t);
    if (err == TACHY_OK)
        err = judge_finals(t);
    for (int r = 0; r < TUNE_ROUNDS && err == TACHY_OK && !tune_stopped(t); r++) {
        err = play_round(t, r, t->frames);
        if (err == TACHY_OK && drop_half(t) <= 1 && r >= 2)
            break;
    }
    choose(t);
    for (int i = 0; i < t->n_final; i++)
        t->final[i].predicted = median(&t->final[i]);
    return err;
}
