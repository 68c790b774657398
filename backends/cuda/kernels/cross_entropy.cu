// The cross entropy of integer labels, and its derivative by the logits.
#include "staging.cuh"

// Labels come in any integer dtype: `kind` is the number of bytes, negative for signed ones. A
// label that is none of the classes becomes -1.
__device__ __forceinline__ index_t label_at(const void *labels, index_t kind, index_t i,
                                            index_t classes) {
    index_t label;
    switch (kind) {
    case 1: label = static_cast<const unsigned char *>(labels)[i]; break;
    case 2: label = static_cast<const unsigned short *>(labels)[i]; break;
    case 4: label = static_cast<const unsigned int *>(labels)[i]; break;
    case -1: label = static_cast<const signed char *>(labels)[i]; break;
    case -2: label = static_cast<const short *>(labels)[i]; break;
    case -4: label = static_cast<const int *>(labels)[i]; break;
    default: label = static_cast<const index_t *>(labels)[i];
    }
    return label >= 0 && label < classes ? label : -1;
}

template <typename A> __device__ __forceinline__ A not_a_number() { return A(0) * INFINITY_OF(A); }

// The loss of a row; NaN without a label.
template <typename A> __device__ __forceinline__ A loss_of(A top, A sum, A picked) {
    return (top == INFINITY_OF(A) && sum == sum ? top : shift_of(top) + log(sum)) - picked;
}

// `exact` is the loss as the accumulator has it; it may be where the loss itself is.
template <typename T, int N>
__global__ void __launch_bounds__(1024)
loss(const T *x, const void *labels, T *out, accumulator_t<T> *exact, index_t count,
     index_t classes, index_t row_stride, index_t stride, index_t kind, index_t label_stride,
     index_t single) {
    typedef accumulator_t<T> A;
    index_t r;
    team mates = team_of(single, r);
    if (r >= count) return;
    row_of<const T, N> row(x + r * row_stride, classes, stride);
    running<A> all;
    all.run(row, mates);
    if (mates.rank == 0) {
        index_t label = label_at(labels, kind, r * label_stride, classes);
        A picked = label < 0 ? not_a_number<A>() : A(x[r * row_stride + label * stride]);
        A lost = loss_of(all.top, all.sum, picked);
        exact[r] = lost;
        out[r] = T(lost);
    }
}

// This is rounded, and no part of another operation, in all kernels.
__device__ __forceinline__ float less_one(float x) { return __fadd_rn(x, -1.0f); }
__device__ __forceinline__ double less_one(double x) { return __dadd_rn(x, -1.0); }

// The numbers of one row of the derivative, g * (exp(x - shift) - onehot). All kernels compute it
// in the same way, so that it does not matter which one did it.
template <typename A> struct grad_of_row {
    A shift, scale;
    index_t label;

    __device__ __forceinline__ A value(A x, index_t i) const {
        A power = exp(x - shift);
        return scale * (i == label ? less_one(power) : power);
    }

    // Those of a pack that begins at a place, in the row.
    template <int N> __device__ __forceinline__ void values(A (&x)[N], int start) const {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = exp(x[i] - shift);
        int place = int(label) - start;
        if (place >= 0 && place < N) {
#pragma unroll
            for (int i = 0; i < N; i++)
                if (i == place) x[i] = less_one(x[i]);
        }
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = scale * x[i];
    }
};

// Writes zeros behind a row of the derivative, up to where the next one begins.
template <typename T>
__device__ __forceinline__ void write_zeros(T *row, index_t length, index_t step, const team &mates) {
    for (index_t i = length + mates.rank; i < step; i += mates.width) row[i] = T(0.0f);
}

template <typename T, int N, typename A>
__device__ __forceinline__ void write_grad(const row_of<const T, N> &from, const row_of<T, N> &to,
                                           const grad_of_row<A> &grad, const team &mates) {
    const int K = N > 4 ? 2 : 4;
    index_t packs = from.packs();
    pack<T, N> raw[K];
    A values[N];
    for (index_t first = mates.rank; first < packs; first += K * mates.width) {
        load(from, first, mates.width, raw, T(A(0)));
#pragma unroll
        for (int k = 0; k < K; k++) {
            index_t p = first + k * mates.width;
            if (p >= packs) break;
            index_t start = from.start(p);
#pragma unroll
            for (int i = 0; i < N; i++) values[i] = grad.value(A(raw[k][i]), start + i);
            write_at(to, start, values);
        }
    }
}

template <typename T, int N, typename L>
__global__ void __launch_bounds__(1024)
loss_grad(const T *x, const L *loss, const T *g, const void *labels, T *out, index_t count,
      index_t classes, index_t row_stride, index_t stride, index_t loss_stride, index_t g_stride,
      index_t kind, index_t label_stride, index_t single) {
    typedef accumulator_t<T> A;
    index_t r;
    team mates = team_of(single, r);
    if (r >= count) return;
    row_of<const T, N> from(x + r * row_stride, classes, stride);
    row_of<T, N> to(out + r * classes, classes, 1);
    index_t label = label_at(labels, kind, r * label_stride, classes);
    A picked = label < 0 ? not_a_number<A>() : A(from.data[label * stride]);
    grad_of_row<A> mine = {A(loss[r * loss_stride]) + picked, A(g[r * g_stride]), label};
    write_grad(from, to, mine, mates);
}

// The loss, and its derivative for a cotangent that is the same for all rows.
template <typename T, int N>
__global__ void __launch_bounds__(1024)
loss_with_grad(const T *x, const void *labels, T *out, T *grad, index_t count, index_t classes,
               index_t row_stride, index_t stride, index_t kind, index_t label_stride,
               index_t single, index_t out_step, double g) {
    typedef accumulator_t<T> A;
    index_t r;
    team mates = team_of(single, r);
    if (r >= count) return;
    row_of<const T, N> row(x + r * row_stride, classes, stride);
    running<A> all;
    all.run(row, mates);
    index_t label = label_at(labels, kind, r * label_stride, classes);
    A picked = label < 0 ? not_a_number<A>() : A(row.data[label * stride]);
    A lost = loss_of(all.top, all.sum, picked);
    if (mates.rank == 0) out[r] = T(lost);
    grad_of_row<A> mine = {lost + picked, A(g), label};
    row_of<T, N> to(grad + r * out_step, classes, 1);
    write_grad(row, to, mine, mates);
    write_zeros(to.data, classes, out_step, mates);
}

// Reads a pack of a row as `read_place` does. With BIAS it adds what belongs to its places, and
// leaves the sums there.
template <bool BIAS, typename T, int N, typename A>
__device__ __forceinline__ void read_logits(const staged_row<const T, N> &row, int p,
                                            pack<T, N> *place, const T *bias, A (&out)[N]) {
    read_place(row, p, place, out, -INFINITY_OF(A));
    if constexpr (BIAS) {
        const int start = row.start(p);
        const T *added = bias + start;
        pack<T, N> items;
        if (row.whole(start) && reinterpret_cast<unsigned long long>(added) % sizeof(items) == 0) {
            items = *reinterpret_cast<const pack<T, N> *>(added);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) items[i] = row.has(start + i) ? added[i] : T(0.0f);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            items[i] = T(out[i] + A(items[i]));
            out[i] = A(items[i]);
        }
        *place = items;
    }
}

// The loss, and along with it, from the same read, the derivative for a cotangent that is not
// known yet: a bet on what it was the last times. A block has whole rows in its shared memory, one
// after the other; while it writes the derivative of one it fetches the next.
//
// `bets` are two numbers, the cotangent to bet on (NaN: do not bet) and the latest one; `staked`
// gets for every row what was bet. Rows lie `step` elements apart, those of the derivative
// `out_step`, with zeros between them. With BIAS a number for each class is added to the logits.
template <typename T, int N, bool BIAS>
__global__ void __launch_bounds__(1024)
ahead(const T *x, const void *labels, T *loss, accumulator_t<T> *exact, T *out,
      const accumulator_t<T> *bets, accumulator_t<T> *staked, const T *bias, index_t count,
      index_t classes, index_t kind, index_t label_stride, index_t step, index_t out_step) {
    typedef accumulator_t<T> A;
    extern __shared__ int4 memory[];
    pack<T, N> *places = reinterpret_cast<pack<T, N> *>(memory);
    team mates = {threadIdx.x, blockDim.x, true};
    const int rank = threadIdx.x, width = blockDim.x;
    A bet = bets[0];
    index_t r = blockIdx.x;
    if (r < count) {
        staged_row<const T, N> first(row_of<const T, N>(x + r * step, classes, 1));
        for (int p = rank; p < first.packs(); p += width) fetch(first, p, places + p);
    }
    for (; r < count; r += gridDim.x) {
        staged_row<const T, N> row(row_of<const T, N>(x + r * step, classes, 1));
        int packs = row.packs();
        running<A> all;
        A values[N];
        wait_for_packs();
#pragma unroll 2
        for (int p = rank; p < packs; p += width) {
            read_logits<BIAS>(row, p, places + p, bias, values);
            all.add(values);
        }
        // The barriers within make everyone's packs visible.
        A top = block_reduce(all.top, larger(), -INFINITY_OF(A));
        index_t label = label_at(labels, kind, r * label_stride, classes);
        A picked = label < 0 ? not_a_number<A>()
                             : A(reinterpret_cast<const T *>(memory)[row.phase + label]);
        if (top == INFINITY_OF(A)) {
            all.sum = A(0);
            for (int p = rank; p < packs; p += width) {
                read_place(row, p, places + p, values, -INFINITY_OF(A));
#pragma unroll
                for (int i = 0; i < N; i++) all.sum += exp(limited(values[i]));
            }
        } else if (top > all.top) {
            all.sum *= exp(all.top - shift_of(top));
        }
        A sum = block_reduce(all.sum, plus(), A(0)), lost = loss_of(top, sum, picked);
        if (rank == 0) {
            loss[r] = T(lost);
            exact[r] = lost;
            staked[r] = bet;
        }
        grad_of_row<A> mine = {lost + picked, bet, label};
        staged_row<T, N> to(row_of<T, N>(out + r * out_step, classes, 1));
        index_t later = r + gridDim.x;
        staged_row<const T, N> next(row_of<const T, N>(x + later * step, classes, 1));
        int wanted = later < count ? next.packs() : 0;
        int end = packs > wanted ? packs : wanted;
#pragma unroll 2
        for (int p = rank; p < end; p += width) {
            if (p < packs && bet == bet) {
                read_place(row, p, places + p, values, A(0));
                mine.values(values, row.start(p));
                write_at(to, row.start(p), values);
            }
            if (p < wanted) fetch(next, p, places + p);
        }
        if (bet == bet) write_zeros(to.data, classes, out_step, mates);
    }
}

// Makes a derivative that was bet on true: writes the rows whose cotangent is another one, and
// keeps the cotangent in mind for the next bet. Two times the same one are worth a bet.
template <typename T, int N>
__global__ void __launch_bounds__(1024)
settle(const T *x, const void *labels, const accumulator_t<T> *exact, const T *g, T *out,
       accumulator_t<T> *bets, const accumulator_t<T> *staked, index_t count, index_t classes,
       index_t g_stride, index_t kind, index_t label_stride, index_t step) {
    typedef accumulator_t<T> A;
    team mates = {threadIdx.x, blockDim.x, true};
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        A latest = A(g[0]);
        bets[0] = latest == bets[1] ? latest : not_a_number<A>();
        bets[1] = latest;
    }
    for (index_t first = blockIdx.x; first < count; first += index_t(gridDim.x) * blockDim.x) {
        index_t own = first + index_t(threadIdx.x) * gridDim.x;
        bool lost = own < count && !(A(g[own * g_stride]) == staked[own]);
        if (!__syncthreads_or(lost)) continue;
        for (int i = 0; i < blockDim.x; i++) {
            index_t r = first + index_t(i) * gridDim.x;
            if (r >= count) break;
            A scale = A(g[r * g_stride]);
            if (scale == staked[r]) continue;
            row_of<const T, N> from(x + r * step, classes, 1);
            row_of<T, N> to(out + r * classes, classes, 1);
            index_t label = label_at(labels, kind, r * label_stride, classes);
            A picked = label < 0 ? not_a_number<A>() : A(from.data[label]);
            grad_of_row<A> mine = {exact[r] + picked, scale, label};
            write_grad(from, to, mine, mates);
        }
    }
}
