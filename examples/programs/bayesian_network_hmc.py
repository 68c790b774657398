"""A Bayesian neural network sampled by Hamiltonian Monte Carlo.

python examples/programs/bayesian_network_hmc.py
"""

import os

import numpy

import functensor.numpy as np
from functensor import value_and_grad
from functensor.scipy.stats import norm

WIDTH, NOISE, LEAPS = 8, 0.1, 15


def predict(weights, inputs):
    """A layer of tanh between an input and an output of one number each."""
    first, offset, second = weights[:WIDTH], weights[WIDTH : 2 * WIDTH], weights[2 * WIDTH :]
    hidden = np.tanh(inputs[:, None] * first + offset)
    return np.dot(hidden, second) / np.sqrt(WIDTH)


def potential(weights, inputs, targets):
    """Minus the logarithm of the posterior density, up to a constant."""
    likelihood = np.sum(norm.logpdf(targets, predict(weights, inputs), NOISE))
    return -(likelihood + np.sum(norm.logpdf(weights, 0.0, 2.0)))


def leapfrog(weights, momentum, slope, size, inputs, targets):
    """Follows the dynamics for some steps; the energy changes little, the place a lot."""
    energy_and_slope = value_and_grad(potential)
    for _ in range(LEAPS):
        momentum = momentum - 0.5 * size * slope
        weights = weights + size * momentum
        energy, slope = energy_and_slope(weights, inputs, targets)
        momentum = momentum - 0.5 * size * slope
    return weights, momentum, energy, slope


def data(random):
    """Where the chain starts, and what the network is to predict."""
    inputs = numpy.linspace(-2, 2, 25)
    targets = numpy.sin(2 * inputs) + NOISE * random.normal(size=25)
    return random.normal(size=3 * WIDTH), inputs, targets


def run(steps):
    random = numpy.random.default_rng(6)
    weights, inputs, targets = data(random)
    energy, slope = value_and_grad(potential)(weights, inputs, targets)
    size, accepted, predictions = 0.01, 0, []
    for i in range(steps):
        momentum = random.normal(size=3 * WIDTH)
        moved = leapfrog(weights, momentum, slope, size, inputs, targets)
        gained = energy + 0.5 * np.sum(momentum**2) - moved[2] - 0.5 * np.sum(moved[1] ** 2)
        chance = min(1.0, float(np.exp(np.minimum(gained, 0.0))))
        if random.uniform() < chance:
            weights, _, energy, slope = moved
            accepted += 1
        if i < steps // 2:
            size *= numpy.exp(0.1 * (chance - 0.8))
        else:
            predictions.append(predict(weights, inputs))
    mean = np.mean(np.stack(predictions), axis=0)
    return {
        "accepted": accepted / steps,
        "potential": float(energy),
        "error of the mean": float(np.sqrt(np.mean((mean - numpy.sin(2 * inputs)) ** 2))),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 300))).items():
        print(f"{name}: {value:.3f}")
