#include "provider/options.h"

#include "base/base.h"
#include "base/parse.h"

#include <ctype.h>
#include <stdio.h>

// The entry "ep.NAME.KEY", name in small letters; *value is empty where there is none.
static OrtStatus *entry(const struct provider *p, const OrtSessionOptions *session, const char *name,
                        const char *key, char *value, size_t size)
{
    char full[256] = "ep.";
    size_t n = strlen(full);
    for (; *name && n + 1 < sizeof(full); name++)
        full[n++] = (char)tolower((unsigned char)*name);
    snprintf(full + n, sizeof(full) - n, ".%s", key);
    int there = 0;
    value[0] = '\0';
    OrtStatus *s = p->api->HasSessionConfigEntry(session, full, &there);
    return s || !there ? s : p->api->GetSessionConfigEntry(session, full, value, &size);
}

static OrtStatus *read_int(const struct provider *p, const OrtSessionOptions *session, const char *name,
                           const char *key, int lo, int hi, int *out)
{
    char value[64], text[256];
    int64_t n;
    OrtStatus *s = entry(p, session, name, key, value, sizeof(value));
    if (s || !value[0])
        return s;
    if (tachy_parse_int(value, &n) && n >= lo && n <= hi) {
        *out = (int)n;
        return NULL;
    }
    snprintf(text, sizeof(text), "tachy: %s=%s: wants a whole number from %d to %d", key, value, lo, hi);
    return p->api->CreateStatus(ORT_INVALID_ARGUMENT, text);
}

OrtStatus *provider_options_read(struct provider_options *o, const struct provider *p, const char *name,
                                 const OrtSessionOptions *session)
{
    *o = (struct provider_options){.plan.threads = 1};
    return read_int(p, session, name, "threads", 1, 256, &o->plan.threads);
}
