// Random bits by counter, Philox4x64-10, and dropout by them.
#include "philox.cuh"

// Rows of `length` words of type T: a thread for each block.
template <typename T>
__global__ void bits(T *out, const word_t *keys, const word_t *starts, long long key0,
                     long long key1, long long start, long long stream, long long rows,
                     long long length, long long blocks) {
    constexpr int PARTS = sizeof(block_t) / sizeof(T);
    index_t thread = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (thread >= rows * blocks) return;
    index_t row = rows == 1 ? 0 : thread / blocks, n = thread - row * blocks;
    block_t block = drawn(keys, starts, row, n, key0, key1, start, stream);
    T *place = out + row * length + n * PARTS;
    index_t left = length - n * PARTS;
    if (left >= PARTS && reinterpret_cast<unsigned long long>(place) % 16 == 0) {
        typedef pack<word_t, 2> wide;
        reinterpret_cast<wide *>(place)[0] = {{block.words[0], block.words[1]}};
        reinterpret_cast<wide *>(place)[1] = {{block.words[2], block.words[3]}};
        return;
    }
    constexpr int EACH = sizeof(word_t) / sizeof(T);
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        if (i < left)
            place[i] = static_cast<T>(block.words[i / EACH] >> (i % EACH * (64 / EACH)));
}

// x / share where the element's word of 32 bits is at least the threshold, 0 elsewhere.
template <typename T>
__global__ void dropout(const T *x, T *out, const word_t *keys, long long key0, long long key1,
                        long long rows, long long length, long long blocks, long long threshold,
                        double share) {
    typedef accumulator_t<T> A;
    constexpr int PARTS = 8, WIDE = sizeof(T) == 2 ? 8 : 16 / sizeof(T);
    typedef pack<T, WIDE> wide;
    index_t thread = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (thread >= rows * blocks) return;
    index_t row = rows == 1 ? 0 : thread / blocks, n = thread - row * blocks;
    index_t start = row * length + n * PARTS, left = length - n * PARTS;
    block_t block = drawn(keys, nullptr, row, n, key0, key1, 0, 0);
    // As the other backend has it, which divides by a number of the array's own dtype.
    A divisor = A(T(share));
    unsigned long long places = reinterpret_cast<unsigned long long>(x + start) |
                                reinterpret_cast<unsigned long long>(out + start);
    if (left >= PARTS && places % 16 == 0) {
        wide in[PARTS / WIDE], made[PARTS / WIDE];
#pragma unroll
        for (int i = 0; i < PARTS / WIDE; i++)
            in[i] = reinterpret_cast<const wide *>(x + start)[i];
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            long long drawn_word = (block.words[i / 2] >> (i % 2 * 32)) & 0xffffffffull;
            A value = A(in[i / WIDE][i % WIDE]) / divisor;
            made[i / WIDE][i % WIDE] = drawn_word >= threshold ? T(value) : T(A(0));
        }
#pragma unroll
        for (int i = 0; i < PARTS / WIDE; i++)
            reinterpret_cast<wide *>(out + start)[i] = made[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        if (i < left) {
            long long drawn_word = (block.words[i / 2] >> (i % 2 * 32)) & 0xffffffffull;
            A value = A(x[start + i]) / divisor;
            out[start + i] = drawn_word >= threshold ? T(value) : T(A(0));
        }
}
