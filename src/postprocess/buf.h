#pragma once
#include <stdbool.h>
#include <stddef.h>

// Memory that grows and is kept from frame to frame.
struct tachy_buf {
    void *p; // 64-byte aligned
    size_t size;
};
// True where b->p has at least `size` bytes (their values are lost when it grows).
bool tachy_buf_need(struct tachy_buf *b, size_t size);
void tachy_buf_free(struct tachy_buf *b);
