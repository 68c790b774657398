"""Learns to read handwritten digits, on one process; `train_digits.py` does so on several.

    python examples/distributed/train_digits_alone.py
"""

import os

from sklearn.datasets import load_digits

import functensor as ft
import functensor.numpy as np
from functensor import nn, optim
from functensor.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 600))
BATCH, HELD_OUT = 32, 360


def init(key, sizes=(64, 256, 128, 10)):
    """Returns weights and offsets of layers, the same ones on every process."""
    keys = ft.random.split(key, len(sizes) - 1)
    he = nn.init.he_normal()
    return [
        {"w": he(key, (inputs, outputs), "float32"), "b": np.zeros(outputs, "float32")}
        for key, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def network(params, x):
    for layer in params[:-1]:
        x = nn.relu(nn.linear(x, **layer))
    return nn.linear(x, **params[-1])


def loss(params, images, labels):
    return np.mean(nn.softmax_cross_entropy(network(params, images), labels))


def fit(steps):
    """Returns the trained parameters, the losses, and what was held out."""
    digits = load_digits()
    images, labels = (digits.data / 16).astype("float32"), digits.target
    learnt = TensorDataset(images[:-HELD_OUT], labels[:-HELD_OUT])
    loader = DataLoader(learnt, BATCH, shuffle=True, key=0, drop_last=True)
    optimizer = optim.adam(2e-3)
    step = ft.jit(optimizer.minimize(loss))
    params = init(ft.random.key(1))
    state = optimizer.init(params)
    losses = []
    bar = ft.training.progress(steps)
    while len(losses) < steps:
        for batch in loader:
            params, state = step(params, state, *batch)
            losses.append(float(state.loss))
            bar.update(loss=losses[-1])
            if len(losses) == steps:
                break
    bar.close()
    return params, losses, (np.array(images[-HELD_OUT:]), np.array(labels[-HELD_OUT:]))


def main():
    params, losses, (images, labels) = fit(STEPS)
    right = np.mean(np.argmax(network(params, images), axis=1) == labels)
    print(f"the loss was {losses[0]:.6f} and is {losses[-1]:.6f}")
    print(f"{float(right):.1%} of {HELD_OUT} held-out digits read correctly")


if __name__ == "__main__":
    main()
