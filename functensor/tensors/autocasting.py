"""Mixed precision: the dtypes in which a thread computes products of tensors meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends.restoring import setting
from ..primitives.core.patching import patch
from ..primitives.core.primitive import Primitive
from ..transforms.tensor_entrance import entrance
from .tape import TAPE, TapeTrace

__all__ = ["casting", "in_float32", "in_half", "keeping_casts", "watch_products"]

# Primitives whose operands are in_half.
NARROWED_PRIMITIVES = frozenset({"einsum", "matmul"})
AUTOCAST_WIDE = np.dtype(np.float32)


class AutocastState(threading.local):
    """The dtypes of products of a thread.

    Attributes:
        active: whether any is set.
        cpu, cuda: that of products on the CPU and on GPUs; None where operands stay as they are.
    """

    active = False
    cpu: np.dtype[Any] | None = None
    cuda: np.dtype[Any] | None = None


casting = AutocastState()


def keeping_casts() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns what makes functions compute in the dtypes that are set now, whenever they run."""
    before = {name: getattr(casting, name) for name in ("active", "cpu", "cuda")}

    def kept(fun: Callable[..., Any]) -> Callable[..., Any]:
        def as_before(*args: Any, **kwargs: Any) -> Any:
            with setting(casting, **before):
                return fun(*args, **kwargs)

        return as_before

    return kept


def in_precision(x: Any, to_float32: bool) -> Any:
    """Returns a tensor of single or half precision in the other one; all else as it is."""
    if not isinstance(x, TAPE.tracer) or x.dtype.itemsize > 4 or x.dtype.kind not in "fV":
        return x
    wanted = casting.cpu if x.device == "cpu" else casting.cuda
    if wanted is None:
        return x
    dtype = AUTOCAST_WIDE if to_float32 else wanted
    return x if x.dtype == dtype else x.to(dtype)


def in_half(*operands: Any) -> list[Any]:
    """Returns the operands of a product in the dtype that is set for their device."""
    return [in_precision(x, False) for x in operands]


def in_float32(*operands: Any) -> list[Any]:
    """Returns operands as float32 where a narrower dtype is set for their device."""
    return [in_precision(x, True) for x in operands]


def casting_products(process: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method of a trace of tensors that narrows what products are made of."""

    def narrowing(
        self: Any, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if casting.active and primitive.name in NARROWED_PRIMITIVES:
            args = in_half(*args)
        return process(self, primitive, args, params)

    return narrowing


def watch_products() -> None:
    """Has the traces of tensors look at products, from the first block on that narrows them.

    One is that of tensors within transformations, and so within compiled functions.
    """
    entrance.casting = casting
    for trace in (TapeTrace, TapeTrace.face):
        patch(trace, "mixed precision", partial(casting_methods, trace))


def casting_methods(trace: Any) -> dict[str, Any]:
    """Returns the methods that a trace gets."""
    return {"process": casting_products(trace.process)}
