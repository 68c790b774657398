"""Elements and slices of arrays that were sliced or joined."""

import numpy
import pytest
from support.pass_cases import operations

import functensor as ft
import functensor.numpy as np
from functensor.passes.pipeline import optimized

RNG = numpy.random.default_rng(0)
ROWS, COLUMNS = RNG.integers(-3, 3, (2, 4)), RNG.integers(-5, 5, 4)
A, B = RNG.normal(size=(3, 5)), RNG.normal(size=(2, 5))
BATCH = RNG.normal(size=(4, 3, 6))


def simplified(f, *args, wanted):
    """Asserts that a function's program has some operations once simplified, and the same bits."""
    program = ft.make_program(f)(*args)
    less = optimized(program)
    assert operations(less) == wanted
    for x, y in zip(less(*args), program(*args), strict=True):
        assert x.dtype == y.dtype
        numpy.testing.assert_array_equal(x, y)


GATHERED = {
    "whole": (lambda x: x[ROWS, COLUMNS], A),
    "columns": (lambda x: x[:, 1:][ROWS, COLUMNS % 4], A),
    "backwards": (lambda x: x[::-1, ::2][ROWS, COLUMNS % 3], A),
    "one of a batch": (lambda x: x[2, :, 1:][ROWS, COLUMNS], BATCH),
    "three axes": (lambda x: x[ROWS, COLUMNS % 3, ROWS + 1], BATCH),
    "unsigned": (lambda x: x[abs(ROWS).astype("uint8") % 3, COLUMNS], A),
    "one row": (lambda x: x[numpy.array(-1), COLUMNS], A),
}


@pytest.mark.parametrize("name", GATHERED)
def test_constant_index_arrays_become_one(name):
    f, x = GATHERED[name]
    simplified(f, x, wanted=["reshape", "index"])


def test_other_gathers_stay():
    for f, x, wanted in (
        (lambda x: x[ROWS], A, ["index"]),
        (lambda x: x[ROWS, :, COLUMNS % 6], BATCH, ["index"]),
        (lambda x: x[ROWS, COLUMNS % 3], BATCH, ["index"]),
        (lambda x: x[abs(ROWS).astype("uint64") % 3, COLUMNS], A, ["index"]),
        (lambda x: x[None][ROWS % 1, ROWS, COLUMNS], A, None),
    ):
        simplified(f, x, wanted=wanted or operations(optimized(ft.make_program(f)(x))))
    indexed = ft.make_program(lambda x, i: x[i, COLUMNS])(A, ROWS)
    assert operations(optimized(indexed)) == ["index"]


PARTS = {
    "the second": (lambda x, y: np.concatenate([x, y])[3:], ["stop"]),
    "of the first": (lambda x, y: np.concatenate([x, y])[1:3], ["index"]),
    "of the last, negative": (lambda x, y: np.concatenate([x, y])[-1:], ["index"]),
    "a row": (lambda x, y: np.concatenate([x, y])[4], ["index"]),
    "other axes": (lambda x, y: np.concatenate([x, y])[3:5, ::2], ["index"]),
    "columns": (lambda x, y: np.concatenate([x[:2], y], 1)[:, 6:8], ["index"]),
    "of both": (lambda x, y: np.concatenate([x, y])[2:4], ["concatenate", "index"]),
    "every other": (lambda x, y: np.concatenate([x, y])[::2], ["concatenate", "index"]),
    "of another dtype": (
        lambda x, y: np.concatenate([x.astype("float32"), y])[:3],
        ["astype", "concatenate", "index"],
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_slices_of_joined_arrays_are_those_of_their_parts(name):
    f, wanted = PARTS[name]
    simplified(f, A, B, wanted=[] if wanted == ["stop"] else wanted)
