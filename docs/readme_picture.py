"""Draws the picture of the README: the loss of a small network, and what its first layer looks for.

Run ``python docs/readme_picture.py`` where ``functensor[examples]`` is installed.
"""

import argparse
from pathlib import Path

import numpy
from matplotlib.figure import Figure

import functensor as ft
import functensor.numpy as np
from functensor import datasets, nn, optim

DOCS = Path(__file__).resolve().parent
UNITS, STEPS, BATCH = 24, 600, 128


def trained(steps=STEPS):
    """Returns the parameters of a perceptron that has learned digits, its losses and accuracy."""
    images, labels = datasets.digits()
    images = images.reshape(-1, 64) / 16
    x, y = images[:1500], labels[:1500]
    rng = numpy.random.default_rng(0)
    params = {
        "w1": rng.normal(0, 0.1, (64, UNITS)), "b1": numpy.zeros(UNITS),
        "w2": rng.normal(0, 0.2, (UNITS, 10)), "b2": numpy.zeros(10),
    }  # fmt: skip

    def scores(params, x):
        return np.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]

    def loss(params, x, y):
        # Neighbours with like weights make pictures that an eye can read.
        w = params["w1"].reshape(8, 8, UNITS)
        rough = np.sum(np.diff(w, axis=0) ** 2) + np.sum(np.diff(w, axis=1) ** 2)
        return np.mean(nn.softmax_cross_entropy(scores(params, x), y)) + 5e-4 * rough

    optimizer = optim.adam(1e-2)
    step = ft.jit(optimizer.minimize(loss))
    state, losses = optimizer.init(params), []
    for _ in range(steps):
        rows = rng.integers(0, len(x), BATCH)
        params, state = step(params, state, x[rows], y[rows])
        losses.append(float(state.loss))
    seen = np.argmax(scores(params, images[1500:]), -1) == labels[1500:]
    return params, losses, float(np.mean(seen))


def draw(params, losses, accuracy):
    """Returns a figure of the losses, and of the weights of each unit as a picture of a digit."""
    figure = Figure(figsize=(8, 2.4), dpi=110, facecolor="white", layout="constrained")
    curve, filters = figure.subplots(1, 2, width_ratios=(1.2, 2))
    curve.plot(losses, color="tab:blue", linewidth=1)
    curve.set(yscale="log", xlabel="step", ylabel="loss")
    curve.set_title(f"{accuracy:.1%} of new digits are read right", fontsize=9)
    curve.spines[["top", "right"]].set_visible(False)
    weights = numpy.asarray(params["w1"]).T.reshape(3, UNITS // 3, 8, 8)
    weights = numpy.pad(weights, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=numpy.nan)
    most = numpy.nanmax(abs(weights))
    sheet = weights.transpose(0, 2, 1, 3).reshape(30, -1)
    filters.imshow(sheet, cmap="RdBu", vmin=-most, vmax=most)
    filters.set_axis_off()
    filters.set_title(f"what the {UNITS} units of the first layer look for", fontsize=9)
    return figure


def main():
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS, help="where the file goes")
    parser.add_argument("--steps", type=int, default=STEPS, help="of training")
    options = parser.parse_args()
    params, losses, accuracy = trained(options.steps)
    draw(params, losses, accuracy).savefig(options.folder / "digits.png")
    print(f"{accuracy:.1%} after {options.steps} steps")


if __name__ == "__main__":
    main()
