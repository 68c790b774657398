"""Logistic regression by Newton's method, with gradients and Hessians that nobody wrote down.

python examples/programs/logistic_regression.py
"""

import os

import numpy

import functensor.numpy as np
from functensor import grad, hessian


def loss(weights, inputs, labels):
    """The negative log likelihood of labels that are 0 or 1, with a little shrinkage."""
    scores = np.dot(inputs, weights)
    likelihoods = labels * scores - np.logaddexp(0.0, scores)
    return -np.mean(likelihoods) + 1e-3 * np.sum(weights**2)


def data(random):
    """The first weights, inputs and their labels."""
    inputs = numpy.concatenate([random.normal(size=(500, 4)), numpy.ones((500, 1))], axis=1)
    true = numpy.array([2.0, -1.0, 0.5, 0.0, 0.3])
    labels = (random.uniform(size=500) < 1 / (1 + numpy.exp(-inputs @ true))).astype(float)
    return numpy.zeros(5), inputs, labels


def run(steps):
    weights, inputs, labels = data(numpy.random.default_rng(2))
    slope, curvature = grad(loss), hessian(loss)
    for _ in range(steps):
        matrix = curvature(weights, inputs, labels)
        weights -= numpy.linalg.solve(matrix, slope(weights, inputs, labels))
    correct = (inputs @ weights > 0) == (labels > 0.5)
    return {
        "loss": float(loss(weights, inputs, labels)),
        "gradient": float(numpy.linalg.norm(slope(weights, inputs, labels))),
        "correct": float(numpy.mean(correct)),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 8))).items():
        print(f"{name}: {value:.3e}")
