"""Trains a small recurrent network to add up marked numbers, by ft.scan under ft.jit.

    python examples/rnn.py

Every sequence has two channels: numbers, and marks at two of its steps. The network is to say the
sum of the two numbers that were marked.
"""

import os

import functensor as ft
import functensor.numpy as np
from functensor import nn, random

LENGTH, HIDDEN, BATCH = 10, 24, 64


def init(key):
    keys = random.split(key, 3)
    scaled = nn.init.orthogonal()
    return {
        "input": 0.5 * random.normal(keys[0], (2, HIDDEN)),
        "hidden": scaled(keys[1], (HIDDEN, HIDDEN)),
        "offset": np.zeros(HIDDEN),
        "output": random.normal(keys[2], (HIDDEN,)) / HIDDEN**0.5,
    }


def predict(params, sequences):
    def step(state, x):
        return np.tanh(x @ params["input"] + state @ params["hidden"] + params["offset"]), None

    state = np.zeros((sequences.shape[0], HIDDEN))
    # The loop is over the first axis: a step takes a number and a mark of every sequence.
    state, _ = ft.scan(step, state, np.swapaxes(sequences, 0, 1))
    return state @ params["output"]


def loss(params, sequences, sums):
    return np.mean((predict(params, sequences) - sums) ** 2)


def batch(key):
    numbers_key, first_key, second_key = random.split(key, 3)
    numbers = random.uniform(numbers_key, (BATCH, LENGTH))
    half = LENGTH // 2
    first = random.randint(first_key, (BATCH, 1), 0, half)
    second = random.randint(second_key, (BATCH, 1), half, LENGTH)
    places = np.arange(LENGTH)
    marks = np.where((places == first) | (places == second), 1.0, 0.0)
    return np.stack([numbers, marks], axis=-1), np.sum(numbers * marks, axis=1)


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 1500))
    optimizer = ft.optim.adam(3e-3)

    # Data, loss, gradient and update are one plan; the old weights' memory gets the new ones.
    @ft.jit(donate_argnums=(0, 1))
    def update(params, state, key):
        sequences, sums = batch(key)
        value, grads = ft.value_and_grad(loss)(params, sequences, sums)
        params, state = optimizer.update(params, state, grads)
        return params, state, value

    params = init(random.key(0))
    state = optimizer.init(params)
    keys = random.split(random.key(1), steps)
    for i in range(steps):
        params, state, value = update(params, state, keys[i])
        if i == 0:
            print(f"at first the mean squared error is {float(value):.2f}")
    sequences, sums = batch(random.key(2))
    error = float(loss(params, sequences, sums))
    print(f"after {steps} steps it is {error:.4f}, of sums whose variance is {np.var(sums):.2f}")


if __name__ == "__main__":
    main()
