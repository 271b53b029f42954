#include "base/parse.h"
#include "base/base.h"
#include "base/numeric.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

bool tachy_parse_bool(const char *text, bool *out)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(words); i++) {
        if (!strcasecmp(text, words[i])) {
            *out = i & 1;
            return true;
        }
    }
    return false;
}

bool tachy_parse_int(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits))
        return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *out = v;
    return true;
}

// strtod() with a decimal point, without hex, inf and nan.
static bool parse_number(const char *text, double *out, const char **end)
{
    size_t n = strspn(text, "+-.0123456789eE");
    if (!n || !(isdigit((unsigned char)text[0]) || strchr("+-.", text[0])))
        return false;
    char *stop;
    locale_t before = tachy_numeric_enter();
    double v = strtod(text, &stop);
    tachy_numeric_leave(before);
    if (stop == text || stop > text + n || !isfinite(v))
        return false;
    *out = v;
    *end = stop;
    return true;
}

bool tachy_parse_float(const char *text, double *out)
{
    double v;
    const char *end;
    if (!parse_number(text, &v, &end) || *end)
        return false;
    *out = v;
    return true;
}

// "MM:" and "HH:MM:" in front of the seconds. Minutes after hours, and seconds after minutes,
// stay below 60.
static bool parse_clock(const char *text, double *out)
{
    double total = 0;
    for (int parts = 0; parts < 3; parts++) {
        size_t digits = strspn(text, "0123456789");
        if (!digits || digits > 9)
            return false;
        bool last = text[digits] != ':';
        double v;
        const char *end;
        if (!parse_number(text, &v, &end))
            return false;
        if (last && (*end || strpbrk(text, "eE")))
            return false;
        if (parts && v >= 60)
            return false;
        total = total * 60 + v;
        if (last) {
            *out = total;
            return true;
        }
        text += digits + 1;
    }
    return false;
}

bool tachy_parse_time(const char *text, double *out)
{
    double v;
    if (strchr(text, ':')) {
        bool negative = *text == '-';
        if (!parse_clock(text + negative, &v))
            return false;
        *out = negative ? -v : v;
        return true;
    }
    const char *end;
    if (!parse_number(text, &v, &end))
        return false;
    if (!strcmp(end, "ms"))
        v /= 1e3;
    else if (!strcmp(end, "us"))
        v /= 1e6;
    else if (*end && strcmp(end, "s"))
        return false;
    *out = v;
    return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

// Digits, with at most six after a point: num / den in lowest terms.
static bool parse_decimal(const char *text, int64_t *num, int64_t *den)
{
    int64_t n = 0, d = 1;
    bool point = false, any = false;
    for (; *text; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (!isdigit((unsigned char)*text) || n > INT_MAX || d > 100000)
            return false;
        any = true;
        n = n * 10 + (*text - '0');
        d *= point ? 10 : 1;
    }
    *num = n;
    *den = d;
    return any;
}

bool tachy_parse_rate(const char *text, struct tachy_rational *out)
{
    char head[32];
    int64_t n, d, dn = 1, dd = 1;
    size_t len = strcspn(text, "/");
    if (len >= sizeof(head))
        return false;
    memcpy(head, text, len);
    head[len] = '\0';
    if (!parse_decimal(head, &n, &d))
        return false;
    if (text[len] && !parse_decimal(text + len + 1, &dn, &dd))
        return false;
    n *= dd; // each factor is below 2^35 and 10^6: no overflow
    d *= dn;
    if (n <= 0 || d <= 0)
        return false;
    int64_t g = gcd(n, d);
    n /= g;
    d /= g;
    if (n > INT_MAX || d > INT_MAX)
        return false;
    *out = (struct tachy_rational){(int)n, (int)d};
    return true;
}

// One side: digits only, which end at `end`.
static bool parse_side(const char *text, int *out, const char **end)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 5)
        return false;
    int v = 0;
    for (size_t i = 0; i < digits; i++)
        v = v * 10 + (text[i] - '0');
    *out = v;
    *end = text + digits;
    return v >= 1 && v <= 16384;
}

bool tachy_parse_size(const char *text, int *width, int *height)
{
    int w, h;
    const char *end;
    if (!parse_side(text, &w, &end))
        return false;
    h = w;
    if (*end == 'x' && !parse_side(end + 1, &h, &end))
        return false;
    if (*end)
        return false;
    *width = w;
    *height = h;
    return true;
}
