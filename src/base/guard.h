#pragma once
#include <stdbool.h>
#include <stddef.h>

// Memory next to an inaccessible page, for tests and for finding faults: a read or write past that end faults at once,
// in code of every instruction set and without a sanitizer.
enum tachy_guard {
    TACHY_GUARD_NONE,
    TACHY_GUARD_END,   // the page follows the last byte
    TACHY_GUARD_BEGIN, // the page precedes the first byte
};

// `size` bytes, 0 included, that start at a multiple of `align`, a power of two of at most a page. With
// TACHY_GUARD_END up to `align - 1` bytes lie between the last one and the page. Every byte is 0xff, which
// makes floats NaN. At the other end the rest of a page, which tachy_guard_free() examines, comes before a page
// that may not be touched either. NULL: no memory. Thread-safe; takes system calls.
void *tachy_guard_alloc(size_t size, size_t align, enum tachy_guard side);

// Says so on stderr and aborts if a byte in that rest of a page was written. NULL does nothing.
void tachy_guard_free(void *p);
