// Rows read and written by 16 bytes at a time, wherever they start, and what softmax needs of them.
#pragma once
#include "common.cuh"

// A row is cut into packs of N elements that lie on boundaries of 16 bytes, the first of which may
// begin before the row and the last end behind it; N = 1 has no boundaries, and any stride.
template <typename T, int N> struct row_of {
    T *data;
    index_t length, stride;
    int phase;

    __device__ __forceinline__ row_of(T *data, index_t length, index_t stride)
        : data(data), length(length), stride(stride),
          phase(N == 1 ? 0 : int(reinterpret_cast<unsigned long long>(data) / sizeof(T) % N)) {}

    __device__ __forceinline__ index_t packs() const { return (phase + length + N - 1) / N; }

    // Where in the row the first element of a pack is; negative before the row.
    __device__ __forceinline__ index_t start(index_t pack) const { return pack * N - phase; }

    // Whether all packs are whole.
    __device__ __forceinline__ bool even() const { return phase == 0 && length % N == 0; }

    __device__ __forceinline__ bool has(index_t i) const {
        return (unsigned long long)i < (unsigned long long)length;
    }

    __device__ __forceinline__ bool whole(index_t start) const {
        return start >= 0 && start + N <= length;
    }
};

// Reads K packs, a width apart, before the first is used, so that they are on their way at the
// same time. Places outside of the row become `fill`.
template <typename T, int N, int K>
__device__ __forceinline__ void load(const row_of<const T, N> &row, index_t first, index_t width,
                                     pack<T, N> (&out)[K], T fill) {
    if constexpr (N > 1) {
        if (!row.even()) {
#pragma unroll
            for (int k = 0; k < K; k++) {
                index_t start = row.start(first + k * width);
                if (row.whole(start)) {
                    out[k] = *reinterpret_cast<const pack<T, N> *>(row.data + start);
                } else {
#pragma unroll
                    for (int i = 0; i < N; i++)
                        out[k][i] = row.has(start + i) ? row.data[start + i] : fill;
                }
            }
            return;
        }
    }
    // Nothing to look at but the number of packs.
    index_t packs = row.packs();
#pragma unroll
    for (int k = 0; k < K; k++) {
        index_t p = first + k * width;
        if (p < packs) {
            if constexpr (N == 1)
                out[k][0] = row.data[p * row.stride];
            else
                out[k] = reinterpret_cast<const pack<T, N> *>(row.data)[p];
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) out[k][i] = fill;
        }
    }
}

template <typename T, int N, typename A>
__device__ __forceinline__ void convert(const pack<T, N> &items, A (&out)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = A(items[i]);
}

// Stores 16 bytes by one instruction; a plain assignment the compiler would merge with the stores
// of single elements in the other branch.
__device__ __forceinline__ void write_whole(float *to, const float (&v)[4]) {
    __stwb(reinterpret_cast<float4 *>(to), make_float4(v[0], v[1], v[2], v[3]));
}

__device__ __forceinline__ void write_whole(double *to, const double (&v)[2]) {
    __stwb(reinterpret_cast<double2 *>(to), make_double2(v[0], v[1]));
}

template <typename T> __device__ __forceinline__ unsigned int both(float first, float second) {
    return T(first).bits | (unsigned int)(T(second).bits) << 16;
}

template <typename T> __device__ __forceinline__ void write_whole(T *to, const float (&v)[8]) {
    __stwb(reinterpret_cast<uint4 *>(to), make_uint4(both<T>(v[0], v[1]), both<T>(v[2], v[3]),
                                                     both<T>(v[4], v[5]), both<T>(v[6], v[7])));
}

template <typename T, int N, typename A>
__device__ __forceinline__ void write(const row_of<T, N> &row, index_t p, const A (&values)[N]) {
    if constexpr (N == 1) {
        row.data[p * row.stride] = T(values[0]);
    } else {
        index_t start = row.start(p);
        if (row.whole(start)) {
            write_whole(row.data + start, values);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++)
                if (row.has(start + i)) row.data[start + i] = T(values[i]);
        }
    }
}

// Writes a pack of elements that begins at a place of a row, which may be none where packs begin.
template <typename T, int N, typename A>
__device__ __forceinline__ void write_at(const row_of<T, N> &row, index_t start,
                                         const A (&values)[N]) {
    if constexpr (N == 1) {
        row.data[start * row.stride] = T(values[0]);
    } else if (row.whole(start) && (start + row.phase) % N == 0) {
        write_whole(row.data + start, values);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (row.has(start + i)) row.data[start + i] = T(values[i]);
    }
}

// The threads that share a row: a warp, or a block.
struct team {
    index_t rank, width;
    bool block;

    template <typename T, typename F>
    __device__ __forceinline__ T reduce(T value, F combine, T neutral) const {
        return block ? block_reduce(value, combine, neutral) : warp_reduce(value, combine);
    }
};

// Returns a thread's team and row: with `single`, every warp has a row, otherwise every block.
__device__ __forceinline__ team team_of(index_t single, index_t &row) {
    if (single) {
        row = index_t(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
        return {threadIdx.x & 31, 32, false};
    }
    row = blockIdx.x;
    return {threadIdx.x, blockDim.x, true};
}

// The number that is taken off before exp: the maximum, unless that is infinite.
template <typename A> __device__ __forceinline__ A shift_of(A top) {
    return top == INFINITY_OF(A) || top == -INFINITY_OF(A) ? A(0) : top;
}

// The limit of softmax where the maximum is infinite: that of 0 for it and -inf for all else.
template <typename A> __device__ __forceinline__ A limited(A value) {
    return value == INFINITY_OF(A) ? A(0) : value != value ? value : -INFINITY_OF(A);
}

// A running maximum, and the sum of exponentials taken relative to it.
template <typename A> struct running {
    A top = -INFINITY_OF(A), sum = A(0);

    template <int N> __device__ __forceinline__ void add(const A (&values)[N]) {
        A next = top;
#pragma unroll
        for (int i = 0; i < N; i++) next = values[i] > next ? values[i] : next;
        if (next > top) {
            sum *= exp(top - next);
            top = next;
        }
        A shift = shift_of(top);
#pragma unroll
        for (int i = 0; i < N; i++) sum += exp(values[i] - shift);
    }

    // Those of a whole row, which is read once. Where the maximum is infinite it is read once
    // more, for the sum of the limits; says whether that is so.
    template <typename T, int N>
    __device__ __forceinline__ bool run(const row_of<const T, N> &row, const team &mates) {
        const int K = N > 4 ? 2 : 4;
        pack<T, N> raw[K];
        A values[N];
        index_t packs = row.packs();
        for (index_t first = mates.rank; first < packs; first += K * mates.width) {
            load(row, first, mates.width, raw, T(-INFINITY_OF(A)));
#pragma unroll
            for (int k = 0; k < K; k++) {
                convert(raw[k], values);
                add(values);
            }
        }
        join(mates);
        if (top != INFINITY_OF(A)) return false;
        sum = A(0);
        for (index_t p = mates.rank; p < packs; p += mates.width) {
            pack<T, N> one[1];
            load(row, p, mates.width, one, T(-INFINITY_OF(A)));
#pragma unroll
            for (int i = 0; i < N; i++) sum += exp(limited(A(one[0][i])));
        }
        sum = mates.reduce(sum, plus(), A(0));
        return true;
    }

    // Makes them those of all threads; a NaN anywhere is in the sum.
    __device__ __forceinline__ void join(const team &mates) {
        A all = mates.reduce(top, larger(), -INFINITY_OF(A));
        if (all > top) sum *= exp(top - shift_of(all));
        sum = mates.reduce(sum, plus(), A(0));
        top = all;
    }
};
