"""A cart on a rail that must keep a pole upright: a small environment, in NumPy alone."""

from math import cos, sin

import numpy as np

GRAVITY = 9.8  # m/s2
CART, POLE = 1.0, 0.1  # masses, kg
HALF_LENGTH = 0.5  # of the pole, m
FORCE = 10.0  # N
TICK = 0.02  # s
LIMIT = 200  # steps of an episode


class CartPole:
    """The equations of motion of Barto, Sutton and Anderson (1983), without friction.

    An observation has the place of the cart, its speed, the angle of the pole and its rate. An
    episode ends when the cart is 2.4 m away, the pole leans by 12 degrees, or after 200 steps.
    """

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        """Puts the pole nearly upright, and returns the observation."""
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self.state.astype(np.float32)

    def step(self, action):
        """Pushes to the left (0) or right (1); returns observation, reward, and if it ended."""
        _, speed, angle, rate = self.state
        total = CART + POLE
        push = FORCE if action == 1 else -FORCE
        swing = (push + POLE * HALF_LENGTH * rate**2 * sin(angle)) / total
        inertia = HALF_LENGTH * (4 / 3 - POLE * cos(angle) ** 2 / total)
        turning = (GRAVITY * sin(angle) - cos(angle) * swing) / inertia
        acceleration = swing - POLE * HALF_LENGTH * turning * cos(angle) / total
        change = np.array([speed, acceleration, rate, turning])
        self.state = self.state + TICK * change
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > np.pi / 15
        return self.state.astype(np.float32), 1.0, bool(fallen or self.steps == LIMIT)


def discounted(rewards, rate=0.99):
    """Returns what follows every reward, later ones counting less."""
    returns, following = [], 0.0
    for reward in reversed(rewards):
        following = reward + rate * following
        returns.append(following)
    return returns[::-1]
