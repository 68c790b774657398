"""Arrays do not change where SciPy's compiled functions are told to overwrite them."""

import inspect

import numpy as np
import pytest
import scipy.linalg

import functensor as ft
import functensor.numpy as fnp

SQUARE = np.array([[9.0, 1.0, 2.0], [1.0, 8.0, 0.5], [2.0, 0.5, 7.0]])
BANDS = np.array([[9.0, 8.0, 7.0], [1.0, 0.5, 0.0]])
VECTOR = np.array([1.0, 2.0, 3.0])
Q, R = np.linalg.qr(SQUARE)
# The operands of what takes others than one square matrix.
OPERANDS = {
    "cho_solve": lambda of: ((np.linalg.cholesky(SQUARE), True), of(VECTOR)),
    "cho_solve_banded": lambda of: ((of(BANDS), True), of(VECTOR)),
    "cholesky_banded": lambda of: (of(BANDS), False, True),
    "eig_banded": lambda of: (of(BANDS), True),
    "eigvals_banded": lambda of: (of(BANDS), True),
    "lstsq": lambda of: (of(SQUARE), of(VECTOR)),
    "lu_solve": lambda of: (scipy.linalg.lu_factor(SQUARE), of(VECTOR)),
    "ordqz": lambda of: (of(SQUARE), of(np.eye(3))),
    "qr_delete": lambda of: (of(Q), of(R), 0),
    "qr_insert": lambda of: (of(Q), of(R), of(VECTOR), 0),
    "qr_update": lambda of: (of(Q), of(R), of(VECTOR), of(VECTOR)),
    "qr_multiply": lambda of: (of(SQUARE), of(VECTOR)),
    "qz": lambda of: (of(SQUARE), of(np.eye(3))),
    "solve": lambda of: (of(SQUARE), of(VECTOR)),
    "solve_banded": lambda of: ((1, 0), of(BANDS), of(VECTOR)),
    "solve_triangular": lambda of: (of(SQUARE), of(VECTOR)),
    "solveh_banded": lambda of: (of(BANDS), of(VECTOR), False, False, True),
    "cossin": lambda of: (of(np.linalg.qr(np.pad(SQUARE, (0, 1)))[0]), 2, 2),
}
OVERWRITING = sorted(
    name
    for name in scipy.linalg.__all__
    if inspect.isfunction(getattr(scipy.linalg, name))
    and any(p.startswith("overwrite") for p in inspect.signature(
        getattr(scipy.linalg, name)).parameters)
)


def test_there_are_such_functions():
    assert len(OVERWRITING) > 20


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [fnp.asarray, ft.Tensor])
@pytest.mark.parametrize("name", OVERWRITING)
def test_arrays_stay_as_they_are(name, kind, order):
    function = getattr(scipy.linalg, name)
    flags = {p: True for p in inspect.signature(function).parameters if p.startswith("overwrite")}
    made = []

    def of(values):
        made.append((kind(np.array(values, order=order)), values))
        return made[-1][0]

    args = OPERANDS.get(name, lambda of: (of(SQUARE),))(of)
    bound = inspect.signature(function).bind_partial(*args).arguments
    function(*args, **{k: v for k, v in flags.items() if k not in bound})
    for x, values in made:
        np.testing.assert_array_equal(np.asarray(x), values)


def test_others_get_views():
    x = fnp.asarray(VECTOR)
    assert np.shares_memory(np.asarray(x), np.asarray(x))
    assert np.shares_memory(np.asarray(x), x.__array__())
    assert not np.asarray(x).flags.writeable
    seen = []
    scipy.linalg.funm(SQUARE, lambda w: seen.append(np.asarray(x)) or w)
    assert np.shares_memory(seen[0], np.asarray(x))


@pytest.mark.parametrize("by_position", [False, True])
@pytest.mark.parametrize("true", [1, -1, 0.5, np.int64(1), np.True_, np.ones(1), "yes", (0,)])
def test_whatever_is_true_overwrites_no_array(true, by_position):
    b = fnp.asarray([1.0, 2.0])
    try:
        if by_position:
            out = scipy.linalg.solve_triangular(np.eye(2) * 2, b, 0, False, False, true)
        else:
            out = scipy.linalg.solve_triangular(np.eye(2) * 2, b, overwrite_b=true)
        assert out.tolist() == [0.5, 1.0]
    except TypeError:  # what LAPACK's functions take for no flag
        assert not isinstance(true, int | np.int64)
    assert b.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("true", [1, np.int64(1), np.True_])
@pytest.mark.parametrize("name", OVERWRITING)
def test_flags_that_are_not_booleans(name, true):
    function = getattr(scipy.linalg, name)
    made = []

    def of(values):
        made.append((fnp.asarray(np.array(values, order="F")), values))
        return made[-1][0]

    args = OPERANDS.get(name, lambda of: (of(SQUARE),))(of)
    signature = inspect.signature(function)
    bound = signature.bind_partial(*args).arguments
    flags = [p for p in signature.parameters if p.startswith("overwrite") and p not in bound]
    try:
        function(*args, **dict.fromkeys(flags, true))
    except TypeError:
        assert true is np.True_
    for x, values in made:
        np.testing.assert_array_equal(np.asarray(x), values)
