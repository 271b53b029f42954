#include "cuda/nn/pointwise.h"
#include "cuda/nn/tensor.cuh"

// A thread takes V elements that lie side by side through the chain; every thread of a launch takes the same way
// through it, so the switches cost a few instructions for V elements.
enum { THREADS = 256, RANK = TACHY_NN_RANK, IN = TACHY_NN_OPERANDS };

static int bytes_of(int t)
{
    return t == TACHY_I64 ? 8 : t == TACHY_F32 || t == TACHY_I32 ? 4 : t == TACHY_F16 || t == TACHY_BF16 ? 2 : t == TACHY_U8 || t == TACHY_I8;
}

template <int V, typename T> __device__ static inline void read_some(float (&v)[V], cuda_address data, int64_t i, bool one)
{
    const T *p = at<const T>(data) + i;
    if (!one && V > 1) {
        pack<T, V> in = *reinterpret_cast<const pack<T, V> *>(p);
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = (float)in.v[k];
        return;
    }
    float x = (float)*p;
#pragma unroll
    for (int k = 0; k < V; k++)
        v[k] = x;
}
// `one`: the innermost stride is 0.
template <int V> __device__ static inline void read(float (&v)[V], const tachy_nn_operand &o, int64_t i)
{
    bool one = o.stride[RANK - 1] == 0;
    switch (o.dtype) {
    case TACHY_F32: return read_some<V, float>(v, o.data, i, one);
    case TACHY_F16: return read_some<V, __half>(v, o.data, i, one);
    case TACHY_BF16: return read_some<V, __nv_bfloat16>(v, o.data, i, one);
    case TACHY_U8: return read_some<V, uint8_t>(v, o.data, i, one);
    case TACHY_I8: return read_some<V, int8_t>(v, o.data, i, one);
    case TACHY_I32: return read_some<V, int32_t>(v, o.data, i, one);
    default: return read_some<V, int64_t>(v, o.data, i, one);
    }
}

// Cut off towards zero within the type's range, NaN gives 0: what the conversions of the chip do.
__device__ static inline void write_one(float *p, float v) { *p = v; }
__device__ static inline void write_one(__half *p, float v) { *p = __float2half_rn(v); }
__device__ static inline void write_one(__nv_bfloat16 *p, float v) { *p = __float2bfloat16_rn(v); }
__device__ static inline void write_one(uint8_t *p, float v) { *p = (uint8_t)min(__float2uint_rz(v), 255u); }
__device__ static inline void write_one(int8_t *p, float v) { *p = (int8_t)min(max(__float2int_rz(v), -128), 127); }
__device__ static inline void write_one(int32_t *p, float v) { *p = v != v ? 0 : __float2int_rz(v); }
__device__ static inline void write_one(int64_t *p, float v) { *p = v != v ? 0 : __float2ll_rz(v); }
template <int V, typename T> __device__ static inline void write_some(cuda_address data, int64_t i, const float (&v)[V])
{
    pack<T, V> out;
#pragma unroll
    for (int k = 0; k < V; k++)
        write_one(&out.v[k], v[k]);
    *reinterpret_cast<pack<T, V> *>(at<T>(data) + i) = out;
}
template <int V> __device__ static inline void write(const tachy_nn_operand &o, int64_t i, const float (&v)[V])
{
    switch (o.dtype) {
    case TACHY_F32: return write_some<V, float>(o.data, i, v);
    case TACHY_F16: return write_some<V, __half>(o.data, i, v);
    case TACHY_BF16: return write_some<V, __nv_bfloat16>(o.data, i, v);
    case TACHY_U8: return write_some<V, uint8_t>(o.data, i, v);
    case TACHY_I8: return write_some<V, int8_t>(o.data, i, v);
    case TACHY_I32: return write_some<V, int32_t>(o.data, i, v);
    default: return write_some<V, int64_t>(o.data, i, v);
    }
}

__device__ static float power(float a, float b) { return b == 2 ? a * a : b == 0.5f ? sqrtf(a) : powf(a, b); }
__device__ __noinline__ static float unary(int what, float a, float b, float x)
{
    switch (what) {
    case TACHY_NN_NEG: return -x;
    case TACHY_NN_LOG: return logf(x);
    case TACHY_NN_SIN: return sinf(x);
    case TACHY_NN_COS: return cosf(x);
    case TACHY_NN_TAN: return tanf(x);
    case TACHY_NN_ASIN: return asinf(x);
    case TACHY_NN_ACOS: return acosf(x);
    case TACHY_NN_ATAN: return atanf(x);
    case TACHY_NN_SINH: return sinhf(x);
    case TACHY_NN_COSH: return coshf(x);
    case TACHY_NN_ASINH: return asinhf(x);
    case TACHY_NN_ACOSH: return acoshf(x);
    case TACHY_NN_ATANH: return atanhf(x);
    case TACHY_NN_FLOOR: return floorf(x);
    case TACHY_NN_CEIL: return ceilf(x);
    case TACHY_NN_ROUND: return rintf(x);
    case TACHY_NN_RECIPROCAL: return __frcp_rn(x);
    case TACHY_NN_SOFTSIGN: return x / (1 + fabsf(x));
    case TACHY_NN_THRESHOLD: return x > a ? x : 0;
    case TACHY_NN_SHRINK: return x < -a ? x + b : x > a ? x - b : 0;
    case TACHY_NN_IS_NAN: return x != x;
    case TACHY_NN_IS_INF: return (a != 0 && x == -INFINITY) || (b != 0 && x == INFINITY);
    case TACHY_NN_QUANTIZE: return fminf(fmaxf(rintf(x) + a, b), b + 255);
    case TACHY_NN_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x;
    case TACHY_NN_TRUNC: return x != x ? a : clip(truncf(x), a, b);
    case TACHY_NN_TRUTH: return x != 0;
    case TACHY_NN_NOT: return x == 0;
    default: return x;
    }
}
__device__ static float compare(int what, float a, float b)
{
    switch (what) {
    case TACHY_NN_EQUAL: return a == b;
    case TACHY_NN_LESS: return a < b;
    case TACHY_NN_LESS_EQUAL: return a <= b;
    case TACHY_NN_GREATER: return a > b;
    case TACHY_NN_GREATER_EQUAL: return a >= b;
    case TACHY_NN_AND: return a != 0 && b != 0;
    case TACHY_NN_OR: return a != 0 || b != 0;
    case TACHY_NN_XOR: return (a != 0) != (b != 0);
    case TACHY_NN_FMOD: return fmodf(a, b);
    case TACHY_NN_MOD: {
        float r = fmodf(a, b);
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    default: return a;
    }
}

template <int V> __device__ static inline void binary(int what, float (&v)[V], const float (&o)[V], bool swapped)
{
#define EACH(formula)                                                                              \
    {                                                                                              \
        _Pragma("unroll") for (int k = 0; k < V; k++)                                              \
        {                                                                                          \
            float a = swapped ? o[k] : v[k], b = swapped ? v[k] : o[k];                            \
            v[k] = (formula);                                                                      \
        }                                                                                          \
        break;                                                                                     \
    }
    switch (what) { // MIN and MAX keep NaN of both sides
    case TACHY_BINARY_ADD: EACH(a + b)
    case TACHY_BINARY_SUB: EACH(a - b)
    case TACHY_BINARY_MUL: EACH(a * b)
    case TACHY_BINARY_DIV: EACH(__fdiv_rn(a, b))
    case TACHY_BINARY_MIN: EACH(a != a || a < b ? a : b)
    case TACHY_BINARY_MAX: EACH(a != a || a > b ? a : b)
    case TACHY_BINARY_POW: EACH(power(a, b))
    default: break;
    }
#undef EACH
}

// A thread's place. Leading dimensions of length 1 are not looked at. I: a type of whole numbers that all offsets fit in.
template <typename I> struct place {
    I at[RANK];
    int first; // dimension that is longer than 1

    __device__ inline place(const tachy_nn_pointwise &p, int64_t thread, int v, int leading) : first(leading)
    {
        I i = (I)thread;
#pragma unroll
        for (int d = RANK - 1; d >= 0; d--) {
            I size = d == RANK - 1 ? (I)(p.shape[d] / v) : (I)p.shape[d];
            if (d < first)
                continue;
            at[d] = d == first ? i : (I)(i % size);
            i = d == first ? 0 : (I)(i / size);
        }
        at[RANK - 1] *= (I)v;
    }
    __device__ inline int64_t of(const tachy_nn_operand &o) const
    {
        I i = 0;
#pragma unroll
        for (int d = 0; d < RANK; d++)
            if (d >= first)
                i += at[d] * (I)o.stride[d];
        return (int64_t)i;
    }
};

// The innermost two dimensions as one, though some operands do not lie so: those are read one by one.
struct folds {
    int size; // of the innermost one
    bool is[IN];
    int outer[IN], inner[IN]; // strides
};

template <int V, typename T>
__device__ static inline void read_folded(float (&v)[V], const T *p, int outer, int inner, int size, int row, int column)
{
#pragma unroll
    for (int k = 0; k < V; k++) {
        v[k] = (float)p[row * outer + column * inner];
        if (++column == size)
            column = 0, row++;
    }
}

template <int V> __device__ static void folded(float (&v)[V], const tachy_nn_operand &o, const folds &f, int k, int64_t i, int place)
{
    const int row = place / f.size, column = place % f.size;
    switch (o.dtype) {
    case TACHY_F32: return read_folded<V>(v, at<const float>(o.data) + i, f.outer[k], f.inner[k], f.size, row, column);
    case TACHY_F16: return read_folded<V>(v, at<const __half>(o.data) + i, f.outer[k], f.inner[k], f.size, row, column);
    default: return read_folded<V>(v, at<const __nv_bfloat16>(o.data) + i, f.outer[k], f.inner[k], f.size, row, column);
    }
}

// The V values of operand k at this thread's place.
template <int V, bool FOLD, typename I>
__device__ static inline void other(float (&o)[V], const tachy_nn_pointwise &p, int k, const folds &f, const place<I> &w)
{
    if (FOLD && f.is[k])
        folded<V>(o, p.in[k], f, k, w.of(p.in[k]), (int)w.at[RANK - 1]);
    else
        read<V>(o, p.in[k], w.of(p.in[k]));
}

template <int V, bool FOLD, typename I>
__device__ static inline void step(const tachy_nn_pointwise &p, const tachy_nn_step &s, const folds &f, float (&v)[V], float (&kept)[V],
                                   const place<I> &where)
{
    float o[V], no[V];
    bool reads = s.kind != TACHY_NN_ACT && s.kind != TACHY_NN_UNARY && s.kind != TACHY_NN_KEEP;
#pragma unroll
    for (int k = 0; k < V; k++)
        o[k] = kept[k];
    if (reads && s.operand != TACHY_NN_KEPT)
        other<V, FOLD>(o, p, s.operand, f, where);
    switch (s.kind) {
    case TACHY_NN_BINARY: binary<V>(s.what, v, o, false); break;
    case TACHY_NN_BINARY_SWAPPED: binary<V>(s.what, v, o, true); break;
    case TACHY_NN_ACT: {
        tachy_nn_act act = {(tachy_act_kind)s.what, s.a, s.b, 0};
        activate<V>(act, v, 0, 0);
        break;
    }
    case TACHY_NN_UNARY:
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = unary(s.what, s.a, s.b, v[k]);
        break;
    case TACHY_NN_COMPARE:
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = compare(s.what, v[k], o[k]);
        break;
    case TACHY_NN_PRELU:
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = v[k] < 0 ? o[k] * v[k] : v[k];
        break;
    case TACHY_NN_SELECT:
        other<V, FOLD>(no, p, s.operand + 1, f, where);
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = v[k] != 0 ? o[k] : no[k];
        break;
    case TACHY_NN_KEEP:
#pragma unroll
        for (int k = 0; k < V; k++)
            kept[k] = v[k];
        break;
    default: // LOAD
#pragma unroll
        for (int k = 0; k < V; k++)
            v[k] = o[k];
    }
}

// Sums, products, and functions that convolutions end in. Nothing is called, so that all stays in registers.
static bool is_plain(const tachy_nn_pointwise *p)
{
    bool plain = true;
    for (int i = 0; i < p->nb_steps; i++) {
        const tachy_nn_step *s = &p->steps[i];
        bool sums = s->kind == TACHY_NN_BINARY && (s->what == TACHY_BINARY_ADD || s->what == TACHY_BINARY_SUB || s->what == TACHY_BINARY_MUL);
        plain = plain && (sums || s->kind == TACHY_NN_KEEP || (s->kind == TACHY_NN_ACT && is_common((tachy_act_kind)s->what)));
    }
    return plain;
}
// other(o, k): reads operand k's V values.
template <int V, typename F> __device__ static inline void plain_step(const tachy_nn_step &s, float (&v)[V], float (&kept)[V], F other)
{
    float o[V];
    if (s.kind == TACHY_NN_ACT) {
        tachy_nn_act act = {(tachy_act_kind)s.what, s.a, s.b, 0};
        activate_common<V>(act, v);
        return;
    }
    if (s.kind == TACHY_NN_BINARY && s.operand != TACHY_NN_KEPT)
        other(o, s.operand);
#pragma unroll
    for (int k = 0; k < V; k++) {
        float with = s.operand == TACHY_NN_KEPT ? kept[k] : o[k];
        if (s.kind == TACHY_NN_KEEP)
            kept[k] = v[k];
        else
            v[k] = s.what == TACHY_BINARY_ADD ? v[k] + with : s.what == TACHY_BINARY_SUB ? v[k] - with : v[k] * with;
    }
}

template <int V, typename I, bool PLAIN = false, bool FOLD = false>
__global__ void __launch_bounds__(THREADS) pointwise(const __grid_constant__ tachy_nn_pointwise p, int64_t threads, int first,
                                                     const __grid_constant__ folds f)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= threads)
        return;
    const place<I> where(p, i, V, first);
    float v[V], kept[V] = {0};
    other<V, FOLD>(v, p, 0, f, where);
    for (int s = 0; s < p.nb_steps; s++)
        if constexpr (PLAIN)
            plain_step<V>(p.steps[s], v, kept, [&](float (&o)[V], int k) { other<V, FOLD>(o, p, k, f, where); });
        else
            step<V, FOLD>(p, p.steps[s], f, v, kept, where);
    write<V>(p.out, where.of(p.out), v);
}

// Large tensors of 16-bit floats: a thread has AHEAD of the first dimension, and reads two operands of all of them before it computes.
enum { AHEAD = 4, WIDE = 8 };
template <typename T> __device__ static inline void unpack(float (&v)[WIDE], const uint4 &w)
{
    float2 a = floats<T>(w.x), b = floats<T>(w.y), c = floats<T>(w.z), d = floats<T>(w.w);
    v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y, v[4] = c.x, v[5] = c.y, v[6] = d.x, v[7] = d.y;
}
template <typename T>
__global__ void __launch_bounds__(THREADS) pointwise_ahead(const __grid_constant__ tachy_nn_pointwise p, int threads, int first, bool two)
{
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x), outer = (int)blockIdx.y * AHEAD;
    if (i >= threads)
        return;
    const int some = min((int)p.shape[first] - outer, (int)AHEAD);
    const place<int32_t> where(p, i, WIDE, first + 1);
    auto from = [&](const tachy_nn_operand &o) { return where.of(o) + outer * o.stride[first]; };
    const T *one = at<const T>(p.in[0].data) + from(p.in[0]), *other = at<const T>(p.in[1].data) + from(p.in[1]);
    T *to = at<T>(p.out.data) + from(p.out);
    uint4 a[AHEAD], b[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        a[u] = u < some ? *reinterpret_cast<const uint4 *>(one + u * p.in[0].stride[first]) : uint4{};
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        b[u] = two && u < some ? *reinterpret_cast<const uint4 *>(other + u * p.in[1].stride[first]) : uint4{};
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        if (u >= some)
            return;
        float v[WIDE], kept[WIDE] = {0};
        unpack<T>(v, a[u]);
        for (int s = 0; s < p.nb_steps; s++)
            plain_step<WIDE>(p.steps[s], v, kept, [&](float (&o)[WIDE], int k) {
                if (k == 1 && two)
                    unpack<T>(o, b[u]);
                else
                    read<WIDE>(o, p.in[k], from(p.in[k]) + u * p.in[k].stride[first]);
            });
        *reinterpret_cast<uint4 *>(to + u * p.out.stride[first]) = uint4{halves<T>(v[0], v[1]), halves<T>(v[2], v[3]), halves<T>(v[4], v[5]), halves<T>(v[6], v[7])};
    }
}

// Bits as they are.
template <typename T, typename I>
__global__ void __launch_bounds__(THREADS) copy(const __grid_constant__ tachy_nn_pointwise p, int64_t threads, int first)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= threads)
        return;
    const place<I> where(p, i, 1, first);
    at<T>(p.out.data)[where.of(p.out)] = at<const T>(p.in[0].data)[where.of(p.in[0])];
}

static bool joins(const tachy_nn_operand *o, int d, int64_t inner) { return o->stride[d - 1] == o->stride[d] * inner; }

// Fewer, longer dimensions: neighbours that lie in all operands as one would are made one, those of length 1 go to the
// front.
static void collapse(tachy_nn_pointwise *p)
{
    for (int pass = 0; pass < RANK; pass++)
        for (int d = RANK - 1; d > 0; d--) {
            bool one = p->shape[d] == 1, join = joins(&p->out, d, p->shape[d]);
            for (int k = 0; k < p->nb_in; k++)
                join = join && joins(&p->in[k], d, p->shape[d]);
            if (!one && (!join || p->shape[d - 1] == 1))
                continue;
            if (one && p->shape[d - 1] == 1)
                continue;
            if (!one)
                p->shape[d] *= p->shape[d - 1];
            else { // d takes what is in front of it
                p->shape[d] = p->shape[d - 1];
                p->out.stride[d] = p->out.stride[d - 1];
                for (int k = 0; k < p->nb_in; k++)
                    p->in[k].stride[d] = p->in[k].stride[d - 1];
            }
            p->shape[d - 1] = 1;
        }
}

static bool fits(const tachy_nn_operand *o, int v, bool output)
{
    int64_t size = (int64_t)bytes_of(o->dtype);
    if (o->stride[RANK - 1] == 0 && !output)
        return true;
    bool ok = o->stride[RANK - 1] == 1 && (int64_t)o->data % (size * v) == 0;
    for (int d = 0; d < RANK - 1; d++)
        ok = ok && o->stride[d] % v == 0;
    return ok;
}

static int leading(const tachy_nn_pointwise *p)
{
    int d = 0;
    while (d < RANK - 1 && p->shape[d] == 1)
        d++;
    return d;
}

static bool is_near(const tachy_nn_pointwise *p, const tachy_nn_operand *o)
{
    int64_t far = 0;
    for (int d = 0; d < RANK; d++)
        far += (p->shape[d] - 1) * (o->stride[d] < 0 ? -o->stride[d] : o->stride[d]);
    return far < INT32_MAX;
}

// True if 32 bits hold every offset, and the number of each thread.
static bool small(const tachy_nn_pointwise *p, int64_t threads)
{
    bool ok = threads < INT32_MAX && is_near(p, &p->out);
    for (int k = 0; k < p->nb_in; k++)
        ok = ok && is_near(p, &p->in[k]);
    return ok;
}

template <typename T> static void launch_copy(const tachy_nn_pointwise *p, int64_t threads, unsigned blocks, cuda_stream stream)
{
    if (small(p, threads))
        copy<T, int32_t><<<blocks, THREADS, 0, on(stream)>>>(*p, threads, leading(p));
    else
        copy<T, int64_t><<<blocks, THREADS, 0, on(stream)>>>(*p, threads, leading(p));
}

// Two-byte elements and the like, side by side, are copied as units of up to 16 bytes.
static int copy_bits(tachy_nn_pointwise *p, cuda_stream stream)
{
    int size = bytes_of(p->out.dtype), unit = 16;
    for (; unit > size; unit /= 2)
        if (p->shape[RANK - 1] % (unit / size) == 0 && p->in[0].stride[RANK - 1] == 1 && fits(&p->in[0], unit / size, true) &&
            fits(&p->out, unit / size, true))
            break;
    if (unit > size) {
        p->shape[RANK - 1] /= unit / size;
        for (int d = 0; d < RANK - 1; d++)
            p->in[0].stride[d] /= unit / size, p->out.stride[d] /= unit / size;
    }
    int64_t threads = 1;
    for (int d = 0; d < RANK; d++)
        threads *= p->shape[d];
    int64_t blocks = (threads + THREADS - 1) / THREADS;
    if (blocks < 1 || blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    auto launch = unit == 16 ? launch_copy<uint4> : unit == 8 ? launch_copy<uint2> : unit == 4 ? launch_copy<uint32_t> : unit == 2 ? launch_copy<uint16_t> : launch_copy<uint8_t>;
    launch(p, threads, (unsigned)blocks, stream);
    return cudaGetLastError();
}

static bool sound(const tachy_nn_pointwise *p)
{
    bool ok = p->nb_in >= 1 && p->nb_in <= IN && p->nb_steps >= 0 && p->nb_steps <= TACHY_NN_CHAIN && bytes_of(p->out.dtype);
    for (int k = 0; ok && k < p->nb_in; k++)
        ok = bytes_of(p->in[k].dtype);
    for (int s = 0; ok && s < p->nb_steps; s++) {
        int kind = p->steps[s].kind, operand = p->steps[s].operand;
        bool none = kind == TACHY_NN_ACT || kind == TACHY_NN_UNARY || kind == TACHY_NN_KEEP;
        ok = kind <= TACHY_NN_LOAD && (none || operand + (kind == TACHY_NN_SELECT) < p->nb_in ||
                                       (operand == TACHY_NN_KEPT && kind != TACHY_NN_SELECT));
        ok = ok && !(kind == TACHY_NN_ACT && p->steps[s].what == TACHY_ACT_PRELU);
    }
    for (int d = 0; ok && d < RANK; d++)
        ok = p->shape[d] >= 1;
    return ok;
}

// True if it launched pointwise_ahead(), which wants more threads than the chip runs at once.
static bool goes_ahead(tachy_nn_pointwise p, int64_t threads, cuda_stream stream)
{
    enum { MANY = 1 << 17, MOST = 65535 };
    int first = leading(&p);
    auto in_vectors = [&](const tachy_nn_operand *o) { return o->dtype == p.out.dtype && o->stride[RANK - 1] == 1; };
    bool two = p.nb_in > 1 && in_vectors(&p.in[1]);
    if (threads < MANY * AHEAD || !small(&p, threads * WIDE) || !is_plain(&p) || !in_vectors(&p.in[0]) ||
        (p.out.dtype != TACHY_F16 && p.out.dtype != TACHY_BF16))
        return false;
    if (first == RANK - 1 && p.shape[first] % (AHEAD * WIDE) == 0) { // one dimension: as many parts
        p.shape[--first] = AHEAD, p.shape[RANK - 1] /= AHEAD;
        p.out.stride[first] = p.shape[RANK - 1];
        for (int k = 0; k < p.nb_in; k++)
            p.in[k].stride[first] = p.in[k].stride[RANK - 1] * p.shape[RANK - 1];
    }
    if (first == RANK - 1 || p.shape[first] < AHEAD || p.shape[first] > MOST)
        return false;
    int each = (int)(threads / p.shape[first]);
    dim3 grid((unsigned)((each + THREADS - 1) / THREADS), (unsigned)((p.shape[first] + AHEAD - 1) / AHEAD));
    auto kernel = p.out.dtype == TACHY_F16 ? pointwise_ahead<half16> : pointwise_ahead<bfloat16>;
    kernel<<<grid, THREADS, 0, on(stream)>>>(p, each, first, two);
    return true;
}

// The most elements side by side that a thread can take.
static int vector_of(const tachy_nn_pointwise *p)
{
    for (int v = 8; v > 1; v /= 2) {
        bool ok = p->shape[RANK - 1] % v == 0 && fits(&p->out, v, true);
        for (int k = 0; k < p->nb_in; k++)
            ok = ok && fits(&p->in[k], v, false);
        if (ok)
            return v;
    }
    return 1;
}

// Makes vectors of what else would be taken one by one, since few elements lie side by side in all operands (three coordinates of each
// position). False: it stays.
static bool fold(tachy_nn_pointwise *p, folds *f)
{
    const int last = RANK - 1;
    tachy_nn_pointwise q = *p;
    f->size = (int)q.shape[last];
    if (q.shape[last] > INT32_MAX / 8 || q.shape[last - 1] == 1 || !joins(&q.out, last, q.shape[last]))
        return false;
    for (int k = 0; k < q.nb_in; k++) {
        tachy_nn_operand *o = &q.in[k];
        f->is[k] = !joins(o, last, q.shape[last]);
        f->outer[k] = (int)o->stride[last - 1], f->inner[k] = (int)o->stride[last];
        o->stride[last - 1] = 0;
        if (!f->is[k])
            continue;
        o->stride[last] = 0;
        if (o->dtype != TACHY_F32 && o->dtype != TACHY_F16 && o->dtype != TACHY_BF16)
            return false;
    }
    q.shape[last] *= q.shape[last - 1];
    q.shape[last - 1] = 1;
    q.out.stride[last - 1] = 0;
    if (vector_of(&q) < 4)
        return false;
    *p = q;
    return true;
}

int tachy_nn_run_pointwise(const struct tachy_nn_pointwise *a, cuda_stream stream)
{
    if (!sound(a))
        return cudaErrorInvalidValue;
    tachy_nn_pointwise p = *a;
    folds f = {};
    collapse(&p);
    if (!p.nb_steps && p.in[0].dtype == p.out.dtype)
        return copy_bits(&p, stream);
    int64_t threads = 1;
    for (int d = 0; d < RANK; d++)
        threads *= p.shape[d];
    const bool near = small(&p, threads), folded = near && vector_of(&p) == 1 && fold(&p, &f);
    const int v = vector_of(&p);
    threads /= v;
    int64_t blocks = (threads + THREADS - 1) / THREADS;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    if (v == WIDE && !folded && goes_ahead(p, threads, stream))
        return cudaGetLastError();
    auto kernel = folded   ? v == 8 ? pointwise<8, int32_t, false, true> : pointwise<4, int32_t, false, true>
                  : v == 8 ? near ? is_plain(&p) ? pointwise<8, int32_t, true> : pointwise<8, int32_t> : pointwise<8, int64_t>
                  : v == 4 ? near ? pointwise<4, int32_t> : pointwise<4, int64_t>
                  : v == 2 ? near ? pointwise<2, int32_t> : pointwise<2, int64_t>
                           : near ? pointwise<1, int32_t> : pointwise<1, int64_t>;
    kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(p, threads, leading(&p), f);
    return cudaGetLastError();
}

template <typename T> __global__ void __launch_bounds__(THREADS) fill(const __grid_constant__ tachy_nn_fill p, int64_t threads)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, to = 0;
    if (i >= threads)
        return;
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        to += i % p.shape[d] * p.out.stride[d];
        i /= p.shape[d];
    }
    write_one(at<T>(p.out.data) + to, p.value);
}

int tachy_nn_run_fill(const struct tachy_nn_fill *a, cuda_stream stream)
{
    int64_t threads = 1;
    for (int d = 0; d < RANK; d++)
        threads *= a->shape[d] > 0 ? a->shape[d] : 0;
    int64_t blocks = (threads + THREADS - 1) / THREADS;
    if (blocks < 1 || blocks > INT32_MAX || !bytes_of(a->out.dtype))
        return cudaErrorInvalidValue;
    tachy_dtype t = a->out.dtype;
    auto kernel = t == TACHY_F32 ? fill<float> : t == TACHY_F16 ? fill<__half> : t == TACHY_BF16 ? fill<__nv_bfloat16> : t == TACHY_U8 ? fill<uint8_t> : t == TACHY_I8 ? fill<int8_t> :
                  t == TACHY_I32 ? fill<int32_t> : fill<int64_t>;
    kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a, threads);
    return cudaGetLastError();
}
