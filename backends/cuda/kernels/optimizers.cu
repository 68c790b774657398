// Updates of many parameters by one launch: every block works on a piece of one of them.
#include "common.cuh"

// Bytes of each array that a block works on: two wide loads a thread.
constexpr int PIECE = 8192;
constexpr int THREADS = 256;
constexpr int NUMBERS = 7;

// One parameter: its value, its gradient and what is remembered of it, then where the new value and
// memory go; how many elements it has, and the first block that works on it.
template <int SLOTS> struct parameter {
    const void *old[2 + SLOTS];
    void *fresh[1 + SLOTS];
    long long size;
    long long first;
};

// Passed by value: there is nothing to copy before a launch, and nothing to wait for.
template <int SLOTS, int ROWS> struct table {
    parameter<SLOTS> rows[ROWS];
};

// -- the rules: p becomes the new value, s the new memory; c are the numbers of this step

struct sgd {
    static constexpr int SLOTS = 0;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        p -= c[0] * g;
    }
};

struct momentum {
    static constexpr int SLOTS = 1;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        s[0] = c[1] * s[0] + g;
        p -= c[0] * s[0];
    }
};

struct nesterov {
    static constexpr int SLOTS = 1;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        s[0] = c[1] * s[0] + g;
        p -= c[0] * (c[1] * s[0] + g);
    }
};

struct adagrad {
    static constexpr int SLOTS = 1;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        s[0] += g * g;
        p -= c[0] * (g / (sqrt(s[0]) + c[1]));
    }
};

struct adam {
    static constexpr int SLOTS = 2;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        s[0] = c[2] * s[0] + c[4] * g;
        s[1] = c[3] * s[1] + c[5] * (g * g);
        p -= c[0] * (s[0] / (sqrt(s[1]) + c[1]));
    }
};

struct adamw {
    static constexpr int SLOTS = 2;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        p *= c[6];
        adam::apply(p, g, s, c);
    }
};

struct lion {
    static constexpr int SLOTS = 1;
    template <typename A> static __device__ void apply(A &p, A g, A *s, const A *c) {
        A blend = c[1] * s[0] + c[3] * g;
        // NaN has no sign, and stays.
        A sign = blend > A(0) ? A(1) : blend < A(0) ? A(-1) : blend;
        p = c[5] * p - c[0] * sign;
        s[0] = c[2] * s[0] + c[4] * g;
    }
};

template <typename Rule, typename T, int ROWS>
__global__ void __launch_bounds__(THREADS)
update(const __grid_constant__ table<Rule::SLOTS, ROWS> rows, long long count, double c0, double c1,
       double c2, double c3, double c4, double c5, double c6) {
    typedef accumulator_t<T> A;
    constexpr int SLOTS = Rule::SLOTS, WIDE = 16 / sizeof(T), LENGTH = PIECE / sizeof(T);
    constexpr int TURNS = LENGTH / (THREADS * WIDE);
    typedef pack<T, WIDE> wide;

    const A c[NUMBERS] = {A(c0), A(c1), A(c2), A(c3), A(c4), A(c5), A(c6)};
    int low = 0, high = static_cast<int>(count) - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (rows.rows[middle].first <= blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    const parameter<SLOTS> &row = rows.rows[low];
    const index_t start = (blockIdx.x - row.first) * LENGTH;
    const index_t left = row.size - start;

    const T *old[2 + SLOTS];
    T *fresh[1 + SLOTS];
    unsigned long long places = 0;
#pragma unroll
    for (int i = 0; i < 2 + SLOTS; i++) {
        old[i] = static_cast<const T *>(row.old[i]) + start;
        places |= reinterpret_cast<unsigned long long>(old[i]);
    }
#pragma unroll
    for (int i = 0; i < 1 + SLOTS; i++) {
        fresh[i] = static_cast<T *>(row.fresh[i]) + start;
        places |= reinterpret_cast<unsigned long long>(fresh[i]);
    }

    if (left >= LENGTH && places % 16 == 0) {
        // All loads are on their way before the first result is needed.
        wide values[TURNS][2 + SLOTS];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
            for (int i = 0; i < 2 + SLOTS; i++)
                values[turn][i] =
                    reinterpret_cast<const wide *>(old[i])[turn * THREADS + threadIdx.x];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            wide made[1 + SLOTS];
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                A p = A(values[turn][0][j]), g = A(values[turn][1][j]), s[SLOTS + 1];
#pragma unroll
                for (int i = 0; i < SLOTS; i++) s[i] = A(values[turn][2 + i][j]);
                Rule::apply(p, g, s, c);
                made[0][j] = T(p);
#pragma unroll
                for (int i = 0; i < SLOTS; i++) made[1 + i][j] = T(s[i]);
            }
#pragma unroll
            for (int i = 0; i < 1 + SLOTS; i++)
                reinterpret_cast<wide *>(fresh[i])[turn * THREADS + threadIdx.x] = made[i];
        }
        return;
    }
    for (index_t at = threadIdx.x; at < left && at < LENGTH; at += THREADS) {
        A p = A(old[0][at]), g = A(old[1][at]), s[SLOTS + 1];
#pragma unroll
        for (int i = 0; i < SLOTS; i++) s[i] = A(old[2 + i][at]);
        Rule::apply(p, g, s, c);
        fresh[0][at] = T(p);
#pragma unroll
        for (int i = 0; i < SLOTS; i++) fresh[1 + i][at] = T(s[i]);
    }
}
