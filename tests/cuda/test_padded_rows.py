"""Rows padded for the units that multiply: the arrays of plans that have them, and products."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from support.gpu_programs import fused, plan_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
CLASSES, WIDTH, ROWS = 103, 24, 128


@pytest.fixture
def everything(monkeypatch):
    """Makes products and losses of all sizes large."""
    from functensor.backends.cuda.cublas import padding
    from functensor.backends.cuda.kernels import cross_entropy
    from functensor.backends.cuda.plan import biased_losses, joint_parts, padded_rows

    monkeypatch.setattr(padded_rows, "FEWEST_OPERATIONS", 1 << 17)
    monkeypatch.setattr(padding, "FEWEST_OPERATIONS", 1 << 17)
    monkeypatch.setattr(padding, "BYTES_PER_OPERATION", 1.0)
    monkeypatch.setattr(joint_parts, "is_small", lambda shape: False)
    for module in (cross_entropy, biased_losses):
        monkeypatch.setattr(module, "FEWEST_AHEAD_BYTES", 0)


def loss(params, x, labels):
    """A loss of logits with a bias."""
    w, bias, scale = params
    return fnp.mean(nn.softmax_cross_entropy(nn.linear(x * scale, w, bias), labels))


def flat_loss(params, x, labels):
    """The same, of logits in another shape."""
    w, bias, scale = params
    logits = nn.linear(x * scale, w, bias)
    logits = logits.reshape(-1, logits.shape[-1])
    return fnp.mean(nn.softmax_cross_entropy(logits, labels.reshape(-1)))


def parameters(dtype="float32", classes=CLASSES):
    rng = np.random.default_rng(0)
    shapes = (WIDTH, classes), (classes,), (WIDTH,)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def batch(dtype="float32", classes=CLASSES):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, ROWS // 2, WIDTH)).astype(dtype)
    return x, rng.integers(0, classes, (2, ROWS // 2))


def queue_of(function, *args, precision="tf32"):
    """Returns the lines of what a plan queues."""
    source = plan_of(fused(function, *args), precision=precision).source
    begin = source.index("def queue")
    return re.sub("  #.*", "", source[begin : source.index("\n    return", begin)])


def test_a_head_is_padded_once(everything):
    text = queue_of(ft.value_and_grad(loss), parameters(), *batch())
    (own,) = re.findall(r"(\w+) = with_zeros_behind\(a\)", text)
    (logits,) = re.findall(rf"(\w+) = matmul_of_padded\(\w+, {own}, zeros=.*spread=True\)", text)
    made = rf"\w+, (\w+) = cross_entropy_with_grad\({logits}, .*bias=b, padded=True\)"
    (slope,) = re.findall(made, text)
    assert f"matmul_of_padded({slope}, {own}.T, zeros=(True, True))" in text
    assert f"sum_of_padded({slope}, axis=(0, 1)" in text
    (view,) = re.findall(rf"(\w+) = reshape\({slope}, ", text)
    assert re.search(rf"matmul_of_padded\(\w+, {view}, zeros=\(False, True\)\)", text)
    assert text.count("with_zeros_behind") == 1
    # What the loss adds, no kernel adds before, and it is there until then.
    assert text.index(f"del {logits}") > text.index("cross_entropy_with_grad")


def test_logits_in_another_shape_are_padded_too(everything):
    text = queue_of(ft.value_and_grad(flat_loss), parameters(), *batch())
    (logits,) = re.findall(r"(\w+) = matmul_of_padded\(.*spread=True\)", text)
    made = rf"\w+, (\w+) = cross_entropy_with_grad\({logits}.reshape\(128, 103\), .*bias=b, padded"
    (slope,) = re.findall(made, text)
    assert text.count("zeros=(True, True)") == 1
    assert text.count("zeros=(False, True)") == 2
    assert f"= reshape({slope}, " in text
    assert text.count("sum_of_padded(") == 1


def test_regions_know_how_padded_rows_lie(everything):
    def squares(w, bias, x, labels):
        logits = (x @ w + bias).reshape(-1, CLASSES)
        return fnp.mean(nn.softmax_cross_entropy(fnp.sin(logits), labels.reshape(-1)))

    (w, bias, _), (x, labels) = parameters(), batch()
    plan = plan_of(fused(ft.value_and_grad(squares), w, bias, x, labels), precision="tf32")
    lying = [run._lying for run in plan.text.runs if any(getattr(run, "_lying", ()))]
    assert lying
    assert {order for orders in lying for order in orders if order} <= {
        (ROWS // 2 * 104, 104, 1), (104, 1),
    }


@pytest.mark.parametrize(("classes", "precision"), [(104, "tf32"), (103, "highest")])
def test_rows_that_fit_or_exact_products_are_not_padded(everything, classes, precision):
    args = parameters(classes=classes), *batch(classes=classes)
    text = queue_of(ft.value_and_grad(loss), *args, precision=precision)
    assert "cross_entropy_with_grad" in text
    assert "padded" not in text
    assert "zeros" not in text


def test_a_slope_that_is_shown_is_not_padded(everything):
    def slopes(x, w, labels):
        def mean(logits):
            return fnp.mean(nn.softmax_cross_entropy(logits, labels))

        slope = ft.grad(mean)(x @ w)
        return slope, slope @ w.T

    x, labels = batch()
    text = queue_of(slopes, x.reshape(-1, WIDTH), parameters()[0], labels.ravel())
    assert "padded=True" not in text
    assert "zeros=(True, True)" not in text


def test_logits_that_others_read_keep_their_bias(everything):
    def losses(params, x, labels):
        logits = nn.linear(x, *params)
        return fnp.mean(nn.softmax_cross_entropy(logits, labels)) + fnp.mean(logits**2)

    text = queue_of(ft.value_and_grad(losses), parameters()[:2], *batch())
    assert "cross_entropy_with_grad" in text
    assert "bias=" not in text


def test_constants_stay_as_they_are(everything):
    fixed = np.random.default_rng(0).normal(size=(CLASSES, 40)).astype("f4")

    def slopes(w, bias, x, labels):
        def mean(logits):
            return fnp.mean(nn.softmax_cross_entropy(logits, labels))

        slope = ft.grad(mean)(nn.linear(x, w, bias))
        return slope @ fixed, slope @ w.T

    (w, bias, _), (x, labels) = parameters(), batch()
    text = queue_of(slopes, w, bias, x.reshape(-1, WIDTH), labels.ravel())
    assert "padded=True" in text
    assert re.search(r"matmul_of_padded\(\w+, \w+, zeros=\(True, False\)\)", text)


def matrix(rows, columns, leading, zeros=False):
    from functensor.backends.cuda.cublas.padding import Matrix

    array = SimpleNamespace(data=SimpleNamespace(ptr=256), itemsize=4, dtype=np.dtype("f4"))
    return Matrix(array, rows, columns, leading, zeros)


@pytest.mark.parametrize("zeros", [False, True])
def test_matrices_with_zeros_behind_their_columns_are_not_copied(everything, monkeypatch, zeros):
    from functensor.backends.cuda.cublas import padding

    copied = []
    monkeypatch.setattr(padding, "copy_columns", lambda given, made: copied.append(given))
    monkeypatch.setattr(padding, "ndarray", lambda shape, dtype: matrix(*shape[::-1], 1).array)
    monkeypatch.setattr(padding.cupy, "empty", lambda shape, dtype: matrix(*shape[::-1], 1).array)
    slope, weights = matrix(103, 128, 104, zeros), matrix(103, 24, 104, zeros)
    out = matrix(24, 128, 24)
    product = padding.padded_product(weights, slope, out, (1, 0))
    assert product.sizes == (24, 128, 104)
    assert copied == ([] if zeros else [weights, slope])
    assert product.first.rows == product.second.rows == 104
    # The result is written where it is to be.
    assert product.out.array is out.array


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("classes", [CLASSES, 1003])
@pytest.mark.parametrize("function", [loss, flat_loss])
def test_a_step_is_that_of_eager_mode(everything, function, dtype, classes):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    args = ft.tree.map(
        lambda x: ft.to_device(x, "cuda"), (parameters(kind, classes), *batch(kind, classes))
    )
    step = ft.value_and_grad(function)
    with ft.config.using(matmul_precision="tf32"):
        wanted = step(*args)
        jitted = ft.jit(step)
        jitted.compile(*args)
        for _ in range(4):
            found = jitted(*args)
        assert "padded=True" in jitted.lower(*args).source
    tolerance = 2e-3 if dtype == "float32" else 3e-2
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        x, y = (np.asarray(ft.to_device(v, "cpu"), np.float64) for v in (x, y))
        assert np.linalg.norm(x - y) <= tolerance * np.linalg.norm(y)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_steps_of_a_vocabulary_have_the_same_bits_each_time(dtype):
    import cupy
    import ml_dtypes

    kind, classes, width = np.dtype(getattr(ml_dtypes, dtype, dtype)), 50257, 768
    rng = np.random.default_rng(3)
    shapes = (width, classes), (classes,), (width,), (4, 256, width)
    scales = 0.02, 0.02, 1.0, 1.0
    made = [(rng.normal(size=n) * c).astype(kind) for n, c in zip(shapes, scales, strict=True)]
    labels = rng.integers(0, classes, (4, 256))
    args = ft.tree.map(lambda x: ft.to_device(x, "cuda"), (tuple(made[:3]), made[3], labels))
    step = ft.value_and_grad(loss)
    found = []
    with ft.config.using(matmul_precision="tf32"):
        wanted = ft.tree.leaves(step(*args))
        jitted = ft.jit(step)
        jitted.compile(*args)
        assert "padded=True" in jitted.lower(*args).source
        # The first calls run operation by operation in memory that holds no numbers.
        for _ in range(5):
            cupy.get_default_memory_pool().free_all_blocks()
            unwritten = cupy.full(1 << 28, np.nan, "f4")
            del unwritten
            outs = ft.tree.leaves(jitted(*args))
            found.append([np.asarray(ft.to_device(x, "cpu")) for x in outs])
    tolerance = 2e-3 if dtype == "float32" else 3e-2
    for x, y in zip(found[0], wanted, strict=True):
        x, y = (np.asarray(v, np.float64) for v in (x, ft.to_device(y, "cpu")))
        assert np.linalg.norm(x - y) <= tolerance * np.linalg.norm(y)
    for others in found[1:]:
        for x, y in zip(others, found[0], strict=True):
            assert x.tobytes() == y.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("classes", [1, 7, 67, 1003, 9001])
@pytest.mark.parametrize("least", [0, 1 << 40], ids=["at once", "read again"])
@pytest.mark.parametrize("spread", [False, True])
def test_padded_slopes_of_biased_logits(monkeypatch, dtype, classes, least, spread):
    import cupy
    import ml_dtypes

    from functensor.backends.cuda.kernels import cross_entropy as kernels
    from functensor.backends.cuda.row_layout import padded_rows

    monkeypatch.setattr(kernels, "FEWEST_AHEAD_BYTES", least)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(2)
    rows = 300
    x, bias = (rng.normal(0, 2, shape).astype(kind) for shape in ((rows, classes), classes))
    labels = rng.integers(0, classes, rows)
    given = cupy.asarray(x)
    if spread:
        given = padded_rows(x.shape, kind)
        given[...] = cupy.asarray(x)
    loss, slope = kernels.cross_entropy_with_grad(
        given, cupy.asarray(labels), 0.25, padded=True, bias=cupy.asarray(bias)
    )
    # Both compute of sums that are rounded; losses have the rounding of logits up to 8.
    plain = cupy.asarray(x + bias)
    monkeypatch.setattr(kernels, "FEWEST_AHEAD_BYTES", 1 << 40)
    losses, slopes = kernels.cross_entropy_with_grad(plain, cupy.asarray(labels), 0.25)
    rounding = float(ml_dtypes.finfo(kind).eps)
    for found, wanted, least in ((loss, losses, 8), (slope, slopes, 2)):
        found, wanted = (v.get().astype("f8") for v in (found, wanted))
        np.testing.assert_allclose(found, wanted, rtol=8 * rounding, atol=least * rounding)
    pitch = slope.strides[0] // kind.itemsize
    assert pitch * kind.itemsize % 16 == 0
    whole = cupy.ndarray((rows, pitch), kind, slope.data)
    assert not whole[:, classes:].astype("f4").any()


@pytest.mark.gpu
def test_products_and_sums_of_padded_matrices(everything):
    import cupy

    from functensor.backends.cuda.cublas.contraction import matmul_of_padded
    from functensor.backends.cuda.cublas.padding import with_zeros_behind
    from functensor.backends.cuda.kernels.axis_sums import sum_of_padded

    rng = cupy.random.default_rng(0)
    x, w = rng.random((2, 64, 24), "f4") - 0.5, rng.random((24, 103), "f4") - 0.5
    padded = with_zeros_behind(w)
    assert padded.strides == (416, 4)
    cupy.testing.assert_array_equal(padded, w)
    with ft.config.using(matmul_precision="tf32"):
        logits = matmul_of_padded(x, padded, (False, True), spread=True)
        assert logits.strides == (64 * 416, 416, 4)
        back = matmul_of_padded(logits, padded.T, (True, True))
        flat = logits.reshape(128, 103)
        grads = matmul_of_padded(x.reshape(128, 24).T, flat, (False, True))
    for found, wanted in (
        (logits, x.astype("f8") @ w.astype("f8")),
        (back, logits.astype("f8") @ w.astype("f8").T),
        (grads, x.reshape(128, 24).T.astype("f8") @ flat.astype("f8")),
    ):
        error = cupy.linalg.norm(found.astype("f8") - wanted) / cupy.linalg.norm(wanted)
        assert float(error) < 2e-3
    sums = sum_of_padded(logits, axis=(0, 1), keepdims=False)
    assert sums.shape == (103,)
    cupy.testing.assert_allclose(sums, logits.astype("f8").sum((0, 1)), rtol=1e-5, atol=1e-5)
