#pragma once
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// A function of a fake library ("libcuda.so.1"), found as the real one would be. Ends the test if it does not exist.
static inline void *fake_symbol(const char *library, const char *name)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL), *fn = lib ? dlsym(lib, name) : NULL;
    if (!fn) {
        printf("FAIL the fake %s or its %s is not there: `meson test` sets LD_LIBRARY_PATH\n", library, name);
        exit(1);
    }
    return fn;
}
