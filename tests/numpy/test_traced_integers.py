"""Integers as arguments of public functions, traced: as if they were known, or refused by name."""

from functools import partial
from operator import methodcaller

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.errors import ConcretizationError
from functensor.testing import check_grads

X = numpy.arange(12.0).reshape(3, 4)
V = numpy.array([3.0, 1.0, 2.0, 5.0])
INDEX = numpy.array([0, 2, 1])

CALLS = {
    "roll": lambda s: np.roll(X, s),
    "roll axis": lambda s: np.roll(X, s, 1),
    "roll tuple": lambda s: np.roll(X, (s, 1), (0, 1)),
    "roll axis traced": lambda s: np.roll(X, 1, s),
    "eye k": lambda s: np.eye(3, 4, k=s),
    "tri k": lambda s: np.tri(3, 4, k=s),
    "tril k": lambda s: np.tril(X, s),
    "triu k": lambda s: np.triu(X, s),
    "eye N": lambda s: np.eye(s),
    "insert": lambda s: np.insert(V, s, 9.0),
    "insert axis": lambda s: np.insert(X, s, 9.0, axis=0),
    "insert arr": lambda s: np.insert(V, np.stack([s, s + 1]), np.array([7.0, 8.0])),
    "delete": lambda s: np.delete(V, s),
    "unravel": lambda s: np.unravel_index(INDEX, (s + 1, 4)),
    "ravel_multi": lambda s: np.ravel_multi_index((INDEX, INDEX), (3, s + 3)),
    "take": lambda s: np.take(V, s),
    "diag": lambda s: np.diag(X, s),
    "diagonal": lambda s: np.diagonal(X, s),
    "trace": lambda s: np.trace(X, s),
    "repeat": lambda s: np.repeat(V, s),
    "tile": lambda s: np.tile(V, s),
    "pad": lambda s: np.pad(V, s),
    "sum axis": lambda s: np.sum(X, s),
    "rot90": lambda s: np.rot90(X, s),
    "arange": lambda s: np.arange(s),
    "linspace": lambda s: np.linspace(0, 1, s),
    "diff n": lambda s: np.diff(V, s),
    "swapaxes": lambda s: np.swapaxes(X, 0, s),
    "moveaxis": lambda s: np.moveaxis(X, 0, s),
    "expand": lambda s: np.expand_dims(X, s),
    "reshape": lambda s: np.reshape(X, (s, -1)),
    "split": lambda s: np.split(X, s),
    "array_split": lambda s: np.array_split(X, s),
    "round": lambda s: np.round(V, s),
    "vander": lambda s: np.vander(V, s),
    "polyder": lambda s: np.polyder(V, s),
    "polyint": lambda s: np.polyint(V, s),
    "matrix_power": lambda s: np.linalg.matrix_power(X[:3, :3], s),
    "partition": lambda s: np.partition(V, s),
    "argpartition": lambda s: np.argpartition(V, s),
    "tril_indices": lambda s: np.tril_indices(3, s),
    "zeros": lambda s: np.zeros(s),
    "full": lambda s: np.full(s, 1.0),
    "bincount": lambda s: np.bincount(INDEX, minlength=s),
    "histogram": lambda s: np.histogram(V, s),
    "fft n": lambda s: np.fft.fft(V, s),
    "broadcast_to": lambda s: np.broadcast_to(V, (s, 4)),
    "flip": lambda s: np.flip(X, s),
    "squeeze": lambda s: np.squeeze(X[None], s),
    "stack": lambda s: np.stack([V, V], s),
    "concat": lambda s: np.concatenate([X, X], s),
    "cumsum": lambda s: np.cumsum(X, s),
    "sort": lambda s: np.sort(X, s),
    "argmax": lambda s: np.argmax(X, s),
    "var ddof": lambda s: np.var(V, ddof=s),
    "std corr": lambda s: np.std(V, correction=s),
    "choose": lambda s: np.choose(s, [V, V + 1]),
    "compress": lambda s: np.compress([1, 0, 1], X, s),
    "cross": lambda s: np.cross(X[:, :3], X[:, :3], axis=s),
    "kaiser": lambda s: np.kaiser(s, 1.0),
    "hanning": lambda s: np.hanning(s),
    "resize": lambda s: np.resize(V, s),
    "unwrap": lambda s: np.unwrap(X, axis=s),
    "cov ddof": lambda s: np.cov(X, ddof=s),
    "logspace": lambda s: np.logspace(0, 1, s),
    "packbits": lambda s: np.packbits(INDEX, axis=s),
    "unpackbits": lambda s: np.unpackbits(numpy.array([3], "u1"), count=s),
    "indices": lambda s: np.indices((s,)),
    "identity": lambda s: np.identity(s),
    "fromfunction": lambda s: np.fromfunction(lambda i: i, (s,)),
    "nan_percentile": lambda s: np.nanpercentile(X, 50, axis=s),
    "gradient": lambda s: np.gradient(V, s),
    "gradient axis": lambda s: np.gradient(X, axis=s),
    "tensordot": lambda s: np.tensordot(X, X.T, s),
    "trim": lambda s: np.trim_zeros(V, size=s),
    "unique size": lambda s: np.unique(V, size=s),
    "fftshift": lambda s: np.fft.fftshift(X, s),
    "digitize": lambda s: np.digitize(s, V.cumsum()),
    "ldexp": lambda s: np.ldexp(V, s),
    "rollaxis": lambda s: np.rollaxis(X, s),
    "apply_along": lambda s: np.apply_along_axis(np.sum, s, X),
    "diagflat": lambda s: np.diagflat(V, s),
    "fill_diag": lambda s: np.fill_diagonal(X, s, inplace=False),
    "mask_indices": lambda s: np.mask_indices(3, np.tril, s),
    "view": lambda s: np.stack([s, s]).astype("int64").view("float64"),
    "byteswap": lambda s: (s + 1).byteswap(),
    "iscomplexobj": lambda s: np.iscomplexobj([s]),
    "isrealobj": lambda s: np.isrealobj([s, 1j]),
    "view32": lambda s: np.stack([s, s]).view("float32"),
    "view8": lambda s: np.stack([s, s]).view("int8"),
    "unstack": lambda s: np.unstack(X, axis=s),
    "take axis": lambda s: np.take(X, [0], axis=s),
    "take_along": lambda s: np.take_along_axis(X, INDEX[None] * 0, s),
    "searchsorted": lambda s: np.searchsorted(V, s),
    "size": lambda s: np.size(X, s),
    "norm axis": lambda s: np.linalg.norm(X, axis=s),
    "isclose": lambda s: np.isclose(V, s),
    "blackman": lambda s: np.blackman(s),
    "geomspace": lambda s: np.geomspace(1, 2, s),
    "cumulative_sum": lambda s: np.cumulative_sum(X, axis=s),
    "matrix transp": lambda s: np.permute_dims(X, (s, 0)),
    "ndim": lambda s: np.array(1.0, ndmin=s),
    "tri M": lambda s: np.tri(3, s),
    "empty": lambda s: np.empty((2, s)),
    "nanargmax": lambda s: np.nanargmax(X, s),
    "quantile": lambda s: np.quantile(X, 0.5, s),
    "average": lambda s: np.average(X, s),
    "median": lambda s: np.median(X, s),
    "count_nonzero": lambda s: np.count_nonzero(X, s),
    "put_along": lambda s: np.put_along_axis(X, INDEX[None] * 0, 0.0, s, inplace=False),
    "lexsort": lambda s: np.lexsort((V, V), s),
    "dsplit": lambda s: np.hsplit(X, s),
    "insert axis traced": lambda s: np.insert(X, 1, 0.0, axis=s),
    "delete axis": lambda s: np.delete(X, 1, axis=s),
    "append": lambda s: np.append(X, X, axis=s),
    "trapezoid": lambda s: np.trapezoid(X, axis=s),
    "interp": lambda s: np.interp(s, V.cumsum(), V),
    "polyfit": lambda s: np.polyfit(V.cumsum(), V, s),
    "bits": lambda s: np.left_shift(INDEX, s),
}
# Functions of an integer that is not known.
TRACED = {
    "atleast", "bits", "byteswap", "choose", "delete", "digitize", "eye k",
    "fill_diag", "gradient", "insert", "insert arr", "insert axis", "interp", "iscomplexobj",
    "isclose", "isrealobj", "ldexp", "ravel_multi", "roll", "roll axis", "roll tuple",
    "searchsorted", "std corr", "take", "trace", "tri k", "tril k", "triu k", "unravel", "var ddof",
    "view",
    "view32", "view8",
}  # fmt: skip
FORMS = {
    "jit": lambda f, n: ft.jit(f)(n),
    "vmap": lambda f, n: ft.tree.map(lambda x: x[0], ft.vmap(f)(numpy.array([n]))),
}


def leaves(out):
    return out if isinstance(out, tuple | list) else [out]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_integers_that_are_traced(name, form):
    fun = CALLS[name]
    for n in (1, 2, -1):
        try:
            wanted = fun(np.asarray(n))
        except (IndexError, ValueError, TypeError):
            continue
        try:
            got = FORMS[form](fun, n)
        except ConcretizationError as error:
            text = str(error)
            assert name not in TRACED
            assert "argument 0" in text
            assert f"at {__file__}:" in text
            assert "functensor.errors 5" in text
            assert form != "jit" or "static_argnums=0" in text or "size=n" in text
            continue
        for x, y in zip(leaves(got), leaves(wanted), strict=True):
            numpy.testing.assert_allclose(x, y)


def test_what_is_rolled_and_inserted_differentiates():
    i = numpy.array(2)
    check_grads(lambda x: ft.jit(np.roll)(x, i) ** 2, (np.asarray(X),), order=2)
    check_grads(lambda x: ft.vmap(np.roll, (None, 0))(x, i[None]) ** 2, (np.asarray(V),), order=2)
    insert = ft.jit(lambda x, v, i: np.insert(x, i, v) ** 2)
    check_grads(lambda x, v: insert(x, v, i), (np.asarray(V), np.asarray(7.0)), order=2)
    check_grads(lambda x: ft.jit(np.tril)(x, i) ** 2, (np.asarray(X),), order=2)


BOUNDED = {
    "insert": lambda i: np.insert(V, i, 9.0),
    "insert several": lambda i: np.insert(V, np.stack([i, 0 * i]), 9.0),
    "insert axis": lambda i: np.insert(X, i, 9.0, axis=0),
    "delete": lambda i: np.delete(V, i),
    "delete axis": lambda i: np.delete(X, i, axis=0),
    "delete size": lambda i: np.delete(V, i, size=V.size),
    "take": lambda i: np.take(V, i),
    "index": lambda i: np.asarray(V)[i],
    "set": lambda i: np.asarray(V).at[i].set(1.0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BOUNDED)
def test_traced_indices_out_of_bounds_are_errors(name, form):
    length = len(X) if "axis" in name else V.size
    last = length if "insert" in name else length - 1
    for i in (-length, -1, 0, last):
        got = FORMS[form](BOUNDED[name], i)
        numpy.testing.assert_array_equal(got, BOUNDED[name](numpy.array(i)))
    for i in (-length - 1, last + 1, 99, -99):
        with pytest.raises(IndexError):
            FORMS[form](BOUNDED[name], i)


def test_slices_are_inserted_in_numpys_order():
    for at in ([0, 0, 4], [3, -1, 2], [-4], [1]):
        values = numpy.arange(float(len(at))) + 9
        got = ft.jit(np.insert)(V, numpy.array(at), values)
        numpy.testing.assert_array_equal(got, numpy.insert(V, at, values))
        slices = numpy.insert(X, at, values[:, None], axis=1) if max(at) < 4 else None
        if slices is not None and len(at) > 1:
            got = ft.jit(lambda i, v: np.insert(X, i, v[None, :], axis=1))(numpy.array(at), values)
            numpy.testing.assert_array_equal(got, numpy.insert(X, at, values[None, :], axis=1))
    for at in (0, 2, -1, 4):
        for values in (9.0, [9.0, 8.0]):
            got = ft.jit(np.insert)(V, at, numpy.array(values))
            numpy.testing.assert_array_equal(got, numpy.insert(V, at, values))


def test_rolling_by_several_places():
    for shift, axis in [((1, 2), (0, 1)), ((1, 2), 1), (3, (0, 1)), ((1, 5), None), (-2, 0)]:
        wanted = numpy.roll(X, shift, axis)
        got = ft.jit(partial(np.roll, X, axis=axis))(numpy.array(shift))
        numpy.testing.assert_array_equal(got, wanted)
        got = ft.jit(lambda *s, axis=axis: np.roll(X, s, axis))(*numpy.ravel(shift).tolist())
        numpy.testing.assert_array_equal(got, wanted)
    assert np.roll(a=X[0], shift=1).tolist() == [3.0, 0.0, 1.0, 2.0]


def test_bytes():
    for dtype in ("uint8", "int32", "complex128", "float32"):
        for form in (lambda f: f, ft.jit, lambda f: lambda x: ft.vmap(f)(x[None])[0]):
            got = form(methodcaller("view", dtype))(np.asarray(X))
            numpy.testing.assert_array_equal(got, X.view(dtype))
            got = form(methodcaller("byteswap"))(np.asarray(INDEX))
            numpy.testing.assert_array_equal(got, INDEX.byteswap())
    with pytest.raises(ft.errors.ShapeError, match="no whole number of elements"):
        np.ones(3).view("complex128")
    with pytest.raises(ft.errors.ShapeError, match="no whole number of elements"):
        ft.vmap(lambda x: x.view("uint8"))(np.ones(3))
