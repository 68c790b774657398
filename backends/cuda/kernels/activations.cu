// Activation functions, their derivatives, and the error function: one launch each.
#include "common.cuh"

constexpr int THREADS = 256;
// Wide loads of a thread, so that enough are on their way.
constexpr int TURNS = 2;

// gelu(x) is about x sigmoid(w), w = LINEAR x + CUBIC x^3. Beyond FAR the normal distribution has no
// mass that a double could hold.
struct number {
    static constexpr double LINEAR = 1.5957691216057308;
    static constexpr double CUBIC = 0.044715 * LINEAR;
    static constexpr double ROOT_HALF = 0.7071067811865476;
    static constexpr double DENSITY = 0.3989422804014327;
    static constexpr double FAR = 40.0;
};

// Below this x / (1 + exp(-x)) is zero, and -inf over inf would be NaN.
__device__ __forceinline__ float lowest(float) { return -100.0f; }
__device__ __forceinline__ double lowest(double) { return -800.0; }
// Beyond this the derivative of gelu is constant to the last digit, and exp(-w) short of overflow.
__device__ __forceinline__ float steep(float) { return 10.0f; }
__device__ __forceinline__ double steep(double) { return 20.0; }

// Limits that let NaN through.
template <typename A> __device__ __forceinline__ A at_least(A x, A low) {
    return x < low ? low : x;
}
template <typename A> __device__ __forceinline__ A within(A x, A limit) {
    return x < -limit ? -limit : x > limit ? limit : x;
}

// -- of one argument

struct relu {
    template <typename A> static __device__ A of(A x) { return at_least(x, A(0)); }
};

struct sigmoid {
    template <typename A> static __device__ A of(A x) { return A(1) / (A(1) + exp(-x)); }
};

struct hyperbolic {
    template <typename A> static __device__ A of(A x) { return tanh(x); }
};

struct silu {
    template <typename A> static __device__ A of(A x) {
        return at_least(x, lowest(x)) / (A(1) + exp(-x));
    }
};

struct softplus {
    template <typename A> static __device__ A of(A x) {
        return log1p(exp(-fabs(x))) + at_least(x, A(0));
    }
};

struct gelu {
    template <typename A> static __device__ A of(A x) {
        A odds = exp(-x * (A(number::LINEAR) + A(number::CUBIC) * (x * x)));
        return at_least(x, lowest(x)) / (A(1) + odds);
    }
};

struct gelu_grad {
    template <typename A> static __device__ A of(A x) {
        // s (1 + x w' (1 - s)), where 1 - s is exp(-w) s: nothing cancels.
        x = within(x, steep(x));
        A squared = x * x, odds = exp(-x * (A(number::LINEAR) + A(number::CUBIC) * squared));
        A s = A(1) / (A(1) + odds);
        return s * (A(1) + x * (A(number::LINEAR) + A(3 * number::CUBIC) * squared) * (odds * s));
    }
    template <typename A> static __device__ A of(A g, A x) { return g * of(x); }
};

struct gelu_exact {
    template <typename A> static __device__ A of(A x) {
        return A(0.5) * at_least(x, A(-number::FAR)) * erfc(A(-number::ROOT_HALF) * x);
    }
};

struct gelu_exact_grad {
    template <typename A> static __device__ A of(A x) {
        x = within(x, A(number::FAR));
        return A(0.5) * erfc(A(-number::ROOT_HALF) * x) + x * A(number::DENSITY) * exp(A(-0.5) * x * x);
    }
    template <typename A> static __device__ A of(A g, A x) { return g * of(x); }
};

struct error_function {
    template <typename A> static __device__ A of(A x) { return erf(x); }
};

struct error_complement {
    template <typename A> static __device__ A of(A x) { return erfc(x); }
};

// -- derivatives: a cotangent or tangent g, and the value y or the argument x

struct relu_grad {
    template <typename A> static __device__ A of(A g, A y) { return y > A(0) ? g : A(0); }
};

struct sigmoid_grad {
    template <typename A> static __device__ A of(A g, A y) { return g * (y * (A(1) - y)); }
};

struct tanh_grad {
    template <typename A> static __device__ A of(A g, A y) { return g * (A(1) - y * y); }
};

struct softplus_grad {
    template <typename A> static __device__ A of(A g, A y) { return g * -expm1(-y); }
};

struct silu_grad {
    template <typename A> static __device__ A of(A g, A x) {
        // 1 - s is exp(-x) s. The derivative and s are 0 far below zero, and 1 far above.
        A limit = A(lowest(x) * A(0.875));
        x = at_least(x > -limit ? -limit : x, limit);
        A odds = exp(-x), s = A(1) / (A(1) + odds);
        return g * (s * (A(1) + x * (odds * s)));
    }
};

// The value of an activation of x plus a bias.
template <typename F> struct biased {
    template <typename A> static __device__ A of(A x, A b) { return F::of(x + b); }
};

// -- kernels: WIDE elements at once, which all pointers are aligned for

template <typename F, typename T, int WIDE>
__global__ void __launch_bounds__(THREADS) unary(const T *x, T *out, long long n) {
    typedef accumulator_t<T> A;
    typedef pack<T, WIDE> wide;
    const index_t start = blockIdx.x * index_t(THREADS * TURNS * WIDE);
    if (start + THREADS * TURNS * WIDE <= n) {
        wide values[TURNS];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++)
            values[turn] =
                reinterpret_cast<const wide *>(x + start)[turn * THREADS + threadIdx.x];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                values[turn][j] = T(F::of(A(values[turn][j])));
            reinterpret_cast<wide *>(out + start)[turn * THREADS + threadIdx.x] = values[turn];
        }
        return;
    }
    for (index_t at = start + threadIdx.x; at < n; at += THREADS) out[at] = T(F::of(A(x[at])));
}

// Of arrays with any strides, which fold into four axes, all of them counted in elements.
template <typename F, typename T>
__global__ void __launch_bounds__(THREADS)
unary_strided(const T *x, T *out, long long n, long long n1, long long n2, long long n3,
              long long s0, long long s1, long long s2, long long s3) {
    index_t at = blockIdx.x * index_t(THREADS) + threadIdx.x;
    if (at >= n) return;
    index_t rest = at, place = rest % n3 * s3;
    rest /= n3;
    place += rest % n2 * s2;
    rest /= n2;
    place += rest % n1 * s1 + rest / n1 * s0;
    out[at] = T(F::of(accumulator_t<T>(x[place])));
}

// The second operand starts again after every `row` elements, which WIDE divides if it is shorter.
template <typename F, typename T, int WIDE>
__global__ void __launch_bounds__(THREADS)
binary(const T *x, const T *y, T *out, long long n, long long row) {
    typedef accumulator_t<T> A;
    typedef pack<T, WIDE> wide;
    const index_t start = blockIdx.x * index_t(THREADS * TURNS * WIDE);
    if (start + THREADS * TURNS * WIDE <= n) {
        wide values[TURNS], others[TURNS];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            index_t at = start + (turn * THREADS + threadIdx.x) * WIDE;
            values[turn] = *reinterpret_cast<const wide *>(x + at);
            others[turn] = *reinterpret_cast<const wide *>(y + (row == n ? at : at % row));
        }
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                values[turn][j] = T(F::of(A(values[turn][j]), A(others[turn][j])));
            reinterpret_cast<wide *>(out + start)[turn * THREADS + threadIdx.x] = values[turn];
        }
        return;
    }
    for (index_t at = start + threadIdx.x; at < n; at += THREADS)
        out[at] = T(F::of(A(x[at]), A(y[row == n ? at : at % row])));
}
