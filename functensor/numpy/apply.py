"""Functions of slices, of elements and of indices, applied to whole arrays at once.

NumPy loops; here vmap calls each function once, with traced values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial, update_wrapper
from math import prod
from typing import Any, TypeAlias, overload

import numpy as np

from ..backends.annotations import Axis, DTypeLike, Shape
from ..backends.errors.public_functions import check_function, wrap_methods
from ..functions.type_variables import R
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import checked_number
from ..primitives.core.errors import describe, function_line, misfit
from ..primitives.core.shape_dtype import broadcast_shapes, canonical_axis
from ..transforms.vmap import vmap
from .arguments import array_beside
from .creation import asarray
from .known_values import is_at_hand, value_of
from .reshaping import indices
from .zeros_ones import zeros_like

__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "piecewise", "vectorize"]

# The result of a vectorized function.
ResultsOfVectorized: TypeAlias = Array | tuple[Array, ...]


@ops.add_function
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """Returns what a function of one axis makes of all slices along an axis.

    Args:
        func1d: takes an array of one axis, and returns an array or a number; it is called once,
            under vmap.
        axis: along which axis the slices lie.
        arr: an array.
        args, kwargs: what else func1d gets.

    Returns:
        An array in which the axes of the results stand in the place of ``axis``.

    >>> import functensor.numpy as np
    >>> np.apply_along_axis(lambda x: x[0] - x[-1], 1, np.array([[1.0, 2.0], [5.0, 3.0]]))
    Array([-1.,  2.], dtype=float64, device='cpu')
    """
    check_function("apply_along_axis", func1d, "func1d")
    arr = asarray(arr)
    axis = canonical_axis(axis, len(arr.shape))
    moved = ops.moveaxis(arr, axis, -1)
    others = moved.shape[:-1]
    rows = ops.reshape(moved, (prod(others), arr.shape[axis]))
    out = vmap(lambda row: asarray(func1d(row, *args, **kwargs)))(rows)
    own = out.shape[1:]
    out = ops.reshape(out, (*others, *own))
    last = range(len(others), len(others) + len(own))
    return ops.moveaxis(out, list(last), [axis + i for i in range(len(own))])


@ops.add_function
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Axis) -> Array:
    """Returns what a function that works along an axis makes of one axis after another.

    Args:
        func: ``func(a, axis)`` returns an array with as many axes, or without that one.
        a: an array.
        axes: an axis or several.

    Returns:
        An array with as many axes as a has.

    >>> import functensor.numpy as np
    >>> np.apply_over_axes(np.sum, np.ones((2, 3, 4)), (0, 2)).shape
    (1, 3, 1)
    """
    check_function("apply_over_axes", func, "func")
    out = asarray(a)
    rank = len(out.shape)
    for axis in axes if isinstance(axes, tuple | list) else (axes,):
        place = canonical_axis(int(axis), rank)
        made = asarray(func(out, place))
        if len(made.shape) == rank - 1:
            made = ops.expand_dims(made, place)
        if len(made.shape) != rank:
            raise misfit(
                f"apply_over_axes: the function turned shape {out.shape} into {made.shape}",
                "np.sum(x, axis, keepdims=True): the function keeps the axis, or takes it away",
            )
        out = made
    return out


def fromfunction(
    function: Callable[..., R], shape: Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any
) -> R:
    """Returns what a function makes of the indices of all elements of a shape.

    Args:
        function: takes an array of indices for each axis.
        shape: the shape.
        dtype: the dtype of the indices.
        kwargs: what else the function gets.

    >>> import functensor.numpy as np
    >>> np.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int64, device='cpu')
    """
    check_function("fromfunction", function, "function")
    return function(*indices(shape, dtype), **kwargs)


@ops.add_function
def piecewise(
    x: ArrayLike, condlist: ArrayLike, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Array:
    """Returns for every element what the function of the last condition that holds makes of it.

    Args:
        x: an array.
        condlist: boolean arrays that broadcast to x's shape.
        funclist: for each a function of arrays, element by element, or a number; one more for where
            no condition holds, which is 0 otherwise. A function does not see elements for which its
            condition does not hold, so that its derivative cannot fail there.
        args, kw: what else the functions get.

    Returns:
        An array of x's shape and dtype.

    >>> import functensor as ft, functensor.numpy as np
    >>> f = lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda x: -x, np.sqrt])
    >>> ft.grad(lambda x: f(x).sum())(np.array([-1.0, 4.0]))
    Array([-1.  ,  0.25], dtype=float64, device='cpu')
    """
    x = asarray(x)
    several = isinstance(condlist, list | tuple) and (
        not condlist or not np.isscalar(condlist[0]) or not x.shape
    )
    given: Any = condlist
    listed = list(given) if several or len(np.shape(given)) > len(x.shape) else [condlist]
    conditions = [ops.broadcast_to(ops.astype(array_beside(x, c), bool), x.shape) for c in listed]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        held = ops.any(ops.stack(conditions), 0) if conditions else zeros_like(x, bool)
        conditions.append(ops.logical_not(held))
    if len(functions) != len(conditions):
        raise ValueError(f"piecewise: {len(functions)} functions for {len(conditions)} conditions")
    out = zeros_like(x)
    for condition, function in zip(conditions, functions, strict=True):
        if callable(function):
            if is_at_hand(condition) and not np.any(value_of("piecewise", condition, "")):
                continue
            made = asarray(function(_only_where(x, condition), *args, **kw))
            if not _broadcasts_to(made.shape, x.shape):
                raise misfit(
                    f"piecewise: {function_line(function)} returned {describe(made)} for "
                    f"{describe(x)}",
                    "return an array of the argument's shape, or a number",
                )
        else:
            made = checked_number(function, x.dtype)
        out = ops.where(condition, ops.astype(asarray(made), x.dtype), out)
    return out


def _broadcasts_to(shape: Shape, wanted: Shape) -> bool:
    """Says whether a shape broadcasts to another one."""
    pairs = zip(reversed(shape), reversed(wanted))
    return len(shape) <= len(wanted) and all(m in (1, n) for m, n in pairs)


def _only_where(x: Array, condition: Array) -> Array:
    """Returns an array with all elements replaced for which a condition does not hold."""
    if not x.size:
        return x
    # The substitute fulfils the condition; without one it is 1, which most functions take.
    place = ops.argmax(ops.reshape(condition, -1))
    other = ops.take(ops.reshape(ops.stop_gradient(x), -1), place)
    return ops.where(condition, x, ops.where(ops.any(condition), other, 1))


# -- functions of elements


def _parsed_signature(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    """Returns the names of the axes of each argument and of each result."""
    sides = signature.replace(" ", "").split("->")
    groups = [re.findall(r"\(([^()]*)\)", side) for side in sides]
    written = [",".join(f"({group})" for group in side) for side in groups]
    if len(sides) != 2 or written != sides or not groups[1]:
        raise ValueError(f"vectorize: {signature!r} is no signature such as '(m,n),(n)->(m)'")
    arguments, results = (
        [[name for name in group.split(",") if name] for group in side] for side in groups
    )
    return arguments, results


def _enter_lengths(names: Sequence[str], shape: Shape, known: dict[str, int]) -> None:
    """Enters the lengths of axes under their names, or checks that they are those known."""
    for name, length in zip(names, shape, strict=True):
        if known.setdefault(name, length) != length:
            raise misfit(
                f"vectorize: axis {name!r} has length {known[name]} and length {length}",
                "np.vectorize(f, signature=...), with one name for each length",
            )


class _Vectorized:
    """A function of elements, or of axes that a signature names, applied to all others."""

    def __init__(
        self,
        function: Callable[..., Any],
        otypes: str | Sequence[DTypeLike] | None,
        doc: str | None,
        excluded: Collection[int | str] | None,
        signature: str | None,
    ) -> None:
        update_wrapper(self, function)
        self.pyfunc = function
        self.signature = signature
        self._types = None if otypes is None else [np.dtype(t) for t in otypes]
        self._excluded = frozenset(excluded or ())
        self._parsed = None if signature is None else _parsed_signature(signature)
        if doc is not None:
            self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> ResultsOfVectorized:
        names: list[int | str] = [*range(len(args)), *kwargs]
        values = [*args, *kwargs.values()]
        mapped = [i for i, name in enumerate(names) if name not in self._excluded]
        if self._parsed is None:
            # There is nothing in None to go over.
            mapped = [i for i in mapped if values[i] is not None]
        arrays = [asarray(values[i]) for i in mapped]
        cores: list[list[str]] = [[] for _ in arrays]
        if self._parsed is not None:
            cores = self._parsed[0]
            if len(cores) != len(arrays):
                raise TypeError(
                    f"vectorize: {len(arrays)} arguments for the signature {self.signature}"
                )
        lengths: dict[str, int] = {}
        for x, letters in zip(arrays, cores, strict=True):
            if len(x.shape) < len(letters):
                raise misfit(
                    f"vectorize: an argument of shape {x.shape} lacks axes of {self.signature}",
                    "np.vectorize(f, signature=...), with the axes that every call gets",
                )
            _enter_lengths(letters, x.shape[len(x.shape) - len(letters) :], lengths)
        loops = [x.shape[: len(x.shape) - len(own)] for x, own in zip(arrays, cores, strict=True)]
        shape = broadcast_shapes("vectorize", (), *loops)

        def call(*own: Array) -> ResultsOfVectorized:
            filled = list(values)
            for i, value in zip(mapped, own, strict=True):
                filled[i] = value
            rest = dict(zip(kwargs, filled[len(args) :], strict=True))
            out = self.pyfunc(*filled[: len(args)], **rest)
            return tuple(map(asarray, out)) if isinstance(out, tuple) else asarray(out)

        # Messages then name the function that was given, and its line.
        call.__wrapped__ = self.pyfunc  # type: ignore[attr-defined]
        if not shape:
            return self._shaped(call(*arrays), (), lengths)
        rows: list[Array] = []
        axes: list[int | None] = []
        for x, loop in zip(arrays, loops, strict=True):
            core = x.shape[len(loop) :]
            alike = all(n == 1 for n in loop)
            axes.append(None if alike else 0)
            if alike:
                rows.append(ops.reshape(x, core))
            else:
                whole = ops.broadcast_to(x, (*shape, *core))
                rows.append(ops.reshape(whole, (prod(shape), *core)))
        out = vmap(call, in_axes=tuple(axes), axis_size=prod(shape))(*rows)
        return self._shaped(out, shape, lengths)

    def _shaped(
        self, out: ResultsOfVectorized, shape: Shape, lengths: dict[str, int]
    ) -> ResultsOfVectorized:
        """Returns results with the axes of the loop, and the dtypes that were asked for."""
        results = list(out) if isinstance(out, tuple) else [out]
        if self._parsed is not None:
            wanted = self._parsed[1]
            if len(results) != len(wanted):
                raise ValueError(f"vectorize: {len(results)} results for {self.signature}")
            for x, core in zip(results, wanted, strict=True):
                own = x.shape[1:] if shape else x.shape
                if len(own) != len(core):
                    raise misfit(
                        f"vectorize: a result of shape {own} for {self.signature}",
                        "np.vectorize(f, signature=...), with the axes that every call returns",
                    )
                _enter_lengths(core, own, lengths)
        if shape:
            results = [ops.reshape(x, (*shape, *x.shape[1:])) for x in results]
        if self._types is not None:
            results = [ops.astype(x, t) for x, t in zip(results, self._types, strict=True)]
        return tuple(results) if isinstance(out, tuple) else results[0]


@overload
def vectorize(
    pyfunc: Callable[..., Any], otypes: str | Sequence[DTypeLike] | None = ...,
    doc: str | None = ..., excluded: Collection[int | str] | None = ..., cache: bool = ...,
    signature: str | None = ...,
) -> _Vectorized: ...  # fmt: skip


@overload
def vectorize(
    pyfunc: None = None, otypes: str | Sequence[DTypeLike] | None = ...,
    doc: str | None = ..., excluded: Collection[int | str] | None = ..., cache: bool = ...,
    signature: str | None = ...,
) -> Callable[[Callable[..., Any]], _Vectorized]: ...  # fmt: skip


def vectorize(
    pyfunc: Callable[..., Any] | None = None,
    otypes: str | Sequence[DTypeLike] | None = None,
    doc: str | None = None,
    excluded: Collection[int | str] | None = None,
    cache: bool = False,
    signature: str | None = None,
) -> _Vectorized | Callable[[Callable[..., Any]], _Vectorized]:
    """Returns a function of elements as one of arrays, which broadcast to each other.

    The function is called once, under vmap, with traced values: where it decides by a value it
    uses `where` rather than ``if``.

    Args:
        pyfunc: takes and returns numbers, or arrays with the axes of a signature; returns a tuple
            for several results. Without it a decorator is returned.
        otypes: the dtypes of the results; by default those that the function returns.
        doc: the new function's docstring; that of ``pyfunc`` by default.
        excluded: positions and names of arguments that are handed on as they are, as None is.
        cache: of no effect: the function is called once anyway.
        signature: which axes the function takes and returns, as ``"(m,n),(n)->(m)"``.

    Returns:
        A function, with the original one as its attribute ``pyfunc``.

    Raises:
        ValueError: it is no signature.
        ShapeError: when called: axes of one name differ in length.

    >>> import functensor.numpy as np
    >>> clipped = np.vectorize(lambda x, low: np.where(x < low, low, x))
    >>> clipped(np.array([1.0, 2.0, 3.0]), 2.0)
    Array([2., 2., 3.], dtype=float64, device='cpu')
    """
    if pyfunc is None:
        return partial(
            vectorize, otypes=otypes, doc=doc, excluded=excluded, cache=cache, signature=signature
        )
    check_function("vectorize", pyfunc, "pyfunc")
    return _Vectorized(pyfunc, otypes, doc, excluded, signature)


wrap_methods(_Vectorized, "vectorize(f)", ("__call__",))
