"""Learns to make pictures from twenty numbers: a variational autoencoder of linear layers.

python examples/torch/vae.py
"""

import numpy as np
from common import draw_digits, noise, some_of, steps_wanted, uniform_weights

import functensor.torch as torch
import functensor.torch.nn.functional as F
from functensor.torch import nn, optim

PICTURES = 512
BATCH = 128
CODE = 20


class Autoencoder(nn.Module):
    """Encodes a picture as a normal distribution of codes, and decodes one code of it."""

    def __init__(self, rng):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
        self.mean = nn.Linear(400, CODE)
        self.log_variance = nn.Linear(400, CODE)
        self.decoder = nn.Sequential(
            nn.Linear(CODE, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid()
        )
        self.rng = rng

    def forward(self, pictures):
        hidden = self.encoder(pictures.view(-1, 784))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        deviation = torch.exp(log_variance / 2)
        code = mean + deviation * noise(self.rng, *mean.shape)
        return self.decoder(code), mean, log_variance


def evidence_bound(made, pictures, mean, log_variance):
    """Returns the cross entropy of pixels, and how far codes are from standard normal ones."""
    pixels = F.binary_cross_entropy(made, pictures.view(-1, 784), reduction="sum")
    distance = (mean.pow(2) + log_variance.exp() - log_variance - 1).sum() / 2
    return (pixels + distance) / len(pictures)


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss of a picture at every step, in nats."""
    rng = np.random.default_rng(seed)
    pictures, _ = draw_digits(rng, PICTURES)
    model = uniform_weights(Autoencoder(rng), rng)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        (shown,) = some_of(rng, BATCH, pictures)
        optimizer.zero_grad()
        made, mean, log_variance = model(shown)
        loss = evidence_bound(made, shown, mean, log_variance)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses


def main():
    losses = train(steps_wanted(200))
    for step in range(0, len(losses), 25):
        print(f"step {step}: loss {losses[step]:.1f}")
    print(f"after {len(losses)} steps the loss is {losses[-1]:.1f}")


if __name__ == "__main__":
    main()
