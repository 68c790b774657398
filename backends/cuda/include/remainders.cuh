// Functions without their leading terms, as special_remainders.py has them for NumPy.
#pragma once

// From here on the series of log gamma and digamma in these terms are exact: DLMF 5.11.1, 5.11.2.
#define LARGE 12.0
#define TERMS 8
__constant__ double STIRLING[TERMS] = {1. / 12,   -1. / 360,       1. / 1260, -1. / 1680,
                                       1. / 1188, -691. / 360360, 1. / 156,  -3617. / 122400};
__constant__ double DIGAMMA[TERMS] = {1. / 12,  -1. / 120,      1. / 252, -1. / 240,
                                      1. / 132, -691. / 32760, 1. / 12,  -3617. / 8160};

__device__ double descending(double z, const double *coefficients) {
    double w = 1 / (z * z), total = 0;
    for (int k = TERMS - 1; k >= 0; --k) total = total * w + coefficients[k];
    return total;
}

struct log_remainder {
    __device__ double operator()(double u) const {
        if (!(fabs(u) < 0.5)) return log1p(u) - u;
        double r = u / (2 + u), square = r * r, total = 0;
        for (int k = 37; k > 1; k -= 2) total = total * square + 1.0 / k;
        return r * (2 * square * total - u);
    }
};

struct exp_remainder {
    __device__ double operator()(double u) const {
        if (!(fabs(u) < 0.5)) return expm1(u) - u;
        double total = 1;
        for (int k = 15; k > 2; --k) total = 1 + total * u / k;
        return 0.5 * u * u * total;
    }
};

struct stirling_error {
    __device__ double operator()(double z) const {
        if (z >= LARGE) return descending(z, STIRLING) / z;
        return lgamma(z) - (z - 0.5) * log(z) + z - 0.91893853320467274178;
    }
};

struct digamma_gap {
    __device__ double operator()(double z) const {
        double w = z, total = 0;
        for (; w > 0 && w < LARGE; w += 1) total += 1 / w;
        return log(z / w) + total + 0.5 / w + descending(w, DIGAMMA) / (w * w);
    }
};
