"""Regression by a Gaussian process whose scales are fitted to the data by L-BFGS.

python examples/programs/gaussian_process.py
"""

import os

import numpy
from scipy.optimize import minimize

import functensor.numpy as np
from functensor import value_and_grad


def kernel(log_scales, x, y):
    """The squared exponential covariance of two lists of points."""
    height, width = np.exp(log_scales[0]), np.exp(log_scales[1])
    return height * np.exp(-0.5 * ((x[:, None] - y[None, :]) / width) ** 2)


def negative_log_likelihood(log_scales, x, y):
    """Of the observations y at x, the function itself integrated out."""
    noise = np.exp(log_scales[2]) + 1e-8
    lower = np.linalg.cholesky(kernel(log_scales, x, x) + noise * np.eye(len(x)))
    whitened = np.linalg.solve(lower, y)
    log_determinant = 2 * np.sum(np.log(np.diag(lower)))
    return 0.5 * (np.dot(whitened, whitened) + log_determinant + len(x) * np.log(2 * np.pi))


def predict(log_scales, x, y, at):
    """Mean and standard deviation of the function at new points."""
    noise = np.exp(log_scales[2]) + 1e-8
    cross = kernel(log_scales, at, x)
    solved = np.linalg.solve(kernel(log_scales, x, x) + noise * np.eye(len(x)), cross.T)
    variance = np.exp(log_scales[0]) - np.sum(cross.T * solved, axis=0)
    return np.dot(solved.T, y), np.sqrt(variance)


def data(random):
    """The first scales, and noisy observations of a sine."""
    x = numpy.sort(random.uniform(-3, 3, 40))
    return numpy.zeros(3), x, numpy.sin(2 * x) + 0.1 * random.normal(size=40)


def run(steps):
    start, x, y = data(numpy.random.default_rng(0))
    fitted = minimize(
        value_and_grad(negative_log_likelihood),
        start,
        args=(x, y),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps},
    )
    at = numpy.linspace(-2.5, 2.5, 50)
    mean, deviation = predict(fitted.x, x, y, at)
    return {
        "negative log likelihood": float(fitted.fun),
        "width": float(numpy.exp(fitted.x[1])),
        "noise": float(numpy.exp(fitted.x[2] / 2)),
        "worst error": float(np.max(np.abs(mean - numpy.sin(2 * at)))),
        "mean deviation": float(np.mean(deviation)),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 100))).items():
        print(f"{name}: {value:.4f}")
