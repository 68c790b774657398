"""``associative_scan``: all prefixes of an associative operation, in logarithmically many steps."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.errors import AxisSizeError, RuleResultError, describe, function_name
from ..primitives.core.shape_dtype import shape_dtype
from .carry_types import leaves_of, same_structure
from .checks import check_body_function, control_error

__all__ = ["associative_scan"]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Returns the results of an associative operation on all prefixes of arrays.

    Pairs are combined first, and the scan of those is every second result. So there are about
    2 log2(n) steps of operations on many elements each, and about 2 n combinations.

    Args:
        fn: takes two trees like ``elems``, with slices along the axis, and returns one: each slice
            of the first combined with its counterpart. It is associative.
        elems: a tree of arrays with a common length along the axis.
        reverse: whether to combine from the end on.
        axis: the axis.

    Returns:
        A tree like ``elems``: in place i the combination of the elements up to i; with
        ``reverse`` of those from i on, the later ones as the first argument.

    Raises:
        AxisSizeError: the arrays have different lengths, or one does not have the axis.
        BodyTypeError: the function returns another structure.
        TypeError: ``fn`` is no function.

    The scheme is that of R. E. Ladner and M. J. Fischer, "Parallel prefix computation", Journal of
    the ACM 27 (1980).

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.associative_scan(np.maximum, np.array([1.0, 3.0, 2.0, 5.0]))
    Array([1., 3., 3., 5.], dtype=float64, device='cpu')
    """
    check_body_function("associative_scan", "fn", fn, "associative_scan(np.add, elems)")
    where = f"associative_scan of {function_name(fn)}: "
    leaves, treedef, names = leaves_of(f"{where}elems", elems)
    axis = operator.index(axis)
    shapes = [shape_dtype(leaf).shape for leaf in leaves]
    for leaf, name, shape in zip(leaves, names, shapes, strict=True):
        if not -len(shape) <= axis < len(shape):
            what = f"{where}elems{name} is {describe(leaf)}, which has no axis {axis}"
            fix = "give every array the axis that is scanned: axis=0 is the first one"
            raise control_error(what, fix, AxisSizeError, 10)
    axes = [axis % len(shape) for shape in shapes]
    lengths = [shape[i] for shape, i in zip(shapes, axes, strict=True)]
    if len(set(lengths)) > 1:
        rows = [f"    elems{n}: {describe(x)}" for n, x in zip(names, leaves, strict=True)]
        what = f"{where}the arrays differ in length along axis {axis}\n" + "\n".join(rows)
        fix = "give all arrays the same length along the axis"
        raise control_error(what, fix, AxisSizeError, 10)

    def combine(a: Values, b: Values) -> Values:
        result = fn(treedef.unflatten(a), treedef.unflatten(b))
        out, got, _ = leaves_of(f"{where}the result", result)
        same_structure(
            f"{where}the result", got, treedef, "but the elements are", "return a tree like elems"
        )
        for x, y, name in zip(out, a, names, strict=True):
            if shape_dtype(x).shape != shape_dtype(y).shape:
                what = f"{where}the result{name} is {describe(x)} for operands {describe(y)}"
                fix = "combine slices element by element along the axis"
                raise control_error(what, fix, RuleResultError, 9)
        return out

    prefixes = Prefixes(combine, axes)
    if reverse:
        leaves = prefixes.flipped(leaves)
    outs = prefixes(leaves, lengths[0]) if leaves else []
    if reverse:
        outs = prefixes.flipped(outs)
    return treedef.unflatten(outs)


class Prefixes:
    """Combines all prefixes of arrays, each along an axis of its own, by an operation on lists."""

    def __init__(self, combine: Callable[[Values, Values], Values], axes: Sequence[int]) -> None:
        self.combine = combine
        self.axes = axes

    def __call__(self, xs: Values, length: int) -> Values:
        """Returns the combinations of the first elements, for every number of them."""
        if length < 2:
            return xs
        evens, odds = self.cut(xs, slice(0, None, 2)), self.cut(xs, slice(1, None, 2))
        at_odds = self(self.combine(self.cut(evens, slice(0, length // 2)), odds), length // 2)
        rest = (length - 1) // 2
        if not rest:
            return self.interleaved(evens, at_odds, 1)
        inner = self.combine(self.cut(at_odds, slice(0, rest)), self.cut(evens, slice(1, None)))
        pairs = zip(self.cut(evens, slice(0, 1)), inner, self.axes, strict=True)
        at_evens = [ops.concatenate((a, b), axis=i) for a, b, i in pairs]
        return self.interleaved(at_evens, at_odds, rest + 1)

    def cut(self, xs: Values, piece: slice) -> Values:
        """Returns the elements of arrays in a slice of their axes."""
        return [slice_along(x, i, piece) for x, i in zip(xs, self.axes, strict=True)]

    def flipped(self, xs: Values) -> Values:
        """Returns arrays with the elements in the opposite order."""
        return self.cut(xs, slice(None, None, -1))

    def interleaved(self, evens: Values, odds: Values, count: int) -> Values:
        """Returns arrays of two arrays' elements in turn; the first may have one more."""
        out = []
        for a, b, i in zip(evens, odds, self.axes, strict=True):
            shape = shape_dtype(b).shape
            both = shape[i]
            pairs = ops.stack((slice_along(a, i, slice(0, both)), b), axis=i + 1)
            joined = ops.reshape(pairs, (*shape[:i], 2 * both, *shape[i + 1 :]))
            if count > both:
                joined = ops.concatenate((joined, slice_along(a, i, slice(both, None))), axis=i)
            out.append(joined)
        return out


def slice_along(x: Value, axis: int, piece: slice) -> Value:
    """Returns the elements of an array in a slice of an axis."""
    return ops.index(x, (*(slice(None),) * axis, piece))
