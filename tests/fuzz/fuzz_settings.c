// libFuzzer target: any bytes as a YAML configuration file, and its lines as NAME=VALUE of the command line. All values
// set are read back in every type.
#include "fuzz.h"

#include "base/base.h"

#include <tachy/settings.h>

static void read_back(const tachy_settings *s)
{
    volatile double sum = 0;
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        const char *const *items;
        const char *text = tachy_settings_str(s, o->path);
        size_t n = tachy_settings_list(s, o->path, &items);
        for (size_t i = 0; i < n; i++)
            sum += (double)strlen(items[i]);
        sum += text ? (double)strlen(text) : 0;
        sum += (double)tachy_settings_int(s, o->path) + tachy_settings_float(s, o->path);
        sum += tachy_settings_bool(s, o->path) + tachy_settings_rate(s, o->path).num;
        sum += tachy_settings_color(s, o->path);
        sum += (double)strlen(tachy_settings_origin(s, o->path));
    }
    (void)sum;
}

static void set_lines(tachy_settings *s, const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = NULL;
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (value)
            *value++ = '\0';
        tachy_settings_set(s, line, value ? value : "yes", "command line");
        // A row of each type gets the text, so that each parser sees it.
        unsigned seen = 1u << TACHY_OPT_LIST;
        for (const struct tachy_option *o = tachy_options(); value && o->path; o++) {
            if (!(seen >> o->type & 1))
                tachy_settings_set(s, o->path, value, "all");
            seen |= 1u << o->type;
        }
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tachy_settings *s = NULL;
    if (tachy_settings_new(&s, NULL))
        abort();
    tachy_settings_load(s, fuzz_file(data, size));
    read_back(s);
    set_lines(s, data, size);
    read_back(s);
    tachy_settings_free(&s);
    return 0;
}
