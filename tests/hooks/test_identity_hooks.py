"""Hooks that change nothing leave every bit as it is, and see the same everywhere."""

import numpy
import pytest
from support.hooked_programs import program
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np
from functensor.hooks import Hook, use

pytestmark = pytest.mark.filterwarnings("ignore:.*was jitted and staged 100 times")

SEEDS = range(sized(8, 400))


class Observing(Hook):
    def forward(self, op, inputs, output):
        assert np.shape(output) is not None

    def backward(self, op, grad_inputs, grad_output):
        assert np.shape(grad_output) is not None


class Returning(Hook):
    def forward(self, op, inputs, output):
        return output

    def backward(self, op, grad_inputs, grad_output):
        return grad_inputs


def bits(values):
    return [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(values)]


def scalar(f):
    return lambda x, w: np.sum(np.sin(f(x, w)))


def both(f):
    return ft.grad(scalar(f), (0, 1))


TRANSFORMATIONS = {
    "evaluated": lambda f: f,
    "grad": both,
    "grad of vmap": lambda f: lambda x, w: both(lambda x, w: ft.vmap(f, (0, None))(w * x, w))(x, w),
    "vmap of grad": lambda f: lambda x, w: ft.vmap(both(f), (0, None))(w + x, w),
    "hessian": lambda f: ft.hessian(scalar(f)),
    "grad of jvp": lambda f: both(lambda x, w: ft.jvp(lambda x: f(x, w), (x,), (w[0],))[1]),
}


def data(seed):
    draw = numpy.random.RandomState(seed)
    return np.asarray(draw.randn(3)), np.asarray(draw.randn(3, 3) * 0.7)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_bit_identical(seed):
    f, args = program(seed), data(seed)
    for mode, transform in TRANSFORMATIONS.items():
        plain = bits(transform(f)(*args))
        for hook in (Observing(), Returning()):
            with use(hook):
                assert bits(transform(f)(*args)) == plain, (f.__name__, mode)
