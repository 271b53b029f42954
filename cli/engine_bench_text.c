#include "engine_bench.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A multiply-add is two operations.
static double gflops(const struct bench_row *r)
{
    return r->work > 0 ? 2 * r->work / r->median / 1e6 : NAN;
}

static double share(const struct bench *b, const struct bench_row *r)
{
    return r->work > 0 && b->peak > 0 && !b->cuda ? r->work / (r->median / 1e3) / (b->peak * r->threads) : NAN;
}

// The least time of the layers, each bound by arithmetic or by memory, as a share of the time measured.
static double roof(const struct bench *b, const struct bench_row *r)
{
    return b->cuda ? NAN : r->least_s / r->threads / (r->median / 1e3);
}

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *row_json(const struct bench *b, const struct bench_row *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s}", "model", b->path, "provider", r->provider, "version",
                          r->version, "batch", r->batch, "threads", r->threads, "device", b->cuda ? "cuda" : "cpu");
    json_object_set_new(o, "precision", r->precision ? json_string(r->precision) : json_null());
    json_object_set_new(o, "median_ms", number(r->median));
    json_object_set_new(o, "min_ms", number(r->least));
    json_object_set_new(o, "spread", number(r->spread));
    json_object_set_new(o, "images_per_s", number(r->batch / r->median * 1e3));
    json_object_set_new(o, "multiply_adds", number(r->work > 0 ? r->work : NAN));
    json_object_set_new(o, "moved_bytes", number(r->moved));
    json_object_set_new(o, "bytes_per_s", number(r->bandwidth));
    json_object_set_new(o, "gflops", number(gflops(r)));
    json_object_set_new(o, "share_of_peak", number(share(b, r)));
    json_object_set_new(o, "share_of_roofline", number(roof(b, r)));
    json_object_set_new(o, "memory_mib", number(r->memory));
    json_object_set_new(o, "error_l2", number(r->error));
    json_object_set_new(o, "error_abs", number(r->error_abs));
    json_object_set_new(o, "error_noise", number(r->noise));
    json_object_set_new(o, "error_frames", number(r->frames));
    json_object_set_new(o, "why", *r->why ? json_string(r->why) : json_null());
    return o;
}

static int write_json(const struct cli *c, const struct bench *all, int n)
{
    json_t *rows = json_array();
    for (int i = 0; i < n; i++)
        for (int k = 0; k < all[i].nb_rows; k++)
            json_array_append_new(rows, row_json(&all[i], &all[i].rows[k]));
    json_t *o = json_pack("{s:s, s:i, s:o, s:i, s:i, s:o, s:o}", "kind", "engine bench", "version", 1, "environment", environment_json(), "rounds", all->rounds, "burst_ms", BENCH_BURST_MS,
                          "peak_multiply_adds_per_s", number(all->peak > 0 ? all->peak : NAN), "rows", rows);
    return cli_write_json(c, o);
}

// In `width` columns; what is not known is "-".
static void cell(double v, int width, const char *format)
{
    char text[32];
    snprintf(text, sizeof(text), isfinite(v) ? format : "-", v);
    printf(" %*s", width, text);
}

static void print_row(const struct bench *b, const struct bench_row *r)
{
    printf("%-10s %-9s %5d %7d", r->provider, r->precision ? r->precision : "fp32", r->batch, r->threads);
    cell(r->median, 9, "%.3f");
    cell(r->least, 9, "%.3f");
    cell(r->spread * 100, 6, "%.0f%%");
    cell(r->batch / r->median * 1e3, 9, "%.1f");
    cell(b->cuda ? gflops(r) / 1e3 : gflops(r), 8, "%.1f");
    cell(share(b, r) * 100, 5, "%.0f%%");
    cell(roof(b, r) * 100, 5, "%.0f%%");
    cell(r->memory, 8, "%.1f");
    cell(r->error, 8, "%.1e");
    if (b->cuda) {
        cell(r->noise, 8, "%.1e");
        cell(r->frames, 8, "%.1e");
    }
    printf("\n");
}

static void print_notes(const struct bench *b)
{
    for (int k = 0; k < b->nb_rows; k++) {
        const struct bench_row *r = &b->rows[k];
        if (*r->why)
            printf("  %s%s%s, batch %d, threads %d: %s\n", r->provider, r->precision ? ", " : "", r->precision ? r->precision : "",
                   r->batch, r->threads, r->why);
    }
}

int bench_print(const struct cli *c, const struct bench *all, int n)
{
    const char *file = tachy_settings_str(c->settings, "run.json");
    int err = file ? write_json(c, all, n) : TACHY_OK;
    if (err < 0 || (file && !strcmp(file, "-")) || c->log.max_level < TACHY_LOG_INFO)
        return err;
    printf("%d rounds of %d ms", all->rounds, BENCH_BURST_MS);
    if (all->peak > 0)
        printf("; one core reaches %.1f GFLOP/s in registers", 2 * all->peak / 1e9);
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("%s\n%-10s %-9s %5s %7s %9s %9s %6s %9s %8s %5s %5s %8s %8s%s\n", all[i].path, "PROVIDER", "PRECISION", "BATCH",
               "THREADS", "MEDIAN ms", "MIN ms", "SPREAD", "IMAGES/s", all[i].cuda ? "TFLOP/s" : "GFLOP/s", "PEAK", "ROOF", "MEM MiB",
               "ERROR", all[i].cuda ? "    NOISE   FRAMES" : "");
        for (int k = 0; k < all[i].nb_rows; k++)
            print_row(&all[i], &all[i].rows[k]);
        print_notes(&all[i]);
    }
    return TACHY_OK;
}
