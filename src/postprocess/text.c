#include "postprocess/text.h"

#include "base/numeric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool room(struct tachy_text *t, size_t n)
{
    if (t->failed)
        return false;
    if (t->len + n + 1 <= t->cap)
        return true;
    size_t cap = TACHY_MAX(2 * t->cap, t->len + n + 256);
    char *p = realloc(t->p, cap);
    t->failed = !p;
    if (!p)
        return false;
    t->p = p;
    t->cap = cap;
    return true;
}

void tachy_text_char(struct tachy_text *t, char c)
{
    if (!room(t, 1))
        return;
    t->p[t->len++] = c;
    t->p[t->len] = '\0';
}

void tachy_text_add(struct tachy_text *t, const char *fmt, ...)
{
    va_list ap;
    char buf[256]; // callers write numbers and short names
    locale_t before = tachy_numeric_enter();
    va_start(ap, fmt);
    int n = vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    tachy_numeric_leave(before);
    if (n < 0 || (size_t)n >= sizeof(buf) || !room(t, (size_t)n)) {
        t->failed = true;
        return;
    }
    memcpy(t->p + t->len, buf, (size_t)n + 1);
    t->len += (size_t)n;
}

void tachy_text_number(struct tachy_text *t, float v)
{
    char text[32] = "null";
    bool same = !isfinite(v);
    for (int digits = 6; digits <= 9 && !same; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)v);
        same = strtof(text, NULL) == v;
    }
    for (char *c = text; *c; c++) // whatever the locale
        *c = *c == ',' ? '.' : *c;
    tachy_text_add(t, "%s", text);
}

void tachy_text_string(struct tachy_text *t, const char *s)
{
    tachy_text_char(t, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            tachy_text_char(t, '\\');
        if ((unsigned char)*s < ' ')
            tachy_text_add(t, "\\u%04x", (unsigned char)*s);
        else
            tachy_text_char(t, *s);
    }
    tachy_text_char(t, '"');
}

void tachy_text_free(struct tachy_text *t)
{
    free(t->p);
    *t = (struct tachy_text){0};
}
