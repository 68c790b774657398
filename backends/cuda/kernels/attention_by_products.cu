// Softmax of blocks of scores that cuBLAS multiplies, and its derivative: a block of threads has a
// row.
#include "common.cuh"

enum { NO_MASK, BOOLEAN, ADDED };

// Turns products of queries and keys into weights. Row r of the scores belongs to matrix
// `first_image + r / count` and to its query `first_query + r % count`.
template <typename S, typename T>
__global__ void attention_weights(const S *products, T *weights, const void *mask,
                                  index_t first_image, index_t first_query, index_t count,
                                  index_t keys, index_t heads, index_t causal, index_t kind,
                                  index_t by_image, index_t by_head, index_t by_query,
                                  index_t by_key, double scale) {
    index_t row = blockIdx.x, image = first_image + row / count;
    index_t query = first_query + row % count;
    products += row * keys;
    weights += row * keys;
    index_t place = image / heads * by_image + image % heads * by_head + query * by_query;
    auto score = [&](index_t key) {
        S value = products[key] * S(scale);
        if (causal && key > query) return -INFINITY_OF(S);
        if (kind == BOOLEAN && !static_cast<const bool *>(mask)[place + key * by_key])
            return -INFINITY_OF(S);
        if (kind == ADDED) value += S(static_cast<const T *>(mask)[place + key * by_key]);
        return value;
    };
    S top = -INFINITY_OF(S);
    for (index_t key = threadIdx.x; key < keys; key += blockDim.x) top = larger()(top, score(key));
    top = block_reduce(top, larger(), -INFINITY_OF(S));
    if (top == -INFINITY_OF(S)) top = 0;
    S total = 0;
    for (index_t key = threadIdx.x; key < keys; key += blockDim.x) total += exp(score(key) - top);
    total = block_reduce(total, plus(), S(0));
    S factor = total == 0 ? S(0) : 1 / total;
    for (index_t key = threadIdx.x; key < keys; key += blockDim.x)
        weights[key] = T(exp(score(key) - top) * factor);
}

// Returns what moves with the scores: weights (products - sum(g out)) scale, where products are
// those of cotangents and values.
template <typename S, typename T>
__global__ void score_grads(const S *products, const T *weights, const T *g, const T *out,
                            T *grads, index_t keys, index_t outputs, double scale) {
    index_t row = blockIdx.x;
    S share = 0;
    for (index_t i = threadIdx.x; i < outputs; i += blockDim.x)
        share += S(g[row * outputs + i]) * S(out[row * outputs + i]);
    share = block_reduce(share, plus(), S(0));
    for (index_t key = threadIdx.x; key < keys; key += blockDim.x) {
        index_t place = row * keys + key;
        grads[place] = T(S(weights[place]) * (products[place] - share) * S(scale));
    }
}
