#include "cuda/nn/index.h"
#include "cuda/nn/tensor.cuh"

// Gather: a thread an element. Scatter: a thread has the elements of the table that only it writes to, and reads all
// indices that may point there, in order: no atomics, and the same bits in each run. Top: a warp an element, which
// counts those that come before it.
enum { THREADS = 256, RANK = TACHY_NN_RANK, LANES = 32, OWNERS = 1 << 16 };

static int bytes_of(enum tachy_dtype t)
{
    return t == TACHY_I64 ? 8 : t == TACHY_F32 || t == TACHY_I32 ? 4 : t == TACHY_F16 || t == TACHY_BF16 ? 2 : t == TACHY_U8 || t == TACHY_I8;
}

__device__ static inline int64_t read_index(const tachy_nn_operand &o, int64_t i)
{
    switch (o.dtype) {
    case TACHY_I64: return at<const int64_t>(o.data)[i];
    case TACHY_I32: return at<const int32_t>(o.data)[i];
    case TACHY_I8: return at<const int8_t>(o.data)[i];
    default: return at<const uint8_t>(o.data)[i];
    }
}

struct found {
    int64_t offset; // elements of the table
    uint32_t number; // of the element among those that indices can name
};
__device__ static inline int64_t within(int64_t i, int64_t size)
{
    i = i < 0 ? i + size : i;
    return i < 0 ? 0 : i < size ? i : size - 1;
}
__device__ static inline found find(const tachy_nn_index &a, int64_t from)
{
    found f = {0, 0};
    for (int d = 0; d < a.deep; d++) {
        int64_t i = within(read_index(a.index, from + d * a.next), a.size[d]);
        f.offset += i * a.step[d];
        f.number = f.number * (uint32_t)a.size[d] + (uint32_t)i;
    }
    return f;
}

// Offsets of element `i` of the dimensions `first` to `last` - 1.
struct offsets {
    int64_t table, index, list, also;
};
__device__ static inline void walk(const tachy_nn_index &a, uint32_t i, int first, int last, offsets &o)
{
    for (int d = last - 1; d >= first; d--) {
        uint32_t size = (uint32_t)a.shape[d], k = i % size;
        if (size == 1)
            continue;
        i /= size;
        o.table += k * a.table.stride[d];
        o.index += k * a.index.stride[d];
        o.list += k * a.list.stride[d];
        o.also += k * a.also.stride[d];
    }
}

// An element in another type of floats, or with the bits that it has.
template <typename U, typename T> struct as {
    __device__ static inline U of(T v)
    {
        U u;
        put(&u, value(v));
        return u;
    }
};
template <typename T> struct as<T, T> {
    __device__ static inline T of(T v) { return v; }
};

template <typename L, typename T> __global__ void __launch_bounds__(THREADS) gather(tachy_nn_index a, uint32_t n)
{
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    offsets o = {0, 0, 0, 0};
    if (i >= n)
        return;
    walk(a, i, 0, RANK, o);
    int64_t place = o.table + find(a, o.index).offset;
    if (a.also.data)
        place += within(read_index(a.also, o.also), a.also_size) * a.also_step;
    at<L>(a.list.data)[o.list] = as<L, T>::of(at<const T>(a.table.data)[place]);
}

template <typename T> __device__ static inline T changed(int how, T y, T v)
{
    switch (how) {
    case TACHY_NN_SCATTER_ADD: return y + v;
    case TACHY_NN_SCATTER_MUL: return y * v;
    case TACHY_NN_SCATTER_MAX: return y != y || y > v ? y : v;
    case TACHY_NN_SCATTER_MIN: return y != y || y < v ? y : v;
    default: return v;
    }
}
// In which type numbers of another are compared and added.
template <typename T> struct number { typedef T in; };
template <> struct number<half16> { typedef float in; };
template <> struct number<bfloat16> { typedef float in; };

// The first `serial` dimensions, of `rounds` elements, are those without a table stride. Of the elements that they may
// all reach, each owner has every `owners`-th.
template <typename T, typename L>
__global__ void __launch_bounds__(THREADS) scatter(tachy_nn_index a, int serial, uint32_t rounds, uint32_t others, uint32_t owners)
{
    typedef typename number<T>::in N;
    uint64_t t = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t mine = (uint32_t)(t / others);
    offsets own = {0, 0, 0, 0};
    if (mine >= owners)
        return;
    walk(a, (uint32_t)(t % others), serial, RANK, own);
    for (uint32_t k = 0; k < rounds; k++) {
        offsets o = own;
        walk(a, k, 0, serial, o);
        found f = find(a, o.index);
        if (f.number % owners != mine)
            continue;
        T *to = at<T>(a.table.data) + o.table + f.offset;
        *to = as<T, N>::of(changed<N>(a.how, as<N, T>::of(*to), as<N, L>::of(at<const L>(a.list.data)[o.list])));
    }
}

// All elements, or 0: too many, or a shape that is none.
static uint32_t count(const tachy_nn_index *a)
{
    int64_t n = 1;
    for (int d = 0; d < RANK; d++) {
        if (a->shape[d] < 1 || a->shape[d] > INT32_MAX / n)
            return 0;
        n *= a->shape[d];
    }
    bool fits = a->deep >= 1 && a->deep <= TACHY_NN_DEEP;
    for (int d = 0; d < a->deep && fits; d++)
        fits = a->size[d] > 0;
    auto whole = [](enum tachy_dtype t) { return t == TACHY_I64 || t == TACHY_I32 || t == TACHY_U8 || t == TACHY_I8; };
    fits = fits && whole(a->index.dtype) && (!a->also.data || (whole(a->also.dtype) && a->also_size > 0));
    return fits ? (uint32_t)n : 0;
}

// Elements that lie side by side in the table and in the list, and have one index, as units of up to 16 bytes: how many elements
// a unit has.
static int widen(tachy_nn_index *a, int size)
{
    const int last = RANK - 1;
    int v = 16 / size;
    for (; v > 1; v /= 2) {
        bool ok = a->shape[last] % v == 0 && a->table.stride[last] == 1 && a->list.stride[last] == 1 && a->index.stride[last] == 0 &&
                  (!a->also.data || (a->also.stride[last] == 0 && a->also_step % v == 0));
        ok = ok && a->table.data % (size * v) == 0 && a->list.data % (size * v) == 0;
        for (int d = 0; d < last && ok; d++)
            ok = a->table.stride[d] % v == 0 && a->list.stride[d] % v == 0;
        for (int d = 0; d < a->deep && ok; d++)
            ok = a->step[d] % v == 0;
        if (ok)
            break;
    }
    if (v > 1) {
        a->shape[last] /= v;
        for (int d = 0; d < last; d++)
            a->table.stride[d] /= v, a->list.stride[d] /= v;
        for (int d = 0; d < a->deep; d++)
            a->step[d] /= v;
        a->also_step /= v;
    }
    return v;
}

template <typename L, typename T> static int launch_gather(const tachy_nn_index *a, cuda_stream stream)
{
    uint32_t n = count(a);
    if (!n)
        return cudaErrorInvalidValue;
    gather<L, T><<<parts(n, THREADS), THREADS, 0, on(stream)>>>(*a, n);
    return cudaGetLastError();
}

int tachy_nn_run_gather(const struct tachy_nn_index *a, cuda_stream stream)
{
    if (a->list.dtype != a->table.dtype && (a->list.dtype == TACHY_F32 || a->table.dtype == TACHY_F32))
        return of_two_floats(a->list.dtype, a->table.dtype, [&](auto l, auto t) { return launch_gather<decltype(l), decltype(t)>(a, stream); });
    if (a->list.dtype != a->table.dtype || !bytes_of(a->list.dtype) || !count(a))
        return cudaErrorInvalidValue;
    tachy_nn_index w = *a;
    switch (bytes_of(a->list.dtype) * widen(&w, bytes_of(a->list.dtype))) { // bits are kept
    case 1: return launch_gather<uint8_t, uint8_t>(&w, stream);
    case 2: return launch_gather<uint16_t, uint16_t>(&w, stream);
    case 4: return launch_gather<uint32_t, uint32_t>(&w, stream);
    case 8: return launch_gather<uint64_t, uint64_t>(&w, stream);
    default: return launch_gather<uint4, uint4>(&w, stream);
    }
}

// The dimensions without a stride of the table first, the order of each kind as it was; how many they are.
static int sort(tachy_nn_index *to, const tachy_nn_index *a, uint32_t *rounds)
{
    int k = 0, serial = 0;
    *to = *a;
    *rounds = 1;
    for (int turn = 0; turn < 2; turn++)
        for (int d = 0; d < RANK; d++) {
            if ((a->table.stride[d] != 0) != turn)
                continue;
            to->shape[k] = a->shape[d];
            to->table.stride[k] = a->table.stride[d];
            to->index.stride[k] = a->index.stride[d];
            to->list.stride[k++] = a->list.stride[d];
            serial += !turn;
            *rounds *= turn ? 1 : (uint32_t)a->shape[d];
        }
    return serial;
}

template <typename T, typename L> static int launch_scatter(const tachy_nn_index *a, cuda_stream stream)
{
    tachy_nn_index s;
    uint32_t n = count(a), rounds;
    if (!n)
        return cudaErrorInvalidValue;
    int serial = sort(&s, a, &rounds);
    uint32_t others = n / rounds, owners = others < OWNERS ? OWNERS / others : 1;
    owners = owners < rounds ? owners : rounds;
    unsigned blocks = (unsigned)(((uint64_t)others * owners + THREADS - 1) / THREADS);
    scatter<T, L><<<blocks, THREADS, 0, on(stream)>>>(s, serial, rounds, others, owners);
    return cudaGetLastError();
}

int tachy_nn_run_scatter(const struct tachy_nn_index *a, cuda_stream stream)
{
    switch (a->list.dtype == a->table.dtype ? a->table.dtype : TACHY_F32) {
    case TACHY_U8: return launch_scatter<uint8_t, uint8_t>(a, stream);
    case TACHY_I8: return launch_scatter<int8_t, int8_t>(a, stream);
    case TACHY_I32: return launch_scatter<int32_t, int32_t>(a, stream);
    case TACHY_I64: return launch_scatter<int64_t, int64_t>(a, stream);
    default:
        return of_two_floats(a->table.dtype, a->list.dtype, [&](auto t, auto l) { return launch_scatter<decltype(t), decltype(l)>(a, stream); });
    }
}

// True if b, number j, comes before a, number i.
__device__ static inline bool is_ahead(float b, uint32_t j, float a, uint32_t i)
{
    if (a != a)
        return b == b || j < i;
    return b > a || (b == a && j < i);
}

template <typename T> __global__ void __launch_bounds__(THREADS) top(tachy_nn_top a, int64_t elements)
{
    int64_t e = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES;
    uint32_t lane = threadIdx.x % LANES, n = (uint32_t)a.n, i = (uint32_t)(e % n);
    int64_t line = e / n, outer = line / a.inner, inner = line % a.inner;
    if (e >= elements)
        return;
    const T *x = at<const T>(a.in) + outer * a.in_outer + inner * a.in_inner;
    const float sign = a.min ? -1.0f : 1.0f, v = sign * value(x[i * a.in_step]);
    int64_t before = 0;
    for (uint32_t first = 0; first < n && before < a.k; first += LANES) {
        uint32_t j = first + lane;
        bool ahead = j < n && j != i && is_ahead(sign * value(x[j * a.in_step]), j, v, i);
        before += __popc(__ballot_sync(0xffffffffu, ahead));
    }
    if (!lane && before < a.k)
        at<int64_t>(a.out)[outer * a.out_outer + before * a.out_step + inner * a.out_inner] = i;
}

int tachy_nn_run_top(const struct tachy_nn_top *a, cuda_stream stream)
{
    int64_t elements = a->outer * a->inner * a->n, blocks = (elements * LANES + THREADS - 1) / THREADS;
    if (elements < 1 || a->n > INT32_MAX || blocks > INT32_MAX || a->k < 1 || a->k > a->n)
        return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) {
        top<decltype(t)><<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a, elements);
        return (int)cudaGetLastError();
    });
}
