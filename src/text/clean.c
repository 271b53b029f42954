#include "text/clean.h"

#include <stdlib.h>
#include <utf8proc.h>

// Characters of a text, as numbers.
struct runes {
    int32_t *v;
    size_t n, room;
    bool failed; // out of memory
};

static void put(struct runes *r, int32_t c)
{
    if (r->n == r->room) {
        size_t room = TACHY_MAX(2 * r->room, 64);
        int32_t *v = realloc(r->v, room * sizeof(*v));
        if (!v) {
            r->failed = true;
            return;
        }
        r->v = v;
        r->room = room;
    }
    r->v[r->n++] = c;
}

static void put_text(struct runes *r, const char *text)
{
    int32_t c;
    for (const uint8_t *p = (const uint8_t *)text; *p;) {
        utf8proc_ssize_t n = utf8proc_iterate(p, -1, &c);
        put(r, n > 0 ? c : 0xfffd);
        p += TACHY_MAX(n, 1);
    }
}

// `r` becomes `with`, and `with` is empty memory.
static void take(struct runes *r, struct runes *with)
{
    struct runes old = *r;
    bool failed = r->failed || with->failed;
    *r = *with;
    *with = old;
    with->n = 0;
    r->failed = with->failed = failed;
}

static char *to_text(const struct runes *r)
{
    uint8_t *text = r->failed ? NULL : malloc(4 * r->n + 1);
    size_t n = 0;
    for (size_t i = 0; text && i < r->n; i++)
        n += (size_t)utf8proc_encode_char(r->v[i], text + n);
    if (text)
        text[n] = '\0';
    return (char *)text;
}

// ---- HTML's named and numbered characters

enum { NAME_MAX_LEN = 33 };

static int compare(const void *name, const void *entity) { return strcmp(name, ((const struct text_entity *)entity)->name); }

static const struct text_entity *named(const char *name)
{
    return bsearch(name, text_entities, (size_t)text_nb_entities, sizeof(text_entities[0]), compare);
}

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }
static bool is_hex(int32_t c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_letter(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Windows-1252 above 0x80, as browsers read it; what is not assigned stays.
static int32_t windows(int32_t c)
{
    static const uint16_t above[32] = {0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
                                       0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
                                       0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};
    return c >= 0x80 && c <= 0x9f ? above[c - 0x80] : c;
}

// The character of a number, by HTML's rules for those that are none. Returns 0 if it stands for nothing.
static int32_t numbered(uint64_t c)
{
    bool control = c <= 8 || (c >= 0xe && c <= 0x1f) || (c >= 0x7f && c <= 0x9f) || c == 0xb;
    bool none = (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
    if (c == 0 || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return 0xfffd;
    if (c >= 0x80 && c <= 0x9f)
        return windows((int32_t)c);
    return control || none ? 0 : (int32_t)c;
}

// "#123" or "#x1f" at `p`: how many characters it has, 0 if it is none.
static size_t read_number(const int32_t *p, size_t n, uint64_t *value)
{
    bool hex = n > 1 && (p[1] == 'x' || p[1] == 'X');
    size_t begin = hex ? 2 : 1, i = begin;
    *value = 0;
    for (; i < n && (hex ? is_hex(p[i]) : is_digit(p[i])); i++)
        *value = TACHY_MIN(*value * (hex ? 16 : 10) + (uint64_t)(is_digit(p[i]) ? p[i] - '0' : (p[i] | 32) - 'a' + 10), 0x110000);
    return i > begin ? i : 0;
}

// As a browser: with or without a semicolon, the longest matching name. `p` is after the "&"; returns the number of
// characters read, 0: they stand for themselves.
static size_t unescape_one(struct runes *to, const int32_t *p, size_t n)
{
    char name[NAME_MAX_LEN + 1];
    uint64_t value;
    size_t len = n && p[0] == '#' ? read_number(p, n, &value) : 0, most = 0;
    if (len) {
        int32_t c = numbered(value);
        if (c)
            put(to, c);
        return len + (len < n && p[len] == ';');
    }
    if (n && p[0] == '#')
        return 0;
    while (most < n && most < 32 && p[most] < 0x80 && !strchr("\t\n\f <&#;", (char)p[most])) {
        name[most] = (char)p[most];
        most++;
    }
    if (most < n && p[most] == ';')
        name[most++] = ';';
    for (len = most; len > 1; len--) {
        name[len] = '\0';
        const struct text_entity *e = named(name);
        if (!e || e->capital)
            continue;
        put_text(to, e->text);
        return len;
    }
    return 0;
}

// As ftfy: names and numbers that end in a semicolon, and names in capitals.
static size_t unescape_strict(struct runes *to, const int32_t *p, size_t n)
{
    char name[NAME_MAX_LEN + 1];
    size_t begin = n && p[0] == '#', len = begin;
    uint64_t value;
    while (len < n && len < begin + 24 && (is_digit(p[len]) || is_letter(p[len])))
        len++;
    if (len == begin || len == n || p[len] != ';')
        return 0;
    if (begin) {
        if (read_number(p, n, &value) != len)
            return 0;
        int32_t c = numbered(value);
        if (c && c != ';')
            put(to, c);
        return c == ';' ? 0 : len + 1;
    }
    for (size_t i = 0; i <= len; i++)
        name[i] = (char)p[i];
    name[len + 1] = '\0';
    const struct text_entity *e = named(name);
    if (e)
        put_text(to, e->text);
    return e ? len + 1 : 0;
}

static void unescape(struct runes *r, struct runes *tmp, size_t (*one)(struct runes *to, const int32_t *p, size_t n))
{
    tmp->n = 0;
    for (size_t i = 0; i < r->n;) {
        size_t used = r->v[i] == '&' ? one(tmp, r->v + i + 1, r->n - i - 1) : 0;
        if (!used)
            put(tmp, r->v[i]);
        i += 1 + used;
    }
    take(r, tmp);
}

// ---- ftfy's repairs of single characters

static const char *ligature(int32_t c)
{
    static const struct {
        uint16_t c;
        const char *text;
    } all[] = {{0x132, "IJ"}, {0x133, "ij"}, {0x149, "\u02bcn"}, {0x1f1, "DZ"}, {0x1f2, "Dz"}, {0x1f3, "dz"}, {0x1c4, "D\u017d"},
               {0x1c5, "D\u017e"}, {0x1c6, "d\u017e"}, {0x1c7, "LJ"}, {0x1c8, "Lj"}, {0x1c9, "lj"}, {0x1ca, "NJ"}, {0x1cb, "Nj"},
               {0x1cc, "nj"}, {0xfb00, "ff"}, {0xfb01, "fi"}, {0xfb02, "fl"}, {0xfb03, "ffi"}, {0xfb04, "ffl"}, {0xfb05, "\u017ft"},
               {0xfb06, "st"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        if (all[i].c == c)
            return all[i].text;
    return NULL;
}

static void put_single(struct runes *to, int32_t c)
{
    const char *text = ligature(c);
    if (text) {
        put_text(to, text);
    } else if (c >= 0xff01 && c <= 0xffef) { // full-width and half-width forms
        int32_t plain[8];
        utf8proc_ssize_t n = utf8proc_decompose_char(c, plain, 8, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, NULL);
        for (utf8proc_ssize_t i = 0; i < n; i++)
            put(to, plain[i]);
    } else {
        put(to, c == 0x3000 ? ' ' : c);
    }
}

static int32_t uncurl(int32_t c)
{
    if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b))
        return '\'';
    return c >= 0x201c && c <= 0x201f ? '"' : c;
}

static bool is_dropped(int32_t c)
{
    return c <= 8 || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || (c >= 0x206a && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffc);
}

// "\033[1;31m" at `p`: how many characters it has, 0 if it is none.
static size_t terminal_escape(const int32_t *p, size_t n)
{
    size_t i = 2;
    if (n < 3 || p[0] != 033 || p[1] != '[')
        return 0;
    while (i < n && (p[i] == ';' || utf8proc_category(p[i]) == UTF8PROC_CATEGORY_ND))
        i++;
    return i < n && is_letter(p[i]) ? i + 1 : 0;
}

static void repair(struct runes *r, struct runes *tmp)
{
    tmp->n = 0;
    for (size_t i = 0; i < r->n; i++)
        put_single(tmp, windows(r->v[i]));
    take(r, tmp);
    for (size_t i = 0; i < r->n; i++) {
        int32_t c = uncurl(r->v[i]);
        if (c == '\r' && i + 1 < r->n && r->v[i + 1] == '\n')
            continue;
        put(tmp, c == '\r' || c == 0x2028 || c == 0x2029 ? '\n' : c);
    }
    take(r, tmp);
    for (size_t i = 0; i < r->n;) {
        size_t escape = terminal_escape(r->v + i, r->n - i);
        if (!escape && !is_dropped(r->v[i]))
            put(tmp, r->v[i]);
        i += TACHY_MAX(escape, 1);
    }
    take(r, tmp);
}

static void compose(struct runes *r, struct runes *tmp)
{
    char *text = to_text(r);
    uint8_t *composed = text ? utf8proc_NFC((uint8_t *)text) : NULL;
    r->failed |= !composed;
    tmp->n = 0;
    if (composed)
        put_text(tmp, (char *)composed);
    take(r, tmp);
    free(text);
    free(composed);
}

static bool has(const struct runes *r, int32_t c)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i] == c)
            return true;
    return false;
}

// A line, until nothing changes any more: a repair may uncover another.
static void fix_line(struct runes *r, bool entities)
{
    struct runes before = {0}, tmp = {0};
    bool same = false;
    while (!same && !r->failed) {
        before.n = 0;
        for (size_t i = 0; i < r->n; i++)
            put(&before, r->v[i]);
        if (entities)
            unescape(r, &tmp, unescape_strict);
        repair(r, &tmp);
        compose(r, &tmp);
        r->failed |= before.failed;
        same = before.n == r->n && !memcmp(before.v, r->v, r->n * sizeof(*r->v));
    }
    free(before.v);
    free(tmp.v);
}

// From the first line with a "<" on the text is taken to be HTML on purpose.
static void fix(struct runes *r)
{
    struct runes all = {0}, line = {0};
    bool entities = true;
    for (size_t i = 0; i < r->n;) {
        line.n = 0;
        do
            put(&line, r->v[i]);
        while (r->v[i++] != '\n' && i < r->n);
        entities = entities && !has(&line, '<');
        fix_line(&line, entities);
        for (size_t k = 0; k < line.n; k++)
            put(&all, line.v[k]);
        all.failed |= line.failed;
    }
    take(r, &all);
    free(all.v);
    free(line.v);
}

// ---- White space and capitals

// The characters at which Python's str.split() splits.
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static void join_words(struct runes *r, struct runes *tmp)
{
    tmp->n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (!is_space(r->v[i]))
            put(tmp, r->v[i]);
        else if (tmp->n && tmp->v[tmp->n - 1] != ' ')
            put(tmp, ' ');
    if (tmp->n && tmp->v[tmp->n - 1] == ' ')
        tmp->n--;
    take(r, tmp);
}

static bool is_cased(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

// Marks and signs that do not count when the end of a word is looked for (Unicode's Case_Ignorable, in the main).
static bool is_ignored(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
           k == UTF8PROC_CATEGORY_SK || (c < 0x80 ? c && strchr("'.:^`", (char)c) : c == 0xb7 || c == 0x2019 || c == 0x2027);
}

// A capital sigma at the end of a word has a special lower-case form.
static bool ends_word(const struct runes *r, size_t i)
{
    size_t before = i, after = i + 1;
    while (before && is_ignored(r->v[before - 1]))
        before--;
    while (after < r->n && is_ignored(r->v[after]))
        after++;
    return before && is_cased(r->v[before - 1]) && !(after < r->n && is_cased(r->v[after]));
}

static void lower(struct runes *r, struct runes *tmp)
{
    tmp->n = 0;
    for (size_t i = 0; i < r->n; i++) {
        int32_t c = r->v[i];
        if (c == 0x130) // I with a dot: i and a dot
            put(tmp, 'i');
        put(tmp, c == 0x130 ? 0x307 : c == 0x3a3 && ends_word(r, i) ? 0x3c2 : utf8proc_tolower(c));
    }
    take(r, tmp);
}

int tachy_text_clean(char **out, const char *text)
{
    struct runes r = {0}, tmp = {0};
    put_text(&r, text);
    fix(&r);
    unescape(&r, &tmp, unescape_one);
    unescape(&r, &tmp, unescape_one);
    join_words(&r, &tmp);
    lower(&r, &tmp);
    *out = to_text(&r);
    free(r.v);
    free(tmp.v);
    return *out ? TACHY_OK : TACHY_ERR_NOMEM;
}
