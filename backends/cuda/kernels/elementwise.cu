// Arithmetic and elementary functions, element by element, on contiguous arrays.
#include "common.cuh"

#define UNARY(name, expression)                                                                    \
    struct name {                                                                                  \
        template <typename A> __device__ __forceinline__ A operator()(A x) const {                 \
            return expression;                                                                     \
        }                                                                                          \
    };

UNARY(absolute_op, fabs(x))
UNARY(arcsinh_op, asinh(x))
UNARY(arctan_op, atan(x))
UNARY(ceil_op, ceil(x))
UNARY(cos_op, cos(x))
UNARY(cosh_op, cosh(x))
UNARY(exp_op, exp(x))
UNARY(exp2_op, exp2(x))
UNARY(expm1_op, expm1(x))
UNARY(floor_op, floor(x))
UNARY(log_op, log(x))
UNARY(log10_op, log10(x))
UNARY(log1p_op, log1p(x))
UNARY(log2_op, log2(x))
UNARY(negative_op, -x)
UNARY(reciprocal_op, A(1) / x)
UNARY(rint_op, rint(x))
UNARY(sin_op, sin(x))
UNARY(sinh_op, sinh(x))
UNARY(sqrt_op, sqrt(x))
UNARY(square_op, x *x)
UNARY(tan_op, tan(x))
UNARY(tanh_op, tanh(x))
UNARY(trunc_op, trunc(x))

#define BINARY(name, expression)                                                                   \
    struct name {                                                                                  \
        template <typename A> __device__ __forceinline__ A operator()(A x, A y) const {            \
            return expression;                                                                     \
        }                                                                                          \
    };

BINARY(add_op, x + y)
BINARY(subtract_op, x - y)
BINARY(multiply_op, x *y)
BINARY(divide_op, x / y)
// NaN if one is.
BINARY(maximum_op, x >= y || x != x ? x : y)
BINARY(minimum_op, x <= y || x != x ? x : y)

// Products of a cotangent g and a derivative, which is written with the operand or the result.
#define GRAD(name, expression)                                                                     \
    struct name {                                                                                  \
        template <typename A> __device__ __forceinline__ A operator()(A g, A x) const {            \
            return expression;                                                                     \
        }                                                                                          \
    };

GRAD(absolute_grad, x > 0 ? g : x < 0 ? -g : g * x)
GRAD(arctan_grad, g / (A(1) + x * x))
GRAD(cos_grad, -g *sin(x))
GRAD(cosh_grad, g *sinh(x))
GRAD(expm1_grad, g *(x + A(1)))
GRAD(log1p_grad, g / (A(1) + x))
GRAD(reciprocal_grad, -g *x *x)
GRAD(sin_grad, g *cos(x))
GRAD(sinh_grad, g *cosh(x))
GRAD(sqrt_grad, A(0.5) * g / x)
GRAD(square_grad, g *(x + x))
GRAD(tan_grad, g *(A(1) + x * x))

// One operand: every thread does N elements, those of the last one that there are.
template <typename T, typename F, int N>
__global__ void unary(const T *x, T *out, index_t size) {
    typedef accumulator_t<T> A;
    index_t start = (blockIdx.x * index_t(blockDim.x) + threadIdx.x) * N;
    if (start >= size) return;
    if (N == 1 || start + N > size) {
        for (index_t i = start; i < size && i < start + N; ++i) out[i] = T(F()(A(x[i])));
        return;
    }
    pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(x + start), made;
#pragma unroll
    for (int i = 0; i < N; ++i) made[i] = T(F()(A(in[i])));
    *reinterpret_cast<pack<T, N> *>(out + start) = made;
}

// How the elements of an operand belong to those of the result: one for all, its own for each,
// the same for every row, or the same along every row.
enum { ONE = 0, EACH = 1, EVERY_ROW = 2, ALONG_ROW = 3 };

template <int Layout> __device__ __forceinline__ index_t place(index_t i, index_t width) {
    if (Layout == ONE) return 0;
    if (Layout == EACH) return i;
    return Layout == EVERY_ROW ? i % width : i / width;
}

template <typename T, int N, int Layout>
__device__ __forceinline__ pack<T, N> load(const T *x, index_t start, index_t width) {
    if constexpr (Layout == EACH) {
        return *reinterpret_cast<const pack<T, N> *>(x + start);
    } else {
        pack<T, N> values;
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = x[place<Layout>(start + i, width)];
        return values;
    }
}

// Two operands, each of the result's shape or one number; `out` may be one of them.
template <typename T, typename F, int N, int Left, int Right>
__global__ void pairs(const T *x, const T *y, T *out, index_t size) {
    typedef accumulator_t<T> A;
    index_t start = (blockIdx.x * index_t(blockDim.x) + threadIdx.x) * N;
    if (start >= size) return;
    if (N == 1 || start + N > size) {
        for (index_t i = start; i < size && i < start + N; ++i)
            out[i] = T(F()(A(x[place<Left>(i, 1)]), A(y[place<Right>(i, 1)])));
        return;
    }
    pack<T, N> a = load<T, N, Left>(x, start, 1), b = load<T, N, Right>(y, start, 1), made;
#pragma unroll
    for (int i = 0; i < N; ++i) made[i] = T(F()(A(a[i]), A(b[i])));
    *reinterpret_cast<pack<T, N> *>(out + start) = made;
}

// Both derivatives of a product x * y, by the cotangent g.
template <typename T, int N>
__global__ void products(const T *g, const T *x, const T *y, T *by_x, T *by_y, index_t size) {
    typedef accumulator_t<T> A;
    index_t start = (blockIdx.x * index_t(blockDim.x) + threadIdx.x) * N;
    if (start >= size) return;
    if (N == 1 || start + N > size) {
        for (index_t i = start; i < size && i < start + N; ++i) {
            by_x[i] = T(A(g[i]) * A(y[i]));
            by_y[i] = T(A(g[i]) * A(x[i]));
        }
        return;
    }
    pack<T, N> c = load<T, N, EACH>(g, start, 1), a = load<T, N, EACH>(x, start, 1),
               b = load<T, N, EACH>(y, start, 1), first, second;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        first[i] = T(A(c[i]) * A(b[i]));
        second[i] = T(A(c[i]) * A(a[i]));
    }
    *reinterpret_cast<pack<T, N> *>(by_x + start) = first;
    *reinterpret_cast<pack<T, N> *>(by_y + start) = second;
}

// Two operands, one of the result's shape and one that is spread over it, in rows of a width.
template <typename T, typename F, int N, int Left, int Right>
__global__ void binary(const T *x, const T *y, T *out, index_t size, index_t width) {
    typedef accumulator_t<T> A;
    index_t start = (blockIdx.x * index_t(blockDim.x) + threadIdx.x) * N;
    if (start >= size) return;
    if (N == 1 || start + N > size) {
        for (index_t i = start; i < size && i < start + N; ++i)
            out[i] = T(F()(A(x[place<Left>(i, width)]), A(y[place<Right>(i, width)])));
        return;
    }
    pack<T, N> a = load<T, N, Left>(x, start, width), b = load<T, N, Right>(y, start, width), made;
#pragma unroll
    for (int i = 0; i < N; ++i) made[i] = T(F()(A(a[i]), A(b[i])));
    *reinterpret_cast<pack<T, N> *>(out + start) = made;
}

// An array and one with an element for each place on axes in its middle: `width` neighbours have the
// same, after `count` of these the first comes again. A pack has one; which is the left operand if
// Swapped.
template <typename T, typename F, int N, bool Swapped>
__global__ void channels(const T *x, const T *y, T *out, index_t size, index_t width,
                         index_t count) {
    typedef accumulator_t<T> A;
    index_t start = (blockIdx.x * index_t(blockDim.x) + threadIdx.x) * N;
    if (start >= size) return;
    index_t channel = size <= 0x7fffffff ? unsigned(start) / unsigned(width) % unsigned(count)
                                         : start / width % count;
    A b = A(y[channel]);
    pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(x + start), made;
#pragma unroll
    for (int i = 0; i < N; ++i) made[i] = T(Swapped ? F()(b, A(in[i])) : F()(A(in[i]), b));
    *reinterpret_cast<pack<T, N> *>(out + start) = made;
}

// An array and a number, which is the left operand if Swapped.
template <typename T, typename F, int N, bool Swapped>
__global__ void with_number(const T *x, double number, T *out, index_t size) {
    typedef accumulator_t<T> A;
    index_t start = (blockIdx.x * index_t(blockDim.x) + threadIdx.x) * N;
    if (start >= size) return;
    A y = A(T(A(number)));
    if (N == 1 || start + N > size) {
        for (index_t i = start; i < size && i < start + N; ++i)
            out[i] = T(Swapped ? F()(y, A(x[i])) : F()(A(x[i]), y));
        return;
    }
    pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(x + start), made;
#pragma unroll
    for (int i = 0; i < N; ++i) made[i] = T(Swapped ? F()(y, A(in[i])) : F()(A(in[i]), y));
    *reinterpret_cast<pack<T, N> *>(out + start) = made;
}
