#include "report/json_text.h"

#include "base/numeric.h"

const char *report_text(const json_t *o, const char *key, const char *other)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s && *s ? s : other;
}

long long report_int(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

int report_as_text(char **text, const char *json, void (*print)(FILE *f, json_t *o))
{
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !json)
        return TACHY_ERR_INVAL;
    json_t *o = json_loads(json, 0, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        return TACHY_ERR_FORMAT;
    }
    FILE *f = open_memstream(text, &size);
    locale_t before = tachy_numeric_enter();
    if (f)
        print(f, o);
    tachy_numeric_leave(before);
    json_decref(o);
    return f && fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
