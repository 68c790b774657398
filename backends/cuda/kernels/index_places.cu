// Several index arrays of one key, combined into one array of places.
#include "index_places.cuh"

struct spread {
    indices array;
    index_t steps[3];

    __device__ __forceinline__ index_t at(index_t i, index_t j, index_t k) const {
        return array[i * steps[0] + j * steps[1] + k * steps[2]] * array.stride;
    }
};

// The places that up to three index arrays name, which broadcast over up to three axes: those of a
// and b elements are the sizes of what is inside the first and the second.
__global__ void combine(
    long long *out, index_t count, index_t a, index_t b,
    const void *p, index_t p_code, index_t p_length, index_t p_stride, index_t p0, index_t p1, index_t p2,
    const void *q, index_t q_code, index_t q_length, index_t q_stride, index_t q0, index_t q1, index_t q2,
    const void *r, index_t r_code, index_t r_length, index_t r_stride, index_t r0, index_t r1, index_t r2
) {
    index_t place = index_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= count) return;
    index_t i = place / a, rest = place - i * a, j = rest / b, k = rest - j * b;
    spread first = {{p, int(p_code), 1, p_length, p_stride}, {p0, p1, p2}};
    spread second = {{q, int(q_code), 1, q_length, q_stride}, {q0, q1, q2}};
    spread third = {{r, int(r_code), 1, r_length, r_stride}, {r0, r1, r2}};
    index_t sum = first.at(i, j, k);
    if (q_stride) sum += second.at(i, j, k);
    if (r_stride) sum += third.at(i, j, k);
    out[place] = sum;
}
