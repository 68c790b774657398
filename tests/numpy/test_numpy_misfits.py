"""Shapes that do not fit raise one error, which says how to call the function."""

import re

import numpy as np
import pytest

import functensor.numpy as fnp
from functensor.primitives.core.errors import ShapeError

V, M, T = np.arange(3.0), np.ones((2, 3)), np.ones((2, 2, 3))
MASK = np.array([True, False, True])
CALLS = {
    "vsplit": lambda: fnp.vsplit(V, 1),
    "hsplit": lambda: fnp.hsplit(1.0, 1),
    "dsplit": lambda: fnp.dsplit(M, 1),
    "matrix_transpose": lambda: fnp.matrix_transpose(V),
    "ix_": lambda: fnp.ix_([[0, 1]]),
    "average, of one axis": lambda: fnp.average(M, 0, weights=V),
    "average": lambda: fnp.average(M, weights=V[:2]),
    "bincount": lambda: fnp.bincount([[1]]),
    "bincount, weights": lambda: fnp.bincount([1, 2], V),
    "nonzero": lambda: fnp.nonzero(1.0),
    "searchsorted": lambda: fnp.searchsorted(M, 1.0),
    "digitize": lambda: fnp.digitize(1.0, M),
    "convolve": lambda: fnp.convolve(M, V),
    "correlate, empty": lambda: fnp.correlate(V, V[:0]),
    "gradient, short": lambda: fnp.gradient([1.0]),
    "gradient": lambda: fnp.gradient(V, V[:2]),
    "quantile": lambda: fnp.quantile(V, 0.5, weights=V[:2], method="inverted_cdf"),
    "roots": lambda: fnp.roots(M),
    "vander": lambda: fnp.vander(M),
    "polyint": lambda: fnp.polyint(V, 3, k=[1.0, 2.0]),
    "poly": lambda: fnp.poly(M),
    "fill_diagonal": lambda: fnp.fill_diagonal(V, 1.0, inplace=False),
    "fill_diagonal, three axes": lambda: fnp.fill_diagonal(T, 1.0, inplace=False),
    "tril_indices_from": lambda: fnp.tril_indices_from(V),
    "diag_indices_from": lambda: fnp.diag_indices_from(M),
    "cov": lambda: fnp.cov(T),
    "cov, weights": lambda: fnp.cov(M, fweights=[1, 2]),
    "apply_over_axes": lambda: fnp.apply_over_axes(lambda x, i: V, T, 0),
    "vectorize": lambda: fnp.vectorize(fnp.dot, signature="(n),(n)->()")(V, V[:2]),
    "vectorize, few axes": lambda: fnp.vectorize(fnp.dot, signature="(n),(n)->()")(V, 1.0),
    "vectorize, result": lambda: fnp.vectorize(lambda x: x, signature="(n)->()")(V),
    "histogram, edges": lambda: fnp.histogram(V, M),
    "histogram": lambda: fnp.histogram(V, weights=V[:2]),
    "histogramdd": lambda: fnp.histogramdd(np.ones((2, 1)), 2, weights=V),
    "histogram2d": lambda: fnp.histogram2d(V, V[:2]),
    "lexsort": lambda: fnp.lexsort([V, V[:2]]),
    "compress": lambda: fnp.compress(MASK, V[:2]),
    "extract": lambda: fnp.extract(MASK, V[:2]),
    "interp": lambda: fnp.interp(1.0, V, V[:2]),
    "cross": lambda: fnp.cross(V[:1], V),
}


@pytest.mark.parametrize("name", CALLS)
def test_shapes_that_do_not_fit(name):
    with pytest.raises(ShapeError) as caught:
        CALLS[name]()
    lines = str(caught.value).split("\n")
    assert lines[0].startswith(name.split(",")[0]), lines
    assert re.search(r"test_numpy_misfits\.py:\d+$", lines[1])
    assert lines[-2].startswith("  fix: ")
    assert lines[-1] == "  see python -m functensor.errors 16"
