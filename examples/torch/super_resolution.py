"""Doubles the size of small images by convolutions and a shuffle of pixels.

After Shi et al., 2016, and PyTorch's example super_resolution (github.com/pytorch/examples).
With ``torch`` in place of ``functensor.torch`` the file runs in PyTorch.
"""

import math
import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F

SIZE, BATCH, FACTOR = 8, 8, 2


class Enlarge(nn.Module):
    """Three convolutions; the channels of the last are the pixels between."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, FACTOR**2, 3, padding=1),
            nn.PixelShuffle(FACTOR),
        )

    def forward(self, x):
        return self.layers(x)


def set_weights(model, rng):
    """Draws all parameters by NumPy, so that every library begins at the same place."""
    with torch.no_grad():
        for p in model.parameters():
            bound = 1 / math.sqrt(math.prod(p.shape[1:]) if p.ndim > 1 else len(p) * 9)
            value = rng.uniform(-bound, bound, tuple(p.shape)).astype("float32")
            p.copy_(torch.from_numpy(value))


def waves(rng, count):
    """Returns images of plane waves in several directions."""
    y, x = np.mgrid[: SIZE * FACTOR, : SIZE * FACTOR]
    a, b, c = rng.uniform(-0.6, 0.6, (3, count, 1, 1))
    return torch.from_numpy(np.sin(a * x + b * y + 5 * c)[:, None].astype("float32"))


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    rng = np.random.default_rng(seed)
    model = Enlarge()
    set_weights(model, rng)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        large = waves(rng, BATCH)
        loss = F.mse_loss(model(F.avg_pool2d(large, FACTOR)), large)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    losses = train(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 150)))
    print(f"the mean squared error was {losses[0]:.4f} and is {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
