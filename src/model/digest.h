#pragma once
#include "base/base.h"

// SHA-256 of data that comes in pieces.
struct AVSHA;

// NULL: out of memory. Free with digest_hex() or digest_free().
struct AVSHA *digest_new(void);
void digest_add(struct AVSHA *d, const void *data, size_t size);
// 64 lower-case hexadecimal digits and a NUL; frees *d and clears it.
void digest_hex(struct AVSHA **d, char hex[65]);
void digest_free(struct AVSHA **d);
