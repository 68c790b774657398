"""Residual hooks on every primitive: derivatives of order one and two stay the same, to the bit."""

import numpy
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from support.long_forms import sized

import functensor as ft
from functensor.hooks import ResidualHook, use
from functensor.primitives.core.registry import registry


class Moving(ResidualHook):
    """Keeps each residual as a list of bytes, in C's order whatever the residual's is."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def pack(self, op, value):
        self.count += 1
        return numpy.asarray(value).tobytes(), value.shape, value.dtype

    def unpack(self, op, packed):
        held, shape, dtype = packed
        return numpy.frombuffer(held, dtype).reshape(shape)


def gradients(fun, values, order):
    """Returns the gradients of the sum of what a function returns, or of that of its gradients."""
    for _ in range(order):
        fun = one_gradient(fun)
    return fun(*values)


def one_gradient(fun):
    def pulled(*values):
        out, pull = ft.vjp(fun, *values)
        return ft.tree.leaves(pull(ft.tree.map(ft.numpy.ones_like, out)))

    return pulled


@pytest.mark.filterwarnings("ignore::functensor.programs.staging_warnings.StagingWarning")
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive(name):
    primitive = registry[name]
    double = "d" if "d" in primitive.dtypes else primitive.dtypes[0]
    for sample in primitive.samples[: sized(short=2, long=100)]:
        if not cases.has_derivative(primitive, sample, double):
            continue
        call = cases.applied(primitive, sample)
        inner, values = cases.by_inexact(call, cases.operands_of(primitive, sample, double))

        def made(*values, inner=inner):
            # Arguments are not packed, but what an operation has made of them is.
            return inner(*[ft.numpy.multiply(x, 1) for x in values])

        for order in (1, 2):
            plain = gradients(made, values, order)
            hook = Moving()
            with use(hook):
                seen = gradients(made, values, order)
            pairs = zip(seen, plain, strict=True)
            assert all(numpy.asarray(a).tobytes() == numpy.asarray(b).tobytes() for a, b in pairs)
