"""Rescues a recurrent network whose training diverges, without changing its code.

    python examples/gradient_clipping_hook.py

The network multiplies its state by a matrix in each of 30 steps, and gradients grow on the way
back. A hook clips them in every product, within the jitted training step. With tensors, a hook on
each of the weights clips its whole gradient.
"""

import os

import functensor as ft
import functensor.numpy as np
from functensor import random

LENGTH, HIDDEN, BATCH, RATE = 30, 16, 32, 0.02


def init(key):
    first, second = random.split(key)
    return {
        "input": random.normal(first, (1, HIDDEN)) / 4,
        "hidden": 1.1 * np.eye(HIDDEN),
        "output": random.normal(second, (HIDDEN,)) / HIDDEN,
    }


def loss(params, sequences):
    """The error of a network that is to say the mean of each sequence."""

    def step(state, x):
        return np.maximum(x @ params["input"] + state @ params["hidden"], 0), None

    state, _ = ft.scan(step, np.zeros((BATCH, HIDDEN)), np.swapaxes(sequences, 0, 1))
    return np.mean((state @ params["output"] - np.mean(sequences, axis=(1, 2))) ** 2)


def train(loss, params, steps):
    """Returns the losses of plain gradient descent."""

    @ft.jit
    def update(params, sequences):
        value, grads = ft.value_and_grad(loss)(params, sequences)
        return ft.tree.map(lambda p, g: p - RATE * g, params, grads), value

    losses = []
    for key in random.split(random.key(1), steps):
        params, value = update(params, random.uniform(key, (BATCH, LENGTH, 1)))
        losses.append(float(value))
    return losses


def clipped(g):
    """Returns a gradient scaled down to a norm of at most 1."""
    return g / np.maximum(1.0, np.sqrt(np.sum(g**2)))


def train_tensors(params, steps):
    """Returns the losses of the same descent in PyTorch's manner, with a hook on each tensor."""
    tensors = {name: ft.Tensor(p, requires_grad=True) for name, p in params.items()}
    for p in tensors.values():
        p.register_hook(clipped)
    losses = []
    for key in random.split(random.key(1), steps):
        value = loss(tensors, random.uniform(key, (BATCH, LENGTH, 1)))
        value.backward()
        with ft.no_grad():
            for p in tensors.values():
                p -= RATE * p.grad
                p.grad = None
        losses.append(value.item())
    return losses


def report(name, losses):
    print(f"{name} the losses are {losses[0]:.2f}, {losses[1]:.1e}, ..., {losses[-1]:.4f}")


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 300))
    params = init(random.key(0))
    report("without a hook         ", train(loss, params, steps))
    by_product = ft.hooks.clip_gradients(loss, "matmul", max_norm=1.0)
    report("clipped in each product", train(by_product, params, steps))
    report("clipped at each tensor ", train_tensors(params, steps))


if __name__ == "__main__":
    main()
