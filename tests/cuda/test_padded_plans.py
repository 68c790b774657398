"""Plans with padded rows, on the CPU: their results, and that no unwritten memory is read."""

import re

import ml_dtypes
import numpy as np
import pytest
from support import gpu_plans, one_thread
from support.gpu_memory import on_gpu
from support.long_forms import with_slow

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
pytestmark = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")
CLASSES, WIDTH, BATCH, LENGTH = 37, 24, 2, 16
# The classes with those that are padded, in all dtypes.
PADDED = 40
DTYPES = "float32", "float16", "bfloat16"


@pytest.fixture(scope="module")
def compiled():
    return gpu_plans.kernels()


@pytest.fixture
def products(compiled, monkeypatch):
    """The products of plans that run on the CPU."""
    return gpu_plans.on_numpy(monkeypatch, compiled)


def kind_of(dtype):
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def arguments(dtype="float32"):
    """Returns parameters, and a batch."""
    rng = np.random.default_rng(0)
    shapes = {
        "w": (WIDTH, CLASSES), "bias": (CLASSES,), "scale": (WIDTH,),
        "table": (CLASSES, WIDTH), "places": (LENGTH, CLASSES), "narrow": (WIDTH, WIDTH),
    }  # fmt: skip
    made = {k: rng.normal(0, 0.5, n).astype(kind_of(dtype)) for k, n in shapes.items()}
    params = {k: fnp.asarray(x) for k, x in made.items()}
    x = fnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(kind_of(dtype)))
    return params, x, rng.integers(0, CLASSES, (BATCH, LENGTH))


def mean_loss(logits, labels):
    return fnp.mean(nn.softmax_cross_entropy(logits, labels))


def biased(p, x, labels):
    return mean_loss(nn.linear(x * p["scale"], p["w"], p["bias"]), labels)


def without_a_bias(p, x, labels):
    return mean_loss(x * p["scale"] @ p["w"], labels)


def of_rows(p, x, labels):
    return biased(p, x.reshape(-1, WIDTH), labels.ravel())


def of_a_table(p, x, labels):
    return mean_loss(x * p["scale"] @ p["table"].T + p["bias"], labels)


def of_two_layers(p, x, labels):
    hidden = nn.relu(nn.linear(x, p["narrow"], p["scale"]))
    return mean_loss(nn.linear(hidden, p["w"], p["bias"]), labels)


def with_weights_of_rows(p, x, labels):
    losses = nn.softmax_cross_entropy(nn.linear(x, p["w"], p["bias"]), labels)
    return fnp.mean(losses * fnp.sum(p["scale"] * x, axis=-1))


def without_a_bias_and_with_weights(p, x, labels):
    losses = nn.softmax_cross_entropy(x @ p["w"], labels)
    return fnp.mean(losses * fnp.sum(p["scale"] * x, axis=-1))


def with_a_penalty(p, x, labels):
    logits = x * p["scale"] @ p["w"]
    return mean_loss(logits + p["bias"], labels) + fnp.mean(logits**2)


def with_a_penalty_before_the_loss(p, x, labels):
    logits = x * p["scale"] @ p["w"]
    biased_logits = logits + p["bias"]
    penalty = fnp.mean(fnp.cumsum(logits, axis=0) ** 2, axis=-1)
    return fnp.mean(penalty * nn.softmax_cross_entropy(biased_logits, labels))


def with_a_bias_that_others_read(p, x, labels):
    bias = fnp.cumsum(p["bias"])
    losses = nn.softmax_cross_entropy(x * p["scale"] @ p["w"] + bias, labels)
    return fnp.mean(fnp.cumsum(bias)[:LENGTH] * losses)


def with_a_bias_of_places(p, x, labels):
    return mean_loss(x @ p["w"] + p["places"], labels)


def of_two_losses(p, x, labels):
    first = mean_loss(nn.linear(x * p["scale"], p["w"], p["bias"]), labels)
    return first + mean_loss(nn.linear(x, p["w"], p["bias"]), (labels + 1) % CLASSES)


def of_cooled_logits(p, x, labels):
    return mean_loss(nn.linear(x, p["w"], p["bias"]) * 0.7, labels)


def with_attention_to_logits(p, x, labels):
    logits = nn.linear(x, p["w"], p["bias"])
    return mean_loss(logits, labels) + fnp.mean(fnp.transpose(logits, (1, 0, 2))[3:] ** 3)


def squared(p, x, labels):
    return fnp.mean(nn.softmax_cross_entropy(nn.linear(x, p["w"], p["bias"]), labels) ** 2)


def of_rows_of_a_head(p, x, labels):
    logits = nn.linear(x * p["scale"], p["w"], p["bias"]).reshape(-1, CLASSES)
    return mean_loss(logits, labels.ravel())


def of_labels_of_logits(p, x, labels):
    logits = x * p["scale"] @ p["w"]
    whole = logits + p["bias"]
    return mean_loss(whole, fnp.argmax(fnp.cumsum(logits, axis=0), axis=-1))


def with_a_loss_of_cumulative_logits(p, x, labels):
    logits = x * p["scale"] @ p["w"]
    first, second = logits + p["bias"], fnp.cumsum(logits, axis=0)
    return mean_loss(first, labels) + mean_loss(second, labels)


def with_a_bias_that_dies_before(p, x, labels):
    bias = fnp.cumsum(p["bias"])
    logits = x * p["scale"] @ p["w"] + bias
    return mean_loss(logits, (labels + fnp.argmax(fnp.cumsum(bias))) % CLASSES)


def of_two_heads_at_once(p, x, labels):
    first = nn.linear(x * p["scale"], p["w"], p["bias"])
    second = x @ p["table"].T + p["bias"]
    labels = (labels + fnp.argmax(fnp.cumsum(first - second, axis=0), axis=-1)) % CLASSES
    return mean_loss(first, labels) + mean_loss(second, labels)


def of_slopes(p, x, labels):
    slope = ft.grad(mean_loss)(nn.linear(x, p["w"], p["bias"]), labels)
    return fnp.mean((slope @ p["w"].T) * x)


LOSSES = {f.__name__: f for f in (
    biased, without_a_bias, of_rows, of_a_table, of_two_layers, with_weights_of_rows,
    without_a_bias_and_with_weights, with_a_penalty, with_a_penalty_before_the_loss,
    with_a_bias_that_others_read, with_a_bias_of_places, of_two_losses, of_cooled_logits,
    with_attention_to_logits, squared, of_rows_of_a_head, of_labels_of_logits,
    with_a_loss_of_cumulative_logits, with_a_bias_that_dies_before, of_two_heads_at_once, of_slopes,
)}  # fmt: skip
CASES = {
    f"{name}, {dtype}": (name, dtype)
    for name in LOSSES
    for dtype in DTYPES
    if dtype == "float32" or name in ("biased", "of_rows", "of_two_losses")
}
QUICK = {"biased, float32", "with_a_penalty, float32", "of_two_heads_at_once, float32"}
SLOW = [name for name in CASES if name not in QUICK]
CLOSE = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


def assert_near(found, wanted, dtype):
    """Checks arrays by their norms."""
    for x, y in zip(found, ft.tree.leaves(wanted), strict=True):
        x, y = (np.asarray(v).astype(float) for v in (x, y))
        assert x.shape == y.shape
        assert np.linalg.norm(x - y) <= CLOSE[dtype] * max(np.linalg.norm(y), 1e-2)


@pytest.mark.parametrize("name", with_slow(CASES, SLOW))
def test_plans_of_heads_are_eager_mode(products, name):
    loss, dtype = CASES[name]
    args = arguments(dtype)
    step = ft.value_and_grad(LOSSES[loss])
    _, run = gpu_plans.plan_on_numpy(step, *args)
    wanted = ft.tree.map(lambda x: np.asarray(x, float), step(*args))
    for _ in range(2):
        assert_near(run(ft.tree.leaves(args)), wanted, dtype)
    # Those that make logits, and gradients.
    assert len(products.sizes) >= 4
    assert all(PADDED in sizes for sizes in products.sizes)


READ_BY_REGIONS = [
    "with_a_penalty", "of_cooled_logits", "of_slopes", "with_attention_to_logits", "squared",
    "with_a_bias_of_places", "with_weights_of_rows",
]  # fmt: skip


@pytest.mark.parametrize("name", with_slow(READ_BY_REGIONS, READ_BY_REGIONS[2:]))
@pytest.mark.parametrize("dtype", with_slow(DTYPES[:2], DTYPES[1:]))
def test_kernels_read_padded_rows_where_they_are(compiled, monkeypatch, name, dtype):
    gpu_plans.on_numpy(monkeypatch, compiled, by_kernels=True)
    args = arguments(dtype)
    step = ft.value_and_grad(LOSSES[name])
    source, run = gpu_plans.plan_on_numpy(step, *args, load=True)
    # A row of the logits of a batch is as long as its neighbour is far.
    assert re.search(rf"\b{PADDED}\b", source[source.index("region_0_0") :])
    wanted = ft.tree.map(lambda x: np.asarray(x, float), step(*args))
    assert_near(run(ft.tree.leaves(args)), wanted, dtype)


def test_sums_of_some_rows_are_given_back_without_gaps(products):
    args = arguments()
    step = ft.grad(with_a_bias_of_places)
    source, run = gpu_plans.plan_on_numpy(step, *args)
    assert "sum_of_padded" in source
    outs = run(ft.tree.leaves(args))
    assert_near(outs, step(*args), "float32")
    # Graphs copy results as they lie.
    assert all(x.flags.c_contiguous for x in outs)


def test_weights_are_copied_anew_in_each_step(products):
    params, x, labels = arguments()
    params = {k: params[k] for k in ("w", "bias", "scale")}
    adam = ft.optim.adam(0.05)

    def step(params, state, x, labels):
        loss, grads = ft.value_and_grad(biased)(params, x, labels)
        return *adam.update(params, state, grads), loss

    held = params, adam.init(params)
    given = ft.tree.leaves(held)
    source, run = gpu_plans.plan_on_numpy(step, *held, x, labels, donated=range(len(given)))
    assert source.count("= with_zeros_behind(") == 1
    leaves = [on_gpu(v) if np.ndim(v) else v for v in given]
    places = [v.ctypes.data for v in leaves if np.ndim(v)]
    losses = []
    for _ in range(4):
        *leaves, loss = run([*leaves, *map(on_gpu, (x, labels))])
        *held, wanted = step(*held, x, labels)
        losses.append(float(loss))
        np.testing.assert_allclose(float(loss), float(wanted), 1e-5)
        assert [v.ctypes.data for v in leaves if np.ndim(v)] == places
    assert losses[-1] < losses[0] - 0.1
    assert_near(leaves[:3], held[0], "float32")


def test_what_nobody_has_written_shows(products, monkeypatch):
    from functensor.backends.cuda.plan import plan_text

    monkeypatch.setattr(plan_text, "with_zeros_behind", lambda x: on_gpu(x, PADDED))
    args = arguments()
    _, run = gpu_plans.plan_on_numpy(ft.value_and_grad(biased), *args)
    with pytest.raises(AssertionError, match="more than zeros"):
        run(ft.tree.leaves(args))
