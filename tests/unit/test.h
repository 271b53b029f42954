#pragma once
// A unit test is a program: TEST(name) { ... CHECK(...); } ... TEST_MAIN(name, name, ...)
// Exit status: 0 all passed, 1 a check failed, 77 skipped.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_failures;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);                     \
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)

#define CHECK_INT(a, b)                                                                            \
    do {                                                                                           \
        long long a_ = (long long)(a), b_ = (long long)(b);                                        \
        if (a_ != b_) {                                                                            \
            fprintf(stderr, "%s:%d: %s is %lld, %s is %lld\n", __FILE__, __LINE__, #a, a_, #b,     \
                    b_);                                                                           \
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)

#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        const char *a_ = (a), *b_ = (b);                                                           \
        if (!a_ || !b_ || strcmp(a_, b_)) {                                                        \
            fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #a,           \
                    a_ ? a_ : "(null)", b_ ? b_ : "(null)");                                       \
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)

// A file of the test's own.
static inline void test_write(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0);
    if (f)
        fclose(f);
}

#define SKIP(why)                                                                                  \
    do {                                                                                           \
        printf("skipped: %s\n", why);                                                              \
        exit(77);                                                                                  \
    } while (0)

struct test_case {
    const char *name;
    void (*run)(void);
};

#define TEST(name) static void name(void)
#define TEST_CASE(fn)                                                                              \
    {                                                                                              \
#fn, fn                                                                                    \
    }

static inline int test_run(const struct test_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int before = test_failures;
        cases[i].run();
        printf("%s %s\n", test_failures == before ? "ok  " : "FAIL", cases[i].name);
        fflush(stdout);
    }
    return test_failures ? 1 : 0;
}

#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        static const struct test_case cases[] = {__VA_ARGS__};                                     \
        return test_run(cases, sizeof(cases) / sizeof(cases[0]));                                  \
    }
