#include "cuda/nn/maps.cuh"
#include "cuda/nn/pair.h"

// Two matrix products by TMA and wgmma. A block has 128 pixels at a time, all input channels of them in shared memory; two
// warpgroups each have 64. For each 64 channels between the products a warpgroup multiplies its pixels with the first weights,
// adds what is added, stores the result, and multiplies it, still in registers, with 64 rows of the second weights onto the
// sums of all output channels. The warpgroups take turns: while one ends such a step the other multiplies.
enum { ROWS = 128, CONSUMERS = 256, THREADS = CONSUMERS + 128, DEPTH = 64, SHARED = 227 * 1024, CHUNK = 64 * 64 * 2 };

template <int K, int N> struct layout { // of shared memory: pixels, weights, staging, barriers
    static constexpr int X = ROWS * K * 2, W1 = 64 * K * 2, W2 = N * 64 * 2, STAGING = 4 * CHUNK, BARRIERS = 256, SPARE = 512;
    static constexpr int FIT = (SHARED - X - STAGING - BARRIERS - SPARE) / (W1 + W2), SLOTS = FIT < 4 ? FIT : 4;
    static constexpr int BYTES = X + SLOTS * (W1 + W2) + STAGING + BARRIERS + SPARE;
};

struct work {
    CUtensorMap x, w1, w2, y1, y2, add;
    const float *bias1, *bias2;
    tachy_nn_act act1, act2;
    int tiles, chunks; // chunks: of 64 channels between the products
    bool has_add;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <int SLOTS> struct ring { // a place in a ring of slots
    int s = 0;
    uint32_t phase;
    __device__ ring(uint32_t first) : phase(first) {}
    __device__ void next()
    {
        if (++s == SLOTS)
            s = 0, phase ^= 1;
    }
};

struct shared { // addresses; each barrier has 8 bytes
    uint32_t x, w1, w2, staging, x_full, x_empty, w1_full, w1_empty, w2_full, w2_empty, added;
};

template <int K, int N> __device__ static inline shared shared_of(uint32_t start)
{
    typedef layout<K, N> L;
    shared m;
    m.x = (start + 1023) & ~1023u, m.w1 = m.x + L::X, m.w2 = m.w1 + L::SLOTS * L::W1, m.staging = m.w2 + L::SLOTS * L::W2;
    m.x_full = m.staging + L::STAGING, m.x_empty = m.x_full + 8, m.w1_full = m.x_empty + 8, m.w1_empty = m.w1_full + 8 * L::SLOTS;
    m.w2_full = m.w1_empty + 8 * L::SLOTS, m.w2_empty = m.w2_full + 8 * L::SLOTS, m.added = m.w2_empty + 8 * L::SLOTS;
    return m;
}

template <int K, int N> __device__ static void produce(const work &w, const shared &m)
{
    typedef layout<K, N> L;
    ring<L::SLOTS> one(1), two(1);
    uint32_t x_phase = 1;
    for (int tile = blockIdx.x; tile < w.tiles; tile += gridDim.x)
        for (int j = 0; j < w.chunks; j++) {
            barrier_wait(m.w1_empty + 8 * one.s, one.phase);
            barrier_expect(m.w1_full + 8 * one.s, L::W1);
            for (int k = 0; k < K / DEPTH; k++)
                tma_load(m.w1 + one.s * L::W1 + k * CHUNK, &w.w1, m.w1_full + 8 * one.s, k * DEPTH, 0, j * 64);
            one.next();
            barrier_wait(m.w2_empty + 8 * two.s, two.phase);
            barrier_expect(m.w2_full + 8 * two.s, L::W2);
            tma_load(m.w2 + two.s * L::W2, &w.w2, m.w2_full + 8 * two.s, j * 64, 0, 0);
            two.next();
            if (j)
                continue;
            barrier_wait(m.x_empty, x_phase);
            x_phase ^= 1;
            barrier_expect(m.x_full, L::X);
            for (int k = 0; k < K / DEPTH; k++)
                tma_load(m.x + k * ROWS * DEPTH * 2, &w.x, m.x_full, k * DEPTH, 0, tile * ROWS);
        }
}

struct place { // of one warpgroup's thread
    int group, lane, thread;
    uint32_t line, row;      // its row of a chunk, for matrices
    uint32_t staging, added; // two chunks; two barriers of what is added
    int turn;                // chunks so far
    uint32_t phases;         // of the two barriers
};

__device__ static inline void fetch_added(const work &w, const place &p, int tile, int j, int turn)
{
    uint32_t bar = p.added + 8 * (turn & 1);
    barrier_expect(bar, CHUNK);
    tma_load(p.staging + (turn & 1) * CHUNK, &w.add, bar, j * 64, 0, tile * ROWS + p.group * 64);
}

// This thread's two columns of each eight of 64.
__device__ static inline void take_bias(const float *bias, int channel, int lane, float2 (&b)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        b[j] = bias ? __ldg(reinterpret_cast<const float2 *>(bias + channel + j * 8 + lane % 4 * 2)) : make_float2(0, 0);
}

// 64 pixels by 64 channels from sums to the output and, as what a product takes, to `a`.
template <typename T, bool ADDS>
__device__ static inline void store_chunk(const CUtensorMap *out, const tachy_nn_act &act, place &p, int pixel, int channel, float (&d)[32],
                                          const float2 (&b)[8], uint32_t (&a)[16])
{
    uint32_t buffer = p.staging + (p.turn & 1) * CHUNK, line = buffer + p.line;
#pragma unroll
    for (int j = 0; j < 8; j++)
        d[j * 4] += b[j].x, d[j * 4 + 1] += b[j].y, d[j * 4 + 2] += b[j].x, d[j * 4 + 3] += b[j].y;
    if (ADDS) {
        barrier_wait(p.added + 8 * (p.turn & 1), p.phases >> (p.turn & 1) & 1);
        p.phases ^= 1u << (p.turn & 1);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            uint32_t r[4];
            matrices_get(r, line + (((j + (p.lane >> 4)) ^ (p.row & 7)) << 4));
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float2 v = floats<T>(r[k]);
                d[(j + k / 2) * 4 + k % 2 * 2] += v.x, d[(j + k / 2) * 4 + k % 2 * 2 + 1] += v.y;
            }
        }
    } else { // else the added values came when the chunk before last had been read
        if (p.thread == 0)
            tma_store_read<1>();
        named_barrier(1 + p.group, 128);
    }
    activate_common<32>(act, d);
#pragma unroll
    for (int j = 0; j < 16; j++)
        a[j] = halves<T>(d[j * 2], d[j * 2 + 1]);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t r[4] = {a[j * 2], a[j * 2 + 1], a[j * 2 + 2], a[j * 2 + 3]};
        matrices_put(line + (((j + (p.lane >> 4)) ^ (p.row & 7)) << 4), r);
    }
    fence_async();
    named_barrier(1 + p.group, 128);
    if (p.thread == 0)
        tma_store(out, buffer, channel, 0, pixel);
    p.turn++;
}

// The first product's next 64 channels, onto d1.
template <typename T, int K> __device__ static inline void multiply_first(float (&d1)[32], uint32_t x, uint32_t weights)
{
    uint64_t a = tile_descriptor(x), b = tile_descriptor(weights);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < K / 16; k++)
        wgmma<T>(d1, a + k / 4 * (ROWS * DEPTH * 2 / 16) + k % 4 * 2, b + k / 4 * (CHUNK / 16) + k % 4 * 2, k > 0);
    wgmma_commit();
}

// The second product of the 64 channels in `a`, onto d2; `first`: d2 begins with it.
template <typename T, int N> __device__ static inline void multiply_second(float (&d2)[N / 2], const uint32_t (&a)[16], uint32_t weights, bool first)
{
    uint64_t b = tile_descriptor(weights);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma<T>(d2, a + 4 * k, b + 2 * k, !first || k);
    wgmma_commit();
}

// The sums of the second product to its output. bias, a: room that the caller has.
template <typename T, int N>
__device__ static inline void store_second(const work &w, place &p, int pixel, float (&d2)[N / 2], float2 (&bias)[8], uint32_t (&a)[16])
{
#pragma unroll
    for (int u = 0; u < N / 64; u++) {
        take_bias(w.bias2, u * 64, p.lane, bias);
        store_chunk<T, false>(&w.y2, w.act2, p, pixel, u * 64, *reinterpret_cast<float(*)[32]>(d2 + u * 32), bias, a);
    }
}

template <typename T, int K, int N, bool ADDS> __device__ static void consume(const work &w, const shared &m, place p)
{
    typedef layout<K, N> L;
    ring<L::SLOTS> one(0), two(0);
    uint32_t x_phase = 0, x = m.x + p.group * 64 * DEPTH * 2, a[16];
    float d1[32], d2[N / 2];
    float2 bias[8];
    auto release = [&](uint32_t bar) {
        if (p.lane == 0)
            barrier_arrive(bar);
    };
    if (p.group == 1)
        named_arrive(3, CONSUMERS); // the first turn is the other's
    for (int tile = blockIdx.x; tile < w.tiles; tile += gridDim.x) {
        int pixel = tile * ROWS + p.group * 64;
        if (ADDS && p.thread == 0) {
            tma_store_read<0>();
            fetch_added(w, p, tile, 0, p.turn);
        }
        barrier_wait(m.x_full, x_phase);
        x_phase ^= 1;
        barrier_wait(m.w1_full + 8 * one.s, one.phase);
        named_barrier(3 + p.group, CONSUMERS);
        multiply_first<T, K>(d1, x, m.w1 + one.s * L::W1);
        named_arrive(4 - p.group, CONSUMERS);
        for (int j = 0; j < w.chunks; j++) {
            take_bias(w.bias1, j * 64, p.lane, bias);
            if (ADDS && p.thread == 0 && j + 1 < w.chunks) {
                tma_store_read<0>();
                fetch_added(w, p, tile, j + 1, p.turn + 1);
            }
            if (j) {
                wgmma_wait<1>(); // the second product of the step before
                release(m.w2_empty + 8 * (two.s ? two.s - 1 : L::SLOTS - 1));
            }
            wgmma_wait<0>();
            release(m.w1_empty + 8 * one.s);
            one.next();
            if (j + 1 == w.chunks)
                release(m.x_empty);
            store_chunk<T, ADDS>(&w.y1, w.act1, p, pixel, j * 64, d1, bias, a);
            barrier_wait(m.w2_full + 8 * two.s, two.phase);
            if (j + 1 < w.chunks)
                barrier_wait(m.w1_full + 8 * one.s, one.phase);
            named_barrier(3 + p.group, CONSUMERS);
            multiply_second<T, N>(d2, a, m.w2 + two.s * L::W2, j == 0);
            if (j + 1 < w.chunks)
                multiply_first<T, K>(d1, x, m.w1 + one.s * L::W1);
            named_arrive(4 - p.group, CONSUMERS);
            two.next();
        }
        wgmma_wait<0>();
        release(m.w2_empty + 8 * (two.s ? two.s - 1 : L::SLOTS - 1));
        store_second<T, N>(w, p, pixel, d2, bias, a);
    }
    if (p.thread == 0)
        tma_store_read<0>(); // shared memory goes with the block
}
#endif

template <typename T, int K, int N> __global__ void __launch_bounds__(THREADS, 1) pair(const __grid_constant__ work w)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef layout<K, N> L;
    extern __shared__ uint8_t raw[];
    uint32_t start = shared_at(raw);
    shared m = shared_of<K, N>(start);
    if (m.x - start > L::SPARE)
        __trap();
    if (threadIdx.x == 0) {
        tma_prefetch(&w.x), tma_prefetch(&w.w1), tma_prefetch(&w.w2), tma_prefetch(&w.y1), tma_prefetch(&w.y2);
        barrier_init(m.x_full, 1), barrier_init(m.x_empty, CONSUMERS / 32);
        for (int i = 0; i < L::SLOTS; i++) {
            barrier_init(m.w1_full + 8 * i, 1), barrier_init(m.w2_full + 8 * i, 1);
            barrier_init(m.w1_empty + 8 * i, CONSUMERS / 32), barrier_init(m.w2_empty + 8 * i, CONSUMERS / 32);
        }
        for (int i = 0; i < 4; i++)
            barrier_init(m.added + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            produce<K, N>(w, m);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        uint32_t row = lane % 8 + (lane & 8);
        place p = {group, lane, (int)threadIdx.x % 128, (warp * 16 + row) * 128, row, m.staging + group * 2 * CHUNK, m.added + group * 16, 0, 0};
        if (w.has_add)
            consume<T, K, N, true>(w, m, p);
        else
            consume<T, K, N, false>(w, m, p);
    }
#endif
}

// A matrix of 16-bit rows by boxes of 64 columns and `rows` rows.
static bool encode_rows(CUtensorMap *map, cuda_address data, int64_t columns, int64_t nb_rows, int64_t row, int rows)
{
    int64_t size[3] = {columns, 1, nb_rows}, stride[3] = {1, row, row};
    int box[3] = {DEPTH, 1, rows}, one[3] = {1, 1, 1};
    return encode(map, data, 3, size, stride, box, one);
}

template <typename T, int K, int N> static int launch(const tachy_nn_pair *a, cuda_stream stream)
{
    typedef layout<K, N> L;
    static_assert(L::SLOTS >= 2 && L::BYTES <= SHARED, "shared memory");
    const tachy_nn_conv *f = &a->first, *g = &a->second;
    int64_t rows = (int64_t)f->shape.n * f->shape.h * f->shape.w;
    work w;
    w.has_add = f->epilogue.add.data != 0;
    const tachy_nn_tensor *add = w.has_add ? &f->epilogue.add : &f->out;
    if (rows > INT32_MAX - ROWS || !encode_rows(&w.x, f->in.data, K, rows, f->in.pixel, ROWS) ||
        !encode_rows(&w.w1, f->weights, K, f->shape.cout, K, 64) || !encode_rows(&w.w2, g->weights, f->shape.cout, N, f->shape.cout, N) ||
        !encode_rows(&w.y1, f->out.data, f->shape.cout, rows, f->out.pixel, 64) || !encode_rows(&w.y2, g->out.data, N, rows, g->out.pixel, 64) ||
        !encode_rows(&w.add, add->data, f->shape.cout, rows, add->pixel, 64))
        return cudaErrorInvalidValue;
    w.bias1 = at<const float>(f->bias), w.bias2 = at<const float>(g->bias);
    w.act1 = f->epilogue.act, w.act2 = g->epilogue.act;
    w.tiles = (int)((rows + ROWS - 1) / ROWS), w.chunks = f->shape.cout / 64;
    cudaError_t err = cudaFuncSetAttribute(pair<T, K, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES);
    if (err != cudaSuccess)
        return taken(err);
    int sms = attribute(cudaDevAttrMultiProcessorCount);
    pair<T, K, N><<<w.tiles < sms ? w.tiles : sms, THREADS, L::BYTES, on(stream)>>>(w);
    return cudaGetLastError();
}

static bool dense_rows(const tachy_nn_tensor *t, const tachy_conv_shape *s)
{
    return !t->data || ((t->row == s->w * t->pixel || s->h == 1) && (t->image == s->h * t->row || s->n == 1));
}

// One tap over dense pixels.
static bool is_rows(const tachy_nn_conv *a)
{
    const tachy_conv_shape *s = &a->shape;
    return s->kh * s->kw == 1 && s->stride_h == 1 && s->stride_w == 1 && s->groups == 1 && s->n > 0 &&
           !(s->pad_top | s->pad_left | s->pad_bottom | s->pad_right) && !a->scale && !a->sums && !a->weights_image &&
           dense_rows(&a->in, s) && dense_rows(&a->out, s) && dense_rows(&a->epilogue.add, s) && whole_vectors(&a->in, 8) &&
           whole_vectors(&a->out, 8) && whole_vectors(&a->epilogue.add, 8) && a->weights % 16 == 0 && a->bias % 8 == 0 &&
           is_common(a->epilogue.act.kind);
}

template <typename T> static int launch_form(const tachy_nn_pair *a, int k, int n, cuda_stream stream)
{
    static int (*const forms[3][3])(const tachy_nn_pair *, cuda_stream) = {
        {launch<T, 64, 64>, launch<T, 64, 128>, launch<T, 64, 256>},
        {launch<T, 128, 64>, launch<T, 128, 128>, launch<T, 128, 256>},
        {launch<T, 256, 64>, launch<T, 256, 128>, launch<T, 256, 256>},
    };
    return forms[k][n](a, stream);
}

int tachy_nn_run_pair(const struct tachy_nn_pair *a, cuda_stream stream)
{
    const tachy_conv_shape *f = &a->first.shape, *g = &a->second.shape;
    auto form = [](int n) { return n == 64 ? 0 : n == 128 ? 1 : n == 256 ? 2 : -1; };
    int k = form(f->cin), n = form(g->cout);
    if (attribute(cudaDevAttrComputeCapabilityMajor) != 9 || k < 0 || n < 0 || f->cout < 64 || f->cout % 64 || g->cin != f->cout ||
        a->second.dtype != a->first.dtype || !is_rows(&a->first) || !is_rows(&a->second) || a->first.epilogue.add_last || a->second.epilogue.add.data ||
        g->n != f->n || g->h != f->h || g->w != f->w || a->second.in.data != a->first.out.data || a->second.in.pixel != a->first.out.pixel)
        return tachy_nn_run_small_pair(a, stream);
    return of_halves(a->first.dtype, [&](auto t) { return launch_form<decltype(t)>(a, k, n, stream); });
}
