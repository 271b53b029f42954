#include "onnx/wire.h"

#include "base/base.h"

#include <limits.h>
#include <stdlib.h>

static bool read_varint(struct wire_span *s, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; s->at < s->end && shift < 64; shift += 7) {
        uint8_t b = *s->at++;
        *v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return true;
    }
    return false;
}

// Number of bytes of the value. A varint is read at once, and none are left.
static bool read_size(struct wire_span *s, struct wire_field *f, uint64_t *size)
{
    *size = f->type == WIRE_FIXED64 ? 8 : f->type == WIRE_FIXED32 ? 4 : 0;
    if (f->type == WIRE_VARINT)
        return read_varint(s, &f->value);
    return f->type == WIRE_BYTES ? read_varint(s, size) : *size > 0;
}

bool wire_next(struct wire_span *s, struct wire_field *f, bool *bad)
{
    uint64_t key, size;
    if (s->at == s->end)
        return false;
    f->whole.at = s->at;
    bool ok = read_varint(s, &key) && key >> 3 <= INT_MAX;
    f->number = (int)(key >> 3);
    f->type = (enum wire_type)(key & 7);
    if (!ok || !read_size(s, f, &size) || size > wire_size(*s)) {
        *bad = true;
        return false;
    }
    f->bytes = (struct wire_span){s->at, s->at + size};
    f->whole.end = s->at += size;
    return true;
}

bool wire_sound(struct wire_span s)
{
    struct wire_field f;
    bool bad = false;
    while (wire_next(&s, &f, &bad))
        continue;
    return !bad;
}

bool wire_find(struct wire_span in, int number, enum wire_type type, struct wire_field *out)
{
    struct wire_field f;
    bool found = false, bad = false;
    while (wire_next(&in, &f, &bad)) {
        if (f.number != number || f.type != type)
            continue;
        *out = f;
        found = true;
    }
    return found && !bad;
}

bool wire_is(struct wire_span s, const char *text)
{
    size_t n = strlen(text);
    return wire_size(s) == n && !memcmp(s.at, text, n);
}

void wire_put(struct wire_out *o, const void *data, size_t size)
{
    if (o->err || !size)
        return;
    if (size > o->room - o->size) {
        size_t room = (o->size + size) * 3 / 2 + 256;
        uint8_t *more = realloc(o->data, room);
        if (!more) {
            o->err = TACHY_ERR_NOMEM;
            return;
        }
        o->data = more;
        o->room = room;
    }
    memcpy(o->data + o->size, data, size);
    o->size += size;
}

static void put_varint(struct wire_out *o, uint64_t v)
{
    uint8_t b[10];
    size_t n = 0;
    for (; v > 127; v >>= 7)
        b[n++] = (uint8_t)(v | 128);
    b[n++] = (uint8_t)v;
    wire_put(o, b, n);
}

static void put_key(struct wire_out *o, int number, enum wire_type type)
{
    put_varint(o, (uint64_t)number << 3 | type);
}

void wire_put_int(struct wire_out *o, int number, int64_t v)
{
    put_key(o, number, WIRE_VARINT);
    put_varint(o, (uint64_t)v);
}

void wire_put_float(struct wire_out *o, int number, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof(u));
    uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
    put_key(o, number, WIRE_FIXED32);
    wire_put(o, b, sizeof(b));
}

void wire_put_bytes(struct wire_out *o, int number, const void *data, size_t size)
{
    put_key(o, number, WIRE_BYTES);
    put_varint(o, size);
    wire_put(o, data, size);
}

void wire_put_numbers(struct wire_out *o, int number, const void *data, size_t n, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    wire_put_bytes(o, number, data, n * size);
#else
    put_key(o, number, WIRE_BYTES);
    put_varint(o, n * size);
    for (size_t i = 0; i < n; i++)
        for (size_t k = size; k-- > 0;)
            wire_put(o, (const char *)data + i * size + k, 1);
#endif
}

void wire_put_text(struct wire_out *o, int number, const char *text)
{
    wire_put_bytes(o, number, text, strlen(text));
}

void wire_put_message(struct wire_out *o, int number, struct wire_out *in)
{
    wire_put_bytes(o, number, in->data, in->size);
    o->err = o->err ? o->err : in->err;
    free(in->data);
    *in = (struct wire_out){0};
}
