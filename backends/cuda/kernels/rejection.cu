// Random numbers that are proposed until one is accepted, and moments of the gamma distribution: an
// element a thread, in double precision. The modules backends/arrays/rejection.py and
// backends/arrays/gamma_moments.py say what is computed, and name the sources.
//
// Proposals of integers are made of products that are rounded before they are added, as on the CPU,
// so that both draw the same ones.
#include "philox.cuh"

#define PI 3.14159265358979323846
#define TAU (2 * PI)

const word_t FIRST_STREAM = 16;
// A mean of up to this is drawn by inversion; beyond this count lies less than 2**-64 of it.
const double INVERTED_MEAN = 10;
const int INVERTED_LIMIT = 64;
const double LARGEST = 4611686018427387904.0;

// -- counts

const int LOGS = 16;
__constant__ double log_factorials[LOGS] = {
    0.0,
    0.0,
    0.693147180559945,
    1.7917594692280554,
    3.178053830347945,
    4.787491742782047,
    6.579251212010102,
    8.525161361065415,
    10.604602902745249,
    12.801827480081467,
    15.104412573075514,
    17.502307845873887,
    19.987214495661885,
    22.55216385312342,
    25.191221182738683,
    27.89927138384089,
};

// log(n!) less Stirling's formula, for n > 0.
__device__ double stirling(double n) {
    if (n < LOGS) {
        n = fmax(n, 1.0);
        return log_factorials[static_cast<int>(n)] - ((n + 0.5) * log(n) - n + 0.5 * log(TAU));
    }
    double r = 1 / n, q = r * r;
    return r * (1.0 / 12 - q * (1.0 / 360 - q * (1.0 / 1260 - q * (1.0 / 1680 - q / 1188))));
}

// k log(k / mean) + mean - k, without losing digits where k is near the mean.
__device__ double deviance(double k, double mean) {
    if (!(k > 0)) return mean;
    double e = (mean - k) / fmax(k, 1.0);
    return k * (e - log1p(e));
}

// The smallest k whose cumulative probability exceeds a uniform number, given the probability of 0
// and that of k over that of k - 1.
template <typename F> __device__ double inverted(double unit, double first, F ratio) {
    double term = first, total = first, k = 0;
    for (int number = 1; number <= INVERTED_LIMIT && unit > total; number++) {
        k = number;
        term = __dmul_rn(term, ratio(k));
        total += term;
    }
    return k;
}

// -- the laws: whether parameters are such, and one proposal, which may be accepted

struct loggamma {
    typedef double result;
    double a, d;

    __device__ loggamma(double x, double) : a(x), d(x < 1 ? x + 2.0 / 3 : x - 1.0 / 3) {}

    __device__ bool valid() const { return a > 0 && a < INFINITY_OF(double); }

    static __device__ double refused() { return nan(""); }

    __device__ bool accepts(const double *unit, double &value) const {
        double normal = sqrt(-2 * log(unit[0])) * cos(TAU * unit[1]);
        double t = normal / sqrt(9 * d);
        if (!(t > -1)) return false;
        double log_v = 3 * log1p(t);
        double bound = normal * normal / 2 + d * (log_v - t * (3 + t * (3 + t)));
        value = log(d) + log_v;
        if (a < 1) value += log(unit[3]) / a;
        return log(unit[2]) < bound;
    }
};

struct poisson {
    typedef long long result;
    double rate;

    __device__ poisson(double x, double) : rate(x) {}

    __device__ bool valid() const { return rate >= 0 && rate <= LARGEST; }

    static __device__ long long refused() { return -1; }

    __device__ bool accepts(const double *unit, long long &value) const {
        double u = unit[0] - 0.5, v = unit[1], mean = rate;
        if (mean < INVERTED_MEAN) {
            double k = inverted(v, exp(-mean), [mean](double n) { return mean / n; });
            value = static_cast<long long>(k);
            return true;
        }
        double b = 0.931 + __dmul_rn(2.53, sqrt(rate));
        double a = -0.059 + __dmul_rn(0.02483, b);
        double us = 0.5 - fabs(u);
        double k = floor(__dmul_rn(2 * a / us + b, u) + rate + 0.43);
        value = static_cast<long long>(k);
        if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return true;
        if (!(k >= 0 && (us >= 0.013 || v <= us))) return false;
        double mass = -deviance(k, rate);
        if (k > 0) mass -= 0.5 * log(TAU * k) + stirling(k);
        double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        return log(v * inverse_alpha / (a / (us * us) + b)) <= mass;
    }
};

struct binomial {
    typedef long long result;
    double n, p, odd;

    __device__ binomial(double x, double y) : n(floor(x)), p(y > 0.5 ? 1 - y : y), odd(y) {}

    __device__ bool valid() const { return n >= 0 && n <= LARGEST && odd >= 0 && odd <= 1; }

    static __device__ long long refused() { return -1; }

    // The logarithm of the probability of k successes.
    __device__ double mass(double k) const {
        double rest = n - k;
        if (!(k > 0)) return n * log1p(-p);
        if (!(rest > 0)) return n * log(p);
        double spread = log(n / (TAU * k * rest));
        return stirling(n) - stirling(k) - stirling(rest) + 0.5 * spread - deviance(k, n * p) -
               deviance(rest, n * (1 - p));
    }

    __device__ bool accepts(const double *unit, long long &value) const {
        double u = unit[0] - 0.5, v = unit[1], mean = __dmul_rn(n, p), k;
        bool accepted = true;
        if (mean < INVERTED_MEAN) {
            double trials = n, odds = p / (1 - p);
            k = inverted(v, exp(trials * log1p(-p)), [trials, odds](double i) {
                return (trials - i + 1) / i * odds;
            });
        } else {
            double deviation = sqrt(mean * (1 - p));
            double b = 1.15 + __dmul_rn(2.53, deviation);
            double a = -0.0873 + __dmul_rn(0.0248, b) + __dmul_rn(0.01, p);
            double us = 0.5 - fabs(u);
            k = floor(__dmul_rn(2 * a / us + b, u) + mean + 0.5);
            if (!(us >= 0.07 && v <= 0.92 - 4.2 / b)) {
                if (!(k >= 0 && k <= n)) return false;
                double alpha = (2.83 + 5.1 / b) * deviation;
                double height = mass(k) - mass(floor(__dmul_rn(n + 1, p)));
                accepted = log(v * alpha / (a / (us * us) + b)) <= height;
            }
        }
        value = static_cast<long long>(odd > 0.5 ? n - k : k);
        return accepted;
    }
};

// The first accepted proposal for every element: that of round r is of its own block of the key's
// stream FIRST_STREAM + r. Parameters are read in steps of 1, or of 0 where there is but one.
template <typename Law>
__global__ void sampled(typename Law::result *out, const word_t *keys, long long key0,
                        long long key1, const double *x, long long x_step, const double *y,
                        long long y_step, long long rows, long long length) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i >= rows * length) return;
    index_t row = rows == 1 ? 0 : i / length, place = i - row * length;
    Law law(x[i * x_step], y ? y[i * y_step] : 0);
    typename Law::result value = Law::refused();
    bool pending = law.valid();
    for (word_t stream = FIRST_STREAM; pending; stream++) {
        block_t block = drawn(keys, nullptr, row, place, key0, key1, 0, stream);
        double unit[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            unit[j] = (static_cast<double>(block.words[j] >> 12) + 0.5) * 0x1p-52;
        pending = !law.accepts(unit, value);
    }
    out[i] = value;
}

// -- moments of the gamma distribution

// Up to this x a power series serves for all shape parameters.
const double SMALL = 1.5;
const int TERMS = 26;
const int NODES = 36;
// The integrand is cut off where it has fallen to exp(-CUT).
const double CUT = 40;

// Of Gauss and Legendre, on the interval [0, 1].
struct quadrature {
    double nodes[NODES];
    double weights[NODES];
};

__device__ double power(double x, long long n) {
    double out = 1;
    for (; n > 0; n--) out *= x;
    return out;
}

// The sum of (-x)**k / k! * n! / (a + k)**(n + 1) from k = 1 up.
__device__ double series(double a, double x, long long n) {
    double total = 0, term = 1;
    for (long long k = 2; k <= n; k++) term *= k;
    for (int k = 1; k < TERMS; k++) {
        term *= x / -k;
        total += term / power(a + k, n + 1);
    }
    return total;
}

// Either part from 0 to where the integrand has vanished, which a rough guess and two steps of
// Newton find.
__device__ double integral(double a, double x, long long n, const quadrature &rule) {
    bool upper = x > a;
    double side = upper ? 1 : -1, linear = fabs(a - x);
    double end = 2 * CUT / (linear + sqrt(linear * linear + 2 * CUT * x));
    if (upper) end = fmin(end, fmax(1.26, log(CUT / (0.35 * x))));
    for (int turn = 0; turn < 2; turn++) {
        double value = x * expm1(side * end) - side * a * end - CUT;
        end -= value / (side * (x * exp(side * end) - a));
    }
    double total = 0;
    for (int i = 0; i < NODES; i++) {
        double s = end * rule.nodes[i];
        double term = exp(side * a * s - x * expm1(side * s));
        total += term * power(s, n) * rule.weights[i];
    }
    return total * end;
}

__global__ void moment(double *out, const double *a, long long a_step, const double *y,
                       long long y_step, long long length, long long n,
                       const __grid_constant__ quadrature rule) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i >= length) return;
    double shape = a[i * a_step], x = exp(y[i * y_step]);
    out[i] = x <= SMALL ? series(shape, x, n) : integral(shape, x, n, rule);
}
