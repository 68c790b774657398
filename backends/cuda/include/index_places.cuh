// Index arrays: integers of any width, counted from the end where they are negative.
#pragma once
#include "common.cuh"

// An index array: where it is, the code of its dtype, how far apart its elements lie, the length of
// the axis that it indexes, and how far apart the elements of that lie.
struct indices {
    const void *data;
    int code;
    index_t step, length, stride;

    __device__ __forceinline__ index_t raw(index_t i) const {
        i *= step;
        switch (code) {
        case 0: return static_cast<const long long *>(data)[i];
        case 1: return static_cast<const int *>(data)[i];
        case 2: return static_cast<const short *>(data)[i];
        case 3: return static_cast<const signed char *>(data)[i];
        case 4: return static_cast<const unsigned int *>(data)[i];
        case 5: return static_cast<const unsigned short *>(data)[i];
        default: return static_cast<const unsigned char *>(data)[i];
        }
    }

    // A place out of bounds wraps around: it cannot raise, and must not leave the array.
    __device__ __forceinline__ index_t operator[](index_t i) const {
        index_t place = raw(i);
        if (place < 0) place += length;
        if (static_cast<unsigned long long>(place) >= static_cast<unsigned long long>(length)) {
            place %= length;
            if (place < 0) place += length;
        }
        return place;
    }
};

// Rows of a block: 2^log lanes go along the columns, the others are rows.
struct lanes {
    index_t row, column, step;

    __device__ __forceinline__ lanes(index_t log)
        : row(index_t(blockIdx.x) * (blockDim.x >> log) + (threadIdx.x >> log)),
          column((index_t(blockIdx.y) << log) + (threadIdx.x & ((1 << log) - 1))),
          step(index_t(gridDim.y) << log) {}
};

// Elements that are moved and never looked at.
template <int BYTES> struct word { typedef pack<unsigned int, BYTES / 4> type; };
template <> struct word<1> { typedef unsigned char type; };
template <> struct word<2> { typedef unsigned short type; };
template <> struct word<4> { typedef unsigned int type; };
