"""Draws the images that excite filters of a trained network most, beside the digits that do.

    python examples/feature_visualisation.py

The CNN of train_digits.py returns scores alone. `capture` makes the activations within it results
too, which are differentiated by the image, for all filters at once, in a compiled function.
"""

import digits
import train_digits

import functensor as ft
import functensor.numpy as np
from functensor import random

FILTERS, STEPS, RATE = 10, 100, 0.05
# The network has two: "relu" and "relu:1".
LAYER = "relu:1"
activations = ft.hooks.capture(train_digits.cnn, "relu")


def excitement(params, images):
    """Returns the mean activation of every filter, of every image."""
    _, values = activations(params, images)
    return np.mean(values[LAYER], axis=(2, 3))


@ft.jit
def climbed(params, images):
    """Returns images, one for each filter, changed step by step so that they excite it more."""

    def own(image, number):
        return excitement(params, image[None])[0, number]

    def step(i, images):
        slopes = ft.vmap(ft.grad(own))(images, np.arange(len(images)))
        sizes = np.sqrt(np.mean(slopes**2, axis=(1, 2, 3), keepdims=True))
        return np.clip(images + RATE * slopes / np.maximum(sizes, 1e-6), 0, 1)

    return ft.fori_loop(0, STEPS, step, images)


def draw(rows, path):
    """Draws rows of small images, by the names of the rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(len(rows), FILTERS, figsize=(FILTERS, 1.1 * len(rows)))
    for (name, images), line in zip(rows.items(), grid, strict=True):
        line[0].set_title(name, loc="left", fontsize=9)
        for axes, image in zip(line, images, strict=True):
            axes.imshow(image, cmap="gray_r")
            axes.axis("off")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def main():
    args = digits.options(__doc__.splitlines()[0])
    images, labels, test_images, test_labels = digits.load()
    init_key, order_key, start_key = random.split(random.key(0), 3)
    params, _ = train_digits.train(
        "CNN", train_digits.cnn, train_digits.init_cnn(init_key), order_key, images, labels, args
    )
    scores, values = activations(params, test_images)
    accuracy = float(np.mean(np.argmax(scores, axis=1) == test_labels))
    print(f"CNN: {accuracy:.2%} of {len(test_labels)} held-out digits read correctly")

    found = climbed(params, random.uniform(start_key, (FILTERS, 1, 8, 8), "float32"))
    numbers = np.arange(FILTERS)
    by_images = excitement(params, found)[numbers, numbers]
    by_digits = excitement(params, test_images)[:, :FILTERS]
    best = np.argmax(by_digits, axis=0)
    ratios = by_images / by_digits[best, numbers]
    print(
        f"{int(np.sum(ratios > 1))} of {FILTERS} images excite their filters more than every "
        f"held-out digit does, {float(np.mean(ratios)):.1f} times as much as the best one"
    )
    path = args.output / "features.png"
    draw(
        {
            "images that excite ten filters of the second layer most": found[:, 0],
            "held-out digits that excite these most": test_images[best, 0],
            "the filters' activations there": values[LAYER][best, numbers],
        },
        path,
    )
    print(f"wrote {path.name} into {args.output}")


if __name__ == "__main__":
    main()
