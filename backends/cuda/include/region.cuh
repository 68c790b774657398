// What kernels that are generated for a program use.
#pragma once
#include "common.cuh"

struct smaller {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const {
        return a < b || a != a ? a : b;
    }
};

// NaN of either is the result; of two zeros the second.
template <typename T> __device__ __forceinline__ T larger_of(T a, T b) { return larger()(a, b); }
template <typename T> __device__ __forceinline__ T smaller_of(T a, T b) { return smaller()(a, b); }

// The same bits as another type of that size.
template <typename To, typename From> __device__ __forceinline__ To same_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "types of one size");
    To y;
    memcpy(&y, &x, sizeof(To));
    return y;
}

// Quotients of constants would be computed wherever they stand, by a call.
template <typename T> __device__ __forceinline__ T infinity() {
    return T(same_bits<float>(0x7f800000u));
}
template <typename T> __device__ __forceinline__ T not_a_number() {
    return T(same_bits<float>(0x7fc00000u));
}

// The quotient 1 / x, rounded like any other. Without the branches for numbers that are very large,
// very small or none, which it calls rare and gets wrong.
__device__ __forceinline__ float quick_reciprocal(float x, bool &rare) {
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    y = fmaf(y, fmaf(-x, y, 1.0f), y);
#else
    float y = 1 / x;
#endif
    rare = rare || !(fabsf(y) >= 0x1p-125f);
    return y;
}

// The sine and the cosine of an angle, which have most of their work in common.
template <typename T> struct turned_by {
    T sine, cosine;
};
__device__ __forceinline__ turned_by<double> turned(double angle) {
    turned_by<double> y;
    sincos(angle, &y.sine, &y.cosine);
    return y;
}
__device__ __forceinline__ turned_by<float> turnedf(float angle) {
    turned_by<float> y;
    sincosf(angle, &y.sine, &y.cosine);
    return y;
}

// The quotient rounded down, and what it leaves. By 0 both are 0, and the lowest number by -1 wraps
// around.
template <typename T> __device__ __forceinline__ T floor_quotient(T a, T b) {
    if (b == T(0)) return T(0);
    if constexpr (T(-1) < T(1)) {
        if (b == T(-1)) return T(0ull - (unsigned long long)a);
        T q = a / b;
        return a % b != T(0) && ((a < T(0)) != (b < T(0))) ? T(q - 1) : q;
    } else
        return a / b;
}
template <typename T> __device__ __forceinline__ T floor_remainder(T a, T b) {
    if (b == T(0)) return T(0);
    if constexpr (T(-1) < T(1)) {
        if (b == T(-1)) return T(0);
        T r = a % b;
        return r != T(0) && ((r < T(0)) != (b < T(0))) ? T(r + b) : r;
    } else
        return a % b;
}

template <typename T> __device__ __forceinline__ unsigned short bits_of(T x) { return x.bits; }
template <typename T> __device__ __forceinline__ T of_bits(unsigned short bits) {
    T x;
    x.bits = bits;
    return x;
}
