// A library that says it is ONNX Runtime 1.17.1: too old for the engine, which must refuse it
// by its version without asking for an API that it lacks.
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("default"))) const void *OrtGetApiBase(void);

static const void *get_api(uint32_t version) { return NULL; }
static const char *get_version(void) { return "1.17.1"; }

const void *OrtGetApiBase(void)
{
    static const struct {
        const void *(*get_api)(uint32_t version);
        const char *(*get_version)(void);
    } base = {get_api, get_version};
    return &base;
}
