#include "cuda/nn/conv.h"
#include "cuda/nn/maps.cuh"

// Implicit matrix product by TMA and wgmma. A tile is 128 BLOCKS output pixels (a box of tw x th pixels of tn images)
// by COLUMNS output channels. For each tap and each DEPTH input channels one TMA box brings the pixels shifted by the tap
// (what is outside is zero) and one the weights, four to eight such steps ahead. Two warpgroups multiply, each half
// of the pixels; their results go through shared memory and TMA to the output, while the loads of the next tile run.
// Taps that lie in the padding for a whole tile are left out, or three above each other share one box of pixels. Of a volume each tap has a step for each plane. A cluster of SPLIT blocks may share a tile: each takes a
// part of the steps, the sums meet in shared memory.
enum { CONSUMERS = 256, THREADS = CONSUMERS + 128, MOST_ORDER = 512, SHARED = 227 * 1024 };

// Channels that a warpgroup stores at once. Rows of 64 are swizzled; others lie dense, and rows four apart share banks.
template <int COLUMNS> constexpr int WIDTH = COLUMNS % 64 == 0 ? 64 : COLUMNS % 80 == 0 ? 80 : 48;

// TAPS: 1, or 3: those above each other share a step, whose box of pixels is as much higher.
template <int BLOCKS, int COLUMNS, int CHANNELS, int TAPS> struct layout { // of shared memory: stages, staging, biases, barriers
    static constexpr int DEPTH = CHANNELS, PIXELS = 128 * BLOCKS, ROWS = TAPS > 1 ? PIXELS + 64 : PIXELS; // of DEPTH channels
    static constexpr int A_BYTES = ROWS * DEPTH * 2, B_TAP = COLUMNS * DEPTH * 2, B_BYTES = TAPS * B_TAP;
    static constexpr int STAGE = A_BYTES + B_BYTES, CHUNK = 64 * WIDTH<COLUMNS> * 2, STAGING = 4 * CHUNK; // two chunks a warpgroup
    static constexpr int BIASES = 2 * COLUMNS * (int)sizeof(float), BARRIERS = 256;
    // Swizzled tiles begin at multiples of 1024, as shared memory does after what the system has of it.
    static constexpr int SPARE = 512, STAGES_FIT = (SHARED - SPARE - STAGING - BIASES - BARRIERS) / STAGE;
    static constexpr int STAGES = STAGES_FIT < 8 ? STAGES_FIT : 8;
    static_assert(COLUMNS % WIDTH<COLUMNS> == 0 && A_BYTES % 1024 == 0 && B_TAP % 1024 == 0, "whole chunks and swizzles");
    static constexpr int USED = STAGES * STAGE + STAGING + BIASES + BARRIERS, BYTES = USED + SPARE;
};

struct work { // of one launch
    CUtensorMap in, weights, out, add; // add: also the odd rows of what is spread, of which out has the even ones
    tachy_conv_shape s;
    tachy_nn_act act;
    const float *bias;
    int out_h, out_w;
    int tw, th, tn;                 // a tile; powers of two
    uint32_t tap_rows, step_bytes;  // from a tap's pixels to those of the one below in a step; of a step
    int tiles_x, tiles_y, tiles_n, columns; // columns: of COLUMNS channels
    int tiles, chunks;              // chunks: of DEPTH input channels
    bool has_add, add_one, add_last, ordered; // add_one: one image is added to all
    int weights_image;              // rows from an image's weights to the next's; 0: all have the same
    int planes, before;             // of a volume, that an image is made of
    int side, apart;                // channels of a pixel that is spread, 0: none are; as spread_apart
    uint16_t order[MOST_ORDER];     // of the tiles in an image, most steps first
};

struct tile {
    int n, y, x, channel; // its first
    int rows, row0, taps_in_row, column0; // valid taps: rows row0.., columns column0..
};

// Taps k whose input o * stride - pad + k * dilation, for o in [from, to), meets [0, size): they are adjacent. At least
// one is given, so that a tile has a sum.
__host__ __device__ static inline int valid_taps(int from, int to, int stride, int pad, int dilation, int taps, int size, int *first)
{
    int low = from * stride - pad, high = (to - 1) * stride - pad, n = 0;
    *first = 0;
    for (int k = 0; k < taps; k++)
        if (high + k * dilation >= 0 && low + k * dilation < size) {
            if (!n)
                *first = k;
            n++;
        }
    return n ? n : 1;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Leaves out valid taps whose weights are zero. At least one tap stays.
__device__ static inline void leave_apart(int apart, bool later, int taps, int *first, int *n)
{
    int low = later && *first < apart ? apart : *first, high = *first + *n;
    high = later || high <= taps - apart ? high : taps - apart;
    if (low < high)
        *first = low, *n = high - low;
    else
        *n = 1;
}

__device__ static inline tile tile_of(const work &w, int rank, int columns_each)
{
    tile t;
    t.channel = rank % w.columns * columns_each;
    rank /= w.columns;
    int in_image = rank / w.tiles_n;
    t.n = rank % w.tiles_n * w.tn;
    if (w.ordered)
        in_image = w.order[in_image];
    t.y = in_image / w.tiles_x * w.th;
    t.x = in_image % w.tiles_x * w.tw;
    const tachy_conv_shape &s = w.s;
    t.rows = valid_taps(t.y, min(t.y + w.th, w.out_h), s.stride_h, s.pad_top, s.dil_h, s.kh, s.h, &t.row0);
    t.taps_in_row = valid_taps(t.x, min(t.x + w.tw, w.out_w), s.stride_w, s.pad_left, s.dil_w, s.kw, s.w, &t.column0);
    if (w.apart) {
        int side = t.channel / w.side;
        leave_apart(w.apart, side > 1, s.kh, &t.row0, &t.rows);
        leave_apart(w.apart, side % 2, s.kw, &t.column0, &t.taps_in_row);
    }
    return t;
}

// The k-th tile of this block (of this cluster): to and fro, so that who had a long one gets a short one.
__device__ static inline int rank_of(int k, int block, int blocks) { return k * blocks + (k & 1 ? blocks - 1 - block : block); }

// Steps of a tile: those of one tap, or of TAPS.
template <int TAPS> __device__ static inline int steps_of(const work &w, const tile &t)
{
    return (TAPS > 1 ? 1 : t.rows) * t.taps_in_row * w.planes * w.chunks;
}

template <class L, int SPLIT, int TAPS>
__device__ static void produce(const work &w, uint32_t stages, uint32_t full, uint32_t empty, int columns_each)
{
    int s = 0, cluster = blockIdx.x / SPLIT, clusters = gridDim.x / SPLIT, part = SPLIT > 1 ? cluster_rank() : 0;
    uint32_t phase = 1;
    for (int k = 0, rank; (rank = rank_of(k, cluster, clusters)) < w.tiles; k++) {
        tile t = tile_of(w, rank, columns_each);
        int steps = steps_of<TAPS>(w, t), i = part * steps / SPLIT, end = (part + 1) * steps / SPLIT;
        int chunk = i % w.chunks, plane = i / w.chunks % w.planes, tap = i / w.chunks / w.planes;
        int r = TAPS > 1 ? 0 : t.row0 + tap / t.taps_in_row, q = t.column0 + tap % t.taps_in_row;
        for (; i < end; i++) {
            barrier_wait(empty + 8 * s, phase);
            uint32_t a = stages + s * L::STAGE, bar = full + 8 * s;
            barrier_expect(bar, w.step_bytes);
            tma_load(a, &w.in, bar, chunk * L::DEPTH, t.x * w.s.stride_w - w.s.pad_left + q * w.s.dil_w,
                     t.y * w.s.stride_h - w.s.pad_top + r * w.s.dil_h, t.n + plane - w.before);
#pragma unroll
            for (int k = 0; k < TAPS; k++)
                tma_load(a + L::A_BYTES + k * L::B_TAP, &w.weights, bar, chunk * L::DEPTH, ((r + k) * w.s.kw + q) * w.planes + plane,
                         t.n * w.weights_image + t.channel);
            if (++s == L::STAGES)
                s = 0, phase ^= 1;
            if (++chunk < w.chunks) // no divisions here: this thread alone feeds the tensor cores
                continue;
            chunk = 0, plane = plane + 1 < w.planes ? plane + 1 : 0;
            if (!plane && ++q == t.column0 + t.taps_in_row)
                q = t.column0, r++;
        }
    }
}

// The sums of a tile: each warpgroup has BLOCKS times 64 pixels.
template <typename T, class L, int BLOCKS, int N, int TAPS>
__device__ static inline void multiply(float (&d)[BLOCKS][N / 2], uint32_t stages, uint32_t full, uint32_t empty, int steps, int &s,
                                       uint32_t &phase, int group, int lane, uint32_t tap_rows)
{
    constexpr int EACH = L::DEPTH / 16;
    int before = -1;
    for (int i = 0; i < steps; i++) {
        barrier_wait(full + 8 * s, phase);
        uint64_t a = tile_descriptor<L::DEPTH>(stages + s * L::STAGE + group * BLOCKS * 64 * L::DEPTH * 2);
        uint64_t b = tile_descriptor<L::DEPTH>(stages + s * L::STAGE + L::A_BYTES);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < TAPS * EACH; k++)
#pragma unroll
            for (int m = 0; m < BLOCKS; m++)
                wgmma<T>(d[m], a + k / EACH * (tap_rows * L::DEPTH * 2 / 16) + m * (64 * L::DEPTH * 2 / 16) + k % EACH * 2,
                         b + k / EACH * (L::B_TAP / 16) + k % EACH * 2, i || k);
        wgmma_commit();
        wgmma_wait<1>();
        if (before >= 0 && lane == 0)
            barrier_arrive(empty + 8 * before);
        before = s;
        if (++s == L::STAGES)
            s = 0, phase ^= 1;
    }
    wgmma_wait<0>();
    if (before >= 0 && lane == 0)
        barrier_arrive(empty + 8 * before);
}

struct place { // of one warpgroup's thread
    int group, warp, lane, thread;
    uint32_t staging, added; // two chunks; two barriers of what is added
    float *bias;             // of the tile's channels
};

// Fetches the tensor to add for chunk u (64 pixels of block `block`, W channels) into the buffer of `turn`. Called by
// one thread.
template <int W> __device__ static inline void fetch_added(const work &w, const tile &t, const place &p, int block, int channel, int turn)
{
    int pixel = block * 64;
    uint32_t bar = p.added + 8 * (turn & 1);
    barrier_expect(bar, 64 * W * 2);
    tma_load(p.staging + (turn & 1) * (64 * W * 2), &w.add, bar, channel, t.x + pixel % w.tw, t.y + pixel / w.tw % w.th,
             w.add_one ? 0 : t.n + pixel / w.tw / w.th);
}

// Bytes from the beginning of row `row` of a chunk to its channels j * 8 and following.
template <int W> __device__ static inline uint32_t in_row(int j, int row) { return (uint32_t)(W == 64 ? j ^ (row & 7) : j) << 4; }

// Added to d, or returned in `more` if it comes after the activation.
template <typename T, int W>
__device__ static inline void take_added(const work &w, uint32_t line, int row, int lane, float (&d)[W / 2], float (&more)[W / 2])
{
#pragma unroll
    for (int j = 0; j < W / 8; j += 2) {
        uint32_t r[4];
        matrices_get(r, line + in_row<W>(j + (lane >> 4), row));
#pragma unroll
        for (int k = 0; k < 4; k++) { // matrices: rows 0 and 8 of j, of j + 1
            float2 v = floats<T>(r[k]);
            int i = (j + k / 2) * 4 + k % 2 * 2;
            more[i] = v.x, more[i + 1] = v.y;
        }
    }
#pragma unroll
    for (int k = 0; k < W / 2; k++)
        d[k] += w.add_last ? 0.0f : more[k];
}

// Slopes of a thread's two columns of each eight, from `channel` on, all asked for at once.
template <int N> __device__ static inline void load_slopes(const work &w, float (&slope)[N], int channel)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        int c = channel + i / 2 * 8 + i % 2;
        slope[i] = c < w.s.cout ? __ldg(at<const float>(w.act.slope) + c) : 0.0f;
    }
}

// 64 pixels by W channels from the sums in d to the output. `turn` counts the chunks.
template <typename T, int W>
__device__ static inline void store_chunk(const work &w, const tile &t, const place &p, float (&d)[W / 2], int block, int channel, int turn)
{
    uint32_t buffer = p.staging + (turn & 1) * (64 * W * 2), row = p.lane % 8 + (p.lane & 8);
    uint32_t line = buffer + (p.warp * 16 + row) * (W * 2);
    int pixel = block * 64;
    float more[W / 2], slope[W / 4];
    const float *bias = p.bias + channel - t.channel + p.lane % 4 * 2;
    if (w.act.kind == TACHY_ACT_PRELU)
        load_slopes(w, slope, channel + p.lane % 4 * 2);
#pragma unroll
    for (int j = 0; j < W / 8; j++) {
        float2 b = *reinterpret_cast<const float2 *>(bias + j * 8);
        d[j * 4] += b.x, d[j * 4 + 1] += b.y, d[j * 4 + 2] += b.x, d[j * 4 + 3] += b.y;
    }
    if (w.has_add) {
        barrier_wait(p.added + 8 * (turn & 1), turn >> 1 & 1);
        take_added<T, W>(w, line, row, p.lane, d, more);
    }
    if (w.act.kind == TACHY_ACT_PRELU) {
#pragma unroll
        for (int k = 0; k < W / 2; k++)
            d[k] *= d[k] < 0 ? slope[k / 4 * 2 + k % 2] : 1.0f;
    } else if (!activate_common<W / 2>(w.act, d)) {
        float v[W / 2]; // in memory, as the sums are not
#pragma unroll
        for (int k = 0; k < W / 2; k++)
            v[k] = d[k];
        activate_seldom<W / 2>(w.act.kind, w.act.a, w.act.b, v);
#pragma unroll
        for (int k = 0; k < W / 2; k++)
            d[k] = v[k];
    }
    if (w.has_add && w.add_last)
#pragma unroll
        for (int k = 0; k < W / 2; k++)
            d[k] += more[k];
    if (!w.has_add) { // else the added values came when the chunk before last had been read
        if (p.thread == 0)
            tma_store_read<1>();
        named_barrier(1 + p.group, 128);
    }
#pragma unroll
    for (int j = 0; j < W / 8; j += 2) {
        uint32_t r[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            r[k] = halves<T>(d[j * 4 + 2 * k], d[j * 4 + 2 * k + 1]);
        matrices_put(line + in_row<W>(j + (p.lane >> 4), row), r);
    }
    fence_async();
    named_barrier(1 + p.group, 128);
    int x = t.x + pixel % w.tw, y = t.y + pixel / w.tw % w.th, n = t.n + pixel / w.tw / w.th;
    if (p.thread == 0 && w.side)
        tma_store(channel / w.side < 2 ? &w.out : &w.add, buffer, channel % w.side, channel / w.side % 2, x, y, n);
    else if (p.thread == 0)
        tma_store(&w.out, buffer, channel, x, y, n);
}

// Every block of the cluster gets the other blocks' sums for its own chunks: chunk u of a warpgroup belongs to block u
// % SPLIT. They are received in the memory of the stages.
template <int BLOCKS, int N, int SPLIT>
__device__ static inline void meet(float (&d)[BLOCKS][N / 2], uint32_t stages, const place &p, int mine)
{
    constexpr int W = WIDTH<N>, UNITS = BLOCKS * N / W, FOURS = W / 8; // of a thread's sums in a chunk
    cluster_sync(); // nobody's stages are needed any more
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        int owner = u % SPLIT, from = (mine - owner + SPLIT) % SPLIT - 1;
        uint32_t to = stages + ((((u / SPLIT) * (SPLIT - 1) + from) * 2 + p.group) * FOURS * 128 + p.thread) * 16;
        if (owner != mine)
#pragma unroll
            for (int k = 0; k < FOURS; k++) {
                const float *v = d[u / (N / W)] + u % (N / W) * (W / 2) + k * 4;
                cluster_put(to + k * 128 * 16, owner, v[0], v[1], v[2], v[3]);
            }
    }
    cluster_sync();
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        if (u % SPLIT == mine)
#pragma unroll
            for (int from = 0; from < SPLIT - 1; from++)
#pragma unroll
                for (int k = 0; k < FOURS; k++) {
                    uint32_t at = stages + ((((u / SPLIT) * (SPLIT - 1) + from) * 2 + p.group) * FOURS * 128 + p.thread + k * 128) * 16;
                    float *v = d[u / (N / W)] + u % (N / W) * (W / 2) + k * 4, x, y, z, q;
                    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(q) : "r"(at) : "memory");
                    v[0] += x, v[1] += y, v[2] += z, v[3] += q;
                }
}

// Chunk u of a warpgroup: 64 pixels of block u / (N / WIDTH) and WIDTH channels. True if it is this block's and exists.
template <int N, int SPLIT> __device__ static inline bool is_mine(const work &w, const tile &t, int u, int part)
{
    return u % SPLIT == part && t.channel + u % (N / WIDTH<N>) * WIDTH<N> < w.s.cout;
}

// The chunk of a tile whose added tensor was not asked for yet, and its turn.
struct ahead {
    int chunk, turn;
};

// Asks for it. Its buffer must have been stored. Called by one thread.
template <int BLOCKS, int N, int SPLIT>
__device__ static inline void fetch_next(const work &w, const tile &t, const place &p, int part, ahead &a)
{
    constexpr int W = WIDTH<N>, UNITS = BLOCKS * N / W;
    for (; a.chunk < UNITS && !is_mine<N, SPLIT>(w, t, a.chunk, part); a.chunk++)
        ;
    if (a.chunk == UNITS)
        return;
    tma_store_read<0>();
    fetch_added<W>(w, t, p, p.group * BLOCKS + a.chunk / (N / W), t.channel + a.chunk % (N / W) * W, a.turn++);
    a.chunk++;
}

template <typename T, int BLOCKS, int N, int SPLIT>
__device__ static inline void store_tile(const work &w, const tile &t, const place &p, float (&d)[BLOCKS][N / 2], int part, ahead &a, int &turn)
{
    constexpr int W = WIDTH<N>, UNITS = BLOCKS * N / W;
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        if (is_mine<N, SPLIT>(w, t, u, part)) {
            if (w.has_add && p.thread == 0)
                fetch_next<BLOCKS, N, SPLIT>(w, t, p, part, a);
            store_chunk<T, W>(w, t, p, *reinterpret_cast<float(*)[W / 2]>(d[u / (N / W)] + u % (N / W) * (W / 2)),
                              p.group * BLOCKS + u / (N / W), t.channel + u % (N / W) * W, turn);
            turn++;
        }
}

template <typename T, class L, int BLOCKS, int N, int SPLIT, int TAPS>
__device__ static void consume(const work &w, uint32_t stages, uint32_t full, uint32_t empty, const place &p)
{
    int s = 0, turn = 0, cluster = blockIdx.x / SPLIT, clusters = gridDim.x / SPLIT, part = SPLIT > 1 ? cluster_rank() : 0;
    uint32_t phase = 0;
    float d[BLOCKS][N / 2];
    for (int k = 0, rank; (rank = rank_of(k, cluster, clusters)) < w.tiles; k++) {
        tile t = tile_of(w, rank, N);
        // The chunks' barriers are between this and its readers, and between the readers before and this.
        for (int c = p.thread; c < N; c += 128)
            p.bias[c] = w.bias && t.channel + c < w.s.cout ? w.bias[t.channel + c] : 0.0f;
        if (w.act.kind == TACHY_ACT_PRELU && p.thread * 32 < N && t.channel + p.thread * 32 < w.s.cout)
            prefetch_line(at<const float>(w.act.slope) + t.channel + p.thread * 32);
        ahead a = {0, turn};
        if (w.has_add && p.thread == 0)
            fetch_next<BLOCKS, N, SPLIT>(w, t, p, part, a); // comes while the sums are made
        named_barrier(1 + p.group, 128);
        int steps = steps_of<TAPS>(w, t);
        multiply<T, L, BLOCKS, N, TAPS>(d, stages, full, empty, (part + 1) * steps / SPLIT - part * steps / SPLIT, s, phase, p.group, p.lane,
                                        w.tap_rows);
        if (SPLIT > 1)
            meet<BLOCKS, N, SPLIT>(d, stages, p, part);
        store_tile<T, BLOCKS, N, SPLIT>(w, t, p, d, part, a, turn);
    }
    if (p.thread == 0)
        tma_store_read<0>(); // shared memory goes with the block
}
#endif

template <typename T, int BLOCKS, int N, int SPLIT, int DEPTH, int TAPS>
__global__ void __launch_bounds__(THREADS, 1) conv_tma(const __grid_constant__ work w)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef layout<BLOCKS, N, DEPTH, TAPS> L;
    extern __shared__ uint8_t raw[];
    uint32_t start = shared_at(raw), stages = (start + 1023) & ~1023u, staging = stages + L::STAGES * L::STAGE;
    uint32_t biases = staging + L::STAGING, full = biases + L::BIASES, empty = full + 8 * L::STAGES, added = empty + 8 * L::STAGES;
    if (stages - start > L::SPARE)
        __trap();
    if (threadIdx.x == 0) {
        tma_prefetch(&w.in), tma_prefetch(&w.weights), tma_prefetch(&w.out);
        for (int i = 0; i < L::STAGES; i++) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, CONSUMERS / 32);
        }
        for (int i = 0; i < 4; i++)
            barrier_init(added + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            produce<L, SPLIT, TAPS>(w, stages, full, empty, N);
        if (SPLIT > 1) { // as meet()
            __syncwarp();
            cluster_sync();
            cluster_sync();
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int group = threadIdx.x / 128 - 1;
        place p = {group, (int)threadIdx.x / 32 % 4, (int)threadIdx.x % 32, (int)threadIdx.x % 128, staging + group * 2 * L::CHUNK,
                   added + group * 16, reinterpret_cast<float *>(raw + (biases - start)) + group * N};
        consume<T, L, BLOCKS, N, SPLIT, TAPS>(w, stages, full, empty, p);
    }
#endif
}

// A picture of c channels by boxes of `depth` channels and w x h pixels of n images, `sw` and `sh` apart.
static bool encode_picture(CUtensorMap *map, const tachy_nn_tensor *t, int c, int w, int h, int n, int depth, const int box[3], int sw, int sh)
{
    int64_t size[4] = {c, w, h, n}, stride[4] = {1, t->pixel, t->row, t->image ? t->image : t->row * h};
    int boxes[4] = {depth, box[0], box[1], box[2]}, step[4] = {1, sw, sh, 1};
    return encode(map, t->data, 4, size, stride, boxes, step);
}

// Every second row of a spread picture, from `row` on: pixels of c channels in pairs, of which a box has `width` of one side.
static bool encode_rows(CUtensorMap *map, const tachy_nn_tensor *t, int row, int c, int w, int h, int n, int width, const int box[3])
{
    int64_t size[5] = {c, 2, w, h, n}, stride[5] = {1, t->pixel, 2 * t->pixel, 2 * t->row, t->image ? t->image : t->row * 2 * h};
    int boxes[5] = {width, 1, box[0], box[1], box[2]}, step[5] = {1, 1, 1, 1, 1};
    return encode(map, t->data + (cuda_address)(row * t->row * 2), 5, size, stride, boxes, step);
}

static int least(int a, int b) { return a < b ? a : b; }

// The box of `pixels` pixels with the fewest tiles; among equals the squarest, whose padding is skipped soonest. From
// one image if each has its own weights; what is stored at once is, if one image is added to all. `taps` above each other share a
// box of at most `rows` pixels, whose rows are whole swizzles of 8. False: there is none.
static bool choose_tile(work *w, int pixels, int n, int taps, int rows)
{
    int64_t best = INT64_MAX;
    for (int tn = 1; tn <= pixels && tn < (w->weights_image ? 2 : 2 * n); tn *= 2)
        for (int th = 1; th * tn <= pixels; th *= 2) {
            int tw = pixels / th / tn;
            if (tw * w->s.stride_w > 256 || th * w->s.stride_h > 256 || (w->add_one && tw * th < 64))
                continue;
            if (taps > 1 && (tn > 1 || tw % 8 || (th + (taps - 1) * w->s.dil_h) * tw > rows))
                continue;
            int64_t tiles = (int64_t)parts(w->out_w, tw) * parts(w->out_h, th) * parts(n, tn);
            int64_t cost = tiles * 1024 + (tw > th ? tw / th : th / tw) + tn * 64;
            if (cost < best)
                best = cost, w->tw = tw, w->th = th, w->tn = tn;
        }
    if (best == INT64_MAX)
        return false;
    w->tiles_x = parts(w->out_w, w->tw), w->tiles_y = parts(w->out_h, w->th), w->tiles_n = parts(n, w->tn);
    return true;
}

// Taps of an image's i-th tile.
static int taps_of(const work *w, int i)
{
    const tachy_conv_shape *s = &w->s;
    int y = i / w->tiles_x * w->th, x = i % w->tiles_x * w->tw, first;
    return valid_taps(y, least(y + w->th, w->out_h), s->stride_h, s->pad_top, s->dil_h, s->kh, s->h, &first) *
           valid_taps(x, least(x + w->tw, w->out_w), s->stride_w, s->pad_left, s->dil_w, s->kw, s->w, &first);
}

// Tiles of an image with the most steps first.
static void order_tiles(work *w)
{
    int count = w->tiles_x * w->tiles_y, cost[MOST_ORDER];
    w->ordered = count <= MOST_ORDER && w->s.kh * w->s.kw > 1;
    for (int i = 0; w->ordered && i < count; i++) {
        int mine = taps_of(w, i), k = i;
        for (; k > 0 && cost[k - 1] < mine; k--)
            cost[k] = cost[k - 1], w->order[k] = w->order[k - 1];
        cost[k] = mine, w->order[k] = (uint16_t)i;
    }
}

// True if a cluster may split a tile: each block must have a step, since its sums begin with one.
static bool may_split(const work *w, int64_t tiles, int split, int sms)
{
    bool fits = tiles * split <= sms;
    for (int i = 0; fits && i < w->tiles_x * w->tiles_y; i++)
        fits = taps_of(w, i) * w->planes * w->chunks >= split;
    return fits;
}

// False if narrower tiles do the same: of wide ones half is enough, and what is no multiple of 64 must not fill more.
static bool columns_pay(int cout, int n)
{
    return n % 64 ? parts(cout, n) * n <= parts(cout, 64) * 64 : n == 64 || n / 2 < cout;
}

template <typename T, int BLOCKS, int N, int SPLIT, int DEPTH = 64, int TAPS = 1> static int launch(const tachy_nn_conv *a, cuda_stream stream)
{
    typedef layout<BLOCKS, N, DEPTH, TAPS> L;
    constexpr int W = WIDTH<N>;
    static_assert(L::STAGES * TAPS >= 4 && L::BYTES <= SHARED, "shared memory");
    work w;
    w.s = a->shape;
    const tachy_conv_shape *s = &w.s;
    w.act = a->epilogue.act, w.bias = at<const float>(a->bias);
    w.out_h = tachy_conv_out_h(s), w.out_w = tachy_conv_out_w(s);
    w.has_add = a->epilogue.add.data != 0, w.add_last = a->epilogue.add_last;
    w.add_one = w.has_add && !a->epilogue.add.image && s->n > 1;
    w.weights_image = a->weights_image ? s->cout : 0;
    w.side = a->spread.data ? s->cout / 4 : 0, w.apart = w.side ? a->spread_apart : 0;
    if (w.side % W || (w.apart && (w.side % N || SPLIT > 1 || TAPS > 1)) || !columns_pay(s->cout, N))
        return cudaErrorInvalidValue;
    w.planes = a->planes > 1 ? a->planes : 1, w.before = a->planes > 1 ? a->before : 0;
    if ((TAPS > 1 && (s->kh != TAPS || s->stride_h > 1 || s->stride_w > 1 || w.planes > 1)) || !choose_tile(&w, L::PIXELS, s->n, TAPS, L::ROWS))
        return cudaErrorInvalidValue;
    order_tiles(&w);
    w.tap_rows = (uint32_t)(s->dil_h * w.tw);
    w.columns = parts(s->cout, N), w.chunks = parts(s->cin, DEPTH);
    int64_t tiles = (int64_t)w.tiles_x * w.tiles_y * w.tiles_n * w.columns;
    int sms = attribute(cudaDevAttrMultiProcessorCount);
    if (tiles < 1 || tiles > INT32_MAX / 64 || (SPLIT > 1 && !may_split(&w, tiles, SPLIT, sms)) ||
        (DEPTH < 64 && TAPS == 1 && w.chunks % 2 == 0)) // 64 channels at a time are as many
        return cudaErrorInvalidValue;
    w.tiles = (int)tiles;
    // Unit that a warpgroup stores at once: 64 pixels of the box, in its order.
    int box[3] = {w.tw, w.th + (TAPS - 1) * s->dil_h, w.tn}, part[3] = {least(w.tw, 64), 1, 1};
    part[1] = least(w.th, 64 / part[0]), part[2] = 64 / part[0] / part[1];
    w.step_bytes = (uint32_t)(box[0] * box[1] * box[2] * DEPTH * 2 + L::B_BYTES);
    const int taps = s->kh * s->kw * w.planes;
    int64_t size[3] = {s->cin, taps, (int64_t)s->cout * (a->weights_image ? s->n : 1)}, row = (s->cin + 7) / 8 * 8;
    int64_t stride[3] = {1, row, row * taps};
    int rows[3] = {DEPTH, 1, N}, one[3] = {1, 1, 1};
    if (!encode_picture(&w.in, &a->in, s->cin, s->w, s->h, a->planes > 1 ? a->in_planes : s->n, DEPTH, box, s->stride_w, s->stride_h) ||
        !encode(&w.weights, a->weights, 3, size, stride, rows, one))
        return cudaErrorInvalidValue;
    bool stores = w.side ? encode_rows(&w.out, &a->spread, 0, w.side, w.out_w, w.out_h, s->n, W, part) &&
                               encode_rows(&w.add, &a->spread, 1, w.side, w.out_w, w.out_h, s->n, W, part)
                         : encode_picture(&w.out, &a->out, s->cout, w.out_w, w.out_h, s->n, W, part, 1, 1) &&
                               encode_picture(&w.add, w.has_add ? &a->epilogue.add : &a->out, s->cout, w.out_w, w.out_h, w.add_one ? 1 : s->n,
                                              W, part, 1, 1);
    if (!stores)
        return cudaErrorInvalidValue;
    cudaError_t err = cudaFuncSetAttribute(conv_tma<T, BLOCKS, N, SPLIT, DEPTH, TAPS>, cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES);
    if (err != cudaSuccess)
        return taken(err);
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = SPLIT, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    c.gridDim = dim3((unsigned)least((int)tiles, sms / SPLIT) * SPLIT);
    c.blockDim = dim3(THREADS), c.dynamicSmemBytes = L::BYTES, c.stream = on(stream), c.attrs = &cluster, c.numAttrs = 1;
    return taken(cudaLaunchKernelEx(&c, conv_tma<T, BLOCKS, N, SPLIT, DEPTH, TAPS>, w));
}

template <typename T> static int launch_variant(const tachy_nn_conv *a, cuda_stream stream)
{
    static int (*const variants[TACHY_NN_TMA_VARIANTS])(const tachy_nn_conv *, cuda_stream) = {
        launch<T, 1, 256, 1>, launch<T, 2, 128, 1>, launch<T, 1, 128, 1>, launch<T, 2, 64, 1>, launch<T, 1, 64, 1>,
        launch<T, 1, 256, 2>, launch<T, 1, 256, 4>, launch<T, 1, 128, 2>, launch<T, 2, 128, 2>, launch<T, 2, 128, 4>,
        launch<T, 2, 64, 1, 32>, launch<T, 1, 64, 1, 32>, launch<T, 2, 128, 1, 32>,
        launch<T, 1, 128, 4>, launch<T, 1, 64, 2>,  launch<T, 1, 64, 4>, launch<T, 2, 64, 1, 64, 3>,
        launch<T, 2, 80, 1>, launch<T, 1, 80, 1>, launch<T, 2, 80, 1, 32, 3>, launch<T, 2, 96, 1, 32, 3>,
    };
    return variants[a->variant](a, stream);
}

int tachy_nn_run_conv_tma(const struct tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    bool aligned = whole_vectors(&a->in, 8) && whole_vectors(&a->out, 8) && whole_vectors(&a->epilogue.add, 8) && a->weights % 16 == 0 &&
                   a->bias % 8 == 0 && (s->cin % 8 == 0 || !a->weights_image);
    if (attribute(cudaDevAttrComputeCapabilityMajor) != 9 || s->groups != 1 || a->scale || a->sums || !aligned ||
        s->n < 1 || s->stride_h > 8 || s->stride_w > 8)
        return cudaErrorInvalidValue;
    if (a->planes > 1 && (a->weights_image || a->in_planes < 1))
        return cudaErrorInvalidValue;
    if (a->spread.data && (!whole_vectors(&a->spread, 8) || s->cout % 256 || a->epilogue.add.data))
        return cudaErrorInvalidValue;
    if (a->variant < 0 || a->variant >= TACHY_NN_TMA_VARIANTS ||
        (a->weights_image && a->weights_image != (int64_t)s->cout * s->kh * s->kw * s->cin))
        return cudaErrorInvalidValue;
    return of_halves(a->dtype, [&](auto t) { return launch_variant<decltype(t)>(a, stream); });
}
