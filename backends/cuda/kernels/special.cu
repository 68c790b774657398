// Derivatives of digamma at complex numbers, an element a thread.
#include "common.cuh"
#include "complex.cuh"
#include "zeta.cuh"

typedef complex_t<double> number;

// Further to the left than this there are too many terms before the series begins.
#define FAR -1e7

// z to the power -s of a real s.
__device__ number reciprocal_power(number z, double s) {
    double size = exp(-s * log(hypot(z.re, z.im))), angle = -s * atan2(z.im, z.re);
    return number(size * cos(angle), size * sin(angle));
}

__device__ number scaled(number z, double factor) { return number(z.re * factor, z.im * factor); }

__device__ number reciprocal(number z) {
    double size = hypot(z.re, z.im);
    return number(z.re / size / size, -z.im / size / size);
}

// (-1)^(n + 1) n! zeta(n + 1, z) for n from 1 up: DLMF 5.15.1 and 25.11.43.
__global__ void complex_polygamma(const double *orders, const number *z, number *out,
                                  index_t size) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i >= size) return;
    double n = orders[i], s = n + 1;
    number w = z[i], total(0, 0);
    if (!(w.re > FAR)) {
        out[i] = number(0.0 / 0.0, 0.0 / 0.0);
        return;
    }
    for (; w.re < ZETA_LARGE; w.re += 1) total = total + reciprocal_power(w, s);
    number over = reciprocal(w), term = reciprocal_power(w, s);
    total = total + scaled(w * term, 1 / n) + scaled(term, 0.5);
    number factor = scaled(term * over, s);
    for (int k = 0; k < ZETA_TERMS; ++k) {
        total = total + scaled(factor, ZETA[k]);
        factor = scaled(factor * over * over, (s + 2 * k + 1) * (s + 2 * k + 2));
    }
    out[i] = scaled(total, (fmod(n, 2.0) == 0 ? -1 : 1) * tgamma(s));
}
