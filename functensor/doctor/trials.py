"""A kernel, a product and a gradient on one device: their times, and whether they are right.

The numbers are compared with NumPy's in float64, by sums that no BLAS forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import nn
from .. import numpy as fnp
from ..faces.feature_table import features
from ..transforms.device import to_device
from ..transforms.grad import grad
from .finding import PRESENT, WRONG, Finding, first_line

__all__ = ["trials"]

FLOAT32, FLOAT64 = float(np.finfo("float32").eps), float(np.finfo("float64").eps)


class Trial(NamedTuple):
    """A computation whose result is known.

    Attributes:
        name: what is tried.
        what: the same in more words.
        run: computes it of operands on a device.
        operands: NumPy's arrays.
        wanted: the result, in float64.
        allowed: how far each element may be off, by the bounds of rounding.
    """

    name: str
    what: str
    run: Callable[..., Any]
    operands: tuple[np.ndarray, ...]
    wanted: np.ndarray
    allowed: np.ndarray


def product_and_bound(a: np.ndarray, b: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns a product of matrices in float64, and how far one of that precision may be off."""
    a, b = a.astype("float64"), b.astype("float64")
    wanted = np.einsum("ij,jk->ik", a, b)
    return wanted, a.shape[1] * eps / 2 * np.einsum("ij,jk->ik", abs(a), abs(b))


def trials_of_numbers() -> list[Trial]:
    """Returns the three computations."""
    draw = np.random.default_rng(0)
    rows = draw.uniform(-4.0, 4.0, (256, 1000)).astype("float32")
    powers = np.exp(rows.astype("float64"))
    softmax = powers / powers.sum(axis=1, keepdims=True)
    # The exponent is rounded by up to 8 units, the function and the quotient by a few.
    kernel = Trial(
        "kernel", "softmax of 256 rows of 1000", nn.softmax, (rows,), softmax,
        16 * FLOAT32 * softmax,
    )  # fmt: skip
    # Short sums, so that a product of factors in TF32 is beyond the bound.
    a, b = (draw.standard_normal(shape).astype("float32") for shape in ((256, 64), (64, 256)))
    product = Trial(
        "product", "256×64 times 64×256 in float32", fnp.matmul, (a, b),
        *product_and_bound(a, b, FLOAT32),
    )  # fmt: skip
    x, w = draw.standard_normal((64, 32)), draw.standard_normal((32, 16))
    hidden = np.tanh(np.einsum("ij,jk->ik", x, w))
    slopes = 2 * hidden * (1 - hidden**2)
    gradient = Trial(
        "gradient", "a layer's weights in float64",
        lambda w, x: grad(lambda w: fnp.sum(fnp.tanh(x @ w) ** 2))(w), (w, x),
        *product_and_bound(x.T, slopes, 32 * FLOAT64),
    )  # fmt: skip
    return [kernel, product, gradient]


def in_milliseconds(seconds: float) -> str:
    """Returns a time as text.

    >>> in_milliseconds(0.0123456)
    '12.3 ms'
    """
    return f"{1000 * seconds:.3g} ms"


def tried(trial: Trial, device: str) -> tuple[str, str]:
    """Returns the state of a trial, and its times or what is wrong."""
    operands = [to_device(x, device) for x in trial.operands]
    times = []
    for _ in range(3):
        start = perf_counter()
        result = trial.run(*operands)
        # Waits for the device.
        got = np.asarray(to_device(result, "cpu"))
        times.append(perf_counter() - start)
    first, then = in_milliseconds(times[0]), in_milliseconds(min(times[1:]))
    shown = f"{trial.what}: first {first}, then {then}"
    if result.device != device:
        return WRONG, f"{shown}; the result is on {result.device}"
    if got.shape != trial.wanted.shape:
        return WRONG, f"{shown}; a result of shape {got.shape} in place of {trial.wanted.shape}"
    off = abs(got.astype("float64") - trial.wanted)
    # NaN is not within bounds.
    if not (off <= trial.allowed).all():
        return WRONG, (
            f"{shown}; WRONG NUMBERS: off by {off.max():.2g}, where rounding explains "
            f"{trial.allowed.max():.2g}"
        )
    return PRESENT, f"{shown}; the numbers are right"


def trials(device: str, command: str = "") -> Iterator[Finding]:
    """Yields what a kernel, a product and a gradient on a device gave; of the CPU its BLAS too.

    Args:
        device: its name.
        command: what may mend one that raises.
    """
    if device == "cpu":
        what = f"it is imported; products by {features()['blas'].what}"
        yield Finding("devices", "functensor", PRESENT, what)
    for trial in trials_of_numbers():
        try:
            state, what = tried(trial, device)
            mend = ""
        # Whatever goes wrong is what is to be reported.
        except Exception as error:
            state, what, mend = WRONG, f"{trial.what}: {first_line(error)}", command
        yield Finding("devices", f"{device} {trial.name}", state, what, mend)
