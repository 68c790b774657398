"""Trains an LSTM to predict the next character of a short text, and lets it write.

After Andrej Karpathy's char-rnn (github.com/karpathy/char-rnn). With ``torch`` in place of
``functensor.torch`` the file runs in PyTorch.
"""

import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F

TEXT = (
    "the river bends around the hill and the hill looks down upon the mill. "
    "the miller counts his sacks of grain and hopes tomorrow brings the rain. "
    "the rain will fill the river bed and turn the wheel that bakes the bread. "
)
LETTERS = sorted(set(TEXT))
BATCH, LENGTH = 8, 24


class CharRNN(nn.Module):
    """Two layers of LSTM between an embedding and scores of the next letter."""

    def __init__(self, letters, width=48):
        super().__init__()
        self.embed = nn.Embedding(letters, 16)
        self.lstm = nn.LSTM(16, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(self, text, state=None):
        out, state = self.lstm(self.embed(text), state)
        return self.head(out), state


def set_weights(model, rng):
    """Draws all parameters by NumPy, so that every library begins at the same place."""
    with torch.no_grad():
        for p in model.parameters():
            value = rng.uniform(-0.2, 0.2, tuple(p.shape)).astype("float32")
            p.copy_(torch.from_numpy(value))


def fit(steps, seed):
    """Returns the trained model and its losses."""
    rng = np.random.default_rng(seed)
    codes = np.array([LETTERS.index(letter) for letter in TEXT])
    model = CharRNN(len(LETTERS))
    set_weights(model, rng)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        starts = rng.integers(0, len(codes) - LENGTH, BATCH)
        chunk = torch.from_numpy(np.stack([codes[i : i + LENGTH + 1] for i in starts]))
        scores, _ = model(chunk[:, :-1])
        loss = F.cross_entropy(scores.reshape(-1, len(LETTERS)), chunk[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    return fit(steps, seed)[1]


def write(model, beginning, length):
    """Returns a text that goes on with the likeliest letters."""
    codes = [LETTERS.index(letter) for letter in beginning]
    text, state = beginning, None
    with torch.no_grad():
        for _ in range(length):
            scores, state = model(torch.tensor([codes]), state)
            codes = [int(scores[0, -1].argmax())]
            text += LETTERS[codes[0]]
    return text


def main():
    model, losses = fit(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 150)), 0)
    print(f"the loss was {losses[0]:.3f} and is {losses[-1]:.3f}")
    print(write(model, "the ", 60))


if __name__ == "__main__":
    main()
