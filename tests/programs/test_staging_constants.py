"""Staging computes no large constants: programs do, and Python if it asks for the values."""

import threading
import tracemalloc
from functools import partial

import numpy
import pytest
from support.counted import memory_traced

import functensor as ft
import functensor.numpy as np
from functensor.primitives import registry
from functensor.primitives.core.shape_dtype import CONSTANT_BYTES

RNG = numpy.random.default_rng(0)
BIG = np.asarray(RNG.normal(size=(150, 150)))
ROWS = np.asarray(RNG.normal(size=(40, 500)))


class Counter:
    """Counts how often a primitive is computed, while it is in a ``with`` statement."""

    def __init__(self, monkeypatch, name="matmul"):
        self.number = 0
        primitive = registry[name]
        compute = primitive.impl

        def counted(*buffers, **params):
            # Types are inferred by computing with next to nothing.
            self.number += buffers[0].size > 9
            return compute(*buffers, **params)

        monkeypatch.setattr(primitive, "impl", counted)


@pytest.fixture
def products(monkeypatch):
    return Counter(monkeypatch, "cumsum")


def product(x):
    """Is computed by a primitive that nothing replaces by another one."""
    return np.cumsum(x @ x, axis=0)


# -- nothing is allocated


def huge(x, side=10**6):
    n = side**2
    a, b = np.ones(n), np.zeros((side, side), "float32")
    c, d = np.arange(n), np.linspace(0, 1, n)
    e, t, g = np.eye(side), np.tri(side, dtype=bool), np.full(n, 3)
    k = ft.random.normal(ft.random.key(0), (side, side))
    x = x * np.mean(c)
    s = np.sum(a + 1) + np.sum(b) + np.sum(c) * d[3] + e[0, 0] + t[2, 2] + g[5] + np.sum(k)
    return x + s + np.sum(np.geomspace(1, 2, n)) + np.sum(np.logspace(1, 2, n)), a, b, c * 2, e


def peak(function):
    with memory_traced():
        out = function()
        return out, tracemalloc.get_traced_memory()[1]


def test_shapes_of_huge_arrays_take_no_memory():
    out, memory = peak(lambda: ft.eval_shape(huge, 1.0))
    assert [str(x) for x in out] == [
        "float64[]",
        "float64[1000000000000]",
        "float32[1000000,1000000]",
        "int64[1000000000000]",
        "float64[1000000,1000000]",
    ]
    assert memory < 4 << 20


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (lambda f: lambda x: f(x)[0], 1.0),
        (lambda f: ft.grad(lambda x: f(x)[0]), 1.0),
        (lambda f: ft.vmap(lambda x: f(x)[0]), numpy.ones(3)),
        (lambda f: lambda x: ft.jvp(lambda x: f(x)[0], (x,), (1.0,)), 1.0),
        (lambda f: lambda x: ft.jit(lambda x: f(x)[0])(x), 1.0),
        (lambda f: lambda x: ft.cond(x > 0, lambda x: f(x)[0], lambda x: x, x), 1.0),
        (lambda f: lambda x: ft.checkpoint(lambda x: f(x)[0])(x), 1.0),
        (lambda f: lambda x: ft.scan(lambda c, _: (f(c)[0], None), x, length=3)[0], 1.0),
    ],
    ids=["plain", "grad", "vmap", "jvp", "jit", "cond", "checkpoint", "scan"],
)
def test_programs_of_huge_arrays_take_no_memory(change, argument):
    program, memory = peak(lambda: ft.make_program(change(partial(huge, side=30000)))(argument))
    assert program.equations
    assert memory < 16 << 20


def test_lowering_takes_no_memory():
    def f(x):
        return x + np.sum(np.ones((10**5, 10**4)) * 2) + np.sum(np.arange(10**9))

    lowered, memory = peak(lambda: ft.jit(f).lower(1.0))
    assert "arange" in lowered.source
    assert lowered.cost().peak > 8 * 10**9
    assert memory < 64 << 20


# -- values, and when they are computed


def test_a_large_constant_is_computed_in_every_run_and_not_before(products):
    f = ft.jit(lambda x: np.sum(product(BIG)) * x)
    lowered = f.lower(2.0)
    assert products.number == 0
    assert [e.primitive.name for e in lowered.program.equations][:2] == ["matmul", "cumsum"]
    expected = 2 * numpy.cumsum(numpy.asarray(BIG) @ numpy.asarray(BIG), axis=0).sum()
    for run in (1, 2, 3):
        assert abs(f(2.0) - expected) < 1e-9 * abs(expected)
        assert products.number == run


def test_small_constants_are_computed_once(monkeypatch):
    small = np.asarray(RNG.normal(size=(4, 4)))
    counter = Counter(monkeypatch, "cumsum")
    f = ft.jit(lambda x: np.sum(product(small)) * x)
    program = f.lower(2.0).program
    assert counter.number == 1
    assert [e.primitive.name for e in program.equations] == ["multiply"]
    f(2.0), f(3.0)
    assert counter.number == 1


@pytest.mark.parametrize("extra", [0, 1])
def test_the_limit_is_one_number_of_bytes(extra):
    x = numpy.ones(CONSTANT_BYTES // 8 + extra)
    program = ft.make_program(lambda y: np.sum(np.sin(x)) + y)(1.0)
    assert len(program.equations) == (3 if extra else 1)
    assert len(ft.jit(lambda y: np.sum(np.sin(x)) + y).lower(1.0).optimized.equations) <= 3


# -- Python asks


def test_python_branches_on_a_value_and_computes_it_once(products):
    met = []

    @ft.jit
    def f(x):
        y = product(BIG)
        met.extend(bool(np.sum(y) > 0) for _ in range(3))
        return x + np.shape(y)[0] if met[0] else x

    expected = bool(numpy.cumsum(numpy.asarray(BIG) @ numpy.asarray(BIG), axis=0).sum() > 0)
    program = f.lower(1.0).program
    assert met == [expected] * 3
    assert products.number == 1
    assert "cumsum" not in str(program)
    assert f(1.0) == (151.0 if expected else 1.0)
    assert products.number == 1


def test_what_python_can_ask_for():
    seen = {}

    @ft.jit
    def f(x):
        y = BIG @ BIG
        seen["float"] = float(y[0, 0]), y[0, 0].item(), complex(y[0, 0])
        seen["array"] = numpy.asarray(y)
        seen["int"] = int(np.argmax(y)), range(20)[np.argmax(y) % 20]
        seen["list"] = np.sum(y, axis=0).tolist()
        seen["format"] = f"{np.sum(y):.3f}"
        seen["value"] = ft.value(y)
        seen["nonzero"] = np.flatnonzero(y[0] > 0).shape
        seen["repr"] = repr(y)
        return x * np.sum(y[y > 1])

    f(1.0)
    # Threads of BLAS, which NumPy's own product has, may round otherwise.
    y = numpy.asarray(BIG @ BIG)
    assert seen["float"] == (y[0, 0], y[0, 0], complex(y[0, 0]))
    assert numpy.array_equal(seen["array"], y)
    assert not seen["array"].flags.writeable
    assert seen["int"] == (y.argmax(), y.argmax() % 20)
    assert numpy.allclose(seen["list"], y.sum(0))
    assert seen["format"] == f"{numpy.sum(y):.3f}"
    assert type(seen["value"]) is type(BIG)
    assert numpy.array_equal(seen["value"], y)
    assert seen["nonzero"] == ((y[0] > 0).sum(),)
    assert seen["repr"].startswith("KnownTracer<float64[150,150]")


def test_no_derivative_is_lost_silently():
    def f(x):
        y = x * np.sum(BIG @ BIG)
        return float(y)

    with pytest.raises(ft.errors.ConcretizationError) as caught:
        ft.jit(ft.grad(f))(1.0)
    # It would get lost if the argument were static.
    assert "static" not in str(caught.value)

    def outer(x):
        return ft.jit(lambda z: z * float(x * np.sum(BIG @ BIG)))(1.0)

    with pytest.raises(ft.errors.TracerConversionError):
        ft.grad(outer)(2.0)


def test_values_of_outer_transformations_stay_theirs():
    def f(x):
        # The product is of the inner program, x of the outer level.
        inner = ft.jit(lambda z: z + 1 if x * np.sum(product(BIG)) > 0 else z - 1)
        return inner(x) * x

    sign = 1.0 if numpy.sum(numpy.asarray(product(BIG))) > 0 else -1.0
    assert ft.grad(f)(2.0) == 2 * 2.0 + sign
    with pytest.raises(ft.errors.ConcretizationError):
        ft.vmap(f)(numpy.ones(3))


def test_a_condition_that_would_have_to_be_computed_is_left_to_the_run(products):
    f = ft.jit(lambda x: ft.cond(np.sum(product(BIG)) > 0, np.sin, np.cos, x))
    names = [e.primitive.name for e in f.lower(1.0).program.equations]
    assert products.number == 0
    assert names[-1] == "cond"


def test_loops_of_constants_are_left_to_the_run():
    def f(x):
        total = ft.while_loop(lambda c: c < 1e7, lambda c: c + 1.0, 0.0)
        return x + total

    program = ft.make_program(f)(1.0)
    assert [e.primitive.name for e in program.equations] == ["while_loop", "add"]


def test_a_value_that_is_kept_for_later_is_a_constant_then():
    kept = []

    @ft.jit
    def f(x):
        if not kept:
            kept.append(np.tril(np.ones((200, 200))) @ np.ones((200, 1)))
        return np.sum(kept[0]) * x

    assert f(2.0) == 200 * 201.0
    assert f(numpy.float32(2.0)) == 200 * 201.0
    assert numpy.allclose(kept[0] + 1, numpy.arange(2.0, 202.0)[:, None])
    assert ft.grad(lambda x: np.sum(kept[0] * x))(1.0) == 100 * 201.0
    assert ft.jit(lambda y: np.sum(y))(kept[0]) == 100 * 201.0


# -- randomness, errors, threads, writing


def test_draws_of_constant_keys_are_those_of_evaluation():
    def f(x):
        key = ft.random.key(7)
        a, b = ft.random.split(key)
        large = ft.random.normal(a, (300, 200))
        return large * x, ft.random.uniform(b, (5,)), ft.random.permutation(b, 20000)

    for got, wanted in zip(ft.jit(f)(1.0), f(1.0), strict=True):
        assert numpy.array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_an_error_in_a_run_tells_the_line():
    places = np.asarray(numpy.full(20000, 150))

    def f(x):
        return x * np.sum(BIG[places])  # the line

    g = ft.jit(f)
    g.lower(1.0)
    with pytest.raises(IndexError) as caught:
        g(1.0)
    assert any("test_staging_constants.py" in note for note in caught.value.__notes__)

    def asking(x):
        y = np.sum(BIG[places])  # the line
        return x if y > 0 else -x

    with pytest.raises(IndexError) as caught:
        ft.jit(asking)(1.0)
    (note,) = caught.value.__notes__
    first = asking.__code__.co_firstlineno
    assert f"test_staging_constants.py:{first + 1}\n  fix: an index from -150 to 149" in note
    assert "index of asking" in note


def test_shapes_that_do_not_fit_are_refused_while_staging():
    with pytest.raises(ft.errors.ShapeError, match="matmul"):
        ft.make_program(lambda x: x + BIG @ ROWS)(1.0)


def test_eight_threads_stage_and_run():
    wanted = float(np.sum(np.tanh(product(BIG) / 100) * 1.5))
    results, errors = [], []

    def asking(x):
        return 1.0 if np.sum(BIG @ BIG) > -1e9 else x

    def work():
        try:
            g = ft.jit(lambda x: asking(x) * np.sum(np.tanh(product(BIG) / 100) * x))
            results.extend(float(g(1.5)) for _ in range(3))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(results) == 24
    assert numpy.allclose(results, wanted)


def test_plans_write_into_no_constant():
    before = numpy.array(BIG)
    rows = numpy.array(ROWS)

    @ft.jit
    def f(x):
        y = np.transpose(BIG) + 1.0
        z = np.flip(BIG, 0).at[0].set(x) * np.exp(y)
        w = np.broadcast_to(ROWS[:1], (300, 500)) * 2.0 + x
        return z, w, BIG.reshape(-1), np.ones((200, 200)), ROWS.T

    for x in (1.0, 2.0):
        z, w, flat, ones, turned = f(x)
        assert numpy.array_equal(BIG, before)
        assert numpy.array_equal(ROWS, rows)
        assert numpy.array_equal(flat, before.reshape(-1))
        assert numpy.array_equal(ones, numpy.ones((200, 200)))
        assert numpy.array_equal(turned, rows.T)
        assert numpy.allclose(w, rows[:1] * 2 + numpy.full((300, 1), x))
        flipped = before[::-1].copy()
        flipped[0] = x
        assert numpy.allclose(z, flipped * numpy.exp(before.T + 1))


def test_donation_takes_no_constant():
    f = ft.jit(lambda x: (np.sin(BIG) + x, np.cumsum(BIG, 0) * x), donate_argnums=0)
    before = numpy.array(BIG)
    for _ in range(2):
        x = np.asarray(numpy.ones((150, 150)))
        a, b = f(x)
        assert numpy.array_equal(BIG, before)
        assert numpy.allclose(a, numpy.sin(before) + 1)
        assert numpy.allclose(b, numpy.cumsum(before, 0))


def test_equal_constants_are_computed_once_in_a_run(products):
    f = ft.jit(lambda x: np.sum(product(BIG)) * x + np.max(product(BIG)))
    f(1.0)
    assert products.number == 1
