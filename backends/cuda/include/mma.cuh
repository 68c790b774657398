// Products of small matrices by a warp, on the units for matrices where the GPU has them.
//
// One step multiplies 16 rows of A with 8 columns of B and adds to 16 x 8 sums. Words of 32 bits
// hold a float or two numbers of 16 bits. With lane = 4 g + t, a lane has of A a word of rows g and
// g + 8 (a[0], a[1]) and another one of each (a[2], a[3]); of B it has the same two words of column
// g; which words of a row these are does not matter as long as A and B agree. Of the sums it has
// columns 2 t and 2 t + 1 of rows g and g + 8.
#pragma once
#include "common.cuh"

typedef unsigned int word_t;

__device__ __forceinline__ word_t word_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ float float_of(word_t word) { return __uint_as_float(word); }

// Copies to shared memory that go on while the warp does something else: 16 bytes, or one word, or
// zeros instead. Older GPUs copy at once.
template <int BYTES>
__device__ __forceinline__ void copy_later(word_t *target, const void *source, bool there) {
#if __CUDA_ARCH__ >= 800
    unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(target));
    int bytes = there ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source),
                     "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source),
                     "r"(bytes));
#else
    for (int i = 0; i < BYTES / 4; i++)
        target[i] = there ? static_cast<const word_t *>(source)[i] : 0;
#endif
}

// Ends a group of such copies.
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Waits until no more than so many of this thread's groups are under way.
template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

// Reads four matrices of 8 rows of 16 bytes each. Lane 8 m + r tells where row r of matrix m lies;
// of each, lane 4 g + t gets word t of row g. Transposed, it gets numbers 2 t and 2 t + 1 of column
// g, which are numbers of 16 bits.
template <bool TRANSPOSED>
__device__ __forceinline__ void read_matrices(word_t (&words)[4], const word_t *row) {
#if __CUDA_ARCH__ >= 750
    unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(row));
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address)
                     : "memory");
#else
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned long long place = reinterpret_cast<unsigned long long>(row);
#pragma unroll
    for (int m = 0; m < 4; m++) {
        auto of = [&](int r) {
            return reinterpret_cast<const word_t *>(__shfl_sync(0xffffffffu, place, 8 * m + r));
        };
        if constexpr (TRANSPOSED) {
            auto number = [&](int r) {
                const word_t *from = of(r);
                return reinterpret_cast<const unsigned short *>(from)[g];
            };
            word_t low = number(2 * t);
            words[m] = low | word_t(number(2 * t + 1)) << 16;
        } else
            words[m] = of(g)[t];
    }
#endif
}

// Multiplies on older GPUs, slowly; a function of its own, since it is long and called often.
template <typename P>
__device__ __noinline__ void multiply_by_shuffles(float *c, const word_t *a, word_t b0, word_t b1) {
    int lane = threadIdx.x & 31, row = lane & ~3, column = (lane & 3) * 8;
    for (int t = 0; t < 4; t++) {
        word_t rows[4];
#pragma unroll
        for (int i = 0; i < 4; i++) rows[i] = __shfl_sync(0xffffffffu, a[i], row + t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            word_t first = __shfl_sync(0xffffffffu, b0, column + 4 * i + t);
            word_t second = __shfl_sync(0xffffffffu, b1, column + 4 * i + t);
            c[i] += P::product(rows[0], first) + P::product(rows[2], second);
            c[i + 2] += P::product(rows[1], first) + P::product(rows[3], second);
        }
    }
}

// The types as which numbers are multiplied. `ready` makes words of operands of those in memory,
// which are others where they are ROUNDED, `packed` of sums.
//
// Rounded to 10 bits of mantissa.
struct tf32_t {
    typedef float element;
    static constexpr bool ROUNDED = true;
    static __device__ __forceinline__ word_t rounded(float value) {
#if __CUDA_ARCH__ >= 800
        word_t word;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
        return word;
#else
        word_t word = word_of(value);
        return (value - value == 0 ? word + 0x1000 : word) & 0xffffe000;
#endif
    }
    static __device__ __forceinline__ word_t ready(word_t word) { return rounded(float_of(word)); }
    static __device__ __forceinline__ word_t packed(float value) { return rounded(value); }
    static __device__ __forceinline__ float product(word_t x, word_t y) {
        return float_of(x) * float_of(y);
    }
    static __device__ __forceinline__ void multiply(float *c, const word_t *a, word_t b0,
                                                    word_t b1) {
#if __CUDA_ARCH__ >= 800
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
        multiply_by_shuffles<tf32_t>(c, a, b0, b1);
#endif
    }
};

// All 23 bits: what rounding leaves is multiplied as well, but for the product of two rests.
struct full_t {
    typedef float element;
    static constexpr bool ROUNDED = false;
    static __device__ __forceinline__ word_t ready(word_t word) { return word; }
    static __device__ __forceinline__ word_t packed(float value) { return word_of(value); }
    static __device__ __forceinline__ void multiply(float *c, const word_t *a, word_t b0,
                                                    word_t b1) {
#if __CUDA_ARCH__ >= 800
        word_t rest[4], whole[4];
#pragma unroll
        for (int i = 0; i < 4; i++) split(a[i], whole[i], rest[i]);
        word_t b0_whole, b0_rest, b1_whole, b1_rest;
        split(b0, b0_whole, b0_rest);
        split(b1, b1_whole, b1_rest);
        tf32_t::multiply(c, rest, b0_whole, b1_whole);
        tf32_t::multiply(c, whole, b0_rest, b1_rest);
        tf32_t::multiply(c, whole, b0_whole, b1_whole);
#else
        tf32_t::multiply(c, a, b0, b1);
#endif
    }
    // Rounded, since what is cut off would always have the sign of the number, and the products
    // of two rests, which are left out, would add up. Of infinity and NaN the rest is NaN.
    static __device__ __forceinline__ void split(word_t word, word_t &whole, word_t &rest) {
        whole = (word + 0x1000) & 0xffffe000;
        rest = word_of(float_of(word) - float_of(whole));
    }
};

// Whether a type multiplies in parts. A sum with infinity is then NaN, and is to be made anew.
template <typename P> struct in_parts { static const bool value = false; };
template <> struct in_parts<full_t> { static const bool value = true; };

// Two numbers of 16 bits to a word.
template <typename T> struct pair_t {
    typedef T element;
    static constexpr bool ROUNDED = false;
    static __device__ __forceinline__ word_t ready(word_t word) { return word; }
    static __device__ __forceinline__ word_t packed(float low, float high) {
#if __CUDA_ARCH__ >= 800
        return packed_at_once(low, high);
#else
        return T(low).bits | (word_t)T(high).bits << 16;
#endif
    }
    static __device__ __forceinline__ word_t packed_at_once(float low, float high);
    static __device__ __forceinline__ float product(word_t x, word_t y) {
        T lows[2], highs[2];
        lows[0].bits = x & 0xffff;
        lows[1].bits = y & 0xffff;
        highs[0].bits = x >> 16;
        highs[1].bits = y >> 16;
        return float(lows[0]) * float(lows[1]) + float(highs[0]) * float(highs[1]);
    }
    static __device__ __forceinline__ void multiply(float *c, const word_t *a, word_t b0,
                                                    word_t b1);
};

#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ word_t pair_t<half_t>::packed_at_once(float low, float high) {
    word_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

template <>
__device__ __forceinline__ word_t pair_t<bfloat16_t>::packed_at_once(float low, float high) {
    word_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#endif

template <>
__device__ __forceinline__ void pair_t<half_t>::multiply(float *c, const word_t *a, word_t b0,
                                                         word_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    multiply_by_shuffles<pair_t<half_t>>(c, a, b0, b1);
#endif
}

template <>
__device__ __forceinline__ void pair_t<bfloat16_t>::multiply(float *c, const word_t *a,
                                                             word_t b0, word_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    multiply_by_shuffles<pair_t<bfloat16_t>>(c, a, b0, b1);
#endif
}
