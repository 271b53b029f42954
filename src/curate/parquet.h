#pragma once
#include <jansson.h>
#include <stdio.h>
#include <tachy/common.h>

// Writes a flat table as an Apache Parquet file (format version 1, https://parquet.apache.org/docs/file-format/): every column
// may have no value in a row; numbers are plain, texts plain or by a dictionary, whichever is shorter; nothing is compressed.
// Rows are kept until a row group is full (65536 rows or 32 MB). Belongs to one thread.

enum curate_type { CURATE_INTEGER, CURATE_REAL, CURATE_STRING }; // INT64, DOUBLE, BYTE_ARRAY (UTF8)

struct curate_column {
    const char *name;
    enum curate_type type;
};

struct curate_parquet;

// `column` stays the caller's and must outlive the writer; so must `f`, which the caller closes.
int curate_parquet_open(struct curate_parquet **out, FILE *f, const struct curate_column *column, int n);
// One row: a cell per column; NULL, or of another type than the column: no value. A whole number is a REAL as well.
int curate_parquet_row(struct curate_parquet *p, json_t *const *cell);
// Writes what is left and the footer. TACHY_ERR_IO, TACHY_ERR_NOMEM.
int curate_parquet_finish(struct curate_parquet *p);
void curate_parquet_free(struct curate_parquet *p);
