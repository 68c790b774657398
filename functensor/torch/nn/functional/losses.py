"""PyTorch's losses of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import update_wrapper
from inspect import signature
from math import log, pi
from typing import Any, TypeVar, cast

import numpy as np

from ....backends.errors.words import WRAPPER_CODES
from ....nn.losses import softmax_cross_entropy
from ....primitives.core.array import Array
from ....primitives.core.registry import registry as ops
from ....tensors.autocasting import casting, in_float32
from ....tensors.functions.indexing import gather
from ....tensors.functions.looked_at import all_differ, check_between, check_not_negative
from ....tensors.functions.naming import error_of
from ....tensors.functions.pointwise import xlogy
from .activations import logsigmoid

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip

OLDER_WORDS = "size_average", "reduce"
LossT = TypeVar("LossT", bound=Callable[..., Any])


def summarised(values: Any, reduction: str) -> Any:
    """Returns the mean of losses, their sum, or themselves.

    Raises:
        ValueError: there is no such reduction.
    """
    if reduction == "mean":
        return ops.mean(values)
    if reduction == "sum":
        return ops.sum(values)
    if reduction != "none":
        raise ValueError(f"reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    return values


def older_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Returns the reduction that PyTorch's older words ask for, or the given one without them."""
    if size_average is None and reduce is None:
        return reduction
    together = "sum" if size_average is False else "mean"
    return "none" if reduce is False else together


def taking_older_words(before: str = "reduction") -> Callable[[LossT], LossT]:
    """Returns what makes a loss take ``size_average`` and ``reduce``, where PyTorch has them.

    Args:
        before: the parameter behind ``size_average``; ``reduce`` comes before ``reduction``.
    """

    def taking(loss: LossT) -> LossT:
        names = list(signature(loss).parameters)
        place = names.index(before)
        names.insert(names.index("reduction"), "reduce")
        names.insert(place, "size_average")

        def with_older_words(*args: Any, **kwargs: Any) -> Any:
            if place < len(args) <= len(names):
                given = dict(zip(names[place:], args[place:]))
                # Anything else there is not meant for the older words.
                if {type(given.get(word)) for word in OLDER_WORDS} <= {bool, type(None)}:
                    args, kwargs = args[:place], {**given, **kwargs}
            if "size_average" in kwargs or "reduce" in kwargs:
                words = kwargs.pop("size_average", None), kwargs.pop("reduce", None)
                kwargs["reduction"] = older_reduction(*words, kwargs.get("reduction", "mean"))
            if casting.active:
                args = tuple(in_float32(*args))
            return loss(*args, **kwargs)

        WRAPPER_CODES.add(with_older_words.__code__)
        return cast(LossT, update_wrapper(with_older_words, loss))

    return taking


def check_alike(name: str, input: Array, target: Array) -> None:
    """Warns of a target of another shape, which is seldom meant, as PyTorch does."""
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: an input of shape {input.shape} and a target of shape {target.shape} are "
            "broadcast; give both the same shape",
            UserWarning,
            stacklevel=5,
        )


# -- distances


@taking_older_words()
def mse_loss(input: Array, target: Array, reduction: str = "mean", weight: Any = None) -> Any:
    """Returns squared differences, by default their mean.

    >>> import functensor.torch as torch
    >>> torch.nn.functional.mse_loss(torch.ones(2), torch.zeros(2)).item()
    1.0
    """
    check_alike("mse_loss", input, target)
    squares = ops.square(error_of(input, target))
    return summarised(squares if weight is None else squares * weight, reduction)


@taking_older_words()
def l1_loss(input: Array, target: Array, reduction: str = "mean", weight: Any = None) -> Any:
    """Returns absolute differences, by default their mean."""
    check_alike("l1_loss", input, target)
    sizes = ops.abs(error_of(input, target))
    return summarised(sizes if weight is None else sizes * weight, reduction)


@taking_older_words()
def smooth_l1_loss(input: Array, target: Array, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Returns absolute differences less half of ``beta``; smaller ones squared, over 2 beta."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    check_alike("smooth_l1_loss", input, target)
    size, small = sizes_of_errors(error_of(input, target), beta)
    loss = ops.where(size < beta, small * small * (0.5 / beta), size - 0.5 * beta)
    return summarised(loss, reduction)


def huber_loss(
    input: Array, target: Array, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Returns half of squared differences; above ``delta`` in proportion to them."""
    check_alike("huber_loss", input, target)
    size, small = sizes_of_errors(error_of(input, target), delta)
    loss = ops.where(size < delta, 0.5 * small * small, delta * (size - 0.5 * delta))
    return summarised(loss if weight is None else loss * weight, reduction)


def sizes_of_errors(error: Array, limit: float) -> tuple[Any, Any]:
    """Returns sizes of errors, and the errors that are below a limit with zeros for the others."""
    size = ops.abs(error)
    return size, ops.where(size < limit, error, 0)


# -- classes


def with_classes_last(x: Array) -> Any:
    """Returns scores of shape (batch, classes, ...) with their classes as the last axis."""
    return ops.moveaxis(x, 1, -1) if x.ndim > 2 else x


@taking_older_words("ignore_index")
def nll_loss(
    input: Array,
    target: Array,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """Returns minus the logarithms of probabilities of the right classes.

    Args:
        input: logarithms of probabilities, of shape (batch, classes, ...) or (classes,).
        target: the right classes, of shape (batch, ...) or ().
        weight: a number for each class; the mean is weighted by it.
        ignore_index: a class that does not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """
    rows = with_classes_last(input)
    if weight is None and all_differ(target, ignore_index):
        return summarised(-gather_last(rows, target), reduction)
    counts = ops.not_equal(target, ignore_index)
    classes = ops.where(counts, target, 0)
    loss = -gather_last(rows, classes)
    share = ops.astype(counts, input.dtype)
    if weight is not None:
        share = share * ops.take(weight, classes, 0)
    loss = ops.where(counts, loss * share, 0)
    return ops.sum(loss) / ops.sum(share) if reduction == "mean" else summarised(loss, reduction)


def gather_last(rows: Any, classes: Any) -> Any:
    """Returns the element of each row that a class says."""
    check_classes(rows, classes)
    return ops.squeeze(gather(rows, -1, ops.expand_dims(classes, -1)), -1)


def check_classes(rows: Any, classes: Any) -> None:
    """Raises an error where targets are not of the scores' shape without classes."""
    if classes.shape != rows.shape[:-1]:
        raise ValueError(
            f"scores have the shape {rows.shape[:-1]} beside {rows.shape[-1]} classes, and targets "
            f"{classes.shape}"
        )


@taking_older_words("ignore_index")
def cross_entropy(
    input: Array,
    target: Array,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Returns the cross entropy of the softmax of scores and the right classes.

    Args:
        input: scores, of shape (batch, classes, ...) or (classes,).
        target: the right classes, of shape (batch, ...) or (), or probabilities of all classes,
            of the shape of ``input``.
        weight: a number for each class; the mean is weighted by it.
        ignore_index: a class that does not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: how much of the right probability all classes share.

    >>> import functensor.torch as torch
    >>> scores = torch.tensor([[2.0, 0.0]])
    >>> round(torch.nn.functional.cross_entropy(scores, torch.tensor([0])).item(), 4)
    0.1269
    """
    if target.dtype.kind in "fV":
        return soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    rows = with_classes_last(input)
    if weight is None and not label_smoothing and all_differ(target, ignore_index):
        check_classes(rows, target)
        return summarised(softmax_cross_entropy(rows, target), reduction)
    counts = ops.not_equal(target, ignore_index)
    classes = ops.where(counts, target, 0)
    check_classes(rows, classes)
    # What does not count may be infinite.
    rows = ops.where(ops.expand_dims(counts, -1), rows, 0)
    share = ops.astype(counts, input.dtype)
    if weight is not None:
        share = share * ops.take(weight, classes, 0)
    loss = ops.where(counts, softmax_cross_entropy(rows, classes) * share, 0)
    if label_smoothing:
        shares = log_shares(rows, weight)
        spread = ops.sum(shares, -1) * (label_smoothing / rows.shape[-1])
        loss = (1 - label_smoothing) * loss - ops.where(counts, spread, 0)
    return ops.sum(loss) / ops.sum(share) if reduction == "mean" else summarised(loss, reduction)


def log_shares(rows: Any, weight: Any) -> Any:
    """Returns logarithms of the softmax of scores, times the weights of classes."""
    logs = ops.log_softmax(rows, axis=-1)
    return logs if weight is None else logs * weight


def soft_cross_entropy(
    input: Array, target: Array, weight: Any, reduction: str, smoothing: float
) -> Any:
    """Returns the cross entropy of scores and probabilities of all classes."""
    rows, wanted = with_classes_last(input), with_classes_last(target)
    if smoothing:
        wanted = wanted * (1 - smoothing) + smoothing / rows.shape[-1]
    loss = -ops.sum(log_shares(rows, weight) * wanted, -1)
    if reduction == "mean":
        return ops.sum(loss) / max(int(np.prod(loss.shape)), 1)
    return summarised(loss, reduction)


def limited_log(x: Array) -> Any:
    """Returns logarithms, at least -100; no slope is above 1e12, as in PyTorch."""
    slope = 1e12 if x.dtype != np.float16 else 65504.0
    fixed = ops.stop_gradient(x)
    steep, zero = fixed < 1 / slope, ops.equal(fixed, 0)
    lowest = ops.where(zero, -100, ops.maximum(ops.log(ops.where(zero, 1, fixed)), -100))
    return ops.where(steep, lowest + (x - fixed) * slope, ops.log(ops.where(steep, 1, x)))


@taking_older_words()
def binary_cross_entropy(
    input: Array, target: Array, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Returns the cross entropy of probabilities of yes and targets from 0 to 1."""
    if input.shape != target.shape:
        raise ValueError(
            f"binary_cross_entropy: an input of shape {input.shape} and a target of shape "
            f"{target.shape}; give both the same shape"
        )
    check_between("binary_cross_entropy: a probability", input, 0, 1, RuntimeError)
    yes, no = limited_log(input), limited_log(1 - input)
    loss = -(target * yes + (1 - target) * no)
    return summarised(loss if weight is None else loss * weight, reduction)


@taking_older_words()
def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """Returns the cross entropy of the logistic function of scores and targets from 0 to 1.

    Args:
        input: scores.
        target: of the same shape.
        weight: a number for each loss.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: by how much more a yes counts.
    """
    if input.shape != target.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: an input of shape {input.shape} and a target of "
            f"shape {target.shape}; give both the same shape"
        )
    share = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input - share * logsigmoid(input)
    return summarised(loss if weight is None else loss * weight, reduction)


@taking_older_words()
def kl_div(input: Array, target: Array, reduction: str = "mean", log_target: bool = False) -> Any:
    """Returns ``target * (log(target) - input)``, where ``input`` is a logarithm already.

    ``reduction="batchmean"`` is the sum divided by the number of examples.
    """
    if log_target:
        loss = ops.exp(target) * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    if reduction == "batchmean":
        return ops.sum(loss) / input.shape[0]
    return summarised(loss, reduction)


@taking_older_words("eps")
def poisson_nll_loss(
    input: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """Returns minus the logarithm of Poisson's probability of counts, but for a constant."""
    loss = ops.exp(input) - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        large = ops.where(target > 1, target, 1)
        stirling = large * ops.log(large) - large + 0.5 * ops.log(2 * pi * large)
        loss = loss + ops.where(target > 1, stirling, 0)
    return summarised(loss, reduction)


def gaussian_nll_loss(
    input: Array, target: Array, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Returns minus the logarithm of the normal density of targets, but for a constant.

    Raises:
        ValueError: a variance is negative.
    """
    check_not_negative("gaussian_nll_loss: var", var)
    if hasattr(var, "ndim") and var.ndim == input.ndim - 1:
        var = ops.expand_dims(var, -1)
    # The limit is no function of the variance, as in PyTorch.
    wide = var + ops.stop_gradient(ops.maximum(var, eps) - var)
    loss = 0.5 * (ops.log(wide) + ops.square(input - target) / wide)
    return summarised(loss + 0.5 * log(2 * pi) if full else loss, reduction)
