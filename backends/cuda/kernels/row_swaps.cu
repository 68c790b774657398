// LAPACK's pivots as a permutation: one thread for each matrix, as swaps depend on those before.
#include "common.cuh"

__global__ void swap_rows(const index_t *pivots, index_t *order, index_t count, index_t steps,
                          index_t rows) {
    index_t matrix = blockIdx.x * index_t(blockDim.x) + threadIdx.x;
    if (matrix >= count) return;
    order += matrix * rows;
    pivots += matrix * steps;
    for (index_t i = 0; i < rows; ++i) order[i] = i;
    for (index_t i = 0; i < steps; ++i) {
        index_t other = pivots[i];
        if (other < 0 || other >= rows) continue;
        index_t mine = order[i];
        order[i] = order[other];
        order[other] = mine;
    }
}
