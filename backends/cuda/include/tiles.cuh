// Tiles of rows in shared memory that warps multiply, and what there is to know of scores.
//
// Rows of tiles are read in two ways, both without bank conflicts since a row is 16 bytes longer
// than a multiple of 128: as columns of B with the sum along the row (a lane reads 16 bytes of row
// g), and as rows of B with the sum over rows (a lane reads 16 bytes of each row that it needs).
// Which numbers of a row a lane has, and which columns its sums belong to, follow from that: in
// every 128 bytes, lane 4 g + t has the 32 bytes from 32 t on.
#pragma once
#include "mma.cuh"

// Shapes, and strides in elements; batch and head are the two leading axes.
struct shape_t {
    index_t heads, total, queries, keys, width, outputs, causal, mask, wide;
    index_t q[3], k[3], v[3], out[3], g[3], by_mask[4], by_grad[4];
};

constexpr int WARPS = 4, THREADS = 32 * WARPS, OWN = 16 * WARPS;
constexpr float LOG2E = 1.4426950408889634f;

enum { NO_MASK, BOOLEAN, ADDED };

// One head of the operands.
template <typename P, int WIDTH> struct tile_t {
    typedef typename P::element T;
    static constexpr int ELEMENTS = 16 / sizeof(T);
    static constexpr int WORDS = WIDTH * sizeof(T) / 4;
    static constexpr int ROW = WORDS + 4;
    static constexpr int SEGMENTS = WORDS / 32;
    static constexpr int SUMS = WIDTH / 8;

    // Begins to copy rows from `first` on, zeros beyond the last and beyond the width.
    template <int ROWS>
    static __device__ __forceinline__ void load(word_t *tile, const T *x, index_t step,
                                                index_t first, index_t last, int width,
                                                bool wide) {
        constexpr int CHUNKS = WORDS / 4, AT_ONCE = THREADS / CHUNKS;
        static_assert(ROWS % AT_ONCE == 0);
        int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
        word_t *target = tile + row * ROW + chunk * 4;
        int column = chunk * ELEMENTS;
        if (wide) {
            const T *source = x + (first + row) * step + column;
            int left = int(last - first < ROWS ? last - first : ROWS);
            bool inside = column < width;
#pragma unroll
            for (int i = 0; i < ROWS; i += AT_ONCE) {
                bool there = inside && row + i < left;
                copy_later<16>(target + i * ROW, there ? source + i * step : x, there);
            }
        } else {
            for (int i = 0; i < ROWS; i += AT_ONCE) {
                pack<T, ELEMENTS> values;
                const T *source = x + (first + row + i) * step + column;
#pragma unroll
                for (int e = 0; e < ELEMENTS; e++)
                    values[e] =
                        first + row + i < last && column + e < width ? source[e] : T(0.0f);
                *reinterpret_cast<pack<word_t, 4> *>(target + i * ROW) =
                    *reinterpret_cast<pack<word_t, 4> *>(&values);
            }
        }
    }

    // The part of a row that this lane has in the half c of a segment.
    static __device__ __forceinline__ pack<word_t, 4> part(const word_t *tile, int row, int s,
                                                           int c) {
        int t = threadIdx.x & 3;
        return *reinterpret_cast<const pack<word_t, 4> *>(tile + row * ROW + 32 * s + 8 * t +
                                                          4 * c);
    }

    // Adds products of 16 rows, given by parts(s, c, half of the rows), with the rows of a tile.
    // Only where the parts are held in registers, all segments are written out.
    template <int TILES, bool HELD, typename F>
    static __device__ __forceinline__ void by_rows(float (*sums)[4], F parts,
                                                   const word_t *tile) {
        int g = (threadIdx.x & 31) >> 2;
#pragma unroll(HELD ? SEGMENTS : 1)
        for (int s = 0; s < SEGMENTS; s++) {
#pragma unroll
            for (int c = 0; c < 2; c++) {
                pack<word_t, 4> upper = parts(s, c, 0), lower = parts(s, c, 1);
                word_t a[2][4];
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    a[j][0] = P::ready(upper[2 * j]);
                    a[j][1] = P::ready(lower[2 * j]);
                    a[j][2] = P::ready(upper[2 * j + 1]);
                    a[j][3] = P::ready(lower[2 * j + 1]);
                }
#pragma unroll
                for (int n = 0; n < TILES; n++) {
                    pack<word_t, 4> b = part(tile, 8 * n + g, s, c);
                    P::multiply(sums[n], a[0], P::ready(b[0]), P::ready(b[1]));
                    P::multiply(sums[n], a[1], P::ready(b[2]), P::ready(b[3]));
                }
            }
        }
    }

    // Adds the product of factors, which are sums of 16 rows and 8 TILES columns, with a tile.
    template <int TILES>
    static __device__ __forceinline__ void by_columns(float (*sums)[4], float (*factors)[4],
                                                      const word_t *tile) {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                const word_t *first = tile + (8 * n + 2 * t) * ROW + 4 * g;
                word_t a[4] = {P::packed(factors[n][0]), P::packed(factors[n][2]),
                               P::packed(factors[n][1]), P::packed(factors[n][3])};
#pragma unroll
                for (int s = 0; s < SEGMENTS; s++) {
                    pack<word_t, 4> even = at(first + 32 * s), odd = at(first + ROW + 32 * s);
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        P::multiply(sums[4 * s + e], a, P::ready(even[e]), P::ready(odd[e]));
                }
            }
        } else {
#pragma unroll
            for (int n = 0; n < TILES; n += 2) {
                const word_t *first = tile + (8 * n + 2 * t) * ROW + 4 * g;
                word_t a[4] = {P::packed(factors[n][0], factors[n][1]),
                               P::packed(factors[n][2], factors[n][3]),
                               P::packed(factors[n + 1][0], factors[n + 1][1]),
                               P::packed(factors[n + 1][2], factors[n + 1][3])};
#pragma unroll
                for (int s = 0; s < SEGMENTS; s++) {
                    const word_t *from = first + 32 * s;
                    pack<word_t, 4> rows[4] = {at(from), at(from + ROW), at(from + 8 * ROW),
                                               at(from + 9 * ROW)};
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        P::multiply(sums[8 * s + 2 * e], a, lows(rows[0][e], rows[1][e]),
                                    lows(rows[2][e], rows[3][e]));
                        P::multiply(sums[8 * s + 2 * e + 1], a, highs(rows[0][e], rows[1][e]),
                                    highs(rows[2][e], rows[3][e]));
                    }
                }
            }
        }
    }

    static __device__ __forceinline__ pack<word_t, 4> at(const word_t *from) {
        return *reinterpret_cast<const pack<word_t, 4> *>(from);
    }
    static __device__ __forceinline__ word_t lows(word_t x, word_t y) {
        return (x & 0xffff) | y << 16;
    }
    static __device__ __forceinline__ word_t highs(word_t x, word_t y) {
        return x >> 16 | (y & 0xffff0000u);
    }

    // Writes one of the two rows of sums that this lane has, times a factor.
    static __device__ __forceinline__ void store(T *row, float (*sums)[4], int half, float factor,
                                                 int width, bool wide) {
        int t = threadIdx.x & 3;
#pragma unroll
        for (int s = 0; s < SEGMENTS; s++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int column = 8 * ELEMENTS * s + (2 * t + i) * ELEMENTS;
                pack<T, ELEMENTS> values;
#pragma unroll
                for (int e = 0; e < ELEMENTS; e++)
                    values[e] = T(sums[ELEMENTS * s + e][2 * half + i] * factor);
                if (wide) {
                    if (column < width)
                        *reinterpret_cast<pack<T, ELEMENTS> *>(row + column) = values;
                } else {
#pragma unroll
                    for (int e = 0; e < ELEMENTS; e++)
                        if (column + e < width) row[column + e] = values[e];
                }
            }
        }
    }
};

// Scores in units of ln 2, minus infinity where a query does not see a key.
template <typename T> struct scorer {
    const shape_t &shape;
    const void *mask;
    float scale;

    __device__ __forceinline__ scorer(const shape_t &shape, const void *mask, index_t batch,
                                      index_t head, float scale)
        : shape(shape), scale(scale * LOG2E) {
        index_t offset = batch * shape.by_mask[0] + head * shape.by_mask[1];
        index_t size = shape.mask == BOOLEAN ? 1 : sizeof(T);
        this->mask = static_cast<const char *>(mask) + offset * size;
    }

    // Whether some of so many queries and keys from here on do not see each other.
    __device__ __forceinline__ bool is_edge(index_t query, int queries, index_t key,
                                            int keys) const {
        return shape.mask != NO_MASK || key + keys > shape.keys ||
               query + queries > shape.queries || (shape.causal && key + keys > query + 1);
    }

    __device__ __forceinline__ float operator()(float product, index_t query, index_t key,
                                                bool edge) const {
        float score = product * scale;
        if (!edge) return score;
        if (query >= shape.queries || key >= shape.keys || (shape.causal && key > query))
            return -INFINITY_OF(float);
        if (shape.mask == NO_MASK) return score;
        index_t place = query * shape.by_mask[2] + key * shape.by_mask[3];
        if (shape.mask == BOOLEAN)
            return static_cast<const bool *>(mask)[place] ? score : -INFINITY_OF(float);
        return score + float(static_cast<const T *>(mask)[place]) * LOG2E;
    }
};

__device__ __forceinline__ float over_row(float value, bool largest) {
#pragma unroll
    for (int offset = 1; offset < 4; offset <<= 1) {
        float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = largest ? fmaxf(value, other) : value + other;
    }
    return value;
}
