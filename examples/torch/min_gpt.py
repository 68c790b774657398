"""Trains a small GPT to sort digits.

After Andrej Karpathy's minGPT (github.com/karpathy/minGPT): masked self-attention, weight decay for
matrices alone, and a learning rate that falls as a cosine. With ``torch`` in place of
``functensor.torch`` the file runs in PyTorch.
"""

import math
import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F

DIGITS, LENGTH, BATCH = 4, 5, 16
WINDOW = 2 * LENGTH - 1


class SelfAttention(nn.Module):
    """Each position looks at those before it, and at itself."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.register_buffer("seen", torch.tril(torch.ones(WINDOW, WINDOW)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(self.seen[:t, :t] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.project(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    """Attention and a network of two layers, each added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    """Embeddings of digits and places, blocks, and scores of the next digit."""

    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Embedding(WINDOW, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, DIGITS, bias=False)

    def forward(self, x, targets=None):
        h = self.digits(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        scores = self.head(self.norm(h))
        if targets is None:
            return scores, None
        loss = F.cross_entropy(scores.view(-1, DIGITS), targets.view(-1), ignore_index=-1)
        return scores, loss


def set_weights(model, rng):
    """Draws matrices by NumPy; biases are 0, and factors of norms 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                value = rng.normal(0, 0.1, tuple(p.shape)).astype("float32")
                p.copy_(torch.from_numpy(value))
            else:
                p.fill_(0.0 if name.endswith("bias") else 1.0)


def configure(model, lr):
    """Returns AdamW that decays the matrices of linear layers alone."""
    decayed, others = [], []
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            linear = isinstance(module, nn.Linear) and name == "weight"
            (decayed if linear else others).append(p)
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def batch(rng):
    """Returns digits with their sorted ones behind; what is to be predicted begins there."""
    digits = rng.integers(0, DIGITS, (BATCH, LENGTH))
    both = np.concatenate([digits, np.sort(digits, 1)], 1)
    targets = both[:, 1:].copy()
    targets[:, : LENGTH - 1] = -1
    return torch.from_numpy(both[:, :-1].copy()), torch.from_numpy(targets)


def fit(steps, seed):
    """Returns the trained model and its losses."""
    rng = np.random.default_rng(seed)
    model = GPT()
    set_weights(model, rng)
    optimizer = configure(model, 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(steps, 50))
    losses = []
    for _ in range(steps):
        x, y = batch(rng)
        _, loss = model(x, y)
        model.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return model, losses


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    return fit(steps, seed)[1]


def main():
    model, losses = fit(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 300)), 0)
    print(f"the loss was {losses[0]:.3f} and is {losses[-1]:.3f}")
    digits = [3, 1, 0, 2, 1]
    x = torch.tensor([digits])
    with torch.no_grad():
        for _ in range(LENGTH):
            scores, _ = model(x)
            x = torch.cat((x, scores[:, -1:].argmax(dim=-1)), dim=1)
    print(digits, "sorted:", x[0, LENGTH:].tolist())


if __name__ == "__main__":
    main()
