// Rows brought to mean 0 and variance 1, times weights; and the derivatives of that.
#include "staging.cuh"

// How many values of a row a thread keeps in registers, of accumulators of type A.
#define KEPT(A) int(64 / sizeof(A))

template <typename A> struct moments {
    A mean, scale;
};

template <typename A> __device__ __forceinline__ A warp_sum(A value) {
    return warp_reduce(value, plus());
}

// The part of a row that a warp has: the sum, how many values there are, and of their distances
// from their own mean (from 0, where rows are not centered) the squares' sum.
template <typename A> struct share {
    A sum, count, squares;

    __device__ __forceinline__ A pivot(index_t center) const {
        return center && count > A(0) ? sum / count : A(0);
    }
};

// The same for the way back, with the sums of weighted cotangents and of their products with the
// distances.
template <typename A> struct share_back : share<A> {
    A weighted, along;
};

// Every lane gets one warp's share of what the warps of a block have found, by one barrier. `shares`
// may be written again once there was another barrier.
template <typename S> __device__ __forceinline__ S exchanged(const S &own, S *shares) {
    int lane = threadIdx.x & 31;
    if (lane == 0) shares[threadIdx.x >> 5] = own;
    __syncthreads();
    return lane < (blockDim.x >> 5) ? shares[lane] : S{};
}

// The moments of a row whose values are in the registers of a warp or of a block; `has(k, i)` says
// which of them there are. Squares are of distances from a mean nearby, and so lose nothing.
template <typename A, int ITEMS, int N, typename F>
__device__ __forceinline__ moments<A> moments_of(const A (&values)[ITEMS][N], F has, index_t length,
                                                 index_t center, A eps, bool block) {
    share<A> own = {A(0), A(0), A(0)};
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            if (has(k, i)) {
                own.sum += values[k][i];
                own.count += A(1);
            }
    if (center) {
        own.sum = warp_sum(own.sum);
        own.count = warp_sum(own.count);
    }
    A pivot = own.pivot(center);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            A d = values[k][i] - pivot;
            if (has(k, i)) own.squares += d * d;
        }
    own.squares = warp_sum(own.squares);
    A mean = pivot;
    if (block) {
        __shared__ share<A> shares[32];
        own = exchanged(own, shares);
        mean = center ? warp_sum(own.sum) / A(length) : A(0);
        A shift = own.pivot(center) - mean;
        own.squares = warp_sum(own.squares + (center ? own.count * shift * shift : A(0)));
    }
    return {mean, A(1) / sqrt(own.squares / A(length) + eps)};
}

// Whether element i of a pack at `start` is in the row; rows of packs only are whole ones.
template <int N> __device__ __forceinline__ bool inside(index_t start, index_t length) {
    return N > 1 || start < length;
}

// Sums of a row that is read again and again: it is too long for the registers.
template <typename T, int N, typename A>
__device__ moments<A> moments_of_long(const row_of<const T, N> &row, index_t center, A eps,
                                      const team &mates) {
    const int K = N > 4 ? 2 : 4;
    pack<T, N> raw[K];
    index_t packs = row.packs();
    A sum = A(0), squares = A(0);
    for (index_t first = mates.rank; center && first < packs; first += K * mates.width) {
        load(row, first, mates.width, raw, T(A(0)));
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < N; i++) sum += A(raw[k][i]);
    }
    A mean = center ? mates.reduce(sum, plus(), A(0)) / A(row.length) : A(0);
    for (index_t first = mates.rank; first < packs; first += K * mates.width) {
        load(row, first, mates.width, raw, T(A(0)));
#pragma unroll
        for (int k = 0; k < K; k++) {
            index_t start = row.start(first + k * mates.width);
#pragma unroll
            for (int i = 0; i < N; i++) {
                A d = A(raw[k][i]) - mean;
                if (row.has(start + i)) squares += d * d;
            }
        }
    }
    return {mean, A(1) / sqrt(mates.reduce(squares, plus(), A(0)) / A(row.length) + eps)};
}

// (x - mean) * scale * weight + bias. `affine` says how many of weight and bias there are.
template <typename T, int N>
__global__ void __launch_bounds__(1024)
forward(const T *x, const T *weight, const T *bias, T *out, index_t count, index_t length,
        index_t row_stride, index_t stride, index_t rows_of_group, index_t weight_stride,
        index_t bias_stride, index_t affine, index_t center, double added, index_t single) {
    typedef accumulator_t<T> A;
    const int ITEMS = KEPT(A) / N;
    index_t r;
    team mates;
    if (single) {
        r = index_t(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
        mates = {threadIdx.x & 31, 32, false};
    } else {
        r = blockIdx.x;
        mates = {threadIdx.x, blockDim.x, true};
    }
    if (r >= count) return;
    A eps = A(added);
    row_of<const T, N> from(x + r * row_stride, length, stride);
    row_of<T, N> to(out + r * length, length, 1);
    index_t group = affine ? r / rows_of_group : 0;
    row_of<const T, N> weights(weight + group * weight_stride, length, 1);
    row_of<const T, N> biases(bias + group * bias_stride, length, 1);
    index_t packs = from.packs();
    if (packs <= ITEMS * mates.width) {
        pack<T, N> raw[ITEMS];
        A values[ITEMS][N];
        load(from, mates.rank, mates.width, raw, T(A(0)));
#pragma unroll
        for (int k = 0; k < ITEMS; k++) convert(raw[k], values[k]);
        moments<A> own;
        if (N == 1 || from.even()) {
            const auto has = [&](int k, int) { return mates.rank + k * mates.width < packs; };
            own = moments_of(values, has, length, center, eps, mates.block);
        } else {
            const auto has = [&](int k, int i) {
                return from.has(from.start(mates.rank + k * mates.width) + i);
            };
            own = moments_of(values, has, length, center, eps, mates.block);
        }
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            index_t p = mates.rank + k * mates.width;
            if (p < packs) {
                pack<T, N> w[1], b[1];
                if (affine > 0) load(weights, p, mates.width, w, T(A(0)));
                if (affine > 1) load(biases, p, mates.width, b, T(A(0)));
#pragma unroll
                for (int i = 0; i < N; i++) {
                    values[k][i] = (values[k][i] - own.mean) * own.scale;
                    if (affine > 0) values[k][i] *= A(w[0][i]);
                    if (affine > 1) values[k][i] += A(b[0][i]);
                }
                write(to, p, values[k]);
            }
        }
        return;
    }
    moments<A> own = moments_of_long(from, center, eps, mates);
    for (index_t p = mates.rank; p < packs; p += mates.width) {
        pack<T, N> raw[1], w[1], b[1];
        A values[N];
        load(from, p, mates.width, raw, T(A(0)));
        if (affine > 0) load(weights, p, mates.width, w, T(A(0)));
        if (affine > 1) load(biases, p, mates.width, b, T(A(0)));
#pragma unroll
        for (int i = 0; i < N; i++) {
            values[i] = (A(raw[0][i]) - own.mean) * own.scale;
            if (affine > 0) values[i] *= A(w[0][i]);
            if (affine > 1) values[i] += A(b[0][i]);
        }
        write(to, p, values);
    }
}

// The cotangents of rows that fit into registers, and for every block those of weight and bias as
// far as its rows go. A thread has the same places in all rows. While a block works on a row, the
// next one is on its way. `out` has behind the rows of every group a row for each total.
//
// With packs, rows are whole numbers of them on boundaries; N = 1 takes any strides.
template <typename T, int N, bool AFFINE>
__global__ void __launch_bounds__(512)
backward(const T *g, const T *x, const T *weight, T *out, accumulator_t<T> *partial,
         index_t rows_of_group, index_t length, index_t g_row, index_t g_stride, index_t x_row,
         index_t x_stride, index_t weight_stride, index_t totals, index_t center, double added,
         index_t blocks) {
    typedef accumulator_t<T> A;
    const int ITEMS = KEPT(A) / N;
    extern __shared__ int4 memory[];
    index_t group = blockIdx.x / blocks, block = blockIdx.x % blocks;
    index_t packs = length / N, width = blockDim.x, rank = threadIdx.x;
    pack<T, N> *places = reinterpret_cast<pack<T, N> *>(memory);
    A by_weight[ITEMS][N], by_bias[ITEMS][N];
    // Read again for every row, from the cache: there are no registers left for them.
    const pack<T, N> *weights = reinterpret_cast<const pack<T, N> *>(weight + group * weight_stride);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
#pragma unroll
        for (int i = 0; i < N; i++) by_weight[k][i] = by_bias[k][i] = A(0);
    const T *first_g = g + group * rows_of_group * g_row, *first_x = x + group * rows_of_group * x_row;
    T *first_out = out + group * (rows_of_group + totals) * length;
    share_back<A> own = {};
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (rank + k * width < packs) own.count += A(N);
    const A count = warp_sum(own.count);
    __shared__ share_back<A> shares[2][32];
    int turn = 0;
    if (N > 1 && block < rows_of_group) {
        for (index_t p = rank; p < packs; p += width) {
            copy_wide(places + p, first_x + block * x_row + p * N);
            copy_wide(places + packs + p, first_g + block * g_row + p * N);
        }
    }
    for (index_t r = block; r < rows_of_group; r += blocks) {
        A values[ITEMS][N], h[ITEMS][N];
        own = {};
        row_of<const T, N> gs(first_g + r * g_row, length, g_stride);
        row_of<const T, N> xs(first_x + r * x_row, length, x_stride);
        pack<T, N> raw_x[ITEMS], raw_g[ITEMS];
        if constexpr (N > 1) {
            wait_for_packs();
#pragma unroll
            for (int k = 0; k < ITEMS; k++) {
                index_t p = rank + k * width;
                if (p < packs) {
                    raw_x[k] = places[p];
                    raw_g[k] = places[packs + p];
                }
            }
        } else {
            load(xs, rank, width, raw_x, T(A(0)));
            load(gs, rank, width, raw_g, T(A(0)));
        }
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
#pragma unroll
            for (int i = 0; i < N; i++) values[k][i] = h[k][i] = A(0);
            if (rank + k * width < packs) {
                convert(raw_x[k], values[k]);
                convert(raw_g[k], h[k]);
#pragma unroll
                for (int i = 0; i < N; i++) own.sum += values[k][i];
            }
        }
        if (N > 1 && r + blocks < rows_of_group) {
            const T *next_x = first_x + (r + blocks) * x_row, *next_g = first_g + (r + blocks) * g_row;
            for (index_t p = rank; p < packs; p += width) {
                copy_wide(places + p, next_x + p * N);
                copy_wide(places + packs + p, next_g + p * N);
            }
        }
        own.sum = warp_sum(own.sum);
        own.count = count;
        A pivot = own.pivot(center);
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            index_t p = rank + k * width;
            if (p < packs) {
                pack<T, N> w;
                if (AFFINE) w = weights[p];
#pragma unroll
                for (int i = 0; i < N; i++) {
                    A d = values[k][i] - pivot;
                    A weighted = AFFINE ? h[k][i] * A(w[i]) : h[k][i];
                    own.squares += d * d;
                    own.weighted += weighted;
                    own.along += weighted * d;
                }
            }
        }
        own.squares = warp_sum(own.squares);
        own.weighted = warp_sum(own.weighted);
        own.along = warp_sum(own.along);
        A mean = pivot;
        if (blockDim.x > 32) {
            // Two rows' shares at a time, so that one barrier for each row is enough.
            own = exchanged(own, shares[turn]);
            turn ^= 1;
            mean = center ? warp_sum(own.sum) / A(length) : A(0);
            A shift = own.pivot(center) - mean;
            own.squares = warp_sum(own.squares + (center ? own.count * shift * shift : A(0)));
            own.along = warp_sum(own.along + (center ? own.weighted * shift : A(0)));
            own.weighted = warp_sum(own.weighted);
        }
        A scale = A(1) / sqrt(own.squares / A(length) + A(added));
        A offset = center ? own.weighted / A(length) : A(0);
        A along = own.along / A(length) * scale;
        T *to = first_out + r * length;
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            index_t p = rank + k * width;
            if (p < packs) {
                pack<T, N> w;
                if (AFFINE) w = weights[p];
#pragma unroll
                for (int i = 0; i < N; i++) {
                    A y = (values[k][i] - mean) * scale;
                    A weighted = AFFINE ? h[k][i] * A(w[i]) : h[k][i];
                    if (AFFINE) {
                        by_weight[k][i] += h[k][i] * y;
                        by_bias[k][i] += h[k][i];
                    }
                    values[k][i] = (weighted - offset - y * along) * scale;
                }
                if constexpr (N == 1)
                    to[p] = T(values[k][0]);
                else
                    write_whole(to + p * N, values[k]);
            }
        }
    }
    if (AFFINE) {
        // Of every block a row for each total.
        A *own = partial + index_t(blockIdx.x) * totals * length;
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            index_t p = rank + k * width;
            if (p < packs) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    own[p * N + i] = by_weight[k][i];
                    if (totals > 1) own[length + p * N + i] = by_bias[k][i];
                }
            }
        }
    }
}

// The same for rows of any length, read several times; keeps every row's moments.
template <typename T>
__global__ void __launch_bounds__(1024)
backward_long(const T *g, const T *x, const T *weight, T *out, accumulator_t<T> *kept,
              index_t rows_of_group, index_t length, index_t g_row, index_t g_stride,
              index_t x_row, index_t x_stride, index_t weight_stride, index_t totals,
              index_t center, double added, index_t affine) {
    typedef accumulator_t<T> A;
    index_t r = blockIdx.x, group = r / rows_of_group;
    team mates = {threadIdx.x, blockDim.x, true};
    row_of<const T, 1> gs(g + r * g_row, length, g_stride), xs(x + r * x_row, length, x_stride);
    const T *w = weight + group * weight_stride;
    moments<A> own = moments_of_long(xs, center, A(added), mates);
    A weighted = A(0), along = A(0);
    for (index_t i = mates.rank; i < length; i += mates.width) {
        A h = A(gs.data[i * g_stride]) * (affine ? A(w[i]) : A(1));
        weighted += h;
        along += h * (A(xs.data[i * x_stride]) - own.mean);
    }
    A offset = center ? block_reduce(weighted, plus(), A(0)) / A(length) : A(0);
    along = block_reduce(along, plus(), A(0)) / A(length) * own.scale;
    T *to = out + (group * (rows_of_group + totals) + r % rows_of_group) * length;
    for (index_t i = mates.rank; i < length; i += mates.width) {
        A h = A(gs.data[i * g_stride]) * (affine ? A(w[i]) : A(1));
        A y = (A(xs.data[i * x_stride]) - own.mean) * own.scale;
        to[i] = T((h - offset - y * along) * own.scale);
    }
    if (affine && mates.rank == 0) {
        kept[2 * r] = own.mean;
        kept[2 * r + 1] = own.scale;
    }
}

// The totals over a block's share of the rows of a group, by the moments that were kept.
template <typename T>
__global__ void totals_of_long(const T *g, const T *x, const accumulator_t<T> *kept,
                               accumulator_t<T> *partial, index_t rows_of_group, index_t length,
                               index_t g_row, index_t g_stride, index_t x_row, index_t x_stride,
                               index_t totals, index_t tiles, index_t blocks) {
    typedef accumulator_t<T> A;
    index_t column = index_t(blockIdx.x) % tiles * blockDim.x + threadIdx.x;
    index_t part = blockIdx.x / tiles, group = part / blocks;
    if (column >= length) return;
    A by_weight = A(0), by_bias = A(0);
    for (index_t i = part % blocks; i < rows_of_group; i += blocks) {
        index_t r = group * rows_of_group + i;
        A h = A(g[r * g_row + column * g_stride]);
        by_weight += h * (A(x[r * x_row + column * x_stride]) - kept[2 * r]) * kept[2 * r + 1];
        by_bias += h;
    }
    partial[part * totals * length + column] = by_weight;
    if (totals > 1) partial[(part * totals + 1) * length + column] = by_bias;
}

// Adds up what blocks have found, always in the same order: 32 columns a block, a warp for each of
// several lines.
template <typename T>
__global__ void finish(const accumulator_t<T> *partial, T *out, index_t rows_of_group,
                       index_t length, index_t totals, index_t tiles, index_t blocks) {
    typedef accumulator_t<T> A;
    __shared__ A sums[32][32];
    int lane = threadIdx.x & 31, line = threadIdx.x >> 5, lines = blockDim.x >> 5;
    index_t column = blockIdx.x % tiles * 32 + lane, which = blockIdx.x / tiles % totals;
    index_t group = blockIdx.x / tiles / totals;
    A sum = A(0);
    if (column < length) {
        const A *from = partial + (group * blocks * totals + which) * length + column;
#pragma unroll 8
        for (index_t i = line; i < blocks; i += lines) sum += from[i * totals * length];
    }
    sums[line][lane] = sum;
    __syncthreads();
    if (line || column >= length) return;
    for (int i = 1; i < lines; i++) sum += sums[i][lane];
    out[(group * (rows_of_group + totals) + rows_of_group + which) * length + column] = T(sum);
}
