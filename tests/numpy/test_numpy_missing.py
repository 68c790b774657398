"""Parts of NumPy that were missing: facts and keywords of ufuncs, files, forms of arguments."""

import array
import io
import itertools

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import ConcretizationError, ImmutableArrayError, ShapeError
from functensor.testing import check_grads

X = np.arange(12.0).reshape(3, 4) ** 1.5
T = np.arange(24.0).reshape(2, 3, 4) ** 1.5
WHOLE = np.array([[1, 2, 3], [6, 5, 4], [7, 9, 8]])
UFUNCS = [n for n in fnp.__all__ if isinstance(getattr(np, n, None), np.ufunc)]
FACTS = ["nin", "nout", "nargs", "identity", "signature"]


def operands(name):
    """Returns operands that a ufunc of NumPy's takes."""
    ufunc = getattr(np, name)
    for x in (np.array([[0.3, 0.6], [0.2, 0.9]]), WHOLE[:2, :2]):
        try:
            with np.errstate(all="ignore"):
                ufunc(*[x] * ufunc.nin)
        except TypeError:
            continue
        return [x] * ufunc.nin
    return [np.full((2, 2), 0.5), WHOLE[:2, :2]]


@pytest.mark.parametrize("name", UFUNCS)
def test_functions_tell_what_ufuncs_do(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    for fact in FACTS:
        mine, other = getattr(ours, fact), getattr(theirs, fact)
        assert mine == other or (mine != mine and other != other), fact
    assert ours.types == theirs.types
    assert ours.ntypes == theirs.ntypes


KEYWORDS = [
    {"order": "C"}, {"subok": False}, {"casting": "same_kind"}, {"casting": "safe"},
    {"casting": "no"}, {"casting": "none of them"}, {"where": True}, {"out": None},
    {"dtype": "float32"}, {"dtype": float}, {"dtype": float, "casting": "safe"},
    {"dtype": "float32", "casting": "unsafe"}, {"dtype": int}, {"dtype": bool},
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(UFUNCS)))
def test_keywords_of_ufuncs_are_numpys_or_refused(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    given = operands(name)
    for keywords in KEYWORDS:
        try:
            with np.errstate(all="ignore"):
                wanted = theirs(*given, **keywords)
        except (TypeError, ValueError):
            if None not in keywords.values() and True not in keywords.values():
                with pytest.raises((TypeError, ValueError)):
                    ours(*given, **keywords)
            continue
        try:
            with np.errstate(all="ignore"):
                got = ours(*given, **keywords)
        except TypeError as error:
            # NumPy computes some in another dtype than the result's, and casts afterwards.
            said = str(error)
        else:
            said = ""
        if said:
            assert any(word in said for word in (*keywords, "dtype", "casting"))
            continue
        pairs = zip(got, wanted) if isinstance(wanted, tuple) else [(got, wanted)]
        for x, y in pairs:
            assert x.dtype == y.dtype, keywords
            np.testing.assert_allclose(x, y, rtol=1e-6)
    for mask in ({"where": np.ones((2, 2), bool) & False}, {"out": fnp.ones((2, 2))}):
        with pytest.raises((ImmutableArrayError, TypeError)), np.errstate(all="ignore"):
            ours(*given, **mask)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_or", "fmax"])
def test_reduceat(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    for indices, axis in itertools.product([[0, 2], [2, 0, 1], [1, 1], [2]], [0, 1, -1]):
        wanted = theirs.reduceat(X, indices, axis)
        np.testing.assert_allclose(ours.reduceat(X, indices, axis), wanted)
        np.testing.assert_allclose(theirs.reduceat(wrap(X), indices, axis), wanted)
    with pytest.raises(IndexError, match="out of bounds"):
        ours.reduceat(X, [3])
    np.testing.assert_allclose(fnp.subtract.reduceat(X, [0]), np.subtract.reduceat(X, [0]))
    check_grads(lambda x: fnp.multiply.reduceat(x, [0, 2, 1]), (wrap(X + 1),), order=2)


def test_averages_over_several_axes_with_weights():
    for axis in ((1, 2), (2, 1), (0, 2), (0,), (-1, 0), (2, 0, 1)):
        w = np.random.default_rng(0).uniform(1, 2, [T.shape[i] for i in axis])
        for keepdims in (True, False):
            wanted = np.average(T, axis, w, returned=True, keepdims=keepdims)
            got = fnp.average(T, axis, w, returned=True, keepdims=keepdims)
            np.testing.assert_allclose(got[0], wanted[0])
            np.testing.assert_allclose(got[1], wanted[1])
    with pytest.raises(ShapeError, match=r"weights of shape \(4, 3\) for axis \(1, 2\)"):
        fnp.average(T, (1, 2), np.ones((4, 3)))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_odd_reflections(mode):
    odd = {"mode": mode, "reflect_type": "odd"}
    for x in (X, X[:1, :2], np.arange(5), np.arange(3, dtype="uint8"), X[0] * 1j):
        for width in (1, 2, (0, 3), (5, 7)):
            np.testing.assert_allclose(fnp.pad(x, width, **odd), np.pad(x, width, **odd))
            assert fnp.pad(x, width, **odd).dtype == x.dtype
    check_grads(lambda x: fnp.pad(x, 4, **odd) ** 2, (wrap(X),), order=2)
    assert fnp.pad(X, 1, mode, reflect_type="even").shape == (5, 6)
    with pytest.raises(ValueError, match="reflect_type is 'even' or 'odd', not 'strange'"):
        fnp.pad(X, 1, mode, reflect_type="strange")


def test_padding_by_a_function():
    def numpys(row, width, axis, kwargs):
        row[: width[0]] = kwargs["value"] + axis
        row[row.size - width[1] :] = row[width[0]]

    def ours(row, width, axis, kwargs):
        row = row.at[: width[0]].set(kwargs["value"] + axis)
        return row.at[row.size - width[1] :].set(row[width[0]])

    wanted = np.pad(X, ((1, 2), (0, 3)), numpys, value=7.0)
    np.testing.assert_allclose(fnp.pad(X, ((1, 2), (0, 3)), ours, value=7.0), wanted)
    check_grads(lambda x: fnp.pad(x, 1, ours, value=7.0) ** 2, (wrap(X),), order=2)
    with pytest.raises(ImmutableArrayError, match="immutable") as caught:
        fnp.pad(X, 1, numpys, value=7.0)
    assert "fix: row = row.at[i].set(value), and return row from the function" in str(caught.value)
    with pytest.raises(ImmutableArrayError, match=r"return row\.at"):
        fnp.pad(X, 1, lambda *args: None)


def test_buffers_are_copied_into_arrays():
    for memory in (array.array("d", [1, 2]), bytearray(b"ab"), memoryview(b"abc"),
                   memoryview(X[:, ::2]), array.array("i", [3])):  # fmt: skip
        got = fnp.asarray(memory)
        np.testing.assert_array_equal(got, np.asarray(memory))
        assert got.dtype == np.asarray(memory).dtype
    memory = array.array("d", [1, 2])
    x = fnp.asarray(memory)
    memory[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="numbers"):
        fnp.asarray(array.array("w" if "w" in array.typecodes else "u", "ab"))


def test_arguments_in_other_forms():
    assert fnp.take(X[0], [0, 2], mode=None).tolist() == X[0][[0, 2]].tolist()
    with pytest.raises(IndexError):
        fnp.take(X[0], [9], mode=None)
    np.testing.assert_allclose(fnp.trapezoid(T, X), np.trapezoid(T, X))
    np.testing.assert_allclose(fnp.trapezoid(T, X, axis=-2), np.trapezoid(T, X, axis=-2))
    plus = fnp.vectorize(lambda a, b=None: a if b is None else a + b)
    np.testing.assert_array_equal(plus(X, None), X)
    np.testing.assert_array_equal(plus(X, b=None), X)
    np.testing.assert_array_equal(plus(X, 1.0), X + 1)


def cross_product(a, b):
    """Returns NumPy's product of three components, the third of which is 0 where there are two."""
    both = a.shape[-1] == b.shape[-1] == 2
    a, b = (np.insert(x, 2, 0, axis=-1) if x.shape[-1] == 2 else x for x in (a, b))
    return np.cross(a, b)[..., 2] if both else np.cross(a, b)


def test_cross_products_of_two_components():
    u, v = X[:, :2], X[:, 1:4]
    for a, b in ((u, u[::-1]), (u, v), (v, u), (u.T[:, 0], v), (v, v[::-1])):
        np.testing.assert_allclose(fnp.cross(a, b), cross_product(a, b))
        check_grads(fnp.cross, (wrap(a), wrap(b)), order=2)
    np.testing.assert_allclose(fnp.cross(u.T, u[::-1], axisa=0), cross_product(u, u[::-1]))
    with pytest.raises(ShapeError, match="or two, not shapes"):
        fnp.cross(X, X)


def test_files():
    file = io.BytesIO()
    fnp.save(file, fnp.asarray(X))
    np.testing.assert_array_equal(np.load(io.BytesIO(file.getvalue())), X)
    np.testing.assert_array_equal(fnp.load(io.BytesIO(file.getvalue())), X)
    for write in (fnp.savez, fnp.savez_compressed):
        file = io.BytesIO()
        write(file, fnp.asarray(X), t=T)
        found = fnp.load(io.BytesIO(file.getvalue()))
        assert sorted(found) == ["arr_0", "t"]
        np.testing.assert_array_equal(found["t"], T)
        assert type(found["arr_0"]) is ft.Array
    text = io.StringIO()
    fnp.savetxt(text, fnp.asarray(X), delimiter=",")
    np.testing.assert_allclose(np.loadtxt(io.StringIO(text.getvalue()), delimiter=","), X)
    file = io.BytesIO()
    np.save(file, fnp.asarray(X))
    np.testing.assert_array_equal(fnp.load(io.BytesIO(file.getvalue())), X)
    file = io.BytesIO()
    np.save(file, np.array([None]), allow_pickle=True)
    for options in ({}, {"allow_pickle": True}, {"mmap_mode": "r"}):
        with pytest.raises(ValueError, match=r"allow_pickle|mmap_mode"):
            fnp.load(io.BytesIO(file.getvalue()), **options)
    with pytest.raises(ConcretizationError, match="what save writes depends on"):
        ft.jit(lambda x: fnp.save(io.BytesIO(), x))(X)


@pytest.mark.parametrize("name", ["logical_and", "logical_or"])
def test_truth_values_are_accumulated_as_such(name):
    x = np.array([[2.0, 3.0, 0.0], [0.0, 1.0, 5.0]])
    for axis in (0, 1):
        got = getattr(fnp, name).accumulate(x, axis)
        wanted = getattr(np, name).accumulate(x, axis)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
