"""Plans whose rows are padded, on the CPU: their results, and that nobody reads unwritten memory."""

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
# The sizes of the largest products where the classes are padded.
PADDED = {"float32": 40, "float16": 40, "bfloat16": 40}


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
    params = {k: rng.normal(0, 0.5, n).astype(kind_of(dtype)) for k, n in shapes.items()}
    x = rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(kind_of(dtype))
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
    penalty = fnp.mean(fnp.cumsum(logits, axis=0) ** 2)
    return penalty * mean_loss(biased_logits, labels)


def with_a_bias_that_others_read(p, x, labels):
    bias = fnp.cumsum(p["bias"])
    logits = x * p["scale"] @ p["w"] + bias
    penalty = fnp.mean(fnp.cumsum(bias))
    return penalty * mean_loss(logits, labels)


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
    return biased(p, x, labels) ** 2


LOSSES = {f.__name__: f for f in (
    biased, without_a_bias, of_rows, of_a_table, of_two_layers, with_weights_of_rows,
    without_a_bias_and_with_weights, with_a_penalty, with_a_penalty_before_the_loss,
    with_a_bias_that_others_read, with_a_bias_of_places, of_two_losses, of_cooled_logits,
    with_attention_to_logits, squared,
)}  # fmt: skip
CASES = {f"{name}, {dtype}": (name, dtype) for name in LOSSES for dtype in PADDED}
SLOW = [name for name in CASES if not name.endswith("float32")]
CLOSE = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


def assert_near(found, wanted, dtype):
    """Checks arrays, and that plans give them back without gaps."""
    for x, y in zip(found, ft.tree.leaves(wanted), strict=True):
        assert x.flags.c_contiguous
        x, y = (np.asarray(v).astype(float) for v in (x, y))
        assert x.shape == y.shape
        assert np.linalg.norm(x - y) <= CLOSE[dtype] * max(np.linalg.norm(y), 1e-2)


@pytest.mark.parametrize("name", CASES)
def test_plans_of_heads_are_eager_mode(products, name):
    loss, dtype = CASES[name]
    args = arguments(dtype)
    step = ft.value_and_grad(LOSSES[loss])
    source, run = gpu_plans.plan_on_numpy(step, *args)
    wanted = ft.tree.map(lambda x: np.asarray(x, float), step(*args))
    for _ in range(2):
        assert_near(run(ft.tree.leaves(args)), wanted, dtype)
    assert len(products.sizes) % 2 == 0
    assert any(PADDED[dtype] in sizes for sizes in products.sizes)
