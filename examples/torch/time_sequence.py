"""Learns sine waves by two LSTM cells, and continues them.

After PyTorch's example time_sequence_prediction (github.com/pytorch/examples), with Adam.
With ``torch`` in place of ``functensor.torch`` the file runs in PyTorch.
"""

import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn

WAVES, LENGTH, WIDTH = 8, 30, 24


class Sequence(nn.Module):
    """Reads a wave number by number, and predicts the next one each time."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTMCell(1, WIDTH)
        self.second = nn.LSTMCell(WIDTH, WIDTH)
        self.linear = nn.Linear(WIDTH, 1)

    def forward(self, waves, future=0):
        zeros = torch.zeros(waves.size(0), WIDTH)
        first, second = (zeros, zeros), (zeros, zeros)
        outputs = []
        for t in range(waves.size(1) + future):
            x = waves[:, t : t + 1] if t < waves.size(1) else outputs[-1]
            first = self.first(x, first)
            second = self.second(first[0], second)
            outputs.append(self.linear(second[0]))
        return torch.cat(outputs, dim=1)


def set_weights(model, rng):
    """Draws all parameters by NumPy, so that every library begins at the same place."""
    with torch.no_grad():
        for p in model.parameters():
            value = rng.uniform(-0.2, 0.2, tuple(p.shape)).astype("float32")
            p.copy_(torch.from_numpy(value))


def fit(steps, seed):
    """Returns the trained model, the waves and the losses."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0, 2 * np.pi, (WAVES, 1))
    waves = torch.from_numpy(np.sin(phases + np.arange(LENGTH) / 4).astype("float32"))
    model = Sequence()
    set_weights(model, rng)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.MSELoss()
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(waves[:, :-1]), waves[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, waves, losses


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    return fit(steps, seed)[2]


def main():
    model, waves, losses = fit(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 100)), 0)
    print(f"the mean squared error was {losses[0]:.4f} and is {losses[-1]:.4f}")
    with torch.no_grad():
        ahead = model(waves[:1], future=5)[0, -5:]
    print("the first wave goes on with", " ".join(f"{y:.2f}" for y in ahead.tolist()))


if __name__ == "__main__":
    main()
