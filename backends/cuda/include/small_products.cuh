// Products of small matrices: a warp adds up some of the summed elements of 16 x 8 results.
#pragma once
#include "mma.cuh"

// Reads four neighbouring elements of a row, zeros where the matrix has none. A matrix of LENGTH
// columns lies row by row, or, TURNED, column by column.
template <typename P, int ROWS, int LENGTH, bool TURNED>
__device__ __forceinline__ void four_of(word_t *words, const float *matrix, int row, int place) {
    bool there = ROWS % 16 == 0 || row < ROWS;
    if constexpr (!TURNED && LENGTH % 4 == 0) {
        pack<float, 4> read = {};
        if (there && (LENGTH % 16 == 0 || place < LENGTH))
            read = *reinterpret_cast<const pack<float, 4> *>(matrix + row * LENGTH + place);
#pragma unroll
        for (int i = 0; i < 4; i++) words[i] = P::ready(word_of(read[i]));
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float value = 0;
            if (there && (LENGTH % 16 == 0 || place + i < LENGTH))
                value = matrix[TURNED ? (place + i) * ROWS + row : row * LENGTH + place + i];
            words[i] = P::ready(word_of(value));
        }
    }
}

// Adds up for a block of 8 warps parts of its results: SPLIT warps share 16 rows and 8 columns.
// A has ROWS rows and LENGTH columns, B as many rows, and COLUMNS columns.
template <typename P, int ROWS, int COLUMNS, int LENGTH, bool A_TURNED, bool B_TURNED, int SPLIT>
__device__ __forceinline__ void small_product(const float *a, const float *b, unsigned int part,
                                              float *sums) {
    constexpr int ACROSS = (COLUMNS + 7) / 8, TILES = (ROWS + 15) / 16 * ACROSS;
    constexpr int STEPS = (LENGTH + 15) / 16, SHARE = (STEPS + SPLIT - 1) / SPLIT;
    int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int tile = (int)part * (8 / SPLIT) + warp / SPLIT;
    float c[4] = {};
    if (tile < TILES) {
        int row = tile / ACROSS * 16 + group, column = tile % ACROSS * 8 + group;
        int begin = warp % SPLIT * SHARE, end = begin + SHARE < STEPS ? begin + SHARE : STEPS;
#pragma unroll 4
        for (int step = begin; step < end; step++) {
            int place = step * 16 + 4 * t;
            word_t x[4], y[4], z[4];
            four_of<P, ROWS, LENGTH, A_TURNED>(x, a, row, place);
            four_of<P, ROWS, LENGTH, A_TURNED>(y, a, row + 8, place);
            four_of<P, COLUMNS, LENGTH, !B_TURNED>(z, b, column, place);
            word_t first[4] = {x[0], y[0], x[1], y[1]}, second[4] = {x[2], y[2], x[3], y[3]};
            P::multiply(c, first, z[0], z[1]);
            P::multiply(c, second, z[2], z[3]);
        }
    }
    float *own = sums + warp * 128 + group * 8 + 2 * t;
    own[0] = c[0];
    own[1] = c[1];
    own[64] = c[2];
    own[65] = c[3];
    __syncthreads();
}

// Where a result is of which a block has the parts.
struct small_place {
    bool there;
    unsigned int row, column;
};

template <int ROWS, int COLUMNS, int SPLIT>
__device__ __forceinline__ small_place small_place_of(unsigned int part, unsigned int number) {
    constexpr unsigned int ACROSS = (COLUMNS + 7) / 8;
    unsigned int tile = part * (8 / SPLIT) + number / 128, inside = number % 128;
    unsigned int row = tile / ACROSS * 16 + inside / 8, column = tile % ACROSS * 8 + inside % 8;
    return {row < ROWS && column < COLUMNS, row, column};
}

template <typename P, int ROWS, int COLUMNS, int LENGTH, bool A_TURNED, bool B_TURNED, int SPLIT>
__device__ __forceinline__ float small_sum(const float *a, const float *b, const small_place &at,
                                           const float *sums, unsigned int number) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < SPLIT; i++) total += sums[(number / 128 * SPLIT + i) * 128 + number % 128];
    if (in_parts<P>::value && total != total) {
        total = 0;
        for (int k = 0; k < LENGTH; k++)
            total += a[A_TURNED ? k * ROWS + at.row : at.row * LENGTH + k] *
                     b[B_TURNED ? at.column * LENGTH + k : k * COLUMNS + at.column];
    }
    return total;
}
