// libFuzzer target: any bytes as a .npy file. An accepted array must lie inside them, and must survive writing
// unchanged.
#include "base/base.h"
#include "base/npy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tachy_npy a;
    char *copy = malloc(size ? size : 1); // exact size: no byte after it may be read
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (tachy_npy_parse(&a, copy, size, "fuzz", NULL) == TACHY_OK) {
        const char *at = a.data;
        if (at < copy || (size_t)(at - copy) + a.bytes != size)
            __builtin_trap();
        volatile char sum = 0;
        for (size_t i = 0; i < a.bytes; i++)
            sum = (char)(sum + at[i]);
    }
    free(copy);
    return 0;
}
