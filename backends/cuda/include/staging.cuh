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

// Starts to copy a pack into its place. Only the thread that asked may read it before a barrier.
template <typename T, int N>
__device__ __forceinline__ void fetch(const row_of<const T, N> &row, index_t p, pack<T, N> *place) {
    index_t start = row.start(p);
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
__device__ __forceinline__ void read_place(const row_of<const T, N> &row, index_t p,
                                           const pack<T, N> *place, A (&out)[N], A fill) {
    index_t start = row.start(p);
    pack<T, N> items = *place;
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = A(items[i]);
    if (!row.whole(start)) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!row.has(start + i)) out[i] = fill;
    }
}
