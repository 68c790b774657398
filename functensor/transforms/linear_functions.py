"""The transpose of a linear function, and the check that a function is linear."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from ..backends.errors.public_functions import guarded
from ..backends.restoring import quiet
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.errors import function_name
from ..primitives.core.shape_dtype import finfo, shape_dtype
from ..primitives.core.trace import base_trace, under
from ..traces.forward import zeros_like
from ..traces.reverse import is_inexact
from ..tree import containers as tree
from .grad import pulled_back
from .tensor_entrance import entrance

__all__ = ["linear_transpose"]

# By how much probes shrink that are too large for a narrow dtype, and how much further than a
# few results show rounding may go.
SMALLER = 2.0**-8
ROUNDINGS = 100.0
# Pairings that are further apart, relative to their sizes, are looked at more closely.
LOOSEST = 2.0**-8


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """Returns the transpose of a linear function.

    Args:
        fun: linear in all of its arguments together; takes and returns trees of real or complex
            arrays.
        primals: arguments, of which only shapes and dtypes count: arrays, or ``ShapeDtype``.

    Returns:
        A function that takes a cotangent in the structure, shapes and dtypes of the output and
        returns a tuple with one of every argument: ``sum(y * fun(x)) == sum(transpose(y) * x)``.

    Raises:
        ValueError: ``fun`` is not linear: it does not take zeros to zeros, or on random arguments
            differs from its derivative at zero. (Where an outer transformation runs, of which the
            outputs are traced, only its derivative at zero is seen.)

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.linear_transpose(np.cumsum, ft.ShapeDtype((3,), float))(np.array([1.0, 2.0, 4.0]))
    (Array([7., 6., 4.], dtype=float64, device='cpu'),)
    """
    if entrance.classes and entrance.is_met(primals):
        return entrance.opened(entrance.lift(linear_transpose, (fun, *primals), {}))
    base = base_trace()
    with under(base):
        zeros = tree.map(lambda x: wrap(zeros_like(x)), primals)
    out, pull = pulled_back("linear_transpose", fun, zeros, False, keeps=True)
    if not any(isinstance(leaf, Tracer) for leaf in tree.leaves(out)):
        _check_linear(fun, zeros, out, pull)

    def transposed(cotangent: Any) -> Any:
        return pull(cotangent)

    return guarded(transposed, f"linear_transpose({function_name(fun)})")


def _check_linear(fun: Callable[..., Any], zeros: Any, out: Any, pull: Any) -> None:
    """Raises ``ValueError`` where a function is not linear.

    ``out`` is its output for ``zeros``, and ``pull`` its derivative there, transposed.
    """
    what = f"linear_transpose of {function_name(fun)}: it is not linear"
    fix = "; ft.vjp(fun, *primals) transposes its derivative at a point"
    if any(ops.any(leaf) for leaf in tree.leaves(out)):
        raise ValueError(f"{what}, since it does not take zeros to zeros{fix}")
    rng = np.random.default_rng(0)
    with quiet():
        x = tree.map(partial(_probe, rng), zeros)
        y = tree.map(partial(_probe, rng), out)
        whole = fun(*x)
        there, there_size = _tree_pairing(y, whole)
        if not isfinite(there_size):
            # Narrow dtypes, also within the function, do not hold large numbers.
            x, y = _times_tree(x, SMALLER), _times_tree(y, SMALLER)
            whole = fun(*x)
            there, there_size = _tree_pairing(y, whole)
        here, here_size = _tree_pairing(pull(y), x)
        kinds = [shape_dtype(leaf).dtype for leaf in tree.leaves((zeros, out)) if is_inexact(leaf)]
        precision = max((float(finfo(kind).eps) for kind in kinds), default=0.0)
        size = there_size + here_size
        gap, allowed = abs(there - here), min(precision**0.5, LOOSEST) * size
        if gap > allowed:
            allowed += _rounding(fun, x, y, whole)
    if not (isfinite(size) and gap <= allowed):
        raise ValueError(f"{what}, since it is not its derivative at zero elsewhere{fix}")


def _rounding(fun: Callable[..., Any], x: Any, y: Any, whole: Any) -> float:
    """Returns how far rounding may move the pairing of y with the function at x.

    A linear function takes twice its argument to exactly twice its result, and minus the argument
    to minus the result, since those round alike. Other multiples do not; they show how far rounding
    goes, within the function too, where it may be much larger than in the result.

    Args:
        fun: the function.
        x: its arguments.
        y: what its results are paired with.
        whole: its results at x.
    """

    def gap(factor: float) -> float:
        moved, scaled = fun(*_times_tree(x, factor)), _times_tree(whole, factor)
        return _tree_pairing(y, tree.map(ops.subtract, moved, scaled))[1]

    if gap(2.0) or gap(-1.0):
        return 0.0
    return ROUNDINGS * max(map(gap, (3.0, 0.7, 1.9)))


def _times_tree(x: Any, factor: float) -> Any:
    """Returns a tree of arrays times a number; those of integers as they are."""
    return tree.map(lambda leaf: ops.multiply(leaf, factor) if is_inexact(leaf) else leaf, x)


def _probe(rng: np.random.Generator, leaf: Array) -> Any:
    """Returns random values, large and small, of a leaf's shape and dtype; zeros of integers."""
    if not is_inexact(leaf):
        return leaf
    values = rng.normal(size=leaf.shape) * 10 ** rng.uniform(-1, 3, leaf.shape)
    if leaf.dtype.kind == "c":
        values = values + 1j * rng.normal(size=leaf.shape)
    return wrap(beside(leaf, np.asarray(values, leaf.dtype)))


def _tree_pairing(a: Any, b: Any) -> tuple[float, float]:
    """Returns the real sum of products of two trees' elements, and that of their sizes."""
    products = [
        ops.real(ops.multiply(_in_double(x), _in_double(y)))
        for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True)
    ]
    total = sum(float(ops.sum(p)) for p in products)
    return total, sum(float(ops.sum(ops.abs(p))) for p in products)


def _in_double(x: Array) -> Array:
    """Returns an array in double precision."""
    return ops.astype(x, np.complex128 if shape_dtype(x).dtype.kind == "c" else np.float64)
