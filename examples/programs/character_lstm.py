"""An LSTM that learns to continue a text, character by character, trained by Adam.

python examples/programs/character_lstm.py
"""

import os

import numpy

import functensor.numpy as np
from functensor import value_and_grad
from functensor.scipy.special import logsumexp

TEXT = "the quick brown fox jumps over the lazy dog. " * 3
LETTERS = sorted(set(TEXT))
WIDTH = 24
GATES = ("change", "forget", "ingest", "output")


def sigmoid(x):
    return 0.5 * (np.tanh(x / 2) + 1)


def initial(random):
    size = len(LETTERS) + WIDTH + 1
    params = {gate: 0.2 * random.normal(size=(size, WIDTH)) for gate in GATES}
    params["predict"] = 0.2 * random.normal(size=(WIDTH + 1, len(LETTERS)))
    params["cells"] = numpy.zeros(WIDTH)
    params["hiddens"] = numpy.zeros(WIDTH)
    return params


def affine(weights, *inputs):
    joined = np.concatenate((*inputs, np.ones((inputs[0].shape[0], 1))), axis=1)
    return np.dot(joined, weights)


def log_probabilities(params, inputs):
    """Of the next character after each of inputs, with axes (time, batch, letter)."""
    batch = inputs.shape[1]
    cells = np.repeat(params["cells"][None], batch, axis=0)
    hiddens = np.repeat(params["hiddens"][None], batch, axis=0)
    outputs = []
    for now in inputs:
        change = np.tanh(affine(params["change"], now, hiddens))
        forget = sigmoid(affine(params["forget"], now, hiddens))
        ingest = sigmoid(affine(params["ingest"], now, hiddens))
        cells = cells * forget + ingest * change
        hiddens = sigmoid(affine(params["output"], now, hiddens)) * np.tanh(cells)
        scores = affine(params["predict"], hiddens)
        outputs.append(scores - logsumexp(scores, axis=1, keepdims=True))
    return np.stack(outputs)


def loss(params, inputs, targets):
    return -np.sum(np.mean(log_probabilities(params, inputs) * targets, axis=(0, 1)))


def data(random):
    """The first parameters, and windows of the text with the characters that follow."""
    codes = numpy.array([LETTERS.index(c) for c in TEXT])
    starts = numpy.arange(0, 45, 5)
    windows = numpy.eye(len(LETTERS))[codes[starts[None, :] + numpy.arange(31)[:, None]]]
    return initial(random), windows[:-1], windows[1:]


def run(steps):
    params, inputs, targets = data(numpy.random.default_rng(3))
    first = {name: numpy.zeros_like(value) for name, value in params.items()}
    second = {name: numpy.zeros_like(value) for name, value in params.items()}
    step = value_and_grad(loss)
    values = []
    for i in range(1, steps + 1):
        value, grads = step(params, inputs, targets)
        values.append(float(value))
        for name, g in grads.items():
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.99 * second[name] + 0.01 * g**2
            size = 0.02 / (1 - 0.9**i) * np.sqrt(1 - 0.99**i)
            params[name] = params[name] - size * first[name] / (np.sqrt(second[name]) + 1e-8)
    return {"first loss": values[0], "last loss": values[-1]}


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 150))).items():
        print(f"{name}: {value:.4f} nats a character")
