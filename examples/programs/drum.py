"""A drum whose skin is weighted so that its overtones are in harmony: eigenvalues are optimised.

python examples/programs/drum.py
"""

import os

import numpy
from scipy.optimize import minimize

import functensor.numpy as np
from functensor import value_and_grad

SIZE = 9
# Frequencies above the lowest, as multiples of it, that are to be heard.
HARMONIES = numpy.array([1.5, 2.0, 2.5])


def stiffness():
    """Minus the Laplacian of a square skin that is fixed at its rim, on a grid."""
    line = 2 * numpy.eye(SIZE) - numpy.eye(SIZE, k=1) - numpy.eye(SIZE, k=-1)
    return (numpy.kron(line, numpy.eye(SIZE)) + numpy.kron(numpy.eye(SIZE), line)) * (SIZE + 1) ** 2


def frequencies(log_weights, tension):
    """Of the skin with these weights: square roots of a symmetric matrix's eigenvalues."""
    root = np.exp(-0.5 * log_weights)
    squared, _ = np.linalg.eigh(root[:, None] * tension * root[None, :])
    return np.sqrt(squared[:4])


def discord(log_weights, tension):
    heard = frequencies(log_weights, tension)
    roughness = np.mean((log_weights - np.mean(log_weights)) ** 2)
    return np.sum((heard[1:] / heard[0] - HARMONIES) ** 2) + 1e-4 * roughness


def data(random):
    """The weights at first, and the skin's tension."""
    # Not quite even, since two overtones of an even square are one eigenvalue.
    return 0.1 * random.normal(size=SIZE * SIZE), stiffness()


def run(steps):
    start, tension = data(numpy.random.default_rng(8))
    found = minimize(
        value_and_grad(discord),
        start,
        args=(tension,),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps},
    )
    heard = numpy.asarray(frequencies(found.x, tension))
    return {
        "discord at first": float(discord(start, tension)),
        "discord at last": float(found.fun),
        **{f"overtone {i}": float(heard[i] / heard[0]) for i in (1, 2, 3)},
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 60))).items():
        print(f"{name}: {value:.4f}")
