// Pooling: windows of up to three spatial axes, in any order in memory.
#include "complex.cuh"
#include "index_places.cuh"

// Strides of an array in elements: of channels that lie innermost, of planes, of the spatial axes.
struct strides_of {
    index_t channel, plane, axis[3];
};

// The array below the windows, the windows, and the array that has an element for each; the strides
// of the operands and of the result; how many channels and planes there are, and threads abreast.
struct pools {
    index_t lengths[3], windows[3], strides[3], paddings[3], counts[3];
    strides_of x, y, out;
    index_t channels, planes, width, padding_counts;
};

template <int V, typename T> __device__ __forceinline__ pack<T, V> loaded(const T *x) {
    return *reinterpret_cast<const pack<T, V> *>(x);
}

template <typename T, typename A, int V>
__device__ __forceinline__ void store(T *out, const pack<A, V> &values) {
    pack<T, V> rounded;
#pragma unroll
    for (int c = 0; c < V; ++c) rounded[c] = T(values[c]);
    *reinterpret_cast<pack<T, V> *>(out) = rounded;
}

template <int V, typename A> __device__ __forceinline__ pack<A, V> filled(A value) {
    pack<A, V> out;
#pragma unroll
    for (int c = 0; c < V; ++c) out[c] = value;
    return out;
}

struct windows_of {
    int length[3], window[3], stride[3], before[3], count[3];

    __device__ __forceinline__ windows_of(const pools &p) {
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            length[axis] = int(p.lengths[axis]);
            window[axis] = int(p.windows[axis]);
            stride[axis] = int(p.strides[axis]);
            before[axis] = int(p.paddings[axis]);
            count[axis] = int(p.counts[axis]);
        }
    }

    __device__ __forceinline__ int size() const { return window[0] * window[1] * window[2]; }
};

// A thread has one spatial place of many planes; where channels lie innermost, that of V of them,
// which are loaded and stored by one instruction.
template <int V> struct thread_of {
    int at[3];
    index_t channel, plane, step;
    bool inside;

    __device__ __forceinline__ thread_of(const int *shape, index_t channels, index_t width) {
        unsigned int across = (unsigned int)width, down = blockDim.x / across;
        index_t lane = index_t(blockIdx.x) * across + threadIdx.x % across;
        index_t groups = channels / V, place = groups == 1 ? lane : lane / groups;
        channel = (lane - place * groups) * V;
        inside = place < index_t(shape[0]) * shape[1] * shape[2] && threadIdx.x < across * down;
        unsigned int rest = (unsigned int)place;
        unsigned int upper = rest / (unsigned int)shape[2];
        at[2] = int(rest - upper * shape[2]);
        at[0] = shape[0] == 1 ? 0 : int(upper / (unsigned int)shape[1]);
        at[1] = int(upper - (unsigned int)at[0] * shape[1]);
        plane = index_t(blockIdx.y) * down + threadIdx.x / across;
        step = index_t(gridDim.y) * down;
    }

    __device__ __forceinline__ index_t start(const strides_of &s) const {
        return channel * s.channel + at[0] * s.axis[0] + at[1] * s.axis[1] + at[2] * s.axis[2];
    }
};

// The part of a window that is not padding, and where it starts.
struct reach {
    int first[3], from[3], to[3];

    template <int V>
    __device__ __forceinline__ reach(const windows_of &w, const thread_of<V> &t) {
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            first[axis] = t.at[axis] * w.stride[axis] - w.before[axis];
            from[axis] = max(-first[axis], 0);
            to[axis] = min(w.length[axis] - first[axis], w.window[axis]);
        }
    }

    __device__ __forceinline__ index_t start(const strides_of &s) const {
        return first[0] * s.axis[0] + first[1] * s.axis[1] + first[2] * s.axis[2];
    }

    __device__ __forceinline__ int size() const {
        return (to[0] - from[0]) * (to[1] - from[1]) * (to[2] - from[2]);
    }

    // Calls f(channel, value, number) for every element of V channels, in C order. Of a window of
    // K x K places on the last two axes, where K is not 0, all is known but which of them are
    // padding: these have the value `absent`, so that no branch keeps the loads of several planes
    // apart.
    template <int K, int V, typename A, typename T, typename F>
    __device__ __forceinline__ void each(
        const T *x, const windows_of &w, const strides_of &s, A absent, F f
    ) const {
        if constexpr (K != 0) {
#pragma unroll
            for (int i = 0; i < K; ++i)
#pragma unroll
                for (int j = 0; j < K; ++j) {
                    bool there = i >= from[1] && i < to[1] && j >= from[2] && j < to[2];
                    pack<T, V> values = {};
                    if (there) values = loaded<V>(x + i * s.axis[1] + j * s.axis[2]);
#pragma unroll
                    for (int c = 0; c < V; ++c) f(c, there ? A(values[c]) : absent, i * K + j);
                }
        } else {
            for (int h = from[0]; h < to[0]; ++h)
                for (int i = from[1]; i < to[1]; ++i) {
                    index_t row = h * s.axis[0] + i * s.axis[1];
                    int number = (h * w.window[1] + i) * w.window[2];
#pragma unroll 4
                    for (int j = from[2]; j < to[2]; ++j) {
                        pack<T, V> values = loaded<V>(x + row + j * s.axis[2]);
#pragma unroll
                        for (int c = 0; c < V; ++c) f(c, A(values[c]), number + j);
                    }
                }
        }
    }
};

// The windows that have an element, and which place of theirs it is.
struct cover {
    int place[3], least[3], last[3];

    template <int V>
    __device__ __forceinline__ cover(const windows_of &w, const thread_of<V> &t) {
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            place[axis] = t.at[axis] + w.before[axis];
            int past = place[axis] - w.window[axis] + w.stride[axis];
            least[axis] = past < 0 ? 0 : past / w.stride[axis];
            last[axis] = min(place[axis] / w.stride[axis], w.count[axis] - 1);
        }
    }

    // Calls f(offset, number, window) for every window, by ascending number of the place in it. On
    // the last two axes there are at most M windows each and on the first one, where M is not 0.
    template <int M, typename F>
    __device__ __forceinline__ void each(const windows_of &w, const strides_of &s, F f) const {
        if constexpr (M != 0) {
#pragma unroll
            for (int i = 0; i < M; ++i)
#pragma unroll
                for (int j = 0; j < M; ++j)
                    if (last[1] - i >= least[1] && last[2] - j >= least[2])
                        call(w, s, 0, last[1] - i, last[2] - j, f);
        } else {
            for (int h = last[0]; h >= least[0]; --h)
                for (int i = last[1]; i >= least[1]; --i)
                    for (int j = last[2]; j >= least[2]; --j) call(w, s, h, i, j, f);
        }
    }

    template <typename F>
    __device__ __forceinline__ void call(
        const windows_of &w, const strides_of &s, int h, int i, int j, F f
    ) const {
        int number = ((place[0] - h * w.stride[0]) * w.window[1] + place[1] - i * w.stride[1])
            * w.window[2] + place[2] - j * w.stride[2];
        int window[3] = {h, i, j};
        f(h * s.axis[0] + i * s.axis[1] + j * s.axis[2], number, window);
    }
};

// How many elements of a window are not padding.
__device__ __forceinline__ int inside_of(const windows_of &w, const int *window) {
    int product = 1;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        int start = window[axis] * w.stride[axis] - w.before[axis];
        product *= min(start + w.window[axis], w.length[axis]) - max(start, 0);
    }
    return product;
}

// Less than or equal to everything.
template <typename T> struct lowest {
    static __device__ __forceinline__ T value() {
        return T(-1) < T(0) ? T(1ull << (8 * sizeof(T) - 1)) : T(0);
    }
};
template <> struct lowest<float> {
    static __device__ __forceinline__ float value() { return -INFINITY_OF(float); }
};
template <> struct lowest<double> {
    static __device__ __forceinline__ double value() { return -INFINITY_OF(double); }
};

// The type by which a sum of As is divided.
template <typename A> struct real { typedef A type; };
template <typename R> struct real<complex_t<R>> { typedef R type; };
template <typename A> using real_t = typename real<A>::type;

// -- from arrays to windows

template <typename T, int K, int V> __global__ void max_pool(
    void *out_, const void *x_, pools p
) {
    typedef accumulator_t<T> A;
    windows_of w(p);
    thread_of<V> t(w.count, p.channels, p.width);
    if (!t.inside) return;
    reach r(w, t);
    const T *__restrict__ x = static_cast<const T *>(x_) + t.channel * p.x.channel + r.start(p.x);
    T *__restrict__ out = static_cast<T *>(out_) + t.start(p.out);
#pragma unroll 4
    for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
        const T *from = x + plane * p.x.plane;
        pack<A, V> best = filled<V>(lowest<A>::value());
        r.template each<K, V>(from, w, p.x, lowest<A>::value(), [&](int c, A value, int) {
            best[c] = larger()(best[c], value);
        });
        store(out + plane * p.out.plane, best);
    }
}

// An element wins if it is greater than the best before it, or NaN. None wins after a NaN.
template <typename A> __device__ __forceinline__ bool wins(A value, A best) {
    return !(value <= best) && best == best;
}

// Calls f(offset, best, winner) for every window: how far its result lies behind the first one, its
// maxima, and the numbers of the first places that have them.
template <typename T, int K, int V, typename F>
__device__ __forceinline__ void each_winner(const void *x_, const pools &p, F f) {
    typedef accumulator_t<T> A;
    windows_of w(p);
    thread_of<V> t(w.count, p.channels, p.width);
    if (!t.inside) return;
    reach r(w, t);
    const T *__restrict__ x = static_cast<const T *>(x_) + t.channel * p.x.channel + r.start(p.x);
    const index_t start = t.start(p.out);
#pragma unroll 4
    for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
        const T *from = x + plane * p.x.plane;
        pack<A, V> best = filled<V>(lowest<A>::value());
        pack<int, V> winner = {};
        r.template each<K, V>(from, w, p.x, lowest<A>::value(), [&](int c, A value, int number) {
            winner[c] = wins<A>(value, best[c]) ? number : winner[c];
            best[c] = larger()(best[c], value);
        });
        f(start + plane * p.out.plane, best, winner);
    }
}

template <typename T, typename I, int K, int V> __global__ void max_pool_argmax(
    void *out_, const void *x_, pools p
) {
    typedef pack<accumulator_t<T>, V> values;
    I *__restrict__ out = static_cast<I *>(out_);
    each_winner<T, K, V>(x_, p, [&](index_t at, const values &, const pack<int, V> &winner) {
        store(out + at, winner);
    });
}

// Both of these at once.
template <typename T, typename I, int K, int V> __global__ void max_pool_with_argmax(
    void *out_, void *winners_, const void *x_, pools p
) {
    typedef pack<accumulator_t<T>, V> values;
    T *__restrict__ out = static_cast<T *>(out_);
    I *__restrict__ winners = static_cast<I *>(winners_);
    each_winner<T, K, V>(x_, p, [&](index_t at, const values &best, const pack<int, V> &winner) {
        store(out + at, best);
        store(winners + at, winner);
    });
}

template <int BYTES, typename I> __global__ void pool_take(
    void *out_, const void *x_, const void *winner_, pools p
) {
    typedef typename word<BYTES>::type W;
    windows_of w(p);
    thread_of<1> t(w.count, p.channels, p.width);
    if (!t.inside) return;
    reach r(w, t);
    const W *__restrict__ x = static_cast<const W *>(x_) + t.channel * p.x.channel + r.start(p.x);
    W *__restrict__ out = static_cast<W *>(out_) + t.start(p.out);
    const I *__restrict__ winner = static_cast<const I *>(winner_) + t.start(p.y);
    index_t size = w.size();
    for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
        index_t number = winner[plane * p.y.plane];
        W value = {};
        if (number >= 0 && number < size) {
            int rest = int(number), upper = rest / w.window[2];
            int j = rest - upper * w.window[2], h = upper / w.window[1], i = upper - h * w.window[1];
            if (h >= r.from[0] && h < r.to[0] && i >= r.from[1] && i < r.to[1] && j >= r.from[2]
                && j < r.to[2])
                value = x[plane * p.x.plane + h * p.x.axis[0] + i * p.x.axis[1] + j * p.x.axis[2]];
        }
        out[plane * p.out.plane] = value;
    }
}

template <typename S, typename T, int K, int V> __global__ void avg_pool(
    void *out_, const void *x_, pools p
) {
    typedef accumulator_t<T> A;
    windows_of w(p);
    thread_of<V> t(w.count, p.channels, p.width);
    if (!t.inside) return;
    reach r(w, t);
    const S *__restrict__ x = static_cast<const S *>(x_) + t.channel * p.x.channel + r.start(p.x);
    T *__restrict__ out = static_cast<T *>(out_) + t.start(p.out);
    real_t<A> size = real_t<A>(p.padding_counts ? w.size() : r.size());
#pragma unroll 4
    for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
        const S *from = x + plane * p.x.plane;
        pack<A, V> sum = filled<V>(A(0));
        r.template each<K, V>(from, w, p.x, A(0), [&](int c, A value, int) {
            sum[c] = sum[c] + value;
        });
#pragma unroll
        for (int c = 0; c < V; ++c) sum[c] = sum[c] / size;
        store(out + plane * p.out.plane, sum);
    }
}

// -- from windows to arrays: every element asks the windows that have it

// The M x M windows over the last two axes that an element asks, the same in every plane. Those that
// are not there are read at the place of the last one, without a branch, so that the loads of several
// planes are under way at once, and what they hold is not added.
template <int M> struct asked {
    index_t from[M * M], won[M * M];
    int number[M * M];
    bool there[M * M];

    __device__ __forceinline__ asked(const cover &c, const windows_of &w, const pools &p) {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
            for (int j = 0; j < M; ++j) {
                int k = i * M + j, upper = max(c.last[1] - i, 0), inner = max(c.last[2] - j, 0);
                there[k] = c.last[1] - i >= c.least[1] && c.last[2] - j >= c.least[2];
                number[k] = (c.place[1] - upper * w.stride[1]) * w.window[2] + c.place[2]
                    - inner * w.stride[2];
                from[k] = upper * p.x.axis[1] + inner * p.x.axis[2];
                won[k] = upper * p.y.axis[1] + inner * p.y.axis[2];
            }
    }

    template <typename A, int V, typename T, typename I>
    __device__ __forceinline__ pack<A, V> sum(const T *g, const I *winner) const {
        pack<A, V> out = filled<V>(A(0));
#pragma unroll
        for (int k = 0; k < M * M; ++k) {
            pack<T, V> values = loaded<V>(g + from[k]);
            pack<I, V> winners = loaded<V>(winner + won[k]);
#pragma unroll
            for (int c = 0; c < V; ++c)
                if (winners[c] == I(number[k]) && there[k]) out[c] = out[c] + A(values[c]);
        }
        return out;
    }
};

template <typename T, typename I, int M, int V> __global__ void pool_scatter(
    void *out_, const void *g_, const void *winner_, pools p
) {
    typedef accumulator_t<T> A;
    windows_of w(p);
    thread_of<V> t(w.length, p.channels, p.width);
    if (!t.inside) return;
    cover c(w, t);
    const T *__restrict__ g = static_cast<const T *>(g_) + t.channel * p.x.channel;
    T *__restrict__ out = static_cast<T *>(out_) + t.start(p.out);
    const I *__restrict__ winner = static_cast<const I *>(winner_) + t.channel * p.y.channel;
    if constexpr (M != 0) {
        asked<M> a(c, w, p);
#pragma unroll 4
        for (index_t plane = t.plane; plane < p.planes; plane += t.step)
            store(out + plane * p.out.plane, a.template sum<A, V>(
                g + plane * p.x.plane, winner + plane * p.y.plane
            ));
    } else {
        for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
            const T *from = g + plane * p.x.plane;
            const I *won = winner + plane * p.y.plane;
            pack<A, V> sum = filled<V>(A(0));
            c.template each<0>(w, p.x, [&](index_t i, int number, const int *at) {
                index_t own = at[0] * p.y.axis[0] + at[1] * p.y.axis[1] + at[2] * p.y.axis[2];
                pack<T, V> values = loaded<V>(from + i);
                pack<I, V> winners = loaded<V>(won + own);
#pragma unroll
                for (int k = 0; k < V; ++k)
                    if (winners[k] == I(number)) sum[k] = sum[k] + A(values[k]);
            });
            store(out + plane * p.out.plane, sum);
        }
    }
}

// Where windows of K x K places lie side by side and leave nothing out: every window writes all
// its elements, K at a time.
template <typename T, typename I, int K> __global__ void pool_spread(
    void *out_, const void *g_, const void *winner_, pools p
) {
    typedef accumulator_t<T> A;
    windows_of w(p);
    thread_of<1> t(w.count, p.channels, p.width);
    if (!t.inside) return;
    const T *__restrict__ g = static_cast<const T *>(g_) + t.start(p.x);
    const I *__restrict__ winner = static_cast<const I *>(winner_) + t.start(p.y);
    T *__restrict__ out =
        static_cast<T *>(out_) + t.channel * p.out.channel +
        K * (t.at[1] * p.out.axis[1] + t.at[2] * p.out.axis[2]);
#pragma unroll 4
    for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
        const A value = A(0) + A(g[plane * p.x.plane]);
        const I number = winner[plane * p.y.plane];
#pragma unroll
        for (int i = 0; i < K; ++i) {
            pack<A, K> row;
#pragma unroll
            for (int j = 0; j < K; ++j) row[j] = number == I(i * K + j) ? value : A(0);
            store(out + plane * p.out.plane + i * p.out.axis[1], row);
        }
    }
}

template <typename S, typename T, int M, int V> __global__ void avg_pool_grad(
    void *out_, const void *g_, pools p
) {
    typedef accumulator_t<T> A;
    typedef real_t<A> R;
    windows_of w(p);
    thread_of<V> t(w.length, p.channels, p.width);
    if (!t.inside) return;
    cover c(w, t);
    const S *__restrict__ g = static_cast<const S *>(g_) + t.channel * p.x.channel;
    T *__restrict__ out = static_cast<T *>(out_) + t.start(p.out);
    R size = R(w.size());
#pragma unroll 2
    for (index_t plane = t.plane; plane < p.planes; plane += t.step) {
        const S *from = g + plane * p.x.plane;
        pack<A, V> sum = filled<V>(A(0));
        if (p.padding_counts) {
            c.template each<M>(w, p.x, [&](index_t i, int, const int *) {
                pack<S, V> values = loaded<V>(from + i);
#pragma unroll
                for (int k = 0; k < V; ++k) sum[k] = sum[k] + A(values[k]);
            });
#pragma unroll
            for (int k = 0; k < V; ++k) sum[k] = sum[k] / size;
        } else {
            c.template each<M>(w, p.x, [&](index_t i, int, const int *at) {
                pack<S, V> values = loaded<V>(from + i);
                R terms = R(inside_of(w, at));
#pragma unroll
                for (int k = 0; k < V; ++k) sum[k] = sum[k] + A(values[k]) / terms;
            });
        }
        store(out + plane * p.out.plane, sum);
    }
}
