// Sums over the middle one of three axes, in an order that the lengths alone decide.
#include "common.cuh"

#define THREADS 256

// A block has a tile of neighbours on the last axis, and of the lines along the middle axis a run,
// whose sums go to one line of `out`; blockIdx counts tiles, runs, and places on the first axis. Of
// `width` threads each has 16 bytes of a line and of every so-manieth one after it. All of these
// begin equally far behind a boundary of 16 bytes, so that they are read whole, wherever a line
// begins: a tile is what the packs of all lines hold for certain.
template <typename T, typename S, int N>
__global__ void __launch_bounds__(THREADS)
column_sums(const T *x, S *out, index_t length, index_t after, index_t run, index_t width,
            index_t tile) {
    typedef accumulator_t<T> A;
    __shared__ A sums[THREADS * N];
    int across = int(width), columns = int(tile), lines = THREADS / across;
    int lane = threadIdx.x % across, line = threadIdx.x / across;
    index_t column = blockIdx.x * tile, first = blockIdx.y * run, last = min(first + run, length);
    const T *from = x + (blockIdx.z * length + first + line) * after + column;
    int shift = int(reinterpret_cast<unsigned long long>(from) / sizeof(T) % N);
    // Where this thread's packs begin, in the tile.
    int start = lane * N - shift;
    from += start;
    pack<A, N> sum;
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] = A(0);
    if (column + start >= 0 && column + start + N <= after) {
#pragma unroll 4
        for (index_t r = first + line; r < last; r += lines, from += lines * after) {
            pack<T, N> items = *reinterpret_cast<const pack<T, N> *>(from);
#pragma unroll
            for (int i = 0; i < N; i++) sum[i] += A(items[i]);
        }
    } else if (column + start < after) {
        for (index_t r = first + line; r < last; r += lines, from += lines * after) {
#pragma unroll
            for (int i = 0; i < N; i++)
                if (column + start + i >= 0 && column + start + i < after) sum[i] += A(from[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (start + i >= 0 && start + i < columns) sums[line * columns + start + i] = sum[i];
    for (int half = lines / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int i = threadIdx.x; i < half * columns; i += THREADS)
            sums[i] += sums[i + half * columns];
    }
    __syncthreads();
    S *to = out + (index_t(blockIdx.z) * gridDim.y + blockIdx.y) * after + column;
    for (int i = threadIdx.x; i < columns && column + i < after; i += THREADS) to[i] = S(sums[i]);
}
