"""Keeps the gradients of a long recurrence from exploding, without changing its code.

    python examples/gradient_clipping_hook.py

A hook sees every operation of unmodified functions, on the way back too, and may replace gradients.
"""

import os

import functensor as ft
import functensor.numpy as np

LIMIT = 1.0


def recurrence(w, x, steps):
    """A recurrent state that grows with every step, and its gradient with it."""
    h = x
    for _ in range(steps):
        h = np.tanh(h @ w) + 1.5 * h
    return np.mean(h**2)


def norm(g):
    return np.sqrt(np.sum(g**2))


def clipped(g):
    """Returns a gradient scaled down to a norm of at most LIMIT."""
    return g * np.minimum(1.0, LIMIT / (norm(g) + 1e-12)).astype(g.dtype)


def clip_everywhere(op, grad_inputs, grad_output):
    return [None if g is None else clipped(g) for g in grad_inputs]


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 40))
    w_key, x_key = ft.random.split(ft.random.key(0))
    w = ft.random.normal(w_key, (8, 8)) / 4
    x = ft.random.normal(x_key, (16, 8))
    gradient = ft.grad(recurrence)
    print(f"gradient without a hook: {float(norm(gradient(w, x, steps))):.1e}")

    # For functions: a hook on all matrix products, forward and backward.
    with ft.hooks.use(ft.hooks.FnHook(backward=clip_everywhere), match="matmul"):
        print(f"clipped in every matmul: {float(norm(gradient(w, x, steps))):.1e}")

    # For tensors: a hook on one of them sees its whole gradient before it is added to .grad.
    weights = ft.Tensor(w, requires_grad=True)
    with weights.register_hook(clipped):
        recurrence(weights, x, steps).backward()
    print(f"clipped at the tensor:   {norm(weights.grad).item():.1e}")


if __name__ == "__main__":
    main()
