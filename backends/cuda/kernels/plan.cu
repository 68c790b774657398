// What plans do around a graph: set numbers, and copy arrays in and out.
#include "common.cuh"

template <int N> struct words {
    unsigned long long items[N];
};

// Writes numbers, 8 bytes each, that were passed by value.
template <int N>
__global__ void __launch_bounds__(256) set_words(words<N> given, unsigned long long *out, long long count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = given.items[i];
}

struct copied {
    const void *from;
    void *to;
    long long bytes;
};

template <int N> struct copies {
    copied items[N];
};

// Copies arrays: blocks along y have one each. With bit 1 of `how` both begin at multiples of 16
// bytes; with bit 2 `to` is where the address stands that is copied to, with bit 4 `from` where that
// stands which is copied from.
template <int N>
__global__ void __launch_bounds__(256) copy_arrays(copies<N> given, long long how) {
    const copied one = given.items[blockIdx.y];
    void *target = how & 2 ? *(void *const *)one.to : one.to;
    const void *source = how & 4 ? *(const void *const *)one.from : one.from;
    const long long step = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long packs = how & 1 ? one.bytes / 16 : 0;
    const pack<unsigned int, 4> *from = (const pack<unsigned int, 4> *)source;
    pack<unsigned int, 4> *to = (pack<unsigned int, 4> *)target;
    for (long long i = first; i < packs; i += step) to[i] = from[i];
    const unsigned char *rest = (const unsigned char *)source;
    for (long long i = packs * 16 + first; i < one.bytes; i += step)
        ((unsigned char *)target)[i] = rest[i];
}
