"""Variational inference by reparameterisation: a Gaussian fitted to a density known up to a factor.

python examples/programs/variational_inference.py
"""

import os

import numpy

import functensor.numpy as np
from functensor import grad
from functensor.scipy.stats import norm


def log_density(z):
    """A funnel: the logarithm of the deviation of z[:, 0] is normal itself."""
    x, log_deviation = z[:, 0], z[:, 1]
    return norm.logpdf(log_deviation, 0.0, 0.7) + norm.logpdf(x, 1.0, np.exp(log_deviation))


def negative_bound(params, noise):
    """The evidence lower bound of independent Gaussians, by samples made of noise."""
    means, log_deviations = params[:2], params[2:]
    samples = means + np.exp(log_deviations) * noise
    entropy = np.sum(log_deviations) + 1.0 + np.log(2 * np.pi)
    return -(entropy + np.mean(log_density(samples)))


def run(steps):
    random = numpy.random.default_rng(4)
    params = numpy.array([-1.0, 0.5, 0.0, 0.0])
    slope = grad(negative_bound)
    momentum = numpy.zeros(4)
    for i in range(steps):
        momentum = 0.9 * momentum + slope(params, random.normal(size=(200, 2)))
        params = params - 0.02 / (1 + i / 200) * momentum
    noise = random.normal(size=(20000, 2))
    return {
        "mean of x": float(params[0]),
        "mean of the log deviation": float(params[1]),
        "bound": -float(negative_bound(params, noise)),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 400))).items():
        print(f"{name}: {value:.4f}")
