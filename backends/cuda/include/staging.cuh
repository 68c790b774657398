// Packs of rows brought into shared memory while the threads do something else.
#pragma once
#include "rows.cuh"

__device__ __forceinline__ void copy_wide(void *shared, const void *global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned int to = (unsigned int)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#else
    *static_cast<int4 *>(shared) = *static_cast<const int4 *>(global);
#endif
}

// A row that fits into shared memory, so that 32 bits are enough to count in.
template <typename T, int N> struct staged_row {
    T *data;
    int length, phase;

    __device__ __forceinline__ staged_row(const row_of<T, N> &row)
        : data(row.data), length(int(row.length)), phase(row.phase) {}

    __device__ __forceinline__ int packs() const { return (phase + length + N - 1) / N; }

    __device__ __forceinline__ int start(int pack) const { return pack * N - phase; }

    __device__ __forceinline__ bool has(int i) const { return (unsigned int)i < (unsigned int)length; }

    __device__ __forceinline__ bool whole(int start) const { return start >= 0 && start + N <= length; }
};

// Starts to copy a pack into its place. Only the thread that asked may read it before a barrier.
template <typename T, int N>
__device__ __forceinline__ void fetch(const staged_row<const T, N> &row, int p, pack<T, N> *place) {
    int start = row.start(p);
    if (row.whole(start)) {
        copy_wide(place, row.data + start);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (row.has(start + i)) (*place)[i] = row.data[start + i];
    }
}

// Waits until all packs are there that the thread has asked for.
__device__ __forceinline__ void wait_for_packs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Reads a pack from its place; what is not in the row becomes `fill`.
template <typename T, int N, typename A>
__device__ __forceinline__ void read_place(const staged_row<const T, N> &row, int p,
                                           const pack<T, N> *place, A (&out)[N], A fill) {
    int start = row.start(p);
    pack<T, N> items = *place;
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = A(items[i]);
    if (!row.whole(start)) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!row.has(start + i)) out[i] = fill;
    }
}

// Writes a pack of elements that begins at a place of a row, which may be none where packs begin.
template <typename T, int N, typename A>
__device__ __forceinline__ void write_at(const staged_row<T, N> &row, int start,
                                         const A (&values)[N]) {
    if (row.whole(start) && (start + row.phase) % N == 0) {
        write_whole(row.data + start, values);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (row.has(start + i)) row.data[start + i] = T(values[i]);
    }
}
