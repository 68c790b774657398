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

// The numbers of one row of the derivative, g * (exp(x - shift) - onehot). All kernels compute it
// in the same way, so that it does not matter which one did it.
template <typename A> struct grad_of_row {
    A shift, scale;
    index_t label;

    __device__ __forceinline__ A value(A x, index_t i) const {
        A power = exp(x - shift);
        return scale * (i == label ? power - A(1) : power);
    }
};

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
            write(to, p, values);
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
               index_t single, double g) {
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
    write_grad(row, row_of<T, N>(grad + r * classes, classes, 1), mine, mates);
}

// The loss, and along with it, from the same read, the derivative for a cotangent that is not
// known yet: a bet on what it was the last times. A block has whole rows in its shared memory, one
// after the other; while it writes the derivative of one it fetches the next.
//
// `bets` are two numbers, the cotangent to bet on (NaN: do not bet) and the latest one; `staked`
// gets for every row what was bet.
template <typename T, int N>
__global__ void __launch_bounds__(1024)
ahead(const T *x, const void *labels, T *loss, accumulator_t<T> *exact, T *out,
      const accumulator_t<T> *bets, accumulator_t<T> *staked, index_t count, index_t classes,
      index_t kind, index_t label_stride) {
    typedef accumulator_t<T> A;
    extern __shared__ int4 memory[];
    pack<T, N> *places = reinterpret_cast<pack<T, N> *>(memory);
    team mates = {threadIdx.x, blockDim.x, true};
    A bet = bets[0];
    index_t r = blockIdx.x;
    if (r < count) {
        row_of<const T, N> first(x + r * classes, classes, 1);
        for (index_t p = mates.rank; p < first.packs(); p += mates.width)
            fetch(first, p, places + p);
    }
    for (; r < count; r += gridDim.x) {
        row_of<const T, N> row(x + r * classes, classes, 1);
        index_t packs = row.packs();
        running<A> all;
        A values[N];
        wait_for_packs();
#pragma unroll 2
        for (index_t p = mates.rank; p < packs; p += mates.width) {
            read_place(row, p, places + p, values, -INFINITY_OF(A));
            all.add(values);
        }
        // The barriers within make everyone's packs visible.
        A top = block_reduce(all.top, larger(), -INFINITY_OF(A));
        index_t label = label_at(labels, kind, r * label_stride, classes);
        A picked = label < 0 ? not_a_number<A>()
                             : A(reinterpret_cast<const T *>(memory)[row.phase + label]);
        if (top == INFINITY_OF(A)) {
            all.sum = A(0);
            for (index_t p = mates.rank; p < packs; p += mates.width) {
                read_place(row, p, places + p, values, -INFINITY_OF(A));
#pragma unroll
                for (int i = 0; i < N; i++) all.sum += exp(limited(values[i]));
            }
        } else if (top > all.top) {
            all.sum *= exp(all.top - shift_of(top));
        }
        A sum = block_reduce(all.sum, plus(), A(0)), lost = loss_of(top, sum, picked);
        if (mates.rank == 0) {
            loss[r] = T(lost);
            exact[r] = lost;
            staked[r] = bet;
        }
        grad_of_row<A> mine = {lost + picked, bet, label};
        row_of<T, N> to(out + r * classes, classes, 1);
        index_t later = r + gridDim.x;
        row_of<const T, N> next(x + later * classes, classes, 1);
        index_t wanted = later < count ? next.packs() : 0;
        index_t end = packs > wanted ? packs : wanted;
#pragma unroll 2
        for (index_t p = mates.rank; p < end; p += mates.width) {
            if (p < packs && bet == bet) {
                read_place(row, p, places + p, values, A(0));
                index_t start = row.start(p);
#pragma unroll
                for (int i = 0; i < N; i++) values[i] = mine.value(values[i], start + i);
                write(to, p, values);
            }
            if (p < wanted) fetch(next, p, places + p);
        }
    }
}

// Makes a derivative that was bet on true: writes the rows whose cotangent is another one, and
// keeps the cotangent in mind for the next bet. Two times the same one are worth a bet.
template <typename T, int N>
__global__ void __launch_bounds__(1024)
settle(const T *x, const void *labels, const accumulator_t<T> *exact, const T *g, T *out,
       accumulator_t<T> *bets, const accumulator_t<T> *staked, index_t count, index_t classes,
       index_t g_stride, index_t kind, index_t label_stride) {
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
            row_of<const T, N> from(x + r * classes, classes, 1);
            row_of<T, N> to(out + r * classes, classes, 1);
            index_t label = label_at(labels, kind, r * label_stride, classes);
            A picked = label < 0 ? not_a_number<A>() : A(from.data[label]);
            grad_of_row<A> mine = {exact[r] + picked, scale, label};
            write_grad(from, to, mine, mates);
        }
    }
}
