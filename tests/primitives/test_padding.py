"""Arrays extended by what is computed of them, and what cannot be."""

import numpy as np
import pytest
from support.numpy_cases import same

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ShapeError

RNG = np.random.default_rng(5)
X = RNG.integers(-9, 9, (3, 4))
OPTIONS = {
    "maximum": [{}, {"stat_length": 2}],
    "mean": [{}, {"stat_length": (1, 3)}, {"stat_length": 99}],
    "median": [{}, {"stat_length": [(2, 3), (1, 2)]}],
    "minimum": [{}, {"stat_length": np.array([2, 1])}],
    "linear_ramp": [{}, {"end_values": 5}, {"end_values": [(1, 2), (3, -4)]}],
    "constant": [{}, {"constant_values": (7, 8)}],
    "edge": [{}],
    "empty": [],
}
CASES = [(mode, options) for mode in OPTIONS for options in OPTIONS[mode]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "complex128"])
@pytest.mark.parametrize(("mode", "options"), CASES)
def test_modes_are_those_of_numpy(mode, options, dtype):
    x = (X > 0) if dtype == "bool" else X.astype(dtype)
    if dtype == "bool" and mode == "linear_ramp":
        return  # NumPy subtracts no booleans
    for width in (2, (0, 3), [(1, 0), (4, 2)], {1: (1, 2)}):
        same(fnp.pad(x, width, mode, **options), np.pad(x, width, mode, **options))


def test_end_values_have_derivatives():
    def total(x, end):
        return fnp.sum(fnp.pad(x, (2, 1), "linear_ramp", end_values=(end, 2 * end)))

    by_x, by_end = ft.grad(total, argnums=(0, 1))(np.array([1.0, 2.0]), 3.0)
    same(by_x, np.array([1.5, 1.0]))
    assert float(by_end) == pytest.approx(1.5 + 2.0)


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        ("mirror", {}, "pad: mode 'mirror' is none of constant, edge, empty, linear_ramp"),
        ("edge", {"constant_values": 1}, "constant_values is not offered for mode 'edge'"),
        ("wrap", {"reflect_type": "odd"}, "reflect_type is not offered for mode 'wrap'"),
        ("mean", {"end_values": 1}, "end_values is not offered for mode 'mean'"),
        ("mean", {"stat_length": 0}, "stat_length=0, but mode 'mean' takes one element"),
        ("median", {"stat_length": [1, 2, 3]}, "stat_length .* are not one pair"),
        ("linear_ramp", {"end_values": [(1, 2)] * 3}, "end_values .* are not one pair"),
    ],
)
def test_what_is_refused(mode, options, words):
    with pytest.raises(ValueError, match=words):
        fnp.pad(X, 1, mode, **options)


@pytest.mark.parametrize("mode", ["mean", "maximum", "linear_ramp", "edge"])
def test_nothing_cannot_be_extended(mode):
    with pytest.raises(ValueError, match="empty"):
        fnp.pad(np.zeros((0, 2)), 1, mode)
    same(fnp.pad(np.zeros((0, 2)), [(0, 0), (1, 1)], "edge"), np.zeros((0, 4)))


def test_triangles_of_rows():
    for k in (-1, 0, 2):
        same(fnp.tril(X[0], k), np.tril(X[0], k))
        same(fnp.triu([1.0, 2.0], k), np.triu([1.0, 2.0], k))
    same(ft.grad(lambda x: fnp.tril(x).sum())(X[0].astype(float)), np.arange(4.0, 0, -1))
    with pytest.raises(ShapeError, match="tril: a number has no axes"):
        fnp.tril(2.0)
