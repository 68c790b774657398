"""Reads digits with a convolutional network: the first script of PyTorch's examples.

python examples/torch/mnist.py
"""

import numpy as np
from common import Dropout, draw_digits, some_of, steps_wanted, uniform_weights

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F
import functensor.torch.optim as optim
from functensor.torch.optim.lr_scheduler import StepLR

PICTURES = 1024
BATCH = 16
EPOCH = 64  # steps, after which the learning rate is lowered


class Reader(nn.Module):
    """Two convolutions, the largest of every four values, and two linear layers."""

    def __init__(self, rng):
        super().__init__()
        self.strokes = nn.Conv2d(1, 32, kernel_size=3)
        self.corners = nn.Conv2d(32, 64, kernel_size=3)
        self.hidden = nn.Linear(64 * 12 * 12, 128)
        self.classes = nn.Linear(128, 10)
        self.drop_pixels = Dropout(0.25, rng)
        self.drop_units = Dropout(0.5, rng)

    def forward(self, pictures):
        seen = F.relu(self.corners(F.relu(self.strokes(pictures))))
        seen = self.drop_pixels(F.max_pool2d(seen, 2))
        units = self.drop_units(F.relu(self.hidden(seen.flatten(start_dim=1))))
        return F.log_softmax(self.classes(units), dim=1)


def learn(steps, seed=0):
    """Returns a trained network, and its loss at every step."""
    rng = np.random.default_rng(seed)
    pictures, labels = draw_digits(rng, PICTURES)
    model = uniform_weights(Reader(rng), rng)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    schedule = StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    model.train()
    for step in range(1, steps + 1):
        shown, wanted = some_of(rng, BATCH, pictures, labels)
        optimizer.zero_grad()
        loss = F.nll_loss(model(shown), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % EPOCH == 0:
            schedule.step()
    return model, losses


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at every step."""
    return learn(steps, seed)[1]


def accuracy(model):
    """Returns which share of new pictures a network reads correctly."""
    pictures, labels = draw_digits(np.random.default_rng(1), 200)
    model.eval()
    with torch.no_grad():
        read = model(pictures).argmax(dim=1)
    return read.eq(labels).float().mean().item()


def main():
    model, losses = learn(steps_wanted(300))
    for step in range(0, len(losses), 20):
        print(f"step {step}: loss {losses[step]:.3f}")
    print(f"{accuracy(model):.1%} of 200 new pictures are read correctly")


if __name__ == "__main__":
    main()
