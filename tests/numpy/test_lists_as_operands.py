"""Lists as operands beside arrays, which come to lie where those are."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.testing import assert_allclose

# Functions of two operands, of which either may be a list.
PAIRS = {
    "add": np.add,
    "allclose": np.allclose,
    "append": np.append,
    "array_equal": np.array_equal,
    "array_equiv": np.array_equiv,
    "average": lambda a, b: np.average(a, weights=b),
    "clip": lambda a, b: np.clip(a, 0.0, b),
    "concatenate": lambda a, b: np.concatenate([a, b]),
    "convolve": np.convolve,
    "correlate": np.correlate,
    "cov": np.cov,
    "cross": lambda a, b: np.cross(a[:3], b[:3]),
    "diff": lambda a, b: np.diff(a, append=b),
    "digitize": np.digitize,
    "divmod": lambda a, b: np.divmod(a, b)[0],
    "dot": np.dot,
    "ediff1d": np.ediff1d,
    "einsum": lambda a, b: np.einsum("i,i", a, b),
    "float_power": np.float_power,
    "geomspace": lambda a, b: np.geomspace(a, b, 3),
    "gradient": np.gradient,
    "histogram": lambda a, b: np.histogram(a, b)[0],
    "hstack": lambda a, b: np.hstack([a, b, 1.0]),
    "in1d": np.isin,
    "inner": np.inner,
    "insert": lambda a, b: np.insert(a, [0, 1, 2, 3], b),
    "interp": lambda a, b: np.interp(a, b, b),
    "intersect1d": np.intersect1d,
    "isclose": np.isclose,
    "isin": np.isin,
    "kron": np.kron,
    "lexsort": lambda a, b: np.lexsort((a, b)),
    "linspace": lambda a, b: np.linspace(a, b, 3),
    "logspace": lambda a, b: np.logspace(a, b, 3),
    "outer": np.outer,
    "percentile": np.percentile,
    "polyadd": np.polyadd,
    "polyfit": lambda a, b: np.polyfit(a, b, 1),
    "polymul": np.polymul,
    "polyval": np.polyval,
    "searchsorted": np.searchsorted,
    "select": lambda a, b: np.select([[True, False, True, False]], [a], b),
    "setdiff1d": np.setdiff1d,
    "stack": lambda a, b: np.stack([a, b]),
    "tensordot": lambda a, b: np.tensordot(a, b, 1),
    "trapezoid": np.trapezoid,
    "union1d": np.union1d,
    "vdot": np.vdot,
    "vstack": lambda a, b: np.vstack([a, b]),
    "where": lambda a, b: np.where([True, False, True, False], a, b),
}
NUMBERS = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", PAIRS)
def test_lists_go_where_the_other_operand_is(name, device):
    there = ft.to_device(numpy.array(NUMBERS), device)
    wanted = PAIRS[name](np.asarray(NUMBERS), np.asarray(NUMBERS))
    for operands in ((there, NUMBERS), (NUMBERS, there)):
        got = PAIRS[name](*operands)
        assert got.device == device
        assert_allclose(got, wanted, rtol=1e-9)
