// How windows of a convolution meet images, of two spatial axes.
#pragma once
#include "common.cuh"

// How images are read along an axis: window `w` and tap `t` meet at w * scale + t * step + shift, if
// that is there. There are `taps` of them.
struct reach {
    int scale, shift, step, length, stride, taps;

    __device__ __forceinline__ reach(const index_t *given)
        : scale(given[0]), shift(given[1]), step(given[2]), length(given[3]), stride(given[4]),
          taps(given[5]) {}

    // Where a window meets the first tap.
    __device__ __forceinline__ int begin(int window) const { return window * scale + shift; }

    // Says whether there is an element at a place.
    __device__ __forceinline__ bool has(int place) const {
        return (unsigned int)place < (unsigned int)length;
    }
};

// The element that a window and a tap meet, behind one; 0 where there is none.
__device__ __forceinline__ float met_by(const float *x, const reach &down, const reach &right,
                                        int window, int across, int tap) {
    int v = down.begin(window / across) + tap / right.taps * down.step;
    int u = right.begin(window % across) + tap % right.taps * right.step;
    return down.has(v) && right.has(u) ? x[v * down.stride + u * right.stride] : 0;
}
