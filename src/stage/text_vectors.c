#include "stage/text_vectors.h"

#include "base/cpu.h"
#include "base/mix.h"
#include "base/npy.h"
#include "base/store.h"
#include "model/zoo.h"
#include "text/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

struct encoder {
    const struct tachy_text_network *net;
    const struct tachy_card_text *card;
    const struct tachy_log *log;
    struct tachy_log errors; // of `log`, for the engine
    char *network, *merges; // paths
    tachy_vocabulary *vocabulary;
    tachy_engine *engine;
    struct tachy_tensor input[TACHY_MAX_IO], output[TACHY_MAX_IO];
    int nb_in, nb_out, tokens, mask, vector; // indices; mask: -1: none
};

// ---- What was computed before

// Adds a file's identity to the key.
static void mix_file(uint64_t key[2], const char *path)
{
    struct stat st = {0};
    stat(path, &st);
    const int64_t about[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
    tachy_mix_wide(key, path, strlen(path) + 1);
    tachy_mix_wide(key, about, sizeof(about));
}

// Free with tachy_free(); NULL: there is no cache.
static char *cache_file(const struct encoder *e, const char *const texts[], int n, int size)
{
    uint64_t key[2] = {1, (uint64_t)size};
    char name[TACHY_STORE_KEY + 1];
    const int32_t numbers[] = {e->card->tokens, e->card->pad};
    mix_file(key, e->network);
    mix_file(key, e->merges);
    tachy_mix_wide(key, numbers, sizeof(numbers));
    for (int i = 0; i < n; i++)
        tachy_mix_wide(key, texts[i], strlen(texts[i]) + 1);
    tachy_store_key(key, name);
    char *cache = tachy_cache_dir(), *folder = cache ? tachy_asprintf("%s/texts", cache) : NULL;
    bool there = folder && tachy_make_folders(folder, NULL) == TACHY_OK;
    char *path = there ? tachy_asprintf("%s/%s.npy", folder, name) : NULL;
    tachy_free(cache);
    tachy_free(folder);
    return path;
}

static bool load(const char *path, int n, int size, float *to)
{
    struct tachy_npy a = {0};
    bool good = path && tachy_npy_read(&a, path, NULL) == TACHY_OK && a.kind == 'f' && a.size == 4 && a.rank == 2 &&
                a.shape[0] == n && a.shape[1] == size;
    if (good)
        memcpy(to, a.data, a.bytes);
    tachy_npy_free(&a);
    return good;
}

static void save(const char *path, int n, int size, float *from)
{
    const struct tachy_npy a = {.kind = 'f', .size = 4, .rank = 2, .shape = {n, size}, .data = from,
                                .bytes = (size_t)n * (size_t)size * sizeof(*from)};
    if (path) // a cache that cannot be written costs time only
        tachy_npy_write(path, &a, NULL);
}

// ---- The network

static int mismatch(const struct encoder *e, const char *what)
{
    return tachy_fail(e->log, TACHY_ERR_MISMATCH, "%s: %s; `tachy model info %s` lists what the network has, `text` of its card (model "
                      "%s) says what is used", e->network, what, e->network, tachy_model_card(e->net->model)->name);
}

// The index of a name, or of the only one. TACHY_ERR_MISMATCH.
static int find(const struct encoder *e, const struct tachy_io *io, int n, const char *name, const char *kind)
{
    char what[200];
    for (int i = 0; i < n; i++)
        if (*name ? !strcmp(io[i].name, name) : n == 1)
            return i;
    snprintf(what, sizeof(what), *name ? "has no %s named %.80s" : "has several %ss, of which the card must name one%.0s", kind, name);
    return mismatch(e, what);
}

static int allocate(struct tachy_tensor to[], const struct tachy_io *io, int n)
{
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        to[i] = io[i].spec;
        err = tachy_tensor_alloc(&to[i]);
    }
    return err;
}

static int describe(struct encoder *e, int size)
{
    const struct tachy_io *in, *out;
    char what[160];
    e->nb_in = tachy_engine_inputs(e->engine, &in);
    e->nb_out = tachy_engine_outputs(e->engine, &out);
    e->tokens = find(e, in, e->nb_in, e->card->input, "input");
    e->mask = *e->card->mask && e->tokens >= 0 ? find(e, in, e->nb_in, e->card->mask, "input") : -1;
    e->vector = e->tokens >= 0 ? find(e, out, e->nb_out, e->card->output, "output") : -1;
    if (e->tokens < 0 || e->vector < 0 || (*e->card->mask && e->mask < 0))
        return TACHY_ERR_MISMATCH;
    if (e->nb_in > 1 + (e->mask >= 0))
        return mismatch(e, "has inputs that the card does not name");
    for (int i = 0; i < e->nb_in; i++)
        if ((in[i].spec.dtype != TACHY_I64 && in[i].spec.dtype != TACHY_I32) || tachy_tensor_elements(&in[i].spec) != e->card->tokens) {
            snprintf(what, sizeof(what), "its input %.60s must hold %d whole numbers", in[i].name, e->card->tokens);
            return mismatch(e, what);
        }
    if (out[e->vector].spec.dtype != TACHY_F32 || tachy_tensor_elements(&out[e->vector].spec) != size) {
        snprintf(what, sizeof(what), "its output %.60s must hold %d float32 numbers, as a picture's vector does", out[e->vector].name, size);
        return mismatch(e, what);
    }
    int err = allocate(e->input, in, e->nb_in);
    return err < 0 ? err : allocate(e->output, out, e->nb_out);
}

static int open_engine(struct encoder *e)
{
    const struct tachy_tensor spec = {.rank = 2, .shape = {1, e->card->tokens}};
    const struct tachy_io shapes[] = {{*e->card->input ? e->card->input : NULL, spec}, {e->card->mask, spec}};
    struct tachy_engine_params p = tachy_engine_setup_params(e->net->setup);
    e->errors = e->log ? *e->log : (struct tachy_log){0};
    e->errors.max_level = TACHY_LOG_ERR;
    p.provider = NULL; // what serves pictures may need a device, or one network's options
    p.provider_options = NULL;
    p.device = "cpu";
    p.precision = NULL;
    p.strict = false;
    p.model_path = e->network;
    p.threads = tachy_cpu_count();
    p.shapes = shapes;
    p.nb_shapes = 1 + (*e->card->mask != '\0');
    p.settle = true;
    p.log = &e->errors;
    return tachy_engine_open(&e->engine, &p);
}

static int open(struct encoder *e, int size)
{
    int err = tachy_vocabulary_read(&e->vocabulary, e->merges, e->log);
    if (err == TACHY_OK)
        err = open_engine(e);
    return err == TACHY_OK ? describe(e, size) : err;
}

static void close(struct encoder *e)
{
    for (int i = 0; i < e->nb_in; i++)
        tachy_tensor_free(&e->input[i]);
    for (int i = 0; i < e->nb_out; i++)
        tachy_tensor_free(&e->output[i]);
    tachy_engine_close(&e->engine);
    tachy_vocabulary_close(&e->vocabulary);
    free(e->network);
    free(e->merges);
}

static void fill(struct tachy_tensor *t, const int32_t *from, int n)
{
    for (int i = 0; i < n; i++)
        if (t->dtype == TACHY_I64)
            ((int64_t *)t->data)[i] = from[i];
        else
            ((int32_t *)t->data)[i] = from[i];
}

static int encode(struct encoder *e, const char *text, int32_t *tokens, int size, float *to)
{
    int room = e->card->tokens, n = tachy_tokenize(e->vocabulary, text, tokens, room);
    if (n == TACHY_ERR_INVAL)
        return tachy_fail(e->log, n, "\"%.40s...\": is longer than %d bytes", text, TACHY_TEXT_LONGEST);
    if (n < 0)
        return n;
    for (int i = n; i < room; i++)
        tokens[i] = e->card->pad;
    fill(&e->input[e->tokens], tokens, room);
    for (int i = 0; i < room; i++)
        tokens[i] = i < n;
    if (e->mask >= 0)
        fill(&e->input[e->mask], tokens, room);
    int err = tachy_engine_run(e->engine, e->input, e->output);
    const float *v = e->output[e->vector].data;
    double sum = 0;
    for (int i = 0; i < size && err == TACHY_OK; i++)
        sum += (double)v[i] * (double)v[i];
    for (int i = 0; i < size && err == TACHY_OK; i++)
        to[i] = sum > 0 ? (float)((double)v[i] / sqrt(sum)) : 0;
    return err;
}

static int encode_all(struct encoder *e, const char *const texts[], int n, int size, float *to)
{
    int32_t *tokens = calloc((size_t)e->card->tokens, sizeof(*tokens));
    int err = tokens ? open(e, size) : TACHY_ERR_NOMEM;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = encode(e, texts[i], tokens, size, to + (size_t)i * (size_t)size);
    free(tokens);
    return err;
}

// Hashing a large network takes as long as some texts, so it is verified before it runs, not for what the cache has.
static int find_files(struct encoder *e, bool digest)
{
    free(e->network);
    free(e->merges);
    e->merges = NULL;
    int err = tachy_model_part(e->net->model, CARD_TEXT, digest, &e->network, e->log);
    return err < 0 ? err : tachy_model_part(e->net->model, CARD_VOCABULARY, digest, &e->merges, e->log);
}

int tachy_text_vectors(const struct tachy_text_network *net, const char *const texts[], int n, int size, float *to)
{
    struct encoder e = {.net = net, .card = &tachy_model_card(net->model)->text, .log = net->log};
    if (net->setup->provider && !strcmp(net->setup->provider, "null")) {
        memset(to, 0, (size_t)n * (size_t)size * sizeof(*to));
        return TACHY_OK;
    }
    int err = find_files(&e, false);
    char *cache = err == TACHY_OK ? cache_file(&e, texts, n, size) : NULL;
    if (err == TACHY_OK && !load(cache, n, size, to)) {
        err = find_files(&e, true);
        if (err == TACHY_OK)
            err = encode_all(&e, texts, n, size, to);
        if (err == TACHY_OK)
            save(cache, n, size, to);
    }
    tachy_free(cache);
    close(&e);
    return err;
}
