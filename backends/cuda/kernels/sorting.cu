// Rows in order: tiles of them in shared memory, then runs merged in pairs. Equal elements stay in
// their order; NaN comes last, and first where the largest come first.
#include "common.cuh"
#include "complex.cuh"

// Classes of numbers, each behind those before it: without NaN, with it in the imaginary part, ...
template <typename T> __device__ __forceinline__ int nans(T a) { return a != a; }
template <typename R> __device__ __forceinline__ int nans(complex_t<R> a) {
    return 2 * (a.re != a.re) + (a.im != a.im);
}

template <typename T> __device__ __forceinline__ bool less(T a, T b) {
    return a < b || nans(a) < nans(b);
}
template <typename R> __device__ __forceinline__ bool less(complex_t<R> a, complex_t<R> b) {
    if (nans(a) != nans(b)) return nans(a) < nans(b);
    return a.re < b.re || (!(b.re < a.re) && a.im < b.im);
}

template <typename T, bool DOWN> __device__ __forceinline__ bool precedes(T a, T b) {
    typedef accumulator_t<T> A;
    return DOWN ? less(A(b), A(a)) : less(A(a), A(b));
}

// Where element i of a row is in an array of shape (outer, length, inner).
__device__ __forceinline__ index_t place_of(
    index_t row, index_t i, index_t length, index_t inner
) {
    return (row / inner * length + i) * inner + row % inner;
}

// Sorts tiles, whose length is a power of two; a block has several of them, or one.
template <typename T, bool DOWN> __global__ void sort_tiles(
    void *values_, void *places_, const void *x_, index_t rows, index_t length, index_t inner,
    index_t tile, index_t abreast, index_t last
) {
    extern __shared__ __align__(16) unsigned char shared[];
    T *own = reinterpret_cast<T *>(shared);
    int *order = reinterpret_cast<int *>(own + tile * abreast);
    const T *x = static_cast<const T *>(x_);
    T *values = static_cast<T *>(values_);
    long long *places = static_cast<long long *>(places_);
    index_t tiles = (length + tile - 1) / tile, first = index_t(blockIdx.x) * abreast;
    int log = __ffs(int(tile)) - 1, size = int(tile), all = int(tile * abreast);
    for (int e = threadIdx.x; e < all; e += blockDim.x) {
        index_t number = first + (e >> log), row = number / tiles;
        index_t i = (number - row * tiles) * tile + (e & (size - 1));
        bool there = row < rows && i < length;
        if (there) own[e] = x[place_of(row, i, length, inner)];
        // Missing elements stay behind all others.
        order[e] = there ? e & (size - 1) : size + (e & (size - 1));
    }
    for (int width = 2; width <= size; width *= 2)
        for (int step = width / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int pair = threadIdx.x; pair < all / 2; pair += blockDim.x) {
                int e = 2 * pair - (pair & (step - 1)), base = e & ~(size - 1);
                int a = order[e], b = order[e + step];
                bool wrong;
                if (a >= size || b >= size) {
                    wrong = a > b;
                } else {
                    T u = own[base + a], v = own[base + b];
                    wrong = precedes<T, DOWN>(v, u) || (!precedes<T, DOWN>(u, v) && a > b);
                }
                if (wrong == ((e & width & (size - 1)) == 0)) {
                    order[e] = b;
                    order[e + step] = a;
                }
            }
        }
    __syncthreads();
    for (int e = threadIdx.x; e < all; e += blockDim.x) {
        index_t number = first + (e >> log), row = number / tiles;
        index_t start = (number - row * tiles) * tile, i = start + (e & (size - 1));
        if (row >= rows || i >= length) continue;
        index_t to = last ? place_of(row, i, length, inner) : row * length + i;
        if (values) values[to] = own[(e & ~(size - 1)) + order[e]];
        if (places) places[to] = start + order[e];
    }
}

// Every element finds, by halving, how many of the run beside its own precede it.
template <typename T, bool DOWN> __global__ void merge_runs(
    void *values_, void *places_, const void *from_, const void *places_from_, index_t rows,
    index_t length, index_t inner, index_t run, index_t last
) {
    index_t e = index_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (e >= rows * length) return;
    index_t row = e / length, i = e - row * length, number = i / run;
    const T *from = static_cast<const T *>(from_) + row * length;
    T *values = static_cast<T *>(values_);
    long long *places = static_cast<long long *>(places_);
    T own = from[i];
    bool left = number % 2 == 0;
    index_t beside = (left ? number + 1 : number - 1) * run;
    index_t low = min(beside, length), end = min(beside + run, length), start = low;
    while (low < end) {
        index_t middle = (low + end) / 2;
        T other = from[middle];
        if (left ? precedes<T, DOWN>(other, own) : !precedes<T, DOWN>(own, other))
            low = middle + 1;
        else
            end = middle;
    }
    index_t to = (number - !left) * run + i - number * run + low - start;
    to = last ? place_of(row, to, length, inner) : row * length + to;
    if (values) values[to] = own;
    if (places) places[to] = static_cast<const long long *>(places_from_)[e];
}
