// Driver functions that FFmpeg's CUDA device and encoders need besides those of fake_cuda.c. FFmpeg looks for every
// function that any of its parts may use; those that we never reach fail.
#include "fake.h"

#include <string.h>

enum { NOT_SUPPORTED = 801 };

int fake_cuda_refused(const char *name); // fake_cuda.c

FAKE_API int cuDeviceComputeCapability(int *major, int *minor, cuda_device device)
{
    *major = 9;
    *minor = 0;
    return fake_cuda_refused(__func__);
}

FAKE_API int cuMemcpy2D_v2(const struct cuda_copy_2d *c)
{
    const char *from = c->from_kind == CUDA_MEMORY_DEVICE ? (char *)(uintptr_t)c->from_device : c->from_host;
    char *to = c->to_kind == CUDA_MEMORY_DEVICE ? (char *)(uintptr_t)c->to_device : c->to_host;
    int err = fake_cuda_refused(__func__);
    if (err)
        return err;
    for (size_t y = 0; y < c->height; y++)
        memcpy(to + y * c->to_pitch, from + y * c->from_pitch, c->width);
    return 0;
}

#define ABSENT(name)                                                                                          \
    FAKE_API int name(void) { return NOT_SUPPORTED; }
ABSENT(cuCtxSetLimit)
ABSENT(cuMemAllocPitch_v2)
ABSENT(cuMemAllocManaged)
ABSENT(cuMemcpy)
ABSENT(cuMemcpyAsync)
ABSENT(cuMemcpyDtoD_v2)
ABSENT(cuDevicePrimaryCtxRelease)
ABSENT(cuDevicePrimaryCtxSetFlags)
ABSENT(cuDevicePrimaryCtxGetState)
ABSENT(cuDevicePrimaryCtxReset)
ABSENT(cuStreamQuery)
ABSENT(cuStreamAddCallback)
ABSENT(cuLaunchKernel)
ABSENT(cuLinkCreate)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkDestroy)
ABSENT(cuModuleLoadData)
ABSENT(cuModuleUnload)
ABSENT(cuModuleGetFunction)
ABSENT(cuModuleGetGlobal)
ABSENT(cuTexObjectCreate)
ABSENT(cuTexObjectDestroy)
ABSENT(cuGLGetDevices_v2)
ABSENT(cuGraphicsGLRegisterImage)
ABSENT(cuGraphicsUnregisterResource)
ABSENT(cuGraphicsMapResources)
ABSENT(cuGraphicsUnmapResources)
ABSENT(cuGraphicsSubResourceGetMappedArray)
ABSENT(cuGraphicsResourceGetMappedPointer_v2)
ABSENT(cuArray3DCreate_v2)
ABSENT(cuArrayDestroy)
