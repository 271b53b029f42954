#include "base/path.h"
#include "model/digest.h"
#include "model/zoo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct tachy_model {
    struct card_doc *doc;
    char *path;
    char *dir;  // model folder
    bool owned; // the file is the zoo's: it may be downloaded again
};

bool tachy_model_is_path(const char *name)
{
    size_t n = name ? strlen(name) : 0;
    return n && (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".onnx")));
}

// Path of the file of a card that was given by path: beside the card, else in the folder.
static char *beside_card(const struct card_doc *d, const char *dir)
{
    char *path = tachy_asprintf("%s/%s", d->folder, d->card.file);
    if ((path && access(path, F_OK) == 0) || !dir)
        return path;
    free(path);
    return tachy_asprintf("%s/%s", dir, d->card.file);
}

// Without a card, a model file's card is expected beside it: face.json for face.onnx.
static int card_of_file(struct card_doc **doc, const char *file, const struct tachy_log *log)
{
    const char *dot = strrchr(file, '.');
    char *card = tachy_asprintf("%.*s.json", (int)(dot && !strchr(dot, '/') ? (size_t)(dot - file) : strlen(file)), file);
    int err = card ? TACHY_OK : TACHY_ERR_NOMEM;
    if (access(file, F_OK) != 0)
        err = tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s: there is no such file; `tachy model list` shows the models with a name",
                         file);
    else if (card && access(card, R_OK) != 0)
        err = tachy_fail(log, TACHY_ERR_INVAL, "%s: a model file needs its card, beside it as %s or with --card FILE; "
                         "`tachy model card %s > %s` begins one", file, card, file, card);
    if (err == TACHY_OK)
        err = card_read(doc, card, log);
    free(card);
    return err;
}

// Files of other programs, which a card would not help.
static bool is_other_format(const char *name)
{
    static const char *const ends[] = {".pt", ".pth", ".ckpt", ".safetensors", ".h5", ".keras", ".pb", ".engine", ".mlmodel"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(ends); i++)
        if (name && tachy_path_ends(name, ends[i]))
            return true;
    return false;
}

static int locate(tachy_model *m, const struct tachy_model_params *p)
{
    const char *name = p->name;
    if (!name && !p->card)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "no model was named: give one with --model NAME or FILE (tachy model list)");
    if (is_other_format(name))
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED, "model %s: tachy runs ONNX; export it first, from PyTorch with "
                          "torch.onnx.export()", name);
    m->dir = zoo_dir(p->dir);
    if (name && !strcmp(name, TACHY_MODEL_AUTO))
        name = p->card ? NULL : zoo_best("segment", m->dir);
    bool path = tachy_model_is_path(name);
    int err = p->card ? card_read(&m->doc, p->card, p->log)
              : path  ? card_of_file(&m->doc, name, p->log)
                      : zoo_find(&m->doc, name, m->dir, p->log);
    if (err < 0)
        return err;
    if (!path && name && strcmp(name, m->doc->card.name) != 0)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "%s: is the card of `%s`, not of `%s`", p->card,
                          m->doc->card.name, name);
    if (path)
        m->path = tachy_asprintf("%s", name);
    else if (p->card)
        m->path = beside_card(m->doc, m->dir);
    else if (m->dir)
        m->path = tachy_asprintf("%s/%s", m->dir, m->doc->card.file);
    else
        return tachy_fail(p->log, TACHY_ERR_NOT_FOUND,
                          "model %s: no folder for models: set HOME or TACHY_MODELS", name);
    m->owned = !path;
    return m->path ? TACHY_OK : TACHY_ERR_NOMEM;
}

// A file against the card's size and digest.
static int verify(const tachy_model *m, enum card_file_kind kind, const char *path, bool digest, const struct tachy_log *log)
{
    const struct card_file *f = &m->doc->file[kind];
    const char *name = m->doc->card.name;
    struct stat st;
    if (stat(path, &st) < 0)
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: cannot be opened: %s", path, strerror(errno));
    if (f->bytes && st.st_size != f->bytes)
        return tachy_fail(log, TACHY_ERR_DIGEST,
                          "%s: has %lld bytes, its card says %lld: it is not the model of %s; "
                          "`tachy model pull %s` gets it again",
                          path, (long long)st.st_size, (long long)f->bytes, m->doc->origin, name);
    if (!digest || !*f->sha256)
        return TACHY_OK;
    char hex[65];
    int err = tachy_sha256_file(path, hex, log);
    if (err || !strcmp(hex, f->sha256))
        return err;
    return tachy_fail(log, TACHY_ERR_DIGEST,
                      "%s: SHA-256 is %s, its card says %s: it is not the model of %s; `tachy model "
                      "pull %s` gets it again",
                      path, hex, f->sha256, m->doc->origin, name);
}

// True if the licence (SPDX) requires no more than attribution. If a card names no licence, its author is responsible.
static bool permissive(const char *licence)
{
    static const char *const known[] = {"",           "0BSD",    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0",
                                        "CC-BY-4.0",  "CC0-1.0", "ISC",        "MIT",          "MIT-0",        "PSF-2.0",
                                        "Python-2.0", "Unlicense", "Zlib"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++)
        if (!strcmp(licence, known[i]))
            return true;
    return false;
}

static int missing(const tachy_model *m, enum card_file_kind kind, const char *path, const struct tachy_log *log)
{
    const char *name = m->doc->card.name;
    if (!m->owned)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s: there is no such file", path);
    if (!m->doc->file[kind].n_sources)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND, "model %s: %s is missing and its card (%s) names no source", name, path,
                          m->doc->origin);
    return tachy_fail(log, TACHY_ERR_NOT_FOUND, "model %s: %s is missing; `tachy model pull %s` gets it", name, path, name);
}

static int get(tachy_model *m, enum card_file_kind kind, const char *path, const struct tachy_model_params *p)
{
    const char *name = m->doc->card.name;
    bool there = access(path, F_OK) == 0;
    bool may_fetch = p->fetch && m->owned && m->doc->file[kind].n_sources;
    if (there) {
        // A file of an earlier version is replaced, not complained about.
        int err = verify(m, kind, path, !p->no_verify, may_fetch ? NULL : p->log);
        if (err != TACHY_ERR_DIGEST || !may_fetch)
            return err;
    } else if (!may_fetch) {
        return missing(m, kind, path, p->log);
    }
    if (!p->accept_licence && !permissive(m->doc->card.license))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "model %s: its licence is %s, which is not a permissive one; read it, and to accept it use "
                          "`tachy model pull %s --accept-licence`", name, m->doc->card.license, name);
    return zoo_fetch(m->doc, kind, m->dir, path, p->log);
}

// Beside the model's file, else in the folder.
static char *path_of(const tachy_model *m, enum card_file_kind kind)
{
    const char *slash = strrchr(m->path, '/'), *name = m->doc->file[kind].name;
    char *path = tachy_asprintf("%.*s%s", slash ? (int)(slash + 1 - m->path) : 0, m->path, name);
    if ((path && access(path, F_OK) == 0) || !m->dir)
        return path;
    free(path);
    return tachy_asprintf("%s/%s", m->dir, name);
}

// The card's key for a file, and what is not possible without it.
struct part_words {
    const char *key, *without;
};

static struct part_words words_of(const struct tachy_card *c, enum card_file_kind kind)
{
    if (kind == CARD_PROMPTS && *c->memory.decoder)
        return (struct part_words){"prompts", "it makes masks only of things that it follows: --propagate"};
    if (kind == CARD_PROMPTS)
        return (struct part_words){"prompts", "nothing makes masks"};
    if (kind >= CARD_MEMORY_ATTENTION)
        return (struct part_words){"memory", "it follows nothing through a video: leave out --propagate, or name another model"};
    return (struct part_words){"text", "texts cannot be compared with pictures"};
}

char *tachy_model_file(const tachy_model *m, enum card_file_kind kind)
{
    return *m->doc->file[kind].name ? path_of(m, kind) : NULL;
}

int tachy_model_part(const tachy_model *m, enum card_file_kind kind, bool digest, char **path, const struct tachy_log *log)
{
    const struct part_words words = words_of(&m->doc->card, kind);
    *path = NULL;
    if (!*m->doc->file[kind].name)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND, "model %s: its card (%s) has no `%s`, so %s", m->doc->card.name, m->doc->origin,
                          words.key, words.without);
    *path = path_of(m, kind);
    if (!*path)
        return TACHY_ERR_NOMEM;
    return access(*path, F_OK) == 0 ? verify(m, kind, *path, digest, log) : missing(m, kind, *path, log);
}

// Downloads the other files that belong to the model.
static int get_parts(tachy_model *m, const struct tachy_model_params *p)
{
    int err = TACHY_OK;
    for (int k = CARD_MODEL + 1; k < CARD_FILES && err == TACHY_OK && p->fetch; k++) {
        char *path = tachy_model_file(m, (enum card_file_kind)k);
        if (path)
            err = get(m, (enum card_file_kind)k, path, p);
        free(path);
    }
    return err;
}

int tachy_model_open_sized(size_t p_size, tachy_model **out, const struct tachy_model_params *p)
{
    struct tachy_model_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p))
        return TACHY_ERR_INVAL;
    tachy_model *m = calloc(1, sizeof(*m));
    if (!m)
        return TACHY_ERR_NOMEM;
    int err = locate(m, p);
    if (!err)
        err = get(m, CARD_MODEL, m->path, p);
    if (!err)
        err = get_parts(m, p);
    if (err < 0)
        tachy_model_close(&m);
    *out = m;
    return err;
}

const struct tachy_card *tachy_model_card(const tachy_model *m) { return m ? &m->doc->card : NULL; }
const char *tachy_model_path(const tachy_model *m) { return m ? m->path : NULL; }

void tachy_model_close(tachy_model **m)
{
    tachy_model *x = m ? *m : NULL;
    if (!x)
        return;
    *m = NULL;
    card_free(&x->doc);
    free(x->path);
    free(x->dir);
    free(x);
}
