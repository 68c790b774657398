"""Finds wrong labels: the gradient of every single example, all at once, by vmap of grad.

python examples/per_example_gradients.py
"""

import os

import functensor as ft
import functensor.numpy as np
from functensor import nn, optim


def example_loss(params, point, label):
    """The loss of one example; nothing here knows of batches."""
    score = np.dot(point, params["w"]) + params["b"]
    return nn.binary_cross_entropy_with_logits(score, label)


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 200))
    points = ft.random.normal(ft.random.key(0), (300, 2))
    points = points + 2 * np.sign(points)[:, :1]
    labels = (points[:, 0] > 0).astype(float)
    wrong = np.array([7, 123, 250])
    labels = labels.at[wrong].set(1 - labels[wrong])

    def loss(params):
        return np.mean(ft.vmap(example_loss, in_axes=(None, 0, 0))(params, points, labels))

    optimizer = optim.adam(0.05)
    step = optimizer.minimize(loss)
    params = {"w": np.zeros(2), "b": np.zeros(())}
    state = optimizer.init(params)
    for _ in range(steps):
        params, state = step(params, state)

    # One gradient for each of the 300 examples: every leaf has a leading axis of that length.
    gradients = ft.vmap(ft.grad(example_loss), in_axes=(None, 0, 0))(params, points, labels)
    norms = np.sqrt(np.sum(gradients["w"] ** 2, axis=1) + gradients["b"] ** 2)
    suspects = np.sort(np.argsort(norms)[-3:])
    print("wrongly labelled examples:", wrong)
    print("largest gradients:        ", suspects)


if __name__ == "__main__":
    main()
