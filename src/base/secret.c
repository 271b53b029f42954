#include "base/base.h"

#include <strings.h>

// Secrets of network addresses. An address ends at white space or a quote; a secret within it at a separator.

static bool ends_address(char c) { return !c || strchr(" \t\n\"'<>", c); }

// The text from `from` to before `end` becomes "***", or as many stars as there is room for; returns its new end.
static char *cover(char *from, char *end)
{
    size_t n = TACHY_MIN((size_t)(end - from), 3);
    memset(from, '*', n);
    memmove(from + n, end, strlen(end) + 1);
    return from + n;
}

// "user:password@" between `from` and `end`.
static char *cover_user(char *from, char *end)
{
    char *slash = memchr(from, '/', (size_t)(end - from)), *stop = TACHY_DEF(slash, end);
    char *at = memrchr(from, '@', (size_t)(stop - from));
    if (!at || !memchr(from, ':', (size_t)(at - from)))
        return end;
    char *to = cover(from, at);
    return end - (at - to);
}

// The key of a stream is the last part of an address of RTMP, after host and application.
static void cover_key(char *from, char *end)
{
    char *host = memchr(from, '/', (size_t)(end - from));
    char *last = host ? memrchr(host + 1, '/', (size_t)(end - host - 1)) : NULL;
    while (end > from && strchr(":;,.", end[-1])) // of the sentence that it stands in
        end--;
    if (last && last + 1 < end)
        cover(last + 1, end);
}

static void cover_values(char *from, char *end)
{
    static const char *const names[] = {"passphrase", "password", "streamid", "token", "key", "sig", "signature"};
    for (char *p = from; p < end; p++) {
        if (*p != '?' && *p != '&')
            continue;
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
            size_t n = strlen(names[i]);
            if (strncasecmp(p + 1, names[i], n) || p[n + 1] != '=')
                continue;
            char *value = p + n + 2, *stop = value + strcspn(value, "& \t\n\"'<>");
            char *to = cover(value, stop);
            end -= stop - to;
        }
    }
}

void tachy_hide_secrets(char *text)
{
    for (char *at = text; at && (at = strstr(at, "://")); at++) {
        char *scheme = at, *from = at + 3, *end = from;
        while (scheme > text && strchr("abcdefghijklmnopqrstuvwxyz", scheme[-1]))
            scheme--;
        while (!ends_address(*end))
            end++;
        end = cover_user(from, end);
        if (!strncmp(scheme, "rtmp:", 5) || !strncmp(scheme, "rtmps:", 6))
            cover_key(from, end);
        else
            cover_values(from, end);
    }
}
