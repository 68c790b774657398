"""Fits a line in three variables: a loss, an optimizer, and a step that is a pure function.

python examples/linear_regression.py
"""

import os

import functensor as ft
import functensor.numpy as np
from functensor import optim


def loss(params, x, y):
    predicted = x @ params["weights"] + params["offset"]
    return np.mean((predicted - y) ** 2)


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 200))
    weights, offset = np.array([2.0, -1.0, 0.5]), 3.0
    x_key, noise_key = ft.random.split(ft.random.key(0))
    x = ft.random.normal(x_key, (500, 3))
    y = x @ weights + offset + 0.1 * ft.random.normal(noise_key, (500,))

    optimizer = optim.momentum(0.05)
    step = optimizer.minimize(loss)
    params = {"weights": np.zeros(3), "offset": np.zeros(())}
    state = optimizer.init(params)
    for _ in range(steps):
        params, state = step(params, state, x, y)

    print(f"after {int(state.step)} steps the loss is {float(state.loss):.5f}")
    print("weights", np.round(params["weights"], 2), "offset", np.round(params["offset"], 2))


if __name__ == "__main__":
    main()
