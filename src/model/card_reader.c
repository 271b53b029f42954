#include "model/card_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

void card_bad(struct card_reader *r, const char *key, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (!r->err)
        r->err = tachy_fail(r->log, TACHY_ERR_FORMAT, "%s: `%s%s` %s", r->origin, r->section, key,
                            what);
}

void card_only(struct card_reader *r, json_t *o, const char *const *known, size_t n)
{
    const char *key;
    json_t *value;
    json_object_foreach(o, key, value) {
        size_t i = 0;
        while (i < n && strcmp(known[i], key))
            i++;
        if (i < n)
            continue;
        const char *near = tachy_nearest(key, known, n);
        card_bad(r, key, "is not a key of model cards%s%s%s", near ? "; did you mean `" : "",
            near ? near : "", near ? "`?" : "");
    }
}

void card_ask(struct card_reader *r, json_t *o, const char *key, const char *question)
{
    json_t *v = json_object_get(o, key);
    if (json_is_null(v) || (json_is_string(v) && !json_string_length(v)))
        card_bad(r, key, "is open: %s", question);
}

json_t *card_object(struct card_reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (!v)
        card_bad(r, key, "is missing");
    else if (!json_is_object(v))
        card_bad(r, key, "must be an object");
    return json_is_object(v) ? v : NULL;
}

const char *card_text(struct card_reader *r, json_t *o, const char *key, const char *def)
{
    json_t *v = json_object_get(o, key);
    if (!v) {
        if (!def)
            card_bad(r, key, "is missing");
        return def ? def : "";
    }
    if (!json_is_string(v)) {
        card_bad(r, key, "must be a text in quotes");
        return "";
    }
    if (!def && !json_string_length(v))
        card_bad(r, key, "must not be empty");
    return json_string_value(v);
}

int card_whole(struct card_reader *r, json_t *o, const char *key, int lo, int hi, int def)
{
    json_t *v = json_object_get(o, key);
    if (!v) {
        if (def < lo)
            card_bad(r, key, "is missing");
        return def;
    }
    json_int_t n = json_integer_value(v);
    if (json_is_integer(v) && n >= lo && n <= hi)
        return (int)n;
    card_bad(r, key, "must be a whole number from %d to %d", lo, hi);
    return lo;
}

float card_number(struct card_reader *r, const char *key, json_t *v)
{
    double d = json_number_value(v);
    if (json_is_number(v) && isfinite((float)d))
        return (float)d;
    card_bad(r, key, "must be a number");
    return 0;
}

int card_choice(struct card_reader *r, json_t *o, const char *key, const char *const *names, int def)
{
    json_t *v = json_object_get(o, key);
    if (!v && def >= 0)
        return def;
    const char *word = card_text(r, o, key, NULL);
    char list[256] = "";
    for (int i = 0; names[i]; i++) {
        if (!strcmp(names[i], word))
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    }
    card_bad(r, key, "is \"%s\"; it must be one of %s", word, list);
    return 0;
}

void card_triple(struct card_reader *r, json_t *o, const char *key, float def, float out[3])
{
    json_t *v = json_object_get(o, key);
    out[0] = out[1] = out[2] = def;
    if (!v)
        return;
    if (json_is_array(v) && json_array_size(v) != 3) {
        card_bad(r, key, "must have three numbers, in the order of `channels`");
        return;
    }
    for (size_t i = 0; i < 3; i++)
        out[i] = card_number(r, key, json_is_array(v) ? json_array_get(v, i) : v);
}

const char *card_digest(struct card_reader *r, json_t *o, const char *key, const char *def)
{
    const char *hex = card_text(r, o, key, def);
    if (*hex && (strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64))
        card_bad(r, key, "must be a SHA-256 as 64 lower-case hexadecimal digits");
    return hex;
}

const char *card_plain_name(struct card_reader *r, json_t *o, const char *key, bool lower)
{
    const char *s = card_text(r, o, key, NULL);
    bool ok = isalnum((unsigned char)s[0]) && strlen(s) <= 200;
    for (const char *p = s; *p; p++)
        ok = ok && (isalnum((unsigned char)*p) || strchr("._+-", *p)) &&
             !(lower && isupper((unsigned char)*p));
    if (!ok)
        card_bad(r, key, "must be a plain name of %s, digits, `.`, `_` and `-`, without folders",
            lower ? "lower-case letters" : "letters");
    return s;
}
