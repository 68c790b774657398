"""Draws digits with a critic whose gradient is held near one: a WGAN with a gradient penalty.

The penalty is a loss of a gradient, so every step of the critic differentiates twice.

    python examples/torch/wgan_gp.py
"""

import numpy as np
from common import draw_digits, floats, noise, some_of, steps_wanted, uniform_weights

import functensor.torch as torch
from functensor.torch import autograd, nn, optim

PICTURES = 256
BATCH = 16
CODE = 32
WIDTH = 16
CRITIC_STEPS = 5
PENALTY = 10.0


class Painter(nn.Module):
    """Makes pictures of 16 by 16 pixels of random codes."""

    def __init__(self):
        super().__init__()
        self.spread = nn.Sequential(
            nn.Linear(CODE, WIDTH * 2 * 16), nn.BatchNorm1d(WIDTH * 2 * 16), nn.ReLU()
        )
        self.grow = nn.Sequential(
            nn.ConvTranspose2d(WIDTH * 2, WIDTH, 4, stride=2, padding=1),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.ConvTranspose2d(WIDTH, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, codes):
        return self.grow(self.spread(codes).view(-1, WIDTH * 2, 4, 4))


class Critic(nn.Module):
    """Gives real pictures higher marks than others."""

    def __init__(self):
        super().__init__()
        self.shrink = nn.Sequential(
            nn.Conv2d(1, WIDTH, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(WIDTH, WIDTH * 2, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
        )
        self.mark = nn.Linear(WIDTH * 2 * 16, 1)

    def forward(self, pictures):
        return self.mark(self.shrink(pictures).flatten(1))


def gradient_penalty(critic, real, made, rng):
    """Returns how far from one the critic's gradients are, between real and made pictures."""
    share = floats(rng.random((len(real), 1, 1, 1)))
    between = (share * real + (1 - share) * made).requires_grad_(True)
    marks = critic(between)
    (gradients,) = autograd.grad(
        outputs=marks,
        inputs=between,
        grad_outputs=torch.ones_like(marks),
        create_graph=True,
        retain_graph=True,
    )
    lengths = gradients.reshape(len(real), -1).norm(2, dim=1)
    return ((lengths - 1) ** 2).mean()


def train(steps: int, seed: int = 0) -> list[tuple[float, float]]:
    """Returns the losses of the critic and of the painter at every step of the painter."""
    rng = np.random.default_rng(seed)
    pictures, _ = draw_digits(rng, PICTURES, size=16)
    painter, critic = uniform_weights(Painter(), rng), uniform_weights(Critic(), rng)
    to_paint = optim.Adam(painter.parameters(), lr=1e-4, betas=(0.0, 0.9))
    to_judge = optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    losses = []
    for _ in range(steps):
        for parameter in critic.parameters():
            parameter.requires_grad_(True)
        for _ in range(CRITIC_STEPS):
            (real,) = some_of(rng, BATCH, pictures)
            with torch.no_grad():
                made = painter(noise(rng, BATCH, CODE))
            to_judge.zero_grad()
            critic_loss = critic(made).mean() - critic(real).mean()
            critic_loss = critic_loss + PENALTY * gradient_penalty(critic, real, made, rng)
            critic_loss.backward()
            to_judge.step()

        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        to_paint.zero_grad()
        painter_loss = -critic(painter(noise(rng, BATCH, CODE))).mean()
        painter_loss.backward()
        to_paint.step()
        losses.append((critic_loss.item(), painter_loss.item()))
    return losses


def main():
    losses = train(steps_wanted(60))
    for step in range(0, len(losses), 10):
        print("step {}: critic {:.3f}, painter {:.3f}".format(step, *losses[step]))
    print(f"after {len(losses)} steps the critic's loss is {losses[-1][0]:.3f}")


if __name__ == "__main__":
    main()
