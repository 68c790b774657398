// Windows of images gathered into columns, and columns added up where windows overlap.
//
// Columns are laid out (channel, place in the kernel, image, place of the window) or with the image
// first; consecutive threads have consecutive places, and so mostly consecutive elements of images.
#include "common.cuh"

// A spatial axis. Numbers of places are of type I: of 32 bits where nothing has more elements.
template <typename I> struct axis_t {
    I places, kernel, stride, dilation, before, length, step;
};

template <typename I, int RANK>
__device__ __forceinline__ void read_axes(axis_t<I> *axes, const axis_t<index_t> *given) {
#pragma unroll
    for (int i = 0; i < RANK; i++)
        axes[i] = {I(given[i].places), I(given[i].kernel), I(given[i].stride),
                   I(given[i].dilation), I(given[i].before), I(given[i].length), I(given[i].step)};
}

// Where a window or an element is: the coordinates of a flat index, the last axis running fastest.
template <typename I, int RANK> struct coordinates {
    I at[RANK];
};

template <int RANK, typename I, typename F>
__device__ __forceinline__ coordinates<I, RANK> unravel(I flat, F length) {
    coordinates<I, RANK> out;
#pragma unroll
    for (int i = RANK - 1; i > 0; i--) {
        I rest = flat / length(i);
        out.at[i] = flat - rest * length(i);
        flat = rest;
    }
    out.at[0] = flat;
    return out;
}

// The next place in the kernel; false after the last one.
template <int RANK, typename I>
__device__ __forceinline__ void advance(I *tap, const axis_t<I> *axes) {
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
template <typename T, int RANK, typename I>
__global__ void im2col(const T *x, T *columns, const axis_t<index_t> *given, long long images_,
                       long long channels_, long long taps_, long long first_, long long count_,
                       long long by_image_, long long by_channel_, long long by_own_image_,
                       long long by_column_) {
    const I images = images_, channels = channels_, taps = taps_, first = first_, count = count_;
    const I by_image = by_image_, by_channel = by_channel_, by_own_image = by_own_image_;
    const I by_column = by_column_;
    I place = blockIdx.x * (I)blockDim.x + threadIdx.x;
    if (place >= images * count) return;
    axis_t<I> axes[RANK];
    read_axes<I, RANK>(axes, given);
    I image = place / count, own = place - image * count;
    coordinates<I, RANK> window =
        unravel<RANK>(I(first + own), [&](int i) { return axes[i].places; });
    I origin[RANK];
#pragma unroll
    for (int i = 0; i < RANK; i++) origin[i] = window.at[i] * axes[i].stride - axes[i].before;
    for (I channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        const T *source = x + image * by_image + channel * by_channel;
        T *target = columns + image * by_own_image + own + channel * taps * by_column;
        I tap[RANK] = {};
        for (I t = 0; t < taps; t++) {
            bool inside = true;
            I offset = 0;
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                I at = origin[i] + tap[i] * axes[i].dilation;
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
template <typename S, typename T, int RANK, int LANES, typename I>
__global__ void col2im(const pack<S, LANES> *columns, pack<T, LANES> *x,
                       const axis_t<index_t> *given, long long images_, long long channels_,
                       long long taps_, long long first_, long long count_, long long size_,
                       long long more) {
    typedef accumulator_t<T> A;
    const I images = images_, channels = channels_, taps = taps_, first = first_, count = count_;
    const I size = size_;
    I element = blockIdx.x * (I)blockDim.x + threadIdx.x;
    if (element >= images * size) return;
    axis_t<I> axes[RANK];
    read_axes<I, RANK>(axes, given);
    I image = element / size, own = element - image * size;
    coordinates<I, RANK> at = unravel<RANK>(own, [&](int i) { return axes[i].length; });
    for (I channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        const pack<S, LANES> *source =
            columns + (image * channels + channel) * taps * count;
        pack<T, LANES> *target = x + (image * channels + channel) * size + own;
        A total[LANES];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
            total[lane] = more ? A((*target)[lane]) : A(0);
        I tap[RANK] = {};
        for (I t = 0; t < taps; t++) {
            bool inside = true;
            I place = 0;
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                I from = at.at[i] + axes[i].before - tap[i] * axes[i].dilation;
                I window = from;
                if (axes[i].stride != 1) {
                    window = from / axes[i].stride;
                    inside = inside && window * axes[i].stride == from;
                }
                inside = inside && from >= 0 && window < axes[i].places;
                place = place * axes[i].places + window;
            }
            if (inside && place >= first && place < first + count) {
                pack<S, LANES> value = source[t * count + (place - first)];
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
