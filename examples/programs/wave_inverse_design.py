"""A lens found by gradients of Maxwell's equations, solved on a grid with a dense complex matrix.

python examples/programs/wave_inverse_design.py
"""

import os

import numpy
from scipy.optimize import minimize

import functensor.numpy as np
from functensor import value_and_grad

SIZE, WAVE, RIM = 16, 5.0, 3


def second_difference():
    """The second derivative along a line whose ends swallow waves, by coordinates made complex."""
    cells = numpy.arange(SIZE) + 0.5
    depth = numpy.maximum(0, RIM - cells) + numpy.maximum(0, cells - SIZE + RIM)
    stretch = 1 / (1 + 2j * (depth / RIM) ** 2)
    edges = numpy.arange(SIZE + 1.0)
    depth = numpy.maximum(0, RIM - edges) + numpy.maximum(0, edges - SIZE + RIM)
    between = 1 / (1 + 2j * (depth / RIM) ** 2)
    slope = numpy.eye(SIZE + 1, SIZE) - numpy.eye(SIZE + 1, SIZE, k=-1)
    return -(stretch[:, None] * slope.T) @ (between[:, None] * slope)


def field(design, empty, source):
    """The electric field of a source, in a medium that the design makes slower in the middle."""
    density = 1.0 / (1.0 + np.exp(-design))
    slower = np.reshape(np.pad(np.reshape(density, (4, 6)), ((6, 6), (5, 5)), "constant"), (-1,))
    wave_number = 2 * np.pi / WAVE
    matrix = empty + np.diag(wave_number**2 * (1.0 + 2.0 * slower))
    return np.linalg.solve(matrix, source)


def negative_brightness(design, empty, source, focus):
    seen = np.dot(focus, field(design, empty, source))
    return -(np.real(seen) ** 2 + np.imag(seen) ** 2)


def data():
    """A flat design, the waves' matrix without it, their source, and where they should meet."""
    line = second_difference()
    empty = numpy.kron(line, numpy.eye(SIZE)) + numpy.kron(numpy.eye(SIZE), line)
    source, focus = numpy.zeros((SIZE, SIZE)), numpy.zeros((SIZE, SIZE))
    source[RIM + 1, RIM + 2 : SIZE - RIM - 2] = 1.0
    focus[SIZE - RIM - 2, SIZE // 2] = 1.0
    return numpy.zeros(24), empty, source.ravel().astype(complex), focus.ravel()


def run(steps):
    start, *arguments = data()
    found = minimize(
        value_and_grad(negative_brightness),
        start,
        args=tuple(arguments),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps},
    )
    return {
        "brightness at first": -float(negative_brightness(start, *arguments)),
        "brightness at last": -float(found.fun),
    }


if __name__ == "__main__":
    for name, value in run(int(os.environ.get("FUNCTENSOR_EXAMPLE_STEPS", 30))).items():
        print(f"{name}: {value:.4f}")
