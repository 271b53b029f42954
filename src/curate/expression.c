#include "curate/expression.h"

#include "base/base.h"
#include "base/parse.h"

#include <ctype.h>
#include <stdlib.h>

// A lexer of one token ahead and recursive descent. Nodes lie in one array; a node's operands come before it.

enum { TEXT_MAX = 4096, DEPTH_MAX = 64, NODES_MAX = 1024, NAMES_MAX = 256 };

enum kind {
    NUMBER, TEXT, NAME, NOT, NEGATIVE, // one operand at most
    OR, AND, LESS, LESS_EQUAL, MORE, MORE_EQUAL, EQUAL, NOT_EQUAL, ADD, SUBTRACT, MULTIPLY, DIVIDE,
};

struct node {
    enum kind kind;
    int a, b;            // operands: indices of nodes
    int name;            // of NAME: index of the run's names
    struct curate_value value; // of NUMBER and TEXT; the latter's text is `at` bytes into texts
    size_t at;
};

struct curate_expression {
    struct node *node;
    int n, root;
    char *texts; // the strings, each with its NUL
};

enum token { END, T_NUMBER, T_TEXT, T_NAME, T_SIGN, T_WRONG };

struct reader {
    const char *text, *at, *what;
    const struct tachy_log *log;
    struct curate_names *names;
    struct curate_expression *e;
    size_t texts;
    int depth;
    enum token token; // the next one
    const char *begin; // of it
    size_t size;
    double number;
    bool told;
};

// ---- Tokens

static size_t sign_size(const char *s)
{
    static const char *const two[] = {"<=", ">=", "==", "!=", "&&", "||"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(two); i++)
        if (!strncmp(s, two[i], 2))
            return 2;
    return strchr("<>+-*/(),!=", *s) ? 1 : 0;
}

// Digits, a point and an exponent, in every locale.
static size_t read_number(const char *s, double *out)
{
    char digits[64];
    size_t n = strspn(s, "0123456789.");
    if (s[n] == 'e' || s[n] == 'E') {
        size_t sign = s[n + 1] == '+' || s[n + 1] == '-', more = strspn(s + n + 1 + sign, "0123456789");
        n += more ? 1 + sign + more : 0;
    }
    if (n >= sizeof(digits))
        return 0;
    memcpy(digits, s, n);
    digits[n] = '\0';
    return tachy_parse_float(digits, out) ? n : 0;
}

static void next(struct reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
    const char *s = r->begin = r->at;
    r->token = T_WRONG;
    r->size = 1;
    if (!*s) {
        r->token = END;
        r->size = 0;
    } else if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) {
        r->size = read_number(s, &r->number);
        r->token = r->size ? T_NUMBER : T_WRONG;
    } else if (isalpha((unsigned char)*s) || *s == '_') {
        while (isalnum((unsigned char)s[r->size]) || s[r->size] == '_' || (s[r->size] == '.' && isalpha((unsigned char)s[r->size + 1])))
            r->size++;
        r->token = T_NAME;
    } else if (*s == '"' || *s == '\'') {
        const char *end = strchr(s + 1, *s);
        r->token = end ? T_TEXT : T_WRONG;
        r->size = end ? (size_t)(end - s) + 1 : strlen(s);
    } else if (sign_size(s)) {
        r->token = T_SIGN;
        r->size = sign_size(s);
    }
    r->at = r->begin + r->size;
}

static bool is(const struct reader *r, const char *word)
{
    return (r->token == T_SIGN || r->token == T_NAME) && strlen(word) == r->size && !memcmp(r->begin, word, r->size);
}

static bool take(struct reader *r, const char *word)
{
    bool there = is(r, word);
    if (there)
        next(r);
    return there;
}

static int expected(struct reader *r, const char *what)
{
    int column = (int)(r->begin - r->text) + 1;
    if (r->told)
        return TACHY_ERR_INVAL;
    r->told = true;
    if (r->token == T_WRONG && (*r->begin == '"' || *r->begin == '\''))
        return tachy_fail(r->log, TACHY_ERR_INVAL, "%s: column %d: the text that begins here has no end; a %c is missing", r->what,
                          column, *r->begin);
    if (r->token == END)
        return tachy_fail(r->log, TACHY_ERR_INVAL, "%s: column %d: %s is expected, but the expression ends there", r->what, column, what);
    return tachy_fail(r->log, TACHY_ERR_INVAL, "%s: column %d: %s is expected, not \"%.*s\"", r->what, column, what,
                      (int)TACHY_MIN(r->size, 40), r->begin);
}

// ---- Nodes: each function gives an index or a negative code.

static int add(struct reader *r, struct node node)
{
    struct curate_expression *e = r->e;
    if (e->n == NODES_MAX)
        return tachy_fail(r->log, TACHY_ERR_LIMIT, "%s: has more than %d parts", r->what, NODES_MAX);
    e->node[e->n] = node;
    return e->n++;
}

static int add_name(struct reader *r)
{
    struct curate_names *all = r->names;
    for (int i = 0; i < all->n; i++)
        if (strlen(all->name[i]) == r->size && !memcmp(all->name[i], r->begin, r->size))
            return add(r, (struct node){.kind = NAME, .name = i});
    if (all->n == NAMES_MAX)
        return tachy_fail(r->log, TACHY_ERR_LIMIT, "%s: the conditions have more than %d names", r->what, NAMES_MAX);
    char **more = realloc(all->name, ((size_t)all->n + 1) * sizeof(*more));
    if (!more)
        return TACHY_ERR_NOMEM;
    all->name = more;
    more[all->n] = strndup(r->begin, r->size);
    if (!more[all->n])
        return TACHY_ERR_NOMEM;
    return add(r, (struct node){.kind = NAME, .name = all->n++});
}

static int add_text(struct reader *r)
{
    size_t at = r->texts, size = r->size - 2;
    memcpy(r->e->texts + at, r->begin + 1, size);
    r->e->texts[at + size] = '\0';
    r->texts += size + 1;
    return add(r, (struct node){.kind = TEXT, .value = {.kind = CURATE_TEXT}, .at = at});
}

static int any_of(struct reader *r);

static int primary(struct reader *r)
{
    int made;
    static const char *const words[] = {"and", "or", "not", "in"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(words); i++)
        if (is(r, words[i]))
            return expected(r, "a name, number or text");
    if (take(r, "(")) {
        made = any_of(r);
        return made < 0 || take(r, ")") ? made : expected(r, "\")\"");
    }
    if (r->token == T_NUMBER)
        made = add(r, (struct node){.kind = NUMBER, .value = {.kind = CURATE_NUMBER, .number = r->number}});
    else if (r->token == T_NAME)
        made = add_name(r);
    else if (r->token == T_TEXT)
        made = add_text(r);
    else
        return expected(r, "a name, number or text");
    next(r);
    return made;
}

static int unary(struct reader *r, const char *sign, enum kind kind, int (*operand)(struct reader *r))
{
    if (!take(r, sign))
        return operand(r);
    if (++r->depth > DEPTH_MAX)
        return tachy_fail(r->log, TACHY_ERR_LIMIT, "%s: is nested more than %d deep", r->what, DEPTH_MAX);
    int a = unary(r, sign, kind, operand);
    r->depth--;
    return a < 0 ? a : add(r, (struct node){.kind = kind, .a = a});
}

static int signed_value(struct reader *r) { return unary(r, "-", NEGATIVE, primary); }

struct sign {
    const char *text;
    enum kind kind;
};

// Operands with signs of one rank between them, from left to right.
static int chain(struct reader *r, const struct sign *signs, int (*operand)(struct reader *r))
{
    int a = operand(r);
    for (const struct sign *s = signs; a >= 0 && s->text;) {
        if (!take(r, s->text)) {
            s++;
            continue;
        }
        int b = operand(r);
        a = b < 0 ? b : add(r, (struct node){.kind = s->kind, .a = a, .b = b});
        s = signs;
    }
    return a;
}

static int product(struct reader *r)
{
    return chain(r, (const struct sign[]){{"*", MULTIPLY}, {"/", DIVIDE}, {0}}, signed_value);
}

static int sum(struct reader *r)
{
    return chain(r, (const struct sign[]){{"+", ADD}, {"-", SUBTRACT}, {0}}, product);
}

// `category in ("cat", "dog")`: equal to one of them.
static int one_of(struct reader *r, int a)
{
    int all = -1;
    if (!take(r, "("))
        return expected(r, "\"(\"");
    do {
        int b = sum(r), same = b < 0 ? b : add(r, (struct node){.kind = EQUAL, .a = a, .b = b});
        all = same < 0 || all < 0 ? same : add(r, (struct node){.kind = OR, .a = all, .b = same});
        if (all < 0)
            return all;
    } while (take(r, ","));
    return take(r, ")") ? all : expected(r, "\",\" or \")\"");
}

static int comparison(struct reader *r)
{
    static const struct sign signs[] = {{"<=", LESS_EQUAL}, {"<", LESS}, {">=", MORE_EQUAL}, {">", MORE},
                                        {"==", EQUAL}, {"=", EQUAL}, {"!=", NOT_EQUAL}};
    int a = sum(r);
    if (a >= 0 && take(r, "in"))
        return one_of(r, a);
    for (size_t i = 0; a >= 0 && i < TACHY_ARRAY_SIZE(signs); i++) {
        if (!take(r, signs[i].text))
            continue;
        int b = sum(r);
        return b < 0 ? b : add(r, (struct node){.kind = signs[i].kind, .a = a, .b = b});
    }
    return a;
}

static int truth(struct reader *r)
{
    return is(r, "!") ? unary(r, "!", NOT, comparison) : unary(r, "not", NOT, comparison);
}

static int all_of(struct reader *r) { return chain(r, (const struct sign[]){{"and", AND}, {"&&", AND}, {0}}, truth); }

static int any_of(struct reader *r)
{
    if (++r->depth > DEPTH_MAX)
        return tachy_fail(r->log, TACHY_ERR_LIMIT, "%s: is nested more than %d deep", r->what, DEPTH_MAX);
    int made = chain(r, (const struct sign[]){{"or", OR}, {"||", OR}, {0}}, all_of);
    r->depth--;
    return made;
}

static void point_at_texts(struct curate_expression *e)
{
    for (int i = 0; i < e->n; i++)
        if (e->node[i].kind == TEXT)
            e->node[i].value.text = e->texts + e->node[i].at;
}

int curate_expression_read(struct curate_expression **out, const char *text, const char *what, struct curate_names *names,
                           const struct tachy_log *log)
{
    *out = NULL;
    if (strlen(text) > TEXT_MAX)
        return tachy_fail(log, TACHY_ERR_LIMIT, "%s: is longer than %d characters", what, TEXT_MAX);
    struct reader r = {.text = text, .at = text, .what = what, .log = log, .names = names};
    struct curate_expression *e = r.e = calloc(1, sizeof(*e));
    if (e) {
        e->node = calloc(NODES_MAX, sizeof(*e->node));
        e->texts = malloc(strlen(text) + 1);
    }
    int err = e && e->node && e->texts ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        next(&r);
        err = e->root = any_of(&r);
    }
    if (err >= 0)
        err = r.token == END ? TACHY_OK : expected(&r, "\"and\", \"or\" or a comparison");
    if (err < 0) {
        curate_expression_free(&e);
        return err;
    }
    point_at_texts(e);
    *out = e;
    return TACHY_OK;
}

void curate_expression_free(struct curate_expression **e)
{
    if (!*e)
        return;
    free((*e)->node);
    free((*e)->texts);
    free(*e);
    *e = NULL;
}

void curate_names_free(struct curate_names *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct curate_names){0};
}

// ---- Evaluation

static struct curate_value number(double v) { return (struct curate_value){.kind = CURATE_NUMBER, .number = v}; }

static bool is_true(struct curate_value v)
{
    return v.kind == CURATE_NUMBER ? v.number != 0 : v.kind == CURATE_TEXT && *v.text;
}

static struct curate_value compared(enum kind kind, struct curate_value a, struct curate_value b)
{
    if (a.kind != b.kind || a.kind == CURATE_NOTHING)
        return number(kind == NOT_EQUAL);
    int order = a.kind == CURATE_TEXT ? strcmp(a.text, b.text) : (a.number > b.number) - (a.number < b.number);
    bool holds = kind == LESS         ? order < 0
                 : kind == LESS_EQUAL ? order <= 0
                 : kind == MORE       ? order > 0
                 : kind == MORE_EQUAL ? order >= 0
                 : kind == EQUAL      ? order == 0
                                      : order != 0;
    return number(holds);
}

static struct curate_value computed(enum kind kind, struct curate_value a, struct curate_value b)
{
    struct curate_value nothing = {.kind = CURATE_NOTHING};
    if (a.kind != CURATE_NUMBER || b.kind != CURATE_NUMBER || (kind == DIVIDE && b.number == 0))
        return nothing;
    return number(kind == ADD        ? a.number + b.number
                  : kind == SUBTRACT ? a.number - b.number
                  : kind == MULTIPLY ? a.number * b.number
                                     : a.number / b.number);
}

static struct curate_value value_of(const struct curate_expression *e, int i, const struct curate_value *values)
{
    const struct node *n = &e->node[i];
    if (n->kind == NUMBER || n->kind == TEXT)
        return n->value;
    if (n->kind == NAME)
        return values[n->name];
    struct curate_value a = value_of(e, n->a, values);
    if (n->kind == NOT)
        return number(!is_true(a));
    if (n->kind == NEGATIVE)
        return computed(SUBTRACT, number(0), a);
    if (n->kind == OR)
        return number(is_true(a) || is_true(value_of(e, n->b, values)));
    if (n->kind == AND)
        return number(is_true(a) && is_true(value_of(e, n->b, values)));
    struct curate_value b = value_of(e, n->b, values);
    return n->kind >= ADD ? computed(n->kind, a, b) : compared(n->kind, a, b);
}

bool curate_expression_holds(const struct curate_expression *e, const struct curate_value *values)
{
    return !e || is_true(value_of(e, e->root, values));
}

bool curate_expression_uses(const struct curate_expression *e, int name)
{
    for (int i = 0; e && i < e->n; i++)
        if (e->node[i].kind == NAME && e->node[i].name == name)
            return true;
    return false;
}
