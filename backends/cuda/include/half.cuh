// The two formats of 16 bits: stored as they are, computed with as float.
#pragma once

struct half_t {
    unsigned short bits;

    half_t() = default;
    __device__ __forceinline__ half_t(float value) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    }
    __device__ __forceinline__ operator float() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};

struct bfloat16_t {
    unsigned short bits;

    bfloat16_t() = default;
    __device__ __forceinline__ bfloat16_t(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        // The instruction for two numbers is the quicker one, also for one.
        unsigned int both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(value));
        bits = static_cast<unsigned short>(both);
#else
        unsigned int word = __float_as_uint(value);
        // Round to nearest, ties to even; a NaN keeps its upper bits and stays one.
        bits = value != value ? (word >> 16) | 0x40 : (word + 0x7fff + ((word >> 16) & 1)) >> 16;
#endif
    }
    __device__ __forceinline__ operator float() const {
        return __uint_as_float(static_cast<unsigned int>(bits) << 16);
    }
};
