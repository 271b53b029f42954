#pragma once
#include <stdbool.h>
#include <stdint.h>

// Fields of a protocol buffer's message in memory, which is what an ONNX file is.

enum { PROTO_VARINT, PROTO_FIXED64, PROTO_BYTES, PROTO_FIXED32 = 5 }; // wire types

struct proto_span {
    const uint8_t *at, *end;
};

struct proto_field {
    int number, wire;
    uint64_t value;                 // PROTO_VARINT
    struct proto_span whole, bytes; // with its key; of PROTO_BYTES
};

// The next field of *s, which moves behind it; false at the end, and with *bad where there is none but bytes are left.
bool proto_next(struct proto_span *s, struct proto_field *f, bool *bad);

// Whether all bytes are fields.
bool proto_sound(struct proto_span s);

// The last field of this number, which is what counts; false: there is none.
bool proto_find(struct proto_span in, int number, int wire, struct proto_field *out);
