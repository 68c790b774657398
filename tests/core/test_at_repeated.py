"""Updates by index where indices repeat: one after the other, as NumPy's ``ufunc.at`` and JAX's."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import ConcretizationError
from functensor.testing import check_grads

X = np.array([[0.5, -2.0, 3.0], [1.5, 2.0, 0.25]])
V = np.array([2.0, 0.5, 3.0])
KEYS = {
    "repeated": [0, 0],
    "mixed": ([0, 1, 0], [1, 1, 1]),
    "negative": ([0, -2, 1], [1, 1, -1]),
    "broadcast": (np.array([[0], [1], [0]]), [0, 1, 1]),
    "with a slice": (slice(None), [2, 2, 0]),
    "none": ([0, 1], [1, 1]),
    "single": (1, 2),
    "mask": X > 1,
    "empty": np.zeros(0, int),
}
UFUNCS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "mul": np.multiply,
    "divide": np.divide, "power": np.power, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("method", UFUNCS)
def test_updates_are_those_of_numpys_ufuncs(method, key):
    values = V[: X[key].shape[-1]] if X[key].shape else 2.0
    values = np.broadcast_to(values, X[key].shape)
    wanted = X.copy()
    UFUNCS[method].at(wanted, key, values)
    for form in (lambda f: f, ft.jit, lambda f: lambda x: ft.vmap(f)(x[None])[0]):
        got = form(lambda x: getattr(x.at[key], method)(values))(wrap(X))
        np.testing.assert_allclose(got, wanted, rtol=1e-14)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_functions_are_applied_for_every_index(key):
    wanted = X.copy()
    np.sin.at(wanted, key)
    for form in (lambda f: f, ft.jit, lambda f: lambda x: ft.vmap(f)(x[None])[0]):
        got = form(lambda x: x.at[key].apply(fnp.sin))(wrap(X))
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    check_grads(lambda x: x.at[key].apply(fnp.sin), (wrap(X),), order=2)


def test_powers_have_derivatives():
    key = ([0, 1, 0], [0, 1, 0])
    check_grads(lambda x, v: x.at[key].power(v), (wrap(X), wrap(V)), order=2)


def test_indices_that_are_not_known():
    def sines(x, i):
        return x.at[i].apply(fnp.sin)

    i = np.array([2, 0, 2, -1])
    x = wrap(X[1])
    wanted = X[1].copy()
    np.sin.at(wanted, i)
    np.testing.assert_allclose(ft.jit(sines)(x, i), wanted, rtol=1e-14)
    mapped = ft.vmap(sines, (None, 0))(x, np.stack([i, i]))
    np.testing.assert_allclose(mapped, [wanted] * 2, rtol=1e-14)
    raised = X[1].copy()
    np.power.at(raised, i, 2.0)
    got = ft.jit(lambda x, i: x.at[i].power(2.0))(x, i)
    np.testing.assert_allclose(got, raised, rtol=1e-14)
    check_grads(lambda x: ft.jit(sines)(x, i), (wrap(x),), order=2)
    # One index alone cannot repeat.
    got = ft.jit(lambda x, i: x.at[i[0]].apply(fnp.sin))(x, i)
    np.testing.assert_allclose(got, [x[0], x[1], np.sin(x[2])])
    many = np.arange(20)
    with pytest.raises(ConcretizationError, match=r"apply\(\.\.\., unique_indices=True\)") as e:
        ft.jit(sines)(np.ones(20), many)
    assert "functensor.errors 5" in str(e.value)
    unique = ft.jit(lambda x, i: x.at[i].apply(fnp.sin, unique_indices=True))
    np.testing.assert_allclose(unique(np.ones(20), many), np.full(20, np.sin(1.0)))


def test_negative_indices_may_be_out_of_bounds():
    x = wrap(X[0])
    off = {"wrap_negative_indices": False}
    assert x.at[[-1, 1]].get(mode="fill", fill_value=9.0, **off).tolist() == [9.0, -2.0]
    assert x.at[-1].get(mode="clip", **off) == 0.5
    assert x.at[[-1, 1]].set(7.0, mode="drop", **off).tolist() == [0.5, 7.0, 3.0]
    assert x.at[-1].set(7.0, mode="drop", **off).tolist() == X[0].tolist()
    assert x.at[[-1]].get(wrap_negative_indices=True).tolist() == [3.0]
    got = ft.jit(lambda i: x.at[i].add(1.0, mode="drop", **off))(np.array([-1, 2]))
    assert got.tolist() == [0.5, -2.0, 4.0]
    for key in (-1, [-1]):
        with pytest.raises(IndexError):
            x.at[key].get(**off)
    with pytest.raises(TypeError, match="no argument 'wrap'"):
        x.at[0].get(wrap=True)


def test_lengths_of_axes():
    for a in (X, X.tolist(), 1.0):
        for axis in (None, 0, -1, (0, 1), (), (0, 0), (0, 5), 7):
            try:
                wanted = np.size(a, axis)
            except ValueError as error:
                with pytest.raises(type(error)):
                    fnp.size(a, axis)
                continue
            assert fnp.size(a, axis) == wanted
    with pytest.raises(ValueError, match="twice"):
        np.size(wrap(X), (0, 0))
