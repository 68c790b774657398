"""Learns to balance a pole by trying: REINFORCE, the plain policy gradient.

python examples/torch/reinforce.py
"""

import numpy as np
from cart_pole import CartPole, discounted
from common import Dropout, floats, steps_wanted, uniform_weights

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.nn.functional as F
import functensor.torch.optim as optim


class Policy(nn.Module):
    """Gives the log-probabilities of both actions."""

    def __init__(self, rng):
        super().__init__()
        self.hidden = nn.Linear(4, 128)
        self.drop = Dropout(0.6, rng)
        self.actions = nn.Linear(128, 2)

    def forward(self, seen):
        units = F.relu(self.drop(self.hidden(seen)))
        return F.log_softmax(self.actions(units), dim=-1)


def play(world, policy, rng):
    """Plays an episode; returns the log-probabilities of the actions taken, and the rewards."""
    taken, rewards = [], []
    seen, over = world.reset(), False
    while not over:
        chances = policy(floats(seen).unsqueeze(0))
        action = int(rng.random() < chances[0, 1].exp().item())
        taken.append(chances.gather(1, torch.tensor([[action]])).squeeze())
        seen, reward, over = world.step(action)
        rewards.append(reward)
    return taken, rewards


def episodes(steps, seed=0):
    """Yields the loss of every episode, and its length."""
    rng = np.random.default_rng(seed)
    policy = uniform_weights(Policy(rng), rng)
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    world = CartPole(rng)
    for _ in range(steps):
        taken, rewards = play(world, policy, rng)
        returns = floats(discounted(rewards))
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        terms = [-chance * value for chance, value in zip(taken, returns, strict=True)]
        optimizer.zero_grad()
        loss = torch.stack(terms).sum()
        loss.backward()
        optimizer.step()
        yield loss.item(), len(rewards)


def train(steps: int, seed: int = 0) -> list[tuple[float, int]]:
    """Returns the loss and the length of every episode."""
    return list(episodes(steps, seed))


def main():
    lengths = []
    for number, (loss, length) in enumerate(episodes(steps_wanted(150))):
        lengths.append(length)
        if number % 10 == 0:
            print(f"episode {number}: loss {loss:.3f}, {length} steps")
    print(f"the last ten episodes took {np.mean(lengths[-10:]):.1f} steps")


if __name__ == "__main__":
    main()
