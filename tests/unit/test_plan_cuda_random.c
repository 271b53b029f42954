#include "../fuzz/fuzz_plan.c"
#include "nn_host.h"
#include "plan/cuda/parts.h"
#include "test.h"
#include "turn_lanes.h"

// Random graphs as plans of a GPU, with the kernels as plain loops over the fake driver's memory: passes, places,
// strides, types, weights and the order of steps are what is tested. The figure is the same as for a processor's plans.

enum { GRAPHS = 3000, BYTES = 200 }; // a third of the graphs under a sanitizer
static int nb_run, nb_products, nb_regions;

static bool row_fits(int64_t row, int64_t columns, size_t size) { return row == columns || row * (int64_t)size % 16 == 0; }

// cuBLASLt faults on what lies otherwise than it is told: addresses by `align`, rows by their length, and those of C and D, for
// which it finds one algorithm, alike. Our own kernels look at every address and stride themselves.
static bool is_aligned(const struct cuda_step *s)
{
    const struct tachy_nn_gemm_shape *p = &s->product;
    const struct tachy_nn_conv *c = &s->a.conv;
    bool conv = s->kind == CUDA_CONV;
    const cuda_address at[] = {conv ? c->in.data : s->a.gemm.x, conv ? s->padded ? s->padded : c->weights : s->a.gemm.w,
                               conv ? c->out.data : s->a.gemm.y, conv ? c->epilogue.add.data : s->a.gemm.add};
    const size_t size = tachy_dtype_size(p->dtype);
    bool fits = p->align > 0 && p->align <= 256 && row_fits(p->x_row, conv ? p->k : p->x_row, size) &&
                row_fits(p->y_row, p->n, size) && (!p->add || (row_fits(p->add_row, p->n, size) && (p->add_row - p->y_row) % 8 == 0));
    for (int i = 0; i < 4; i++)
        fits = fits && at[i] % (cuda_address)p->align == 0;
    return fits && (!conv || p->align >= 16);
}

static float **run_cuda(const struct tachy_graph *g, float **in, const struct tachy_plan_params *params)
{
    struct tachy_plan *p = NULL;
    int err = tachy_plan_cuda.open(&p, g, params); // of nodes that were not refused
    if (err < 0)
        stop(g, "not opened", -1, err, 0);
    for (int i = 0; i < ((struct cuda_plan *)p)->nb_steps; i++) {
        const struct cuda_step *s = &((struct cuda_plan *)p)->steps[i];
        nb_products += s->product.m > 0;
        if (s->product.m && !is_aligned(s))
            stop(g, "not aligned", i, err, 0);
    }
    nb_regions += turn_lanes((struct cuda_plan *)p, nb_run % 2);
    float **out = calloc((size_t)g->nb_out + 1, sizeof(*out));
    for (int i = 0; i < g->nb_out; i++) {
        size_t size = tachy_dtype_size(g->out[i]->dtype) * (size_t)tachy_value_elements(g->out[i]);
        out[i] = malloc(size);
        memset(out[i], 0xff, size);
    }
    for (int i = 0; i < 2; i++) // the arena holds the first run's numbers in the second
        if ((err = tachy_plan_cuda.run(p, (const void *const *)in, (void *const *)out, NULL, NULL)) < 0)
            stop(g, "not run", -1, err, 0);
    tachy_plan_close(&p);
    return out;
}

// float16 and bfloat16 only have to run.
static void also_cuda(const struct tachy_graph *of, float **in, const struct tachy_f64 *want, const struct tachy_f64 *rounded,
                      bool tame)
{
    for (const struct tachy_node *n = of->first; n; n = n->next)
        if (tachy_plan_cuda.refuses(n))
            return;
    static const enum tachy_plan_precision all[] = {TACHY_PLAN_FP32, TACHY_PLAN_FP16, TACHY_PLAN_BF16};
    for (int half = 0; half < 3; half++) {
        const struct tachy_plan_params params = {.kernels = &host_kernels, .precision = all[half]};
        struct tachy_graph *g = NULL;
        CHECK_INT(tachy_graph_copy(&g, of, false), TACHY_OK);
        CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(&params), NULL), TACHY_OK);
        float **out = run_cuda(g, in, &params);
        for (int i = 0; i < g->nb_out && tame && !half; i++)
            compare(g, want, rounded, of, i, "plan of a GPU", NULL, out[i]);
        free_all(out, g->nb_out);
        tachy_graph_close(&g);
    }
    nb_run++;
}

TEST(random_graphs)
{
    const int graphs = getenv("TACHY_SANITIZER") ? GRAPHS / 3 : GRAPHS;
    unsigned seed = 7;
    also = also_cuda;
    for (int i = 0; i < graphs; i++) {
        uint8_t bytes[BYTES];
        for (int k = 0; k < BYTES; k++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[k] = (uint8_t)(seed >> 24);
        }
        CHECK_INT(LLVMFuzzerTestOneInput(bytes, (size_t)(BYTES - i % BYTES)), 0);
    }
    printf("%d graphs ran, with %d products and %d regions of several lanes\n", nb_run, nb_products, nb_regions);
    CHECK(nb_run > graphs / 20 && nb_products > graphs / 20 && nb_regions > graphs / 40);
}

TEST_MAIN(TEST_CASE(random_graphs))
