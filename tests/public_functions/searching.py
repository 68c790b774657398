"""Cases of questions about arrays: what holds, where, and how often."""

import numpy
from support.run_on_device import beside

from functensor.primitives.core.test_samples import DISTINCT, INTEGER, LOGICAL, POSITIVE, Domain

from .harness import Case, Operand

FLAT = {"smooth": False}
SIZED = {"smooth": False, "static": True}
COUNTS = Domain(0, 4, kind="i")
EDGES = numpy.array([-1.0, 0.0, 1.5])
BAD = numpy.array([numpy.nan, numpy.inf, 0.0])


def ints(*shape):
    return Operand(shape, INTEGER)


CASES = [
    Case("numpy.allclose", lambda np, x: np.allclose(x, x + 1e-9), (3,), **FLAT),
    Case("numpy.allclose", lambda np, x, y: np.allclose(x, y), (3,), (3,), **FLAT),
    Case("numpy.array_equal", lambda np, x: np.array_equal(x, x), (3,), **FLAT),
    Case("numpy.array_equiv", lambda np, x, y: np.array_equiv(x, y), (3,), (1, 3), **FLAT),
    Case("numpy.isclose", lambda np, x, y: np.isclose(x, y, atol=1.0), (2, 3), (3,), **FLAT),
    Case("numpy.iscomplex", lambda np, x: np.iscomplex(x), (3,), dtypes="fdD", **FLAT),
    Case("numpy.isreal", lambda np, x: np.isreal(x), (3,), dtypes="fdD", **FLAT),
    Case("numpy.isneginf", lambda np, x: np.isneginf(x + np.asarray(BAD)), (3,), **FLAT),
    Case("numpy.isposinf", lambda np, x: np.isposinf(x + np.asarray(BAD)), (3,), **FLAT),
    Case("numpy.nan_to_num", lambda np, x: np.nan_to_num(x, nan=1.0), (2, 3), dtypes="fdD"),
    Case(
        "numpy.select",
        lambda np, c, x, y: np.select([c, ~c], [x, y]),
        Operand((3,), LOGICAL),
        (2, 3),
        (2, 3),
    ),
    Case("numpy.bincount", lambda np, i: np.bincount(i), Operand((6,), COUNTS), **SIZED),
    Case(
        "numpy.bincount",
        lambda np, i, w: np.bincount(i, w, **({} if np is numpy else {"length": 5})),
        Operand((6,), COUNTS),
        (6,),
        reference=lambda i, w: numpy.bincount(i, w, 5),
        dtypes="d",
    ),
    Case("numpy.digitize", lambda np, x: np.digitize(x, beside(x, EDGES)), (2, 3), **FLAT),
    Case("numpy.searchsorted", lambda np, x: np.searchsorted(beside(x, EDGES), x), (2, 3), **FLAT),
    Case(
        "numpy.searchsorted",
        lambda np, a, x: np.searchsorted(np.sort(a), x, side="right"),
        (4,),
        (3,),
        **FLAT,
    ),
    Case("numpy.argwhere", lambda np, x: np.argwhere(x > 0), (2, 3), **SIZED),
    Case("numpy.flatnonzero", lambda np, x: np.flatnonzero(x > 0), (2, 3), **SIZED),
    Case("numpy.nonzero", lambda np, x: np.nonzero(x > 0), (2, 3), **SIZED),
    Case(
        "numpy.unique",
        lambda np, x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
        ints(3, 4),
        **SIZED,
    ),
    Case("numpy.linspace", lambda np, x, y: np.linspace(x, y, 4), (2,), (), dtypes="d"),
    Case(
        "numpy.linspace",
        lambda np, x, y: np.linspace(x, y, 3, endpoint=False, retstep=True, axis=-1),
        (2,),
        (2,),
        dtypes="d",
    ),
    Case("numpy.logspace", lambda np, x, y: np.logspace(x, y, 4), (), (2,), dtypes="d"),
    Case(
        "numpy.geomspace",
        lambda np, x, y: np.geomspace(x, y, 4),
        (2,),
        (2,),
        dtypes="d",
        domain=POSITIVE,
    ),
    Case("numpy.max", lambda np, x: np.max(x, axis=-1), (2, 3), domain=DISTINCT),
]
