"""A chain of 10,000 springs comes to rest by Newton's method with a sparse Hessian.

python examples/programs/springs.py
"""

import os

import numpy
from scipy.sparse.linalg import spsolve

import functensor as ft
import functensor.numpy as np
from functensor import sparse


def energy(places, load):
    """Of springs that grow stiffer as they stretch, from a wall at 0, each mass with its load."""
    stretched = np.diff(places, prepend=0.0)
    return np.sum(stretched**2 / 2 + stretched**4 / 4) - np.sum(load * places)


def data(masses):
    """Where the masses are at first, and their loads."""
    return numpy.zeros(masses), numpy.sin(numpy.arange(masses) / masses * 3) / masses


def run(steps, masses=10_000):
    places, load = data(masses)
    pattern = sparse.hessian_pattern(energy)(places, load)
    slope, curvature = ft.grad(energy), sparse.hessian(energy, pattern=pattern)
    for _ in range(steps):
        step = spsolve(curvature(places, load).toscipy().tocsc(), slope(places, load))
        places = places - step
    return {
        "places in the Hessian": len(pattern),
        "force that is left": float(np.max(np.abs(slope(places, load)))),
        "length": float(places[-1]),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 6))).items():
        print(f"{name}: {value:.6g}")
