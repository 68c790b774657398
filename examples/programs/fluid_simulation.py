"""A fluid whose initial velocities are optimised through time, so that its smoke forms a picture.

python examples/programs/fluid_simulation.py
"""

import os

import numpy
from scipy.optimize import minimize

import functensor.numpy as np
from functensor import value_and_grad

SIZE, TIME_STEPS, SWEEPS = 16, 6, 8


def around(x):
    """The sum of the four neighbours on a torus."""
    return np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1)


def without_divergence(u, v):
    """Projects velocities on those that neither make nor lose fluid, by Jacobi's iteration."""
    outwards = np.roll(u, -1, 0) - np.roll(u, 1, 0) + np.roll(v, -1, 1) - np.roll(v, 1, 1)
    pressure = np.zeros(u.shape)
    for _ in range(SWEEPS):
        pressure = (around(pressure) - 0.5 * outwards) / 4.0
    u = u - 0.5 * (np.roll(pressure, -1, 0) - np.roll(pressure, 1, 0))
    v = v - 0.5 * (np.roll(pressure, -1, 1) - np.roll(pressure, 1, 1))
    return u, v


def carried(field, u, v):
    """Moves a field along velocities, looking back to where each cell's content came from."""
    rows, cols = numpy.meshgrid(numpy.arange(SIZE), numpy.arange(SIZE), indexing="ij")
    from_row, from_col = rows - u, cols - v
    above, left = np.floor(from_row), np.floor(from_col)
    down, right = from_row - above, from_col - left
    above, left = above.astype(int) % SIZE, left.astype(int) % SIZE
    below, beside = (above + 1) % SIZE, (left + 1) % SIZE
    upper = (1 - right) * field[above, left] + right * field[above, beside]
    lower = (1 - right) * field[below, left] + right * field[below, beside]
    return (1 - down) * upper + down * lower


def simulate(velocities, smoke):
    u, v = velocities[: SIZE * SIZE].reshape((SIZE, SIZE)), velocities[SIZE * SIZE :]
    v = v.reshape((SIZE, SIZE))
    for _ in range(TIME_STEPS):
        u, v = carried(u, u, v), carried(v, u, v)
        u, v = without_divergence(u, v)
        smoke = carried(smoke, u, v)
    return smoke


def distance(velocities, smoke, target):
    return np.mean((simulate(velocities, smoke) - target) ** 2)


def data():
    """A fluid at rest, its smoke, and the picture that the smoke is to form."""
    rows, cols = numpy.meshgrid(numpy.arange(SIZE), numpy.arange(SIZE), indexing="ij")
    smoke = (numpy.abs(rows - 7.5) < 3).astype(float)
    target = ((rows - 7.5) ** 2 + (cols - 7.5) ** 2 < 26).astype(float)
    return numpy.zeros(2 * SIZE * SIZE), smoke, target


def run(steps):
    start, smoke, target = data()
    found = minimize(
        value_and_grad(distance),
        start,
        args=(smoke, target),
        jac=True,
        method="CG",
        options={"maxiter": steps},
    )
    return {
        "distance at first": float(distance(start, smoke, target)),
        "distance at last": float(found.fun),
        "fastest velocity": float(numpy.abs(found.x).max()),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 25))).items():
        print(f"{name}: {value:.5f}")
