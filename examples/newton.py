"""Finds the minimum of Rosenbrock's function by Newton's method, with exact second derivatives.

python examples/newton.py
"""

import os

import numpy

import functensor as ft
import functensor.numpy as np


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def main():
    steps = int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 20))
    gradient, hessian = ft.grad(rosenbrock), ft.hessian(rosenbrock)
    x = np.array([1.5, 1.8, 3.2, 9.8])
    for i in range(steps):
        slope = gradient(x)
        norm = float(np.sqrt(np.sum(slope**2)))
        print(f"step {i}: value {float(rosenbrock(x)):.3e}, gradient {norm:.1e}")
        if norm < 1e-10:
            break
        x = x - numpy.linalg.solve(hessian(x), slope)
    print("minimum at", np.round(x, 6))


if __name__ == "__main__":
    main()
