"""The rates of predators and prey, fitted to noisy counts through the solution of their equations.

python examples/programs/ode_fit.py
"""

import os

import numpy

import functensor as ft
import functensor.numpy as np
from functensor.scipy.integrate import odeint
from functensor.scipy.optimize import minimize

RATES, START = numpy.array([1.0, 0.4, 0.2, 0.6]), numpy.array([4.0, 2.0])


def growth(state, time, rates):
    """The equations of Lotka and Volterra."""
    prey, predators = state
    births, hunted, fed, deaths = rates
    return np.stack([prey * (births - hunted * predators), predators * (fed * prey - deaths)])


def solution(log_params, times):
    rates, start = np.exp(log_params["rates"]), np.exp(log_params["start"])
    return odeint(growth, start, times, rates)


def misfit(log_params, times, counts):
    return np.mean((np.log(solution(log_params, times)) - np.log(counts)) ** 2)


def data(random):
    """A guess, times, and noisy counts at those times."""
    times = numpy.linspace(0.0, 10.0, 21)
    counts = numpy.asarray(odeint(growth, START, times, RATES))
    counts = counts * numpy.exp(0.02 * random.normal(size=counts.shape))
    return {"rates": numpy.log(RATES) + 0.2, "start": numpy.log(START) - 0.1}, times, counts


def run(steps):
    guess, times, counts = data(numpy.random.default_rng(5))
    fitted = minimize(
        misfit, guess, args=(times, counts), method="L-BFGS-B", options={"maxiter": steps}
    )
    slope = ft.grad(misfit)(fitted.x, times, counts)
    return {
        "misfit": float(fitted.fun),
        "worst error of a rate": float(np.max(np.abs(np.exp(fitted.x["rates"]) / RATES - 1))),
        "gradient": float(np.max(np.abs(slope["rates"]))),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 40))).items():
        print(f"{name}: {value:.2e}")
