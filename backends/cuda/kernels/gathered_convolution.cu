// Convolutions as products of matrices whose factors are gathered from where they lie.
//
// Images have two spatial axes here. A block of 8 warps adds up ROWS x COLUMNS results. It goes
// over what is summed DEPTH elements at a time: while it multiplies those that are in shared
// memory, each thread reads its share of the next ones.
#include "mma.cuh"
#include "reach.cuh"

// Four matrices, of 4 words to a row, are as deep as a tile.
const int DEPTH = 16, PITCH = DEPTH + 4, QUADS = DEPTH / 4, BLOCK = 256;

// The results of a warp: 32 rows, and its share of the columns. A factor lies in shared memory with
// DEPTH summed elements for each row, or column, PITCH words apart.
template <typename P, int ROWS, int COLUMNS> struct warp_results {
    static const int DOWN = ROWS / 32, WIDTH = COLUMNS / (8 / DOWN), PARTS = WIDTH / 8;
    float c[2][PARTS][4] = {};

    static __device__ __forceinline__ int row() { return threadIdx.x / 32 % DOWN * 32; }
    static __device__ __forceinline__ int column() { return threadIdx.x / 32 / DOWN * WIDTH; }

    __device__ __forceinline__ void add(const word_t *a, const word_t *b) {
        int lane = threadIdx.x % 32;
        a += (row() + lane % 16) * PITCH + lane / 16 * 4;
        b += (column() + lane % 8) * PITCH + lane / 8 * 4;
        word_t x[DEPTH / 8][2][4];
#pragma unroll
        for (int k = 0; k < DEPTH / 8; k++)
#pragma unroll
            for (int i = 0; i < 2; i++) read_matrices<false>(x[k][i], a + 16 * i * PITCH + 8 * k);
#pragma unroll
        for (int j = 0; j < PARTS; j++) {
            word_t y[4];
            read_matrices<false>(y, b + 8 * j * PITCH);
#pragma unroll
            for (int k = 0; k < DEPTH / 8; k++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    P::multiply(c[i][j], x[k][i], y[2 * k], y[2 * k + 1]);
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

// The pointer, in registers from here on: the compiler would put it together at each load anew.
__device__ __forceinline__ const float *kept(const float *pointer) {
#ifdef __CUDA_ARCH__
    asm("" : "+l"(pointer));
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

template <typename P>
__device__ __forceinline__ void put_four(word_t *target, const float (&values)[4]) {
    pack<word_t, 4> words;
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = P::ready(word_of(values[i]));
    *reinterpret_cast<pack<word_t, 4> *>(target) = words;
}

// How many blocks of these kernels a processor is to have room for.
template <typename P, int ROWS, int COLUMNS> struct resident {
    static const int blocks = in_parts<P>::value ? 2 : ROWS * COLUMNS > 4096 ? 3 : 4;
};

// What is summed in a tile: for channels and taps where the weight lies, where the element lies
// behind the first that a window meets, and the bit of the tap; 0 behind all that is summed.
struct summed {
    pack<int, 4> weight[QUADS], element[QUADS], bit[QUADS];
};

// For results of `columns` windows, `places` in each image, the sums over channels and taps of
// weights times what the windows meet. The numbers are the two axes of the images that are read,
// and then what is named below. There are up to 32 taps. If there is a bias, each row's is added; with
// `relu` negative results become 0.
template <typename P, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(256, resident<P, ROWS, COLUMNS>::blocks)
window_product(const float *weights, const float *x, const float *bias, float *out,
               const index_t *numbers, index_t rows_, index_t depth_, index_t columns_,
               index_t relu) {
    const int rows = rows_, depth = depth_, columns = columns_;
    const reach down(numbers), right(numbers + 6);
    const int by_row = numbers[12], by_channel = numbers[13], by_group = numbers[14],
              x_image = numbers[15], x_channel = numbers[16], x_group = numbers[17],
              places = numbers[18], across = numbers[19], out_image = numbers[20],
              out_group = numbers[21], taps = down.taps * right.taps;
    const int SHARE = QUADS * COLUMNS / BLOCK, A_WORDS = ROWS * PITCH, B_WORDS = COLUMNS * PITCH;
    __shared__ pack<word_t, 4> a_packs[2 * A_WORDS / 4], b_packs[2 * B_WORDS / 4];
    // While a batch of tiles is summed, the threads learn of the next one, each of one element.
    const int BATCH = BLOCK / DEPTH;
    __shared__ summed known[2 * BATCH];
    word_t *a = a_packs[0].items, *b = b_packs[0].items;
    weights += blockIdx.z * by_group;
    x += index_t(blockIdx.z) * x_group;
    out += blockIdx.z * out_group;
    const int quad = threadIdx.x % QUADS, row = threadIdx.x / QUADS;
    const int own_row = blockIdx.y * ROWS + row;
    const int column = threadIdx.x % COLUMNS, first_quad = threadIdx.x / COLUMNS;
    const int own_column = blockIdx.x * COLUMNS + column;
    const int image = own_column / places, place = own_column - image * places;
    const int from_down = down.begin(place / across), from_right = right.begin(place % across);
    // The taps that meet an element in the thread's window.
    unsigned int met = 0;
    if (own_column < columns)
        for (int tap = 0; tap < taps; tap++) {
            bool there = down.has(from_down + tap / right.taps * down.step) &&
                         right.has(from_right + tap % right.taps * right.step);
            met |= (unsigned int)there << tap;
        }
    const float *first =
        kept(x + image * x_image + from_down * down.stride + from_right * right.stride);
    const float *own_weights = kept(weights + own_row * by_row);
    const bool has_row = row < ROWS && own_row < rows;
    // Whether a row's weights lie in order, and begin where four are loaded at once.
    const bool in_order = by_channel == taps && by_row % 4 == 0 && depth % 4 == 0 &&
                          reinterpret_cast<unsigned long long>(weights) % 16 == 0;

    auto learn = [&](int batch) {
        int at = threadIdx.x % DEPTH, k = batch * BLOCK + threadIdx.x;
        int channel = k / taps, tap = k - channel * taps;
        int v = tap / right.taps * down.step, u = tap % right.taps * right.step;
        summed &these = known[batch % 2 * BATCH + threadIdx.x / DEPTH];
        these.weight[at / 4][at % 4] = channel * by_channel + tap;
        these.element[at / 4][at % 4] = channel * x_channel + v * down.stride + u * right.stride;
        these.bit[at / 4][at % 4] = k < depth ? 1 << tap : 0;
    };
    float from_a[4], from_b[SHARE][4];
    auto read = [&](int tile) {
        const summed &these = known[tile % (2 * BATCH)];
        const int left = depth - tile * DEPTH;
        if (in_order) {
            pack<float, 4> four = {};
            if (has_row && quad * 4 < left)
                four = *reinterpret_cast<const pack<float, 4> *>(own_weights + tile * DEPTH +
                                                                 quad * 4);
#pragma unroll
            for (int i = 0; i < 4; i++) from_a[i] = four[i];
        } else {
            const pack<int, 4> weight = these.weight[quad];
#pragma unroll
            for (int i = 0; i < 4; i++)
                from_a[i] = has_row && quad * 4 + i < left ? own_weights[weight[i]] : 0;
        }
#pragma unroll
        for (int q = 0; q < SHARE; q++) {
            const int own_quad = first_quad + q * (BLOCK / COLUMNS);
            const pack<int, 4> element = these.element[own_quad], bit = these.bit[own_quad];
#pragma unroll
            for (int i = 0; i < 4; i++) from_b[q][i] = met & bit[i] ? first[element[i]] : 0;
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
    __syncthreads();
    read(0);
    put(0);
    __syncthreads();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) read(tile + 1);
        results.add(a + (tile & 1) * A_WORDS, b + (tile & 1) * B_WORDS);
        // The place of the batch before this one is free.
        if (tile % BATCH == 0) learn(tile / BATCH + 1);
        if (tile + 1 < tiles) put(tile + 1);
        __syncthreads();
    }
    results.each([&](int r, int c, float value) {
        int at_row = blockIdx.y * ROWS + r, at_column = blockIdx.x * COLUMNS + c;
        if (at_row >= rows || at_column >= columns) return;
        int of_image = at_column / places, window = at_column - of_image * places;
        if (in_parts<P>::value && value != value) {
            value = 0;
            const float *here = x + of_image * x_image;
            for (int n = 0; n < depth; n++) {
                int channel = n / taps, tap = n % taps;
                value += weights[at_row * by_row + channel * by_channel + tap] *
                         met_by(here + channel * x_channel, down, right, window, across, tap);
            }
        }
        if (bias) value += bias[blockIdx.z * rows + at_row];
        if (relu) value = value > 0 || value != value ? value : 0;
        out[of_image * out_image + at_row * places + at_column - of_image * places] = value;
    });
}

// The sums over a share of all windows of cotangents times what a channel and a tap meet in them.
// The numbers are the two axes of the images, and then what is named below.
template <typename P, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(256, resident<P, ROWS, COLUMNS>::blocks)
kernel_product(const float *g, const float *x, float *parts, const index_t *numbers,
               index_t rows_, index_t columns_, index_t depth_, index_t share_) {
    const int rows = rows_, columns = columns_, depth = depth_, share = share_;
    const reach down(numbers), right(numbers + 6);
    const int g_image = numbers[12], places = numbers[13], across = numbers[14],
              g_group = numbers[15], x_image = numbers[16], x_channel = numbers[17],
              x_group = numbers[18], column_blocks = numbers[19], taps = down.taps * right.taps;
    const int SHARE = COLUMNS / (BLOCK / QUADS), A_WORDS = ROWS * PITCH, B_WORDS = COLUMNS * PITCH;
    __shared__ pack<word_t, 4> a_packs[2 * A_WORDS / 4], b_packs[2 * B_WORDS / 4];
    word_t *a = a_packs[0].items, *b = b_packs[0].items;
    g += blockIdx.z * g_group;
    x += index_t(blockIdx.z) * x_group;
    const int first_row = blockIdx.x / column_blocks * ROWS;
    const int first_column = blockIdx.x % column_blocks * COLUMNS;
    const int quad = threadIdx.x % QUADS, row = threadIdx.x / QUADS;
    const bool has_row = row < ROWS && first_row + row < rows;
    const float *own = g + (first_row + row) * places;
    const int begin = blockIdx.y * share, end = share < depth - begin ? begin + share : depth;
    int tap_down[SHARE], tap_right[SHARE], element[SHARE];
    bool is[SHARE];
#pragma unroll
    for (int q = 0; q < SHARE; q++) {
        int at = first_column + row + q * (BLOCK / QUADS), tap = at % taps;
        is[q] = at < columns;
        tap_down[q] = is[q] ? tap / right.taps * down.step : 0;
        tap_right[q] = is[q] ? tap % right.taps * right.step : 0;
        element[q] = (is[q] ? at / taps * x_channel : 0) + tap_down[q] * down.stride + tap_right[q] * right.stride;
    }
    // The window of the first of a thread's four summed elements.
    int k = begin + quad * 4, image = k / places, place = k - image * places;
    int v = place / across, u = place - v * across;
    float from_a[4], from_b[SHARE][4];
    const int across_step = right.scale * right.stride;
    auto read = [&]() {
        if (k + 3 < end && u + 3 < across) {
            // All four lie in one row.
            int from_down = down.begin(v), from_right = right.begin(u);
            const float *cotangents = own + image * g_image + v * across + u;
            const float *first =
                x + image * x_image + from_down * down.stride + from_right * right.stride;
#pragma unroll
            for (int i = 0; i < 4; i++) from_a[i] = has_row ? cotangents[i] : 0;
#pragma unroll
            for (int q = 0; q < SHARE; q++) {
                bool has_down = is[q] && down.has(from_down + tap_down[q]);
                int at = from_right + tap_right[q];
                const float *from = first + element[q];
#pragma unroll
                for (int i = 0; i < 4; i++, at += right.scale, from += across_step)
                    from_b[q][i] = has_down && right.has(at) ? *from : 0;
            }
        } else {
            int one = image, v_one = v, u_one = u;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool there = k + i < end;
                int from_down = down.begin(v_one), from_right = right.begin(u_one);
                const float *source = x + one * x_image;
                from_a[i] = there && has_row ? own[one * g_image + v_one * across + u_one] : 0;
                const float *first = source + from_down * down.stride + from_right * right.stride;
#pragma unroll
                for (int q = 0; q < SHARE; q++) {
                    bool met = there && is[q] && down.has(from_down + tap_down[q]) &&
                               right.has(from_right + tap_right[q]);
                    from_b[q][i] = met ? first[element[q]] : 0;
                }
                if (++u_one == across) {
                    u_one = 0;
                    if (++v_one * across == places) {
                        v_one = 0;
                        one++;
                    }
                }
            }
        }
        k += DEPTH;
        u += DEPTH;
        while (u >= across) {
            u -= across;
            if (++v * across == places) {
                v = 0;
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
        if (at_row >= rows || at_column >= columns) return;
        if (in_parts<P>::value && value != value) {
            value = 0;
            const float *here = x + at_column / taps * x_channel;
            for (int n = begin; n < end; n++) {
                int image_of = n / places, window = n - image_of * places;
                value += g[image_of * g_image + at_row * places + window] *
                         met_by(here + image_of * x_image, down, right, window, across,
                                at_column % taps);
            }
        }
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
