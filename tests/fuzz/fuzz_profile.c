// libFuzzer target: any bytes as ONNX Runtime's operator profile or as the cache of calibrated times; the first byte
// selects which. The result is printed in every form.
#include "fuzz.h"

#include "../unit/rows.h"
#include "pipeline/light.h"
#include "profile/operators.c" // its reader of one file

#include <string.h>

static void look(const struct profile_ops *ops)
{
    uint64_t total;
    size_t n = 0;
    volatile uint64_t sum = 0;
    const struct profile_op_sum **sorted = profile_ops_sorted(ops, &total);
    for (size_t i = 0; i < ops->n; i++)
        sum += strlen(sorted[i]->name) + strlen(sorted[i]->type);
    profile_ops_by_bytes(sorted, ops->n);
    free(sorted);
    struct profile_op *runs = profile_ops_runs(ops, &n);
    for (size_t i = 0; i < n; i++)
        sum += runs[i].end_ns - runs[i].start_ns + strlen(ops->sum[runs[i].name].name);
    free(runs);
    (void)sum;
}

static void read_operators(const uint8_t *data, size_t size)
{
    static struct tachy_profile p = {.params.max_operators = 16};
    FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!f)
        return;
    if (!p.thread && (p.thread = calloc(1, sizeof(*p.thread)))) { // who may have run: thread 7
        p.thread[0].tid = 7;
        p.nb_threads = 1;
    }
    struct reader r = {.p = &p, .ops = &p.ops, .start_ns = 1000};
    read_profile(&r, f);
    look(&p.ops);
    profile_ops_free(&p.ops);
    fclose(f);
}

static void read_times(const uint8_t *data, size_t size)
{
    static char path[128];
    struct tachy_light_times t;
    if (!*path)
        snprintf(path, sizeof(path), "%s/light.json", fuzz_folder());
    fuzz_write(path, data, size);
    if (tachy_light_load(fuzz_folder(), "a", test_table_of_rows(), &t) < 0)
        return;
    for (int s = 0; s < TACHY_MAX_STEPS; s++)
        if (t.of[s] < 0 || t.of[s] >= TACHY_RESOURCE_COUNT)
            abort();
    tachy_light_save(fuzz_folder(), "b", test_table_of_rows(), &t, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    if (*data & 1)
        read_times(data + 1, size - 1);
    else
        read_operators(data + 1, size - 1);
    return 0;
}
