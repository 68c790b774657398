// Values that are added to, or put at, the places that index arrays name.
#include "index_places.cuh"

__device__ __forceinline__ void add_at(float *p, float v) { atomicAdd(p, v); }
__device__ __forceinline__ void add_at(double *p, double v) { atomicAdd(p, v); }
__device__ __forceinline__ void add_at(int *p, int v) { atomicAdd(p, v); }
__device__ __forceinline__ void add_at(unsigned int *p, unsigned int v) { atomicAdd(p, v); }
__device__ __forceinline__ void add_at(unsigned long long *p, unsigned long long v) {
    atomicAdd(p, v);
}
// In two's complement both add alike.
__device__ __forceinline__ void add_at(long long *p, long long v) {
    atomicAdd(reinterpret_cast<unsigned long long *>(p), static_cast<unsigned long long>(v));
}

template <typename T, int N> __device__ __forceinline__ void add_at(T *to, const pack<T, N> &v) {
#pragma unroll
    for (int i = 0; i < N; ++i) add_at(to + i, v[i]);
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void add_at(float *to, const pack<float, 4> &v) {
    atomicAdd(reinterpret_cast<float4 *>(to), make_float4(v[0], v[1], v[2], v[3]));
}
#endif

// Columns and strides are in elements; of N at once, both are multiples of it.
template <typename V, typename T, int N> __global__ void add(
    void *out, const void *values, index_t offset, index_t outer, index_t outer_stride,
    index_t outer_step, index_t count, index_t count_step, index_t columns, index_t column_stride,
    index_t column_step, index_t log,
    const void *data, index_t code, index_t step, index_t length, index_t stride
) {
    lanes at(log);
    if (at.row >= outer * count) return;
    index_t block = outer == 1 ? 0 : at.row / count, place = at.row - block * count;
    indices places = {data, int(code), step, length, stride};
    T *to = static_cast<T *>(out) + offset + block * outer_stride + places[place] * stride;
    const V *from = static_cast<const V *>(values) + block * outer_step + place * count_step;
    if (N == 1) {
#pragma unroll 4
        for (index_t i = at.column; i < columns; i += at.step)
            add_at(to + i * column_stride, T(from[i * column_step]));
    } else {
#pragma unroll 2
        for (index_t i = at.column * N; i < columns; i += at.step * N) {
            pack<V, N> part = *reinterpret_cast<const pack<V, N> *>(from + i);
            pack<T, N> sum;
#pragma unroll
            for (int j = 0; j < N; ++j) sum[j] = T(part[j]);
            add_at(to + i, sum);
        }
    }
}

// Of the values for one place the last has the place's number: first nobody's, then the largest.
template <bool CLAIM> __global__ void claim(
    long long *owner, index_t count,
    const void *data, index_t code, index_t step, index_t length, index_t stride
) {
    index_t i = index_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    indices places = {data, int(code), step, length, stride};
    if (CLAIM) atomicMax(owner + places[i], i);
    else owner[places[i]] = -1;
}

template <int BYTES> __global__ void put(
    void *out, const void *values, index_t offset, index_t outer, index_t outer_stride,
    index_t outer_step, index_t count, index_t count_step, index_t columns, index_t column_stride,
    index_t column_step, index_t log,
    const void *data, index_t code, index_t step, index_t length, index_t stride,
    const long long *owner
) {
    typedef typename word<BYTES>::type W;
    lanes at(log);
    if (at.row >= outer * count) return;
    index_t block = outer == 1 ? 0 : at.row / count, place = at.row - block * count;
    indices places = {data, int(code), step, length, stride};
    index_t target = places[place];
    if (owner && owner[target] != place) return;
    W *to = static_cast<W *>(out) + offset + block * outer_stride + target * stride;
    const W *from = static_cast<const W *>(values) + block * outer_step + place * count_step;
#pragma unroll 4
    for (index_t i = at.column; i < columns; i += at.step)
        to[i * column_stride] = from[i * column_step];
}
