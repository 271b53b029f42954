#include "base/settings_json.h"

#include "base/numeric.h"

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
