// Complex numbers: pairs of a real and an imaginary part, as NumPy stores them.
#pragma once

template <typename R> struct alignas(2 * sizeof(R)) complex_t {
    R re, im;

    complex_t() = default;
    __device__ __forceinline__ complex_t(R re, R im = R(0)) : re(re), im(im) {}
};

template <typename R>
__device__ __forceinline__ complex_t<R> operator+(complex_t<R> a, complex_t<R> b) {
    return complex_t<R>(a.re + b.re, a.im + b.im);
}
template <typename R>
__device__ __forceinline__ complex_t<R> operator-(complex_t<R> a, complex_t<R> b) {
    return complex_t<R>(a.re - b.re, a.im - b.im);
}
template <typename R>
__device__ __forceinline__ complex_t<R> operator*(complex_t<R> a, complex_t<R> b) {
    return complex_t<R>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
// By a real number: without the products with zero that infinite parts would make NaN.
template <typename R> __device__ __forceinline__ complex_t<R> operator/(complex_t<R> a, R b) {
    return complex_t<R>(a.re / b, a.im / b);
}
template <typename R> __device__ __forceinline__ bool operator==(complex_t<R> a, complex_t<R> b) {
    return a.re == b.re && a.im == b.im;
}
template <typename R> __device__ __forceinline__ bool operator!=(complex_t<R> a, complex_t<R> b) {
    return !(a == b);
}
// NumPy's order: by the real parts, then by the imaginary ones.
template <typename R> __device__ __forceinline__ bool operator<(complex_t<R> a, complex_t<R> b) {
    return a.re < b.re || (a.re == b.re && a.im < b.im);
}
template <typename R> __device__ __forceinline__ bool operator>(complex_t<R> a, complex_t<R> b) {
    return b < a;
}
