"""Single functions of functensor.numpy beyond a table: edges, messages, derivatives."""

import operator
import warnings

import numpy as np
import pytest
from support.numpy_cases import BAD, RNG, B, C, I, M, S, V, same

import functensor as ft
import functensor.numpy as fnp
from functensor.testing import check_grads

# -- creation


def test_array_and_asarray_copy_but_where_sharing_is_asked_for():
    buffer = np.zeros(3)
    copied, too, shared = fnp.array(buffer), fnp.asarray(buffer), fnp.asarray(buffer, copy=False)
    buffer[0] = 1.0
    assert copied.tolist() == too.tolist() == [0, 0, 0]
    assert shared.tolist() == [1, 0, 0]
    assert fnp.array(shared) is not shared
    assert fnp.asarray(shared) is shared
    again = fnp.array(shared)
    buffer[1] = 1.0
    assert again.tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="copy=False"):
        fnp.asarray(shared, "float32", copy=False)
    for source in ([1.0], buffer.astype("float32")):
        with pytest.raises(ValueError, match="copy"):
            fnp.asarray(source, "float64", copy=False)


def test_array_takes_what_numpys_takes():
    numbers = 1, 2.5, True, 1j, np.float32(2)
    for source in (*numbers, [], [[1, 2], [3, 4]], (1.0, 2), range(3), I, B):
        same(fnp.array(source), np.array(source))
        same(fnp.asarray(source), np.asarray(source))
    same(fnp.array([1, 2], "float32", ndmin=3), np.array([1, 2], "float32", ndmin=3))
    same(fnp.array([fnp.ones(2), [1, 2]]), np.array([np.ones(2), [1, 2]]))
    same(fnp.array([np.float32(1), fnp.ones((), "float32")]), np.ones(2, "float32"))
    same(fnp.from_dlpack(M), M)


def test_lists_of_traced_values_differentiate():
    def f(x, y):
        return fnp.array([[x, y * 2.0], (1.0, x * y)])

    check_grads(f, (1.5, -0.5), order=2)
    same(ft.vmap(lambda v: fnp.asarray([v[0], 3.0]))(M), np.stack([M[:, 0], [3.0] * 3], 1))
    assert ft.grad(lambda x: fnp.array([x, 1], "float32")[0])(2.0).dtype == np.float64


@pytest.mark.parametrize("bad", ["text", [["a"]], object(), {"a": 1}, [None], np.array(["a"])])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(TypeError):
        fnp.array(bad)


def test_ragged_lists_are_refused():
    for ragged in ([[1, 2], [3]], [fnp.ones(2), fnp.ones(1)], [[fnp.ones(()), 1], [2]]):
        with pytest.raises(ValueError, match=r"ragged list: item 0 has shape \(2,\), item 1"):
            fnp.array(ragged)


def test_devices_have_names():
    for make in (fnp.zeros, fnp.ones, fnp.arange, fnp.eye):
        assert make(3, device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="no device 'tpu:0'"):
            make(3, device="tpu:0")


def test_derivatives_flow_to_ranges_and_fillings():
    check_grads(lambda a, b: fnp.linspace(a, b, 4, endpoint=False), (1.0, 3.0), order=2)
    check_grads(lambda a, s: fnp.arange(a, a + 1.05, s), (0.5, 0.25))
    check_grads(lambda v: fnp.full((2, 3), v), (V[:3],))
    check_grads(lambda v: fnp.full_like(M, v), (2.0,))
    g = ft.grad(lambda b: fnp.linspace(0.0, b, 5)[-1])(2.0)
    assert g.item() == 1.0
    assert fnp.linspace(fnp.asarray(1.0), 2.0, 3).tolist() == [1.0, 1.5, 2.0]
    value = ft.value_and_grad(lambda a, b: fnp.linspace(a, b, 7).sum())(0.1, 0.7)[0]
    np.testing.assert_allclose(value.item(), np.linspace(0.1, 0.7, 7).sum())
    same(
        ft.vmap(lambda b: fnp.linspace(0, b, 3, dtype=int))(np.array([2.0, 5.0])),
        np.array([[0, 1, 2], [0, 2, 5]]),
    )


def test_arange_under_vmap_has_no_known_length():
    with pytest.raises(TypeError, match="arange asked for the value"):
        ft.vmap(fnp.arange)(np.array([3, 3]))


# -- statistics


def test_variance_is_the_gradient_of_nothing_else():
    x = V
    wanted = 2 * (x - x.mean()) / x.size
    same(ft.grad(fnp.var)(x), wanted)
    same(ft.grad(lambda v: v.var())(x), wanted)
    hessian = ft.hessian(fnp.var)(x)
    same(hessian, 2 / x.size * (np.eye(5) - 1 / x.size))
    z = fnp.asarray(C[0])
    same(ft.grad(fnp.var)(z), 2 * np.conj(C[0] - C[0].mean()) / 4)


def test_variance_is_stable_far_from_zero():
    x = 1e8 + np.array([0.0, 1.0, 2.0])
    assert fnp.var(x).item() == np.var(x)
    same(ft.grad(fnp.std)(x), (x - x.mean()) / 3 / np.std(x))


def test_standard_deviation_of_equal_elements_has_slope_zero():
    for mode in (ft.grad, ft.jacfwd):
        assert mode(fnp.std)(np.ones(3)).tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(fnp.std(np.array([1.0, np.nan])).item())
    assert fnp.std(np.ones(3)).item() == 0.0


def test_variance_without_degrees_of_freedom():
    assert np.isnan(fnp.var(np.ones(1), ddof=1).item())
    assert np.isnan(fnp.var(np.zeros((0,))).item())
    assert fnp.var(np.array([1.0, 2.0]), ddof=2).item() == np.inf
    with pytest.raises(ValueError, match="same thing"):
        fnp.var(V, ddof=1, correction=1)
    with pytest.raises(TypeError, match="immutable"):
        fnp.std(V, out=np.zeros(()))


def test_array_methods_are_the_functions():
    x = fnp.asarray(M)
    same(x.mean(0), M.mean(0))
    same(x.var(1, ddof=1), M.var(1, ddof=1))
    same(x.std(keepdims=True), M.std(keepdims=True))
    same(x.swapaxes(0, 1), M.swapaxes(0, 1))
    same(x.take(fnp.array([1, 0]), 1), M.take([1, 0], 1))


def test_average_checks_its_weights():
    with pytest.raises(ValueError, match="weights of shape"):
        fnp.average(M, weights=V)
    with pytest.raises(ValueError, match="weights of shape"):
        fnp.average(M, axis=0, weights=V)


def test_bincount_of_traced_numbers_needs_a_length():
    counts = ft.vmap(lambda i: fnp.bincount(i, length=6))(abs(I))
    same(counts, np.stack([np.bincount(abs(row), minlength=6) for row in I]))
    check_grads(lambda w: fnp.bincount(fnp.array([0, 2, 2]), w), (V[:3],), order=2)
    with pytest.raises(ValueError, match="negative"):
        fnp.bincount([-1])
    with pytest.raises(ValueError, match="one axis"):
        fnp.bincount(I)


# -- searching


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 8, 9])
def test_searchsorted_under_vmap_is_that_of_numpy(side, length):
    a = np.sort(RNG.integers(0, 5, length)).astype(float)
    v = np.arange(-1, 7).reshape(2, 4) * 0.5 * 2
    want = np.searchsorted(a, v, side)
    same(ft.vmap(lambda row: fnp.searchsorted(a, row, side))(v), want)
    if length:
        many = np.stack([a, a + 1])
        got = ft.vmap(lambda row: fnp.searchsorted(row, v, side))(many)
        same(got, np.stack([np.searchsorted(row, v, side) for row in many]))


def test_searchsorted_says_what_is_wrong():
    with pytest.raises(ValueError, match="'left' or 'right'"):
        fnp.searchsorted(S, V, "middle")
    with pytest.raises(ValueError, match="one axis"):
        fnp.searchsorted(M, V)


def test_unique_values_come_in_order():
    same(fnp.unique_values(I % 3), np.unique(I % 3))


def test_found_elements_keep_their_derivatives():
    x = np.array([3.0, 1.0, 3.0, 2.0])
    same(ft.grad(lambda v: fnp.sum(fnp.unique(v) ** 2))(x), np.array([6.0, 2.0, 0.0, 4.0]))
    same(ft.grad(lambda v: fnp.sum(v[fnp.nonzero(v > 1.5)]))(x), np.array([1.0, 0.0, 1.0, 1.0]))


@pytest.mark.parametrize("name", ["nonzero", "flatnonzero", "argwhere", "unique"])
def test_a_number_of_results_that_is_not_known(name):
    with pytest.raises(TypeError, match=f"what {name} returns depends on the value"):
        ft.vmap(getattr(fnp, name))(M)


def test_interp_says_what_is_wrong_and_jumps():
    with pytest.raises(ValueError, match="coordinates of shape"):
        fnp.interp(V, S, S[:3])
    xp, fp = [0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 5.0, 6.0]
    x = np.array([0.5, 1.0, 1.5])
    same(fnp.interp(x, xp, fp), np.interp(x, xp, fp))
    assert np.isfinite(np.asarray(ft.grad(lambda v: fnp.interp(v, xp, fp).sum())(x))).all()
    same(fnp.interp(V, [0.5], [3.0], left=1.0), np.interp(V, [0.5], [3.0], left=1.0))


# -- where bad input goes


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: fnp.cross(M, M), "three components"),
        (lambda: fnp.diff(1.0), "shape \\(\\)"),
        (lambda: fnp.diff(V, n=-1), "-1 differences"),
        (lambda: fnp.rot90(M, axes=(0, 0)), "do not make a plane"),
        (lambda: fnp.meshgrid(V, indexing="ji"), "'xy' or 'ij'"),
        (lambda: fnp.matrix_transpose(V), "two axes"),
        (lambda: fnp.vsplit(V, 1), "two axes"),
        (lambda: fnp.dsplit(M, 1), "three axes"),
        (lambda: fnp.hsplit(1.0, 1), "without axes"),
        (lambda: fnp.select([], []), "0 conditions"),
        (lambda: fnp.ix_(M), "one axis"),
        (lambda: fnp.linspace(0, 1, -1), "num=-1"),
        (lambda: fnp.cumulative_sum(M), "axis="),
        (lambda: fnp.broadcast_shapes((2,), (3,)), "do not broadcast"),
    ],
)
def test_messages(call, error):
    with pytest.raises(ValueError, match=error):
        call()


def test_insert_out_of_bounds():
    with pytest.raises(IndexError, match="index 6 is out of bounds for axis 0 with size 5"):
        fnp.insert(V, 6, 0.0)


def test_comparisons_of_infinities_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bool(fnp.allclose(BAD, BAD, equal_nan=True))


def test_operators_mix_with_the_namespace():
    x = fnp.asarray(M)
    same(operator.matmul(x, fnp.permute_dims(x, (1, 0))), M @ M.T)
    assert x.__array_namespace__() is fnp
    assert fnp.broadcast_shapes(3, (2, 1)) == (2, 3)
    assert fnp.broadcast_shapes() == ()
