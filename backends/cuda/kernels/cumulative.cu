// Running sums, products and linear recurrences along an axis, and shifts along it.
//
// A line lies along the axis at one place of all others. The elements up to one combine to a state.
// States combine in the order of the elements: their combination may not commute.
#include "common.cuh"
#include "complex.cuh"

// A state is what an operation makes of the elements up to one; NEUTRAL changes none.
template <typename Op, int NEUTRAL> struct running {
    template <typename A> struct state {
        A value;
    };
    template <typename A> static __device__ state<A> neutral() { return {A(NEUTRAL)}; }
    template <typename A> static __device__ state<A> of(A x, A) { return {x}; }
    template <typename A> static __device__ state<A> combine(state<A> p, state<A> q) {
        return {Op()(p.value, q.value)};
    }
};

struct running_sum : running<plus, 0> {};

struct running_product : running<times, 1> {};

// h[i] = b[i] + a[i] h[i - 1]: a state says what becomes of any h before it.
struct recurrence {
    template <typename A> struct state {
        A value, factor;
    };
    template <typename A> static __device__ state<A> neutral() { return {A(0), A(1)}; }
    template <typename A> static __device__ state<A> of(A a, A b) { return {b, a}; }
    template <typename A> static __device__ state<A> combine(state<A> p, state<A> q) {
        return {q.value + q.factor * p.value, p.factor * q.factor};
    }
};

template <typename S> __device__ __forceinline__ S from_below(S value, int lanes) {
    constexpr int WORDS = sizeof(S) / sizeof(int);
    union bits {
        S state;
        int words[WORDS];
    } moved;
    moved.state = value;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        moved.words[i] = __shfl_up_sync(0xffffffffu, moved.words[i], lanes);
    return moved.state;
}

// Combines the states of the threads before this one, and those of all of the block.
template <typename Op, typename A>
__device__ __forceinline__ void block_scan(typename Op::template state<A> own,
                                           typename Op::template state<A> &before,
                                           typename Op::template state<A> &all) {
    typedef typename Op::template state<A> S;
    __shared__ alignas(16) unsigned char room[32 * sizeof(S)];
    S *warps = reinterpret_cast<S *>(room);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, count = blockDim.x >> 5;
    S through = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        S below = from_below(through, step);
        if (lane >= step) through = Op::template combine<A>(below, through);
    }
    before = from_below(through, 1);
    if (lane == 0) before = Op::template neutral<A>();
    // Others may still read what the last call has left there.
    __syncthreads();
    if (lane == 31) warps[warp] = through;
    __syncthreads();
    S earlier = Op::template neutral<A>();
    all = warps[0];
    for (int i = 1; i < count; i++) {
        if (i == warp) earlier = all;
        all = Op::template combine<A>(all, warps[i]);
    }
    if (warp) before = Op::template combine<A>(earlier, before);
}

// ITEMS elements of a line, the neutral state's where it ends.
template <typename T, int ITEMS>
__device__ __forceinline__ void load(const T *line, index_t step, index_t at, index_t end,
                                     bool wide, T (&items)[ITEMS]) {
    if (wide && at + ITEMS <= end) {
        bool ahead = step == 1;
        const T *place = ahead ? line + at : line - at - (ITEMS - 1);
        pack<T, ITEMS> loaded = *reinterpret_cast<const pack<T, ITEMS> *>(place);
#pragma unroll
        for (int j = 0; j < ITEMS; j++) items[j] = ahead ? loaded[j] : loaded[ITEMS - 1 - j];
        return;
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (at + j < end) items[j] = line[(at + j) * step];
}

template <typename T, int ITEMS>
__device__ __forceinline__ void store(T *line, index_t step, index_t at, index_t end, bool wide,
                                      T (&items)[ITEMS]) {
    if (wide && at + ITEMS <= end) {
        bool ahead = step == 1;
        pack<T, ITEMS> stored;
#pragma unroll
        for (int j = 0; j < ITEMS; j++) stored[j] = ahead ? items[j] : items[ITEMS - 1 - j];
        T *place = ahead ? line + at : line - at - (ITEMS - 1);
        *reinterpret_cast<pack<T, ITEMS> *>(place) = stored;
        return;
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (at + j < end) line[(at + j) * step] = items[j];
}

// A block for each line, or for each of its chunks: then `totals` first gets what every chunk
// combines to (TOTALS), and the second launch begins each chunk with what is before it.
//
// x has any strides, those of the axes before, along and after; y, which only recurrences have, and
// out are contiguous. A line is read from its end if `reverse`.
template <typename Op, typename T, int ITEMS, bool TOTALS>
__global__ void scan(const T *x, const T *y, T *out, void *totals, long long n, long long inner,
                     long long before_stride, long long stride, long long after_stride,
                     long long reverse, long long exclusive, long long chunk, long long wide) {
    typedef accumulator_t<T> A;
    typedef typename Op::template state<A> S;
    const index_t line = blockIdx.x, o = line / inner, i = line % inner;
    const index_t start = blockIdx.y * chunk, end = start + chunk < n ? start + chunk : n;
    index_t own = o * n * inner + i, step = reverse ? -inner : inner;
    x += o * before_stride + i * after_stride;
    if (reverse) {
        own += (n - 1) * inner;
        x += (n - 1) * stride;
        stride = -stride;
    }
    S carried = Op::template neutral<A>(), before, all;
    S *row = static_cast<S *>(totals) + line * gridDim.y;
    if (!TOTALS && blockIdx.y) {
        // There are no more chunks than threads.
        S part = threadIdx.x < blockIdx.y ? row[threadIdx.x] : Op::template neutral<A>();
        block_scan<Op, A>(part, before, carried);
    }
    for (index_t tile = start; tile < end; tile += index_t(blockDim.x) * ITEMS) {
        const index_t at = tile + threadIdx.x * ITEMS;
        T items[ITEMS], others[ITEMS];
        load(x, stride, at, end, wide, items);
        if (y) load(y + own, step, at, end, wide, others);
        S states[ITEMS], mine = Op::template neutral<A>();
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            states[j] = Op::template neutral<A>();
            if (at + j < end)
                states[j] = Op::template of<A>(A(items[j]), y ? A(others[j]) : A(0));
            mine = j ? Op::template combine<A>(mine, states[j]) : states[j];
        }
        block_scan<Op, A>(mine, before, all);
        before = Op::template combine<A>(carried, before);
        if (!TOTALS) {
#pragma unroll
            for (int j = 0; j < ITEMS; j++) {
                S through = Op::template combine<A>(before, states[j]);
                items[j] = T(exclusive ? before.value : through.value);
                before = through;
            }
            store(out + own, step, at, end, wide, items);
        }
        carried = Op::template combine<A>(carried, all);
    }
    if (TOTALS && threadIdx.x == 0) row[blockIdx.y] = carried;
}

// A thread for each line: where lines lie beside each other, so that a warp reads them together.
template <typename Op, typename T>
__global__ void scan_lines(const T *__restrict__ x, const T *__restrict__ y, T *__restrict__ out,
                           long long lines, long long n, long long inner, long long before_stride,
                           long long stride, long long after_stride, long long reverse,
                           long long exclusive) {
    typedef accumulator_t<T> A;
    typedef typename Op::template state<A> S;
    const index_t line = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (line >= lines) return;
    const index_t o = line / inner, i = line % inner;
    index_t own = o * n * inner + i, step = inner;
    x += o * before_stride + i * after_stride;
    if (reverse) {
        own += (n - 1) * inner;
        x += (n - 1) * stride;
        stride = -stride;
        step = -step;
    }
    S before = Op::template neutral<A>();
#pragma unroll 4
    for (index_t at = 0; at < n; at++) {
        S state = Op::template of<A>(A(x[at * stride]), y ? A(y[own + at * step]) : A(0));
        S through = Op::template combine<A>(before, state);
        out[own + at * step] = T(exclusive ? before.value : through.value);
        before = through;
    }
}

// Elements moved along an axis: zeros enter.
template <typename T>
__global__ void shifted(const T *x, T *out, long long size, long long n, long long inner,
                        long long before_stride, long long stride, long long after_stride,
                        long long by) {
    const index_t at = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (at >= size) return;
    const index_t i = at % inner, rest = at / inner, j = rest % n - by, o = rest / n;
    T value = {};
    if (j >= 0 && j < n) value = x[o * before_stride + j * stride + i * after_stride];
    out[at] = value;
}
