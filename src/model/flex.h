#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A map of FlexBuffers, as TFLite's custom operators keep their options (flatbuffers.dev/flexbuffers). Every offset and length is
// checked against the bytes, which must outlive the map.
struct flex_map {
    const uint8_t *data;
    size_t size;
    size_t at, width, n; // the values: first byte, bytes of each, count
    size_t keys, key_width;
};

// False: the bytes are no map.
bool flex_open(struct flex_map *m, const uint8_t *data, size_t size);
// A number, or `def` if the key is absent or is of another kind.
double flex_number(const struct flex_map *m, const char *key, double def);
// Whole numbers of a typed vector, at most `max`; how many, or -1: the key is absent, of another kind, or longer.
int flex_ints(const struct flex_map *m, const char *key, int64_t *v, int max);
