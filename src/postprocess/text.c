#include "postprocess/composite_priv.h"

#include "base/numeric.h"

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

void tachy_text_free(struct tachy_text *t)
{
    free(t->p);
    *t = (struct tachy_text){0};
}
