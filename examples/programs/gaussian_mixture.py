"""A mixture of Gaussians with full covariances, fitted by gradients of its likelihood.

python examples/programs/gaussian_mixture.py
"""

import os

import numpy
from scipy.optimize import minimize

import functensor.numpy as np
from functensor import value_and_grad
from functensor.scipy.special import logsumexp

PARTS, AXES = 3, 2
CENTRES = numpy.array([[0.0, 3.0], [-3.0, -1.0], [3.0, -1.0]])


def unpack(params):
    """Logarithms of weights, means, and square roots of the inverse covariances."""
    weights, means, roots = np.split(params, [PARTS, PARTS + PARTS * AXES])
    log_weights = weights - logsumexp(weights)
    return log_weights, means.reshape((PARTS, AXES)), roots.reshape((PARTS, AXES, AXES))


def negative_log_likelihood(params, points):
    log_weights, means, roots = unpack(params)
    differences = points[:, None, :] - means[None, :, :]
    whitened = np.einsum("kij,nkj->nki", roots, differences)
    _, log_determinants = np.linalg.slogdet(roots)
    logs = log_weights + log_determinants - 0.5 * np.sum(whitened**2, axis=2)
    normalised = logsumexp(logs, axis=1) - 0.5 * AXES * np.log(2 * np.pi)
    return -np.mean(normalised)


def data(random):
    """The first parameters, and points around the centres."""
    points = numpy.concatenate([c + 0.5 * random.normal(size=(100, AXES)) for c in CENTRES])
    start = numpy.concatenate(
        [
            numpy.zeros(PARTS),
            random.normal(size=PARTS * AXES),
            numpy.tile(numpy.eye(AXES).ravel(), PARTS),
        ]
    )
    return start, points


def run(steps):
    start, points = data(numpy.random.default_rng(1))
    fitted = minimize(
        value_and_grad(negative_log_likelihood),
        start,
        args=(points,),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps},
    )
    means = numpy.asarray(unpack(fitted.x)[1])
    distances = numpy.linalg.norm(means[:, None] - CENTRES[None], axis=-1)
    return {
        "negative log likelihood": float(fitted.fun),
        "worst distance of a mean": float(distances.min(axis=0).max()),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 200))).items():
        print(f"{name}: {value:.4f}")
