#pragma once
#include "curate/curate.h"

#include <jansson.h>

// The forms of --to, written from results.jsonl and images/ when every input is done. They contain only kept frames.

struct curate_export {
    const struct curate *c;
    const char *dir;
    const struct tachy_log *log;
    json_t *columns; // of the frames' named values: "task.name" -> true, in their order
    json_t *tasks;   // names that were met
};

// One form. `open` gives *priv; `frame` is called for each kept frame in order; `close` writes what is left, if `ok`, and
// frees.
struct curate_format {
    const char *name;
    bool pictures; // needs images/
    int (*open)(const struct curate_export *x, void **priv);
    int (*frame)(void *priv, json_t *frame);
    int (*close)(void *priv, bool ok);
};

// Sets *pictures if a requested form needs pictures. TACHY_ERR_INVAL: an unknown form.
int curate_export_check(const tachy_settings *s, bool *pictures, const struct tachy_log *log);
// Writes all forms that are asked for.
int curate_export(struct curate *c);

// Makes a hard link, or a copy if links are impossible; replaces an existing file.
int curate_place_file(const char *from, const char *to, const struct tachy_log *log);

// The regions of a task in a frame's line; NULL: none.
json_t *curate_regions(json_t *frame, const char *task);
// The region with the highest score; NULL: none.
const json_t *curate_best(const json_t *regions);
// The upright rectangle around a region, in frame pixels: left, top, width, height.
void curate_box(const json_t *region, double box[4]);

extern const struct curate_format curate_csv, curate_parquet_files, curate_page, curate_coco, curate_yolo, curate_folders,
    curate_captions, curate_webdataset;
#if HAVE_SQLITE
extern const struct curate_format curate_sqlite;
#endif
