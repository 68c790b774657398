// Values for the same place combined in their order. Places have been sorted; the lower bits of each
// number say whose it is, so that every place has a segment of values.
#include "complex.cuh"
#include "common.cuh"

typedef unsigned long long tagged;

struct smaller {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const {
        return a < b || a != a ? a : b;
    }
};

// Where values come from and where they go; strides in elements, columns too.
struct layout {
    index_t offset, outer_stride, outer_step, count_step, columns, column_stride, column_step;
    index_t stride;
};

// Some columns of one row, N to a lane.
template <typename V, typename T, typename F, int N> struct strip {
    typedef accumulator_t<T> A;
    const layout &form;
    const V *from;
    T *to;
    A *partial;
    index_t column;
    int shift;

    __device__ __forceinline__ bool inside() const { return column < form.columns; }

    __device__ __forceinline__ pack<A, N> value(tagged number) const {
        index_t i = number & ((tagged(1) << shift) - 1);
        pack<A, N> out;
        if (N == 1) {
            out[0] = A(from[i * form.count_step + column * form.column_step]);
        } else {
            pack<V, N> part = *reinterpret_cast<const pack<V, N> *>(
                from + i * form.count_step + column);
#pragma unroll
            for (int j = 0; j < N; ++j) out[j] = A(part[j]);
        }
        return out;
    }

    __device__ __forceinline__ void combine(pack<A, N> &a, const pack<A, N> &b) const {
#pragma unroll
        for (int j = 0; j < N; ++j) a[j] = F()(a[j], b[j]);
    }

    // Combines every `by`-th of the numbers, of which there is one.
    __device__ __forceinline__ pack<A, N> all(
        const tagged *sorted, index_t i, index_t end, int by
    ) const {
        pack<A, N> sum = value(sorted[i]);
        for (i += by; i + 3 * by < end; i += 4 * by) {
            pack<A, N> next[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) next[k] = value(sorted[i + k * by]);
#pragma unroll
            for (int k = 0; k < 4; ++k) combine(sum, next[k]);
        }
        for (; i < end; i += by) combine(sum, value(sorted[i]));
        return sum;
    }

    __device__ __forceinline__ void finish(tagged number, const pack<A, N> &sum) const {
        T *at = to + index_t(number >> shift) * form.stride + column * form.column_stride;
        pack<T, N> total = *reinterpret_cast<pack<T, N> *>(at);
#pragma unroll
        for (int j = 0; j < N; ++j) total[j] = T(F()(A(total[j]), sum[j]));
        *reinterpret_cast<pack<T, N> *>(at) = total;
    }

    __device__ __forceinline__ pack<A, N> *part(index_t slot) const {
        return reinterpret_cast<pack<A, N> *>(partial + slot * form.columns + column);
    }
};

#define FORM                                                                                       \
    index_t offset, index_t outer_stride, index_t outer_step, index_t count_step, index_t columns, \
        index_t column_stride, index_t column_step, index_t stride
#define FORM_OF                                                                                    \
    {offset, outer_stride, outer_step, count_step, columns, column_stride, column_step, stride}

// A warp has a number, if that is the first for its place, or of a span; a block has eight in a row.
// A place that reaches over the end of a span leaves its part in one of two slots: the first is for
// a place that began before, the second for one that begins.
template <typename V, typename T, typename F, int N> __global__ void segments(
    void *out, const void *values, void *partial, const tagged *sorted, index_t count,
    index_t shift, index_t span, index_t groups, index_t tiles, FORM
) {
    typedef accumulator_t<T> A;
    constexpr int WARPS = 8, SHORT = 16;
    __shared__ index_t ends[WARPS];
    __shared__ pack<A, N> sums[WARPS][32];
    layout form = FORM_OF;
    index_t group = blockIdx.x % groups, rest = blockIdx.x / groups;
    index_t tile = rest % tiles, block = rest / tiles;
    index_t slots = 2 * ((count + span - 1) / span);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    strip<V, T, F, N> here = {
        form, static_cast<const V *>(values) + block * outer_step,
        static_cast<T *>(out) + offset + block * outer_stride,
        static_cast<A *>(partial) + block * slots * columns,
        (tile * 32 + lane) * N, int(shift)};

    index_t own = group * WARPS + warp, end = own;
    bool starts = own < count
        && (own % span == 0 || sorted[own - 1] >> shift != sorted[own] >> shift);
    if (starts) {
        index_t last = min((own / span + 1) * span, count);
        tagged place = sorted[own] >> shift;
        bool same = true;
        while (same && end < last) {
            index_t i = end + lane;
            unsigned int other = __ballot_sync(
                0xffffffffu, i >= last || sorted[i] >> shift != place);
            same = other == 0;
            end += same ? 32 : __ffs(other) - 1;
        }
        end = min(end, last);
    }
    if (lane == 0) ends[warp] = end;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) {
        index_t first = group * WARPS + w, stop = ends[w];
        bool together = stop - first > SHORT;
        if (!together && (w != warp || stop == first)) continue;
        pack<A, N> sum;
        if (together) {
            if (here.inside()) sums[warp][lane] = here.all(sorted, first + warp, stop, WARPS);
            __syncthreads();
            if (warp == 0 && here.inside()) {
                sum = sums[0][lane];
                for (int i = 1; i < WARPS; ++i) here.combine(sum, sums[i][lane]);
            }
            __syncthreads();
            if (warp != 0) continue;
        } else if (here.inside()) {
            sum = here.all(sorted, first, stop, 1);
        }
        if (!here.inside()) continue;
        tagged place = sorted[first] >> shift;
        bool before = first > 0 && sorted[first - 1] >> shift == place;
        bool after = stop < count && sorted[stop] >> shift == place;
        if (before || after) *here.part(first / span * 2 + !before) = sum;
        else here.finish(sorted[first], sum);
    }
}

// Combines what spans have left for one place: a warp has the span where it begins.
template <typename V, typename T, typename F, int N> __global__ void joined(
    void *out, const void *values, void *partial, const tagged *sorted, index_t count,
    index_t shift, index_t span, index_t groups, index_t tiles, FORM
) {
    typedef accumulator_t<T> A;
    layout form = FORM_OF;
    index_t warp = index_t(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
    index_t spans = (count + span - 1) / span;
    index_t own = warp % spans, rest = warp / spans, tile = rest % tiles, block = rest / tiles;
    strip<V, T, F, N> here = {
        form, static_cast<const V *>(values), static_cast<T *>(out) + offset + block * outer_stride,
        static_cast<A *>(partial) + block * spans * 2 * columns,
        (tile * 32 + (threadIdx.x & 31)) * N, int(shift)};
    index_t end = (own + 1) * span;
    if (block >= groups || end >= count || !here.inside()) return;
    tagged place = sorted[end - 1] >> shift;
    if (sorted[end] >> shift != place) return;
    // It began in an earlier span, which has it.
    if (own > 0 && sorted[own * span] >> shift == place && sorted[own * span - 1] >> shift == place)
        return;
    pack<A, N> sum = *here.part(own * 2 + 1);
    for (; end < count && sorted[end] >> shift == place; end += span)
        here.combine(sum, *here.part(end / span * 2));
    here.finish(sorted[end - span], sum);
}
