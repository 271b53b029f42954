#include "../unit/nn_host.h"
#include "check_nn.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

// Perceptrons of pixels against the loops of plans without a GPU. Between layers a value may round to the next number.
#define KERNELS tachy_nn_kernels()

struct mlp_case {
    struct tachy_nn_mlp a;
    struct nn_buffer part[TACHY_NN_MLP_PARTS], weights[TACHY_NN_MLP_LAYERS], bias[TACHY_NN_MLP_LAYERS], out;
};

// Parts of so many channels, each with gaps of `more` elements.
static void make(struct check *c, struct mlp_case *k, const int *channels, const int *layers, const int *more, bool planes)
{
    struct tachy_nn_mlp *a = &k->a;
    int cin = 0;
    for (int i = 0; i < a->nb_parts; i++) {
        k->part[i] = nn_random(c, nn_elements(a->n, a->h, a->w, channels[i], more[i]), a->dtype, -1, 1);
        a->part[i] = (struct tachy_nn_mlp_part){nn_tensor(&k->part[i], a->h, a->w, channels[i], more[i]), channels[i]};
        cin += channels[i];
    }
    for (int i = 0; i < a->nb_layers; i++) {
        const float most = 1.5f / sqrtf((float)cin);
        struct tachy_nn_mlp_layer *l = &a->layer[i];
        k->weights[i] = nn_random(c, (size_t)(cin * layers[i]), a->dtype, -most, most);
        k->bias[i] = nn_random(c, (size_t)layers[i], TACHY_F32, -0.5f, 0.5f);
        *l = (struct tachy_nn_mlp_layer){layers[i], k->weights[i].at, check_range(c, 0, 3) ? k->bias[i].at : 0, nn_act(c, 0, false)};
        cin = layers[i];
    }
    k->out = nn_poison(c, nn_elements(a->n, a->h, a->w, cin, planes ? 0 : more[0]), a->out_dtype);
    a->out = nn_tensor(&k->out, a->h, a->w, cin, planes ? 0 : more[0]), a->out_channel = 1;
    if (planes)
        a->out_channel = a->h * a->w, a->out = (struct tachy_nn_tensor){k->out.at, 1, a->w, (int64_t)cin * a->h * a->w};
}

static void unmake(struct check *c, struct mlp_case *k)
{
    for (int i = 0; i < k->a.nb_parts; i++)
        nn_close(c, &k->part[i]);
    for (int i = 0; i < k->a.nb_layers; i++)
        nn_close(c, &k->weights[i]), nn_close(c, &k->bias[i]);
    nn_close(c, &k->out);
}

static void against_host(struct check *c, struct mlp_case *k)
{
    struct tachy_nn_mlp host = k->a;
    void *copies[2 * TACHY_NN_MLP_LAYERS + TACHY_NN_MLP_PARTS + 1];
    int n = 0;
    for (int i = 0; i < host.nb_parts; i++)
        host.part[i].in.data = (cuda_address)(uintptr_t)(copies[n++] = nn_copy(c, &k->part[i]));
    for (int i = 0; i < host.nb_layers; i++) {
        host.layer[i].weights = (cuda_address)(uintptr_t)(copies[n++] = nn_copy(c, &k->weights[i]));
        copies[n++] = nn_copy(c, &k->bias[i]);
        host.layer[i].bias = host.layer[i].bias ? (cuda_address)(uintptr_t)copies[n - 1] : 0;
    }
    host.out.data = (cuda_address)(uintptr_t)(copies[n++] = nn_copy(c, &k->out));
    host_mlp(&host, NULL);
    check_gpu_launched(c, KERNELS->mlp(&k->a, c->gpu->stream), "mlp");
    nn_get(c, &k->out);
    double error = 0, norm = 0;
    bool apart = false; // one of the two was not written
    for (size_t i = 0; i < k->out.n; i++) {
        const double got = (double)k->out.value[i], want = host_load(host.out.data, host.out_dtype, (int64_t)i);
        if (isnan(got) || isnan(want)) {
            apart = apart || isnan(got) != isnan(want);
            continue;
        }
        error += (got - want) * (got - want), norm += want * want;
    }
    const double limit = 2 * nn_rounding(host.dtype), off = norm > 0 ? sqrt(error / norm) : sqrt(error);
    check_case(c, !apart && off < limit, "mlp %dx%dx%d, %d parts, %d layers to %d channels, %s to %s%s: off by %g, written alike: %d", host.n, host.h, host.w,
               host.nb_parts, host.nb_layers, host.layer[host.nb_layers - 1].channels, tachy_dtype_name(host.dtype),
               tachy_dtype_name(host.out_dtype), host.out_channel > 1 ? " planes" : "", off, !apart);
    for (int i = 0; i < n; i++)
        free(copies[i]);
}

static void random_case(struct check *c)
{
    struct mlp_case k = {.a = {.n = check_range(c, 1, 3), .h = check_range(c, 1, 20), .w = check_range(c, 1, 150), .nb_parts = check_range(c, 1, 4),
                               .nb_layers = check_range(c, 1, 4), .dtype = nn_half(c)}};
    int channels[TACHY_NN_MLP_PARTS], layers[TACHY_NN_MLP_LAYERS], more[TACHY_NN_MLP_PARTS];
    const int wide = check_range(c, 0, 1) ? 32 : 16; // channels that a kernel is made for
    for (int i = 0; i < k.a.nb_parts; i++) {
        channels[i] = check_range(c, 1, wide / k.a.nb_parts);
        channels[i] -= channels[i] > 1 && (k.a.nb_parts == 3 || check_range(c, 0, 1)) ? channels[i] % 2 : 0;
        more[i] = (int[]){0, 0, 1, 4, 8}[check_range(c, 0, 4)];
    }
    for (int i = 0; i < k.a.nb_layers; i++)
        layers[i] = check_range(c, 0, 1) ? check_range(c, 1, wide) : 4 * check_range(c, 1, wide / 4);
    k.a.out_dtype = check_range(c, 0, 1) ? TACHY_F32 : k.a.dtype;
    make(c, &k, channels, layers, more, check_range(c, 0, 2) == 0);
    against_host(c, &k);
    unmake(c, &k);
}

// The launcher refuses arguments that the kernel cannot take.
static void refusals(struct check *c)
{
    static const int channels[] = {15, 15, 3, 1}, layers[] = {8, 8, 8, 8}, more[] = {0, 0, 0, 0};
    struct mlp_case k = {.a = {.n = 1, .h = 4, .w = 4, .nb_parts = 3, .nb_layers = 1, .dtype = TACHY_F16, .out_dtype = TACHY_F16}};
    make(c, &k, channels, layers, more, false);
    check_case(c, KERNELS->mlp(&k.a, c->gpu->stream) == CUDA_INVALID_VALUE, "mlp of 18 pairs of channels is refused");
    k.a.nb_parts = 1, k.a.layer[0].act.kind = TACHY_ACT_PRELU;
    check_case(c, KERNELS->mlp(&k.a, c->gpu->stream) == CUDA_INVALID_VALUE, "mlp with slopes is refused");
    k.a.nb_parts = 3;
    unmake(c, &k);
}

struct timed {
    struct check *c;
    struct tachy_nn_mlp *a;
};
static void launch(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, KERNELS->mlp(t->a, t->c->gpu->stream), "a timed mlp");
}

// The refiner of a matting network: picture, alpha and colours, and a mean, to planes; and one tensor with channels last.
static void bench(struct check *c)
{
    static const int layers[] = {16, 16, 4, 1}, some[] = {3, 4, 1, 1}, one[] = {16, 1, 1, 1}, wide[] = {32, 1, 1, 1}, more[] = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
        struct mlp_case k = {.a = {.n = 1, .h = 1088, .w = 1920, .nb_parts = i ? 1 : 3, .nb_layers = 3, .dtype = TACHY_F16,
                                   .out_dtype = i ? TACHY_F16 : TACHY_F32}};
        const int *channels = i == 0 ? some : i == 1 ? one : wide;
        make(c, &k, channels, layers, more, i == 0);
        for (int l = 0; l < k.a.nb_layers; l++)
            k.a.layer[l].act = (struct tachy_nn_act){TACHY_ACT_CLIP, 0, l + 1 < k.a.nb_layers ? INFINITY : 1, 0};
        int cin = 0;
        for (int p = 0; p < k.a.nb_parts; p++)
            cin += channels[p];
        const double pixels = 1088.0 * 1920;
        char what[64];
        snprintf(what, sizeof(what), "1088x1920x%d in %d to 16, 16, 4%s", cin, k.a.nb_parts, i ? "" : " planes");
        struct timed t = {c, &k.a};
        nn_row(c, "mlp", what, nn_time(c, launch, &t), 2 * pixels * (16.0 * cin + 256 + 64), pixels * (2 * cin + (i ? 8 : 16)));
        unmake(c, &k);
    }
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 80); i++)
        random_case(c);
    refusals(c);
    if (c->bench)
        bench(c);
}

const struct check_op check_nn_mlp = {.name = "nn_mlp", .run = run, .cuda = true};
