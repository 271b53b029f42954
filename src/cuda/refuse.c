#include "cuda/device.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Checks whether this build's kernels, of any table, run on a GPU.

// Drivers by CUDA's major version, "CUDA Toolkit Release Notes", table of toolkit and driver versions:
// any driver of a major version runs what a later toolkit of the same one built.
static const char *least_driver(int cuda)
{
    return cuda / 1000 >= 13 ? "580" : cuda / 1000 == 12 ? "525.60" : "450.80";
}

enum { LEAST_CHIP = 75, PTX = 90 }; // compute capabilities: the first in meson.build's list, and the PTX's

// Machine code runs on chips of its major version that are not older, PTX on all that are not.
static bool has_code(int chip)
{
    static const char built[] = "," TACHY_CUDA_CHIPS ",";
    if (strstr(built, ",ptx,") && chip >= PTX)
        return true;
    for (const char *at = built; at[1]; at = strchr(at + 1, ',')) {
        int code = atoi(at + 1);
        if (code && code / 10 == chip / 10 && code <= chip)
            return true;
    }
    return false;
}

const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256])
{
    int chip = 10 * d->cc_major + d->cc_minor, built = TACHY_CUDA_VERSION;
    if (!TACHY_CUDA)
        snprintf(why, 256, "this build has no CUDA kernels: build it with -Dcuda=enabled where the CUDA "
                           "toolkit is installed");
    else if (chip < LEAST_CHIP)
        snprintf(why, 256, "%s has compute capability %d.%d, and the kernels need %d.%d (Turing) or newer",
                 d->name, d->cc_major, d->cc_minor, LEAST_CHIP / 10, LEAST_CHIP % 10);
    else if (!has_code(chip))
        snprintf(why, 256, "this build has no machine code for %s (compute capability %d.%d), only for %s: build it "
                           "with all of -Dgpu_chips", d->name, d->cc_major, d->cc_minor, TACHY_CUDA_CHIPS);
    else if (d->driver / 1000 < built / 1000)
        snprintf(why, 256, "the driver offers CUDA %d.%d, and the kernels were built with %d.%d: install "
                           "NVIDIA's driver %s or newer", d->driver / 1000, d->driver % 1000 / 10,
                 built / 1000, built % 1000 / 10, least_driver(built));
    else
        return NULL;
    return why;
}

int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log)
{
    char why[256];
    return tachy_cuda_refuses(d, why) ? tachy_fail(log, TACHY_ERR_UNAVAILABLE, "GPU %d: %s", d->ordinal, why) : TACHY_OK;
}
