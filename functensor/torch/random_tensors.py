"""Functions of PyTorch that draw tensors, from keys that a generator counts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import random
from ..backends.annotations import DTypeLike
from ..backends.dtypes import named as dtype_named
from ..primitives.core.array import Array
from ..primitives.core.registry import registry as ops
from ..random.generator import Generator, default_generator
from ..tensors import Tensor
from ..tensors.default_dtypes import TENSOR_DTYPES
from ..tensors.functions.looked_at import check_argument_of_draw, check_between, check_integers
from ..tensors.functions.naming import with_words
from .creation import sizes_of

__all__ = [
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm",
]  # fmt: skip


def drawn(
    draw: Callable[[Any, Any], Any], generator: Generator | None, dtype: Any, device: Any,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Returns a tensor that a function draws by a key and a dtype, float32 by default."""
    wanted = TENSOR_DTYPES["f"] if dtype is None else dtype_named(dtype)
    key = (generator or default_generator).next_key()
    values = draw(key, wanted)
    if isinstance(values, Tensor):
        # Within a transformation, of a key that is an argument.
        return values if device is None else values.to(device)
    return Tensor(values, requires_grad, wanted, None if device is None else str(device))


def drawing(name: str, draw: Callable[..., Any], what: str) -> Callable[..., Tensor]:
    """Returns `rand` or `randn`."""

    def function(
        *sizes: Any,
        size: Any = None,
        generator: Generator | None = None,
        dtype: DTypeLike | None = None,
        layout: Any = None,
        device: str | None = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Tensor:
        shape = sizes_of(sizes if size is None else (size,))
        return drawn(lambda key, dt: draw(key, shape, dt), generator, dtype, device, requires_grad)

    return with_words(function, name, f"Returns {what}; arguments as for `zeros`.")


def drawing_alike(draw: Callable[..., Tensor], what: str) -> Callable[..., Tensor]:
    """Returns `rand_like` or `randn_like`."""

    def function(
        input: Array, *, dtype: DTypeLike | None = None, layout: Any = None,
        device: str | None = None, requires_grad: bool = False, pin_memory: bool = False,
        memory_format: Any = None, generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        return draw(
            input.shape, dtype=dtype or input.dtype, device=device or input.device,
            requires_grad=requires_grad, generator=generator,
        )  # fmt: skip

    doc = f"Returns {what}, of the shape, dtype and device of a tensor."
    return with_words(function, f"{draw.__name__}_like", doc)


EVEN, NORMALLY = "numbers drawn evenly from [0, 1)", "normally distributed numbers"
rand = drawing("rand", random.uniform, EVEN)
randn = drawing("randn", random.normal, NORMALLY + ", of mean 0 and variance 1")
rand_like = drawing_alike(rand, EVEN)
randn_like = drawing_alike(randn, NORMALLY)


def randint(
    low: Any,
    high: Any = None,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: Any = np.int64,
    layout: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns integers drawn evenly from ``low``, by default 0, to before ``high``.

    >>> import functensor.torch as torch
    >>> bool((torch.randint(3, (100,)) < 3).all())
    True
    """
    if size is None:
        low, high, size = 0, low, high
    shape = tuple(size)
    check_integers("randint", dtype_named(dtype), int(low), int(high))
    out = drawn(
        lambda key, dt: random.randint(key, shape, int(low), int(high)), generator, np.int64, device
    )
    moved: Tensor = out.to(dtype_named(dtype))
    return moved.requires_grad_() if requires_grad else moved


def randint_like(
    input: Array, low: int, high: int | None = None, *, dtype: DTypeLike | None = None,
    layout: Any = None, device: str | None = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Returns integers as `randint`, of the shape, dtype and device of a tensor."""
    low, high = (0, low) if high is None else (low, high)
    kind, where = dtype or input.dtype, device or input.device
    return randint(
        low, high, input.shape, dtype=kind, device=where, requires_grad=requires_grad
    )


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = np.int64, layout: Any = None,
    device: str | None = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Returns the numbers from 0 to n - 1 in random order."""
    return drawn(lambda key, dt: random.permutation(key, n), generator, dtype, device)


def normal(
    mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, *,
    generator: Generator | None = None, dtype: DTypeLike | None = None, device: str | None = None,
) -> Tensor:  # fmt: skip
    """Returns normally distributed numbers.

    Args:
        mean, std: numbers, or tensors that broadcast.
        size: the shape; by default that of the tensors.
        generator: draws the key.
        dtype: float32 by default.
        device: that of the tensors by default.

    Raises:
        RuntimeError: ``std`` is negative.
    """
    if isinstance(std, int | float) and std < 0:
        raise RuntimeError(f"normal: std is at least 0, not {std}")
    check_between("normal: std", std, 0, np.inf, RuntimeError)
    shape = tuple(size) if size is not None else np.broadcast_shapes(np.shape(mean), np.shape(std))
    where = device or next((x.device for x in (mean, std) if hasattr(x, "device")), None)
    out: Tensor = randn(shape, generator=generator, dtype=dtype, device=where) * std + mean
    return out


def bernoulli(input: Any, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Returns ones with the probabilities that a tensor holds, or one for all, and zeros."""
    chances = input.detach() if p is None else p
    check_between("bernoulli: a probability", chances, 0, 1, RuntimeError)
    drawn_evenly = rand(input.shape, generator=generator, dtype=input.dtype, device=input.device)
    return ops.astype(ops.less(drawn_evenly, chances), input.dtype)  # type: ignore[no-any-return]


def poisson(input: Any, generator: Generator | None = None) -> Tensor:
    """Returns Poisson-distributed numbers of the means that a tensor holds.

    Raises:
        RuntimeError: one is negative, or NaN.
    """
    rates = input.detach().data
    check_argument_of_draw("poisson: a rate", rates)
    kind = input.dtype
    return drawn(
        lambda key, dt: ops.astype(random.poisson(key, rates), kind), generator, kind, input.device
    )


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Returns indices drawn with the weights of a vector, or of each row of a matrix.

    Args:
        input: weights, which need not add up to 1.
        num_samples: how many are drawn from each row.
        replacement: whether an index may come again.
        generator: draws the key.

    Raises:
        RuntimeError: a weight is negative or not finite; or without replacement, there are fewer
            indices of positive weight.
    """
    out: Tensor = input.multinomial(num_samples, replacement, generator=generator)
    return out
