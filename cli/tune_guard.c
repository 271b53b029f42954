#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The guard: how much the results of a setting differ from those of the command as given, on the same frames. docs/tune.md has the
// measures; each is 1 if nothing differs.

struct tune_guard {
    const char *task, *measure;
    const char *ending;   // of the file that holds the results
    const char *words[2]; // that the command needs to write it
    int (*compare)(const struct tune *t, const char *reference, const char *other, double *quality);
};

// ---- Pictures ----

// The mean of a figure of tachy compare-mattes over the frames.
static int compare_pictures(const struct tune *t, const char *reference, const char *other, const char *figure, double *mean)
{
    tachy_comparison *r = NULL;
    char *json = NULL;
    int err = tachy_compare_mattes(&r, tachy_compare_params(.a = other, .b = reference, .stop = tachy_control_stop_flag(t->c->control),
                                                            .log = &t->c->log));
    if (err == TACHY_OK)
        err = tachy_comparison_json(&json, r);
    json_t *o = err == TACHY_OK ? json_loads(json, 0, NULL) : NULL;
    json_t *judged = json_array_get(json_object_get(o, "judged"), 0);
    *mean = json_number_value(json_object_get(json_object_get(judged, figure), "mean"));
    json_decref(o);
    tachy_free(json);
    tachy_comparison_free(&r);
    return err;
}

static int compare_masks(const struct tune *t, const char *reference, const char *other, double *quality)
{
    return compare_pictures(t, reference, other, "iou", quality);
}

static int compare_luma(const struct tune *t, const char *reference, const char *other, double *quality)
{
    double mse = 1;
    int err = compare_pictures(t, reference, other, "mse", &mse);
    *quality = err == TACHY_OK ? 1 - sqrt(mse) : 0;
    return err;
}

// ---- JSON lines ----

static double number_at(const json_t *list, size_t i) { return json_number_value(json_array_get(list, i)); }

// Boxes are [x, y of the middle, width, height].
static double overlap(const json_t *a, const json_t *b, size_t axis)
{
    double from = fmax(number_at(a, axis) - number_at(a, axis + 2) / 2, number_at(b, axis) - number_at(b, axis + 2) / 2);
    double to = fmin(number_at(a, axis) + number_at(a, axis + 2) / 2, number_at(b, axis) + number_at(b, axis + 2) / 2);
    return fmax(to - from, 0);
}

static double box_iou(const json_t *a, const json_t *b)
{
    const json_t *p = json_object_get(a, "box"), *q = json_object_get(b, "box");
    double both = overlap(p, q, 0) * overlap(p, q, 1);
    double all = number_at(p, 2) * number_at(p, 3) + number_at(q, 2) * number_at(q, 3) - both;
    return both > 0 && all > 0 ? both / all : 0;
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
    const json_t *p = json_object_get(a, key), *q = json_object_get(b, key);
    return p == q || json_equal(p, q); // both NULL: neither has it
}

static bool same_label(const json_t *a, const json_t *b) { return same(a, b, "class") && same(a, b, "label"); }

static double box_pair(const json_t *a, const json_t *b) { return same_label(a, b) ? box_iou(a, b) : 0; }

// 1 less the mean distance of the points, relative to the box's size, each weighed by its score in the reference.
static double point_pair(const json_t *a, const json_t *b)
{
    const json_t *p = json_object_get(a, "points"), *q = json_object_get(b, "points"), *box = json_object_get(a, "box");
    double sum = 0, weights = 0, size = sqrt(number_at(box, 2) * number_at(box, 3));
    size_t i;
    const json_t *at;
    if (!json_array_size(p) || json_array_size(p) != json_array_size(q) || !(size > 0))
        return 0;
    json_array_foreach(p, i, at) {
        const json_t *to = json_array_get(q, i);
        double weight = json_array_size(at) > 3 ? number_at(at, 3) : 1;
        sum += weight * hypot(number_at(at, 0) - number_at(to, 0), number_at(at, 1) - number_at(to, 1));
        weights += weight;
    }
    return weights > 0 ? fmax(1 - sum / weights / size, 0) : 0;
}

// Each region of the reference goes with the one that overlaps it most; what is missing or too many counts as 0.
static double frame_of_regions(const json_t *a, const json_t *b, double (*pair)(const json_t *a, const json_t *b))
{
    enum { MOST = 256 };
    bool taken[MOST] = {0};
    double sum = 0;
    size_t i, k, n = json_array_size(a), m = json_array_size(b);
    const json_t *p, *q;
    json_array_foreach(a, i, p) {
        size_t best = MOST;
        json_array_foreach(b, k, q)
            if (k < MOST && !taken[k] && box_iou(p, q) > 0 && (best == MOST || box_iou(p, q) > box_iou(p, json_array_get(b, best))))
                best = k;
        if (best == MOST)
            continue;
        taken[best] = true;
        sum += pair(p, json_array_get(b, best));
    }
    return sum / (double)(n > m ? n : m);
}

static double frame_of_boxes(const json_t *a, const json_t *b) { return frame_of_regions(a, b, box_pair); }
static double frame_of_points(const json_t *a, const json_t *b) { return frame_of_regions(a, b, point_pair); }

// The best label of the whole picture comes first.
static double frame_of_labels(const json_t *a, const json_t *b)
{
    const json_t *p = json_array_get(a, 0), *q = json_array_get(b, 0);
    return p && q && same_label(p, q);
}

// The next line of each file. False: one of them ends; *differ: only one.
static bool next_lines(FILE *f[2], char *line[2], size_t size[2], json_t *o[2], bool *differ)
{
    bool there[2];
    for (int i = 0; i < 2; i++) {
        there[i] = f[i] && getline(&line[i], &size[i], f[i]) > 0;
        o[i] = there[i] ? json_loads(line[i], 0, NULL) : NULL;
    }
    *differ = there[0] != there[1] || (there[0] && !json_equal(json_object_get(o[0], "frame"), json_object_get(o[1], "frame")));
    return there[0] && there[1] && !*differ;
}

// The mean over the frames in which either has a result. Other frames than the reference's are as wrong as can be.
static int compare_lines(const struct tune *t, const char *reference, const char *other, double (*frame)(const json_t *a, const json_t *b),
                         double *quality)
{
    FILE *f[2] = {fopen(reference, "re"), fopen(other, "re")};
    char *line[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    json_t *o[2];
    bool differ = false, more = true;
    double sum = 0;
    long frames = 0, found = 0;
    while (more) {
        more = next_lines(f, line, size, o, &differ);
        const json_t *a = json_object_get(o[0], "regions"), *b = json_object_get(o[1], "regions");
        if (more && (json_array_size(a) || json_array_size(b))) {
            sum += frame(a, b);
            found += json_array_size(a) > 0;
            frames++;
        }
        json_decref(o[0]);
        json_decref(o[1]);
    }
    *quality = differ || !frames ? 0 : sum / (double)frames;
    if (!found)
        message_note(&t->c->log, "the command as given finds nothing in these frames, so no setting that may change results is taken");
    for (int i = 0; i < 2; i++) {
        free(line[i]);
        if (f[i])
            fclose(f[i]);
    }
    return TACHY_OK;
}

static int compare_boxes(const struct tune *t, const char *reference, const char *other, double *quality)
{
    return compare_lines(t, reference, other, frame_of_boxes, quality);
}

static int compare_points(const struct tune *t, const char *reference, const char *other, double *quality)
{
    return compare_lines(t, reference, other, frame_of_points, quality);
}

static int compare_labels(const struct tune *t, const char *reference, const char *other, double *quality)
{
    return compare_lines(t, reference, other, frame_of_labels, quality);
}

// ----

#define LINES "jsonl", {NULL}
#define PICTURES "mkv", {"--output.codec=ffv1"}
static const struct tune_guard guards[] = {
    {"segment", "mean IoU", "mkv", {"--output.codec=ffv1", "--segment.mode=alpha"}, compare_masks},
    {"animate", "1 - RMS error", PICTURES, compare_luma},
    {"inpaint", "1 - RMS error", PICTURES, compare_luma},
    {"detect", "box IoU", LINES, compare_boxes},
    {"faces", "box IoU", LINES, compare_boxes},
    {"track", "1 - landmark error", LINES, compare_points},
    {"pose", "1 - landmark error", LINES, compare_points},
    {"classify", "label agreement", LINES, compare_labels},
    {"categorize", "label agreement", LINES, compare_labels},
};

const struct tune_guard *tune_guard_of(const char *task)
{
    for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
        if (!strcmp(guards[i].task, task))
            return &guards[i];
    return NULL;
}

const char *tune_measure(const struct tune_guard *g) { return g->measure; }

int tune_judge(struct tune *t, const int *at, double *quality)
{
    static const int none[TUNE_ROWS] = {0};
    const struct tune_guard *g = t->guard;
    char reference[128], other[128], line[96];
    int status = 0, err = TACHY_OK;
    *quality = 0;
    snprintf(reference, sizeof(reference), "%s/reference.%s", t->folder, g->ending);
    snprintf(other, sizeof(other), "%s/other.%s", t->folder, g->ending);
    if (!t->reference) {
        err = tune_write(t, none, g->words, reference, &status);
        t->reference = err == TACHY_OK && status == 0;
        if (err == TACHY_OK && status && !tune_stopped(t)) {
            tune_last_line(t, line, sizeof(line));
            message_error("the results of the command as given cannot be written, so settings cannot be judged: %s", line);
            return TACHY_ERR_UNAVAILABLE;
        }
    }
    if (err == TACHY_OK && !tune_stopped(t))
        err = tune_write(t, at, g->words, other, &status);
    if (err == TACHY_OK && status == 0 && !tune_stopped(t))
        err = g->compare(t, reference, other, quality);
    if (err == TACHY_ERR_MISMATCH) // other frames than the command's: as wrong as can be
        *quality = 0;
    return err == TACHY_ERR_INTERRUPTED || err == TACHY_ERR_MISMATCH ? TACHY_OK : err;
}
