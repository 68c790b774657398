// Elements at the places that index arrays name: rows of words, whatever is in them.
#include "index_places.cuh"

// The result is C-contiguous: outer rows, one for every place, columns; strides are in words.
template <int BYTES> __global__ void gather(
    void *out, const void *x, index_t offset, index_t outer, index_t outer_stride, index_t count,
    index_t columns, index_t column_stride, index_t log,
    const void *data, index_t code, index_t step, index_t length, index_t stride
) {
    typedef typename word<BYTES>::type W;
    lanes at(log);
    if (at.row >= outer * count) return;
    index_t block = outer == 1 ? 0 : at.row / count;
    indices places = {data, int(code), step, length, stride};
    const W *from = static_cast<const W *>(x) + offset + block * outer_stride
        + places[at.row - block * count] * stride;
    W *to = static_cast<W *>(out) + at.row * columns;
#pragma unroll 4
    for (index_t i = at.column; i < columns; i += at.step) to[i] = from[i * column_stride];
}
