#include "test.h"

#include "curate/expression.h"

static char said[512];

static void keep(void *user, enum tachy_log_level level, const char *text) { snprintf(said, sizeof(said), "%s", text); }

static const struct tachy_log kept = {keep, NULL, TACHY_LOG_ERR};

// The value of an expression with blur 0.25, faces 2, category "cat"; -1: it cannot be parsed.
static int holds(const char *text)
{
    struct curate_names names = {0};
    struct curate_expression *e;
    int err = curate_expression_read(&e, text, "keep", &names, &kept), result = -1;
    struct curate_value *v = calloc((size_t)names.n + 1, sizeof(*v));
    for (int i = 0; i < names.n; i++) {
        const char *name = names.name[i];
        if (!strcmp(name, "blur"))
            v[i] = (struct curate_value){.kind = CURATE_NUMBER, .number = 0.25};
        else if (!strcmp(name, "faces") || !strcmp(name, "faces.count"))
            v[i] = (struct curate_value){.kind = CURATE_NUMBER, .number = 2};
        else if (!strcmp(name, "category"))
            v[i] = (struct curate_value){.kind = CURATE_TEXT, .text = "cat"};
    }
    if (err == TACHY_OK)
        result = curate_expression_holds(e, v);
    curate_expression_free(&e);
    curate_names_free(&names);
    free(v);
    return result;
}

TEST(expressions_hold)
{
    static const struct {
        const char *text;
        int holds;
    } cases[] = {
        {"blur < 0.3 and category != \"text\"", 1}, {"faces >= 1", 1}, {"faces", 1}, {"not faces", 0}, {"faces = 2", 1},
        {"faces.count == 2 && !(blur > .2)", 0}, {"blur*4 == 1", 1}, {"1 - 2 - 3 == -4", 1}, {"8/2/2 == 2", 1}, {"2+3*4 == 14", 1},
        {"-faces < 0", 1}, {"category in ('dog', 'cat')", 1}, {"category in ('dog')", 0}, {"faces in (1, 2, 3)", 1},
        {"missing > 1", 0}, {"missing < 1", 0}, {"missing != 1", 1}, {"not missing", 1}, {"missing + 1 > 0", 0}, {"1/0 == 1/0", 0},
        {"category > 1", 0}, {"category == 'cat'", 1}, {"category < 'dog'", 1}, {"1 or 0 and 0", 1}, {"(1 or 0) and 0", 0},
        {"not 0 and not not 1", 1}, {"1e3 == 1000", 1}, {"'a' and ''", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (holds(cases[i].text) != cases[i].holds)
            fprintf(stderr, "of %s\n", cases[i].text);
        CHECK_INT(holds(cases[i].text), cases[i].holds);
    }
}

TEST(errors_name_the_column)
{
    static const char *const cases[][2] = {
        {"blur <", "keep: column 7: a name, number or text is expected, but the expression ends there"},
        {"blur < and 3", "keep: column 8: a name, number or text is expected, not \"and\""},
        {"(blur", "keep: column 6: \")\" is expected, but the expression ends there"},
        {"blur faces", "keep: column 6: \"and\", \"or\" or a comparison is expected, not \"faces\""},
        {"", "keep: column 1: a name, number or text is expected, but the expression ends there"},
        {"category == 'cat", "keep: column 13: the text that begins here has no end; a ' is missing"},
        {"faces in 3", "keep: column 10: \"(\" is expected, not \"3\""},
        {"blur # 3", "keep: column 6: \"and\", \"or\" or a comparison is expected, not \"#\""},
        {"1 < 2 < 3", "keep: column 7: \"and\", \"or\" or a comparison is expected, not \"<\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_INT(holds(cases[i][0]), -1);
        CHECK_STR(said, cases[i][1]);
    }
}

// Texts of any make end in a value or a message; sanitizers look on.
TEST(any_text_is_read_or_refused)
{
    static const char *const parts[] = {"(", ")", "not ", "-", "!", "and ", "or ", "blur", "faces", "1", ".5", "1e", "'", "\"", "a'b'",
                                        "in (", ",", "<=", "=", "==", "&&", "|", "+", "*", "/", " ", "\xff", ".", "category"};
    uint32_t seed = 7;
    char text[4200];
    int read = 0;
    for (int turn = 0; turn < 20000; turn++) {
        size_t n = 0;
        text[0] = '\0';
        for (int i = (int)(seed >> 8) % 12; i >= 0; i--) {
            seed = seed * 1664525u + 1013904223u;
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", parts[(seed >> 12) % (sizeof(parts) / sizeof(parts[0]))]);
        }
        read += holds(text) >= 0;
    }
    CHECK(read > 200);
    for (const char *deep = "(-!"; *deep; deep++) {
        memset(text, *deep, 4000);
        text[4000] = '\0';
        CHECK_INT(holds(text), -1);
    }
    for (int i = 0; i < 4000; i += 2)
        memcpy(text + i, "1+", 2);
    CHECK_INT(holds(text), -1);
    CHECK(strstr(said, "more than"));
}

TEST_MAIN(TEST_CASE(expressions_hold), TEST_CASE(errors_name_the_column), TEST_CASE(any_text_is_read_or_refused))
