#pragma once
#include <stdbool.h>
#include <tachy/common.h>

// Conditions and filters of `tachy curate`: `blur < 0.3 and category != "text"` (docs/curate.md). An expression is read once
// and then evaluated for each frame, over the values of the names that it uses. Constant after it was read, so any number
// of threads may evaluate it.
struct curate_expression;

// The value of a name or of a part of an expression in one frame.
struct curate_value {
    enum { CURATE_NOTHING = 0, CURATE_NUMBER, CURATE_TEXT } kind;
    double number;
    const char *text; // somebody else's memory
};

// The names that a run's expressions use, each once: a frame has an array of values in this order.
struct curate_names {
    char **name;
    int n;
};
void curate_names_free(struct curate_names *names);

// Reads `text`, and adds the names in it to `names`. `what` begins a message ("keep", "pose.when"). TACHY_ERR_INVAL: the
// message names the column, counted from 1, and what was expected there; TACHY_ERR_LIMIT: longer or deeper than any that a
// person writes; TACHY_ERR_NOMEM. Free *out with curate_expression_free().
int curate_expression_read(struct curate_expression **out, const char *text, const char *what, struct curate_names *names,
                           const struct tachy_log *log);
void curate_expression_free(struct curate_expression **e);

// True if the expression holds. A comparison with a missing value is false, unless it is `!=`. `e` NULL: true.
bool curate_expression_holds(const struct curate_expression *e, const struct curate_value *values);

// True if it uses names[i].
bool curate_expression_uses(const struct curate_expression *e, int i);
