"""A small GPT learns to write Python, on one process; `character_gpt.py` does so on several.

    python examples/distributed/character_gpt_alone.py
"""

import inspect
import os

import numpy

import functensor as ft
import functensor.nn.layers
import functensor.numpy as np
from functensor import nn, optim
from functensor.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 300))
BATCH, WINDOW, WIDTH, HEADS, LAYERS = 16, 32, 64, 4, 2
TEXT = inspect.getsource(functensor.nn.layers)
LETTERS = sorted(set(TEXT))


def init(key):
    """Returns embeddings, blocks, and weights of the scores; the same ones on every process."""
    keys = iter(ft.random.split(key, 3 + 4 * LAYERS))
    normal = nn.init.normal(0.05)

    def weights(*shape):
        return normal(next(keys), shape, "float32")

    def norm():
        return {"weight": np.ones(WIDTH, "float32"), "bias": np.zeros(WIDTH, "float32")}

    return {
        "letters": weights(len(LETTERS), WIDTH),
        "places": weights(WINDOW, WIDTH),
        "blocks": [
            {
                "norm1": norm(), "qkv": weights(WIDTH, 3 * WIDTH), "out": weights(WIDTH, WIDTH),
                "norm2": norm(), "up": weights(WIDTH, 4 * WIDTH), "down": weights(4 * WIDTH, WIDTH),
            }
            for _ in range(LAYERS)
        ],
        "norm": norm(),
        "scores": weights(WIDTH, len(LETTERS)),
    }  # fmt: skip


def network(params, x):
    h = params["letters"][x] + params["places"][: x.shape[1]]
    for block in params["blocks"]:
        parts = np.split(nn.layer_norm(h, **block["norm1"]) @ block["qkv"], 3, axis=-1)
        heads = (*h.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = [np.moveaxis(np.reshape(part, heads), 2, 1) for part in parts]
        seen = np.moveaxis(nn.attention(q, k, v, causal=True), 1, 2)
        h = h + np.reshape(seen, h.shape) @ block["out"]
        h = h + nn.gelu(nn.layer_norm(h, **block["norm2"]) @ block["up"]) @ block["down"]
    return nn.layer_norm(h, **params["norm"]) @ params["scores"]


def loss(params, x, y):
    return np.mean(nn.softmax_cross_entropy(network(params, x), y))


def windows():
    """Returns all windows of the text, and the letters that follow theirs."""
    text = numpy.array([LETTERS.index(letter) for letter in TEXT])
    cut = numpy.lib.stride_tricks.sliding_window_view(text, WINDOW + 1)
    return TensorDataset(cut[:, :-1], cut[:, 1:])


def fit(steps):
    """Returns the trained parameters and the losses."""
    loader = DataLoader(windows(), BATCH, shuffle=True, key=0, drop_last=True)
    optimizer = optim.clipped_by_global_norm(optim.adamw(3e-3), 1.0)
    step = ft.jit(optimizer.minimize(loss))
    params = init(ft.random.key(1))
    state = optimizer.init(params)
    losses = []
    bar = ft.training.progress(steps)
    for _, batch in zip(range(steps), loader):
        params, state = step(params, state, *batch)
        losses.append(float(state.loss))
        bar.update(loss=losses[-1])
    bar.close()
    return params, losses


def main():
    params, losses = fit(STEPS)
    print(f"the loss was {losses[0]:.6f} and is {losses[-1]:.6f}")
    x = np.array([[LETTERS.index(letter) for letter in "def "]])
    for _ in range(WINDOW - 4):
        following = np.argmax(network(params, x)[:, -1:], axis=-1)
        x = np.concatenate([x, following], axis=1)
    written = "".join(LETTERS[i] for i in x[0].tolist())
    print(repr(written))


if __name__ == "__main__":
    main()
