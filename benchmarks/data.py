"""Seeded NumPy data, float32 and the same for every peer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.case import NumpyArray, Problem
from benchmarks.program_cases import PREFIX, PROGRAMS, program_name

SCALAR_OPS_STEPS = 100
ATTENTION_HEADS = 4
BLOCKS = 2
LAYER_NORM_EPSILON = 1e-5
L2_PENALTY = 1e-3
LEARNING_RATE = 1e-3


# Returns random numbers of a shape, times ``scale=``.
Normal = Callable[..., NumpyArray]


def _normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> NumpyArray:
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def _zeros(*shape: int) -> NumpyArray:
    return np.zeros(shape, np.float32)


def dense_layers(normal: Normal, **sizes: tuple[int, int]) -> dict[str, NumpyArray]:
    """Layers by name: weights of shape (in, out), and biases of zeros."""
    params = {}
    for name, (n_in, n_out) in sizes.items():
        params[f"{name}_w"] = normal(n_in, n_out, scale=float(np.sqrt(2 / n_in)))
        params[f"{name}_b"] = _zeros(n_out)
    return params


def cnn_problem(rng: np.random.Generator, normal: Normal, batch: int) -> Problem:
    """Convolutions 1-32-64 of 28 x 28, 9216-128-10."""
    params = {
        "conv1_w": normal(32, 1, 3, 3, scale=0.4),
        "conv1_b": _zeros(32),
        "conv2_w": normal(64, 32, 3, 3, scale=0.08),
        "conv2_b": _zeros(64),
        **dense_layers(normal, dense1=(9216, 128), dense2=(128, 10)),
    }
    images = normal(batch, 1, 28, 28)
    return Problem("cnn", "train", params, (images, rng.integers(0, 10, batch)))


def gpt_params(
    normal: Normal, blocks: int, width: int, vocabulary: int, tokens: int, scale: float
) -> dict[str, NumpyArray]:
    """The parameters of a transformer; ``scale`` is that of its embeddings."""
    params = {
        "embedding": normal(vocabulary, width, scale=scale),
        "position": normal(tokens, width, scale=scale),
    }
    for block in (f"block{index}" for index in range(blocks)):
        for norm in ("norm1", "norm2"):
            params[f"{block}_{norm}_scale"] = np.ones(width, np.float32)
            params[f"{block}_{norm}_bias"] = _zeros(width)
        inner = {"qkv": (width, 3 * width), "out": (width, width)}
        inner |= {"up": (width, 4 * width), "down": (4 * width, width)}
        params |= dense_layers(normal, **{f"{block}_{name}": n for name, n in inner.items()})
    params |= {"norm_scale": np.ones(width, np.float32), "norm_bias": _zeros(width)}
    return params | dense_layers(normal, head=(width, vocabulary))


def _scalar_ops(rng: np.random.Generator) -> Problem:
    # Below 2.2 the map y -> x sin(y) settles on a fixed point, so that peers agree after 100 steps.
    return Problem("scalar-ops", "gradient", rng.uniform(0.7, 1.5, 10).astype(np.float32))


def _elementwise(rng: np.random.Generator) -> Problem:
    return Problem("elementwise", "gradient", _normal(rng, 4 * 2**20))


def _mlp(rng: np.random.Generator, name: str, hidden: int, batch: int) -> Problem:
    normal = partial(_normal, rng)
    sizes = {"dense1": (784, hidden), "dense2": (hidden, hidden), "dense3": (hidden, 10)}
    params = dense_layers(normal, **sizes)
    return Problem(name, "train", params, (_normal(rng, batch, 784), rng.integers(0, 10, batch)))


def _gpt_small(rng: np.random.Generator) -> Problem:
    width, vocabulary, batch, tokens = 128, 64, 4, 128
    params = gpt_params(partial(_normal, rng), BLOCKS, width, vocabulary, tokens, 0.1)
    text = rng.integers(0, vocabulary, (batch, tokens + 1))
    causal = np.tril(np.ones((tokens, tokens), np.bool_))
    batches = (text[:, :-1].copy(), text[:, 1:].copy(), causal)
    return Problem("gpt-small", "train", params, batches)


def _logreg(rng: np.random.Generator) -> Problem:
    features = _normal(rng, 100_000, 50)
    noisy = features @ _normal(rng, 50) + _normal(rng, 100_000)
    targets = (noisy > 0).astype(np.float32)
    params = {"w": _normal(rng, 50, scale=0.1), "b": _normal(rng, 1, scale=0.1)}
    return Problem("logreg", "gradient", params, (features, targets))


def _hessian(rng: np.random.Generator) -> Problem:
    features = _normal(rng, 256, 32)
    targets = np.tanh(features @ _normal(rng, 32, scale=0.3)).astype(np.float32)
    return Problem("hessian", "hessian", _normal(rng, 32, scale=0.2), (features, targets))


def _per_example(rng: np.random.Generator) -> Problem:
    params = dense_layers(partial(_normal, rng), dense1=(64, 64), dense2=(64, 10))
    batch = (_normal(rng, 256, 64), rng.integers(0, 10, 256))
    return Problem("per-example", "per-example", params, batch)


def _layernorm(rng: np.random.Generator) -> Problem:
    params = {
        "x": _normal(rng, 4096, 512),
        "scale": 1 + _normal(rng, 512, scale=0.5),
        "bias": _normal(rng, 512, scale=0.5),
    }
    return Problem("layernorm", "gradient", params)


def _recurrence(rng: np.random.Generator, name: str, length: int) -> Problem:
    width, batch = 64, 16
    x = _normal(rng, batch, length, width)
    params = {
        "input": _normal(rng, width, width, scale=0.1),
        "hidden": _normal(rng, width, width, scale=0.1),
        "bias": _normal(rng, width, scale=0.1),
    }
    if name.startswith("rnn-input"):
        return Problem(name, "gradient", params | {"x": x})
    return Problem(name, "gradient", params, (x,))


_MAKERS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "scalar-ops": _scalar_ops,
    "elementwise": _elementwise,
    "mlp-small": partial(_mlp, name="mlp-small", hidden=128, batch=64),
    "mlp-medium": partial(_mlp, name="mlp-medium", hidden=1024, batch=256),
    "cnn": lambda rng: cnn_problem(rng, partial(_normal, rng), 32),
    "gpt-small": _gpt_small,
    "logreg": _logreg,
    "hessian": _hessian,
    "per-example": _per_example,
    "layernorm": _layernorm,
    "rnn": partial(_recurrence, name="rnn", length=100),
}

WORKLOADS: tuple[str, ...] = tuple(_MAKERS)
SIZED = ("rnn", "rnn-input")
"""Families that take a length, as in `rnn:1000`; `rnn-input` differentiates the sequence too."""

KNOWN = ", ".join(
    (*WORKLOADS, *(f"{family}:LENGTH" for family in SIZED), *(PREFIX + name for name in PROGRAMS))
)


def is_workload(name: str) -> bool:
    """Says whether `problem` knows the name."""
    family, _, size = name.partition(":")
    if name in _MAKERS or program_name(name) is not None:
        return True
    return family in SIZED and size.isdecimal() and int(size) > 0


def problem(name: str) -> Problem:
    """The data of a workload that is in `KNOWN`."""
    if not is_workload(name):
        raise ValueError(f"unknown workload {name!r}; known: {KNOWN}")
    if program_name(name) is not None:
        return Problem(name, "program", {})
    rng = np.random.default_rng(20_26)
    size = name.partition(":")[2]
    return _recurrence(rng, name, int(size)) if size else _MAKERS[name](rng)
