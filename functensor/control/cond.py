"""``cond`` and ``switch``: one of several functions, chosen by a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.restoring import quiet
from ..primitives.core.annotations import ArrayLike, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import is_staged
from ..programs.program import Variable, argument_type
from ..tree import containers as tree
from .body import Body, known, united
from .carry_types import (
    BodyTypeError,
    as_type,
    joined_types,
    leaves_of,
    public,
    returned,
    same_structure,
)
from .checks import check_body_function, check_scalar, control_error, shown_argument
from .cond_rules import CondCall

if TYPE_CHECKING:
    from ..functions.type_variables import R, T
    from ..primitives.core.array import Array

__all__ = ["cond", "switch"]


def cond(
    pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., T], *operands: Any
) -> R | T:
    """Returns what one of two functions returns: ``true_fun(*operands)`` if ``pred`` holds.

    Only that function runs. Under ``vmap`` with a condition that depends on the example both run,
    and the results are selected.

    Args:
        pred: a boolean or a number without axes, a traced one as well.
        true_fun, false_fun: take the operands and return trees of arrays of the same structure,
            shapes and dtypes; they may close over traced values.
        operands: trees of arrays.

    Returns:
        That tree of arrays.

    Raises:
        BodyTypeError: within ``jit``, the functions return different types.
        TypeError: the condition is no scalar, or what is to be called no function.

    >>> import functensor as ft, functensor.numpy as np
    >>> def root(x):
    ...     return ft.cond(x > 0, np.sqrt, np.zeros_like, x)
    >>> root(4.0), ft.vmap(root)(np.array([4.0, -1.0])), ft.grad(root)(4.0)
    (Array(2., dtype=float64, device='cpu'), Array([2., 0.], dtype=float64, device='cpu'), \
Array(0.25, dtype=float64, device='cpu'))
    """
    for name, fun in (("true_fun", true_fun), ("false_fun", false_fun)):
        check_body_function(
            "cond", name, fun, f"cond(pred, ...) with {name}=lambda *operands: value"
        )
    check_scalar(
        "cond: pred is",
        pred,
        "fiubc",
        "a boolean or a number",
        (
            "cond(x > 0, true_fun, false_fun, x)",
            "cond(np.any(pred), ...); np.where(pred, x, y) chooses element by element",
        ),
    )
    pred = public(pred)
    if argument_type(pred).dtype.kind != "b":
        pred = pred != 0
    names = ["false_fun", "true_fun"]
    chosen: R | T = _chosen_branch("cond", pred, [false_fun, true_fun], names, operands)
    return chosen


def switch(index: ArrayLike, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """Returns what one of several functions returns: ``branches[index](*operands)``.

    Args:
        index: an integer without axes; one out of range means the first or the last function.
        branches: functions as those of `cond`.
        operands: trees of arrays.

    Returns:
        The tree of arrays that the function returns.

    Raises:
        BodyTypeError: within ``jit``, the functions return different types.
        TypeError: the index is no integer scalar, or what is to be called no function.
        ValueError: there is no function.

    >>> import functensor as ft, functensor.numpy as np
    >>> [float(ft.switch(i, [np.sin, np.cos, np.exp], 0.0)) for i in (0, 1, 7)]
    [0.0, 1.0, 1.0]
    """
    right = "switch(index, [lambda x: x, np.sin], x)"
    if not isinstance(branches, Iterable):
        raise control_error(
            f"switch: branches is {shown_argument(branches)}, not a list of functions", right
        )
    branches = list(branches)
    if not branches:
        raise control_error("switch: branches is empty", right, ValueError)
    for i, fun in enumerate(branches):
        check_body_function("switch", f"branches[{i}]", fun, right)
    check_scalar(
        "switch: index is",
        index,
        "iu",
        "an integer",
        (
            "switch(np.astype(index, int), branches, ...)",
            "vmap(lambda i: switch(i, branches, ...))(index) chooses element by element",
        ),
    )
    index = public(index)
    names = [f"branches[{i}]" for i in range(len(branches))]
    if len(branches) == 1:
        chosen: R = _public_tree(branches[0](*operands))
        return chosen
    chosen = _chosen_branch("switch", index, branches, names, operands)
    return chosen


def _public_tree(out: Any) -> Any:
    return tree.map(lambda leaf: returned(leaf) if is_array_like(leaf) else leaf, out)


def _chosen_branch(
    what: str,
    index: Any,
    branches: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: tuple[Any, ...],
) -> Any:
    """Returns what the branch of an index returns."""
    if known(index):
        number = min(max(int(index), 0), len(branches) - 1)
        return _public_tree(branches[number](*operands))
    if not is_staged():
        return _selected_branch(what, index, branches, names, operands)
    results = Results(what, names)

    def flat(number: int) -> Callable[[Values], Values]:
        return lambda values: results.flat(number, branches[number](*operands))

    bodies = [
        Body(flat(i), (), f"{what}: {names[i]}", fun, lazy=True) for i, fun in enumerate(branches)
    ]
    types = results.agreed([body.types for body in bodies])
    programs = [body.program(types) for body in bodies]
    united_programs, captured = united(programs, [body.captured() for body in bodies])
    call = CondCall(united_programs, Variable(argument_type(index), device_of(index)), what)
    return results.unflatten(call.bind([index, *captured]))


def _selected_branch(
    what: str,
    index: Array,
    branches: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: tuple[Any, ...],
) -> Any:
    """Runs all branches and selects, for an index that differs by example."""
    if argument_type(index).dtype.kind == "b":
        index = ops.astype(index, int)
    index = ops.clip(index, 0, len(branches) - 1)
    results = Results(what, names)
    rows = []
    for i, fun in enumerate(branches):
        mine = index == i

        def gated(leaf: Any, mine: Any = mine) -> Any:
            # What a branch would compute for other examples is not to be seen in derivatives.
            if known(leaf) or shape_dtype(leaf).dtype.kind not in "fcV":
                return leaf
            return ops.where(mine, leaf, ops.stop_gradient(leaf))

        # What other examples would give in this branch is no concern of the user's.
        with quiet():
            rows.append((mine, results.flat(i, fun(*tree.map(gated, operands)))))
    types = results.agreed([[argument_type(x) for x in row] for _, row in rows])
    outs = [as_type(x, known) for x, known in zip(rows[0][1], types, strict=True)]
    for mine, row in rows[1:]:
        outs = [
            ops.where(mine, as_type(new, known), old)
            for new, old, known in zip(row, outs, types, strict=True)
        ]
    return results.unflatten(outs)


class Results:
    """The results of branches, which have one structure and the same types.

    Args:
        what: what chooses between them.
        names: what messages call the branches.
    """

    def __init__(self, what: str, names: Sequence[str]) -> None:
        self.what = what
        self.names = names
        self.treedef: Any = None
        self.leaves: list[str] = []

    def flat(self, number: int, out: Any) -> Values:
        """Returns the leaves of what a branch returned, of the structure that all return."""
        what = f"{self.what}: the result of {self.names[number]}"
        values, treedef, self.leaves = leaves_of(what, out)
        if self.treedef is None:
            self.treedef = treedef
        fix = "return the same structure from all branches"
        same_structure(what, treedef, self.treedef, f"that of {self.names[0]}", fix)
        return values

    def agreed(self, types: Sequence[Sequence[ShapeDtype]]) -> list[ShapeDtype]:
        """Returns the types of the results, of those of every branch.

        Raises:
            BodyTypeError: they disagree; the message names the leaf.
        """
        out = []
        for name, column in zip(self.leaves, zip(*types), strict=True):
            both = first = column[0]
            for branch, found in zip(self.names, column, strict=True):
                joined = joined_types(both, found)
                if joined is None:
                    raise control_error(
                        f"{self.what}: the result{name} of {branch} is {found}, "
                        f"that of {self.names[0]} {first}",
                        f'x.astype("{first.dtype}") in {branch}'
                        if found.shape == first.shape
                        else "return arrays of the same shape from all branches",
                        BodyTypeError,
                    )
                both = joined
            out.append(both.strong())
        return out

    def unflatten(self, values: Sequence[Any]) -> Any:
        """Returns the tree of the results' leaves."""
        return self.treedef.unflatten([returned(x) for x in values])
