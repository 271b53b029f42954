#include "curate/curate.h"
#include "curate/export.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// Shards of one job become one folder: the inputs of all of them in the order of the whole list, which is what a run without
// shards writes.

struct piece {
    char *line;         // of files.jsonl
    json_int_t number;  // of the input
    int64_t begin, end;             // of its lines in the shard's results.jsonl
    int64_t notes_begin, notes_end; // of its notes in notes.bin; 0: none are kept
    int shard;
};

struct merge {
    const struct tachy_log *log;
    const char *const *dirs;
    struct piece *piece;
    int nb;
};

static int add_piece(struct merge *m, const struct piece *p)
{
    if (!(m->nb & (m->nb - 1))) {
        struct piece *more = realloc(m->piece, (m->nb ? 2 * (size_t)m->nb : 1) * sizeof(*more));
        if (!more)
            return TACHY_ERR_NOMEM;
        m->piece = more;
    }
    m->piece[m->nb] = *p;
    char *line = m->piece[m->nb].line = strdup(p->line);
    m->nb += line != NULL;
    return line ? TACHY_OK : TACHY_ERR_NOMEM;
}

static FILE *open_in(const struct merge *m, const char *dir, const char *name, const char *mode)
{
    char *path = tachy_asprintf("%s/%s", dir, name);
    FILE *f = path ? fopen(path, mode) : NULL;
    if (!f)
        tachy_fail(m->log, tachy_err_from_errno(errno), "%s/%s: %s", dir, name, strerror(errno));
    free(path);
    return f;
}

static int read_shard(struct merge *m, int shard)
{
    FILE *f = open_in(m, m->dirs[shard], "files.jsonl", "r");
    struct piece p = {.shard = shard};
    size_t room = 0;
    int err = f ? TACHY_OK : TACHY_ERR_NOT_FOUND;
    while (err == TACHY_OK && getline(&p.line, &room, f) > 0) {
        json_t *o = json_loads(p.line, 0, NULL);
        p.begin = p.end;
        p.notes_begin = p.notes_end;
        p.number = json_integer_value(json_object_get(o, "number"));
        p.end = json_integer_value(json_object_get(o, "end"));
        p.notes_end = json_integer_value(json_object_get(o, "notes"));
        if (!o || !strstr(p.line, ",\"end\":") || p.end < p.begin || p.notes_end < p.notes_begin)
            err = tachy_fail(m->log, TACHY_ERR_FORMAT, "%s/files.jsonl: is no list that tachy curate wrote", m->dirs[shard]);
        else
            err = add_piece(m, &p);
        json_decref(o);
    }
    free(p.line);
    if (f)
        fclose(f);
    return err;
}

// The job.json of all shards must be one.
static int check_jobs(const struct merge *m, size_t n, char **job, size_t *size)
{
    int err = TACHY_OK;
    *job = NULL;
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        char *path = tachy_asprintf("%s/job.json", m->dirs[i]), *text = NULL;
        size_t own;
        if (path && access(path, F_OK) != 0)
            err = tachy_fail(m->log, TACHY_ERR_NOT_FOUND, "%s: is no folder of results: tachy curate writes a job.json into each; name the "
                             "folders that the shards were written to", m->dirs[i]);
        else
            err = path ? tachy_read_file(path, 1 << 20, &text, &own, m->log) : TACHY_ERR_NOMEM;
        if (err == TACHY_OK && *job && (own != *size || memcmp(text, *job, own)))
            err = tachy_fail(m->log, TACHY_ERR_MISMATCH, "%s and %s are of different jobs (job.json)", m->dirs[0], m->dirs[i]);
        if (err == TACHY_OK && !*job) {
            *job = text;
            *size = own;
            text = NULL;
        }
        free(text);
        free(path);
    }
    return err;
}

static int by_number(const void *a, const void *b)
{
    const struct piece *p = a, *q = b;
    return (p->number > q->number) - (p->number < q->number);
}

// A file of the folders that is joined from pieces of those of the shards.
struct joined {
    const char *name;
    FILE **from, *to;
};

static int open_joined(const struct merge *m, struct joined *j, const char *name, const char *out, size_t n)
{
    *j = (struct joined){.name = name, .from = calloc(n, sizeof(*j->from)), .to = open_in(m, out, name, "wx")};
    int err = !j->from ? TACHY_ERR_NOMEM : j->to ? TACHY_OK : TACHY_ERR_EXISTS;
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = (j->from[i] = open_in(m, m->dirs[i], name, "r")) ? TACHY_OK : TACHY_ERR_IO;
    return err;
}

static bool close_joined(struct joined *j, size_t n)
{
    for (size_t i = 0; i < n && j->from; i++)
        if (j->from[i])
            fclose(j->from[i]);
    free(j->from);
    return !j->to || fclose(j->to) == 0;
}

static int copy_piece(const struct merge *m, const struct joined *j, int shard, int64_t begin, int64_t end)
{
    char chunk[1 << 16];
    if (fseek(j->from[shard], begin, SEEK_SET) < 0)
        return TACHY_ERR_IO;
    for (int64_t left = end - begin; left > 0;) {
        size_t n = fread(chunk, 1, (size_t)TACHY_MIN(left, (int64_t)sizeof(chunk)), j->from[shard]);
        if (!n)
            return tachy_fail(m->log, TACHY_ERR_FORMAT, "%s/%s: is shorter than files.jsonl says", m->dirs[shard], j->name);
        if (fwrite(chunk, 1, n, j->to) != n)
            return tachy_fail(m->log, tachy_err_from_errno(errno), "%s cannot be written: %s", j->name, strerror(errno));
        left -= (int64_t)n;
    }
    return TACHY_OK;
}

// The line of files.jsonl with other offsets.
static void write_entry(FILE *files, const struct piece *p, bool noted, int64_t notes, int64_t end)
{
    const char *tail = strstr(p->line, noted ? ",\"notes\":" : ",\"end\":");
    fprintf(files, "%.*s", (int)(tail - p->line), p->line);
    if (noted)
        fprintf(files, ",\"notes\":%lld", (long long)notes);
    fprintf(files, ",\"end\":%lld}\n", (long long)end);
}

static bool has_notes(const struct piece *p) { return strstr(p->line, ",\"notes\":"); }

static int write_pieces(struct merge *m, const char *out, size_t n)
{
    bool noted = m->nb && has_notes(m->piece); // of one job: all lines or none
    struct joined results = {0}, notes = {0};
    FILE *files = open_in(m, out, "files.jsonl", "wx");
    int err = files ? open_joined(m, &results, "results.jsonl", out, n) : TACHY_ERR_EXISTS;
    int64_t end = 0, notes_end = 0;
    if (err == TACHY_OK && noted)
        err = open_joined(m, &notes, "notes.bin", out, n);
    for (int i = 0; i < m->nb && err == TACHY_OK; i++) {
        const struct piece *p = &m->piece[i];
        if (i && p->number == p[-1].number)
            err = tachy_fail(m->log, TACHY_ERR_EXISTS, "%s and %s hold the same input; name each shard once", m->dirs[p[-1].shard],
                             m->dirs[p->shard]);
        else if (has_notes(p) != noted)
            err = tachy_fail(m->log, TACHY_ERR_FORMAT, "%s/files.jsonl: is no list that tachy curate wrote", m->dirs[p->shard]);
        else
            err = copy_piece(m, &results, p->shard, p->begin, p->end);
        if (err == TACHY_OK && noted)
            err = copy_piece(m, &notes, p->shard, p->notes_begin, p->notes_end);
        end += p->end - p->begin;
        notes_end += p->notes_end - p->notes_begin;
        if (err == TACHY_OK)
            write_entry(files, p, noted, notes_end, end);
    }
    bool whole = !files || fclose(files) == 0;
    whole = close_joined(&results, n) && whole;
    whole = close_joined(&notes, n) && whole;
    return err == TACHY_OK && !whole ? tachy_fail(m->log, TACHY_ERR_NO_SPACE, "%s: the results cannot be written", out) : err;
}

// Inputs are numbered through the whole list; those after the last one here cannot be missed.
static void warn_of_gaps(const struct merge *m, const char *out)
{
    long long all = m->nb ? m->piece[m->nb - 1].number + 1 : 0;
    if (all > m->nb)
        tachy_msg(m->log, TACHY_LOG_WARN, "%lld of the first %lld inputs are in none of these folders: a shard is missing, or they failed; "
                  "the job without --shard and with -o %s processes them", all - m->nb, all, out);
}

static int place_images(const struct merge *m, const char *out, const char *dir)
{
    char *from = tachy_asprintf("%s/images", dir), *to = tachy_asprintf("%s/images", out);
    DIR *d = from ? opendir(from) : NULL;
    int err = !d ? TACHY_OK : to ? tachy_make_folders(to, m->log) : TACHY_ERR_NOMEM;
    for (struct dirent *e; err == TACHY_OK && d && (e = readdir(d));) {
        char *a = tachy_asprintf("%s/%s", from, e->d_name), *b = tachy_asprintf("%s/%s", to, e->d_name);
        if (e->d_name[0] != '.')
            err = a && b ? curate_place_file(a, b, m->log) : TACHY_ERR_NOMEM;
        free(a);
        free(b);
    }
    if (d)
        closedir(d);
    free(from);
    free(to);
    return err;
}

int tachy_curate_merge_sized(size_t p_size, const struct tachy_curate_merge_params *p)
{
    struct tachy_curate_merge_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && p->folder && p->dirs))
        return TACHY_ERR_INVAL;
    const char *folder = p->folder, *const *dirs = p->dirs;
    const struct tachy_log *log = p->log;
    size_t nb_dirs = p->nb_dirs;
    struct merge m = {.log = log, .dirs = dirs};
    char *job = NULL, *path = tachy_asprintf("%s/job.json", folder);
    size_t size = 0;
    int err = path && nb_dirs ? check_jobs(&m, nb_dirs, &job, &size) : TACHY_ERR_INVAL;
    for (size_t i = 0; i < nb_dirs && err == TACHY_OK; i++)
        err = read_shard(&m, (int)i);
    if (m.nb)
        qsort(m.piece, (size_t)m.nb, sizeof(*m.piece), by_number);
    if (err == TACHY_OK)
        err = tachy_make_folders(folder, log);
    if (err == TACHY_OK)
        err = write_pieces(&m, folder, nb_dirs);
    for (size_t i = 0; i < nb_dirs && err == TACHY_OK; i++)
        err = place_images(&m, folder, dirs[i]);
    if (err == TACHY_OK)
        err = tachy_write_file(path, job, size, log); // last: without it the folder is none of results
    if (err == TACHY_OK)
        warn_of_gaps(&m, folder);
    for (int i = 0; i < m.nb; i++)
        free(m.piece[i].line);
    free(m.piece);
    free(job);
    free(path);
    return err;
}
