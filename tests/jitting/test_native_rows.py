"""Products of tall matrices and vectors in machine code, with functions of their rows."""

from itertools import pairwise

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu.plan.native.kernel_runs import far_apart
from functensor.backends.cpu.plan.native.segments import segmented
from functensor.jitting.tiers import native_program

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def logistic_loss(params, x, y):
    w, b = params
    logits = x @ w + b
    return fnp.mean(fnp.logaddexp(0.0, logits) - y * logits) + 1e-3 * fnp.sum(w * w)


def data(rows, columns, dtype):
    rng = np.random.default_rng(rows + columns)
    x, w, b = (rng.normal(size=n).astype(dtype) for n in ((rows, columns), columns, 1))
    return (w, b), x, (rng.uniform(size=rows) < 0.5).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [2, 10, 50, 64, 200])
@pytest.mark.parametrize("rows", [30, 2011, 12_800])
def test_a_regression_is_that_of_eager_mode(rows, columns, dtype):
    if rows < 8 * columns:
        rows = 8 * columns + 3
    args = data(rows, columns, dtype)
    step = ft.value_and_grad(logistic_loss)
    jitted = ft.jit(step)
    jitted.compile(*args)
    assert "as machine code" in jitted.explain()
    value, (w, b) = jitted(*args)
    right, (right_w, right_b) = step(*args)
    bound = {"rtol": 0, "atol": 50 * np.finfo(dtype).eps}
    np.testing.assert_allclose(value, right, rtol=50 * np.finfo(dtype).eps)
    np.testing.assert_allclose(w, right_w, **bound)
    np.testing.assert_allclose(b, right_b, **bound)


def test_rows_that_are_not_finite_stay_apart():
    (w, _), x, _ = data(501, 20, "float32")
    x[3, 4], x[499, 0] = np.nan, np.inf
    jitted = ft.jit(lambda x, w: fnp.tanh(x @ w))
    found = np.asarray(jitted.compile(x, w)(x, w))
    np.testing.assert_allclose(found, np.tanh(x @ w), rtol=1e-5, atol=1e-6)
    assert np.isnan(found[3])
    assert np.isfinite(np.delete(found, 3)).all()


def text_of(function, *args):
    return segmented(native_program(ft.make_program(function)(*args))).text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "product",
    [
        lambda x, v: (v + v) @ x,
        lambda x, v: x.T @ (v + v),
        lambda x, v: (v + v)[None] @ x,
        lambda x, v: x.T @ (v + v)[:, None],
        lambda x, v: (v + v)[::2] @ x[::2],
        lambda x, v: x.T[:, 1::2] @ (v + v)[1::2],
        lambda x, v: (v + v) @ x[:, 7:30],
    ],
)
def test_small_matrices_meet_vectors_in_their_own_function_of_blas(product, dtype):
    rng = np.random.default_rng(0)
    x, v = (rng.normal(size=n).astype(dtype) for n in ((300, 100), 300))
    assert "gemm" not in text_of(product, x, v)
    assert f"functensor_{'s' if dtype == 'float32' else 'd'}gemv" in text_of(product, x, v)
    bound = 1000 * np.finfo(dtype).eps
    found = ft.jit(product).compile(x, v)(x, v)
    np.testing.assert_allclose(found, product(x, v), rtol=0, atol=bound)


def test_large_matrices_meet_vectors_on_all_threads():
    """Outside of segments, that is, but for loops, which are machine code as a whole."""
    x, v = np.ones((1 << 9, 1 << 11), np.float32), np.ones(1 << 9, np.float32)
    equations = segmented(
        native_program(ft.make_program(lambda x, v: (v + v) @ x)(x, v))
    ).equations
    assert [equation.primitive.name for equation in equations] == ["native", "matmul"]

    def loop(x, v):
        return ft.fori_loop(0, 2, lambda i, v: v + (v @ x)[: len(v)], v)

    assert "gemv" in text_of(loop, x, v)


@pytest.mark.parametrize("count", range(1, 17))
def test_threads_take_blocks_that_are_far_apart(count):
    """Neighbours would add up in one line of the cache."""
    blocks = [(number, 10 * number, 10 * number + 10) for number in range(count)]
    order = far_apart(blocks)
    assert sorted(order) == blocks
    followers = [abs(x[0] - y[0]) for x, y in pairwise(order)]
    assert followers.count(1) == (1 < count < 7)
    assert count < 16 or min(followers) == 4


COMPUTED_LABELS = {
    "cast": lambda y: fnp.astype(y, "int32"),
    "remainders": lambda y: y % 5,
    "chosen": lambda y: fnp.where(y > 4, 3, y),
    "gathered": lambda y: fnp.array([4, 1, 0, 2, 3, 0])[y],
}


@pytest.mark.parametrize("rows", [6, 3000])
@pytest.mark.parametrize("labels", COMPUTED_LABELS.values(), ids=COMPUTED_LABELS)
def test_labels_that_the_function_computes(labels, rows):
    def loss(x, y):
        return fnp.mean(nn.softmax_cross_entropy(fnp.tanh(x) * 2, labels(y)))

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 5)), rng.integers(0, 5, rows)
    both = ft.value_and_grad(loss)
    jitted = ft.jit(both).compile(x, y)
    assert jitted.explain().endswith("as machine code"), jitted.explain()
    for got, wanted in zip(jitted(x, y), both(x, y), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    wrong = y.copy()
    wrong[3] = 8
    if labels is COMPUTED_LABELS["cast"]:
        with pytest.raises(IndexError, match="label 8 is none of the 5 classes"):
            jitted(x, wrong)


def masked_step(w, m, x, y):
    def loss(w):
        labels = fnp.where(y == 9, 0, y)
        return fnp.mean(nn.softmax_cross_entropy(fnp.tanh(x @ w), labels))

    m = 0.9 * m + ft.grad(loss)(w)
    return w - 0.1 * m, m


@pytest.fixture
def masked():
    """Operands of a step of training whose labels are computed, as NumPy's arrays."""
    rng = np.random.default_rng(0)
    w, m = rng.normal(size=(2, 6, 5)).astype("f")
    return w, m, rng.normal(size=(7, 6)).astype("f"), np.array([0, 9, 3, 1, 2, 4, 9])


def test_labels_are_read_by_the_segment_that_computes_them(masked):
    program = segmented(native_program(ft.make_program(masked_step)(*masked)))
    assert [e.primitive.name for e in program.equations] == ["native"]


def test_a_segment_that_computes_labels_writes_into_donated_memory(masked):
    def address(x):
        return np.asarray(x).ctypes.data

    def given():
        return *[fnp.array(x) for x in masked[:2]], *masked[2:]

    jitted = ft.jit(masked_step, donate_argnums=(0, 1)).compile(*masked)
    right = masked_step(*map(fnp.asarray, masked))
    for _ in range(3):
        args = given()
        before = {address(x) for x in args[:2]}
        found = jitted(*args)
        assert {address(x) for x in found} == before
        for x, y in zip(found, right, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5)
    args = given()
    args[3][2] = 7
    line = masked_step.__code__.co_firstlineno + 3
    with pytest.raises(IndexError, match="label 7 is none of the 5 classes") as error:
        jitted(*args)
    assert f"test_native_rows.py:{line}" in "".join(error.value.__notes__)


EMPTY_ROWS = {
    "variances": lambda x: fnp.var(x, axis=1),
    "deviations": lambda x: fnp.exp(x) / fnp.std(fnp.sin(x), axis=1, keepdims=True),
    "a gradient": ft.grad(lambda x: fnp.sum(fnp.var(fnp.sin(x), axis=1))),
}


@pytest.mark.parametrize("function", EMPTY_ROWS.values(), ids=EMPTY_ROWS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_of_no_elements_stay_over_numpy_without_an_error(function):
    x = np.ones((2, 0), np.float32)
    jitted = ft.jit(function).compile(x)
    assert "failed" not in jitted.explain()
    np.testing.assert_array_equal(np.asarray(jitted(x)), np.asarray(function(fnp.asarray(x))))


REDUCED = {
    "variance of all": lambda x: fnp.var(x, ddof=1),
    "variances of columns": lambda x: fnp.var(x, axis=0, keepdims=True),
    "deviations of channels": lambda x: fnp.std(x, axis=(0, 2)),
    "columns brought to variance 1": lambda x: (x - x.mean(0)) / (x.std(0) + 1e-6),
    "a norm of all": fnp.linalg.norm,
    "norms of rows": lambda x: fnp.linalg.norm(x, axis=-1),
    "norms of columns": lambda x: fnp.linalg.norm(x, axis=(0, 1), keepdims=True),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", REDUCED)
def test_variances_and_norms_are_sums_of_squares_in_kernels(name, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (40, 6, 5)).astype(dtype)
    if dtype == "complex64":
        x += 1j * rng.normal(size=x.shape).astype(np.float32)
    function = REDUCED[name]
    program = native_program(ft.make_program(function)(x))
    names = {e.primitive.name for e in program.equations}
    assert dtype == "float16" or names.isdisjoint({"var", "euclidean_norm", "subtract", "square"})
    got, wanted = np.asarray(ft.jit(function).compile(x)(x)), np.asarray(function(x))
    assert got.dtype == wanted.dtype
    # Means are rounded in another order, and elements near them differ by that.
    close = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, wanted, rtol=close, atol=close)
    slope, jitted = (f(x) for f in (ft.grad(total(function)), ft.jit(ft.grad(total(function)))))
    np.testing.assert_allclose(jitted, slope, rtol=close, atol=close)


def total(function):
    """Returns the sum of the sizes of what a function returns."""
    return lambda x: fnp.sum(fnp.abs(function(x)))


def test_variances_without_freedom_stay_over_numpy():
    x = np.ones((1, 3))
    jitted = ft.jit(lambda x: fnp.var(x, axis=0, ddof=1)).compile(x)
    assert np.isnan(np.asarray(jitted(x))).all()
