"""Trains a denoising diffusion model on small images of discs, and draws one.

After Ho, Jain and Abbeel, 2020 (github.com/hojonathanho/diffusion): a small U-Net predicts the
noise in an image. With ``torch`` in place of ``functensor.torch`` the file runs in PyTorch.
"""

import math
import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F

SIZE, BATCH, TIMES = 8, 8, 50


def time_embedding(t, width):
    """Returns sines and cosines of times at several speeds."""
    speeds = torch.exp(torch.arange(width // 2) * (-math.log(1000.0) / (width // 2)))
    angles = t.float()[:, None] * speeds[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Residual(nn.Module):
    """Two convolutions, with the time between them, added to the input."""

    def __init__(self, before, after, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, before), nn.GroupNorm(4, after)
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(width, after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    """A way down, a middle, and a way up that sees what the way down saw."""

    def __init__(self, channels=8, width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.enter = nn.Conv2d(1, channels, 3, padding=1)
        self.down = Residual(channels, channels, width)
        self.shrink = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.middle = Residual(2 * channels, 2 * channels, width)
        self.grow = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(2 * channels, channels, 3, padding=1),
        )
        self.up = Residual(2 * channels, channels, width)
        self.leave = nn.Sequential(
            nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, 1, 3, padding=1)
        )

    def forward(self, x, t):
        t = self.time(time_embedding(t, self.width))
        fine = self.down(self.enter(x), t)
        coarse = self.middle(self.shrink(fine), t)
        return self.leave(self.up(torch.cat([self.grow(coarse), fine], dim=1), t))


def set_weights(model, rng):
    """Draws weights by NumPy; biases are 0, and factors of norms 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                bound = 1 / math.sqrt(math.prod(p.shape[1:]))
                value = rng.uniform(-bound, bound, tuple(p.shape)).astype("float32")
                p.copy_(torch.from_numpy(value))
            else:
                p.fill_(0.0 if name.endswith("bias") else 1.0)


def discs(rng, count):
    """Returns images with numbers from -1 to 1, each with a bright disc somewhere."""
    y, x = np.mgrid[:SIZE, :SIZE]
    centres = rng.uniform(2, SIZE - 3, (2, count, 1, 1))
    apart = np.sqrt((y - centres[0]) ** 2 + (x - centres[1]) ** 2)
    return torch.from_numpy(np.clip(5 - 2 * apart, -1, 1)[:, None].astype("float32"))


def normal(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape).astype("float32"))


def fit(steps, seed):
    """Returns the trained model and its losses."""
    rng = np.random.default_rng(seed)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.15, TIMES), dim=0)
    model = UNet()
    set_weights(model, rng)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps):
        x, noise = discs(rng, BATCH), normal(rng, BATCH, 1, SIZE, SIZE)
        t = torch.from_numpy(rng.integers(0, TIMES, BATCH))
        share = kept[t].view(-1, 1, 1, 1)
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(noisy, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    return fit(steps, seed)[1]


@torch.no_grad()
def sample(model, rng):
    """Returns an image that is made of noise in TIMES steps."""
    betas = torch.linspace(1e-4, 0.15, TIMES)
    kept = torch.cumprod(1 - betas, dim=0)
    x = normal(rng, 1, 1, SIZE, SIZE)
    for t in reversed(range(TIMES)):
        noise = model(x, torch.tensor([t]))
        x = (x - betas[t] / (1 - kept[t]).sqrt() * noise) / (1 - betas[t]).sqrt()
        if t:
            x = x + betas[t].sqrt() * normal(rng, 1, 1, SIZE, SIZE)
    return x[0, 0]


def main():
    model, losses = fit(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 200)), 0)
    last = losses[-20:]
    print(f"the loss was {losses[0]:.3f}; the mean of the last is {sum(last) / len(last):.3f}")
    for row in sample(model, np.random.default_rng(1)).tolist():
        print("".join(" .:*#"[min(4, max(0, round(2 + 2 * x)))] for x in row))


if __name__ == "__main__":
    main()
