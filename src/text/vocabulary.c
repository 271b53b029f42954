#include "text/vocabulary.h"

#include "base/index.h"
#include "base/mix.h"
#include "text/clean.h"

#include <errno.h>
#include <stdlib.h>
#include <utf8proc.h>
#include <zlib.h>

// Tokens 0 to 255 are the bytes in an order of their own, 256 to 511 the same at the end of a word, then one for each merge of
// two tokens, then begin and end.
enum { BYTES = 256, FIRST_MERGE = 2 * BYTES, MERGES = 48894, BEGIN = FIRST_MERGE + MERGES, END = BEGIN + 1 };
static const size_t most_bytes = 16 << 20;

struct merge {
    int32_t a, b;
};

struct tachy_vocabulary {
    uint8_t of_byte[BYTES];  // its token
    struct merge merge[MERGES]; // of two tokens to FIRST_MERGE + index, which is also its rank
    struct tachy_index by_pair;
};

// ---- Reading

// While a file is read: tokens by their text.
struct reader {
    tachy_vocabulary *v;
    const char *path;
    const struct tachy_log *log;
    char *text[BEGIN];
    struct tachy_index by_text;
};

static bool same_text(const void *user, const void *key, int number)
{
    return !strcmp(((const struct reader *)user)->text[number], key);
}

static uint64_t hash_of(const char *text) { return tachy_mix(0, text, strlen(text)); }

static int find(const struct reader *r, const char *text) { return tachy_index_find(&r->by_text, hash_of(text), same_text, r, text); }

static int add(struct reader *r, int token, char *text)
{
    r->text[token] = text;
    return text ? tachy_index_add(&r->by_text, hash_of(text), token) : TACHY_ERR_NOMEM;
}

// Bytes that are printed as themselves come first, in their order; the others are printed as characters from 256 on.
static int add_bytes(struct reader *r)
{
    int token = 0, other = 256, err = TACHY_OK;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < BYTES && err == TACHY_OK; b++) {
            uint8_t text[8] = {0};
            bool printed = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
            if (printed != !pass)
                continue;
            utf8proc_encode_char(printed ? b : other++, text);
            r->v->of_byte[b] = (uint8_t)token;
            err = add(r, token, strdup((char *)text));
            if (err == TACHY_OK)
                err = add(r, BYTES + token, tachy_asprintf("%s</w>", (char *)text));
            token++;
        }
    return err;
}

static uint64_t hash_of_pair(int32_t a, int32_t b) { return tachy_mix((uint64_t)a, &b, sizeof(b)); }

static int add_merge(struct reader *r, char *line, int i)
{
    char *second = strchr(line, ' '), *end = second ? strchr(second + 1, '\r') : NULL;
    if (end)
        *end = '\0';
    if (second)
        *second++ = '\0';
    int a = second ? find(r, line) : -1, b = second ? find(r, second) : -1;
    if (a < 0 || b < 0)
        return tachy_fail(r->log, TACHY_ERR_FORMAT, "%s:%d: is no pair of tokens that are known by then", r->path, i + 2);
    r->v->merge[i] = (struct merge){a, b};
    int err = tachy_index_add(&r->v->by_pair, hash_of_pair(a, b), i);
    return err == TACHY_OK ? add(r, FIRST_MERGE + i, tachy_asprintf("%s%s", line, second)) : err;
}

static int read_merges(struct reader *r, char *text)
{
    char *line = strchr(text, '\n'), *next;
    int err = add_bytes(r), n = 0;
    for (line = line ? line + 1 : NULL; line && *line && n < MERGES && err == TACHY_OK; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        err = add_merge(r, line, n++);
    }
    if (err == TACHY_OK && n < MERGES)
        err = tachy_fail(r->log, TACHY_ERR_FORMAT, "%s: has %d pairs; a vocabulary of CLIP has %d", r->path, n, MERGES);
    return err;
}

// The whole file, unpacked.
static int read_file(char **out, const char *path, const struct tachy_log *log)
{
    gzFile f = gzopen(path, "rb");
    *out = NULL;
    if (!f)
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: cannot be opened: %s", path, strerror(errno));
    char *text = malloc(most_bytes + 1);
    int n = text ? gzread(f, text, (unsigned)most_bytes) : 0, code = 0, err = TACHY_OK;
    const char *why = gzerror(f, &code);
    if (!text)
        err = TACHY_ERR_NOMEM;
    else if (n < 0 || code < 0)
        err = tachy_fail(log, TACHY_ERR_FORMAT, "%s: cannot be unpacked: %s", path, why);
    else
        text[n] = '\0';
    gzclose(f);
    if (err < 0)
        free(text);
    else
        *out = text;
    return err;
}

int tachy_vocabulary_read(tachy_vocabulary **out, const char *path, const struct tachy_log *log)
{
    char *text;
    struct reader *r = calloc(1, sizeof(*r));
    *out = NULL;
    if (!r || !(r->v = calloc(1, sizeof(*r->v)))) {
        free(r);
        return TACHY_ERR_NOMEM;
    }
    r->path = path;
    r->log = log;
    int err = read_file(&text, path, log);
    if (err == TACHY_OK)
        err = read_merges(r, text);
    free(text);
    for (int i = 0; i < BEGIN; i++)
        free(r->text[i]);
    tachy_index_free(&r->by_text);
    if (err < 0)
        tachy_vocabulary_close(&r->v);
    *out = r->v;
    free(r);
    return err;
}

void tachy_vocabulary_close(tachy_vocabulary **v)
{
    if (*v)
        tachy_index_free(&(*v)->by_pair);
    free(*v);
    *v = NULL;
}

// ---- Cutting a text into words, and words into tokens

// Tokens of a text; `word` is one word's, while pairs are merged.
struct tokens {
    int32_t *to, *word;
    int n, room;
};

static bool same_pair(const void *user, const void *key, int number)
{
    const struct merge *m = &((const tachy_vocabulary *)user)->merge[number], *k = key;
    return m->a == k->a && m->b == k->b;
}

// The merges of a word, the one with the lowest rank first and everywhere at once.
static int merge_word(const tachy_vocabulary *v, int32_t *w, int n)
{
    while (n > 1) {
        int best = INT32_MAX, left = 0;
        for (int i = 0; i + 1 < n; i++) {
            const struct merge pair = {w[i], w[i + 1]};
            int rank = tachy_index_find(&v->by_pair, hash_of_pair(pair.a, pair.b), same_pair, v, &pair);
            if (rank >= 0)
                best = TACHY_MIN(best, rank);
        }
        if (best == INT32_MAX)
            break;
        for (int i = 0; i < n; left++) {
            bool both = i + 1 < n && w[i] == v->merge[best].a && w[i + 1] == v->merge[best].b;
            w[left] = both ? FIRST_MERGE + best : w[i];
            i += both ? 2 : 1;
        }
        n = left;
    }
    return n;
}

static void add_word(const tachy_vocabulary *v, struct tokens *t, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->word[i] = v->of_byte[(uint8_t)word[i]] + (i + 1 == n ? BYTES : 0);
    int k = merge_word(v, t->word, (int)n);
    for (int i = 0; i < k && t->n < t->room; i++)
        t->to[t->n++] = t->word[i];
}

enum kind { SPACE, LETTER, NUMBER, OTHER };

// `*n`: bytes of the character at `p`.
static enum kind kind_of(const char *p, size_t *n)
{
    int32_t c = 0;
    utf8proc_ssize_t used = utf8proc_iterate((const uint8_t *)p, -1, &c);
    *n = (size_t)TACHY_MAX(used, 1);
    utf8proc_category_t k = utf8proc_category(c);
    if (c == ' ')
        return SPACE;
    if (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO)
        return LETTER;
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO ? NUMBER : OTHER;
}

// Bytes of an ending that is a separate word ("'s"), 0 if there is none; \u017f is a long s.
static size_t ending(const char *p)
{
    static const char *const all[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'\u017f"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        if (!strncmp(p, all[i], strlen(all[i])))
            return strlen(all[i]);
    return 0;
}

// Bytes of the word at `p`: a run of letters, one digit, or a run of other signs.
static size_t word_at(const char *p)
{
    size_t n, all;
    enum kind kind = kind_of(p, &all);
    while (kind != NUMBER && p[all] && kind_of(p + all, &n) == kind)
        all += n;
    return all;
}

static bool begins(const char *p, const char *with) { return !strncmp(p, with, strlen(with)); }

static void add_words(const tachy_vocabulary *v, struct tokens *t, const char *p)
{
    static const char first[] = "<start_of_text>", last[] = "<end_of_text>";
    while (*p && t->n < t->room) {
        size_t n = ending(p);
        if (*p == ' ') {
            p++;
        } else if (begins(p, first) || begins(p, last)) {
            bool end = begins(p, last);
            t->to[t->n++] = end ? END : BEGIN;
            p += (end ? sizeof(last) : sizeof(first)) - 1;
        } else {
            n = TACHY_DEF(n, word_at(p));
            add_word(v, t, p, n);
            p += n;
        }
    }
}

int tachy_tokenize(const tachy_vocabulary *v, const char *text, int32_t *tokens, int room)
{
    char *clean = NULL;
    if (strlen(text) > TACHY_TEXT_LONGEST)
        return TACHY_ERR_INVAL;
    int err = tachy_text_clean(&clean, text);
    struct tokens t = {.to = tokens, .room = room, .word = err == TACHY_OK ? calloc(strlen(clean) + 1, sizeof(*t.word)) : NULL};
    if (t.word) {
        t.to[t.n++] = BEGIN;
        add_words(v, &t, clean);
        t.n = TACHY_MIN(t.n, room - 1);
        t.to[t.n++] = END;
    }
    bool done = t.word;
    free(clean);
    free(t.word);
    return done ? t.n : TACHY_ERR_NOMEM;
}
