#include "search/vectors.h"
#include "base/path.h"
#include "base/options.h"
#include "base/settings_priv.h"
#include "engine/engine_options.h"
#include "source/source_options.h"
#include "stage/text_vectors.h"
#include "task/task.h"

#include <jansson.h>
#include <stdlib.h>
#include <tachy/pipeline.h>
#include <tachy/search.h>
#include <tachy/source.h>

// Texts and pictures become vectors as they do in the task categorize, and are compared with those of a file.

struct searching {
    tachy_settings *set;
    const struct tachy_log *log;
    const char *file;
    struct tachy_vectors vectors;
    const char *const *texts, *const *pictures;
    int nb_texts, nb_queries, nb_hits;
    float *queries; // texts, then pictures
    struct tachy_hit *hits;
    int *counts;
};

static const char *name_of(const struct searching *s, int q) { return q < s->nb_texts ? s->texts[q] : s->pictures[q - s->nb_texts]; }

// ---- Queries

static int read_texts(struct searching *s)
{
    struct tachy_engine_setup setup = {0};
    tachy_model *model = NULL;
    int err = tachy_engine_setup_read(&setup, s->set);
    if (err == TACHY_OK)
        err = tachy_model_open(&model, &(struct tachy_model_params){.name = tachy_settings_str(s->set, "model.name"),
                                                                    .card = tachy_settings_str(s->set, "model.card"),
                                                                    .dir = tachy_settings_str(s->set, "model.dir"),
                                                                    .no_verify = true, .log = s->log});
    const struct tachy_text_network net = {model, &setup, s->log};
    if (err == TACHY_OK)
        err = tachy_text_vectors(&net, s->texts, s->nb_texts, s->vectors.rows.size, s->queries);
    tachy_model_close(&model);
    tachy_engine_setup_free(&setup);
    return err;
}

static int take_vector(const struct searching *s, const struct tachy_result *r, const char *picture, float *to)
{
    if (!r->nb_regions || r->regions[0].nb_embedding != s->vectors.rows.size)
        return tachy_fail(s->log, TACHY_ERR_MISMATCH, "%s: has vectors of %d numbers, the network makes %d of %s; name the network that "
                          "made the file with --model", s->file, s->vectors.rows.size, r->nb_regions ? r->regions[0].nb_embedding : 0, picture);
    memcpy(to, r->regions[0].embedding, sizeof(*to) * (size_t)s->vectors.rows.size);
    return TACHY_OK;
}

static int read_picture(struct searching *s, const char *picture, float *to)
{
    const struct tachy_result *result;
    tachy_source *source = NULL;
    tachy_frame *frame = NULL;
    tachy_task *task = NULL;
    tachy_pipeline *pipeline = NULL;
    struct tachy_source_params p = {.url = picture, .log = s->log};
    int err = tachy_source_open(&source, &p);
    if (err == TACHY_OK && (err = tachy_source_read(source, &frame)) == TACHY_ERR_EOF)
        err = tachy_fail(s->log, TACHY_ERR_FORMAT, "%s: has no picture", picture);
    if (err == TACHY_OK)
        err = tachy_task_make(&task, "categorize", TACHY_TASK_RUNS, s->set, s->log);
    if (err == TACHY_OK)
        err = tachy_pipeline_open(&pipeline, tachy_pipeline_params(.task = task, .input = *tachy_source_info(source), .workers = 1, .log = s->log));
    if (err == TACHY_OK)
        err = tachy_pipeline_push(pipeline, frame);
    if (err == TACHY_OK)
        err = tachy_pipeline_push(pipeline, NULL);
    if (err == TACHY_OK)
        err = tachy_pipeline_pull(pipeline, NULL, &result);
    if (err == TACHY_OK)
        err = take_vector(s, result, picture, to);
    tachy_pipeline_close(&pipeline);
    tachy_task_close(&task);
    tachy_frame_unref(&frame);
    tachy_source_close(&source);
    return err;
}

static int read_queries(struct searching *s)
{
    size_t size = (size_t)s->vectors.rows.size;
    int err = s->nb_texts ? read_texts(s) : TACHY_OK;
    for (int q = s->nb_texts; q < s->nb_queries && err == TACHY_OK; q++)
        err = read_picture(s, name_of(s, q), s->queries + (size_t)q * size);
    return err;
}

// ---- Which frames the rows are of

struct wanted {
    int64_t row;
    json_t *hit;
};

static int by_row(const void *a, const void *b)
{
    int64_t x = ((const struct wanted *)a)->row, y = ((const struct wanted *)b)->row;
    return x < y ? -1 : x > y;
}

// Adds the lines of the index to the hits; `w` is in the order of rows.
static int add_lines(const struct searching *s, struct wanted *w, size_t n)
{
    char *path = tachy_asprintf("%.*s.jsonl", (int)(strlen(s->file) - strlen(".npy")), s->file), *line = NULL;
    size_t room = 0, at = 0;
    uint64_t size;
    FILE *f = NULL;
    int err = path ? tachy_open_regular(&f, path, &size, s->log) : TACHY_ERR_NOMEM;
    for (int64_t row = 0; err == TACHY_OK && at < n; row++) {
        json_t *o;
        if (getline(&line, &room, f) < 0)
            err = tachy_fail(s->log, TACHY_ERR_FORMAT, "%s: ends before row %lld of %s; make both files again", path, (long long)row, s->file);
        for (; err == TACHY_OK && at < n && w[at].row == row; at++)
            if (!(o = json_loads(line, 0, NULL)) || json_object_update(w[at].hit, o))
                err = tachy_fail(s->log, TACHY_ERR_FORMAT, "%s:%lld: is no JSON object; make both files again", path, (long long)row + 1);
            else
                json_decref(o);
    }
    if (f)
        fclose(f);
    free(line);
    free(path);
    return err;
}

static int tell(const struct searching *s, char **json)
{
    json_t *all = json_array();
    struct wanted *w = calloc((size_t)s->nb_queries * (size_t)s->nb_hits, sizeof(*w));
    size_t n = 0;
    for (int q = 0; q < s->nb_queries && w; q++) {
        json_t *hits = json_array();
        for (int i = 0; i < s->counts[q]; i++) {
            const struct tachy_hit *h = &s->hits[(size_t)q * (size_t)s->nb_hits + (size_t)i];
            json_t *o = json_pack("{s:f, s:I}", "score", (double)h->score, "row", (json_int_t)h->row);
            json_array_append_new(hits, o);
            w[n++] = (struct wanted){h->row, o};
        }
        json_array_append_new(all, json_pack("{s:s, s:o}", "query", name_of(s, q), "hits", hits));
    }
    if (w)
        qsort(w, n, sizeof(*w), by_row);
    int err = w && all ? add_lines(s, w, n) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !(*json = json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(7))))
        err = TACHY_ERR_NOMEM;
    json_decref(all);
    free(w);
    return err;
}

// ---- All

// The settings of a picture's vector.
static int choose(struct searching *s, const tachy_settings *settings)
{
    static const char *const off[] = {"categorize.embeddings", "categorize.classes", "categorize.search", "categorize.like"};
    int err = tachy_settings_copy(&s->set, settings, s->log);
    if (err == TACHY_OK)
        err = tachy_settings_for(s->set, "categorize");
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(off) && err == TACHY_OK; i++)
        err = tachy_settings_reset(s->set, (size_t)tachy_option_index(tachy_settings_options(s->set), off[i]));
    if (err == TACHY_OK)
        err = tachy_settings_set(s->set, "gpu.device", "cpu", "search");
    if (err == TACHY_OK)
        err = tachy_settings_set(s->set, "output.format", "json", "search");
    return err == TACHY_OK ? tachy_settings_set(s->set, "categorize.vectors", "yes", "search") : err;
}

static int run(struct searching *s, char **json)
{
    int err = tachy_vectors_open(&s->vectors, s->file, s->log);
    if (err < 0)
        return err;
    size_t n = (size_t)s->nb_queries;
    s->queries = calloc(n * (size_t)s->vectors.rows.size, sizeof(*s->queries));
    s->hits = calloc(n * (size_t)s->nb_hits, sizeof(*s->hits));
    s->counts = calloc(n, sizeof(*s->counts));
    err = s->queries && s->hits && s->counts ? read_queries(s) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_rows_search(&s->vectors.rows, s->queries, s->nb_queries, s->nb_hits, 0, s->hits, s->counts);
    return err == TACHY_OK ? tell(s, json) : err;
}

int tachy_search(char **json, const tachy_settings *settings, const struct tachy_log *log)
{
    struct searching s = {.log = log};
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(log, json && settings))
        return TACHY_ERR_INVAL;
    s.file = tachy_settings_str(settings, "categorize.embeddings");
    s.nb_texts = (int)tachy_settings_list(settings, "categorize.search", &s.texts);
    s.nb_queries = s.nb_texts + (int)tachy_settings_list(settings, "categorize.like", &s.pictures);
    s.nb_hits = (int)tachy_settings_int(settings, "categorize.hits");
    if (!s.file || !tachy_path_ends(s.file, ".npy"))
        return tachy_fail(log, TACHY_ERR_INVAL, "--search and --like look through --embeddings FILE.npy; name it");
    if (!s.nb_queries)
        return tachy_fail(log, TACHY_ERR_INVAL, "nothing is looked for: give --search TEXT or --like PICTURE");
    int err = choose(&s, settings);
    if (err == TACHY_OK)
        err = tachy_task_check(tachy_tasks[TACHY_MAX(tachy_task_find("categorize", log), 0)], s.set, log);
    if (err == TACHY_OK)
        err = run(&s, json);
    tachy_vectors_close(&s.vectors);
    tachy_settings_free(&s.set);
    free(s.queries);
    free(s.hits);
    free(s.counts);
    return err;
}
