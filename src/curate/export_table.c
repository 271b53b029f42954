#include "curate/export.h"
#include "curate/parquet.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#if HAVE_SQLITE
#include <sqlite3.h>
#endif

// Two tables, as CSV or Parquet files or in one SQLite file. frames has a row per frame: what is known of it, and for each task how many
// regions it found and its named values. regions has a row per region.

static const struct curate_column frame_columns[] = {
    {"file", CURATE_STRING}, {"frame", CURATE_INTEGER}, {"time", CURATE_REAL}, {"width", CURATE_INTEGER},
    {"height", CURATE_INTEGER}, {"picture", CURATE_STRING}, {"scene", CURATE_INTEGER}, {"duplicate", CURATE_INTEGER},
};
static const struct curate_column region_columns[] = {
    {"file", CURATE_STRING}, {"frame", CURATE_INTEGER}, {"task", CURATE_STRING}, {"region", CURATE_INTEGER},
    {"track", CURATE_INTEGER}, {"class", CURATE_INTEGER}, {"label", CURATE_STRING}, {"score", CURATE_REAL}, {"x", CURATE_REAL},
    {"y", CURATE_REAL}, {"w", CURATE_REAL}, {"h", CURATE_REAL}, {"angle", CURATE_REAL}, {"points", CURATE_STRING},
    {"values", CURATE_STRING}, {"embedding", CURATE_STRING},
};
enum { FRAMES, REGIONS, TABLES };
static const char *const table_names[] = {"frames", "regions"};

struct tables {
    const struct curate_export *x;
    struct curate_column *column[TABLES];
    int n[TABLES];
    char **names; // of the columns of frames that the data has, owned
    int nb_names;
    json_t **cell; // of the row that is being made, owned; NULL: no value
    int (*row)(struct tables *t, int table);
    FILE *file[TABLES];
    struct curate_parquet *parquet[TABLES];
    char *path[TABLES], *part[TABLES];
#if HAVE_SQLITE
    sqlite3 *db;
    sqlite3_stmt *insert[TABLES];
#endif
};

static int add_columns(struct tables *t)
{
    const struct curate_export *x = t->x;
    size_t fixed = TACHY_ARRAY_SIZE(frame_columns), most = fixed + json_object_size(x->tasks) + json_object_size(x->columns);
    const char *key;
    json_t *v;
    t->column[FRAMES] = calloc(most + 1, sizeof(struct curate_column));
    t->names = calloc(most + 1, sizeof(*t->names));
    t->cell = calloc(TACHY_MAX(most, TACHY_ARRAY_SIZE(region_columns)) + 1, sizeof(json_t *));
    t->column[REGIONS] = (struct curate_column *)(uintptr_t)region_columns;
    if (!t->column[FRAMES] || !t->names || !t->cell)
        return TACHY_ERR_NOMEM;
    memcpy(t->column[FRAMES], frame_columns, sizeof(frame_columns));
    t->n[FRAMES] = (int)fixed;
    t->n[REGIONS] = TACHY_ARRAY_SIZE(region_columns);
    json_object_foreach(x->tasks, key, v) {
        t->names[t->nb_names++] = tachy_asprintf("%s.count", key);
        t->column[FRAMES][t->n[FRAMES]++] = (struct curate_column){t->names[t->nb_names - 1], CURATE_INTEGER};
    }
    json_object_foreach(x->columns, key, v) {
        t->names[t->nb_names++] = tachy_asprintf("%s", key);
        t->column[FRAMES][t->n[FRAMES]++] = (struct curate_column){t->names[t->nb_names - 1], CURATE_REAL};
    }
    for (int i = 0; i < t->nb_names; i++)
        if (!t->names[i])
            return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// ---- Rows

static int put_row(struct tables *t, int table)
{
    int err = t->row(t, table);
    for (int i = 0; i < t->n[table]; i++) {
        json_decref(t->cell[i]);
        t->cell[i] = NULL;
    }
    return err;
}

static json_t *text_of(const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_t *s = text ? json_string(text) : NULL;
    free(text);
    return s;
}

static int put_region(struct tables *t, json_t *frame, const char *task, size_t i, json_t *r)
{
    static const char *const own[] = {"track", "class", "label", "score"};
    json_t **cell = t->cell;
    cell[0] = json_incref(json_object_get(frame, "file"));
    cell[1] = json_incref(json_object_get(frame, "frame"));
    cell[2] = json_string(task);
    cell[3] = json_integer((json_int_t)i);
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(own); k++)
        cell[4 + k] = json_incref(json_object_get(r, own[k]));
    for (size_t k = 0; k < 4; k++)
        cell[8 + k] = json_incref(json_array_get(json_object_get(r, "box"), k));
    cell[12] = json_incref(json_object_get(r, "angle"));
    cell[13] = text_of(r, "points");
    cell[14] = text_of(r, "values");
    cell[15] = text_of(r, "embedding");
    return put_row(t, REGIONS);
}

static int put_frame(struct tables *t, json_t *frame)
{
    size_t fixed = TACHY_ARRAY_SIZE(frame_columns);
    for (size_t i = 0; i < fixed; i++)
        t->cell[i] = json_incref(json_object_get(frame, frame_columns[i].name));
    for (int i = (int)fixed; i < t->n[FRAMES]; i++) {
        const struct curate_column *c = &t->column[FRAMES][i];
        char task[64];
        size_t n = strcspn(c->name, ".");
        snprintf(task, sizeof(task), "%.*s", (int)n, c->name);
        json_t *of = json_object_get(frame, task), *regions = json_object_get(of, "regions");
        t->cell[i] = c->type == CURATE_REAL ? json_incref(json_object_get(json_object_get(of, "values"), c->name + n + 1))
                                     : regions ? json_integer((json_int_t)json_array_size(regions)) : NULL;
    }
    return put_row(t, FRAMES);
}

static int table_frame(void *priv, json_t *frame)
{
    struct tables *t = priv;
    const char *task;
    json_t *v, *r;
    size_t i;
    int err = put_frame(t, frame);
    json_object_foreach(t->x->tasks, task, v)
        json_array_foreach(curate_regions(frame, task), i, r)
            err = err == TACHY_OK ? put_region(t, frame, task, i, r) : err;
    return err;
}

static void free_tables(struct tables *t)
{
    for (int i = 0; i < t->nb_names; i++)
        free(t->names[i]);
    for (int i = 0; i < TABLES; i++) {
        free(t->path[i]);
        free(t->part[i]);
    }
    free(t->names);
    free(t->column[FRAMES]);
    free(t->cell);
    free(t);
}

static int open_tables(const struct curate_export *x, struct tables **out)
{
    struct tables *t = *out = calloc(1, sizeof(*t));
    if (!t)
        return TACHY_ERR_NOMEM;
    t->x = x;
    int err = add_columns(t);
    if (err < 0) {
        free_tables(t);
        *out = NULL;
    }
    return err;
}

// ---- A file per table

static int close_files(void *priv, bool ok)
{
    struct tables *t = priv;
    int err = TACHY_OK;
    for (int i = 0; i < TABLES; i++) {
        bool whole = t->file[i] && fclose(t->file[i]) == 0 && ok;
        if (!whole && t->part[i])
            unlink(t->part[i]);
        else if (whole && rename(t->part[i], t->path[i]) < 0)
            whole = false;
        if (ok && !whole && err == TACHY_OK)
            err = tachy_fail(t->x->log, TACHY_ERR_IO, "%s: cannot be written: %s", t->path[i], strerror(errno));
    }
    free_tables(t);
    return err;
}

// *out: NULL after an error.
static int open_files(const struct curate_export *x, const char *tail, struct tables **out)
{
    int err = open_tables(x, out);
    struct tables *t = *out;
    for (int i = 0; i < TABLES && err == TACHY_OK; i++) {
        t->path[i] = tachy_asprintf("%s/%s.%s", x->dir, table_names[i], tail);
        t->part[i] = tachy_asprintf("%s/%s.%s.part", x->dir, table_names[i], tail);
        t->file[i] = t->path[i] && t->part[i] ? fopen(t->part[i], "w") : NULL;
        if (!t->file[i])
            err = tachy_fail(x->log, tachy_err_from_errno(errno), "%s/%s.%s: cannot be written: %s", x->dir, table_names[i], tail,
                             strerror(errno));
    }
    if (err < 0 && t) {
        close_files(t, false);
        *out = NULL;
    }
    return err;
}

// ---- CSV (RFC 4180)

static void csv_text(FILE *f, const char *s)
{
    if (!strpbrk(s, ",\"\r\n")) {
        fputs(s, f);
        return;
    }
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static int csv_row(struct tables *t, int table)
{
    FILE *f = t->file[table];
    for (int i = 0; i < t->n[table]; i++) {
        const json_t *v = t->cell[i];
        if (i)
            fputc(',', f);
        if (json_is_string(v))
            csv_text(f, json_string_value(v));
        else if (json_is_integer(v))
            fprintf(f, "%lld", (long long)json_integer_value(v));
        else if (json_is_real(v))
            fprintf(f, "%.9g", json_real_value(v));
    }
    fputc('\n', f);
    return ferror(f) ? tachy_fail(t->x->log, TACHY_ERR_IO, "%s: cannot be written", t->path[table]) : TACHY_OK;
}

static int csv_open(const struct curate_export *x, void **priv)
{
    struct tables *t;
    int err = open_files(x, "csv", &t);
    for (int i = 0; i < TABLES && err == TACHY_OK; i++) {
        t->row = csv_row;
        for (int k = 0; k < t->n[i]; k++)
            fprintf(t->file[i], "%s%s%s", k ? "," : "", t->column[i][k].name, k + 1 == t->n[i] ? "\n" : "");
    }
    *priv = t;
    return err;
}

const struct curate_format curate_csv = {.name = "csv", .open = csv_open, .frame = table_frame, .close = close_files};

// ---- Parquet

static int parquet_failed(const struct tables *t, int table, int err)
{
    return err == TACHY_ERR_IO ? tachy_fail(t->x->log, err, "%s: cannot be written: %s", t->path[table], strerror(errno)) : err;
}

static int parquet_row(struct tables *t, int table) { return parquet_failed(t, table, curate_parquet_row(t->parquet[table], t->cell)); }

static int parquet_close(void *priv, bool ok)
{
    struct tables *t = priv;
    int err = TACHY_OK;
    for (int i = 0; i < TABLES; i++) {
        if (ok && err == TACHY_OK)
            err = parquet_failed(t, i, curate_parquet_finish(t->parquet[i]));
        curate_parquet_free(t->parquet[i]);
    }
    int closed = close_files(t, ok && err == TACHY_OK);
    return err < 0 ? err : closed;
}

static int parquet_open(const struct curate_export *x, void **priv)
{
    struct tables *t;
    int err = open_files(x, "parquet", &t);
    for (int i = 0; i < TABLES && err == TACHY_OK; i++) {
        t->row = parquet_row;
        err = parquet_failed(t, i, curate_parquet_open(&t->parquet[i], t->file[i], t->column[i], t->n[i]));
    }
    if (err < 0 && t) {
        parquet_close(t, false);
        t = NULL;
    }
    *priv = t;
    return err;
}

const struct curate_format curate_parquet_files = {.name = "parquet", .open = parquet_open, .frame = table_frame, .close = parquet_close};

// ---- SQLite

#if HAVE_SQLITE
static int sql_failed(const struct tables *t)
{
    return tachy_fail(t->x->log, TACHY_ERR_EXTERNAL, "%s: SQLite: %s", t->path[0], t->db ? sqlite3_errmsg(t->db) : "out of memory");
}

static int sql_row(struct tables *t, int table)
{
    sqlite3_stmt *s = t->insert[table];
    for (int i = 0; i < t->n[table]; i++) {
        const json_t *v = t->cell[i];
        if (json_is_string(v))
            sqlite3_bind_text(s, i + 1, json_string_value(v), -1, SQLITE_TRANSIENT);
        else if (json_is_integer(v))
            sqlite3_bind_int64(s, i + 1, json_integer_value(v));
        else if (json_is_real(v))
            sqlite3_bind_double(s, i + 1, json_real_value(v));
        else
            sqlite3_bind_null(s, i + 1);
    }
    int done = sqlite3_step(s);
    sqlite3_reset(s);
    return done == SQLITE_DONE ? TACHY_OK : sql_failed(t);
}

static int sql_table(struct tables *t, int table)
{
    static const char *const types[] = {"INTEGER", "REAL", "TEXT"};
    struct tachy_text create = {0}, insert = {0};
    tachy_text_add(&create, "CREATE TABLE %s (", table_names[table]);
    tachy_text_add(&insert, "INSERT INTO %s VALUES (", table_names[table]);
    for (int i = 0; i < t->n[table]; i++) {
        tachy_text_add(&create, "%s\"%.200s\" %s", i ? ", " : "", t->column[table][i].name, types[t->column[table][i].type]);
        tachy_text_add(&insert, i ? ",?" : "?");
    }
    tachy_text_char(&create, ')');
    tachy_text_char(&insert, ')');
    int err = create.failed || insert.failed ? TACHY_ERR_NOMEM : TACHY_OK;
    if (err == TACHY_OK && (sqlite3_exec(t->db, create.p, NULL, NULL, NULL) != SQLITE_OK ||
                            sqlite3_prepare_v2(t->db, insert.p, -1, &t->insert[table], NULL) != SQLITE_OK))
        err = sql_failed(t);
    tachy_text_free(&create);
    tachy_text_free(&insert);
    return err;
}

static int sql_close(void *priv, bool ok)
{
    struct tables *t = priv;
    int err = TACHY_OK;
    for (int i = 0; i < TABLES; i++)
        sqlite3_finalize(t->insert[i]);
    if (ok && sqlite3_exec(t->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        err = sql_failed(t);
    sqlite3_close(t->db);
    if (ok && err == TACHY_OK && rename(t->part[0], t->path[0]) < 0)
        err = tachy_fail(t->x->log, tachy_err_from_errno(errno), "%s: cannot be written: %s", t->path[0], strerror(errno));
    if ((!ok || err < 0) && t->part[0])
        unlink(t->part[0]);
    free_tables(t);
    return err;
}

static int sql_open(const struct curate_export *x, void **priv)
{
    struct tables *t;
    int err = open_tables(x, &t);
    if (err < 0)
        return err;
    t->row = sql_row;
    t->path[0] = tachy_asprintf("%s/results.sqlite", x->dir);
    t->part[0] = tachy_asprintf("%s/results.sqlite.part", x->dir);
    if (!t->path[0] || !t->part[0])
        err = TACHY_ERR_NOMEM;
    else if (unlink(t->part[0]), sqlite3_open(t->part[0], &t->db) != SQLITE_OK ||
             sqlite3_exec(t->db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        err = sql_failed(t);
    for (int i = 0; i < TABLES && err == TACHY_OK; i++)
        err = sql_table(t, i);
    if (err < 0)
        sql_close(t, false);
    *priv = err < 0 ? NULL : t;
    return err;
}

const struct curate_format curate_sqlite = {.name = "sqlite", .open = sql_open, .frame = table_frame, .close = sql_close};
#endif
