#include "base/guard.h"

#include "base/base.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// A mapping is a page with this header, a page that may not be touched, the pages of the data, and another
// page that may not be touched.
struct header {
    size_t mapped;         // bytes of the whole mapping
    uint8_t *begin, *end;  // of the data's pages
    uint8_t *data;
    size_t size;           // of the data
};

enum { FILL = 0xff };

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *tachy_guard_alloc(size_t size, size_t align, enum tachy_guard side)
{
    size_t page = page_size();
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t pages = TACHY_ALIGN(size, page), mapped = pages + 3 * page;
    uint8_t *map = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    uint8_t *begin = map + 2 * page, *data = begin;
    if (mprotect(map, page, PROT_READ | PROT_WRITE) < 0 ||
        (pages && mprotect(begin, pages, PROT_READ | PROT_WRITE) < 0)) {
        munmap(map, mapped);
        return NULL;
    }
    if (side == TACHY_GUARD_END)
        data += (pages - size) / align * align;
    memset(begin, FILL, pages);
    *(struct header *)(void *)map = (struct header){mapped, begin, begin + pages, data, size};
    return data;
}

void tachy_guard_free(void *p)
{
    if (!p)
        return;
    size_t page = page_size();
    uint8_t *map = (uint8_t *)p - (uintptr_t)p % page - 2 * page;
    struct header h = *(struct header *)(void *)map;
    size_t written = 0;
    for (const uint8_t *b = h.begin; b < h.end; b++)
        written += (b < h.data || b >= h.data + h.size) && *b != FILL;
    if (written) {
        fprintf(stderr, "guard: %zu bytes beside a buffer of %zu were written\n", written, h.size);
        abort();
    }
    munmap(map, h.mapped);
}
