#include "../fuzz/fuzz_plan.c"
#include "test.h"

// The fuzzer of plans (tests/fuzz/fuzz_plan.c) on bytes from a fixed seed, in every compiler's build: it aborts with
// the graph's text if a pass or a plan changes the result.

enum { GRAPHS = 1500, BYTES = 200 };

TEST(random_graphs)
{
    unsigned seed = 1;
    for (int i = 0; i < GRAPHS; i++) {
        uint8_t bytes[BYTES];
        for (int k = 0; k < BYTES; k++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[k] = (uint8_t)(seed >> 24);
        }
        CHECK_INT(LLVMFuzzerTestOneInput(bytes, (size_t)(BYTES - i % BYTES)), 0);
    }
}

TEST_MAIN(TEST_CASE(random_graphs))
