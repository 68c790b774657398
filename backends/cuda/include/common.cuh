// Shared by all families: types of accumulators, reductions over warps and blocks, wide loads.
#pragma once
#include "half.cuh"

typedef long long index_t;

// The type in which values of T are added up.
template <typename T> struct accumulator { typedef T type; };
template <> struct accumulator<half_t> { typedef float type; };
template <> struct accumulator<bfloat16_t> { typedef float type; };
template <typename T> using accumulator_t = typename accumulator<T>::type;

// A quotient of constants would be computed wherever it stands, by a call.
#define INFINITY_OF(T) (T(__int_as_float(0x7f800000)))

// N elements that are loaded and stored by one instruction.
template <typename T, int N> struct alignas(sizeof(T) * N) pack {
    T items[N];
    __device__ __forceinline__ T &operator[](int i) { return items[i]; }
    __device__ __forceinline__ const T &operator[](int i) const { return items[i]; }
};

struct plus {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

struct times {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const { return a * b; }
};

// The larger value; NaN if there is one.
struct larger {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const {
        return a > b || a != a ? a : b;
    }
};

// Every lane gets what all lanes of its warp combine to.
template <typename T, typename F> __device__ __forceinline__ T warp_reduce(T value, F combine) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// Every thread gets what all threads of its block combine to. The block has whole warps.
template <typename T, typename F>
__device__ __forceinline__ T block_reduce(T value, F combine, T neutral) {
    __shared__ T partial[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    value = warp_reduce(value, combine);
    __syncthreads();
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = lane < (blockDim.x >> 5) ? partial[lane] : neutral;
    return warp_reduce(value, combine);
}
