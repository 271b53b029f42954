#include "engine/proto.h"

#include <limits.h>

static bool read_varint(struct proto_span *s, uint64_t *v)
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

bool proto_next(struct proto_span *s, struct proto_field *f, bool *bad)
{
    uint64_t key, n = 0;
    if (s->at == s->end)
        return false;
    f->whole.at = s->at;
    bool ok = read_varint(s, &key) && key >> 3 <= INT_MAX;
    f->number = (int)(key >> 3);
    f->wire = (int)(key & 7);
    if (ok && f->wire == PROTO_VARINT)
        ok = read_varint(s, &f->value);
    else if (ok && f->wire == PROTO_BYTES)
        ok = read_varint(s, &n);
    else if (ok)
        ok = f->wire == PROTO_FIXED64 || f->wire == PROTO_FIXED32;
    if (f->wire == PROTO_FIXED64 || f->wire == PROTO_FIXED32)
        n = f->wire == PROTO_FIXED64 ? 8 : 4;
    if (!ok || n > (uint64_t)(s->end - s->at)) {
        *bad = true;
        return false;
    }
    f->bytes = (struct proto_span){s->at, s->at + n};
    f->whole.end = s->at += n;
    return true;
}

bool proto_sound(struct proto_span s)
{
    struct proto_field f;
    bool bad = false;
    while (proto_next(&s, &f, &bad))
        continue;
    return !bad;
}

bool proto_find(struct proto_span in, int number, int wire, struct proto_field *out)
{
    struct proto_field f;
    bool found = false, bad = false;
    while (proto_next(&in, &f, &bad)) {
        if (f.number != number || f.wire != wire)
            continue;
        *out = f;
        found = true;
    }
    return found && !bad;
}
