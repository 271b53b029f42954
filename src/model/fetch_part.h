#pragma once
#include "model/digest.h"

#include <stdio.h>

// A file being written into the model folder: under a temporary name (several processes and threads may fetch the same
// file), with its digest computed along the way.
struct part {
    char *path;
    FILE *file;
    struct AVSHA *sha;
    int64_t bytes;
    char hex[65]; // after part_done()
    const struct tachy_log *log;
};

// A unique name beside `path`. Free with tachy_free().
char *part_name(const char *path);

int part_open(struct part *p, const char *beside, const struct tachy_log *log);
int part_add(struct part *p, const void *data, size_t size);
// Everything is on its way to the disk; p->hex is set. The file stays under p->path.
int part_done(struct part *p);
// Removes the file if it still exists. Harmless after {0}.
void part_drop(struct part *p);
// Gives the file its final name; p->path is cleared.
int part_rename(struct part *p, const char *path);

// TACHY_OK where `hex` is `want` ("": nothing is asked for), else a sentence about `what`.
int part_expect(const char *what, const char *hex, const char *want, const struct tachy_log *log);

char *folder_of_path(const char *path);

enum { FETCH_LIMIT_MIB = 4096 }; // no model that is fetched is larger
