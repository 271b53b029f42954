#include "base/output_options.h"

#include "base/base.h"

static const char *const keys[] = {"f", "codec", "preset", "crf", "bitrate", "filter", "pix_fmt", "audio_codec",
                                   "audio_filter"};

static bool is_key(const char *text, size_t n)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(keys); i++)
        if (strlen(keys[i]) == n && !strncmp(text, keys[i], n))
            return true;
    return false;
}

// End of a value: ':' or ']', or the end of a text that is no option.
static const char *value_end(const char *p)
{
    while (*p && *p != ':' && *p != ']')
        p += *p == '\\' && p[1] ? 2 : 1;
    return p;
}

const char *tachy_output_name(const char *text)
{
    if (!text || *text != '[' || !is_key(text + 1, strcspn(text + 1, "=]")))
        return text;
    const char *p = text + 1;
    while (*(p = value_end(p)) == ':')
        p++;
    return *p == ']' ? p + 1 : text;
}

// A value without its backslashes. False: there is no room.
static bool read_value(const char *from, const char *end, char *value, size_t size)
{
    size_t n = 0;
    for (; from < end && n + 1 < size; from++) {
        from += *from == '\\' && from + 1 < end;
        value[n++] = *from;
    }
    value[n] = '\0';
    return from == end;
}

bool tachy_output_option(const char *text, const char *key, char *value, size_t size)
{
    const char *name = tachy_output_name(text);
    size_t n = strlen(key);
    for (const char *p = text + 1, *end; p < name; p = end + 1) {
        end = value_end(p);
        if (!strncmp(p, key, n) && p[n] == '=')
            return read_value(p + n + 1, end, value, size);
    }
    return false;
}

int tachy_output_check_options(const char *text, const struct tachy_log *log)
{
    char value[TACHY_OUTPUT_VALUE];
    const char *name = tachy_output_name(text);
    if (!*name)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: a name is missing after the options of the output", text);
    for (const char *p = text + 1, *end; p < name; p = end + 1) {
        end = value_end(p);
        const char *equals = memchr(p, '=', (size_t)(end - p));
        if (!equals || !is_key(p, (size_t)(equals - p)))
            return tachy_fail(log, TACHY_ERR_INVAL, "%s: %.*s is no option of an output; f, codec, preset, crf, "
                              "bitrate, filter, pix_fmt, audio_codec and audio_filter are, as in [f=mpegts:crf=20]NAME",
                              text, (int)((equals ? equals : end) - p), p);
        if (equals + 1 == end || !read_value(equals + 1, end, value, sizeof(value)))
            return tachy_fail(log, TACHY_ERR_INVAL, "%s: the value of %.*s is %s", text, (int)(equals - p), p,
                              equals + 1 == end ? "missing" : "too long");
    }
    return TACHY_OK;
}

unsigned tachy_output_kinds(const tachy_settings *s)
{
    const char *const *outputs, *format = tachy_settings_str(s, "output.format");
    char own[TACHY_OUTPUT_VALUE];
    size_t n = tachy_settings_list(s, "output.file", &outputs);
    unsigned kinds = n ? 0 : 1u << tachy_text_format(NULL, format);
    for (size_t i = 0; i < n; i++)
        kinds |= 1u << tachy_text_format(tachy_output_name(outputs[i]),
                                         tachy_output_option(outputs[i], "f", own, sizeof(own)) ? own : format);
    return kinds;
}
