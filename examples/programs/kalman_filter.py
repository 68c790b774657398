"""The noise of a moving target, found by the likelihood that a Kalman filter computes.

python examples/programs/kalman_filter.py
"""

import os

import numpy
from scipy.optimize import minimize

import functensor.numpy as np
from functensor import value_and_grad

STEP = 0.1
MOTION = numpy.array([[1.0, STEP], [0.0, 1.0]])
PUSH = numpy.array([[STEP**3 / 3, STEP**2 / 2], [STEP**2 / 2, STEP]])
SEEN = numpy.array([[1.0, 0.0]])


def negative_log_likelihood(log_noises, observations):
    """Of positions that were seen with noise, of a target whose velocity is a random walk."""
    pushed, blurred = np.exp(log_noises[0]) * PUSH, np.exp(log_noises[1]) * np.eye(1)
    mean, covariance, total = np.zeros(2), 10.0 * np.eye(2), 0.0
    for observation in observations:
        mean = np.dot(MOTION, mean)
        covariance = np.dot(np.dot(MOTION, covariance), MOTION.T) + pushed
        surprise = observation - np.dot(SEEN, mean)
        spread = np.dot(np.dot(SEEN, covariance), SEEN.T) + blurred
        gain = np.linalg.solve(spread, np.dot(SEEN, covariance)).T
        total = total + 0.5 * np.dot(surprise, np.linalg.solve(spread, surprise))
        total = total + 0.5 * np.linalg.slogdet(2 * np.pi * spread)[1]
        mean = mean + np.dot(gain, surprise)
        covariance = covariance - np.dot(gain, np.dot(SEEN, covariance))
    return total / len(observations)


def data(random):
    """The first noises, and where a target was seen."""
    state, observations = numpy.array([0.0, 1.0]), []
    root = numpy.linalg.cholesky(0.5 * PUSH)
    for _ in range(150):
        state = MOTION @ state + root @ random.normal(size=2)
        observations.append(state[:1] + 0.1 * random.normal(size=1))
    return numpy.zeros(2), numpy.array(observations)


def run(steps):
    start, observations = data(numpy.random.default_rng(7))
    fitted = minimize(
        value_and_grad(negative_log_likelihood),
        start,
        args=(observations,),
        jac=True,
        method="BFGS",
        options={"maxiter": steps},
    )
    return {
        "negative log likelihood": float(fitted.fun),
        "motion": float(numpy.exp(fitted.x[0])),
        "blur": float(numpy.exp(fitted.x[1] / 2)),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 20))).items():
        print(f"{name}: {value:.4f}")
