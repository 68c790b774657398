// Copies of rows that lie another distance apart, with zeros behind them.
#include "common.cuh"

// Copies `rows` rows of `length` elements to `all_rows` rows of `all_length`; what is more is 0.
// `across` threads go along a row, each with N elements at a time; blocks along y share long rows.
template <typename T, int N>
__global__ void __launch_bounds__(256)
copy_rows(const T *from, T *to, long long rows, long long length, long long step, long long all_rows,
          long long all_length, long long all_step, long long across) {
    const int width = (int)across, lane = threadIdx.x % width;
    const long long row = (long long)blockIdx.x * (blockDim.x / width) + threadIdx.x / width;
    if (row >= all_rows) return;
    const T *source = from + row * step;
    T *target = to + row * all_step;
    const long long end = row < rows ? length : 0;
    const long long stride = (long long)gridDim.y * width * N;
    for (long long begin = (long long)blockIdx.y * width * N + lane; begin < all_length; begin += stride) {
        T held[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const long long at = begin + (long long)i * width;
            held[i] = at < end ? source[at] : T(0);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            const long long at = begin + (long long)i * width;
            if (at < all_length) target[at] = held[i];
        }
    }
}

// Copies `rows` rows of `length` elements of 4 bytes, `step` apart, so that each column becomes a row.
// Loads and stores take four elements: all four numbers are multiples of four, and so is where both
// begin.
__global__ void __launch_bounds__(256)
turn_rows(const unsigned int *from, unsigned int *to, long long rows, long long length, long long step,
          long long to_step) {
    constexpr int TILE = 64, WIDTH = 4, ACROSS = TILE / WIDTH, STEP = 256 / ACROSS;
    using Four = pack<unsigned int, WIDTH>;
    __shared__ unsigned int tile[TILE][TILE + 1];
    const long long left = (long long)blockIdx.x * TILE, top = (long long)blockIdx.y * TILE;
    const int across = threadIdx.x % ACROSS * WIDTH, first = threadIdx.x / ACROSS;
    Four held[TILE / STEP];
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
        const long long row = top + first + i * STEP;
        if (row < rows && left + across < length) held[i] = *(const Four *)(from + row * step + left + across);
    }
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++)
#pragma unroll
        for (int k = 0; k < WIDTH; k++) tile[across + k][first + i * STEP] = held[i].items[k];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
        const int row = first + i * STEP;
        Four out;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) out.items[k] = tile[row][across + k];
        if (left + row < length && top + across < rows) *(Four *)(to + (left + row) * to_step + top + across) = out;
    }
}
