"""Trains a network through CUDA kernels of one's own, which NumPy stands in for without a GPU.

    python examples/cuda_kernel.py

The activation is the snake, x + sin(ax)^2 / a, with an a for every unit, which is learnt too
(Ziyin, Hartwig and Ueda, https://arxiv.org/abs/2006.08195). A kernel computes it and another one
its two derivatives; `ft.custom_op` makes both known to `grad`, `vmap` and all others.
"""

import os

import numpy

import functensor as ft
import functensor.numpy as np
from functensor import optim

SOURCE = r"""
extern "C" __global__ void snake(const float *x, const float *a, float *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = sinf(a[i] * x[i]);
    out[i] = x[i] + s * s / a[i];
}

extern "C" __global__ void slopes(
    const float *x, const float *a, float *by_x, float *by_a, long long n
) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = sinf(a[i] * x[i]), twice = sinf(2 * a[i] * x[i]);
    by_x[i] = 1 + twice;
    by_a[i] = (x[i] * twice - s * s / a[i]) / a[i];
}
"""


def snake_by_numpy(x, a):
    return x + numpy.sin(a * x) ** 2 / a


def slopes_by_numpy(x, a):
    twice = numpy.sin(2 * a * x)
    return 1 + twice, (x * twice - numpy.sin(a * x) ** 2 / a) / a


def kernels(name, by_numpy):
    """Returns what computes an operation on each kind of device that there is."""
    if ft.devices() == ["cpu"]:
        return {"cpu": by_numpy}
    import cupy

    return {"cpu": by_numpy, "cuda": cupy.RawKernel(SOURCE, name)}


def pull(g, ans, x, a):
    by_x, by_a = slopes(x, a)
    return g * by_x, g * by_a


slopes = ft.custom_op(kernels("slopes", slopes_by_numpy), abstract=lambda x, a: (x, x), batch=True)
snake = ft.custom_op(
    kernels("snake", snake_by_numpy), abstract=lambda x, a: x, vjp=pull, batch=True
)


def predict(params, x):
    """Returns the network's answer to one number."""
    hidden = snake(x * params["w1"] + params["b1"], params["a"])
    return np.sum(hidden * params["w2"]) + params["b2"]


def loss(params, xs, ys):
    return np.mean((ft.vmap(predict, in_axes=(None, 0))(params, xs) - ys) ** 2)


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 1000))
    with ft.default_device(ft.devices()[-1]) as device:
        first, second, third = ft.random.split(ft.random.key(0), 3)
        params = {
            "w1": ft.random.normal(first, (32,), "float32"),
            "b1": ft.random.normal(second, (32,), "float32"),
            "a": np.ones(32, "float32"),
            "w2": ft.random.normal(third, (32,), "float32") / 32,
            "b2": np.zeros((), "float32"),
        }
        xs = np.linspace(-6, 6, 256, dtype="float32")
        ys = np.sin(2 * xs) + xs / 4
        optimizer = optim.adam(3e-3)
        step = optimizer.minimize(loss)
        state = optimizer.init(params)
        before = float(loss(params, xs, ys))
        for _ in range(steps):
            params, state = step(params, state, xs, ys)
        print(f"on {device}: the mean squared error was {before:.3f}")
        print(f"after {steps} steps it is {float(loss(params, xs, ys)):.6f}")


if __name__ == "__main__":
    main()
