"""Of zeros of both signs, maximum and minimum give the one that NumPy gives, jitted or not."""

import itertools

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

pytestmark = pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning")
ZEROS = [0.0, -0.0, 1.5, -2.0, numpy.nan]


def signs(x):
    """Returns what tells results apart that are equal, or not a number."""
    x = numpy.asarray(x)
    return x.dtype, x.shape, numpy.where(numpy.isnan(x), 2, numpy.signbit(x)).tobytes()


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(7,), (70, 35), (35, 9000)])
def test_the_zero_is_the_one_of_numpy(name, dtype, shape):
    extremum, wanted = getattr(np, name), getattr(numpy, name)
    pairs = [*itertools.product(ZEROS, ZEROS)]
    size = int(numpy.prod(shape))
    x, y = (numpy.resize(column, size).reshape(shape).astype(dtype) for column in zip(*pairs))
    for a, b in [(x, y), (x.T, y.T), (x[..., ::2], y[..., ::2]), (x, y[..., :1])]:
        for fun in (extremum, ft.jit(extremum)):
            assert signs(fun(a, b)) == signs(wanted(a, b))
    for number in (0.0, -0.0, 0, 1.5):
        full = numpy.full_like(x, number)
        for fun, right in [
            (lambda x, number=number: extremum(x, number), wanted(x, number)),
            (lambda x, number=number: extremum(number, x), wanted(number, x)),
            (lambda x, full=full: extremum(x, full), wanted(x, number)),
            (lambda x, full=full: extremum(full, x), wanted(number, x)),
            # Among others, in blocks.
            (lambda x, number=number: np.negative(extremum(-x, number)), -wanted(-x, number)),
        ]:
            assert signs(fun(np.asarray(x))) == signs(right)
            assert signs(ft.jit(fun)(x)) == signs(right)
