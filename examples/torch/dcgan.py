"""Draws digits with two convolutional networks that compete: a DCGAN.

python examples/torch/dcgan.py
"""

import common
import numpy as np
from common import draw_digits, floats, noise, some_of, steps_wanted

import functensor.torch as torch
import functensor.torch.nn as nn
import functensor.torch.optim as optim

PICTURES = 256
BATCH = 16
CODE = 32  # numbers of which a picture is made
WIDTH = 16  # channels of the widest pictures


def grow(inputs, outputs):
    """Returns layers that double the height and width of pictures."""
    return [
        nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]


def shrink(inputs, outputs):
    """Returns layers that halve the height and width of pictures."""
    return [
        nn.Conv2d(inputs, outputs, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(0.2, inplace=True),
    ]


class Generator(nn.Module):
    """Makes pictures of 32 by 32 pixels, from -1 to 1, of random codes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(CODE, WIDTH * 4, 4, bias=False),
            nn.BatchNorm2d(WIDTH * 4),
            nn.ReLU(inplace=True),
            *grow(WIDTH * 4, WIDTH * 2),
            *grow(WIDTH * 2, WIDTH),
            nn.ConvTranspose2d(WIDTH, 1, 4, stride=2, padding=1, bias=False),
            nn.Tanh(),
        )

    def forward(self, codes):
        return self.layers(codes)


class Discriminator(nn.Module):
    """Says how likely it is that a picture is a real one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, WIDTH, 4, stride=2, padding=1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            *shrink(WIDTH, WIDTH * 2),
            *shrink(WIDTH * 2, WIDTH * 4),
            nn.Conv2d(WIDTH * 4, 1, 4, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, pictures):
        return self.layers(pictures).view(-1)


def first_weights(rng):
    """Returns a function that fills a layer as the paper on DCGANs does."""

    def fill(module):
        module.to(common.FLOAT)
        name = type(module).__name__
        with torch.no_grad():
            if name.startswith("Conv"):
                module.weight.copy_(0.02 * noise(rng, *module.weight.shape))
            elif name.startswith("BatchNorm"):
                module.weight.copy_(1 + 0.02 * noise(rng, *module.weight.shape))
                nn.init.zeros_(module.bias)

    return fill


def train(steps: int, seed: int = 0) -> list[tuple[float, float, float]]:
    """Returns by step the losses of both networks, and what the first says of real pictures."""
    rng = np.random.default_rng(seed)
    pictures, _ = draw_digits(rng, PICTURES, size=32)
    generator, discriminator = Generator(), Discriminator()
    for network in (generator, discriminator):
        network.apply(first_weights(rng))
    criterion = nn.BCELoss()
    to_draw = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    to_judge = optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    true, false = floats(np.ones(BATCH)), floats(np.zeros(BATCH))
    losses = []
    for _ in range(steps):
        (real,) = some_of(rng, BATCH, pictures)
        made = generator(noise(rng, BATCH, CODE, 1, 1))

        discriminator.zero_grad()
        said = discriminator(real * 2 - 1)
        of_real = criterion(said, true)
        of_real.backward()
        of_made = criterion(discriminator(made.detach()), false)
        of_made.backward()
        to_judge.step()

        generator.zero_grad()
        taken_in = criterion(discriminator(made), true)
        taken_in.backward()
        to_draw.step()
        judged = of_real + of_made
        losses.append((judged.item(), taken_in.item(), said.mean().item()))
    return losses


def main():
    losses = train(steps_wanted(60))
    for step in range(0, len(losses), 10):
        print("step {}: discriminator {:.3f}, generator {:.3f}".format(step, *losses[step]))
    print(f"real pictures are taken for real with probability {losses[-1][2]:.3f}")


if __name__ == "__main__":
    main()
