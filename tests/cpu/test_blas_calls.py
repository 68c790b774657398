"""Products and factorisations for which BLAS is kept to the calling thread."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import blas_calls, blas_threads

pytestmark = pytest.mark.skipif(
    blas_threads.controlled() is None, reason="BLAS is none that can be kept to a thread"
)


@pytest.fixture
def holds(monkeypatch):
    """Gives BLAS two threads, and returns a list to which every hold is added."""
    control = blas_threads.controlled()
    before, hold, found = control._get(), control.hold, []

    def noted(holder):
        found.append(holder)
        hold(holder)

    monkeypatch.setattr(control, "hold", noted)
    control._set(2)
    yield found
    assert not blas_threads.held()
    assert control._get() == 2
    control._set(before)


def ones(*shape, dtype="float32"):
    return fnp.ones(shape, dtype)


def positive(n, stack=()):
    return fnp.asarray(np.broadcast_to(np.eye(n) * n + 1.0, (*stack, n, n)))


PRODUCTS = [
    (ones(32, 64), ones(64, 64), 0),
    (ones(32, 256), ones(256, 128), 1),
    (ones(4, 32, 256), ones(256, 128), 1),
    (ones(4, 32, 256), ones(4, 256, 128), 1),
    (ones(100, 32, 64), ones(100, 64, 64), 0),
    (ones(128, 128), ones(128), 0),
    (ones(600, 600), ones(600), 1),
    (ones(600), ones(600, 600), 1),
    (ones(5000), ones(5000), 0),
    (ones(20000), ones(20000), 1),
    (ones(20000, dtype="int64"), ones(20000, dtype="int64"), 0),
]


@pytest.mark.parametrize(("x", "y", "wanted"), PRODUCTS, ids=lambda x: str(getattr(x, "shape", x)))
def test_products_that_are_not_large_are_done_by_one_thread(x, y, wanted, holds):
    found = np.asarray(x @ y)
    assert len(holds) == wanted
    np.testing.assert_array_equal(found, np.asarray(x) @ np.asarray(y))


def test_large_products_are_shared_by_our_own_threads(holds):
    x = ones(256, 256)
    assert blas_calls.work_of(x.shape, x.shape) >= blas_calls.SMALLEST_SHARED_WORK
    np.testing.assert_array_equal(x @ x, np.full((256, 256), 256.0))
    assert len(holds) == 1


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x, y: fnp.einsum("ij,kj->ik", x, y), (ones(128, 128), ones(128, 128))),
        (lambda x, w: nn.conv(x, w), (ones(2, 8, 16, 16), ones(8, 8, 3, 3))),
        (lambda x, w: ft.grad(lambda w: fnp.sum(nn.conv(x, w)))(w),
         (ones(2, 8, 16, 16), ones(8, 8, 3, 3))),
        (nn.attention, (ones(1, 2, 64, 16), ones(1, 2, 64, 16), ones(1, 2, 64, 16))),
        (fnp.linalg.cholesky, (positive(64),)),
        (fnp.linalg.eigh, (positive(64, (3,)),)),
        (fnp.linalg.svd, (ones(64, 40, dtype="float64"),)),
        (fnp.linalg.qr, (ones(64, 40, dtype="float64"),)),
        (fnp.linalg.inv, (positive(100),)),
        (fnp.linalg.det, (positive(100),)),
        (fnp.linalg.solve, (positive(100), ones(100, 100, dtype="float64"))),
    ],
)  # fmt: skip
def test_what_calls_blas_keeps_it_to_one_thread(function, operands, holds):
    function(*operands)
    assert holds


@pytest.mark.parametrize("n", [3, 400])
def test_small_and_large_factorisations_are_left_to_blas(n, holds):
    fnp.linalg.cholesky(positive(n))
    assert not holds


def test_plans_keep_blas_to_one_thread_for_products_that_are_not_large(holds):
    def layers(x, y):
        return fnp.tanh(x @ y) @ y

    jitted = ft.jit(layers)
    x = y = ones(112, 112)
    jitted(x, y)
    del holds[:]
    jitted(x, y)
    assert len(holds) == 1
    small = ones(8, 8)
    jitted(small, small)
    del holds[:]
    jitted(small, small)
    assert not holds


def test_an_error_gives_blas_its_threads_back(holds):
    with pytest.raises(np.linalg.LinAlgError, match="cholesky"):
        fnp.linalg.cholesky(-positive(64))
    assert len(holds) == 1
