// Philox4x64-10: blocks of random words by counter and key.
#pragma once
#include "common.cuh"

typedef unsigned long long word_t;

struct block_t {
    word_t words[4];
};

// The block of four words for a counter (low, high, 0, stream) and a key.
__device__ __forceinline__ block_t philox(word_t low, word_t high, word_t stream, word_t k,
                                          word_t m) {
    const word_t FIRST = 0xD2E7470EE14C6C93ull, SECOND = 0xCA5A826395121157ull;
    word_t a = low, b = high, c = 0, d = stream;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        word_t high0 = __umul64hi(FIRST, a), low0 = FIRST * a;
        word_t high1 = __umul64hi(SECOND, c), low1 = SECOND * c;
        a = high1 ^ b ^ k;
        b = low1;
        c = high0 ^ d ^ m;
        d = low0;
        k += 0x9E3779B97F4A7C15ull;
        m += 0xBB67AE8584CAA73Bull;
    }
    return {{a, b, c, d}};
}

// The block for the n-th counter after start. Keys and starts are one for each row, or, without a
// pointer, those that are passed by value.
__device__ __forceinline__ block_t drawn(const word_t *keys, const word_t *starts, index_t row,
                                         index_t n, word_t key0, word_t key1, word_t start,
                                         word_t stream) {
    if (keys) {
        key0 = keys[2 * row];
        key1 = keys[2 * row + 1];
    }
    if (starts) start = starts[row];
    word_t low = start + 1 + static_cast<word_t>(n);
    return philox(low, low <= start ? 1 : 0, stream, key0, key1);
}
