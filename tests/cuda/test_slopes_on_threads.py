"""The kernels of the cross entropy that write a slope, on the CPU's threads."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from support import gpu_memory, one_thread, slope_kernels
from support.gpu_memory import GpuArray, on_gpu, whole_rows
from support.long_forms import with_slow

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")
ROWS = 8
ALL_AHEAD, NONE_AHEAD = 0, 1 << 40


@pytest.fixture(scope="module")
def compiled():
    return slope_kernels.loss_kernels()


@pytest.fixture
def module(compiled, monkeypatch):
    """The module, its kernels and memory being the CPU's."""
    made = slope_kernels.on_threads(monkeypatch, compiled)
    yield made
    made.stakes_of.cache_clear()
    made.bets_of.cache_clear()
    made.written_ahead.clear()


def kind_of(dtype):
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def drawn(dtype, classes, seed=0):
    """Returns logits, a bias and labels."""
    rng = np.random.default_rng(seed)
    x, bias = (rng.normal(0, 3, n).astype(kind_of(dtype)) for n in ((ROWS, classes), classes))
    return x, bias, rng.integers(0, classes, ROWS)


def pitch_of(classes, dtype):
    """Returns the elements from row to row where rows are padded."""
    unit = 16 // kind_of(dtype).itemsize
    return -(-classes // unit) * unit


def doubles(x, labels, g):
    """Returns the losses, and the slopes for a cotangent, or one for each row."""
    x, g = np.asarray(x, float), np.asarray(g, float).reshape(-1, 1)
    top = x.max(axis=-1, keepdims=True)
    powers = np.exp(x - top)
    total = powers.sum(axis=-1, keepdims=True)
    places = np.arange(len(x)), labels
    slopes = powers / total
    slopes[places] -= 1
    return (np.log(total) + top)[:, 0] - x[places], slopes * g


def assert_near(found, wanted, dtype):
    """Checks an array against doubles; all of it is written."""
    close = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert found.shape == wanted.shape
    assert found.dtype == kind_of(dtype)
    np.testing.assert_allclose(np.asarray(found).astype(float), wanted, close, close)


DTYPES = "float32", "float64", "float16", "bfloat16"
CLASSES = 1, 7, 103, 1003
# Of all that these make together one in three is tested.
EVERY = 3
# How logits lie: one behind the other, with gaps that end at 16 bytes, every other row, and turned.
LYING = "neighbours", "padded", "every other", "turned"
# One launch for both, or the slope by a kernel that reads the logits again.
AT = {"at once": ALL_AHEAD, "read again": NONE_AHEAD}
ALONG = {
    f"{dtype}, {classes}, {at}, {lying}, {'padded' if padded else 'dense'}{biased}": (
        *(dtype, classes, at, lying, padded, bool(biased)),
    )
    for dtype, classes, at, lying, padded, biased in [
        *product(DTYPES, CLASSES, AT, LYING, (False, True), ("", ", biased"))
    ][::EVERY]
}
QUICK_DTYPE, QUICK_CLASSES = "bfloat16", 1003
SLOW = [
    name
    for name, (dtype, classes, _, lying, padded, _) in ALONG.items()
    if (dtype, classes) != (QUICK_DTYPE, QUICK_CLASSES) or lying == "turned" or not padded
]


def lying_as(x, lying, dtype):
    """Returns logits that lie in some way."""
    classes = x.shape[-1]
    if lying == "padded":
        return on_gpu(x, pitch_of(classes, dtype))
    if lying == "every other":
        return on_gpu(np.repeat(x, 2, axis=0))[::2]
    return on_gpu(x.T).T if lying == "turned" else on_gpu(x)


@pytest.mark.parametrize("name", with_slow(ALONG, SLOW))
def test_slopes_that_are_written_along_are_those_of_doubles(module, monkeypatch, name):
    dtype, classes, at, lying, padded, biased = ALONG[name]
    monkeypatch.setattr(module, "FEWEST_AHEAD_BYTES", AT[at])
    x, bias, labels = drawn(dtype, classes)
    loss, slope = module.cross_entropy_with_grad(
        *(lying_as(x, lying, dtype), on_gpu(labels), 0.25, padded),
        on_gpu(bias) if biased else None,
    )
    wanted = doubles(x + bias if biased else x, labels, 0.25)
    for found, value in zip((loss, slope), wanted, strict=True):
        assert_near(found, value, dtype)
    if padded:
        assert slope.strides[0] == pitch_of(classes, dtype) * slope.itemsize
        assert not whole_rows(slope)[:, classes:].astype(float).any()
    else:
        assert slope.flags.c_contiguous


BETS = {
    f"{dtype}, {classes}, {lying}, {bet}": (dtype, classes, lying, bet)
    for dtype, classes, lying, bet in [
        *product(DTYPES, CLASSES, LYING, ("won", "lost", "of some rows", "none"))
    ][::EVERY]
}
QUICK_BETS = [
    name
    for name, (dtype, classes, lying, bet) in BETS.items()
    if (dtype, classes) == (QUICK_DTYPE, QUICK_CLASSES) and lying in LYING[1:3] and bet != "none"
]


@pytest.mark.parametrize("name", with_slow(BETS, [x for x in BETS if x not in QUICK_BETS]))
def test_slopes_that_are_settled_are_those_of_doubles(module, monkeypatch, name):
    dtype, classes, lying, bet = BETS[name]
    if bet == "none":
        monkeypatch.setattr(module, "FEWEST_AHEAD_BYTES", NONE_AHEAD)
    x, _, labels = drawn(dtype, classes, 1)
    given, where = lying_as(x, lying, dtype), on_gpu(labels)
    loss, kept = module.cross_entropy_ahead(given, where)
    g = np.full(ROWS, 1 / ROWS if bet == "won" else 0.5)
    if bet == "of some rows":
        g[::3] = 1 / ROWS
    found = module.cross_entropy_grad(given, kept, on_gpu(g.astype(kind_of(dtype))), where)
    wanted = doubles(x, labels, g)
    assert_near(loss, wanted[0], dtype)
    assert_near(found, wanted[1], dtype)
    assert found.flags.c_contiguous


def test_the_bits_do_not_depend_on_how_logits_lie(module):
    x, _, labels = drawn("float32", 1003, 2)
    slopes = []
    for lying, padded in product(("neighbours", "every other"), (False, True)):
        given = lying_as(x, lying, "float32")
        _, slope = module.cross_entropy_with_grad(given, on_gpu(labels), 1.0, padded)
        slopes.append(np.array(slope))
    # What is added up together depends on where a row begins, and not on where it is written.
    np.testing.assert_array_equal(slopes[0], slopes[1])
    np.testing.assert_array_equal(slopes[2], slopes[3])


def test_infinities_and_labels_that_are_none(module):
    classes = 1003
    x = np.random.default_rng(0).normal(size=(7, classes)).astype("f4")
    x[0, 500] = np.inf
    x[1] = -np.inf
    x[2, 1] = np.nan
    x[3, 4] = -np.inf
    x[6, 1002] = 1e30
    labels = np.array([3, 1, 3, 3, 4, 1003, 1002])
    loss, slope = module.cross_entropy_with_grad(on_gpu(x), on_gpu(labels), 1.0)
    assert np.isposinf(loss[0])
    assert np.isnan(loss[[1, 2, 5]]).all()
    wanted, slopes = doubles(x[[3, 4, 6]].astype(float), labels[[3, 4, 6]], 1.0)
    np.testing.assert_allclose(np.asarray(loss)[[3, 4, 6]], wanted, 1e-6, 1e-6)
    np.testing.assert_allclose(np.asarray(slope)[[3, 4, 6]], slopes, 1e-5, 1e-6)
    assert np.isnan(slope[[2, 5]]).all()


def test_a_cotangent_that_is_not_a_number_makes_slopes_that_are_none(module):
    x = on_gpu(np.zeros((3, 40), "f4"))
    loss, slope = module.cross_entropy_with_grad(x, on_gpu(np.arange(3)), float("nan"))
    np.testing.assert_allclose(loss, np.log(40), 1e-6)
    assert np.isnan(slope).all()


def test_new_memory_holds_no_numbers():
    for dtype in DTYPES:
        made = GpuArray((3, 5), kind_of(dtype))
        assert np.isnan(made.astype(float)).all()
        assert made.data.ptr % gpu_memory.BOUNDARY == 0
