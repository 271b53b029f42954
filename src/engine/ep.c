#include "engine/ep.h"
#include "engine/ep_builtin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// Plugins that are registered with an environment. A name is registered once a process.
struct tachy_ep_library {
    struct tachy_ep_library *next;
    char *name, *path;
    const OrtEpDevice *devices[16]; // that it brought
    size_t nb;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of every tachy_ort's list

static int check(const struct tachy_ort *ort, OrtStatus *s, const struct tachy_ep *ep,
                 const struct tachy_log *log)
{
    return tachy_ort_check(ort, s, log, "provider %s", ep->name);
}

static bool has_device(const OrtEpDevice *const *all, size_t nb, const OrtEpDevice *d)
{
    for (size_t i = 0; i < nb; i++)
        if (all[i] == d)
            return true;
    return false;
}

// The devices of one execution provider that the registration has added.
static int find_devices(const struct tachy_ort *ort, const struct tachy_ep *ep, const OrtEpDevice **before,
                        size_t nb_before, struct tachy_ep_library *l, const struct tachy_log *log)
{
    const OrtEpDevice *const *all = NULL;
    size_t nb = 0;
    int err = check(ort, ort->api->GetEpDevices(ort->env, &all, &nb), ep, log);
    for (size_t i = 0; i < nb && !err && l->nb < TACHY_ARRAY_SIZE(l->devices); i++) {
        const OrtEpDevice *first = l->nb ? l->devices[0] : all[i];
        if (!has_device((const OrtEpDevice *const *)before, nb_before, all[i]) &&
            !strcmp(ort->api->EpDevice_EpName(first), ort->api->EpDevice_EpName(all[i])))
            l->devices[l->nb++] = all[i];
    }
    if (!err && !l->nb)
        err = tachy_fail(log, TACHY_ERR_UNAVAILABLE, "provider %s: %s finds no device here that it could run on",
                         ep->name, ep->library);
    return err;
}

static int register_library(struct tachy_ort *ort, const struct tachy_ep *ep, struct tachy_ep_library *l,
                            const struct tachy_log *log)
{
    const OrtEpDevice *const *all = NULL;
    size_t nb = 0;
    int err = check(ort, ort->api->GetEpDevices(ort->env, &all, &nb), ep, log);
    const OrtEpDevice **before = err ? NULL : calloc(nb + 1, sizeof(OrtEpDevice *));
    if (!before)
        return err ? err : TACHY_ERR_NOMEM;
    if (nb)
        memcpy(before, all, nb * sizeof(OrtEpDevice *));
    OrtStatus *s = ort->api->RegisterExecutionProviderLibrary(ort->env, ep->name, ep->library);
    if (tachy_ort_check(ort, s, log, "provider %s: %s cannot be loaded", ep->name, ep->library))
        err = TACHY_ERR_UNAVAILABLE;
    else
        err = find_devices(ort, ep, before, nb, l, log);
    if (err && !s && (s = ort->api->UnregisterExecutionProviderLibrary(ort->env, ep->name)))
        ort->api->ReleaseStatus(s);
    free(before);
    return err;
}

static void library_free(struct tachy_ep_library *l)
{
    if (!l)
        return;
    free(l->name);
    free(l->path);
    free(l);
}

static int library_of(struct tachy_ort *ort, const struct tachy_ep *ep, const struct tachy_ep_library **out,
                      const struct tachy_log *log)
{
    struct tachy_ep_library *l = ort->libraries;
    while (l && strcmp(l->name, ep->name) != 0)
        l = l->next;
    *out = l;
    if (l && strcmp(l->path, ep->library) != 0)
        return tachy_fail(log, TACHY_ERR_STATE,
                          "provider %s: %s cannot be loaded while %s is, under the same name", ep->name,
                          ep->library, l->path);
    if (l)
        return TACHY_OK;
    l = calloc(1, sizeof(*l));
    if (!l)
        return TACHY_ERR_NOMEM;
    l->name = strdup(ep->name);
    l->path = strdup(ep->library);
    int err = l->name && l->path ? register_library(ort, ep, l, log) : TACHY_ERR_NOMEM;
    if (err < 0) {
        library_free(l);
        return err;
    }
    l->next = ort->libraries;
    *out = ort->libraries = l;
    return TACHY_OK;
}

void tachy_ep_unload(struct tachy_ort *ort)
{
    while (ort->libraries) {
        struct tachy_ep_library *l = ort->libraries;
        OrtStatus *s = ort->api->UnregisterExecutionProviderLibrary(ort->env, l->name);
        if (s)
            ort->api->ReleaseStatus(s);
        ort->libraries = l->next;
        library_free(l);
    }
}

// "key=value" texts as two lists. free() *keys, which holds everything.
static int split(const char *const *options, const char ***keys, const char ***values, size_t *nb)
{
    size_t n = 0, bytes = 0;
    for (const char *const *o = options; o && *o; o++, n++)
        bytes += strlen(*o) + 2;
    const char **lists = calloc(1, (2 * n + 2) * sizeof(char *) + bytes);
    if (!lists)
        return TACHY_ERR_NOMEM;
    char *text = (char *)(lists + 2 * n + 2);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(options[i]), key = strcspn(options[i], "=");
        memcpy(text, options[i], length + 1);
        text[key] = '\0';
        lists[i] = text;
        lists[n + i] = key < length ? text + key + 1 : text + key;
        text += length + 2;
    }
    *keys = lists;
    *values = lists + n;
    *nb = n;
    return TACHY_OK;
}

// A provider that has several devices takes one a session: the first of the kind that the option `device` names, or the
// first. ONNX Runtime lists them in no certain order.
static const OrtEpDevice *const *device_for(const struct tachy_ort *ort, const struct tachy_ep_library *l,
                                            const char *const *keys, const char *const *values, size_t nb)
{
    const char *wanted = "";
    for (size_t i = 0; i < nb; i++)
        wanted = strcmp(keys[i], "device") ? wanted : values[i];
    OrtHardwareDeviceType kind = !strcmp(wanted, "cuda") ? OrtHardwareDeviceType_GPU : OrtHardwareDeviceType_CPU;
    for (size_t i = 0; i < l->nb && *wanted; i++)
        if (ort->api->HardwareDevice_Type(ort->api->EpDevice_Device(l->devices[i])) == kind)
            return &l->devices[i];
    return l->devices;
}

static int add_plugin(struct tachy_ort *ort, OrtSessionOptions *options, const struct tachy_ep *ep,
                      const char *const *keys, const char *const *values, size_t nb, const struct tachy_log *log)
{
    const struct tachy_ep_library *l = NULL;
    pthread_mutex_lock(&lock);
    int err = library_of(ort, ep, &l, log);
    pthread_mutex_unlock(&lock);
    if (err < 0)
        return err;
    return check(ort,
                 ort->api->SessionOptionsAppendExecutionProvider_V2(options, ort->env, device_for(ort, l, keys, values, nb),
                                                                    1, keys, values, nb),
                 ep, log);
}

int tachy_ep_add(struct tachy_ort *ort, OrtSessionOptions *options, const struct tachy_ep *ep,
                 const struct tachy_log *log)
{
    const char **keys = NULL, **values = NULL;
    size_t nb = 0;
    int err = split(ep->options, &keys, &values, &nb);
    if (err < 0)
        return err;
    err = ep->library ? add_plugin(ort, options, ep, keys, values, nb, log)
                      : tachy_ep_builtin_add(ort, options, tachy_ep_builtin(ep->name), keys, values, nb, log);
    free(keys);
    return err;
}
