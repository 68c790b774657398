"""Tells the two groups of a graph's people apart, of whom two are known.

After Kipf and Welling, 2017 (github.com/tkipf/pygcn): each layer mixes the features of neighbours.
With ``torch`` in place of ``functensor.torch`` the file runs in PyTorch.
"""

import math
import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F

PEOPLE = 40


class GraphConvolution(nn.Module):
    """A linear layer whose results are spread over the graph's edges."""

    def __init__(self, before, after):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(before, after))
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, x, spread):
        return spread @ (x @ self.weight) + self.bias


class GCN(nn.Module):
    """Two such layers."""

    def __init__(self):
        super().__init__()
        self.first = GraphConvolution(PEOPLE, 16)
        self.second = GraphConvolution(16, 2)

    def forward(self, x, spread):
        return F.log_softmax(self.second(F.relu(self.first(x, spread)), spread), dim=1)


def set_weights(model, rng):
    """Draws matrices by NumPy, so that every library begins at the same place."""
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                bound = 1 / math.sqrt(p.shape[1])
                value = rng.uniform(-bound, bound, tuple(p.shape)).astype("float32")
                p.copy_(torch.from_numpy(value))


def graph(rng):
    """Returns who is in which group, and the normalised matrix of friendships."""
    groups = np.arange(PEOPLE) % 2
    chance = np.where(groups[:, None] == groups, 0.3, 0.05)
    edges = np.triu(rng.random((PEOPLE, PEOPLE)) < chance, 1)
    edges = edges + edges.T + np.eye(PEOPLE)
    scale = edges.sum(1) ** -0.5
    spread = scale[:, None] * edges * scale
    return torch.from_numpy(groups), torch.from_numpy(spread.astype("float32"))


def fit(steps, seed):
    """Returns the losses, and the share of people who are told right."""
    rng = np.random.default_rng(seed)
    groups, spread = graph(rng)
    model = GCN()
    set_weights(model, rng)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    features, known = torch.eye(PEOPLE), torch.tensor([0, 1])
    losses = []
    for _ in range(steps):
        scores = model(features, spread)
        loss = F.nll_loss(scores[known], groups[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        right = model(features, spread).argmax(dim=1) == groups
    return losses, right.float().mean().item()


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    return fit(steps, seed)[0]


def main():
    losses, right = fit(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 200)), 0)
    print(f"the loss was {losses[0]:.3f} and is {losses[-1]:.3f}")
    print(f"{right:.0%} of {PEOPLE} people are told right")


if __name__ == "__main__":
    main()
