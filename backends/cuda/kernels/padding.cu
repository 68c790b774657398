// Copies of rows that lie another distance apart, with zeros behind them.

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

// Copies `rows` rows of `length` elements, `step` apart, so that each column becomes a row.
template <typename T>
__global__ void __launch_bounds__(256)
turn_rows(const T *from, T *to, long long rows, long long length, long long step, long long to_step) {
    constexpr int TILE = 64;
    __shared__ T tile[TILE][TILE + 1];
    const long long left = (long long)blockIdx.x * TILE, top = (long long)blockIdx.y * TILE;
    const int across = threadIdx.x % TILE;
#pragma unroll
    for (int down = threadIdx.x / TILE; down < TILE; down += 256 / TILE)
        if (top + down < rows && left + across < length)
            tile[down][across] = from[(top + down) * step + left + across];
    __syncthreads();
#pragma unroll
    for (int down = threadIdx.x / TILE; down < TILE; down += 256 / TILE)
        if (left + down < length && top + across < rows)
            to[(left + down) * to_step + top + across] = tile[across][down];
}
