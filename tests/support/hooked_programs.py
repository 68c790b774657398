"""Small random programs of the operations that hooks see in several transformations at once.

A program takes ``x`` of shape (3,) and ``w`` of shape (3, 3) and returns an array like ``x``.
"""

import random

import functensor as ft
import functensor.numpy as np

__all__ = ["program"]

ELEMENTWISE = {
    "sin": lambda x, w: np.sin(x),
    "tanh": lambda x, w: np.tanh(x),
    "times a row": lambda x, w: x * w[1],
    "quotient": lambda x, w: x / (1 + w[2] ** 2),
    "maximum": lambda x, w: np.maximum(x, w[0]),
    "where": lambda x, w: np.where(x > 0, x, w[1] * x),
    "stopped": lambda x, w: x * ft.stop_gradient(np.cos(x)),
    "reversed": lambda x, w: x[::-1] + x[np.array([2, 0, 2])],
}
PRODUCTS = {
    "matmul": lambda x, w: np.tanh(w @ x),
    "vector times matrix": lambda x, w: np.sin(x @ w),
    "einsum": lambda x, w: np.einsum("ij,j->i", w, x) / 3,
}
REDUCTIONS = {
    "sum": lambda x, w: x - np.sum(x),
    "max": lambda x, w: x - np.max(x),
    "deviation": lambda x, w: x + np.std(w, axis=0),
    "cumsum": lambda x, w: np.cumsum(x),
}
SIMPLE = [*ELEMENTWISE.items(), *PRODUCTS.items(), *REDUCTIONS.items()]


def in_vmap(step, other):
    return lambda x, w: np.mean(ft.vmap(step, (0, None))(w, w), axis=0) + x


def in_vmap_of_both(step, other):
    return lambda x, w: np.sum(ft.vmap(lambda row: step(x * row, w))(w), axis=0)


def in_nested_vmaps(step, other):
    def run(x, w):
        inner = ft.vmap(lambda a, b: step(a * b, w), (None, 0))
        return np.mean(ft.vmap(inner, (0, None))(w, w + x), axis=(0, 1))

    return run


def in_psum(step, other):
    def run(x, w):
        def one(row):
            return ft.psum(step(row, w), "i") * 0.1 + row * ft.pmax(x, "i")

        return ft.vmap(one, axis_name="i")(w)[1] + x

    return run


def in_scan(step, other):
    def run(x, w):
        carry, sums = ft.scan(lambda c, row: (step(c, w) + row, np.sum(c * row)), x, w)
        return carry + sums

    return run


def in_fori_loop(step, other):
    return lambda x, w: ft.fori_loop(0, 3, lambda i, c: step(c, w) + i, x)


def in_cond(step, other):
    return lambda x, w: ft.cond(np.sum(x) > 0, step, other, x, w)


def in_grad(step, other):
    return lambda x, w: ft.grad(lambda z: np.sum(step(z, w)))(x) + x


AROUND = [
    in_vmap, in_vmap_of_both, in_nested_vmaps, in_psum, in_scan, in_fori_loop, in_cond, in_grad,
]  # fmt: skip


def step_of(draw, depth):
    """Returns a random step and what it is called."""
    if not depth or draw.random() < 0.4:
        name, step = draw.choice(SIMPLE)
        return step, name
    around = draw.choice(AROUND)
    (step, name), (other, _) = step_of(draw, depth - 1), step_of(draw, 0)
    return around(step, other), f"{around.__name__}({name})"


def program(seed, depth=2, length=3):
    """Returns the program of a seed; its name says what it does."""
    draw = random.Random(seed)
    steps = [step_of(draw, depth) for _ in range(length)]

    def run(x, w):
        for step, _ in steps:
            x = step(x, w)
        return x

    run.__name__ = ", ".join(name for _, name in steps)
    return run
