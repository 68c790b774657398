"""Values that machine code adds to arrays at index arrays, outside of loops."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.testing import assert_allclose

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

RNG = np.random.default_rng(0)
PLACES = RNG.integers(-7, 7, (4, 5))
SHORT = np.array([0, 6, 6, 2, -7], np.int32)
TABLE, CUBE = RNG.normal(size=(7, 3)), RNG.normal(size=(2, 7, 7))
# A weight for each value, so that values that are mixed up make a difference.
LONG = RNG.normal(size=(4, 5, 7, 7))


def weighed(x):
    return fnp.sum(fnp.sin(x) * LONG.reshape(-1)[: x.size].reshape(x.shape))


SLOPES = {
    "rows": (TABLE, lambda x: weighed(x[PLACES])),
    "numbers": (TABLE[:, 0], lambda x: weighed(x[PLACES])),
    "elements": (TABLE, lambda x: weighed(x[SHORT, np.array([2, 0, 0, 1, 2])])),
    "columns": (CUBE, lambda x: weighed(x[:, SHORT])),
    "the last axis": (CUBE, lambda x: weighed(x[..., SHORT])),
    "pairs of places that broadcast": (CUBE, lambda x: weighed(x[:, SHORT[:, None], SHORT])),
    "a slice between": (CUBE, lambda x: weighed(x[np.array([1, 0, 1]), ::2, SHORT[:3]])),
    "an axis of one": (CUBE, lambda x: weighed(x[:, None, SHORT, 1:3])),
    "computed places": (TABLE, lambda x: weighed(x[fnp.argsort(x[:, 0])])),
    "of two readers": (TABLE, lambda x: weighed(x[PLACES]) + weighed(x[SHORT])),
    "unsigned places": (TABLE, lambda x: weighed(x[np.array([6, 0, 6], np.uint8)])),
}


def calls_of_numpy(jitted):
    """Returns the lines of a plan that call NumPy's functions for what is added at places."""
    text = jitted._last.compiled.run.source.partition("\n\n")[0]
    return [line for line in text.splitlines() if "scatter_add(" in line or "index_" in line]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SLOPES)
def test_gradients_of_reads(name, dtype):
    x, loss = SLOPES[name]
    x = x.astype(dtype)
    jitted = ft.jit(ft.grad(loss)).compile(x)
    got, wanted = jitted(x), ft.grad(loss)(x)
    assert got.dtype == wanted.dtype
    assert_allclose(got, wanted, rtol=1e-5 if dtype == "float32" else 1e-12)
    if name != "of two readers":
        assert not calls_of_numpy(jitted)


UPDATES = {
    "add": lambda x, v: x.at[PLACES].add(v),
    "add numbers": lambda x, v: x.at[SHORT, 1].add(3),
    "set": lambda x, v: x.at[SHORT].set(v[0, 0]),
    "max": lambda x, v: x.at[PLACES, :2].max(v[..., :2]),
    "min": lambda x, v: x.at[PLACES].min(v),
    "multiply": lambda x, v: x.at[SHORT].multiply(v[0]),
    "add to zeros": lambda x, v: fnp.zeros_like(x).at[PLACES].add(v),
    "one behind the other": lambda x, v: x.at[SHORT].add(v[0]).at[PLACES].multiply(v),
}


DTYPES = ["float32", "float64", "complex64", "int16", "int64", "uint8"]
# Complex numbers have no largest one.
KINDS = [(n, d) for n in UPDATES for d in DTYPES if d != "complex64" or n not in ("max", "min")]


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_updates(name, dtype):
    update = UPDATES[name]
    x, v = (TABLE * 9).astype(dtype), (RNG.normal(size=(4, 5, 3)) * 9).astype(dtype)
    if dtype == "complex64":
        v = v * np.complex64(1 + 2j)
    jitted = ft.jit(update).compile(x, v)
    got, wanted = jitted(x, v), update(fnp.asarray(x), fnp.asarray(v))
    assert got.dtype == wanted.dtype
    assert_allclose(got, wanted, rtol=1e-5)


def test_short_floats_are_updated():
    x, v = TABLE.astype(np.float16), np.ones((5, 3), np.float16)

    def update(x, v):
        return x.at[SHORT].add(v), x.at[SHORT].set(v)

    for got, wanted in zip(ft.jit(update).compile(x, v)(x, v), update(fnp.asarray(x), v)):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


def test_a_wrong_place_is_an_error_with_the_line_and_the_next_call_is_right():
    def update(x, places):
        return fnp.sin(x).at[places].add(1.0) * 2  # the line

    fine = np.array([0, -7, 6])
    jitted = ft.jit(update).compile(TABLE, fine)
    assert not calls_of_numpy(jitted)
    for wrong, word in ((7, "7"), (-8, "-8")):
        with pytest.raises(IndexError, match=f"index {word} is out of bounds") as error:
            jitted(TABLE, np.array([0, wrong, 2]))
        line = update.__code__.co_firstlineno + 1
        assert f"test_native_scatters.py:{line}" in str(error.value) + str(error.value.__notes__)
    assert_allclose(jitted(TABLE, fine), update(fnp.asarray(TABLE), fine))


def test_operands_keep_their_values():
    x = np.arange(21.0).reshape(7, 3)
    jitted = ft.jit(lambda x: (x.at[SHORT].add(1.0), x * 2)).compile(x)
    first, second = jitted(x)
    np.testing.assert_array_equal(x, np.arange(21.0).reshape(7, 3))
    np.testing.assert_array_equal(np.asarray(second), x * 2)
    assert float(first[6, 0]) == 20.0


def test_an_embedding_is_trained_in_the_memory_that_is_given_away():
    def step(table, places):
        slope = ft.grad(lambda table: fnp.sum(fnp.tanh(table[places]) ** 2))(table)
        return table - 0.1 * slope

    places = RNG.integers(0, 50, 64)
    table = RNG.normal(size=(50, 8))
    jitted = ft.jit(step, donate_argnums=0).compile(fnp.asarray(table.copy()), places)
    given = fnp.asarray(table.copy())
    address = np.asarray(given).ctypes.data
    got = jitted(given, places)
    assert np.asarray(got).ctypes.data == address
    assert_allclose(got, step(fnp.asarray(table), places))


def test_no_places_and_no_elements():
    none = np.zeros(0, np.int64)
    assert_allclose(ft.jit(lambda x: x.at[none].add(1.0)).compile(TABLE)(TABLE), TABLE)
    slope = ft.grad(lambda x: fnp.sum(fnp.sin(x[none])))
    assert_allclose(ft.jit(slope).compile(TABLE)(TABLE), np.zeros_like(TABLE))
    empty = np.zeros((7, 0))
    slope = ft.grad(lambda x: fnp.sum(fnp.sin(x[SHORT])))
    assert ft.jit(slope).compile(empty)(empty).shape == (7, 0)


UNREAD = {
    "rows": lambda x, i: fnp.sum(x[i]),
    "numbers": lambda x, i: 2 * fnp.sum(x[:, 0][i]),
    "elements": lambda x, i: fnp.sum(x[i, fnp.zeros_like(i)]),
    "a single one": lambda x, i: fnp.sum(x[i[0]] * 2),
    "take": lambda x, i: fnp.sum(fnp.take(x, i, axis=0)),
    "in a loop": lambda x, i: ft.scan(lambda s, j: (s + fnp.sum(x[j]), None), 0.0, i)[0],
}


@pytest.mark.parametrize("wrong", [7, -8])
@pytest.mark.parametrize("name", UNREAD)
def test_gradients_of_reads_out_of_bounds_whose_values_nothing_needs(name, wrong):
    jitted = ft.jit(ft.grad(UNREAD[name]))
    for places in (SHORT, np.array([wrong, 1, 6, 2, -7], np.int32)):
        for _ in range(2):
            if places is SHORT:
                assert_allclose(jitted(TABLE, places), ft.grad(UNREAD[name])(TABLE, places))
            else:
                with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0"):
                    jitted(TABLE, places)
            jitted.compile(TABLE, places)


def test_constant_places_are_tested_by_staging_alone():
    def loss(x, y):
        return fnp.sum(x[np.array([1, 2, 2])] * y)

    program = ft.make_program(ft.grad(loss))(TABLE, TABLE[:3])
    assert [e.primitive.name for e in program.equations] == ["multiply", "scatter_add"]
    with pytest.raises(IndexError, match="out of bounds"):
        ft.make_program(ft.grad(lambda x: fnp.sum(x[np.array([1, 7])])))(TABLE)
