// Windows of images gathered into columns, and columns added up where windows overlap.
//
// Columns are laid out (channel, place in the kernel, image, place of the window) or with the image
// first; consecutive threads have consecutive places, and so mostly consecutive elements of images.
#include "common.cuh"

// A spatial axis.
struct axis_t {
    index_t places, kernel, stride, dilation, before, length, step;
};

// Where a window or an element is: the coordinates of a flat index, the last axis running fastest.
template <int RANK> struct coordinates {
    index_t at[RANK];
};

template <int RANK, typename F>
__device__ __forceinline__ coordinates<RANK> unravel(index_t flat, F length) {
    coordinates<RANK> out;
#pragma unroll
    for (int i = RANK - 1; i > 0; i--) {
        index_t rest = flat / length(i);
        out.at[i] = flat - rest * length(i);
        flat = rest;
    }
    out.at[0] = flat;
    return out;
}

// The next place in the kernel; false after the last one.
template <int RANK> __device__ __forceinline__ void advance(index_t *tap, const axis_t *axes) {
#pragma unroll
    for (int i = RANK - 1; i >= 0; i--) {
        if (++tap[i] < axes[i].kernel || i == 0) return;
        tap[i] = 0;
    }
}

// x: images whose strides, in elements, are by_image, by_channel and each axis's step.
// columns: by_column from one row (channel, tap) to the next, by_own_image from image to image.
// Only `count` windows of every image are gathered, those from `first` on. T is any type of the
// elements' size.
template <typename T, int RANK>
__global__ void im2col(const T *x, T *columns, const axis_t *given, index_t images,
                       index_t channels, index_t taps, index_t first, index_t count,
                       index_t by_image, index_t by_channel, index_t by_own_image,
                       index_t by_column) {
    index_t place = blockIdx.x * (index_t)blockDim.x + threadIdx.x;
    if (place >= images * count) return;
    axis_t axes[RANK];
#pragma unroll
    for (int i = 0; i < RANK; i++) axes[i] = given[i];
    index_t image = place / count, own = place - image * count;
    coordinates<RANK> window =
        unravel<RANK>(first + own, [&](int i) { return axes[i].places; });
    index_t origin[RANK];
#pragma unroll
    for (int i = 0; i < RANK; i++) origin[i] = window.at[i] * axes[i].stride - axes[i].before;
    for (index_t channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        const T *source = x + image * by_image + channel * by_channel;
        T *target = columns + image * by_own_image + own + channel * taps * by_column;
        index_t tap[RANK] = {};
        for (index_t t = 0; t < taps; t++) {
            bool inside = true;
            index_t offset = 0;
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                index_t at = origin[i] + tap[i] * axes[i].dilation;
                inside = inside && at >= 0 && at < axes[i].length;
                offset += at * axes[i].step;
            }
            T value = {};
            if (inside) value = source[offset];
            target[t * by_column] = value;
            advance<RANK>(tap, axes);
        }
    }
}

// Adds up, for every element of the images, what is in the columns of the windows that reach it.
// LANES numbers belong to an element: two to a complex one. With `more` the result is added to
// what the images hold already, since other windows had their turn before.
template <typename S, typename T, int RANK, int LANES>
__global__ void col2im(const pack<S, LANES> *columns, pack<T, LANES> *x, const axis_t *given,
                       index_t images, index_t channels, index_t taps, index_t first,
                       index_t count, index_t size, index_t more) {
    typedef accumulator_t<T> A;
    index_t element = blockIdx.x * (index_t)blockDim.x + threadIdx.x;
    if (element >= images * size) return;
    axis_t axes[RANK];
#pragma unroll
    for (int i = 0; i < RANK; i++) axes[i] = given[i];
    index_t image = element / size, own = element - image * size;
    coordinates<RANK> at = unravel<RANK>(own, [&](int i) { return axes[i].length; });
    for (index_t channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        const pack<S, LANES> *source =
            columns + (image * channels + channel) * taps * count - first;
        pack<T, LANES> *target = x + (image * channels + channel) * size + own;
        A total[LANES];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
            total[lane] = more ? A((*target)[lane]) : A(0);
        index_t tap[RANK] = {};
        for (index_t t = 0; t < taps; t++) {
            bool inside = true;
            index_t place = 0;
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                index_t from = at.at[i] + axes[i].before - tap[i] * axes[i].dilation;
                index_t window = from;
                if (axes[i].stride != 1) {
                    window = from / axes[i].stride;
                    inside = inside && window * axes[i].stride == from;
                }
                inside = inside && from >= 0 && window < axes[i].places;
                place = place * axes[i].places + window;
            }
            if (inside && place >= first && place < first + count) {
                pack<S, LANES> value = source[t * count + place];
#pragma unroll
                for (int lane = 0; lane < LANES; lane++) total[lane] += A(value[lane]);
            }
            advance<RANK>(tap, axes);
        }
        pack<T, LANES> result;
#pragma unroll
        for (int lane = 0; lane < LANES; lane++) result[lane] = T(total[lane]);
        *target = result;
    }
}
