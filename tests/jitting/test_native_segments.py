"""Neighbours of many kinds in one function of machine code: small arrays, numbers, systems."""

import re

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same

import functensor as ft
import functensor.numpy as fnp
import functensor.scipy.linalg as fsl
from functensor.backends.cpu.plan.native import segment_code, shared_segments
from functensor.backends.cpu.plan.native.segments import Segment, segmented
from functensor.backends.native.blas import numpy_blas
from functensor.backends.native.instructions import GLUE
from functensor.jitting.tiers import native_program

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(
        not missing and not (numpy_blas() and numpy_blas().has("gesv", np.dtype("f8"))),
        reason="NumPy's LAPACK is not known here",
    ),
]
MOTION = np.array([[1.0, 0.1], [0.0, 1.0]])


def segments_of(jitted):
    """Returns the segments of the plan of a jitted function's last call, and all its equations."""
    machine = jitted._last.compiled.run
    scope = machine._scope
    return [v.__self__ for n, v in scope.items() if n.endswith("_again") and v is not None]


def machine_code(f, *args, segments=1):
    """Returns a function jitted as machine code, its plan so many segments."""
    jitted = ft.jit(f).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    assert len(segments_of(jitted)) == segments, jitted._last.compiled.run.source
    assert all(isinstance(x, Segment) for x in segments_of(jitted))
    return jitted


def likelihood(noise, seen):
    """Of a Kalman filter whose steps are written out."""
    mean, spread, total = fnp.zeros(2), 10.0 * fnp.eye(2), 0.0
    for z in seen:
        mean, spread = MOTION @ mean, MOTION @ spread @ MOTION.T + noise[0] * np.eye(2)
        blurred = spread[:1, :1] + noise[1]
        gain = fnp.linalg.solve(blurred, spread[:1]).T
        surprise = z - mean[:1]
        total = total + 0.5 * surprise @ fnp.linalg.solve(blurred, surprise)
        total = total + 0.5 * fnp.linalg.slogdet(2 * np.pi * blurred)[1]
        mean, spread = mean + gain @ surprise, spread - gain @ spread[:1]
    return total / len(seen)


NOISE, SEEN = np.array([0.3, 0.7]), np.random.default_rng(0).normal(size=(6, 1))


def test_a_filter_is_one_function():
    assert_same(machine_code(likelihood, NOISE, SEEN)(NOISE, SEEN), likelihood(NOISE, SEEN), 1e-12)
    slope = ft.value_and_grad(likelihood)
    assert_same(machine_code(slope, NOISE, SEEN)(NOISE, SEEN), slope(NOISE, SEEN), 1e-11)


def test_steps_that_are_written_out_have_equal_functions(monkeypatch):
    monkeypatch.setattr(shared_segments, "FEWEST_BEFORE_REPEATS", 10)
    monkeypatch.setattr("functensor.backends.cpu.plan.native.segments.MOST_SEGMENT_EQUATIONS", 60)
    monkeypatch.setattr(segment_code, "MOST_SEGMENT_EQUATIONS", 60)
    seen = np.random.default_rng(0).normal(size=(20, 1))
    jitted = ft.jit(likelihood).compile(NOISE, seen)
    assert_same(jitted(NOISE, seen), likelihood(NOISE, seen), 1e-12)
    machine = {id(x.call): x for x in segments_of(jitted)}
    assert len(segments_of(jitted)) > 15
    assert len(machine) == len(segments_of(jitted))


def test_the_error_of_a_system_of_computed_values_has_its_line():
    def f(a, b):
        c = fnp.exp(a) - 1.0
        first = fnp.linalg.solve(c + fnp.eye(2), b) * 2
        return fnp.sin(fnp.linalg.solve(c * first[0], b) + first)  # the line

    fine, singular, b = np.array([[0.1, 0.2], [0.5, 0.1]]), np.zeros((2, 2)), np.ones(2)
    jitted = machine_code(f, fine, b)
    assert_same(jitted(fine, b), f(fine, b), 1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="solve: singular matrix") as seen:
        jitted(singular, b)
    number = f.__code__.co_firstlineno + 3
    assert f"test_native_segments.py:{number}" in str(seen.value.__notes__)
    assert_same(jitted(fine, b), f(fine, b), 1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="solve: singular matrix") as seen:
        jitted(fine * 0 + np.log([[1.0, 1.0], [1.0, 1e-300 + 0.0]]).clip(-800), b * np.nan)
    assert f"test_native_segments.py:{number - 1}" in str(seen.value.__notes__)


def test_the_error_of_a_factor_of_computed_values():
    def f(a):
        factor = fnp.linalg.cholesky(fnp.sin(a) @ a)
        return fsl.solve_triangular(factor, a[0] * 2, lower=True) + 1

    fine = np.eye(2)
    jitted = machine_code(f, fine)
    with pytest.raises(np.linalg.LinAlgError, match="cholesky: matrix is not positive definite"):
        jitted(np.array([[0.0, 1.0], [1.0, 0.0]]) * [[1], [-1]])
    assert_same(jitted(fine), f(fine), 1e-12)


def test_numbers_and_small_arrays_stand_between():
    def f(x, y):
        n = fnp.sum(x) * 0.5 + y[0]
        m = fnp.reshape(y[1:2] * n, ()) + 1
        v = x[:2] * m
        k = fnp.argsort(v)  # which machine code has not
        return v[k] + n, fnp.linalg.inv(fnp.eye(2) + fnp.outer(v, v)) @ v, m, n > 2

    x, y = np.linspace(0.1, 1, 5), np.array([0.2, 0.4])
    jitted = machine_code(f, x, y, segments=2)
    assert_same(jitted(x, y), f(x, y), 1e-13)
    for dtype in ("f4", "c16"):
        own = x.astype(dtype), y.astype(dtype)

        def g(x, y):
            n = fnp.sum(x) * 0.5 + y[0]
            return x * n, n * n + 1, (n + y[1:2]) * fnp.ones(3, x.dtype)

        assert_same(machine_code(g, *own)(*own), g(*own), 1e-5)


def test_a_few_numbers_are_left_to_python():
    def f(x, s):
        order = fnp.argsort(x)
        return x[order] + 1, s * 2 + 1

    x = np.arange(100.0)[::-1].copy()
    jitted = ft.jit(f).compile(x, np.float64(3.0))
    assert_same(jitted(x, np.float64(3.0)), f(x, np.float64(3.0)))
    for segment in segments_of(jitted):
        assert any(e.primitive.fused for e in segment.code.equations)


def text_of(f, *args):
    return segmented(native_program(ft.make_program(f)(*args))).text


def test_functions_that_only_call_others_are_not_optimised():
    xs = [np.ones((2, n)) for n in range(1, 60)]
    many = text_of(lambda xs: [fnp.sin(x) + x for x in xs], xs)
    assert many.count(f"@segment_0(ptr %objects) {GLUE} {{") == 1
    assert many.count(GLUE) == 1
    few = text_of(lambda xs: [fnp.sin(x) + x for x in xs], xs[:2])
    assert GLUE not in few


def test_loops_around_small_products_are_optimised():
    def f(x, y):
        return fnp.tanh(x @ y) * 2

    def part(*sizes):
        text = text_of(f, *[np.ones(size, "f4") for size in sizes])
        return re.search(r"@part_0\([^)]*\) ([^{]*) {", text)[1]

    assert part((256, 128), (128, 64)) == GLUE
    assert part((4, 64, 96), (4, 96, 32)) == "noinline"
