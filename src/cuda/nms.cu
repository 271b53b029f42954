#include "cuda/nms.h"
#include "cuda/values.cuh"

// Five launches: the work is cleared; each box's place in the order of scores is the number of boxes before it; the boxes
// are put there; each says in one bit a box which later ones it hides; and one block a picture goes
// through the bits, 64 boxes at a time, and keeps those that nobody kept before hides.
enum { THREADS = 256, GROUP = 64, RANKED = 1024 };

struct work { // of one picture, n rounded up to whole groups
    uint64_t *hides; // n * words
    float4 *box;
    int *order, *type; // number and class of the box at each place, order -1: none
    int *rank;
};

__device__ static work of(const tachy_cuda_nms &p, int picture)
{
    int64_t words = parts(p.boxes, GROUP), n = words * GROUP;
    work w;
    w.hides = at<uint64_t>(p.scratch, picture * n * (words * 8 + 28));
    w.box = reinterpret_cast<float4 *>(w.hides + n * words);
    w.order = reinterpret_cast<int *>(w.box + n);
    w.type = w.order + n;
    w.rank = w.type + n;
    return w;
}

// Large for good boxes, and different for all: by score, then by number. 0: left out.
__device__ static unsigned long long key(const tachy_cuda_nms &p, int picture, int i)
{
    float score = add(at<const float>(p.score)[(int64_t)picture * p.boxes + i], 0.0f); // -0 becomes 0
    if (!(score > p.least))
        return 0;
    unsigned bits = __float_as_uint(score);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)bits << 32 | (unsigned)~i;
}

__global__ void __launch_bounds__(THREADS) clear(tachy_cuda_nms p)
{
    work w = of(p, blockIdx.y);
    int i = blockIdx.x * THREADS + threadIdx.x, n = parts(p.boxes, GROUP) * GROUP;
    if (i < n) {
        w.rank[i] = 0;
        w.order[i] = -1;
    }
    for (; i < p.limit; i += gridDim.x * THREADS)
        at<int>(p.kept)[(int64_t)blockIdx.y * p.limit + i] = -1;
}

// RANKED boxes of the picture against each thread's own.
__global__ void __launch_bounds__(THREADS) rank(tachy_cuda_nms p)
{
    __shared__ unsigned long long others[RANKED];
    int i = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * RANKED, n = min((int)RANKED, p.boxes - first);
    for (int k = threadIdx.x; k < n; k += THREADS)
        others[k] = key(p, blockIdx.z, first + k);
    __syncthreads();
    if (i >= p.boxes)
        return;
    unsigned long long mine = key(p, blockIdx.z, i);
    int before = 0;
    for (int k = 0; k < n; k++)
        before += others[k] > mine;
    if (before)
        atomicAdd(&of(p, blockIdx.z).rank[i], before);
}

__global__ void __launch_bounds__(THREADS) place(tachy_cuda_nms p)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.boxes || !key(p, blockIdx.y, i))
        return;
    work w = of(p, blockIdx.y);
    int64_t from = (int64_t)blockIdx.y * p.boxes + i;
    int to = w.rank[i];
    const float *b = at<const float>(p.box) + 4 * from;
    w.box[to] = make_float4(b[0], b[1], b[2], b[3]);
    w.order[to] = i;
    w.type[to] = p.classes ? at<const int>(p.classes)[from] : 0;
}

// As tachy_ref_overlap(), operation by operation.
__device__ static bool overlap(float4 a, float4 b, float most)
{
    float w = add(fminf(a.z, b.z), -fmaxf(a.x, b.x)), h = add(fminf(a.w, b.w), -fmaxf(a.y, b.y));
    float common = mul(fmaxf(w, 0.0f), fmaxf(h, 0.0f));
    float both = add(mul(add(a.z, -a.x), add(a.w, -a.y)), mul(add(b.z, -b.x), add(b.w, -b.y)));
    return common > mul(most, add(both, -common));
}

// A thread has one box and the 64 after it.
__global__ void __launch_bounds__(GROUP) hide(tachy_cuda_nms p)
{
    __shared__ float4 box[GROUP];
    __shared__ int type[GROUP], there[GROUP];
    int words = parts(p.boxes, GROUP), column = blockIdx.x, row = blockIdx.y;
    if (column < row)
        return; // never read
    work w = of(p, blockIdx.z);
    int mine = row * GROUP + threadIdx.x, other = column * GROUP + threadIdx.x;
    there[threadIdx.x] = w.order[other] >= 0;
    if (w.order[other] >= 0) {
        box[threadIdx.x] = w.box[other];
        type[threadIdx.x] = w.type[other];
    }
    __syncthreads();
    uint64_t bits = 0;
    if (w.order[mine] >= 0) {
        float4 own = w.box[mine];
        int own_type = w.type[mine];
        for (int k = 0; k < GROUP; k++)
            if (column * GROUP + k > mine && there[k] && type[k] == own_type && overlap(own, box[k], p.most))
                bits |= (uint64_t)1 << k;
    }
    w.hides[(int64_t)mine * words + column] = bits;
}

__global__ void __launch_bounds__(THREADS) keep(tachy_cuda_nms p)
{
    __shared__ uint64_t hidden[TACHY_CUDA_NMS_BOXES / GROUP], group[GROUP];
    __shared__ int stays[GROUP], number, total;
    work w = of(p, blockIdx.x);
    int words = parts(p.boxes, GROUP);
    for (int k = threadIdx.x; k < words; k += THREADS)
        hidden[k] = 0;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    for (int g = 0; g < words && total < p.limit; g++) {
        int first = g * GROUP;
        if (threadIdx.x < GROUP)
            group[threadIdx.x] = w.order[first + threadIdx.x] < 0 ? 0 : w.hides[(int64_t)(first + threadIdx.x) * words + g];
        __syncthreads();
        if (threadIdx.x == 0) {
            uint64_t gone = hidden[g];
            number = 0;
            for (int k = 0; k < GROUP && total < p.limit && w.order[first + k] >= 0; k++)
                if (!(gone >> k & 1)) {
                    gone |= group[k];
                    stays[number++] = k;
                    at<int>(p.kept)[(int64_t)blockIdx.x * p.limit + total++] = w.order[first + k];
                }
        }
        __syncthreads();
        for (int k = g + 1 + threadIdx.x; k < words; k += THREADS) {
            uint64_t gone = 0;
            for (int i = 0; i < number; i++)
                gone |= w.hides[(int64_t)(first + stays[i]) * words + k];
            hidden[k] |= gone;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        at<int>(p.found)[blockIdx.x] = total;
}

int tachy_cuda_run_nms(const struct tachy_cuda_nms *a, cuda_stream stream)
{
    if (a->boxes < 1 || a->boxes > TACHY_CUDA_NMS_BOXES || a->count < 1 || a->count > 65535 || a->limit < 1 ||
        a->scratch % 16)
        return cudaErrorInvalidValue;
    int words = parts(a->boxes, GROUP), blocks = parts((int64_t)words * GROUP, THREADS);
    clear<<<dim3(blocks, a->count), THREADS, 0, on(stream)>>>(*a);
    rank<<<dim3(blocks, parts(a->boxes, RANKED), a->count), THREADS, 0, on(stream)>>>(*a);
    place<<<dim3(blocks, a->count), THREADS, 0, on(stream)>>>(*a);
    hide<<<dim3(words, words, a->count), GROUP, 0, on(stream)>>>(*a);
    keep<<<a->count, THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
