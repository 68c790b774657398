// Convolutions of few channels and taps: a thread has in registers what its window meets.
#include "reach.cuh"

const int BLOCK = 256, ROWS = 32;

// For results of `columns` windows, `places` in each image, the sums over channels and taps, no more
// than DEPTH in all, of weights times what the windows meet. The numbers are the two axes of the
// images that are read, and then what is named below. There are up to 32 taps. If there is a bias,
// each row's is added; with `relu` negative results become 0.
template <int DEPTH>
__global__ void __launch_bounds__(256)
shallow_product(const float *weights, const float *x, const float *bias, float *out,
                const index_t *numbers, index_t rows_, index_t depth_, index_t columns_,
                index_t relu) {
    const int rows = rows_, depth = depth_, columns = columns_;
    const reach down(numbers), right(numbers + 6);
    const int by_row = numbers[12], by_channel = numbers[13], by_group = numbers[14],
              x_image = numbers[15], x_channel = numbers[16], x_group = numbers[17],
              places = numbers[18], across = numbers[19], out_image = numbers[20],
              out_group = numbers[21], taps = down.taps * right.taps;
    __shared__ pack<float, 4> factors[ROWS][DEPTH / 4];
    __shared__ int elements[DEPTH];
    __shared__ unsigned int bits[DEPTH];
    weights += blockIdx.z * by_group;
    x += index_t(blockIdx.z) * x_group;
    const int first_row = blockIdx.y * ROWS;
    for (int i = threadIdx.x; i < ROWS * DEPTH; i += BLOCK) {
        const int row = i / DEPTH, k = i % DEPTH, channel = k / taps;
        const bool there = first_row + row < rows && k < depth;
        factors[row][k / 4][k % 4] =
            there ? weights[(first_row + row) * by_row + channel * by_channel + k - channel * taps]
                  : 0;
    }
    if (threadIdx.x < DEPTH) {
        const int k = threadIdx.x, channel = k / taps, tap = k - channel * taps;
        elements[k] = channel * x_channel + tap / right.taps * down.step * down.stride +
                      tap % right.taps * right.step * right.stride;
        bits[k] = k < depth ? 1u << tap : 0;
    }
    __syncthreads();
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    if (column >= columns) return;
    const int image = column / places, place = column - image * places;
    const int from_down = down.begin(place / across), from_right = right.begin(place % across);
    // The taps that meet an element.
    unsigned int met = 0;
    for (int tap = 0; tap < taps; tap++) {
        bool there = down.has(from_down + tap / right.taps * down.step) &&
                     right.has(from_right + tap % right.taps * right.step);
        met |= (unsigned int)there << tap;
    }
    const float *first =
        x + image * x_image + from_down * down.stride + from_right * right.stride;
    float own[DEPTH];
#pragma unroll
    for (int k = 0; k < DEPTH; k++) own[k] = met & bits[k] ? first[elements[k]] : 0;
    float *target = out + blockIdx.z * out_group + image * out_image + first_row * places + place;
    const int left = rows - first_row < ROWS ? rows - first_row : ROWS;
    const float lowest = relu ? 0 : __int_as_float(-1);
#pragma unroll 4
    for (int row = 0; row < left; row++) {
        float sum = 0;
#pragma unroll
        for (int q = 0; q < DEPTH / 4; q++) {
            const pack<float, 4> four = factors[row][q];
#pragma unroll
            for (int i = 0; i < 4; i++) sum += four[i] * own[4 * q + i];
        }
        if (bias) sum += bias[blockIdx.z * rows + first_row + row];
        target[row * places] = sum <= lowest ? 0 : sum;
    }
}
