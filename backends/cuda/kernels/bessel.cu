// Bessel functions of an order, in double precision, an element a thread.
//
// Where the order is beyond the argument, J and I are the solutions of their recurrences that fall,
// so that these are run downwards from zeros far above (J. C. P. Miller's algorithm) and scaled by a
// sum that is known: DLMF 10.12.4 and 10.35.5. K is an integral that the trapezoidal rule does to
// rounding.
#include "common.cuh"

#define PI 3.14159265358979323846
#define BIG 1e200
#define SMALL 1e-200
// An integrand is followed until it has fallen by this exponent.
#define DROP 45.0

__device__ double odd_sign(double n) { return fmod(n, 2.0) == 0 ? 1.0 : -1.0; }

struct first_kind {
    __device__ double operator()(double n, double x) const {
        double sign = 1;
        if (x != x) return x;
        if (n < 0) n = -n, sign *= odd_sign(n);
        if (x < 0) x = -x, sign *= odd_sign(n);
        if (x == 0) return n == 0 ? 1 : 0;
        if (x > 1e300) return 0;
        if (n == 0) return j0(x);
        if (n == 1) return sign * j1(x);
        if (x > n) {
            double below = j0(x), here = j1(x);
            for (double k = 1; k < n; ++k) {
                double above = 2 * k / x * here - below;
                below = here;
                here = above;
            }
            return sign * here;
        }
        double above = 0, here = SMALL, total = 0, found = 0;
        for (double k = 2 * floor((n + 10 + sqrt(400 * n)) / 2); k > 0; --k) {
            double below = 2 * k / x * here - above;
            above = here;
            here = below;
            if (fabs(here) > BIG) here *= SMALL, above *= SMALL, total *= SMALL, found *= SMALL;
            // Now here is at k - 1.
            if (fmod(k, 2.0) == 1) total += k == 1 ? here : 2 * here;
            if (k == n) found = above;
        }
        return sign * found / total;
    }
};

struct second_kind {
    __device__ double operator()(double n, double x) const {
        double sign = 1;
        if (n < 0) n = -n, sign = odd_sign(n);
        if (x < 0 || x != x) return nan("");
        if (x == 0) return sign * log(x);
        if (x > 1e300) return 0;
        if (n == 0) return y0(x);
        double below = y0(x), here = y1(x);
        for (double k = 1; k < n && !isinf(here); ++k) {
            double above = 2 * k / x * here - below;
            below = here;
            here = above;
        }
        return sign * here;
    }
};

// exp(x) times K of any real order: the integral over t from 0 of exp(-x (cosh t - 1)) cosh(v t),
// DLMF 10.32.9.
__device__ double scaled_k(double v, double x) {
    v = fabs(v);
    if (x < 0 || x != x || v != v) return nan("");
    if (x == 0) return -log(x);
    if (isinf(x)) return 0;
    double peak = asinh(v / x), step = fmin(0.15, 0.5 / sqrt(hypot(x, v)));
    double half = sinh(0.5 * peak), most = v * peak - 2 * x * half * half, total = 0;
    for (double k = 0;; ++k) {
        double t = k * step, s = sinh(0.5 * t), fall = 2 * x * s * s;
        double rising = v * t - fall;
        total += (k == 0 ? 0.5 : 1) * 0.5 * (exp(rising - most) + exp(-v * t - fall - most));
        if (t > peak && rising < most - DROP) break;
    }
    return exp(most) * step * total;
}

// exp(-x) times I of an order that is not negative, for x that is not either.
__device__ double scaled_i(double v, double x) {
    if (x == 0) return v == 0 ? 1 : 0;
    if (isinf(x)) return 0;
    if (x > fmax(30.0, v * v)) {
        // DLMF 10.40.1
        double term = 1, total = 1;
        for (double k = 1; k < 60; ++k) {
            double next = -term * (4 * v * v - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
            if (fabs(next) >= fabs(term)) break;
            term = next;
            total += term;
        }
        return total / sqrt(2 * PI * x);
    }
    if (v == floor(v)) {
        double above = 0, here = SMALL, total = 0, found = 0;
        for (double k = floor(v + 20 + sqrt(100 * (v + x))); k > 0; --k) {
            double below = 2 * k / x * here + above;
            if (k == v) found = here;
            total += 2 * here;
            above = here;
            here = below;
            if (here > BIG) here *= SMALL, above *= SMALL, total *= SMALL, found *= SMALL;
        }
        return (v == 0 ? here : found) / (total + here);
    }
    // DLMF 10.25.2
    double square = 0.25 * x * x, term = 1, total = 1;
    double logarithm = v * log(0.5 * x) - lgamma(v + 1) - x;
    for (double k = 1; k < 1e6; ++k) {
        term *= square / (k * (k + v));
        total += term;
        if (term < 1e-17 * total) break;
        if (total > BIG) total *= SMALL, term *= SMALL, logarithm -= log(SMALL);
    }
    return exp(logarithm + log(total));
}

template <bool SCALED> struct modified_first {
    __device__ double operator()(double v, double x) const {
        if (x != x || v != v) return x + v;
        double size = fabs(x), sign = 1;
        bool whole = v == floor(v);
        if (x < 0) {
            if (!whole) return nan("");
            sign = odd_sign(v);
        }
        double out = scaled_i(fabs(v), size);
        if (!SCALED) out = exp(0.5 * size) * out * exp(0.5 * size);
        if (v < 0 && !whole) {
            // DLMF 10.27.2
            double other = 2 / PI * sin(-v * PI) * scaled_k(v, size);
            out += other * exp(SCALED ? -2 * size : -size);
        }
        return isinf(x) && !SCALED ? sign * size : sign * out;
    }
};

template <bool SCALED> struct modified_second {
    __device__ double operator()(double v, double x) const {
        double out = scaled_k(v, x);
        return SCALED ? out : out * exp(-x);
    }
};

template <typename F>
__global__ void bessel(const double *order, const double *x, double *out, index_t size) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i < size) out[i] = F()(order[i], x[i]);
}
