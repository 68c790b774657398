// Sums over the middle one of three axes, or over the outer two, in an order that the lengths alone
// decide, and divided by a number.
#include "common.cuh"

#define THREADS 256
#define MOST_THREADS 1024

// A block has a tile of neighbours on the last axis, and of the lines along the middle axis a run,
// whose sums go to one line of `out`; blockIdx counts tiles, runs, and places on the first axis. Of
// `width` threads each has 16 bytes of a line and of every so-manieth one after it. All of these
// begin equally far behind a boundary of 16 bytes, so that they are read whole, wherever a line
// begins: a tile is what the packs of all lines hold for certain.
template <typename T, typename S, int N>
__global__ void __launch_bounds__(THREADS)
column_sums(const T *x, S *out, double divisor, index_t length, index_t after, index_t run,
            index_t width, index_t tile) {
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
    for (int i = threadIdx.x; i < columns && column + i < after; i += THREADS)
        to[i] = S(sums[i] / A(divisor));
}

// Every place of the middle axis has a row in each of `before` planes. Of a row `width` threads take
// packs of N by turns, and the lines of such threads take planes by turns: a block has all lines of
// one place, or, if there is one plane, with `APART`, each line is a place of its own. blockIdx
// counts places, runs of planes, and runs of packs, whose sums lie side by side in `out`.
template <typename T, typename S, int N, bool APART>
__global__ void __launch_bounds__(MOST_THREADS)
row_sums(const T *x, S *out, double divisor, index_t before, index_t middle, index_t after,
         index_t planes, index_t packs, index_t width) {
    typedef accumulator_t<T> A;
    __shared__ A sums[MOST_THREADS];
    int across = int(width), lines = blockDim.x / across;
    int lane = threadIdx.x % across, line = threadIdx.x / across;
    index_t place = APART ? index_t(blockIdx.x) * lines + line : blockIdx.x;
    index_t plane = blockIdx.y * planes + (APART ? 0 : line);
    index_t last = APART && place >= middle ? 0 : min(blockIdx.y * planes + planes, before);
    index_t first = blockIdx.z * packs, end = min(first + packs, (after + N - 1) / N);
    pack<A, N> sum;
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] = A(0);
    for (; plane < last; plane += APART ? 1 : lines) {
        const T *row = x + (plane * middle + place) * after;
#pragma unroll 4
        for (index_t p = first + lane; p < end; p += across) {
            if (p * N + N <= after) {
                pack<T, N> items = *reinterpret_cast<const pack<T, N> *>(row + p * N);
#pragma unroll
                for (int i = 0; i < N; i++) sum[i] += A(items[i]);
            } else {
                for (int i = 0; p * N + i < after; i++) sum[i] += A(row[p * N + i]);
            }
        }
    }
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    sums[threadIdx.x] = sum[0];
    for (int half = (APART ? across : int(blockDim.x)) / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((APART ? lane : int(threadIdx.x)) < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (APART ? lane == 0 && place < middle : threadIdx.x == 0)
        out[(place * gridDim.y + blockIdx.y) * gridDim.z + blockIdx.z] =
            S(sums[threadIdx.x] / A(divisor));
}
