#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The wire format of protocol buffers, which is what an ONNX file is made of. A message is a list of fields; a field
// is a key (its number and wire type) and a value. Private to src/onnx and to tests that make files.

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5 };

struct wire_span {
    const uint8_t *at, *end;
};

struct wire_field {
    int number;
    enum wire_type type;
    uint64_t value;                // WIRE_VARINT
    struct wire_span whole, bytes; // with its key; without, of the other types. They point into the message
};

// ---- Reading. Every length is checked.

// The next field of *s, which moves past it. false: the end; or, with *bad set, bytes that are no field.
bool wire_next(struct wire_span *s, struct wire_field *f, bool *bad);
// True if all bytes are valid fields.
bool wire_sound(struct wire_span s);
// The last field of this number and type, which is the one that counts. false: there is none, or the message is damaged.
bool wire_find(struct wire_span in, int number, enum wire_type type, struct wire_field *out);
// True if the bytes equal this text.
bool wire_is(struct wire_span s, const char *text);
static inline size_t wire_size(struct wire_span s) { return (size_t)(s.end - s.at); }

// ---- Writing. {0} is an empty message; free(data) when done.

struct wire_out {
    uint8_t *data;
    size_t size, room;
    int err; // TACHY_OK, or TACHY_ERR_NOMEM: what follows is not written
};

void wire_put(struct wire_out *o, const void *data, size_t size); // bytes as they are
void wire_put_int(struct wire_out *o, int number, int64_t v);
void wire_put_float(struct wire_out *o, int number, float v);
void wire_put_bytes(struct wire_out *o, int number, const void *data, size_t size);
// As above: `n` numbers of `size` bytes, stored little-endian.
void wire_put_numbers(struct wire_out *o, int number, const void *data, size_t n, size_t size);
void wire_put_text(struct wire_out *o, int number, const char *text);
// Writes `in` as a field, frees it and makes it empty.
void wire_put_message(struct wire_out *o, int number, struct wire_out *in);
