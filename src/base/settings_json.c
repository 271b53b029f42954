#include "base/settings_json.h"

#include "base/base.h"
#include "base/numeric.h"
#include "base/options.h"

#include <stdlib.h>

json_t *tachy_setting_json(const tachy_settings *s, const struct tachy_option *o)
{
    const char *const *items, *text = tachy_settings_str(s, o->path);
    if (o->type == TACHY_OPT_BOOL && text)
        return json_string(tachy_settings_bool(s, o->path) ? "yes" : "no");
    if ((o->type == TACHY_OPT_INT || o->type == TACHY_OPT_FLOAT) && text) {
        locale_t before = tachy_numeric_enter();
        json_t *number = json_sprintf("%.9g", tachy_settings_float(s, o->path));
        tachy_numeric_leave(before);
        return number;
    }
    if (o->type != TACHY_OPT_LIST)
        return text ? json_string(text) : NULL;
    size_t n = tachy_settings_list(s, o->path, &items);
    json_t *list = n ? json_array() : NULL;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(items[i]));
    return list;
}

static json_t *value_json(const tachy_settings *s, const struct tachy_option *o)
{
    const char *const *items;
    if (o->type == TACHY_OPT_LIST ? !tachy_settings_list(s, o->path, &items) && !tachy_settings_is_set(s, o->path)
                                  : !tachy_settings_str(s, o->path))
        return json_null();
    switch (o->type) {
    case TACHY_OPT_BOOL:
        return json_boolean(tachy_settings_bool(s, o->path));
    case TACHY_OPT_INT:
        return json_integer(tachy_settings_int(s, o->path));
    case TACHY_OPT_FLOAT:
    case TACHY_OPT_TIME:
        return json_real(tachy_settings_float(s, o->path));
    case TACHY_OPT_LIST: {
        json_t *list = json_array();
        size_t n = tachy_settings_list(s, o->path, &items);
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, json_string(items[i]));
        return list;
    }
    default:
        return json_string(tachy_settings_str(s, o->path));
    }
}

int tachy_settings_json(char **json, const tachy_settings *s)
{
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(s ? tachy_settings_log(s) : NULL, json && s))
        return TACHY_ERR_INVAL;
    json_t *all = json_object();
    for (const struct tachy_option *o = tachy_settings_options(s); o->path; o++) {
        json_t *value = o->command_only ? NULL : value_json(s, o);
        if (!value)
            continue;
        const char *origin = json_is_null(value) ? "not set" : tachy_settings_origin(s, o->path);
        json_t *row = json_pack("{s:o, s:s}", "value", value, "origin", origin);
        if (o->planned)
            json_object_set_new(row, "no_effect_yet", json_string(o->planned));
        if (o->needless)
            json_object_set_new(row, "not_needed", json_string(o->needless));
        json_object_set_new(all, o->path, row);
    }
    *json = json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(all);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}
