// Convolutions as products of matrices that read windows out of patches of images.
//
// A patch is what the windows of a block meet, in 8 channels or more, and lies in shared memory
// once, however many windows have an element. Its rows are those of stacked images: of each as many
// as windows meet, the next image below. Places outside of images are zeros there. While a block
// multiplies what lies in one half of its memory, copies to the other half are under way.
#include "mma.cuh"
#include "reach.cuh"

// The channels of a step; a step of a product is as deep.
const int CHANNELS = 8;
const int OUTSIDE = -2147483647 - 1;

// Where windows meet the rows and columns of patches.
struct patch_axes {
    reach down, right;
    int across, places, width, height, tap_down, tap_right;

    __device__ __forceinline__ patch_axes(const index_t *given, int across, int places)
        : down(given), right(given + 6), across(across), places(places) {
        width = (across - 1) * right.scale + span(right);
        height = (places / across - 1) * down.scale + span(down);
        tap_down = down.step < 0 ? (1 - down.taps) * down.step : 0;
        tap_right = right.step < 0 ? (1 - right.taps) * right.step : 0;
    }

    static __device__ __forceinline__ int span(const reach &axis) {
        return (axis.taps - 1) * (axis.step < 0 ? -axis.step : axis.step) + 1;
    }

    // The row of stacked images with which a window begins.
    __device__ __forceinline__ int row_of(int window) const {
        int image = window / places;
        return image * height + (window - image * places) / across * down.scale;
    }

    // Where in a patch a window begins whose images are stacked from this row on.
    __device__ __forceinline__ int begin(int window, int first_row) const {
        return (row_of(window) - first_row) * width + window % across * right.scale;
    }

    // How far behind that a tap is.
    __device__ __forceinline__ int tap(int number) const {
        int v = number / right.taps, u = number - v * right.taps;
        return (v * down.step + tap_down) * width + u * right.step + tap_right;
    }

    // Where a place of a patch lies in images, behind the first one's first element.
    __device__ __forceinline__ int source(int place, int first_row, int by_image) const {
        int v = place / width, u = place - v * width + right.shift - tap_right;
        int image = (first_row + v) / height;
        v += first_row - image * height + down.shift - tap_down;
        bool there = down.has(v) && right.has(u);
        return there ? image * by_image + v * down.stride + u * right.stride : OUTSIDE;
    }
};

// How many blocks of `patch_product` a processor is to have room for, by a thread's sums.
template <typename P, int ROWS, int PARTS> struct patch_resident {
    static const int sums = ROWS / 4 * PARTS;
    static const int blocks = (sums > 96 ? 2 : sums > 64 ? 3 : 4) - (in_parts<P>::value && sums <= 96);
};

// Weights in the order in which threads multiply them, rounded: for each group, block of `by` rows,
// step of 8 channels and tap, for 16 rows after 16 rows, four words of each lane.
template <typename P>
__global__ void __launch_bounds__(256)
arrange_weights(const float *weights, float *out, const index_t *numbers) {
    const int by_row = numbers[0], by_channel = numbers[1], by_group = numbers[2],
              rows = numbers[3], channels = numbers[4], taps = numbers[5], by = numbers[6],
              steps = (channels + CHANNELS - 1) / CHANNELS;
    const int at = blockIdx.x * 256 + threadIdx.x, of_block = by * CHANNELS * taps * steps;
    int left = at % of_block, block = at / of_block;
    const int lane = left / 4 % 32, e = left % 4;
    left /= 128;
    const int tile = left % (by / 16);
    left /= by / 16;
    const int row = block * by + tile * 16 + e % 2 * 8 + lane / 4;
    const int channel = left / taps * CHANNELS + e / 2 * 4 + lane % 4, tap = left % taps;
    if (block * by >= (rows + by - 1) / by * by) return;
    const float *own = weights + blockIdx.y * by_group;
    bool there = row < rows && channel < channels;
    float value = there ? own[row * by_row + channel * by_channel + tap] : 0;
    out[(index_t)blockIdx.y * ((rows + by - 1) / by) * of_block + at] =
        float_of(P::ready(word_of(value)));
}

// For results of `columns` windows, `places` in each image, the sums over channels and taps of
// weights times what the windows meet. A warp has ROWS x 8 PARTS of a block's ROWS x 32 PARTS
// results. The numbers are the two axes of the images that are read, and then what is named below.
// If there is a bias, each row's is added; with `relu` negative results become 0.
template <typename P, int ROWS, int PARTS>
__global__ void __launch_bounds__(128, patch_resident<P, ROWS, PARTS>::blocks)
patch_product(const float *weights, const float *arranged, const float *x, const float *bias,
              float *out, const index_t *numbers, index_t rows_, index_t channels_,
              index_t columns_, index_t relu) {
    extern __shared__ word_t memory[];
    const int rows = rows_, channels = channels_, columns = columns_, TILES = ROWS / 16;
    const patch_axes axes(numbers, numbers[19], numbers[18]);
    const int by_row = numbers[12], by_channel = numbers[13], by_group = numbers[14],
              x_image = numbers[15], x_channel = numbers[16], x_group = numbers[17],
              places = axes.places, out_image = numbers[20], out_group = numbers[21],
              room = numbers[22], pitch = numbers[23], taps = axes.down.taps * axes.right.taps;
    const int a_words = ROWS * CHANNELS * taps, stage = a_words + CHANNELS * pitch;
    const int steps = (channels + CHANNELS - 1) / CHANNELS;
    int *sources = reinterpret_cast<int *>(memory);
    int *begins = sources + room;
    word_t *stages = memory + room + 32 * PARTS;
    weights += blockIdx.z * by_group;
    arranged += ((index_t)blockIdx.z * gridDim.y + blockIdx.y) * steps * a_words;
    x += index_t(blockIdx.z) * x_group;
    out += blockIdx.z * out_group;

    const int first = blockIdx.x * 32 * PARTS;
    const int behind = first + 32 * PARTS < columns ? first + 32 * PARTS : columns;
    const int first_row = axes.row_of(first);
    const int size = (axes.row_of(behind - 1) - first_row + axes.span(axes.down)) * axes.width;
    for (int p = threadIdx.x; p < size; p += 128) sources[p] = axes.source(p, first_row, x_image);
    for (int n = threadIdx.x; n < 32 * PARTS; n += 128)
        begins[n] = first + n < behind ? axes.begin(first + n, first_row) : 0;
    __syncthreads();
    const int lane = threadIdx.x % 32, group = lane / 4, t = lane % 4;
    const int own = threadIdx.x / 32 * 8 * PARTS;
    int at[PARTS];
#pragma unroll
    for (int j = 0; j < PARTS; j++) at[j] = (t * pitch + begins[own + 8 * j + group]) * 2;

    auto copy = [&](int step) {
        word_t *a = stages + (step & 1) * stage, *b = a + a_words;
        const float *given = arranged + step * a_words;
        for (int i = threadIdx.x * 4; i < a_words; i += 512) copy_later<16>(a + i, given + i, true);
        const float *images = x + step * CHANNELS * x_channel;
        const int left = channels - step * CHANNELS;
        // A thread asks for the places that it has found itself.
        for (int p = threadIdx.x; p < size; p += 128) {
            const int source = sources[p];
            const float *from = images + (source == OUTSIDE ? 0 : source);
#pragma unroll
            for (int c = 0; c < CHANNELS; c++)
                copy_later<4>(b + (c % 4 * pitch + p) * 2 + c / 4, from + c * x_channel,
                              source != OUTSIDE && c < left);
        }
        end_copies();
    };
    float c[TILES][PARTS][4] = {};
    for (int step = -1; step < steps; step++) {
        if (step >= 0) {
            wait_for_copies<0>();
            __syncthreads();
        }
        if (step + 1 < steps) copy(step + 1);
        if (step < 0) continue;
        const word_t *a = stages + (step & 1) * stage + lane * 4, *b = a - lane * 4 + a_words;
        int v = 0, u = 0;
#pragma unroll(ROWS > 32 ? 3 : 1)
        for (int tap = 0; tap < taps; tap++) {
            const word_t *from = b + ((v * axes.down.step + axes.tap_down) * axes.width +
                                      u * axes.right.step + axes.tap_right) * 2;
            pack<word_t, 4> factors[TILES];
#pragma unroll
            for (int i = 0; i < TILES; i++)
                factors[i] = *reinterpret_cast<const pack<word_t, 4> *>(a + i * 128);
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                pack<word_t, 2> y = *reinterpret_cast<const pack<word_t, 2> *>(from + at[j]);
                y[0] = P::ready(y[0]);
                y[1] = P::ready(y[1]);
#pragma unroll
                for (int i = 0; i < TILES; i++)
                    P::multiply(c[i][j], factors[i].items, y[0], y[1]);
            }
            a += TILES * 128;
            if (++u == axes.right.taps) {
                u = 0;
                v++;
            }
        }
    }

    // A lane has two neighbours of each row.
    const int top = blockIdx.y * ROWS + group;
    const float lowest = relu ? 0 : float_of(~0u);
    float added[2 * TILES];
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++)
        added[i] = bias && top + i * 8 < rows ? bias[blockIdx.z * rows + top + i * 8] : 0;
    auto place_of = [&](int column) {
        const int image = column / places;
        return image * out_image + top * places + column - image * places;
    };
    bool is_unknown = false;
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        const int column = first + own + 8 * j + 2 * t;
        float *target = out + place_of(column), *next = out + place_of(column + 1);
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            pack<float, 2> values;
#pragma unroll
            for (int e = 0; e < 2; e++) {
                values[e] = c[i / 2][j][i % 2 * 2 + e] + added[i];
                if (values[e] <= lowest) values[e] = 0;
                is_unknown |= values[e] != values[e];
            }
            if (top + i * 8 < rows) {
                if (places % 2 == 0) {
                    if (column < columns) *reinterpret_cast<pack<float, 2> *>(target) = values;
                } else {
                    if (column < columns) *target = values[0];
                    if (column + 1 < columns) *next = values[1];
                }
            }
            target += 8 * places;
            next += 8 * places;
        }
    }
    if (!is_unknown) return;
    // What was multiplied in parts may be NaN for that reason alone.
    const int again = in_parts<P>::value ? PARTS * TILES * 4 : 0;
#pragma unroll 1
    for (int n = 0; n < again; n++) {
        const int row = n / 2 % (2 * TILES) * 8, column = first + own + n / (4 * TILES) * 8 + 2 * t + n % 2;
        if (top + row >= rows || column >= columns) continue;
        float *target = out + place_of(column) + row * places, value = 0;
        if (*target == *target) continue;
        const int image = column / places, window = column - image * places;
        for (int k = 0; k < channels * taps; k++) {
            int channel = k / taps, tap = k % taps;
            value += weights[(top + row) * by_row + channel * by_channel + tap] *
                     met_by(x + image * x_image + channel * x_channel, axes.down, axes.right,
                            window, axes.across, tap);
        }
        if (bias) value += bias[blockIdx.z * rows + top + row];
        *target = value <= lowest ? 0 : value;
    }
}

// Where sums of a kernel's gradient belong, which lie as threads have them: for each block and each
// of a thread's sums, all threads. Columns are 8 channels with one tap, and so for all taps; or, where
// there are few channels, all taps of a channel, and so for all channels.
struct kernel_sums {
    int channels, taps, rows_of_block, parts, along, column_blocks;

    __device__ __forceinline__ int channel(int part, int column) const {
        return channels < CHANNELS ? (part * 8 + column) / taps : part / taps * CHANNELS + column;
    }

    __device__ __forceinline__ int tap(int part, int column) const {
        return channels < CHANNELS ? (part * 8 + column) % taps : part % taps;
    }

    // The first of a block's parts of 8 columns.
    __device__ __forceinline__ int part(int block) const {
        return block % column_blocks * along * parts;
    }

    // The row, and the place in it, of a block's sum.
    __device__ __forceinline__ void find(int block, int number, int thread, int &row,
                                         int &place) const {
        const int e = number % 4, j = number / 4 % parts, i = number / 4 / parts;
        const int column = thread % 4 * 2 + e % 2, own = part(block) + thread / 32 * parts + j;
        row = block / column_blocks * rows_of_block + i * 16 + e / 2 * 8 + thread % 32 / 4;
        place = channel(own, column) < channels ? channel(own, column) * taps + tap(own, column)
                                                : channels * taps;
    }
};

// The sums over a share of all windows of cotangents times what a channel and a tap meet in them.
// ALONG warps have PARTS x 8 columns each, and others the same: they take turns at the windows, 8 at
// a time, of which a patch has `at_once`. The numbers are the two axes of the images, and then what
// is named below.
template <typename P, int ROWS, int PARTS, int ALONG>
__global__ void __launch_bounds__(256, ALONG == 1 ? 2 : 1)
patch_kernel_product(const float *g, const float *x, float *parts, const index_t *numbers,
                     index_t rows_, index_t channels_, index_t depth_, index_t share_) {
    extern __shared__ word_t memory[];
    const int rows = rows_, channels = channels_, depth = depth_, share = share_;
    const int TILES = ROWS / 16, TURNS = 8 / ALONG, SUMS = TILES * PARTS * 4;
    const patch_axes axes(numbers, numbers[14], numbers[13]);
    const int g_image = numbers[12], places = axes.places, g_group = numbers[15],
              x_image = numbers[16], x_channel = numbers[17], x_group = numbers[18],
              column_blocks = numbers[19], at_once = numbers[20], held = numbers[21],
              pitch = numbers[22], taps = axes.down.taps * axes.right.taps;
    const int a_pitch = at_once + 4, a_words = ROWS * a_pitch;
    const int stage = a_words + held * pitch + at_once;
    g += blockIdx.z * g_group;
    x += index_t(blockIdx.z) * x_group;
    const int first_row = blockIdx.x / column_blocks * ROWS;
    const kernel_sums order = {channels, taps, ROWS, PARTS, ALONG, column_blocks};
    const int first_channel = order.channel(order.part(blockIdx.x), 0);
    const int here = channels - first_channel < held ? channels - first_channel : held;
    const int begin = blockIdx.y * share, end = share < depth - begin ? begin + share : depth;
    const float *images = x + first_channel * x_channel;
    // Whether four cotangents lie where they are copied at once.
    const bool by_fours = places % 4 == 0 && reinterpret_cast<unsigned long long>(g) % 16 == 0;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    auto copy = [&](int number) {
        word_t *a = memory + (number & 1) * stage, *b = a + a_words;
        int *begins = reinterpret_cast<int *>(b + held * pitch);
        const int from = begin + number * at_once;
        const int behind = from + at_once < end ? from + at_once : end;
        const int top = axes.row_of(from);
        const int size = (axes.row_of(behind - 1) - top + axes.span(axes.down)) * axes.width;
        for (int i = threadIdx.x; i < at_once; i += 256)
            begins[i] = from + i < behind ? axes.begin(from + i, top) : 0;
        const int wide = by_fours ? 4 : 1;
        for (int i = lane * wide; i < at_once; i += 32 * wide) {
            const int image = (from + i) / places;
            const float *first = g + image * g_image + from + i - image * places;
            for (int row = warp; row < ROWS; row += 8) {
                const bool there = first_row + row < rows && from + i < behind;
                const float *source = there ? first + (first_row + row) * places : g;
                word_t *target = a + row * a_pitch + i;
                if (by_fours)
                    copy_later<16>(target, source, there);
                else
                    copy_later<4>(target, source, there);
            }
        }
        for (int p = threadIdx.x % 128; p < size; p += 128) {
            const int source = axes.source(p, top, x_image);
            const float *first = images + (source == OUTSIDE ? 0 : source);
            for (int c = threadIdx.x / 128; c < held; c += 2)
                copy_later<4>(b + c * pitch + p, first + (c < here ? c * x_channel : 0),
                              source != OUTSIDE && c < here);
        }
        end_copies();
    };

    const int own_part = order.part(blockIdx.x) + warp % ALONG * PARTS, turn = warp / ALONG;
    int at[PARTS];
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        const int channel = order.channel(own_part + j, group);
        at[j] = channel < channels ? (channel - first_channel) * pitch + axes.tap(order.tap(own_part + j, group)) : 0;
    }
    float c[TILES][PARTS][4] = {};
    const int rounds = (end - begin + at_once - 1) / at_once;
    for (int round = -1; round < rounds; round++) {
        if (round >= 0) {
            wait_for_copies<0>();
            __syncthreads();
        }
        if (round + 1 < rounds) copy(round + 1);
        if (round < 0) continue;
        const word_t *a = memory + (round & 1) * stage, *b = a + a_words;
        const int *begins = reinterpret_cast<const int *>(b + held * pitch);
        a += lane % 16 * a_pitch + lane / 16 * 4;
        const int left = end - begin - round * at_once;
#pragma unroll 1
        for (int k = turn * 8; k < at_once && k < left; k += 8 * TURNS) {
            // What is behind the last window counts as 0, whatever lies there.
            const word_t low = k + t < left ? ~0u : 0, high = k + t + 4 < left ? ~0u : 0;
            const word_t *from = b + begins[k + t], *later = b + begins[k + t + 4];
            word_t factors[TILES][4];
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                read_matrices<false>(factors[i], a + 16 * i * a_pitch + k);
#pragma unroll
                for (int e = 0; e < 4; e++) factors[i][e] = P::ready(factors[i][e]);
            }
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                const word_t y = P::ready(from[at[j]]) & low, z = P::ready(later[at[j]]) & high;
#pragma unroll
                for (int i = 0; i < TILES; i++) P::multiply(c[i][j], factors[i], y, z);
            }
        }
    }
    // Those that took other turns hand their sums on.
    __syncthreads();
    float *sums = reinterpret_cast<float *>(memory) + threadIdx.x % (32 * ALONG);
    if (turn)
#pragma unroll
        for (int n = 0; n < SUMS; n++)
            sums[((turn - 1) * SUMS + n) * 32 * ALONG] = c[n / 4 / PARTS][n / 4 % PARTS][n % 4];
    __syncthreads();
    if (turn) return;
    parts += ((index_t)(blockIdx.y * gridDim.z + blockIdx.z) * gridDim.x + blockIdx.x) * SUMS * 32 *
                 ALONG +
             threadIdx.x;
    bool is_unknown = false;
#pragma unroll
    for (int n = 0; n < SUMS; n++) {
        float value = c[n / 4 / PARTS][n / 4 % PARTS][n % 4];
#pragma unroll
        for (int others = 0; others < TURNS - 1; others++)
            value += sums[(others * SUMS + n) * 32 * ALONG];
        is_unknown |= value != value;
        parts[n * 32 * ALONG] = value;
    }
    if (!is_unknown) return;
    // What was multiplied in parts may be NaN for that reason alone.
    const int again = in_parts<P>::value ? SUMS : 0;
#pragma unroll 1
    for (int n = 0; n < again; n++) {
        int row, place;
        order.find(blockIdx.x, n, threadIdx.x, row, place);
        float value = parts[n * 32 * ALONG];
        if (row >= rows || place == channels * taps || value == value) continue;
        value = 0;
        for (int k = begin; k < end; k++) {
            const int image = k / places, window = k - image * places;
            value += g[image * g_image + row * places + window] *
                     met_by(x + image * x_image + place / taps * x_channel, axes.down, axes.right,
                            window, axes.across, place % taps);
        }
        parts[n * 32 * ALONG] = value;
    }
}

// Adds up the sums of all shares, in order, and brings them to where they belong. The numbers are
// those of `kernel_sums`, and then what is named below. 16 threads have some of the shares each.
__global__ void __launch_bounds__(512)
add_kernel_parts(const float *parts, float *out, const index_t *numbers, index_t shares_) {
    __shared__ float sums[16][32];
    const int shares = shares_, lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const kernel_sums order = {int(numbers[0]), int(numbers[1]), int(numbers[2]),
                               int(numbers[3]), int(numbers[4]), int(numbers[5])};
    const int rows = numbers[6], blocks = numbers[7], groups = numbers[8];
    const int threads = 32 * order.along;
    const int of_block = order.rows_of_block / 4 * order.parts * threads;
    const int size = groups * blocks * of_block, at = blockIdx.x * 32 + lane;
    float total = 0;
#pragma unroll 8
    for (int share = group; share < shares; share += 16)
        total += parts[(index_t)share * size + at];
    sums[group][lane] = total;
    __syncthreads();
    if (group) return;
#pragma unroll
    for (int i = 1; i < 16; i++) total += sums[i][lane];
    const int block = at / of_block, of_group = block / blocks;
    int row, place;
    order.find(block % blocks, at % of_block / threads, at % threads, row, place);
    if (row < rows && place < order.channels * order.taps)
        out[(index_t)(of_group * rows + row) * order.channels * order.taps + place] = total;
}
