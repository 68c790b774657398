"""``cond`` and ``switch``: one of several functions, chosen by a value.

In a program they are one operation, whose derivatives and batches are in ``cond_rules.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..backends.restoring import quiet
from ..functions.type_variables import R, T
from ..jitting.program_call import Flat
from ..primitives.core.annotations import ArrayLike, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import below_hooks, is_staged
from ..programs.program import Variable, argument_type
from ..tree import containers as tree
from .body import Body, known, run_in_place, united
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

__all__ = ["cond", "switch"]


def cond(
    pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., T], *operands: Any
) -> R | T:
    """Returns the result of one of two functions: ``true_fun(*operands)`` if ``pred`` holds.

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
        TypeError: the condition is no scalar, or ``true_fun`` or ``false_fun`` no function.

    >>> import functensor as ft, functensor.numpy as np
    >>> def root(x):
    ...     return ft.cond(x > 0, np.sqrt, np.zeros_like, x)
    >>> root(4.0), ft.vmap(root)(np.array([4.0, -1.0])), ft.grad(root)(4.0)
    (Array(2., dtype=float64, device='cpu'), Array([2., 0.], dtype=float64, device='cpu'), \
Array(0.25, dtype=float64, device='cpu'))
    """
    for name, fun in (("true_fun", true_fun), ("false_fun", false_fun)):
        fix = f"cond(pred, ...) with {name}=lambda *operands: value"
        check_body_function("cond", name, fun, fix)
    fixes = (
        "cond(x > 0, true_fun, false_fun, x)",
        "cond(np.any(pred), ...); np.where(pred, x, y) chooses element by element",
    )
    check_scalar("cond: pred is", pred, "fiubc", "a boolean or a number", fixes)
    pred = public(pred)
    if argument_type(pred).dtype.kind != "b":
        pred = pred != 0
    names = ["false_fun", "true_fun"]
    chosen: R | T = Branches("cond", [false_fun, true_fun], names, operands).chosen(pred)
    return chosen


def switch(index: ArrayLike, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """Returns the result of one of several functions: ``branches[index](*operands)``.

    Args:
        index: an integer without axes; one out of range means the first or the last function.
        branches: functions as those of `cond`.
        operands: trees of arrays.

    Returns:
        The tree of arrays that the function returns.

    Raises:
        BodyTypeError: within ``jit``, the functions return different types.
        TypeError: the index is no integer scalar, or a branch no function.
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
    fixes = (
        "switch(np.astype(index, int), branches, ...)",
        "vmap(lambda i: switch(i, branches, ...))(index) chooses element by element",
    )
    check_scalar("switch: index is", index, "iu", "an integer", fixes)
    index = public(index) if len(branches) > 1 else 0
    names = [f"branches[{i}]" for i in range(len(branches))]
    chosen: R = Branches("switch", branches, names, operands).chosen(index)
    return chosen


class Branches:
    """The branches of one call, whose results have one structure and the same types.

    Args:
        what: ``cond`` or ``switch``, for messages.
        functions: the branches.
        names: their names in messages.
        operands: their arguments.
    """

    def __init__(
        self,
        what: str,
        functions: Sequence[Callable[..., Any]],
        names: Sequence[str],
        operands: tuple[Any, ...],
    ) -> None:
        self.what = what
        self.functions = functions
        self.names = names
        self.operands = operands
        self.treedef: Any = None
        self.leaves: list[str] = []

    def chosen(self, index: Any) -> Any:
        """Returns the result of the branch of an index; one out of range means the nearest."""
        if known(index):
            number = min(max(int(index), 0), len(self.functions) - 1)
            out = self.in_place(number)(*self.operands)
            return tree.map(lambda leaf: returned(leaf) if is_array_like(leaf) else leaf, out)
        values = self.staged(index) if is_staged() else self.selected(index)
        return self.treedef.unflatten([returned(x) for x in values])

    def in_place(self, number: int) -> Callable[..., Any]:
        """Returns a branch that Python runs."""
        fun = self.functions[number]
        return run_in_place(f"{self.what}: {self.names[number]}", fun, fun)

    def staged(self, index: Any) -> Values:
        """Returns the leaves of the result, of a call that runs one of the branches."""

        def flat(number: int) -> Flat:
            return lambda values: self.flat(number, self.functions[number](*self.operands))

        bodies = [
            Body(flat(i), (), f"{self.what}: {self.names[i]}", fun, lazy=True)
            for i, fun in enumerate(self.functions)
        ]
        types = self.agreed([body.types for body in bodies])
        programs = [body.program(types) for body in bodies]
        programs, captured = united(programs, [body.captured() for body in bodies])
        variable = Variable(argument_type(index), device_of(index))
        return CondCall(programs, variable, self.what).bind([index, *captured])

    def selected(self, index: Array) -> Values:
        """Returns the leaves of the result, for an index that differs by example: all run.

        Hooks see what the functions do, and not how it is put together, as in a program.
        """
        with below_hooks():
            if argument_type(index).dtype.kind == "b":
                index = ops.astype(index, int)
            index = ops.clip(index, 0, len(self.functions) - 1)
            chosen = [ops.equal(index, i) for i in range(len(self.functions))]
        rows: list[Values] = []
        for number, mine in enumerate(chosen):

            def gated(leaf: Any, mine: Any = mine) -> Any:
                # Other examples' values in this branch have no part in derivatives.
                if known(leaf) or shape_dtype(leaf).dtype.kind not in "fcV":
                    return leaf
                return ops.where(mine, leaf, ops.stop_gradient(leaf))

            # Other examples may give NaN here, which nobody is to be warned of.
            with quiet():
                with below_hooks():
                    operands = tree.map(gated, self.operands)
                rows.append(self.flat(number, self.in_place(number)(*operands)))
        types = self.agreed([[argument_type(x) for x in row] for row in rows])
        with below_hooks():
            outs = [as_type(x, known) for x, known in zip(rows[0], types, strict=True)]
            for mine, row in zip(chosen[1:], rows[1:], strict=True):
                outs = [
                    ops.where(mine, as_type(new, known), old)
                    for new, old, known in zip(row, outs, types, strict=True)
                ]
        return outs

    def flat(self, number: int, out: Any) -> Values:
        """Returns the leaves of a branch's result, which has the structure of all results."""
        what = f"{self.what}: the result of {self.names[number]}"
        values, treedef, self.leaves = leaves_of(what, out)
        if self.treedef is None:
            self.treedef = treedef
        fix = "return the same structure from all branches"
        same_structure(what, treedef, self.treedef, f"that of {self.names[0]}", fix)
        return values

    def agreed(self, types: Sequence[Sequence[ShapeDtype]]) -> list[ShapeDtype]:
        """Returns the types of the results, of those of every branch, which must not disagree."""
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
