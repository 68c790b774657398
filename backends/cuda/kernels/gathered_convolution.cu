// Convolutions as products of matrices whose factors are gathered from where they lie.
//
// Images have two spatial axes here. A block of 8 warps adds up ROWS x COLUMNS results. It goes
// over what is summed DEPTH elements at a time: while it multiplies those that are in shared
// memory, each thread reads its share of the next ones.
#include "mma.cuh"

const int DEPTH = 16, PITCH = DEPTH + 4, QUADS = DEPTH / 4, BLOCK = 256;

// The results of a warp: 32 rows, and its share of the columns. A factor lies in shared memory with
// DEPTH summed elements for each row, or column, PITCH words apart.
template <typename P, int ROWS, int COLUMNS> struct warp_results {
    static const int DOWN = ROWS / 32, WIDTH = COLUMNS / (8 / DOWN), PARTS = WIDTH / 8;
    float c[2][PARTS][4] = {};

    static __device__ __forceinline__ int row() { return threadIdx.x / 32 % DOWN * 32; }
    static __device__ __forceinline__ int column() { return threadIdx.x / 32 / DOWN * WIDTH; }

    __device__ __forceinline__ void add(const word_t *a, const word_t *b) {
        int group = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            word_t x[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const word_t *at = a + (row() + 16 * i + group) * PITCH + k + t;
                x[i][0] = at[0];
                x[i][1] = at[8 * PITCH];
                x[i][2] = at[4];
                x[i][3] = at[8 * PITCH + 4];
            }
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                const word_t *at = b + (column() + 8 * j + group) * PITCH + k + t;
                word_t first = at[0], second = at[4];
#pragma unroll
                for (int i = 0; i < 2; i++) P::multiply(c[i][j], x[i], first, second);
            }
        }
    }

    // Calls a function for every result: its row and column within the block's, and the number.
    template <typename F> __device__ __forceinline__ void each(F store) const {
        int group = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int j = 0; j < PARTS; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    store(row() + i * 8 + group, column() + 8 * j + 2 * t + e,
                          c[i / 2][j][i % 2 * 2 + e]);
    }
};

template <typename P>
__device__ __forceinline__ void put_four(word_t *target, const float (&values)[4]) {
    pack<word_t, 4> words;
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = P::ready(word_of(values[i]));
    *reinterpret_cast<pack<word_t, 4> *>(target) = words;
}

// How images are read along an axis: window `w` and tap `t` meet at (w * scale + t * step + shift)
// / divisor, if that is whole and there.
struct reach {
    int scale, shift, step, divisor, length, stride;

    __device__ __forceinline__ reach(const index_t *given)
        : scale(given[0]), shift(given[1]), step(given[2]), divisor(given[3]), length(given[4]),
          stride(given[5]) {}

    // Adds to an offset where an element lies; says whether there is one.
    __device__ __forceinline__ bool at(int place, int &offset) const {
        if (place < 0) return false;
        if (divisor != 1) {
            int whole = place / divisor;
            if (whole * divisor != place) return false;
            place = whole;
        }
        offset += place * stride;
        return place < length;
    }
};

// A summed element of the product with weights: a channel and a tap.
struct summed {
    int weight, channel, down, across;
};

// Numbers: the two axes of the images that are read, then what is named below.
//
// For results of `columns` windows, `places` in each image, the sums over channels and taps of
// weights times what the windows meet.
template <typename P, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(256, 2)
window_product(const float *weights, const float *x, float *out, const index_t *numbers,
               index_t rows_, index_t depth_, index_t columns_) {
    const int rows = rows_, depth = depth_, columns = columns_;
    const reach axis_down(numbers), axis_across(numbers + 6);
    const int taps = numbers[12], taps_across = numbers[13], by_row = numbers[14],
              by_channel = numbers[15], by_group = numbers[16], x_image = numbers[17],
              x_channel = numbers[18], x_group = numbers[19], places = numbers[20],
              across = numbers[21], out_image = numbers[22], out_group = numbers[23];
    const int SHARE = QUADS * COLUMNS / BLOCK, A_WORDS = ROWS * PITCH, B_WORDS = COLUMNS * PITCH;
    __shared__ pack<word_t, 4> a_packs[2 * A_WORDS / 4], b_packs[2 * B_WORDS / 4];
    word_t *a = a_packs[0].items, *b = b_packs[0].items;
    __shared__ summed known[2][DEPTH];
    weights += blockIdx.z * by_group;
    x += blockIdx.z * x_group;
    out += blockIdx.z * out_group;
    const int quad = threadIdx.x % QUADS, row = threadIdx.x / QUADS;
    const int own_row = blockIdx.y * ROWS + row;
    const int column = threadIdx.x % COLUMNS, first_quad = threadIdx.x / COLUMNS;
    const int own_column = blockIdx.x * COLUMNS + column;
    const int image = own_column / places, place = own_column - image * places;
    const int from_down = place / across * axis_down.scale + axis_down.shift;
    const int from_across = place % across * axis_across.scale + axis_across.shift;
    const float *source = x + image * x_image;

    auto learn = [&](int tile) {
        if (threadIdx.x >= DEPTH) return;
        int k = tile * DEPTH + threadIdx.x, channel = k / taps, tap = k - channel * taps;
        known[tile & 1][threadIdx.x] = {k < depth ? channel * by_channel + tap : -1,
                                        channel * x_channel, tap / taps_across * axis_down.step,
                                        tap % taps_across * axis_across.step};
    };
    float from_a[4], from_b[SHARE][4];
    auto read = [&](int tile) {
        const summed *these = known[tile & 1];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int weight = these[quad * 4 + i].weight;
            bool there = row < ROWS && own_row < rows && weight >= 0;
            from_a[i] = there ? weights[own_row * by_row + weight] : 0;
        }
#pragma unroll
        for (int q = 0; q < SHARE; q++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                summed one = these[(first_quad + q * (BLOCK / COLUMNS)) * 4 + i];
                int offset = one.channel;
                bool there = own_column < columns && one.weight >= 0;
                there = there && axis_down.at(from_down + one.down, offset);
                there = there && axis_across.at(from_across + one.across, offset);
                from_b[q][i] = there ? source[offset] : 0;
            }
    };
    auto put = [&](int tile) {
        if (row < ROWS) put_four<P>(a + (tile & 1) * A_WORDS + row * PITCH + quad * 4, from_a);
#pragma unroll
        for (int q = 0; q < SHARE; q++)
            put_four<P>(b + (tile & 1) * B_WORDS + column * PITCH +
                            (first_quad + q * (BLOCK / COLUMNS)) * 4,
                        from_b[q]);
    };

    warp_results<P, ROWS, COLUMNS> results;
    const int tiles = (depth + DEPTH - 1) / DEPTH;
    learn(0);
    learn(1);
    __syncthreads();
    read(0);
    put(0);
    __syncthreads();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) read(tile + 1);
        results.add(a + (tile & 1) * A_WORDS, b + (tile & 1) * B_WORDS);
        // What the next tile is made of is read; this one's place is free.
        learn(tile + 2);
        if (tile + 1 < tiles) put(tile + 1);
        __syncthreads();
    }
    results.each([&](int r, int c, float value) {
        int at_row = blockIdx.y * ROWS + r, at_column = blockIdx.x * COLUMNS + c;
        if (at_row >= rows || at_column >= columns) return;
        int of_image = at_column / places;
        out[of_image * out_image + at_row * places + at_column - of_image * places] = value;
    });
}

// The sums over a share of all windows of cotangents times what a channel and a tap meet in them.
//
// Numbers: the two axes of the images, then what is named below.
template <typename P, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(256, 2)
kernel_product(const float *g, const float *x, float *parts, const index_t *numbers,
               index_t rows_, index_t columns_, index_t depth_, index_t share_) {
    const int rows = rows_, columns = columns_, depth = depth_, share = share_;
    const reach axis_down(numbers), axis_across(numbers + 6);
    const int taps = numbers[12], taps_across = numbers[13], g_image = numbers[14],
              places = numbers[15], across = numbers[16], g_group = numbers[17],
              x_image = numbers[18], x_channel = numbers[19], x_group = numbers[20],
              column_blocks = numbers[21];
    const int SHARE = COLUMNS / (BLOCK / QUADS), A_WORDS = ROWS * PITCH, B_WORDS = COLUMNS * PITCH;
    __shared__ pack<word_t, 4> a_packs[2 * A_WORDS / 4], b_packs[2 * B_WORDS / 4];
    word_t *a = a_packs[0].items, *b = b_packs[0].items;
    g += blockIdx.z * g_group;
    x += blockIdx.z * x_group;
    const int first_row = blockIdx.x / column_blocks * ROWS;
    const int first_column = blockIdx.x % column_blocks * COLUMNS;
    const int quad = threadIdx.x % QUADS, row = threadIdx.x / QUADS;
    const int own_row = first_row + row;
    const int begin = blockIdx.y * share, end = begin + share < depth ? begin + share : depth;
    int channel[SHARE], down[SHARE], right[SHARE];
#pragma unroll
    for (int q = 0; q < SHARE; q++) {
        int own = first_column + row + q * (BLOCK / QUADS), tap = own % taps;
        channel[q] = own < columns ? own / taps * x_channel : -1;
        down[q] = tap / taps_across * axis_down.step + axis_down.shift;
        right[q] = tap % taps_across * axis_across.step + axis_across.shift;
    }
    // The window of the first of a thread's four summed elements.
    int k = begin + quad * 4, image = k / places, place = k - image * places;
    int at_down = place / across, at_across = place - at_down * across;
    float from_a[4], from_b[SHARE][4];
    auto read = [&]() {
        int one = image, v = at_down, u = at_across;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool is = k + i < end;
            bool there = is && row < ROWS && own_row < rows;
            from_a[i] = there ? g[one * g_image + own_row * places + v * across + u] : 0;
#pragma unroll
            for (int q = 0; q < SHARE; q++) {
                int offset = channel[q] + one * x_image;
                bool met = is && channel[q] >= 0;
                met = met && axis_down.at(v * axis_down.scale + down[q], offset);
                met = met && axis_across.at(u * axis_across.scale + right[q], offset);
                from_b[q][i] = met ? x[offset] : 0;
            }
            if (++u == across) {
                u = 0;
                if (++v * across == places) {
                    v = 0;
                    one++;
                }
            }
        }
        k += DEPTH;
        at_across += DEPTH;
        while (at_across >= across) {
            at_across -= across;
            if (++at_down * across == places) {
                at_down = 0;
                image++;
            }
        }
    };
    auto put = [&](int tile) {
        if (row < ROWS) put_four<P>(a + (tile & 1) * A_WORDS + row * PITCH + quad * 4, from_a);
#pragma unroll
        for (int q = 0; q < SHARE; q++)
            put_four<P>(b + (tile & 1) * B_WORDS + (row + q * (BLOCK / QUADS)) * PITCH + quad * 4,
                        from_b[q]);
    };

    warp_results<P, ROWS, COLUMNS> results;
    const int tiles = (end - begin + DEPTH - 1) / DEPTH;
    read();
    put(0);
    __syncthreads();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) read();
        results.add(a + (tile & 1) * A_WORDS, b + (tile & 1) * B_WORDS);
        if (tile + 1 < tiles) put(tile + 1);
        __syncthreads();
    }
    parts += (blockIdx.y * gridDim.z + blockIdx.z) * rows_ * columns_;
    results.each([&](int r, int c, float value) {
        int at_row = first_row + r, at_column = first_column + c;
        if (at_row < rows && at_column < columns)
            parts[(index_t)at_row * columns + at_column] = value;
    });
}

// Adds up parts of results, in order: eight threads have some of them each.
__global__ void __launch_bounds__(256)
add_parts(const float *parts, float *out, index_t count, index_t shares) {
    __shared__ float sums[8][32];
    int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    index_t at = (index_t)blockIdx.x * 32 + lane;
    float total = 0;
#pragma unroll 4
    for (index_t part = group; part < shares; part += 8)
        if (at < count) total += parts[part * count + at];
    sums[group][lane] = total;
    __syncthreads();
    if (group || at >= count) return;
    for (int i = 1; i < 8; i++) total += sums[i][lane];
    out[at] = total;
}
