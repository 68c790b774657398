"""Finds the operation that makes NaN in the gradients of a 20-layer network, and trains it mended.

    python examples/find_a_nan.py

The loss is finite, and NaN is in the gradients of the first thirteen layers. All layers share the
lines of this file. `check_finite` names the first operation that makes NaN or infinity: with its
line, and with the scope, which is its layer.
"""

import os

import functensor as ft
import functensor.numpy as np
from functensor import nn, optim, random

LAYERS, WIDTH, POINTS = 20, 16, 64
NEIGHBOURS = 13  # the layer in which each point sees the ones near to it


def distances(h):
    """Wrong: the distance of a point to itself is 0, where the derivative of sqrt is infinite."""
    squares = np.sum((h[:, None] - h) ** 2, axis=-1)
    return np.sqrt(squares)


def mended_distances(h):
    squares = np.sum((h[:, None] - h) ** 2, axis=-1)
    return np.sqrt(np.maximum(squares, 1e-12))


def network(params, points, distances):
    h = points @ params["in"]
    for i, layer in enumerate(params["layers"]):
        with ft.scope(f"layer{i}"):
            if i == NEIGHBOURS:
                h = nn.softmax(-distances(h)) @ h
            h = h + 0.3 * np.tanh(nn.linear(h, **layer))
    return h @ params["out"]


def loss(params, points, inside, distances):
    return np.mean((network(params, points, distances) - np.where(inside, 1.0, -1.0)) ** 2)


def init(key):
    first, *keys = random.split(key, LAYERS + 1)
    return {
        "in": random.normal(first, (2, WIDTH)),
        "layers": [
            {"w": random.normal(k, (WIDTH, WIDTH)) / WIDTH**0.5, "b": np.zeros(WIDTH)} for k in keys
        ],
        "out": np.ones(WIDTH) / WIDTH,
    }


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 100))
    params_key, points_key = random.split(random.key(0))
    points = random.normal(points_key, (POINTS, 2))
    inside = np.sum(points**2, axis=1) < 1.4
    optimizer = optim.adam(3e-3)

    @ft.jit(static_argnums=2)
    def update(params, state, distances):
        value, grads = ft.value_and_grad(loss)(params, points, inside, distances)
        params, state = optimizer.update(params, state, grads)
        return params, state, value

    def train(steps, distances):
        params = init(params_key)
        state = optimizer.init(params)
        losses = []
        for _ in range(steps):
            params, state, value = update(params, state, distances)
            losses.append(f"{float(value):.3f}")
        return losses

    print("wrong: the losses are", *train(3, distances))
    with ft.hooks.check_finite():
        try:
            train(3, distances)
        except ft.errors.NonFiniteError as error:
            print(error)
        losses = train(steps, mended_distances)
    print(f"mended: the loss is {losses[0]} at first, {losses[-1]} after {steps} steps")


if __name__ == "__main__":
    main()
