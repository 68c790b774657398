// Functions without their leading terms: each is one launch instead of the many of a polynomial.
#include "common.cuh"
#include "remainders.cuh"

template <typename F>
__global__ void remainder_of(const double *x, double *out, index_t size) {
    index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (i < size) out[i] = F()(x[i]);
}
