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

void tachy_text_put(struct tachy_text *t, const char *s, size_t n)
{
    if (!room(t, n))
        return;
    memcpy(t->p + t->len, s, n);
    t->len += n;
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

// The last `n` digits of `v`; returns their end.
static char *digits_of(char *to, int64_t v, int n)
{
    for (int i = n - 1; i >= 0; i--, v /= 10)
        to[i] = (char)('0' + v % 10);
    return to + n;
}

// |v| of 0.001 up to a million with `digits` significant ones, 6..9, in fixed notation: what "%.*g" gives. false: another
// float comes back. Every product is exact: 24 bits of v and 26 of 5^11 fit a double.
static bool fixed(char *to, double v, int digits)
{
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11};
    int whole = v < 1 ? v < 0.01 ? -2 : v < 0.1 ? -1 : 0 : 1; // places before the point
    while (whole > 0 && v >= power[whole])
        whole++;
    int places = digits - whole;
    double n = nearbyint(v * power[places]);
    if ((float)(n / power[places]) != (float)v)
        return false;
    int64_t all = (int64_t)n, unit = (int64_t)power[places], part = all % unit;
    while (places && part % 10 == 0) {
        part /= 10;
        places--;
    }
    to = digits_of(to, all / unit, TACHY_MAX(whole, 1));
    if (places)
        *to++ = '.';
    *digits_of(to, part, places) = '\0';
    return true;
}

// In the notation that "%g" chooses, whatever the locale.
static void any(char *to, size_t size, float v)
{
    locale_t before = tachy_numeric_enter();
    int digits = 6;
    do
        snprintf(to, size, "%.*g", digits, (double)v);
    while (strtof(to, NULL) != v && digits++ < 9);
    tachy_numeric_leave(before);
}

void tachy_text_number(struct tachy_text *t, float v)
{
    char text[32] = "null", *to = text;
    float size = fabsf(v);
    bool done = !isfinite(v);
    if (size >= 0.001f && size < 1e6f) {
        if (v < 0)
            *to++ = '-';
        for (int digits = 6; digits <= 9 && !done; digits++)
            done = fixed(to, size, digits);
    }
    if (!done && size >= 1e6f && size <= 1 << 24 && size == truncf(size)) // a packed colour reads as the whole number that it is
        snprintf(text, sizeof(text), "%.0f", (double)v);
    else if (!done)
        any(text, sizeof(text), v);
    size_t n = strlen(text);
    if (!room(t, n))
        return;
    memcpy(t->p + t->len, text, n + 1);
    t->len += n;
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

void tachy_text_cell(struct tachy_text *t, const char *s)
{
    bool quotes = strpbrk(s, ",\"\r\n");
    if (quotes)
        tachy_text_char(t, '"');
    for (; *s; s++) {
        if (*s == '"')
            tachy_text_char(t, '"');
        tachy_text_char(t, *s);
    }
    if (quotes)
        tachy_text_char(t, '"');
}

void tachy_text_free(struct tachy_text *t)
{
    free(t->p);
    *t = (struct tachy_text){0};
}
