// Tiles of rows in shared memory that warps multiply, and what there is to know of scores.
//
// A row is 16 bytes longer than a multiple of 128, so that no two of eight rows lie in the same
// banks. A step of a product takes 32 bytes of a row, of which a lane has one word of the first
// and one of the second half.
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
    static constexpr int STEPS = WORDS / 8;
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
        if (wide && first + ROWS <= last && width == WIDTH) {
            const T *source = x + (first + row) * step + column;
#pragma unroll
            for (int i = 0; i < ROWS; i += AT_ONCE, source += AT_ONCE * step)
                copy_later<16>(target + i * ROW, source, true);
        } else if (wide) {
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

    // Makes what this thread has copied ready for products, once for all warps that read it.
    template <int ROWS> static __device__ __forceinline__ void settle(word_t *tile) {
        if constexpr (P::ROUNDED) {
            constexpr int CHUNKS = WORDS / 4, AT_ONCE = THREADS / CHUNKS;
            word_t *target = tile + threadIdx.x / CHUNKS * ROW + threadIdx.x % CHUNKS * 4;
#pragma unroll
            for (int i = 0; i < ROWS; i += AT_ONCE) {
                pack<word_t, 4> &words = *reinterpret_cast<pack<word_t, 4> *>(target + i * ROW);
                pack<word_t, 4> read = words;
#pragma unroll
                for (int e = 0; e < 4; e++) read[e] = P::ready(read[e]);
                words = read;
            }
        }
    }

    // Where this lane reads matrices of 16 rows and 32 bytes.
    static __device__ __forceinline__ const word_t *place(const word_t *tile) {
        int lane = threadIdx.x & 31;
        return tile + (lane & 15) * ROW + (lane >> 4) * 4;
    }

    // Adds products of 16 rows, of which parts(words, s) gives those of a step, with the rows of a
    // tile. Only where the parts are held in registers, all steps are written out.
    template <int TILES, bool HELD, typename F>
    static __device__ __forceinline__ void by_rows(float (*sums)[4], F parts,
                                                   const word_t *tile) {
        int lane = threadIdx.x & 31;
        const word_t *from = tile + (lane & 7) * ROW + (lane >> 3) * 4;
#pragma unroll(HELD ? STEPS / 2 : 2)
        for (int s = 0; s < STEPS; s += 2) {
            word_t a[2][4];
            parts(a[0], s);
            parts(a[1], s + 1);
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                word_t b[4];
                read_matrices<false>(b, from + 8 * n * ROW + 8 * s);
                P::multiply(sums[n], a[0], b[0], b[1]);
                P::multiply(sums[n], a[1], b[2], b[3]);
            }
        }
    }

    // Adds the product of factors, which are sums of 16 rows and 8 TILES columns, with a tile.
    template <int TILES>
    static __device__ __forceinline__ void by_columns(float (*sums)[4], float (*factors)[4],
                                                      const word_t *tile) {
        if constexpr (sizeof(T) == 4) {
            int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
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
                        P::multiply(sums[4 * s + e], a, even[e], odd[e]);
                }
            }
        } else {
            const word_t *from = place(tile);
#pragma unroll
            for (int n = 0; n < TILES; n += 2) {
                word_t a[4] = {P::packed(factors[n][0], factors[n][1]),
                               P::packed(factors[n][2], factors[n][3]),
                               P::packed(factors[n + 1][0], factors[n + 1][1]),
                               P::packed(factors[n + 1][2], factors[n + 1][3])};
#pragma unroll
                for (int j = 0; j < SUMS; j += 2) {
                    word_t b[4];
                    read_matrices<true>(b, from + 8 * n * ROW + 4 * j);
                    P::multiply(sums[j], a, b[0], b[1]);
                    P::multiply(sums[j + 1], a, b[2], b[3]);
                }
            }
        }
    }

    static __device__ __forceinline__ pack<word_t, 4> at(const word_t *from) {
        return *reinterpret_cast<const pack<word_t, 4> *>(from);
    }

    // Writes one of the two rows of sums that this lane has, times a factor. Of floats, a lane has
    // in every 32 the eight from 8 t on; of numbers of 16 bits, in every eight the two from 2 t on.
    static __device__ __forceinline__ void store(T *row, float (*sums)[4], int half, float factor,
                                                 int width, bool wide) {
        constexpr int COUNT = sizeof(T) == 4 ? 4 : 2;
        int t = threadIdx.x & 3;
#pragma unroll
        for (int j = 0; j < SUMS; j += COUNT / 2) {
            pack<T, COUNT> values;
            int column;
            if constexpr (sizeof(T) == 4) {
                int s = j / 4, i = j / 2 & 1;
                column = 32 * s + (2 * t + i) * 4;
#pragma unroll
                for (int e = 0; e < 4; e++) values[e] = T(sums[4 * s + e][2 * half + i] * factor);
            } else {
                column = 8 * j + 2 * t;
#pragma unroll
                for (int e = 0; e < 2; e++) values[e] = T(sums[j][2 * half + e] * factor);
            }
            if (wide) {
                if (column < width) *reinterpret_cast<pack<T, COUNT> *>(row + column) = values;
            } else {
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    if (column + e < width) row[column + e] = values[e];
            }
        }
    }
};

// Scores in units of ln 2, minus infinity where a query does not see a key.
template <typename T> struct scorer {
    index_t queries, keys, by_query, by_key;
    const void *mask;
    float scale;
    int kind;
    bool causal;

    __device__ __forceinline__ scorer(const shape_t &shape, const void *mask, index_t batch,
                                      index_t head, float scale)
        : queries(shape.queries), keys(shape.keys), by_query(shape.by_mask[2]),
          by_key(shape.by_mask[3]), scale(scale * LOG2E), kind(int(shape.mask)),
          causal(shape.causal) {
        index_t offset = batch * shape.by_mask[0] + head * shape.by_mask[1];
        index_t size = kind == BOOLEAN ? 1 : sizeof(T);
        this->mask = static_cast<const char *>(mask) + offset * size;
    }

    // Whether some of so many queries and keys from here on do not see each other.
    __device__ __forceinline__ bool is_edge(index_t query, int queries, index_t key,
                                            int keys) const {
        return kind != NO_MASK || key + keys > this->keys || query + queries > this->queries ||
               (causal && key + keys > query + 1);
    }

    // Makes scores of the products of 16 rows with 8 TILES columns, from this query and key on.
    // One branch decides for all of them whether some are hidden.
    template <bool ROWS_ARE_QUERIES, int TILES>
    __device__ __forceinline__ void operator()(float (*products)[4], index_t query,
                                               index_t key) const {
        constexpr int COLUMNS = 8 * TILES, FAR = 1 << 20;
#pragma unroll
        for (int n = 0; n < TILES; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) products[n][i] *= scale;
        constexpr int QUERIES = ROWS_ARE_QUERIES ? 16 : COLUMNS;
        constexpr int KEYS = ROWS_ARE_QUERIES ? COLUMNS : 16;
        if (!is_edge(query, QUERIES, key, KEYS)) return;
        int lane = threadIdx.x & 31;
        // The compiler for sm_100 would keep all comparisons of places in registers otherwise.
        asm volatile("" : "+r"(lane));
        int g = lane >> 2, t = lane & 3;
        int queries_left = int(min(queries - query, index_t(FAR)));
        int keys_left = int(min(keys - key, index_t(FAR)));
        // A query sees so many keys more than its own place says.
        int ahead = causal ? int(max(min(query - key, index_t(FAR)), index_t(-FAR))) : FAR;
#pragma unroll
        for (int n = 0; n < TILES; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = g + 8 * (i >> 1), column = 8 * n + 2 * t + (i & 1);
                int q = ROWS_ARE_QUERIES ? row : column, k = ROWS_ARE_QUERIES ? column : row;
                if (q >= queries_left || k >= keys_left || k > q + ahead)
                    products[n][i] = -INFINITY_OF(float);
                else if (kind != NO_MASK)
                    products[n][i] = masked(products[n][i], query + q, key + k);
            }
    }

    __device__ __forceinline__ float masked(float score, index_t query, index_t key) const {
        index_t place = query * by_query + key * by_key;
        if (kind == BOOLEAN)
            return static_cast<const bool *>(mask)[place] ? score : -INFINITY_OF(float);
        return score + float(static_cast<const T *>(mask)[place]) * LOG2E;
    }
};

// 2 to the power of x; less than 2^-126 is 0.
__device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float over_row(float value, bool largest) {
#pragma unroll
    for (int offset = 1; offset < 4; offset <<= 1) {
        float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = largest ? fmaxf(value, other) : value + other;
    }
    return value;
}
