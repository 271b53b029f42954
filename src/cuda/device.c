#include "cuda/device.h"

#include "base/base.h"

static int attribute(const struct tachy_device *d, int which)
{
    int v = 0;
    return d->cu->device_attribute(&v, which, d->id) == CUDA_OK ? v : 0;
}

int tachy_device_describe(struct tachy_device *d, const struct tachy_cu *cu, int ordinal,
                          const struct tachy_log *log)
{
    int count = 0;
    *d = (struct tachy_device){.cu = cu, .ordinal = ordinal};
    int err = tachy_cu_check(cu, cu->device_count(&count), log, "GPUs cannot be counted");
    if (err == TACHY_OK && (ordinal < 0 || ordinal >= count))
        err = tachy_fail(log, TACHY_ERR_INVAL, "there is no GPU %d: the driver counts %d", ordinal,
                         count);
    if (err == TACHY_OK)
        err = tachy_cu_check(cu, cu->device_get(&d->id, ordinal), log, "a GPU cannot be opened");
    if (err == TACHY_OK)
        err = tachy_cu_check(cu, cu->device_name(d->name, sizeof(d->name), d->id), log,
                             "a GPU does not say its name");
    if (err < 0)
        return err;
    if (cu->device_bytes(&d->bytes, d->id))
        d->bytes = 0;
    if (cu->device_pci(d->pci, sizeof(d->pci), d->id))
        d->pci[0] = '\0';
    if (cu->driver_version(&d->driver))
        d->driver = 0;
    d->cc_major = attribute(d, CUDA_ATTR_CC_MAJOR);
    d->cc_minor = attribute(d, CUDA_ATTR_CC_MINOR);
    d->sm_count = attribute(d, CUDA_ATTR_SM_COUNT);
    d->l2_bytes = (size_t)attribute(d, CUDA_ATTR_L2_BYTES);
    return TACHY_OK;
}

// The contexts that this thread is in, the innermost last: one that it is in already is not pushed again.
enum { NESTED = 8 };
static _Thread_local struct {
    cuda_context context;
    const struct tachy_cu *cu;
    int times; // 0: it has been left, but the thread lingers
} entered[NESTED];
static _Thread_local int nb_entered;
static _Thread_local bool lingers;

static void pop(void)
{
    cuda_context mine;
    entered[--nb_entered].cu->context_pop(&mine);
}

// Out of those that have been left, up to one that is `wanted`.
static void pop_left(cuda_context wanted)
{
    while (nb_entered && !entered[nb_entered - 1].times && entered[nb_entered - 1].context != wanted)
        pop();
}

static bool enter_again(const struct tachy_device *d)
{
    pop_left(d->context);
    if (!nb_entered || entered[nb_entered - 1].context != d->context)
        return false;
    entered[nb_entered - 1].times++;
    return true;
}

int tachy_device_enter(struct tachy_device *d, const struct tachy_log *log)
{
    int err = TACHY_OK;
    if (!d->context)
        err = tachy_cu_check(d->cu, d->cu->context_retain(&d->context, d->id), log, d->name);
    if (err < 0) {
        d->context = NULL;
        return err;
    }
    if (enter_again(d))
        return TACHY_OK;
    if (nb_entered == NESTED)
        return tachy_fail(log, TACHY_ERR_STATE, "%s: a thread is in %d contexts", d->name, NESTED);
    err = tachy_cu_check(d->cu, d->cu->context_push(d->context), log, d->name);
    if (err < 0)
        return err;
    entered[nb_entered].context = d->context;
    entered[nb_entered].cu = d->cu;
    entered[nb_entered++].times = 1;
    return TACHY_OK;
}

void tachy_device_leave(struct tachy_device *d)
{
    pop_left(d->context);
    bool inside = nb_entered > 1; // of another, whose calls come next
    if (!--entered[nb_entered - 1].times && (!lingers || inside))
        pop();
}

void tachy_device_linger(bool on)
{
    lingers = on;
    if (!on)
        pop_left(NULL);
}

void tachy_device_close(struct tachy_device *d)
{
    if (d->cu && d->context)
        d->cu->context_release(d->id);
    d->context = NULL;
}

bool tachy_device_nvml(const struct tachy_cu *cu, int ordinal, const struct tachy_nvml *nvml, nvml_device *out)
{
    struct tachy_device d;
    bool found = tachy_device_describe(&d, cu, ordinal, NULL) == TACHY_OK && nvml->by_pci(d.pci, out) == NVML_OK;
    tachy_device_close(&d);
    return found;
}
