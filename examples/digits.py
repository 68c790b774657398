"""Parts that the digit classifiers share: images, mini-batches, and the pictures at the end."""

import argparse
import os
from pathlib import Path

import functensor as ft
import functensor.numpy as np


def options(description):
    """Reads the command line; FUNCTENSOR_EXAMPLE_STEPS limits the steps (of tests, say)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--device", default="cpu", help="where to compute, such as cuda")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    args.max_steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 1_000_000))
    args.output.mkdir(parents=True, exist_ok=True)
    return args


def load():
    """Returns 1437 images to learn from and 360 held out, and the labels of both.

    Images have the shape (1, 8, 8) and values from 0 to 1.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = (digits.images[:, None] / 16).astype("float32")
    train, test, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    return np.array(train), np.array(train_labels), np.array(test), np.array(test_labels)


def batches(key, images, labels, args):
    """Yields mini-batches, in a new random order in every epoch."""
    steps = 0
    for epoch_key in ft.random.split(key, args.epochs):
        order = ft.random.permutation(epoch_key, len(labels))
        for start in range(0, len(labels) - args.batch_size + 1, args.batch_size):
            if steps == args.max_steps:
                return
            chosen = order[start : start + args.batch_size]
            yield images[chosen], labels[chosen]
            steps += 1


def count_batches(labels, args):
    """Returns how many mini-batches there are, for the progress bar."""
    return min(args.epochs * (len(labels) // args.batch_size), args.max_steps)


def plot_losses(losses, path):
    """Draws learning curves.

    Args:
        losses: the loss after every step, by the name of the network.
        path: the PNG file.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, values in losses.items():
        axes.plot(values, label=name, linewidth=0.8)
    axes.set(xlabel="step", ylabel="cross entropy of a mini-batch", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def plot_predictions(images, labels, predicted, path, rows=4, columns=10):
    """Draws images with what they were taken for, mistakes in red."""
    images, labels, predicted = ft.to_device((images, labels, predicted), "cpu")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(rows, columns, figsize=(columns, 1.3 * rows))
    for axes, image, label, guess in zip(grid.flat, images, labels, predicted, strict=False):
        axes.imshow(image[0], cmap="gray_r")
        axes.set_title(str(guess), color="black" if guess == label else "red")
        axes.axis("off")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
