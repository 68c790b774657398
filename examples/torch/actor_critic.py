"""Learns to balance a pole with an actor, and a critic that foretells what it will earn.

python examples/torch/actor_critic.py
"""

import numpy as np
from cart_pole import CartPole, discounted
from common import floats, steps_wanted, uniform_weights

import functensor.torch as torch
import functensor.torch.nn.functional as F
from functensor.torch import nn
from functensor.torch.optim import Adam


class ActorCritic(nn.Module):
    """Both share their first layer."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(4, 128)
        self.actor = nn.Linear(128, 2)
        self.critic = nn.Linear(128, 1)

    def forward(self, seen):
        units = F.relu(self.shared(seen))
        return F.softmax(self.actor(units), dim=-1), self.critic(units)


def episodes(steps, seed=0):
    """Yields the losses of actor and critic in every episode, and its length."""
    rng = np.random.default_rng(seed)
    model = uniform_weights(ActorCritic(), rng)
    optimizer = Adam(model.parameters(), lr=3e-2)
    world = CartPole(rng)
    for _ in range(steps):
        chances, values, rewards = [], [], []
        seen, over = world.reset(), False
        while not over:
            probabilities, value = model(floats(seen))
            action = int(rng.random() < probabilities[1].item())
            chances.append(torch.log(probabilities[action]))
            values.append(value)
            seen, reward, over = world.step(action)
            rewards.append(reward)

        returns = floats(discounted(rewards))
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        actor, critic = [], []
        for chance, value, earned in zip(chances, values, returns, strict=True):
            advantage = earned - value.item()
            actor.append(-chance * advantage)
            critic.append(F.smooth_l1_loss(value, earned.view(1)))
        optimizer.zero_grad()
        actor_loss, critic_loss = torch.stack(actor).sum(), torch.stack(critic).sum()
        (actor_loss + critic_loss).backward()
        optimizer.step()
        yield actor_loss.item(), critic_loss.item(), len(rewards)


def train(steps: int, seed: int = 0) -> list[tuple[float, float, int]]:
    """Returns the losses of actor and critic, and the length, of every episode."""
    return list(episodes(steps, seed))


def main():
    lengths = []
    for number, (actor, critic, length) in enumerate(episodes(steps_wanted(100))):
        lengths.append(length)
        if number % 10 == 0:
            print(f"episode {number}: actor {actor:.3f}, critic {critic:.3f}, {length} steps")
    print(f"the last ten episodes took {np.mean(lengths[-10:]):.1f} steps")


if __name__ == "__main__":
    main()
