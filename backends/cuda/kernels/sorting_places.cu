// Places in order. Every number that is sorted holds a place in its upper bits and whose it is in the
// lower ones, so that no two are equal and equal places stay in order.
#include "index_places.cuh"

typedef unsigned long long tagged;

// -- sorting few: every one counts those that are smaller. C holds a tagged place.

constexpr int WARPS = 8;

template <typename C> __global__ void rank_places(
    tagged *out, index_t count, index_t shift,
    const void *data, index_t code, index_t step, index_t length, index_t stride
) {
    constexpr int OWN = 4, TILE = 2048;
    __shared__ C tile[TILE];
    indices places = {data, int(code), step, length, stride};
    int lane = threadIdx.x & 31;
    index_t first = (index_t(blockIdx.x) * WARPS + (threadIdx.x >> 5)) * OWN;
    C own[OWN];
    int smaller[OWN] = {};
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        own[k] = first + k < count ? C(places[first + k]) << shift | C(first + k) : C(0);
    for (index_t start = 0; start < count; start += TILE) {
        int size = int(count - start < TILE ? count - start : TILE);
        __syncthreads();
        for (int i = threadIdx.x; i < size; i += blockDim.x)
            tile[i] = C(places[start + i]) << shift | C(start + i);
        __syncthreads();
#pragma unroll 4
        for (int i = lane; i < size; i += 32) {
            C other = tile[i];
#pragma unroll
            for (int k = 0; k < OWN; ++k) smaller[k] += other < own[k];
        }
    }
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        int place = warp_reduce(smaller[k], plus());
        if (lane == 0 && first + k < count) out[place] = own[k];
    }
}

// -- sorting many: by eight bits after eight, from the lowest. Every block has a span of its own.

constexpr int DIGITS = 256;

__global__ void tag_places(
    tagged *out, index_t count, index_t shift,
    const void *data, index_t code, index_t step, index_t length, index_t stride
) {
    index_t i = index_t(blockIdx.x) * blockDim.x + threadIdx.x;
    indices places = {data, int(code), step, length, stride};
    if (i < count) out[i] = tagged(places[i]) << shift | tagged(i);
}

// How often every digit is in every span, digits outermost.
__global__ void count_digits(
    long long *counts, const tagged *in, index_t count, index_t span, index_t shift
) {
    __shared__ int found[DIGITS];
    found[threadIdx.x] = 0;
    __syncthreads();
    index_t start = blockIdx.x * span, end = min(start + span, count);
    for (index_t i = start + threadIdx.x; i < end; i += DIGITS)
        atomicAdd(found + (in[i] >> shift & (DIGITS - 1)), 1);
    __syncthreads();
    counts[index_t(threadIdx.x) * gridDim.x + blockIdx.x] = found[threadIdx.x];
}

// Sums of all numbers before each, by one block of 1024 threads, in place.
__global__ void sums_before(long long *counts, index_t count) {
    __shared__ long long totals[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    index_t span = (count + blockDim.x - 1) / blockDim.x;
    index_t start = min(threadIdx.x * span, count), end = min(start + span, count);
    long long sum = 0;
    for (index_t i = start; i < end; ++i) sum += counts[i];
    long long upto = sum;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        long long other = __shfl_up_sync(0xffffffffu, upto, offset);
        if (lane >= offset) upto += other;
    }
    if (lane == 31) totals[warp] = upto;
    __syncthreads();
    long long before = upto - sum;
    for (int i = 0; i < warp; ++i) before += totals[i];
    for (index_t i = start; i < end; ++i) {
        long long own = counts[i];
        counts[i] = before;
        before += own;
    }
}

// Puts the numbers of every span where their digit belongs, in their order.
__global__ void move_digits(
    tagged *out, const tagged *in, const long long *starts, index_t count, index_t span,
    index_t shift
) {
    __shared__ long long next[DIGITS];
    __shared__ int found[WARPS][DIGITS];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    next[threadIdx.x] = starts[index_t(threadIdx.x) * gridDim.x + blockIdx.x];
    index_t start = blockIdx.x * span, end = min(start + span, count);
    for (index_t base = start; base < end; base += DIGITS) {
#pragma unroll
        for (int w = 0; w < WARPS; ++w) found[w][threadIdx.x] = 0;
        __syncthreads();
        index_t i = base + threadIdx.x;
        bool here = i < end;
        tagged value = here ? in[i] : 0;
        int digit = int(value >> shift & (DIGITS - 1));
        // The lanes that have the same digit, bit by bit.
        unsigned int same = __ballot_sync(0xffffffffu, here);
#pragma unroll
        for (int bit = 0; bit < 8; ++bit) {
            unsigned int set = __ballot_sync(0xffffffffu, digit >> bit & 1);
            same &= digit >> bit & 1 ? set : ~set;
        }
        int before = __popc(same & ((1u << lane) - 1));
        if (here && before == 0) found[warp][digit] = __popc(same);
        __syncthreads();
        if (here) {
            index_t place = next[digit] + before;
            for (int w = 0; w < warp; ++w) place += found[w][digit];
            out[place] = value;
        }
        __syncthreads();
        int all = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) all += found[w][threadIdx.x];
        next[threadIdx.x] += all;
    }
}
