"""Learns the motion of a damped spiral as an ordinary differential equation.

After Chen et al., 2018 (github.com/rtqichen/torchdiffeq): a network is the velocity, RK4 follows
it, and the way back solves the adjoint equation, so that no step of the way there is kept.
With ``torch`` in place of ``functensor.torch`` the file runs in PyTorch.
"""

import os

import numpy as np

import functensor.torch as torch
import functensor.torch.nn as nn

TIMES, BATCH, STEP = 8, 16, 0.1


class Velocity(nn.Module):
    """The velocity of a point, a network of its cube."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, y):
        return self.net(y**3)


def rk4(f, state, h):
    """Returns the state, a tuple of tensors, after one step of length h."""

    def moved(by, change):
        return tuple(s + by * c for s, c in zip(state, change))

    k1 = f(state)
    k2 = f(moved(h / 2, k1))
    k3 = f(moved(h / 2, k2))
    k4 = f(moved(h, k3))
    return tuple(
        s + h / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4)
    )


class Solve(torch.autograd.Function):
    """The way of points at several times; its derivative is another equation's solution."""

    @staticmethod
    def forward(ctx, velocity, y, *parameters):
        ctx.velocity = velocity
        way = [y]
        with torch.no_grad():
            for _ in range(TIMES - 1):
                way.append(rk4(lambda state: (velocity(state[0]),), (way[-1],), STEP)[0])
        way = torch.stack(way)
        ctx.save_for_backward(way)
        return way

    @staticmethod
    def backward(ctx, g):
        (way,) = ctx.saved_tensors
        parameters = tuple(ctx.velocity.parameters())

        def dynamics(state):
            y, adjoint = state[0].detach().requires_grad_(), state[1]
            with torch.enable_grad():
                v = ctx.velocity(y)
            found = torch.autograd.grad(v, (y, *parameters), -adjoint)
            return (v.detach(), *found)

        adjoint = g[-1]
        of_parameters = [torch.zeros_like(p) for p in parameters]
        for t in reversed(range(1, TIMES)):
            state = (way[t], adjoint, *of_parameters)
            _, adjoint, *of_parameters = rk4(dynamics, state, -STEP)
            adjoint = adjoint + g[t - 1]
        return (None, adjoint, *of_parameters)


def set_weights(model, rng):
    """Draws all parameters by NumPy, so that every library begins at the same place."""
    with torch.no_grad():
        for p in model.parameters():
            value = rng.normal(0, 0.2, tuple(p.shape)).astype("float32")
            p.copy_(torch.from_numpy(value))


def train(steps: int, seed: int = 0) -> list[float]:
    """Returns the loss at each step."""
    rng = np.random.default_rng(seed)
    velocity = Velocity()
    set_weights(velocity, rng)
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    optimizer = torch.optim.Adam(velocity.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        y = torch.from_numpy(rng.uniform(-1.5, 1.5, (BATCH, 2)).astype("float32"))
        true = [y]
        for _ in range(TIMES - 1):
            true.append(rk4(lambda state: (state[0] ** 3 @ matrix,), (true[-1],), STEP)[0])
        found = Solve.apply(velocity, y, *velocity.parameters())
        loss = (found - torch.stack(true)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    losses = train(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 100)))
    print(f"the mean distance was {losses[0]:.3f} and is {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
