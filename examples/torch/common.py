"""Parts that the scripts of this folder share: pictures of digits, first weights, dropout.

NumPy draws all random numbers, so that functensor and PyTorch compute with the same ones.
Scripts compute in ``FLOAT``: in float64 both libraries agree for longer.
"""

import os

import numpy as np

import functensor.torch as torch
from functensor.torch import nn

FLOAT = torch.float32

# The strokes of seven-segment digits: row and column of the start, in lengths, and the direction.
STROKES = {
    "a": (0, 0, "right"), "b": (0, 1, "down"), "c": (1, 1, "down"), "d": (2, 0, "right"),
    "e": (1, 0, "down"), "f": (0, 0, "down"), "g": (1, 0, "right"),
}  # fmt: skip
DIGITS = (
    "abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg",
)  # fmt: skip


def steps_wanted(usual):
    """Returns how many steps to train; FUNCTENSOR_EXAMPLE_STEPS sets another number."""
    return int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", usual))


def floats(values):
    """Returns numbers of NumPy's, or a list of them, as a tensor."""
    return torch.from_numpy(np.asarray(values)).to(FLOAT)


def noise(rng, *shape):
    """Returns normally distributed numbers."""
    return floats(rng.standard_normal(shape))


def uniform_weights(module, rng):
    """Fills weights evenly up to one over the root of their inputs, and offsets with zeros.

    The weights of a normalization, which have one axis, stay as they are.
    """
    module.to(FLOAT)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                bound = (parameter.shape[0] / parameter.numel()) ** 0.5
                parameter.copy_(floats(rng.uniform(-bound, bound, tuple(parameter.shape))))
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return module


class Dropout(nn.Module):
    """Dropout whose masks NumPy draws; ``nn.Dropout`` draws others in every library."""

    def __init__(self, rate, rng):
        super().__init__()
        self.rate = rate
        self.rng = rng

    def forward(self, x):
        if not self.training:
            return x
        kept = self.rng.random(tuple(x.shape)) >= self.rate
        return x * floats(kept) / (1 - self.rate)


def draw_digits(rng, count, size=28):
    """Draws digits of straight strokes, each somewhere else on noise; they stand in for MNIST.

    Returns:
        Pictures of the shape (count, 1, size, size) with values from 0 to 1, and their labels.
    """
    labels = rng.integers(0, 10, count)
    pictures = rng.uniform(0, 0.25, (count, 1, size, size))
    length, width = size // 3, size // 14 + 1
    for picture, label in zip(pictures[:, 0], labels, strict=True):
        top = rng.integers(0, size - 2 * length - width + 1)
        left = rng.integers(0, size - length - width + 1)
        for stroke in DIGITS[label]:
            row, column, direction = STROKES[stroke]
            tall, wide = (width, length + width)[:: 1 if direction == "right" else -1]
            y, x = top + row * length, left + column * length
            picture[y : y + tall, x : x + wide] += 0.7
    return floats(pictures.clip(0, 1)), torch.from_numpy(labels)


def some_of(rng, count, *tensors):
    """Returns a mini-batch: rows of tensors, chosen at random."""
    chosen = torch.from_numpy(rng.integers(0, len(tensors[0]), count))
    return tuple(tensor[chosen] for tensor in tensors)
