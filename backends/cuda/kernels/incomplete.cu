// Derivatives of incomplete gamma and beta functions by their parameters, an element a thread, in
// double precision. NumPy's, in special_gamma.py and special_beta.py, say what is integrated.
#include "common.cuh"
#include "remainders.cuh"
#include "zeta.cuh"

// An integrand is followed until it has fallen by this exponent; as many nodes are on a panel.
#define DROP 45.0
#define NODES 64
#define NEWTON_STEPS 20
// A first derivative by the gamma function's parameter is the same from here down to 0.
#define TINY 1e-150
#define HALF_LOG_TWO_PI 0.91893853320467274178
struct rule {
    const double *places, *weights;
};

__device__ double remainder_of_log(double u) { return log_remainder()(u); }
__device__ double remainder_of_exp(double u) { return exp_remainder()(u); }
__device__ double error_of_stirling(double z) { return stirling_error()(z); }
__device__ double gap(double z) { return digamma_gap()(z); }

__device__ double whole_power(double x, int n) {
    double out = 1;
    for (int i = 0; i < n; ++i) out *= x;
    return out;
}

// The k-th derivative of digamma, k from 1 up: (-1)^(k + 1) k! zeta(k + 1, x) for x > 0: DLMF
// 5.15.1 and 25.11.43.
__device__ double polygamma(int k, double x) {
    double w = x, total = 0, size = k % 2 ? 1 : -1;
    for (int i = 2; i <= k; ++i) size *= i;
    for (; w < ZETA_LARGE; w += 1) total += whole_power(1 / w, k + 1);
    double term = whole_power(1 / w, k + 1), factor = (k + 1) * term / w;
    total += w * term / k + 0.5 * term;
    for (int i = 0; i < ZETA_TERMS; ++i) {
        total += ZETA[i] * factor;
        factor *= (k + 2 * i + 2.0) * (k + 2 * i + 3.0) / (w * w);
    }
    return size * total;
}

__device__ constexpr double binomial(int n, int k) {
    double out = 1;
    for (int i = 1; i <= k; ++i) out = out * (n - k + i) / i;
    return out;
}

// The integral of a function of a distance, from 0 to a length.
template <bool LOGARITHMIC, typename F>
__device__ double integral(const F &integrand, double length, rule nodes) {
    double span = LOGARITHMIC ? log1p(length) : length, total = 0;
    for (int i = 0; i < NODES; ++i) {
        double step = span * nodes.places[i];
        if (LOGARITHMIC)
            total += nodes.weights[i] * (integrand(expm1(step)) * exp(step));
        else
            total += nodes.weights[i] * integrand(step);
    }
    return span * total;
}

// -- of P(a, x) by a

template <int ORDER> struct gamma_panel {
    double a, x, sign, level, cumulants[ORDER];

    __device__ double operator()(double d) const {
        double drop = sign * (x - a) * d + x * remainder_of_exp(sign * d);
        double made[ORDER + 1], own = level + sign * d;
        made[0] = 1;
#pragma unroll
        for (int m = 0; m < ORDER; ++m) {
            made[m + 1] = own * made[m];
#pragma unroll
            for (int k = 1; k <= m; ++k)
                made[m + 1] += binomial(m, k) * cumulants[k - 1] * made[m - k];
        }
        return made[ORDER] * exp(-drop);
    }

    // Over distances from log x up or down to a length.
    template <bool UPWARDS>
    __device__ double over(double from, double length, rule nodes) {
        x = from;
        sign = UPWARDS ? 1 : -1;
        bool near = fabs(x - a) < 0.5 * a;
        double ratio = (x - a) / a, far = log(x) - log(a);
        level = (near ? log1p(ratio) : far) + gap(a);
        double mass = near ? a * remainder_of_log(ratio) : a * far - (x - a);
        mass += 0.5 * log(a) - error_of_stirling(a) - HALF_LOG_TWO_PI;
        return exp(mass) * integral<!UPWARDS>(*this, length, nodes);
    }

    template <bool UPWARDS> __device__ double tail(double from, rule nodes) {
        double way = UPWARDS ? 1 : -1, linear = way * (from - a);
        double d = UPWARDS ? sqrt(2 * DROP / from) : (DROP + from) / a;
        for (int i = 0; i < NEWTON_STEPS; ++i) {
            double growth = expm1(way * d), drop = linear * d + from * (growth - way * d);
            d -= (drop - DROP) / (linear + from * way * growth);
        }
        return over<UPWARDS>(from, d, nodes);
    }
};

template <int ORDER> __device__ double gamma_grad(double a, double x, rule nodes) {
    if (!(a >= 0) || isinf(a) || !(x >= 0)) return nan("");
    if (x == 0 || isinf(x)) return 0;
    if (a <= TINY) {
        if (ORDER > 1) return nan("");
        a = 2 * TINY;
    }
    gamma_panel<ORDER> panel;
    panel.a = a;
    for (int k = 1; k < ORDER; ++k) panel.cumulants[k - 1] = -polygamma(k, a);
    if (log(x) < log(a) - gap(a)) return panel.template tail<false>(x, nodes);
    double knee = fmax(fmax(a, 1.0), x), length = log(knee) - log(x);
    double total = -panel.template tail<true>(knee, nodes);
    return length > 0 ? total - panel.template over<false>(knee, length, nodes) : total;
}

// -- of I_x(a, b) by a and b

template <int BY_A, int BY_B> struct beta_panel {
    // The cumulants are by the parameters as they were given; exchanged says that a and b are not.
    double a, b, part, linear, first, second, cumulants[BY_A + 1][BY_B + 1];
    bool exchanged, downwards;

    __device__ double derivative(int n, int m, double by_a, double by_b) const {
        return n + m > 1 ? cumulants[n][m] : n ? by_a : by_b;
    }

    __device__ double polynomial(double by_a, double by_b) const {
        double made[BY_A + 1][BY_B + 1];
#pragma unroll
        for (int n = 0; n <= BY_A; ++n) {
#pragma unroll
            for (int m = 0; m <= BY_B; ++m) {
                int p = n ? n - 1 : 0, q = n ? m : m - 1, i = n ? 1 : 0;
                double total = n + m ? 0 : 1;
#pragma unroll
                for (int j = 0; j <= p; ++j)
#pragma unroll
                    for (int k = 0; k <= q; ++k)
                        total += binomial(p, j) * binomial(q, k) *
                                 derivative(j + i, k + 1 - i, by_a, by_b) * made[p - j][q - k];
                made[n][m] = total;
            }
        }
        return made[BY_A][BY_B];
    }

    __device__ double operator()(double d) const {
        double change = part * expm1(-d), spread = log1p(change), total = a + b, drop;
        if (d < 1)
            drop = total * (remainder_of_log(change) + part * remainder_of_exp(-d)) + linear * d;
        else
            drop = (downwards ? a : b) * d + total * spread;
        double one = first + (downwards ? -d - spread : -spread);
        double other = second + (downwards ? -spread : -d - spread);
        return (exchanged ? polynomial(other, one) : polynomial(one, other)) * exp(-drop);
    }

    // The derivative of the density's logarithm by p.
    __device__ double mean_level(double p, double q, double x, double y) const {
        double u = (x * q - p * y) / p;
        double level = fabs(u) < 0.5 ? log1p(u) : log(x) - log(p / (p + q));
        return level + gap(p) - gap(p + q);
    }

    // One of the two like parts of the logarithm of the density.
    __device__ double share(double p, double t, double u) const {
        return p * (u > -0.5 ? remainder_of_log(u) : log(t) - log(p / (a + b)) - u);
    }

    // Over distances in s from x, up to a length.
    __device__ double over(double x, double y, bool down, double length, rule nodes) {
        downwards = down;
        double excess = x * b - a * y;
        double mass = share(a, x, excess / a) + share(b, y, -excess / b) +
                      error_of_stirling(a + b) - error_of_stirling(a) - error_of_stirling(b) +
                      0.5 * (log(a) + log(b) - log(a + b)) - HALF_LOG_TWO_PI;
        first = mean_level(a, b, x, y);
        second = mean_level(b, a, y, x);
        part = down ? x : y;
        linear = down ? -excess : excess;
        return exp(mass) * integral<true>(*this, length, nodes);
    }

    __device__ double lower_tail(double x, double y, rule nodes) {
        double up = fmax(a, 1.0), down = fmax(b, 1.0), both = up + down;
        // Beyond the knee the integrand rises, or is flat, before it falls.
        bool beyond = x * down > y * up;
        double knee = beyond ? up / both : x, rest = beyond ? down / both : y;
        // The drop is convex and increasing: from beyond, steps come down to where it is done.
        double d = (DROP - (a + b) * log(rest)) / a;
        for (int i = 0; i < NEWTON_STEPS; ++i) {
            double change = knee * expm1(-d);
            double rate = a - (a + b) * (knee + change) / (1 + change);
            d -= (a * d + (a + b) * log1p(change) - DROP) / rate;
        }
        double total = over(knee, rest, true, d, nodes);
        if (beyond) total += over(knee, rest, false, log(x / y) - log(up / down), nodes);
        return total;
    }
};

template <int BY_A, int BY_B> __device__ double beta_grad(double a, double b, double x, rule nodes) {
    if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) return nan("");
    if (x == 0 || x == 1) return 0;
    beta_panel<BY_A, BY_B> panel;
    for (int n = 0; n <= BY_A; ++n) {
        for (int m = 0; m <= BY_B; ++m) {
            int k = n + m - 1;
            if (k < 1) continue;
            double value = polygamma(k, a + b);
            if (!m) value -= polygamma(k, a);
            if (!n) value -= polygamma(k, b);
            panel.cumulants[n][m] = value;
        }
    }
    double both = log(a + b) - gap(a + b), y = 1 - x;
    bool below = BY_A ? log(x) < log(a) - gap(a) - both : log1p(-x) > log(b) - gap(b) - both;
    panel.exchanged = !below;
    panel.a = below ? a : b;
    panel.b = below ? b : a;
    double tail = panel.lower_tail(below ? x : y, below ? y : x, nodes);
    return below ? tail : -tail;
}

template <int ORDER>
__global__ void gamma_grads(const double *a, const double *x, double *out, const double *places,
                             const double *weights, index_t size) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i < size) out[i] = gamma_grad<ORDER>(a[i], x[i], rule{places, weights});
}

template <int BY_A, int BY_B>
__global__ void beta_grads(const double *a, const double *b, const double *x, double *out,
                            const double *places, const double *weights, index_t size) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i < size) out[i] = beta_grad<BY_A, BY_B>(a[i], b[i], x[i], rule{places, weights});
}
