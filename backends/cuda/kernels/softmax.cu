// softmax, log_softmax, logsumexp, and the derivative of softmax.
#include "rows.cuh"

enum operation { SOFTMAX, LOG_SOFTMAX, LOGSUMEXP };

// How many values of a row a thread keeps in registers, of accumulators of type A.
#define KEPT(A) int(64 / sizeof(A))
// In double precision a thread needs twice the registers, so that a block has half the threads.
template <typename T> constexpr int most_threads = sizeof(T) < 8 ? 1024 : 512;

template <typename A> struct finish {
    A shift, scale, logarithm;

    __device__ __forceinline__ finish(A top, A sum)
        : shift(shift_of(top)), scale(A(1) / sum), logarithm(log(sum)) {}

    template <int OP> __device__ __forceinline__ A value(A x) const {
        return OP == SOFTMAX ? exp(x - shift) * scale : x - shift - logarithm;
    }
};

// The larger of two numbers; NaN gives way, and shows in the sum of exponentials that follows.
struct top_of {
    template <typename A> __device__ __forceinline__ A operator()(A a, A b) const {
        return fmax(a, b);
    }
};

// Adds up the exponentials of a thread's values, once the maximum of the row is known; values become
// what the result is made of.
template <int OP, typename A, int K, int N>
__device__ __forceinline__ void exponentials(running<A> &all, A (&values)[K][N]) {
    if (all.top == INFINITY_OF(A)) {
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < N; i++) values[k][i] = limited(values[k][i]);
    }
    A shift = shift_of(all.top);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            A power = exp(values[k][i] - shift);
            all.sum += power;
            if (OP == SOFTMAX) values[k][i] = power;
        }
}

// Writes what `exponentials` has left of a thread's values.
template <int OP, typename T, typename A, int K, int N>
__device__ __forceinline__ void store(const row_of<T, N> &to, index_t rank, index_t width,
                                      const running<A> &all, A (&values)[K][N]) {
    finish<A> last(all.top, all.sum);
    index_t packs = to.packs();
#pragma unroll
    for (int k = 0; k < K; k++) {
        index_t p = rank + k * width;
#pragma unroll
        for (int i = 0; i < N; i++)
            values[k][i] = OP == SOFTMAX ? values[k][i] * last.scale
                                         : last.template value<OP>(values[k][i]);
        if (p < packs) write(to, p, values[k]);
    }
}

template <typename A> __device__ __forceinline__ A logarithm(const running<A> &all) {
    return all.top == INFINITY_OF(A) && all.sum == all.sum ? all.top
                                                           : shift_of(all.top) + log(all.sum);
}

#define SHORT_BLOCK 128

// Every lane gets what LANES neighbours combine to.
template <int LANES, typename A, typename F>
__device__ __forceinline__ A lanes_reduce(A value, F combine) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset >>= 1)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// Returns the row of a thread that shares one with LANES neighbours. Where there is none it is the
// last one, without being the thread's own, since all lanes have to take part in a shuffle.
template <int LANES>
__device__ __forceinline__ index_t short_row(index_t count, index_t &own, int &rank) {
    own = index_t(blockIdx.x) * (SHORT_BLOCK / LANES) + threadIdx.x / LANES;
    rank = threadIdx.x % LANES;
    return own < count ? own : count - 1;
}

// Rows that the threads keep in registers are read once, longer ones twice.
template <typename T, int N, int OP>
__global__ void __launch_bounds__(most_threads<T>)
rows(const T *x, T *out, index_t count, index_t length, index_t row_stride,
                     index_t stride, index_t single) {
    typedef accumulator_t<T> A;
    const int ITEMS = KEPT(A) / N;
    index_t r;
    team mates = team_of(single, r);
    if (r >= count) return;
    row_of<const T, N> from(x + r * row_stride, length, stride);
    row_of<T, N> to(OP == LOGSUMEXP ? out : out + r * length, length, 1);
    index_t packs = from.packs();
    running<A> all;
    if (packs <= ITEMS * mates.width) {
        pack<T, N> raw[ITEMS];
        A values[ITEMS][N];
        load(from, mates.rank, mates.width, raw, T(-INFINITY_OF(A)));
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            convert(raw[k], values[k]);
#pragma unroll
            for (int i = 0; i < N; i++) all.top = top_of()(all.top, values[k][i]);
        }
        all.top = mates.reduce(all.top, top_of(), -INFINITY_OF(A));
        exponentials<OP>(all, values);
        all.sum = mates.reduce(all.sum, plus(), A(0));
        if (OP != LOGSUMEXP) store<OP>(to, mates.rank, mates.width, all, values);
    } else {
        const int K = ITEMS < 4 ? ITEMS : 4;
        pack<T, N> raw[K];
        A values[N];
        bool limit = all.run(from, mates);
        if (OP != LOGSUMEXP) {
            finish<A> last(all.top, all.sum);
            for (index_t first = mates.rank; first < packs; first += K * mates.width) {
                load(from, first, mates.width, raw, T(A(0)));
#pragma unroll
                for (int k = 0; k < K; k++) {
                    index_t p = first + k * mates.width;
                    if (p >= packs) break;
                    convert(raw[k], values);
#pragma unroll
                    for (int i = 0; i < N; i++)
                        values[i] = last.template value<OP>(limit ? limited(values[i]) : values[i]);
                    write(to, p, values);
                }
            }
        }
    }
    if (OP == LOGSUMEXP && mates.rank == 0) out[r] = T(logarithm(all));
}

// Rows that fit into the registers of some neighbours in a warp, which may have one of many rows.
template <typename T, int N, int LANES, int ITEMS, int OP>
__global__ void __launch_bounds__(SHORT_BLOCK)
short_rows(const T *x, T *out, index_t count, index_t length, index_t row_stride, index_t stride) {
    typedef accumulator_t<T> A;
    index_t own;
    int rank;
    index_t r = short_row<LANES>(count, own, rank);
    row_of<const T, N> from(x + r * row_stride, length, stride);
    pack<T, N> raw[ITEMS];
    A values[ITEMS][N];
    running<A> all;
    load(from, rank, LANES, raw, T(-INFINITY_OF(A)));
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        convert(raw[k], values[k]);
#pragma unroll
        for (int i = 0; i < N; i++) all.top = top_of()(all.top, values[k][i]);
    }
    all.top = lanes_reduce<LANES>(all.top, top_of());
    exponentials<OP>(all, values);
    all.sum = lanes_reduce<LANES>(all.sum, plus());
    if (own >= count) return;
    if (OP == LOGSUMEXP) {
        if (rank == 0) out[r] = T(logarithm(all));
        return;
    }
    row_of<T, N> to(out + r * length, length, 1);
    store<OP>(to, rank, LANES, all, values);
}

// Reduces the middle one of three axes: a block has 32 neighbours on the last axis, whose lines
// along the middle axis 8 threads each share.
#define LINES 8

template <typename T, int OP>
__global__ void columns(const T *x, T *out, index_t length, index_t after, index_t tiles) {
    typedef accumulator_t<T> A;
    __shared__ A tops[LINES][32], sums[LINES][32];
    int lane = threadIdx.x & 31, line = threadIdx.x >> 5;
    index_t before = blockIdx.x / tiles, column = blockIdx.x % tiles * 32 + lane;
    bool inside = column < after;
    index_t place = before * length * after + column;
    running<A> all;
    A value[1];
    if (inside) {
#pragma unroll 4
        for (index_t i = line; i < length; i += LINES) {
            value[0] = A(x[place + i * after]);
            all.add(value);
        }
    }
    tops[line][lane] = all.top;
    __syncthreads();
    for (int i = 0; i < LINES; i++) all.top = larger()(all.top, tops[i][lane]);
    bool limit = all.top == INFINITY_OF(A);
    if (limit) {
        all.sum = A(0);
        for (index_t i = line; inside && i < length; i += LINES)
            all.sum += exp(limited(A(x[place + i * after])));
    } else {
        A own = tops[line][lane];
        if (all.top > own) all.sum *= exp(own - shift_of(all.top));
    }
    sums[line][lane] = all.sum;
    __syncthreads();
    A sum = A(0);
    for (int i = 0; i < LINES; i++) sum += sums[i][lane];
    if (!inside) return;
    if (OP == LOGSUMEXP) {
        if (line == 0)
            out[before * after + column] =
                T(limit && sum == sum ? all.top : shift_of(all.top) + log(sum));
        return;
    }
    finish<A> last(all.top, sum);
#pragma unroll 4
    for (index_t i = line; i < length; i += LINES) {
        A v = A(x[place + i * after]);
        out[place + i * after] = T(last.template value<OP>(limit ? limited(v) : v));
    }
}

// y * (g - sum(g * y)).
template <typename T, int N>
__global__ void __launch_bounds__(most_threads<T>)
grad_rows(const T *g, const T *y, T *out, index_t count, index_t length,
                                index_t g_row, index_t g_stride, index_t y_row, index_t y_stride,
                                index_t single) {
    typedef accumulator_t<T> A;
    const int ITEMS = KEPT(A) / N;
    index_t r;
    team mates = team_of(single, r);
    if (r >= count) return;
    row_of<const T, N> gs(g + r * g_row, length, g_stride), ys(y + r * y_row, length, y_stride);
    row_of<T, N> to(out + r * length, length, 1);
    index_t packs = ys.packs();
    A sum = A(0);
    if (packs <= ITEMS * mates.width) {
        pack<T, N> a[ITEMS], b[ITEMS];
        load(gs, mates.rank, mates.width, a, T(A(0)));
        load(ys, mates.rank, mates.width, b, T(A(0)));
#pragma unroll
        for (int k = 0; k < ITEMS; k++)
#pragma unroll
            for (int i = 0; i < N; i++) sum += A(a[k][i]) * A(b[k][i]);
        sum = mates.reduce(sum, plus(), A(0));
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            index_t p = mates.rank + k * mates.width;
            if (p < packs) {
                A values[N];
#pragma unroll
                for (int i = 0; i < N; i++) values[i] = A(b[k][i]) * (A(a[k][i]) - sum);
                write(to, p, values);
            }
        }
        return;
    }
    const int K = ITEMS < 4 ? ITEMS : 4;
    pack<T, N> a[K], b[K];
    for (index_t first = mates.rank; first < packs; first += K * mates.width) {
        load(gs, first, mates.width, a, T(A(0)));
        load(ys, first, mates.width, b, T(A(0)));
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < N; i++) sum += A(a[k][i]) * A(b[k][i]);
    }
    sum = mates.reduce(sum, plus(), A(0));
    for (index_t first = mates.rank; first < packs; first += K * mates.width) {
        load(gs, first, mates.width, a, T(A(0)));
        load(ys, first, mates.width, b, T(A(0)));
#pragma unroll
        for (int k = 0; k < K; k++) {
            index_t p = first + k * mates.width;
            if (p >= packs) break;
            A values[N];
#pragma unroll
            for (int i = 0; i < N; i++) values[i] = A(b[k][i]) * (A(a[k][i]) - sum);
            write(to, p, values);
        }
    }
}

template <typename T, int N, int LANES, int ITEMS>
__global__ void __launch_bounds__(SHORT_BLOCK)
grad_short_rows(const T *g, const T *y, T *out, index_t count, index_t length,
                      index_t g_row, index_t g_stride, index_t y_row, index_t y_stride) {
    typedef accumulator_t<T> A;
    index_t own;
    int rank;
    index_t r = short_row<LANES>(count, own, rank);
    row_of<const T, N> gs(g + r * g_row, length, g_stride), ys(y + r * y_row, length, y_stride);
    pack<T, N> a[ITEMS], b[ITEMS];
    load(gs, rank, LANES, a, T(A(0)));
    load(ys, rank, LANES, b, T(A(0)));
    A sum = A(0);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
#pragma unroll
        for (int i = 0; i < N; i++) sum += A(a[k][i]) * A(b[k][i]);
    sum = lanes_reduce<LANES>(sum, plus());
    if (own >= count) return;
    row_of<T, N> to(out + r * length, length, 1);
    index_t packs = to.packs();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        index_t p = rank + k * LANES;
        if (p >= packs) break;
        A values[N];
#pragma unroll
        for (int i = 0; i < N; i++) values[i] = A(b[k][i]) * (A(a[k][i]) - sum);
        write(to, p, values);
    }
}

template <typename T>
__global__ void grad_columns(const T *g, const T *y, T *out, index_t length, index_t after,
                                   index_t tiles) {
    typedef accumulator_t<T> A;
    __shared__ A sums[LINES][32];
    int lane = threadIdx.x & 31, line = threadIdx.x >> 5;
    index_t before = blockIdx.x / tiles, column = blockIdx.x % tiles * 32 + lane;
    bool inside = column < after;
    index_t place = before * length * after + column;
    A sum = A(0);
    for (index_t i = line; inside && i < length; i += LINES)
        sum += A(g[place + i * after]) * A(y[place + i * after]);
    sums[line][lane] = sum;
    __syncthreads();
    sum = A(0);
    for (int i = 0; i < LINES; i++) sum += sums[i][lane];
#pragma unroll 4
    for (index_t i = line; inside && i < length; i += LINES)
        out[place + i * after] = T(A(y[place + i * after]) * (A(g[place + i * after]) - sum));
}
