"""Types of the values of loops and branches, and the messages where they disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..primitives.core.annotations import ArrayLike, Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import WEAK_TYPES, device_of, owned, to_buffer, too_large, wrap
from ..primitives.core.errors import function_name
from ..primitives.core.python_numbers import INT64_MAX, INT64_MIN, as_python_number
from ..primitives.core.shape_dtype import ShapeDtype, result_type
from ..primitives.elementwise.cast_and_complex import cast
from ..programs.program import Variable, argument_type
from .checks import control_error

if TYPE_CHECKING:
    from ..tree import TreeDef

__all__ = [
    *("BodyTypeError", "Carry", "as_type", "joined_types", "leaves_of", "public", "returned"),
    "same_structure", "unlike_steps",
]  # fmt: skip

WEAK_ORDER: list[type] = [bool, int, float, complex]


class BodyTypeError(TypeError):
    """A loop's body or a branch returned what it must not (docs/errors.md#error-22)."""


def unlike_steps(where: str) -> Callable[[str, str, str], Exception]:
    """Returns what makes the error for a captured value that not all steps of a loop have alike."""

    def error(name: str, line: str, what: str) -> Exception:
        return control_error(
            f"{where}: {name}, which hooks.capture takes at {line}, {what}, so that its values "
            "cannot be stacked",
            "compute it in every step and in every branch, or tag what ft.cond returns: "
            f'ft.tag(ft.cond(...), "{name.rpartition("/")[2]}")',
            BodyTypeError,
        )

    return error


def joined_types(old: ShapeDtype, new: ShapeDtype) -> ShapeDtype | None:
    """Returns the type of a value that may be of either of two types; None where they disagree.

    Python scalars are weak: they take the type of an array. Arrays must agree.

    >>> joined_types(ShapeDtype((), float, float), ShapeDtype((), "float32"))
    float32[]
    """
    if old.shape != new.shape:
        return None
    if old.weak and new.weak:
        return max(old, new, key=lambda known: WEAK_ORDER.index(known.weak or bool))
    if old.dtype == new.dtype:
        return old.strong()
    weak, strong = (old, new) if old.weak else (new, old)
    if weak.weak and result_type(strong.dtype, weak.weak(1)) == strong.dtype:
        return strong
    return None


def as_type(x: Value, known: ShapeDtype) -> Any:
    """Returns a value in a type to which it was joined, at the level of the current trace."""
    got = argument_type(x)
    if got == known or (not got.weak and got.dtype == known.dtype):
        return x
    if not isinstance(x, Tracer):
        if known.weak:
            return known.weak(to_buffer(x))
        # NumPy's scalars do not decide a promotion of their own.
        return wrap(np.asarray(to_buffer(x), known.dtype)[()] if got.weak else cast(x, known.dtype))
    if known.weak:
        return ops.add(x, known.weak(0)) if got.weak else x
    return cast(x, known.dtype)


def public(leaf: ArrayLike) -> Any:
    """Returns a leaf as a body sees it: an array in the processor's byte order.

    Python scalars stay weak, and fit into int64.
    """
    if type(leaf) in WEAK_TYPES:
        number = as_python_number(leaf)
        if type(number) is int and not INT64_MIN <= number <= INT64_MAX:
            raise too_large(number)
        return number
    return in_own_order(leaf if isinstance(leaf, Tracer | Array) else wrap(owned(to_buffer(leaf))))


def in_own_order(x: Any) -> Any:
    """Returns an array in the processor's byte order.

    What is computed has this order, and a carry or a branch's result must agree with it.
    """
    return x if x.dtype.isnative else cast(x, x.dtype.newbyteorder("="))


def returned(x: Value) -> Any:
    """Returns a result as an array, which decides promotions."""
    if isinstance(x, Tracer) and argument_type(x).weak:
        return cast(x, x.dtype)
    return in_own_order(wrap(owned(as_python_number(x))))


def leaves_of(what: str, values: Any) -> tuple[Values, Any, list[str]]:
    """Returns the leaves of a tree of arrays, its structure, and the leaves' names for messages."""
    pairs, treedef = tree.flatten_with_path(values)
    names = [tree.keystr(path) for path, _ in pairs]
    for (_, leaf), name in zip(pairs, names, strict=True):
        if not is_array_like(leaf):
            raise control_error(
                f"{what}{name} is of type {type(leaf).__name__}, not an array",
                "arrays and numbers go through a loop or a branch; close over all else",
                BodyTypeError,
            )
    return [public(leaf) for _, leaf in pairs], treedef, names


def same_structure(what: str, got: TreeDef, wanted: TreeDef, instead: str, fix: str) -> None:
    """Raises a `BodyTypeError` where two structures differ."""
    if got != wanted:
        raise control_error(f"{what} is {got}, {instead} {wanted}", fix, BodyTypeError)


class Carry:
    """The carry of a loop: its structure and the leaves' types.

    Args:
        loop, body: the name of the loop, and its body, for messages.
        init: the value to begin with, a tree of arrays.
        own: numbers of the loop's own, which stand before that.

    Attributes:
        leaves, types: those numbers and the value's leaves, and their types.
        treedef: the value's structure.
    """

    def __init__(
        self, loop: str, body: Callable[..., Any], init: Any, own: Sequence[Any] = ()
    ) -> None:
        self.where = f"{loop} of {function_name(body)}: "
        leaves, self.treedef, names = leaves_of(f"{self.where}the initial value", init)
        self.leaves = [*map(public, own), *leaves]
        self.names = ["" for _ in own] + names
        self.types = [argument_type(leaf) for leaf in self.leaves]

    def shown_names(self) -> list[str]:
        """Returns what messages call the carry's leaves; the loop's own numbers have no names."""
        own = len(self.leaves) - self.treedef.num_leaves
        return [""] * own + [f"carry{name}" for name in self.names[own:]]

    def variables(self) -> list[Variable]:
        """Returns variables of the carry's types, on the devices of its leaves."""
        pairs = zip(self.leaves, self.types, strict=True)
        return [Variable(known, device_of(x)) for x, known in pairs]

    def flat(self, out: Any) -> Values:
        """Returns the leaves of the value that a body returned, which has the same structure."""
        what = f"{self.where}the carry that the body returned"
        leaves, treedef, _ = leaves_of(what, out)
        fix = "return from the body a carry of the structure of the initial value"
        same_structure(what, treedef, self.treedef, "but it was given", fix)
        return leaves

    def meet(self, outs: Sequence[ShapeDtype]) -> bool:
        """Joins the types with those that the body returned, and says whether they have changed."""
        types = []
        for name, known, out in zip(self.names, self.types, outs, strict=True):
            both = joined_types(known, out)
            if both is None or (not known.weak and both != known):
                what = f"{self.where}carry{name} came in as {known} and was returned as {out}"
                change = f"np.broadcast_to(init, {out.shape}), or return an array of shape"
                fix = f"{change} {known.shape}"
                if known.shape == out.shape:
                    fix = f'return x.astype("{known.dtype}"), or begin with '
                    fix += f'np.astype(init, "{out.dtype}")'
                raise control_error(what, fix, BodyTypeError)
            types.append(both)
        changed = types != self.types
        self.types = types
        return changed

    def cast(self, values: Values) -> Values:
        """Returns values in the carry's types."""
        return [as_type(x, known) for x, known in zip(values, self.types, strict=True)]
