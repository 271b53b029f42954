#pragma once
#include "profile/rows.h"

// The rows of a run of segment, or of a task of steps.h, that writes.
enum {
    TEST_STEP_DECODE,
    TEST_STEP_PREPROCESS,
    TEST_STEP_MODEL,
    TEST_STEP_POSTPROCESS,
    TEST_STEP_COMPOSITE,
    TEST_STEP_ENCODE,
    TEST_STEPS
};

// Adds them to a table.
static inline struct tachy_rows *test_rows(struct tachy_rows *t)
{
    static const char *const names[] = {"preprocess", "model", "postprocess", "composite", "encode"};
    for (int i = 0; i < 5; i++)
        tachy_rows_add(t, names[i], i == 1 ? TACHY_STEP_MODEL : i == 2 ? TACHY_STEP_IN_ORDER : 0, NULL);
    return t;
}

// A table for a test program, never closed.
static inline struct tachy_rows *test_table_of_rows(void)
{
    static struct tachy_rows table;
    if (!tachy_rows_count(&table)) {
        tachy_rows_open(&table);
        test_rows(&table);
    }
    return &table;
}
