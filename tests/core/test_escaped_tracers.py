"""A tracer that outlived its transformation says so when it is asked for its number."""

import math
import pickle

import numpy
import pytest
from support.error_cases import check, defined

import functensor as ft
import functensor.numpy as np

X = numpy.arange(3.0) + 1
KEPT = []


def fix_of(name):
    """Returns right code: under vmap and staging there is no value to be stored."""
    known = name in ("grad", "vjp", "jvp")
    extras, value = known * " (has_aux=True for extras)", known * ", or store ft.value(x)"
    return f"return the value from the transformed function{extras} instead of storing it{value}"


def keeping(x):
    KEPT.append(x * 2)
    return np.sum(x)


LINE = f"{__file__}:{keeping.__code__.co_firstlineno + 1}"


def kept(transform):
    """Returns a tracer that was kept by a function that is transformed."""
    KEPT.clear()
    transform()
    return KEPT.pop()


MADE = {
    "grad": (lambda: ft.grad(keeping)(2.0), "multiply"),
    "vjp": (lambda: ft.vjp(keeping, 2.0), "multiply"),
    "jvp": (lambda: ft.jvp(keeping, (2.0,), (1.0,)), "forward mode"),
    "vmap": (lambda: ft.vmap(keeping)(X), "vectorisation"),
    "jit": (lambda: ft.jit(keeping)(2.0), f"multiply at {LINE}"),
    "make_program": (lambda: ft.make_program(keeping)(2.0), f"multiply at {LINE}"),
}
# These ask for a number whose derivative would be lost, so that they do where it is known.
LOSING = {
    "float": lambda x: float(x),
    "complex": lambda x: complex(x),
    "math": lambda x: math.exp(x),
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "pickle": lambda x: pickle.dumps(x),
    "asarray": lambda x: numpy.asarray(x),
    "asarray of integers": lambda x: numpy.asarray(x, int),
    "dlpack": lambda x: numpy.from_dlpack(x),
    "strides": lambda x: x.strides,
    "function of NumPy's": lambda x: numpy.lib.stride_tricks.sliding_window_view(x, 1),
    "out": lambda x: numpy.add(X, x, out=X.copy()),
    "copyto": lambda x: numpy.copyto(X.copy(), x),
    "tensor": lambda x: ft.Tensor(x),
    "length": lambda x: len(x),
    "list": lambda x: list(x),
}
ASKING = {
    "int": lambda x: int(x),
    "bool": lambda x: bool(x),
    "branch": lambda x: 1 if x else 2,
    "index": lambda x: [1, 2, 3][x],
    "shape": lambda x: np.zeros(x),
    "value": lambda x: ft.value(x),
}


def escaped(name, made):
    by = f"made by {made}"
    return f"a tracer float64[], {by}, was used after {name} of {defined(keeping)} had ended"


@pytest.mark.parametrize("ask", LOSING.values(), ids=LOSING)
@pytest.mark.parametrize("name", MADE)
def test_numbers_whose_derivative_would_be_lost(name, ask):
    transform, made = MADE[name]
    x = kept(transform)
    check(ft.errors.EscapedTracerError, lambda: ask(x), escaped(name, made), fix_of(name), 6)


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize("name", ["vmap", "jit", "make_program"])
def test_numbers_that_are_not_known(name, ask):
    transform, made = MADE[name]
    x = kept(transform)
    check(ft.errors.EscapedTracerError, lambda: ask(x), escaped(name, made), fix_of(name), 6)


@pytest.mark.parametrize("ask", [float, bool])
def test_the_transformation_that_ended_first_is_named(ask):
    x = kept(lambda: ft.vmap(ft.grad(keeping))(X))
    what = escaped("grad", "multiply")
    check(ft.errors.EscapedTracerError, lambda: ask(x), what, fix_of("vmap"), 6)


def store(x):
    buffer = numpy.zeros(3)
    buffer[0] = x


@pytest.mark.parametrize("ask", [lambda x: float(x), store], ids=["float", "store"])
@pytest.mark.parametrize("name", ["grad", "vmap"])
def test_what_runs_is_named_as_what_it_is_under(name, ask):
    transform, made = MADE[name]
    x = kept(transform)

    def running(y):
        return y * (ask(x) or 1.0)

    check(
        ft.errors.EscapedTracerError,
        lambda: ft.jvp(running, (1.0,), (1.0,)),
        escaped(name, made),
        fix_of(name),
        6,
        f"jvp({defined(running)})",
    )


@pytest.mark.parametrize("ask", [np.nonzero, lambda x: np.ones(3)[x]], ids=["nonzero", "mask"])
@pytest.mark.parametrize("transform", [lambda f: ft.vmap(f)(X[None]), lambda f: ft.jit(f)(X)])
def test_masks(transform, ask):
    masks = []
    transform(lambda x: (masks.append(x > 1), x)[1])
    with pytest.raises(ft.errors.EscapedTracerError, match=r"^a tracer bool\[3\], made by "):
        ask(masks[0])


@pytest.mark.parametrize("ask", [int, bool, lambda n: int(f"{n:.0f}"), ft.value])
def test_a_function_that_runs_again_asks_as_it_did_before(ask):
    def loss(x):
        n = x * 2
        return ft.checkpoint(lambda z: np.sin(z) * ask(n))(x)

    assert float(ft.grad(loss)(2.0)) == pytest.approx(math.cos(2.0) * float(ask(np.array(4.0))))
