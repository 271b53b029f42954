#include "cuda/nn/matrix.cuh"
#include "cuda/nn/mlp.h"

// A warp computes all layers of BLOCKS times 16 pixels in registers by mma.sync, whose sums have the layout that the next layer's input
// needs. A lane reads pairs of channels of two pixels per block, and loads those of the next tile while it computes. Weights are in
// shared memory in the order of the lanes.
enum { THREADS = 256, WARPS = THREADS / 32, SLOTS = TACHY_NN_MLP_CHANNELS / 2 };

// A pair of input channels; `channel`: the first one's of all parts. Of `count` 1 the second one is zero.
struct slot {
    short part, from, channel, count; // from: within the part
};

struct work {
    slot slots[SLOTS];
    bool wide;  // all pairs can be read at once
    bool fours; // four channels of the output can be written at once
    int h, w, across, tiles; // rows of an image and pixels of a row; tiles in a row and in all
};

template <int C> struct layer_weights { // of shared memory
    uint2 of[C / 16][C / 8][32]; // of 16 inputs and 8 outputs, each lane's
    float bias[C];
};

// The input channel that element i of a lane's half of 16 terms meets; -1: none.
template <bool FIRST> __device__ static inline int term_of(const work &w, int cin, int k, int half, int lane, int i)
{
    if constexpr (FIRST) {
        const slot &s = w.slots[k * 8 + half * 4 + lane % 4];
        return i < s.count ? s.channel + i : -1;
    }
    int c = k * 16 + half * 8 + lane % 4 * 2 + i;
    return c < cin ? c : -1;
}

// The output channel that column `column` of an eight computes. The last layer gives each lane four that follow each other.
__device__ static inline int channel_of(bool fours, int eight, int column)
{
    return fours ? eight / 2 * 16 + column / 2 * 4 + eight % 2 * 2 + column % 2 : eight * 8 + column;
}

template <int C, bool FIRST> __device__ static inline void load_layer(const tachy_nn_mlp &a, const work &w, int l, layer_weights<C> &to)
{
    const tachy_nn_mlp_layer &layer = a.layer[l];
    int cin = FIRST ? 0 : a.layer[FIRST ? 0 : l - 1].channels;
    for (int i = 0; FIRST && i < a.nb_parts; i++)
        cin += a.part[i].channels;
    const bool fours = w.fours && l + 1 == a.nb_layers;
    for (int i = threadIdx.x; i < C / 16 * (C / 8) * 32; i += THREADS) {
        int lane = i % 32, eight = i / 32 % (C / 8), k = i / 32 / (C / 8), o = channel_of(fours, eight, lane / 4);
        uint16_t v[4];
        for (int j = 0; j < 4; j++) {
            int c = term_of<FIRST>(w, cin, k, j / 2, lane, j % 2);
            v[j] = c >= 0 && o < layer.channels ? at<const uint16_t>(layer.weights)[o * cin + c] : (uint16_t)0;
        }
        to.of[k][eight][lane] = make_uint2(v[0] | (uint32_t)v[1] << 16, v[2] | (uint32_t)v[3] << 16);
    }
    for (int i = threadIdx.x; i < C; i += THREADS) {
        int o = channel_of(fours, i / 8, i % 8);
        to.bias[i] = layer.bias && o < layer.channels ? at<const float>(layer.bias)[o] : 0.0f;
    }
}

// Where a lane reads its pairs of channels, two for each 16 terms. If a channel of a pair does not exist, the lane reads another one and
// clears it.
template <int C> struct reader {
    const uint16_t *from[C / 8];
    int row[C / 8], pixel[C / 8], second[C / 8]; // elements
    int64_t image[C / 8];
    uint32_t keeps[C / 8]; // bits of a pair
};

template <int C> __device__ static inline reader<C> reader_of(const tachy_nn_mlp &a, const work &w, int lane)
{
    reader<C> r;
#pragma unroll
    for (int i = 0; i < C / 8; i++) {
        const slot &s = w.slots[i * 4 + lane % 4];
        const tachy_nn_tensor &t = a.part[s.part].in;
        r.from[i] = at<const uint16_t>(t.data) + s.from;
        r.image[i] = t.image, r.row[i] = (int)t.row, r.pixel[i] = (int)t.pixel, r.second[i] = s.count > 1;
        r.keeps[i] = s.count > 1 ? ~0u : s.count ? 0xffffu : 0u;
    }
    return r;
}

// Pairs of channels as they were read; WIDE: at once.
template <int C, int BLOCKS, bool WIDE> struct raw {
    uint32_t v[C / 8][BLOCKS][2][WIDE ? 1 : 2];
};

// Blocks of a multiprocessor.
template <int C, bool WIDE> constexpr int BESIDE = C > 16 || WIDE ? 2 : 3;

struct place {
    int n, y, x; // a lane's first pixel
};

// Starts to load a tile's pixels and returns where they are. Pixels beyond the row repeat its last one.
template <int C, int BLOCKS, bool WIDE>
__device__ static inline place fetch(raw<C, BLOCKS, WIDE> &to, const reader<C> &r, const work &w, int tile, int lane)
{
    const int row = tile / w.across, n = row / w.h, y = row - n * w.h, x = (tile - row * w.across) * (BLOCKS * 16) + lane / 4;
#pragma unroll
    for (int i = 0; i < C / 8; i++) {
        const uint16_t *from = r.from[i] + n * r.image[i] + (int64_t)y * r.row[i];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint16_t *p = from + (int64_t)min(x + b * 16 + h * 8, w.w - 1) * r.pixel[i];
                if constexpr (WIDE)
                    to.v[i][b][h][0] = __ldg(reinterpret_cast<const uint32_t *>(p));
                else
                    to.v[i][b][h][0] = __ldg(p), to.v[i][b][h][1] = __ldg(p + r.second[i]);
            }
    }
    return {n, y, x};
}

// Blocks of 16 pixels as the left side of a product: [16 terms][lower or upper 8 terms, of pixels 0-7 or 8-15].
template <int C, int BLOCKS, bool WIDE>
__device__ static inline void take(uint32_t (&u)[BLOCKS][C / 16][4], const raw<C, BLOCKS, WIDE> &from, const reader<C> &r)
{
#pragma unroll
    for (int i = 0; i < C / 8; i++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t(&v)[WIDE ? 1 : 2] = from.v[i][b][h];
                u[b][i / 2][i % 2 * 2 + h] = (WIDE ? v[0] : v[0] | v[WIDE ? 0 : 1] << 16) & r.keeps[i];
            }
}

// One layer of all blocks: their sums, activated.
template <typename T, int C, int BLOCKS>
__device__ static inline void apply(float (&d)[BLOCKS][C / 8][4], const uint32_t (&u)[BLOCKS][C / 16][4], const layer_weights<C> &l,
                                    const tachy_nn_act &act, int lane)
{
    constexpr int ALL = BLOCKS * C / 2;
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float2 bias = *reinterpret_cast<const float2 *>(&l.bias[j * 8 + lane % 4 * 2]);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            d[b][j][0] = d[b][j][2] = bias.x, d[b][j][1] = d[b][j][3] = bias.y;
#pragma unroll
        for (int k = 0; k < C / 16; k++) {
            const uint2 v = l.of[k][j][lane];
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                multiply<T>(d[b][j], u[b][k], v.x, v.y);
        }
    }
    activate<ALL>(act, *reinterpret_cast<float(*)[ALL]>(d), 0, 0); // never slopes
}

// Sums as the next layer reads them.
template <typename T, int C, int BLOCKS> __device__ static inline void hand_on(uint32_t (&u)[BLOCKS][C / 16][4], const float (&d)[BLOCKS][C / 8][4])
{
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int j = 0; j < C / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                u[b][j / 2][j % 2 * 2 + h] = halves<T>(d[b][j][h * 2], d[b][j][h * 2 + 1]);
}

template <typename U, int C, int BLOCKS>
__device__ static inline void write(const float (&d)[BLOCKS][C / 8][4], const tachy_nn_mlp &a, const work &w, const place &at_pixel, int lane)
{
    const int channels = a.layer[a.nb_layers - 1].channels, left = w.w - at_pixel.x;
    U *to = at<U>(a.out.data) + at_pixel.n * a.out.image + (int64_t)at_pixel.y * a.out.row + (int64_t)at_pixel.x * a.out.pixel;
#pragma unroll
    for (int j = 0; j < C / 8; j += 2) {
        const int four = j * 8 + lane % 4 * 4;
        if (w.fours) {
#pragma unroll
            for (int b = 0; b < BLOCKS * 2; b++) {
                const float(&u)[4] = d[b / 2][j], (&v)[4] = d[b / 2][j + 1];
                const int h = b % 2 * 2;
                if (four < channels && b * 8 < left)
                    save<U, 4>(to + (int64_t)(b * 8) * a.out.pixel + four, {u[h], u[h + 1], v[h], v[h + 1]});
            }
            continue;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = (j + i / 2) * 8 + lane % 4 * 2 + i % 2;
            U *p = to + c * a.out_channel;
#pragma unroll
            for (int b = 0; b < BLOCKS * 2; b++, p += 8 * a.out.pixel)
                if (c < channels && b * 8 < left)
                    put(p, d[b / 2][j + i / 2][b % 2 * 2 + i % 2]);
        }
    }
}

template <typename T, typename U, int C, int BLOCKS, bool WIDE>
__global__ void __launch_bounds__(THREADS, BESIDE<C, WIDE>) mlp(const __grid_constant__ tachy_nn_mlp a, const __grid_constant__ work w)
{
    __shared__ layer_weights<C> layers[TACHY_NN_MLP_LAYERS];
    const int lane = threadIdx.x % 32, step = gridDim.x * WARPS;
    const reader<C> r = reader_of<C>(a, w, lane);
    raw<C, BLOCKS, WIDE> next;
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    place then = fetch<C, BLOCKS, WIDE>(next, r, w, min(tile, w.tiles - 1), lane);
    load_layer<C, true>(a, w, 0, layers[0]);
    for (int l = 1; l < a.nb_layers; l++)
        load_layer<C, false>(a, w, l, layers[l]);
    __syncthreads();
    for (; tile < w.tiles; tile += step) {
        float d[BLOCKS][C / 8][4];
        uint32_t u[BLOCKS][C / 16][4];
        const place now = then;
        take<C, BLOCKS, WIDE>(u, next, r);
        then = fetch<C, BLOCKS, WIDE>(next, r, w, min(tile + step, w.tiles - 1), lane);
#pragma unroll 1
        for (int l = 0; l < a.nb_layers; l++) {
            apply<T, C, BLOCKS>(d, u, layers[l], a.layer[l].act, lane);
            hand_on<T, C, BLOCKS>(u, d);
        }
        write<U, C, BLOCKS>(d, a, w, now, lane);
    }
}

// True if the whole picture, or all of them, is like one row.
static bool is_row(const tachy_nn_tensor *t, const tachy_nn_mlp *a)
{
    return (a->h == 1 || t->row == a->w * t->pixel) && (a->n == 1 || t->image == (int64_t)a->h * a->w * t->pixel);
}

// Pairs of channels of all parts; -1: they are too many.
static int fill_slots(const tachy_nn_mlp *a, work *w)
{
    int n = 0, channel = 0;
    w->wide = true;
    for (int i = 0; i < a->nb_parts; i++) {
        const tachy_nn_mlp_part *p = &a->part[i];
        w->wide = w->wide && p->channels % 2 == 0 && whole_vectors(&p->in, 2, 4);
        for (int c = 0; c < p->channels; c += 2) {
            if (n == SLOTS)
                return -1;
            w->slots[n++] = slot{(short)i, (short)c, (short)(channel + c), (short)(p->channels - c > 1 ? 2 : 1)};
        }
        channel += p->channels;
    }
    return n;
}

template <typename T, typename U, int C, bool WIDE> static int launch(const tachy_nn_mlp *a, work w, cuda_stream stream)
{
    constexpr int BLOCKS = (WIDE ? 4 : 2) * 16 / C; // as many as registers have room for
    bool row = a->out_channel == 1 && is_row(&a->out, a);
    const int64_t pixels = (int64_t)a->n * a->h * a->w;
    for (int i = 0; i < a->nb_parts; i++)
        row = row && is_row(&a->part[i].in, a);
    row = row && pixels < INT32_MAX / 64;
    w.h = row ? 1 : a->h, w.w = row ? (int)pixels : a->w;
    w.across = parts(w.w, BLOCKS * 16);
    const int64_t tiles = (int64_t)w.across * (row ? 1 : (int64_t)a->n * a->h);
    if (tiles > INT32_MAX / 4)
        return cudaErrorInvalidValue;
    w.tiles = (int)tiles;
    const int blocks = BESIDE<C, WIDE> * attribute(cudaDevAttrMultiProcessorCount), needed = parts(tiles, WARPS);
    mlp<T, U, C, BLOCKS, WIDE><<<(unsigned)(needed < blocks ? needed : blocks), THREADS, 0, on(stream)>>>(*a, w);
    return cudaGetLastError();
}

template <typename T, typename U> static int launch_to(const tachy_nn_mlp *a, const work &w, int channels, cuda_stream stream)
{
    if (channels <= 16)
        return w.wide ? launch<T, U, 16, true>(a, w, stream) : launch<T, U, 16, false>(a, w, stream);
    return w.wide ? launch<T, U, 32, true>(a, w, stream) : launch<T, U, 32, false>(a, w, stream);
}

static bool takes(const tachy_nn_mlp *a)
{
    bool fits = a->n > 0 && a->h > 0 && a->w > 0 && a->nb_parts > 0 && a->nb_parts <= TACHY_NN_MLP_PARTS && a->nb_layers > 0 &&
                a->nb_layers <= TACHY_NN_MLP_LAYERS;
    for (int i = 0; fits && i < a->nb_parts; i++)
        fits = a->part[i].channels > 0 && a->part[i].channels <= TACHY_NN_MLP_CHANNELS && a->part[i].in.row <= INT32_MAX;
    for (int i = 0; fits && i < a->nb_layers; i++)
        fits = a->layer[i].channels > 0 && a->layer[i].channels <= TACHY_NN_MLP_CHANNELS && a->layer[i].act.kind != TACHY_ACT_PRELU;
    return fits;
}

int tachy_nn_run_mlp(const struct tachy_nn_mlp *a, cuda_stream stream)
{
    work w = {};
    const int slots = takes(a) ? fill_slots(a, &w) : -1;
    if (slots < 0 || (a->out_dtype != a->dtype && a->out_dtype != TACHY_F32))
        return cudaErrorInvalidValue;
    int most = slots * 2;
    for (int i = 0; i < a->nb_layers; i++)
        most = most > a->layer[i].channels ? most : a->layer[i].channels;
    w.fours = a->out_channel == 1 && a->layer[a->nb_layers - 1].channels % 4 == 0 && whole_vectors(&a->out, 4, a->out_dtype == TACHY_F32 ? 16 : 8);
    return of_halves(a->dtype, [&](auto t) {
        typedef decltype(t) T;
        return a->out_dtype == TACHY_F32 ? launch_to<T, float>(a, w, most, stream) : launch_to<T, T>(a, w, most, stream);
    });
}
