"""What is made once for many equal parts of a program, while it becomes machine code."""

import threading

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.native import region_kernels
from functensor.backends.cpu.plan.native.region_kernels import RegionKernels
from functensor.backends.cpu.plan.native.segments import segmented
from functensor.backends.native import machine
from functensor.backends.native.object_cache import ObjectCache
from functensor.jitting.tiers import native_program

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def prepared(function, *args):
    return native_program(ft.make_program(function)(*args))


def graphs_made(monkeypatch, program):
    """Returns the graphs that a program needs for its regions, and its text."""
    made, own = [], threading.get_ident()
    graph = region_kernels.RegionGraph

    def counted(*args):
        # The thread that compiles may still work for another test.
        if threading.get_ident() == own:
            made.append(args)
        return graph(*args)

    monkeypatch.setattr(region_kernels, "RegionGraph", counted)
    return made, segmented(program).text


def test_equal_regions_have_one_kernel(monkeypatch):
    def steps(xs):
        return [fnp.tanh(x) * 0.5 + x for x in xs]

    xs = [np.ones((3, 4), np.float32)] * 5 + [np.ones((4, 4), np.float32)] * 3
    made, text = graphs_made(monkeypatch, prepared(steps, xs))
    assert len(made) == 2
    assert text.count("define internal void @kernel_") == 2
    found = ft.jit(steps).compile(xs)(xs)
    for x in found:
        np.testing.assert_allclose(x, np.tanh(1) * 0.5 + 1, rtol=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: fnp.tanh(x) * 0.25 + x,
        lambda x: fnp.tanh(x) * -0.0 + x,
        lambda x: fnp.tanh(x) * 0.0 - x,
        lambda x: fnp.tanh(x) * x + 0.0,
        lambda x: fnp.sin(x) * 0.0 + x,
        lambda x: fnp.sum(fnp.tanh(x) * 0.0 + x, 0),
        lambda x: fnp.sum(fnp.tanh(x) * 0.0 + x, 1),
        lambda x: fnp.tanh(x.T) * 0.0 + 1.0,
        lambda x: fnp.tanh(x[:, 1:]) * 0.0 + x[:, 1:],
    ],
)
def test_other_regions_have_kernels_of_their_own(other):
    x, y = np.full((4, 4), 2.0), np.full((4, 4), 3.0)

    def both(x, y):
        return fnp.tanh(x) * 0.0 + x, other(y)

    text = segmented(prepared(both, x, y)).text
    assert text.count("define internal void @kernel_") == 2
    for found, right in zip(ft.jit(both).compile(x, y)(x, y), both(x, y)):
        np.testing.assert_allclose(found, right, rtol=1e-14)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(right))


def test_dtypes_have_kernels_of_their_own(monkeypatch):
    xs = [np.ones((4, 4), dtype) for dtype in ("float32", "float64", "int32", "int32")]
    made, _ = graphs_made(monkeypatch, prepared(lambda xs: [x * x + x for x in xs], xs))
    assert len(made) == 3


def test_labels_are_read_by_their_own_equations():
    kernels = RegionKernels()
    x, y = np.eye(4, 5, dtype=np.float32), np.arange(4)
    program = prepared(lambda x, y: fnp.take_along_axis(x, y[:, None], 1) * 2 + 1, x, y)
    (equation,) = [e for e in program.equations if e.primitive.fused]
    strides = [(5, 1), (1, 1)]
    first, second = (kernels.of(equation, strides) for _ in range(2))
    assert first.labels
    assert first is not second


def test_equations_of_a_kind_are_asked_about_once(monkeypatch):
    backend = get_backend("numpy")
    asked = []
    is_native = type(backend).is_native

    def counted(self, equation):
        asked.append(equation)
        return is_native(self, equation)

    monkeypatch.setattr(type(backend), "is_native", counted)
    xs = [np.ones((n, 4), np.float32) for n in range(2, 12)]
    prepared(lambda xs: [fnp.tanh(x * 2.0) * 0.5 for x in xs], xs)
    assert len(asked) == 3


def test_powers_count_by_their_exponents():
    x = np.arange(4, dtype="int32")
    program = prepared(lambda x: (x**2 + 1, x ** fnp.abs(x)), x)
    names = [e.primitive.name for e in program.equations if not e.primitive.fused]
    assert names == ["power"]


def test_long_texts_take_few_passes(monkeypatch):
    """Both lists of passes make code that computes the same."""
    taken = []
    optimise = machine.Llvm._optimise

    def noted(self, modules, long):
        taken.append(long)
        optimise(self, modules, long)

    monkeypatch.setattr(machine.Llvm, "_optimise", noted)
    monkeypatch.setenv("FUNCTENSOR_CACHE_DIR", "")
    x = np.random.default_rng(0).normal(size=(37, 21))

    def function(x):
        y = fnp.tanh(x @ x.T)
        return y / fnp.sum(y * y, 1, keepdims=True), fnp.log1p(fnp.max(abs(y), 0))

    for length in (0, 1 << 30):
        monkeypatch.setattr(machine, "LONG_TEXT", length)
        for found, right in zip(ft.jit(function).compile(x)(x), function(x)):
            np.testing.assert_allclose(found, right, rtol=1e-12)
    assert set(taken) == {False, True}


def test_texts_without_loops_say_that_they_take_few_passes(monkeypatch):
    taken = []
    monkeypatch.setattr(machine.Llvm, "_optimise", lambda self, modules, long: taken.append(long))
    text = "define void @f() {\n  ret void\n}"
    for given in (text, machine.FEW_PASSES + text):
        machine.machine_code(given, ["f"], ObjectCache(None))
    assert taken == [False, True]
