"""Differentiates a deep network in a fraction of the memory: residuals wait in files, or shrink.

    python examples/activation_offloading.py

The backward pass needs the activations of all layers, which are most of the memory. A hook writes
each of them into a file, or keeps it in another dtype, until its layer's turn comes. The network
and its loss know nothing of that. Memory is counted by tracemalloc, which sees all of NumPy's.
"""

import gc
import tracemalloc
from contextlib import nullcontext

import functensor as ft
import functensor.numpy as np
from functensor import random

LAYERS, WIDTH, POINTS = 24, 64, 4096


def loss(weights, x, y):
    for w in weights:
        x = x + np.tanh(x @ w) / 4
    return np.mean((x - y) ** 2)


def peak_of(hook, *arguments):
    """Returns the gradient, and the most memory in bytes that was held on the way to it."""
    gc.collect()
    tracemalloc.start()
    with ft.hooks.use(hook) if hook else nullcontext():
        gradient = ft.grad(loss)(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return gradient, peak


def largest_error(found, wanted):
    """Returns how far gradients are from others, relative to the largest of each array."""
    return max(
        float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in zip(found, wanted, strict=True)
    )


def main():
    weights_key, x_key, y_key = random.split(random.key(0), 3)
    weights = [
        random.normal(key, (WIDTH, WIDTH), dtype="float32") / WIDTH**0.5
        for key in random.split(weights_key, LAYERS)
    ]
    x = random.normal(x_key, (POINTS, WIDTH), dtype="float32")
    y = np.sin(random.normal(y_key, (POINTS, WIDTH), dtype="float32"))
    # Bits are compared, so that no operation is to go over to machine code in between.
    ft.config.deterministic = True
    # What is imported once is no memory of a training step.
    peak_of(ft.hooks.OffloadHook("disk"), weights, x, y)

    exact, plain = peak_of(None, weights, x, y)
    print(f"without a hook: {plain / 2**20:.0f} MiB at the peak")
    hooks = {
        "activations in files": ft.hooks.OffloadHook("disk"),
        "activations in float16": ft.hooks.CompressHook("float16"),
        "activations in int8": ft.hooks.CompressHook("int8"),
    }
    for name, hook in hooks.items():
        gradient, peak = peak_of(hook, weights, x, y)
        error = largest_error(gradient, exact)
        kind = "the same to the last bit" if error == 0 else f"off by {error:.0e}"
        print(f"{name}: {peak / 2**20:.0f} MiB, {peak / plain:.0%}; gradients are {kind}")


if __name__ == "__main__":
    main()
