#include "stage/note.h"
#include "stage/stages.h"

#include "base/base.h"
#include "base/half.h"
#include "base/npy.h"
#include "base/options.h"
#include "base/path.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// The vectors of all frames in one file, for searches: binary16, one row each, and beside it one line of JSON per row.

struct embeddings {
    char *path, *index;      // final names
    char *part, *index_part; // what is written
    FILE *rows, *lines;
    int64_t nb;
    int size; // numbers of a row; 0: none yet
    double tick;
    bool finished;
};

// A frame's note; after it the rows, in binary16.
struct note {
    int64_t frame;
    double time;
    int32_t rows, size;
};

static const struct tachy_option options[] = {
    {"categorize.embeddings", "embeddings", 0, TACHY_OPT_STRING, .arg = "FILE.npy", .group = "Categories", .at_end = true,
     .help = "write the vectors of all frames here, as float16, and FILE.jsonl, which names the frame of each row; "
             "--search and --like read them"},
    {0},
};

static int fail(const struct tachy_stage *st, const char *path)
{
    return tachy_fail(st->task->log, tachy_err_from_errno(errno), "%s: cannot be written: %s", path, strerror(errno));
}

static int name_files(struct embeddings *e, const char *path)
{
    e->path = strdup(path);
    e->index = tachy_asprintf("%.*s.jsonl", (int)(strlen(path) - strlen(".npy")), path);
    e->part = tachy_asprintf("%s.%ld.part", path, (long)getpid());
    e->index_part = e->index ? tachy_asprintf("%s.%ld.part", e->index, (long)getpid()) : NULL;
    return e->path && e->index && e->part && e->index_part ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int write_header(struct tachy_stage *st)
{
    struct embeddings *e = tachy_stage_priv(st);
    char header[TACHY_NPY_HEADER];
    const struct tachy_npy a = {.kind = 'f', .size = 2, .rank = 2, .shape = {e->nb, TACHY_DEF(e->size, 1)}};
    size_t n = tachy_npy_header(header, &a);
    return fseek(e->rows, 0, SEEK_SET) == 0 && fwrite(header, 1, n, e->rows) == n ? TACHY_OK : fail(st, e->path);
}

static int open_files(struct tachy_stage *st, const tachy_settings *s)
{
    struct embeddings *e = tachy_stage_priv(st);
    const char *path = tachy_settings_str(s, "categorize.embeddings");
    bool overwrite = tachy_settings_bool(s, "output.overwrite");
    if (!path)
        return TACHY_STAGE_LEFT_OUT;
    if (!tachy_path_ends(path, ".npy"))
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "--embeddings %s: must end in .npy", path);
    if (st->task->keeps_notes)
        return TACHY_OK;
    int err = name_files(e, path);
    if (err == TACHY_OK)
        err = tachy_check_free(e->path, overwrite, "--embeddings FILE", st->task->log);
    if (err == TACHY_OK)
        err = tachy_check_free(e->index, overwrite, "--embeddings FILE", st->task->log);
    if (err < 0)
        return err;
    if (!(e->rows = fopen(e->part, "wb")))
        return fail(st, e->path);
    if (!(e->lines = fopen(e->index_part, "w")))
        return fail(st, e->index);
    return write_header(st);
}

static void close_files(struct tachy_stage *st)
{
    struct embeddings *e = tachy_stage_priv(st);
    if (e->rows)
        fclose(e->rows);
    if (e->lines)
        fclose(e->lines);
    if (e->part && !e->finished) {
        unlink(e->part);
        unlink(e->index_part);
    }
    char *const mem[] = {e->path, e->index, e->part, e->index_part};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mem); i++)
        free(mem[i]);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct embeddings *e = tachy_stage_priv(st);
    e->tick = (double)video->time_base.num / video->time_base.den;
    return TACHY_OK;
}

// Both files under their names once they are whole.
static int finish(struct tachy_stage *st)
{
    struct embeddings *e = tachy_stage_priv(st);
    int err = write_header(st);
    if (err == TACHY_OK && (fflush(e->rows) || ferror(e->rows) || fsync(fileno(e->rows))))
        err = fail(st, e->path);
    if (err == TACHY_OK && (fflush(e->lines) || ferror(e->lines) || fsync(fileno(e->lines))))
        err = fail(st, e->index);
    if (err == TACHY_OK && rename(e->index_part, e->index))
        err = fail(st, e->index);
    if (err == TACHY_OK && rename(e->part, e->path))
        err = fail(st, e->path);
    e->finished = err == TACHY_OK;
    if (e->finished)
        tachy_msg(st->task->log, TACHY_LOG_INFO, "%s: %lld vectors of %d numbers", e->path, (long long)e->nb, e->size);
    return err;
}

static int write_line(struct tachy_stage *st, const char *input, const struct note *n)
{
    struct embeddings *e = tachy_stage_priv(st);
    json_t *o = json_pack("{s:s, s:I, s:f}", "file", input, "frame", (json_int_t)n->frame, "time", n->time);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    int err = !text ? TACHY_ERR_NOMEM : fprintf(e->lines, "%s\n", text) < 0 ? fail(st, e->index) : TACHY_OK;
    free(text);
    json_decref(o);
    return err;
}

static int take(struct tachy_stage *st, const char *input, const void *note, size_t size)
{
    struct embeddings *e = tachy_stage_priv(st);
    struct tachy_note from = {note, size};
    struct note n;
    if (!tachy_note_get(&from, &n, sizeof(n)) || n.rows < 1 || n.size < 1 ||
        from.left != (size_t)n.rows * (size_t)n.size * sizeof(uint16_t) || (e->size && e->size != n.size))
        return TACHY_ERR_FORMAT;
    e->size = n.size;
    e->nb += n.rows;
    int err = fwrite(from.p, 1, from.left, e->rows) == from.left ? TACHY_OK : fail(st, e->path);
    for (int i = 0; i < n.rows && err == TACHY_OK; i++)
        err = write_line(st, input, &n);
    return err;
}

static void put_row(struct tachy_text *note, const struct tachy_region *r)
{
    uint16_t half[256];
    for (int at = 0; at < r->nb_embedding; at += 256) {
        int n = TACHY_MIN(r->nb_embedding - at, 256);
        for (int i = 0; i < n; i++)
            half[i] = tachy_float_to_half(r->embedding[at + i]);
        tachy_note_put(note, half, (size_t)n * sizeof(half[0]));
    }
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct embeddings *e = tachy_stage_priv(st);
    const struct tachy_item *item = pieces[0].item;
    const tachy_frame *head = tachy_item_head(item);
    struct tachy_text *text = tachy_note_begin(st, item);
    struct note note = {.frame = head->id, .time = (double)head->pts * e->tick};
    for (int i = 0; i < item->result.nb_regions; i++)
        if (item->result.regions[i].nb_embedding) {
            note.size = item->result.regions[i].nb_embedding;
            note.rows++;
        }
    if (note.rows)
        tachy_note_put(text, &note, sizeof(note));
    for (int i = 0; i < item->result.nb_regions; i++)
        put_row(text, &item->result.regions[i]);
    err[0] = tachy_note_end(st, item);
}

const struct tachy_stage_ops tachy_stage_embeddings = {
    .name = "embeddings",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .priv_size = sizeof(struct embeddings),
    .item_size = TACHY_NOTE_ITEM,
    .open = open_files,
    .close = close_files,
    .finish = finish,
    .start = start,
    .run = run,
    .item_close = tachy_note_close,
    .take = take,
};
