"""Trains a language model of words by truncated backpropagation through time.

After PyTorch's example word_language_model (github.com/pytorch/examples). The output layer has the
embedding's weights; gradients are clipped; the state goes on from chunk to chunk, detached.
With ``torch`` in place of ``functensor.torch`` the file runs in PyTorch.
"""

import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F

SUBJECTS = ["a cat", "the dog", "my neighbour", "that bird"]
VERBS = ["watches", "follows", "hears", "forgets"]
OBJECTS = ["the moon", "a song", "its shadow", "the road home"]
BATCH, LENGTH = 8, 12


def corpus(rng):
    """Returns the codes of the words of 300 sentences, and how many words there are."""
    words = []
    for _ in range(300):
        parts = [rng.choice(each) for each in (SUBJECTS, VERBS, OBJECTS)]
        words += [*" ".join(parts).split(), "."]
    vocabulary = sorted(set(words))
    return np.array([vocabulary.index(word) for word in words]), len(vocabulary)


class WordModel(nn.Module):
    """An embedding, a GRU or an LSTM, and the embedding once more."""

    def __init__(self, words, width=32, kind="GRU"):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = getattr(nn, kind)(width, width)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.embed.weight

    def forward(self, x, state):
        out, state = self.rnn(self.embed(x), state)
        return F.log_softmax(self.decoder(out), dim=-1), state


def set_weights(model, rng):
    """Draws all parameters by NumPy, so that every library begins at the same place."""
    with torch.no_grad():
        for p in model.parameters():
            value = rng.uniform(-0.2, 0.2, tuple(p.shape)).astype("float32")
            p.copy_(torch.from_numpy(value))


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    rng = np.random.default_rng(seed)
    codes, words = corpus(rng)
    columns = codes[: len(codes) // BATCH * BATCH].reshape(BATCH, -1).T.copy()
    data = torch.from_numpy(columns)
    model = WordModel(words)
    set_weights(model, rng)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    losses, state, at = [], None, 0
    for _ in range(steps):
        if at + LENGTH + 1 > len(data):
            state, at = None, 0
        if state is not None:
            state = state.detach()
        scores, state = model(data[at : at + LENGTH], state)
        loss = F.nll_loss(scores.view(-1, words), data[at + 1 : at + 1 + LENGTH].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        losses.append(loss.item())
        at += LENGTH
    return losses


def main():
    losses = train(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 200)))
    print(f"the perplexity was {np.exp(losses[0]):.2f} and is {np.exp(losses[-1]):.2f}")


if __name__ == "__main__":
    main()
