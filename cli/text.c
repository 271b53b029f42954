#include "cli.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static struct winsize size_of(FILE *f)
{
    struct winsize w = {0};
    return isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &w) == 0 ? w : (struct winsize){0};
}

int terminal_width(FILE *f)
{
    int w = size_of(f).ws_col;
    return w >= 20 ? w : 80;
}

int terminal_height(FILE *f) { return size_of(f).ws_row; }

void text_wrap(FILE *f, const char *text, int at, int indent, int width)
{
    for (; at < indent; at++)
        fputc(' ', f);
    bool first = true;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (!first && at + 1 + n > width) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', f);
            at++;
        }
        fwrite(text, 1, (size_t)n, f);
        at += n;
        first = false;
        text += n;
        text += strspn(text, " ");
    }
}

char *text_fit(const char *text, FILE *to)
{
    char *out = NULL, line[1024];
    size_t size, n;
    int width = isatty(fileno(to)) ? terminal_width(to) : INT_MAX;
    FILE *f = open_memstream(&out, &size);
    for (; f && *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)n, text);
        int word = (int)strcspn(line, " ");
        if (n > (size_t)width && word && n < sizeof(line)) {
            fprintf(f, "%.*s", word, line);
            text_wrap(f, line + word, word, 2, width);
        } else {
            fwrite(text, 1, n, f);
        }
        if (text[n])
            fputc('\n', f);
    }
    return f && fclose(f) == 0 ? out : NULL;
}

const char *nth_word(const char *words, int n, char *buf, size_t size)
{
    for (const char *p = words; p && *p;) {
        size_t len = strcspn(p, "|");
        if (n-- == 0) {
            snprintf(buf, size, "%.*s", (int)len, p);
            return buf;
        }
        p += len + (p[len] == '|');
    }
    return NULL;
}

char *list_words(const char *words, const char *last, char *buf, size_t size)
{
    size_t n = 0;
    for (const char *p = words; *p && n + 8 < size; p++) {
        if (*p != '|')
            buf[n++] = *p;
        else
            n += (size_t)snprintf(buf + n, size - n, "%s", strchr(p + 1, '|') ? ", " : last);
    }
    buf[n] = '\0';
    return buf;
}

static bool is_short(const char *values) { return strlen(values) <= 20; }

const char *option_value(const struct tachy_option *o, char *buf, size_t size)
{
    if (o->type == TACHY_OPT_BOOL)
        return NULL;
    if (o->arg)
        return o->arg;
    switch (o->type) {
    case TACHY_OPT_INT:
        return "N";
    case TACHY_OPT_FLOAT:
        return "NUMBER";
    case TACHY_OPT_TIME:
        return "TIME";
    case TACHY_OPT_RATE:
        return "RATE";
    case TACHY_OPT_COLOR:
        return "COLOR";
    case TACHY_OPT_SIZE:
        return "SIZE";
    case TACHY_OPT_ENUM:
        if (is_short(o->values))
            return o->values;
        snprintf(buf, size, "%s", o->name ? o->name : "VALUE");
        for (char *p = buf; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        return buf;
    default:
        return "TEXT";
    }
}

bool has_name(const struct tachy_option *o) { return o->name || o->letter; }

void option_left(const struct tachy_option *o, char *buf, size_t size)
{
    char word[64];
    size_t n = 0;
    const char *value = option_value(o, word, sizeof(word));
    buf[0] = '\0';
    if (o->letter)
        n += (size_t)snprintf(buf, size, "-%c%s", o->letter, o->name ? ", " : "");
    if (o->name && n < size)
        n += (size_t)snprintf(buf + n, size - n, "%s%s", o->one_dash ? "-" : "--", o->name);
    if (value && n < size)
        snprintf(buf + n, size - n, o->bare ? "[=%s]" : " %s", value);
}

void option_right(const struct tachy_option *o, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "%s", o->help);
    char values[256];
    if (o->type == TACHY_OPT_ENUM && !is_short(o->values) && n < size)
        n += (size_t)snprintf(buf + n, size - n, " (%s)", list_words(o->values, ", ", values, sizeof(values)));
    if (o->bare && strcmp(o->bare, "-") && n < size)
        n += (size_t)snprintf(buf + n, size - n, "; without a value %s", o->bare);
    if (o->def && o->type != TACHY_OPT_BOOL && n < size)
        snprintf(buf + n, size - n, " [%s]", o->def);
}

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

long long int_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }
