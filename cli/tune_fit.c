#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How far trials were from the model, as a Gaussian process over the settings; docs/tune.md has the kernel.

static const double scales[] = {0.04, 0.12, 0.36}, noises[] = {0.007, 0.02, 0.06}, reaches[] = {1, 3, 9};

static const double TYPICAL = 0.03; // error of the model with the right constants

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && !*end;
}

// How far two values of a row are apart: doublings of a number, 1 for any other two.
static double apart(const struct tune *t, const struct tune_row *r, int a, int b)
{
    bool numbers = r->part != TUNE_OTHER || (is_number(r->value[a]) && is_number(r->value[b]));
    if (a == b || !numbers)
        return a != b;
    double x = tune_number(t, r, a), y = tune_number(t, r, b);
    return x > 0 && y > 0 ? fabs(log2(x / y)) : 1;
}

static void fill_near(struct tune_fit *f, const struct tune *t, double reach)
{
    for (int k = 0; k < t->n_rows; k++)
        for (int a = 0; a < t->row[k].n; a++)
            for (int b = 0; b < t->row[k].n; b++)
                f->near[k][a][b] = exp(-apart(t, &t->row[k], a, b) / reach);
}

// Which resources limit a setting, as a vector of length 1.
static void limits_of(const struct tune_trial *r, double *limit)
{
    double all = 0;
    for (int i = 0; i < TUNE_NEEDS; i++)
        all += r->need[i] * r->need[i];
    for (int i = 0; i < TUNE_NEEDS; i++)
        limit[i] = all > 0 ? r->need[i] / sqrt(all) : 1 / sqrt(TUNE_NEEDS);
}

// Half of the covariance is a sum over the rows, half a product, which is small unless all rows are near. Settings that other
// resources limit have other errors. What is a setting's own is taken to be as large as a trial's noise.
static double covariance(const struct tune_fit *f, const struct tune_point *p, const struct tune_point *q)
{
    double sum = 0, product = 1, alike = 0;
    for (int i = 0; i < TUNE_NEEDS; i++)
        alike += p->limit[i] * q->limit[i];
    for (int k = 0; k < f->n_rows; k++) {
        double near = f->near[k][p->at[k]][q->at[k]];
        sum += near;
        product *= near;
    }
    double own = product == 1 ? f->noise * f->noise : 0;
    return own + alike * alike * f->scale * f->scale * (sum / f->n_rows + sqrt(product)) / 2;
}

// Solves l x = b in place.
static void solve_lower(const struct tune_fit *f, double *x)
{
    for (int i = 0; i < f->n; i++) {
        for (int j = 0; j < i; j++)
            x[i] -= f->l[i][j] * x[j];
        x[i] /= f->l[i][i];
    }
}

// Cholesky's factor of the covariance and the weights of the trials. Returns the log likelihood.
static double factor(struct tune_fit *f)
{
    double likely = 0;
    for (int i = 0; i < f->n; i++)
        for (int j = 0; j <= i; j++) {
            double c = covariance(f, &f->point[i], &f->point[j]) + (i == j ? f->noise * f->noise * f->spread[i] : 0);
            for (int k = 0; k < j; k++)
                c -= f->l[i][k] * f->l[j][k];
            f->l[i][j] = i == j ? sqrt(fmax(c, 1e-12)) : c / f->l[j][j];
        }
    memcpy(f->weight, f->off, sizeof(f->weight));
    solve_lower(f, f->weight);
    for (int i = 0; i < f->n; i++)
        likely -= f->weight[i] * f->weight[i] / 2 + log(f->l[i][i]);
    for (int i = f->n - 1; i >= 0; i--) { // the transposed one
        for (int j = i + 1; j < f->n; j++)
            f->weight[i] -= f->l[j][i] * f->weight[j];
        f->weight[i] /= f->l[i][i];
    }
    return likely;
}

static const struct tune_constants *guess_of(const struct tune *t) { return t->guess ? t->guess : &tune_guess; }

// How unlikely the constants are: by what is known before, and by the trials. A trial that is far off counts less than its square, since
// it may be one that failed half.
static double unlikely(struct tune *const *of, int n, const struct tune_constants *k, tune_scorer score)
{
    const double *guess = (const double *)guess_of(of[0]), *doubt = (const double *)&tune_doubt;
    struct tune_trial model;
    double sum = 0;
    for (int i = 0; i < TUNE_CONSTANTS; i++)
        sum += pow(log(((const double *)k)[i] / guess[i]) / doubt[i], 2);
    for (int w = 0; w < n; w++) {
        of[w]->k = *k;
        for (int i = 0; i < of[w]->n_seen; i++) {
            const struct tune_seen *s = &of[w]->seen[i];
            tune_predict(of[w], s->at, &model);
            double off = s->score > 0 ? log(score(of[w], &model) / s->score) / TYPICAL : 0;
            sum += 4 * log1p(off * off / 4);
        }
    }
    return sum;
}

// Serial work shows only once it is the limit, so the fit starts from the best of several serial parts.
static double start(struct tune *const *of, int n, struct tune_constants *best, tune_scorer score)
{
    static const double ms[] = {0.02, 0.05, 0.1, 0.2}, shares[] = {0.02, 0.15, 0.4, 1};
    double least = INFINITY;
    for (int i = 0; i < 16; i++) {
        struct tune_constants k = *guess_of(of[0]);
        k.gpu_ms = ms[i / 4];
        k.model_turn = shares[i % 4];
        double now = unlikely(of, n, &k, score);
        if (now < least) {
            least = now;
            *best = k;
        }
    }
    return least;
}

void tune_choose(struct tune *const *of, int n, tune_scorer score)
{
    struct tune_constants chosen;
    double *k = (double *)&chosen, least = start(of, n, &chosen, score);
    const double *doubt = (const double *)&tune_doubt;
    for (double step = 1; step > 0.1; step /= 2)
        for (int again = 0, better = 1; better && again < 2; again++) {
            better = 0;
            for (int i = 0; i < 2 * TUNE_CONSTANTS; i++) {
                double old = k[i / 2];
                k[i / 2] *= exp((i % 2 ? -step : step) * doubt[i / 2]);
                double now = unlikely(of, n, &chosen, score);
                if (now < least) {
                    least = now;
                    better = 1;
                } else {
                    k[i / 2] = old;
                }
            }
        }
    for (int w = 0; w < n; w++)
        of[w]->k = chosen;
}

void tune_fit(struct tune_fit *f, struct tune *t, tune_scorer score)
{
    struct tune_trial model;
    tune_choose(&t, 1, score);
    double best = -INFINITY, of[3] = {0.25, 0.02, 2};
    f->n = 0;
    f->n_rows = t->n_rows;
    for (int i = 0; i < t->n_seen; i++) {
        const struct tune_seen *s = &t->seen[i];
        tune_predict(t, s->at, &model);
        if (!(s->score > 0) || !(score(t, &model) > 0))
            continue;
        memcpy(f->point[f->n].at, s->at, sizeof(s->at));
        limits_of(&model, f->point[f->n].limit);
        f->off[f->n] = log(s->score / score(t, &model));
        f->spread[f->n++] = t->seconds / s->seconds;
    }
    bool few = f->n < TUNE_FEW; // then what looks like the kernel is luck
    for (size_t r = 0; r < sizeof(reaches) / sizeof(*reaches) && !few; r++) {
        fill_near(f, t, reaches[r]);
        for (size_t s = 0; s < sizeof(scales) / sizeof(*scales); s++)
            for (size_t k = 0; k < sizeof(noises) / sizeof(*noises); k++) {
                f->scale = scales[s];
                f->noise = noises[k];
                double likely = factor(f);
                if (likely > best) {
                    best = likely;
                    of[0] = scales[s], of[1] = noises[k], of[2] = reaches[r];
                }
            }
    }
    fill_near(f, t, of[2]);
    f->scale = of[0];
    f->noise = of[1];
    factor(f);
}

double tune_off(const struct tune_fit *f, const int *at, const struct tune_trial *model, double *sd)
{
    struct tune_point p;
    memcpy(p.at, at, sizeof(p.at));
    limits_of(model, p.limit);
    double c[TUNE_SEEN], mean = 0, var = covariance(f, &p, &p);
    for (int i = 0; i < f->n; i++) {
        c[i] = covariance(f, &p, &f->point[i]);
        mean += c[i] * f->weight[i];
    }
    solve_lower(f, c);
    for (int i = 0; i < f->n; i++)
        var -= c[i] * c[i];
    *sd = sqrt(fmax(var, 0));
    return mean;
}
