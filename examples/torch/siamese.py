"""Learns whether two pictures show the same digit: one network looks at both.

python examples/torch/siamese.py
"""

import numpy as np
from common import draw_digits, floats, steps_wanted, uniform_weights

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F
from functensor.torch.optim import Adadelta
from functensor.torch.optim.lr_scheduler import StepLR

PICTURES = 256
PAIRS = 16  # half of them show the same digit
EPOCH = 20  # steps, after which the learning rate is lowered


class Residual(nn.Module):
    """Adds what two normalized convolutions see to a smaller picture."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.short = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride=2, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x):
        return F.relu(self.main(x) + self.short(x))


class Siamese(nn.Module):
    """Says how likely it is that two pictures show the same digit."""

    def __init__(self):
        super().__init__()
        self.eye = nn.Sequential(
            Residual(1, 16), Residual(16, 32), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten()
        )
        self.judge = nn.Sequential(
            nn.Linear(128, 64), nn.ReLU(inplace=True), nn.Linear(64, 1), nn.Sigmoid()
        )

    def forward(self, left, right):
        # Both pass at once, so that both are normalized alike.
        seen_left, seen_right = self.eye(torch.cat([left, right])).chunk(2)
        return self.judge(torch.abs(seen_left - seen_right)).squeeze(1)


def pairs(rng, pictures, labels):
    """Returns pictures, other ones beside them, and whether both show the same digit."""
    left = rng.integers(0, len(labels), PAIRS)
    same = np.arange(PAIRS) % 2 == 0
    fitting = (labels[left][:, None] == labels[None]) == same[:, None]
    fitting[np.arange(PAIRS), left] = False
    right = [rng.choice(np.flatnonzero(row)) for row in fitting]
    target = floats(same)
    return pictures[torch.from_numpy(left)], pictures[torch.tensor(right)], target


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at every step."""
    rng = np.random.default_rng(seed)
    pictures, labels = draw_digits(rng, PICTURES)
    model = uniform_weights(Siamese(), rng)
    criterion = nn.BCELoss()
    optimizer = Adadelta(model.parameters(), lr=1.0)
    schedule = StepLR(optimizer, step_size=EPOCH, gamma=0.7)
    losses = []
    for _ in range(steps):
        left, right, target = pairs(rng, pictures, labels.cpu().numpy())
        optimizer.zero_grad()
        loss = criterion(model(left, right), target)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def main():
    losses = train(steps_wanted(200))
    for step in range(0, len(losses), 20):
        print(f"step {step}: loss {losses[step]:.3f}")
    print(f"the mean of the last ten losses is {np.mean(losses[-10:]):.3f}")


if __name__ == "__main__":
    main()
