#include "curate/parquet.h"

#include "base/base.h"
#include "base/index.h"
#include "base/mix.h"
#include "postprocess/text.h"

#include <stdlib.h>

enum { GROUP_ROWS = 65536, GROUP_BYTES = 32 << 20 };

// Numbers of the format's Thrift definition.
enum { INT64 = 2, DOUBLE = 5, BYTE_ARRAY = 6 };
enum { PLAIN = 0, RLE = 3, RLE_DICTIONARY = 8 };
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2 };
enum { OPTIONAL = 1, UTF8 = 0, UNCOMPRESSED = 0 };
enum { T_I32 = 5, T_I64 = 6, T_BINARY = 8, T_LIST = 9, T_STRUCT = 12 };

// The rows of a column that wait for their row group.
struct waiting {
    struct tachy_text plain;      // values as PLAIN has them
    uint32_t *has, *entry;        // of each row: 1, or 0 for no value; of each value of a text: its entry of the dictionary
    struct tachy_text dictionary; // its entries as PLAIN has them
    size_t *at;                   // of each entry: position of its length in `dictionary`
    struct tachy_index index;     // entries by hash
    int nb_values, nb_entries;
};

struct curate_parquet {
    FILE *f;
    const struct curate_column *column;
    int n, rows; // columns; rows that wait
    struct waiting *wait;
    struct tachy_text groups; // RowGroup structures that are done
    int nb_groups;
    int64_t all, at; // rows written; bytes written
};

// ---- Thrift's compact protocol. Fields come in rising order; `last` is the field before.

static void varint(struct tachy_text *t, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        tachy_text_char(t, (char)(v | 0x80));
    tachy_text_char(t, (char)v);
}

static void field(struct tachy_text *t, int *last, int id, int type)
{
    tachy_text_char(t, (char)((id - *last) << 4 | type));
    *last = id;
}

static void zigzag(struct tachy_text *t, int64_t v) { varint(t, (uint64_t)v << 1 ^ (uint64_t)(v >> 63)); }

static void number(struct tachy_text *t, int *last, int id, int type, int64_t v)
{
    field(t, last, id, type);
    zigzag(t, v);
}

static void string(struct tachy_text *t, const char *s)
{
    varint(t, strlen(s));
    tachy_text_put(t, s, strlen(s));
}

static void list(struct tachy_text *t, int *last, int id, int type, int n)
{
    field(t, last, id, T_LIST);
    if (n < 15) {
        tachy_text_char(t, (char)(n << 4 | type));
    } else {
        tachy_text_char(t, (char)(0xf0 | type));
        varint(t, (uint64_t)n);
    }
}

static void stop(struct tachy_text *t) { tachy_text_char(t, 0); }

// ---- Pages

static void little(struct tachy_text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        tachy_text_char(t, (char)(v >> 8 * i));
}

// Numbers of `width` bits as one bit-packed run of the hybrid encoding, the first bit lowest; filled up to a multiple of eight.
static void pack(struct tachy_text *t, const uint32_t *v, int n, int width)
{
    uint64_t bits = 0;
    int have = 0, groups = (n + 7) / 8;
    varint(t, (uint64_t)groups << 1 | 1);
    for (int i = 0; i < groups * 8; i++) {
        bits |= (uint64_t)(i < n ? v[i] : 0) << have;
        for (have += width; have >= 8; have -= 8, bits >>= 8)
            tachy_text_char(t, (char)bits);
    }
}

// Writes a page with its header.
static int put_page(struct curate_parquet *p, int type, int values, int encoding, const struct tachy_text *data)
{
    struct tachy_text head = {0};
    int last = 0, inner = 0;
    number(&head, &last, 1, T_I32, type);
    number(&head, &last, 2, T_I32, (int64_t)data->len);
    number(&head, &last, 3, T_I32, (int64_t)data->len);
    field(&head, &last, type == DATA_PAGE ? 5 : 7, T_STRUCT);
    number(&head, &inner, 1, T_I32, values);
    number(&head, &inner, 2, T_I32, encoding);
    if (type == DATA_PAGE) {
        number(&head, &inner, 3, T_I32, RLE); // definition levels
        number(&head, &inner, 4, T_I32, RLE); // repetition levels: there are none
    }
    stop(&head);
    stop(&head);
    int err = head.failed || data->failed ? TACHY_ERR_NOMEM : TACHY_OK;
    if (err == TACHY_OK && (fwrite(head.p, 1, head.len, p->f) != head.len || fwrite(data->p, 1, data->len, p->f) != data->len))
        err = TACHY_ERR_IO;
    p->at += (int64_t)(head.len + data->len);
    tachy_text_free(&head);
    return err;
}

static int width_of(int entries)
{
    int width = 1;
    while (entries > 1 << width)
        width++;
    return width;
}

static int put_data(struct curate_parquet *p, const struct waiting *w, bool dictionary)
{
    struct tachy_text data = {0}, levels = {0};
    int width = width_of(w->nb_entries);
    pack(&levels, w->has, p->rows, 1);
    little(&data, levels.len, 4);
    tachy_text_put(&data, levels.p, levels.len);
    data.failed |= levels.failed;
    if (dictionary) {
        tachy_text_char(&data, (char)width);
        pack(&data, w->entry, w->nb_values, width);
    } else if (w->plain.len) {
        tachy_text_put(&data, w->plain.p, w->plain.len);
    }
    int err = put_page(p, DATA_PAGE, p->rows, dictionary ? RLE_DICTIONARY : PLAIN, &data);
    tachy_text_free(&data);
    tachy_text_free(&levels);
    return err;
}

// ---- Row groups

static void describe(struct curate_parquet *p, int i, bool dictionary, int64_t begin, int64_t data)
{
    static const int types[] = {INT64, DOUBLE, BYTE_ARRAY};
    struct tachy_text *t = &p->groups;
    int last = 0, inner = 0;
    number(t, &last, 2, T_I64, begin);
    field(t, &last, 3, T_STRUCT);
    number(t, &inner, 1, T_I32, types[p->column[i].type]);
    list(t, &inner, 2, T_I32, dictionary ? 3 : 2);
    zigzag(t, PLAIN);
    zigzag(t, RLE);
    if (dictionary)
        zigzag(t, RLE_DICTIONARY);
    list(t, &inner, 3, T_BINARY, 1);
    string(t, p->column[i].name);
    number(t, &inner, 4, T_I32, UNCOMPRESSED);
    number(t, &inner, 5, T_I64, p->rows);
    number(t, &inner, 6, T_I64, p->at - begin);
    number(t, &inner, 7, T_I64, p->at - begin);
    number(t, &inner, 9, T_I64, data);
    if (dictionary)
        number(t, &inner, 11, T_I64, begin);
    stop(t);
    stop(t);
}

static void empty(struct waiting *w)
{
    w->plain.len = w->dictionary.len = 0;
    w->nb_values = w->nb_entries = 0;
    tachy_index_free(&w->index);
}

static int put_group(struct curate_parquet *p)
{
    int64_t group = p->at;
    int last = 0, err = TACHY_OK;
    list(&p->groups, &last, 1, T_STRUCT, p->n);
    for (int i = 0; i < p->n && err == TACHY_OK; i++) {
        struct waiting *w = &p->wait[i];
        int64_t begin = p->at, data;
        bool dictionary = w->nb_entries && w->dictionary.len + (size_t)w->nb_values * (size_t)width_of(w->nb_entries) / 8 < w->plain.len;
        if (w->plain.failed || w->dictionary.failed)
            return TACHY_ERR_NOMEM;
        if (dictionary)
            err = put_page(p, DICTIONARY_PAGE, w->nb_entries, PLAIN, &w->dictionary);
        data = p->at;
        if (err == TACHY_OK)
            err = put_data(p, w, dictionary);
        describe(p, i, dictionary, begin, data);
        empty(w);
    }
    number(&p->groups, &last, 2, T_I64, p->at - group);
    number(&p->groups, &last, 3, T_I64, p->rows);
    stop(&p->groups);
    p->all += p->rows;
    p->nb_groups++;
    p->rows = 0;
    return p->groups.failed ? TACHY_ERR_NOMEM : err;
}

// ---- Rows

struct key {
    const char *s;
    size_t n;
};

static bool same_entry(const void *user, const void *key, int i)
{
    const struct waiting *w = user;
    const struct key *k = key;
    const unsigned char *entry = (const unsigned char *)w->dictionary.p + w->at[i];
    size_t n = (size_t)entry[0] | (size_t)entry[1] << 8 | (size_t)entry[2] << 16 | (size_t)entry[3] << 24;
    return n == k->n && !memcmp(entry + 4, k->s, n);
}

static int put_string(struct waiting *w, const char *s, size_t n)
{
    const struct key k = {s, n};
    uint64_t hash = tachy_mix(1, s, n);
    int i = tachy_index_find(&w->index, hash, same_entry, w, &k);
    little(&w->plain, n, 4);
    tachy_text_put(&w->plain, s, n);
    if (i < 0) {
        i = w->nb_entries++;
        w->at[i] = w->dictionary.len;
        little(&w->dictionary, n, 4);
        tachy_text_put(&w->dictionary, s, n);
        if (w->dictionary.failed || tachy_index_add(&w->index, hash, i) < 0)
            return TACHY_ERR_NOMEM;
    }
    w->entry[w->nb_values] = (uint32_t)i;
    return TACHY_OK;
}

static int put_cell(struct waiting *w, int row, enum curate_type type, const json_t *v)
{
    int err = TACHY_OK;
    w->has[row] = type == CURATE_STRING ? json_is_string(v) : type == CURATE_INTEGER ? json_is_integer(v) : json_is_number(v);
    if (!w->has[row])
        return TACHY_OK;
    if (type == CURATE_STRING) {
        err = put_string(w, json_string_value(v), json_string_length(v));
    } else {
        double real = json_number_value(v);
        uint64_t bits = (uint64_t)json_integer_value(v);
        if (type == CURATE_REAL)
            memcpy(&bits, &real, sizeof(bits));
        little(&w->plain, bits, 8);
    }
    w->nb_values++;
    return err;
}

int curate_parquet_row(struct curate_parquet *p, json_t *const *cell)
{
    size_t bytes = 0;
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++) {
        err = put_cell(&p->wait[i], p->rows, p->column[i].type, cell[i]);
        bytes += p->wait[i].plain.len + p->wait[i].dictionary.len;
    }
    if (err == TACHY_OK && (++p->rows == GROUP_ROWS || bytes > GROUP_BYTES))
        err = put_group(p);
    return err;
}

// ---- The file

int curate_parquet_open(struct curate_parquet **out, FILE *f, const struct curate_column *column, int n)
{
    struct curate_parquet *p = *out = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    *p = (struct curate_parquet){.f = f, .column = column, .n = n, .wait = calloc((size_t)n, sizeof(*p->wait)), .at = 4};
    bool ok = p->wait;
    for (int i = 0; i < n && ok; i++) {
        struct waiting *w = &p->wait[i];
        bool texts = column[i].type == CURATE_STRING;
        w->has = calloc(GROUP_ROWS, sizeof(*w->has));
        w->entry = texts ? calloc(GROUP_ROWS, sizeof(*w->entry)) : NULL;
        w->at = texts ? calloc(GROUP_ROWS, sizeof(*w->at)) : NULL;
        ok = w->has && (!texts || (w->entry && w->at));
    }
    int err = !ok ? TACHY_ERR_NOMEM : fwrite("PAR1", 1, 4, f) != 4 ? TACHY_ERR_IO : TACHY_OK;
    if (err < 0) {
        curate_parquet_free(p);
        *out = NULL;
    }
    return err;
}

static void put_schema(struct tachy_text *t, const struct curate_column *column, int n)
{
    static const int types[] = {INT64, DOUBLE, BYTE_ARRAY};
    int root = 0;
    field(t, &root, 4, T_BINARY);
    string(t, "schema");
    number(t, &root, 5, T_I32, n);
    stop(t);
    for (int i = 0; i < n; i++) {
        int last = 0;
        number(t, &last, 1, T_I32, types[column[i].type]);
        number(t, &last, 3, T_I32, OPTIONAL);
        field(t, &last, 4, T_BINARY);
        string(t, column[i].name);
        if (column[i].type == CURATE_STRING)
            number(t, &last, 6, T_I32, UTF8);
        stop(t);
    }
}

int curate_parquet_finish(struct curate_parquet *p)
{
    struct tachy_text t = {0};
    int last = 0, err = p->rows ? put_group(p) : TACHY_OK;
    number(&t, &last, 1, T_I32, 1); // version
    list(&t, &last, 2, T_STRUCT, p->n + 1);
    put_schema(&t, p->column, p->n);
    number(&t, &last, 3, T_I64, p->all);
    list(&t, &last, 4, T_STRUCT, p->nb_groups);
    if (p->groups.len)
        tachy_text_put(&t, p->groups.p, p->groups.len);
    field(&t, &last, 6, T_BINARY);
    string(&t, "tachy");
    stop(&t);
    little(&t, t.len, 4);
    tachy_text_put(&t, "PAR1", 4);
    if (err == TACHY_OK && t.failed)
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && fwrite(t.p, 1, t.len, p->f) != t.len)
        err = TACHY_ERR_IO;
    tachy_text_free(&t);
    return err;
}

void curate_parquet_free(struct curate_parquet *p)
{
    for (int i = 0; p && p->wait && i < p->n; i++) {
        struct waiting *w = &p->wait[i];
        tachy_text_free(&w->plain);
        tachy_text_free(&w->dictionary);
        tachy_index_free(&w->index);
        free(w->has);
        free(w->entry);
        free(w->at);
    }
    if (p) {
        tachy_text_free(&p->groups);
        free(p->wait);
    }
    free(p);
}
