// Attention a tile of scores at a time, after Dao, https://arxiv.org/abs/2307.08691: a block of
// threads holds the sums of some queries (or keys) in registers and goes over tiles of the others.
#include "tiles.cuh"

// out, and of every query the logarithm to base 2 of the sum of its powers; infinity where it sees
// no key, so that powers less that are zero.
template <typename P, int WIDTH, int KEYS>
__global__ void __launch_bounds__(THREADS, 2)
    attention_forward(const typename P::element *q, const typename P::element *k,
                      const typename P::element *v, const void *mask,
                      typename P::element *out, float *logsum, const shape_t *given,
                      double scale) {
    typedef tile_t<P, WIDTH> tiles;
    typedef typename P::element T;
    // Tiles of keys and values in turn, the next ones on their way while these are in use.
    // Queries are held in registers as long as there are enough of these.
    extern __shared__ word_t memory[];
    constexpr bool HELD = tiles::WORDS <= 64;
    constexpr int PART = KEYS * tiles::ROW;
    static_assert(!HELD || 4 * KEYS >= OWN);
    word_t *others = HELD ? memory : memory + OWN * tiles::ROW;
    const shape_t &shape = *given;
    index_t which = blockIdx.x % shape.total;
    index_t batch = which / shape.heads, head = which % shape.heads;
    // With a causal mask later queries take longer: they begin first.
    index_t first = (gridDim.x / shape.total - 1 - blockIdx.x / shape.total) * OWN;
    q += batch * shape.q[0] + head * shape.q[1];
    k += batch * shape.k[0] + head * shape.k[1];
    v += batch * shape.v[0] + head * shape.v[1];
    scorer<T> score(shape, mask, batch, head, float(scale));
    int width = int(shape.width), outputs = int(shape.outputs);
    bool wide = shape.wide & 1;
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
    index_t mine = first + 16 * warp;

    tiles::template load<OWN>(memory, q, shape.q[2], first, shape.queries, width, wide);
    end_copies();
    const word_t *own_place = tiles::place(memory + 16 * warp * tiles::ROW);
    word_t own[tiles::STEPS][4];
    wait_for_copies<0>();
    tiles::template settle<OWN>(memory);
    __syncthreads();
    if constexpr (HELD) {
#pragma unroll
        for (int s = 0; s < tiles::STEPS; s++) read_matrices<false>(own[s], own_place + 8 * s);
        __syncthreads();
    }

    index_t keys = shape.keys, k_step = shape.k[2], v_step = shape.v[2];
    float sums[tiles::SUMS][4] = {};
    float top[2] = {-INFINITY_OF(float), -INFINITY_OF(float)}, total[2] = {0, 0};
    index_t last = score.causal && first + OWN < keys ? first + OWN : keys;
    auto load = [&](index_t key, int turn) {
        word_t *tile = others + 2 * turn * PART;
        if (key < last) {
            tiles::template load<KEYS>(tile, k, k_step, key, keys, width, wide);
            tiles::template load<KEYS>(tile + PART, v, v_step, key, keys, outputs, wide);
        }
        end_copies();
    };
    load(0, 0);
    int turn = 0;
    for (index_t key = 0; key < last; key += KEYS, turn ^= 1) {
        load(key + KEYS, turn ^ 1);
        wait_for_copies<1>();
        word_t *k_tile = others + 2 * turn * PART, *v_tile = k_tile + PART;
        tiles::template settle<KEYS>(k_tile);
        tiles::template settle<KEYS>(v_tile);
        __syncthreads();
        float scores[KEYS / 8][4] = {};
        tiles::template by_rows<KEYS / 8, HELD>(
            scores,
            [&](word_t (&words)[4], int s) {
                if constexpr (HELD) {
#pragma unroll
                    for (int i = 0; i < 4; i++) words[i] = own[s][i];
                } else
                    read_matrices<false>(words, own_place + 8 * s);
            },
            k_tile);
        score.template operator()<true, KEYS / 8>(scores, mine, key);
        float larger[2] = {top[0], top[1]};
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                larger[i >> 1] = fmaxf(larger[i >> 1], scores[n][i]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            larger[half] = over_row(larger[half], true);
            float shift = larger[half] == -INFINITY_OF(float) ? 0.0f : larger[half];
            float shrunk = power_of_2(top[half] - shift);
            top[half] = larger[half];
            total[half] *= shrunk;
#pragma unroll
            for (int j = 0; j < tiles::SUMS; j++) {
                sums[j][2 * half] *= shrunk;
                sums[j][2 * half + 1] *= shrunk;
            }
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    scores[n][i] = power_of_2(scores[n][i] - shift);
                    total[half] += scores[n][i];
                }
        }
        tiles::template by_columns<KEYS / 8>(sums, scores, v_tile);
        __syncthreads();
    }

    out += batch * shape.out[0] + head * shape.out[1];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        index_t query = mine + g + 8 * half;
        float sum = over_row(total[half], false);
        if (query >= shape.queries) continue;
        tiles::store(out + query * shape.out[2], sums, half, sum == 0 ? 0.0f : 1 / sum, outputs,
                     shape.wide & 2);
        if (t == 0)
            logsum[which * shape.queries + query] =
                sum == 0 ? INFINITY_OF(float) : top[half] + log2f(sum);
    }
}

// The gradient by q; also, for every query, the sum of its cotangent times its output.
template <typename P, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
    attention_by_query(const typename P::element *g, const typename P::element *out,
                       const typename P::element *q, const typename P::element *k,
                       const typename P::element *v, const void *mask, const float *logsum,
                       float *shares, typename P::element *grads, const shape_t *given,
                       double scale) {
    constexpr int KEYS = 32;
    typedef tile_t<P, WIDTH> tiles;
    typedef typename P::element T;
    extern __shared__ word_t memory[];
    constexpr int PART = KEYS * tiles::ROW;
    word_t *q_tile = memory, *g_tile = q_tile + OWN * tiles::ROW;
    word_t *others = g_tile + OWN * tiles::ROW;
    const shape_t &shape = *given;
    index_t which = blockIdx.x % shape.total;
    index_t batch = which / shape.heads, head = which % shape.heads;
    index_t first = (gridDim.x / shape.total - 1 - blockIdx.x / shape.total) * OWN;
    g += batch * shape.g[0] + head * shape.g[1];
    out += batch * shape.out[0] + head * shape.out[1];
    q += batch * shape.q[0] + head * shape.q[1];
    k += batch * shape.k[0] + head * shape.k[1];
    v += batch * shape.v[0] + head * shape.v[1];
    scorer<T> score(shape, mask, batch, head, float(scale));
    int width = int(shape.width), outputs = int(shape.outputs);
    bool wide = shape.wide & 1;
    int lane = threadIdx.x & 31, row = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
    index_t mine = first + 16 * warp;
    tiles::template load<OWN>(q_tile, q, shape.q[2], first, shape.queries, width, wide);
    tiles::template load<OWN>(g_tile, g, shape.g[2], first, shape.queries, outputs, wide);
    end_copies();

    float own_logsum[2] = {INFINITY_OF(float), INFINITY_OF(float)}, own_share[2] = {0, 0};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        index_t query = mine + row + 8 * half;
        float share = 0;
        if (query < shape.queries) {
            own_logsum[half] = logsum[which * shape.queries + query];
            for (int i = t; i < outputs; i += 4)
                share += float(g[query * shape.g[2] + i]) * float(out[query * shape.out[2] + i]);
        }
        own_share[half] = share = over_row(share, false);
        if (query < shape.queries && t == 0) shares[which * shape.queries + query] = share;
    }

    index_t keys = shape.keys, k_step = shape.k[2], v_step = shape.v[2];
    float sums[tiles::SUMS][4] = {};
    index_t last = score.causal && first + OWN < keys ? first + OWN : keys;
    auto load = [&](index_t key, int turn) {
        word_t *tile = others + 2 * turn * PART;
        if (key < last) {
            tiles::template load<KEYS>(tile, k, k_step, key, keys, width, wide);
            tiles::template load<KEYS>(tile + PART, v, v_step, key, keys, outputs, wide);
        }
        end_copies();
    };
    load(0, 0);
    wait_for_copies<1>();
    tiles::template settle<OWN>(q_tile);
    tiles::template settle<OWN>(g_tile);
    int turn = 0;
    for (index_t key = 0; key < last; key += KEYS, turn ^= 1) {
        load(key + KEYS, turn ^ 1);
        wait_for_copies<1>();
        word_t *k_tile = others + 2 * turn * PART, *v_tile = k_tile + PART;
        tiles::template settle<KEYS>(k_tile);
        tiles::template settle<KEYS>(v_tile);
        __syncthreads();
        float scores[KEYS / 8][4] = {}, score_grads[KEYS / 8][4] = {};
        auto rows_of = [&](const word_t *tile) {
            const word_t *place = tiles::place(tile + 16 * warp * tiles::ROW);
            return [=](word_t (&words)[4], int s) { read_matrices<false>(words, place + 8 * s); };
        };
        tiles::template by_rows<KEYS / 8, false>(scores, rows_of(q_tile), k_tile);
        tiles::template by_rows<KEYS / 8, false>(score_grads, rows_of(g_tile), v_tile);
        score.template operator()<true, KEYS / 8>(scores, mine, key);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int half = i >> 1;
                score_grads[n][i] = power_of_2(scores[n][i] - own_logsum[half]) *
                                    (score_grads[n][i] - own_share[half]);
            }
        tiles::template by_columns<KEYS / 8>(sums, score_grads, k_tile);
        __syncthreads();
    }
    grads += batch * shape.by_grad[1] + head * shape.by_grad[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        index_t query = mine + row + 8 * half;
        if (query < shape.queries)
            tiles::store(grads + query * shape.by_grad[3], sums, half, float(scale), width,
                         shape.wide & 4);
    }
}

// The gradients by k and v, of what the kernel before has left.
template <typename P, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
    attention_by_key(const typename P::element *g, const typename P::element *q,
                     const typename P::element *k, const typename P::element *v,
                     const void *mask, const float *logsum, const float *shares,
                     typename P::element *grads, const shape_t *given, double scale) {
    constexpr int QUERIES = WIDTH == 64 ? 32 : 16;
    typedef tile_t<P, WIDTH> tiles;
    typedef typename P::element T;
    extern __shared__ word_t memory[];
    word_t *k_tile = memory, *v_tile = k_tile + OWN * tiles::ROW;
    word_t *others = v_tile + OWN * tiles::ROW;
    constexpr int PART = QUERIES * tiles::ROW;
    // Of two tiles of queries in turn, the logarithms of their sums and their shares.
    __shared__ word_t known[2][2][QUERIES];
    const shape_t &shape = *given;
    index_t which = blockIdx.x % shape.total;
    index_t batch = which / shape.heads, head = which % shape.heads;
    // With a causal mask earlier keys take longer: they begin first.
    index_t first = blockIdx.x / shape.total * OWN;
    g += batch * shape.g[0] + head * shape.g[1];
    q += batch * shape.q[0] + head * shape.q[1];
    k += batch * shape.k[0] + head * shape.k[1];
    v += batch * shape.v[0] + head * shape.v[1];
    scorer<T> score(shape, mask, batch, head, float(scale));
    int width = int(shape.width), outputs = int(shape.outputs);
    bool wide = shape.wide & 1;
    int lane = threadIdx.x & 31, row = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
    index_t mine = first + 16 * warp;
    tiles::template load<OWN>(k_tile, k, shape.k[2], first, shape.keys, width, wide);
    tiles::template load<OWN>(v_tile, v, shape.v[2], first, shape.keys, outputs, wide);
    end_copies();

    index_t queries = shape.queries, q_step = shape.q[2], g_step = shape.g[2];
    const float *logsums = logsum + which * queries, *own_shares = shares + which * queries;
    float by_k[tiles::SUMS][4] = {}, by_v[tiles::SUMS][4] = {};
    index_t begin = score.causal ? first / QUERIES * QUERIES : 0;
    auto load = [&](index_t query, int turn) {
        word_t *tile = others + 2 * turn * PART;
        if (query < queries) {
            tiles::template load<QUERIES>(tile, q, q_step, query, queries, width, wide);
            tiles::template load<QUERIES>(tile + PART, g, g_step, query, queries, outputs, wide);
            if (threadIdx.x < 2 * QUERIES) {
                int i = threadIdx.x % QUERIES, what = threadIdx.x / QUERIES;
                const float *from = what ? own_shares : logsums;
                bool there = query + i < queries;
                copy_later<4>(&known[turn][what][i], from + (there ? query + i : 0), there);
            }
        }
        end_copies();
    };
    load(begin, 0);
    wait_for_copies<1>();
    tiles::template settle<OWN>(k_tile);
    tiles::template settle<OWN>(v_tile);
    int turn = 0;
    for (index_t query = begin; query < queries; query += QUERIES, turn ^= 1) {
        load(query + QUERIES, turn ^ 1);
        wait_for_copies<1>();
        word_t *q_tile = others + 2 * turn * PART, *g_tile = q_tile + PART;
        tiles::template settle<QUERIES>(q_tile);
        tiles::template settle<QUERIES>(g_tile);
        __syncthreads();
        float weights[QUERIES / 8][4] = {}, score_grads[QUERIES / 8][4] = {};
        auto rows_of = [&](const word_t *tile) {
            const word_t *place = tiles::place(tile + 16 * warp * tiles::ROW);
            return [=](word_t (&words)[4], int s) { read_matrices<false>(words, place + 8 * s); };
        };
        tiles::template by_rows<QUERIES / 8, false>(weights, rows_of(k_tile), q_tile);
        tiles::template by_rows<QUERIES / 8, false>(score_grads, rows_of(v_tile), g_tile);
        score.template operator()<false, QUERIES / 8>(weights, query, mine);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int column = 8 * n + 2 * t + (i & 1);
                float weight = power_of_2(weights[n][i] - float_of(known[turn][0][column]));
                weights[n][i] = weight;
                score_grads[n][i] = weight * (score_grads[n][i] - float_of(known[turn][1][column]));
            }
        tiles::template by_columns<QUERIES / 8>(by_v, weights, g_tile);
        tiles::template by_columns<QUERIES / 8>(by_k, score_grads, q_tile);
        __syncthreads();
    }
    grads += batch * shape.by_grad[1] + head * shape.by_grad[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        index_t key = mine + row + 8 * half;
        if (key >= shape.keys) continue;
        T *target = grads + key * shape.by_grad[3];
        tiles::store(target + shape.by_grad[0], by_k, half, float(scale), width, shape.wide & 4);
        tiles::store(target + 2 * shape.by_grad[0], by_v, half, 1.0f, outputs, shape.wide & 4);
    }
}
