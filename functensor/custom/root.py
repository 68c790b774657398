"""Solutions of equations, differentiated by the implicit function theorem.

A solver's own steps have no part in it. The derivative of a solution x of f(x, p) = 0 is that of
the equation, ``-(df/dx)^-1 df/dp``, in both modes and to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..backends.errors.public_functions import check_function
from ..functions.closure import close, kept_as_it_is
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.buffers import beside, owned, wrap
from ..primitives.core.errors import RuleResultError, message
from ..primitives.core.shape_dtype import ShapeDtype, finfo, shape_dtype
from ..primitives.linalg.solving import solve
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap
from .call import CustomCall, replaced

if TYPE_CHECKING:
    from ..backends.annotations import DType
    from ..primitives.core.array import Array
    from ..tree import TreeDef

__all__ = ["ImplicitCall", "custom_root", "dense_solve", "from_vector", "to_vector"]


# -- leaves as one vector of real numbers


def to_vector(leaves: Sequence[Any], dtype: Any = None) -> Array:
    """Returns the elements of arrays as one real vector: of complex ones, both parts.

    Args:
        leaves: arrays.
        dtype: the vector's; by default the one to which the parts promote.

    >>> to_vector([np.ones(2), np.array(1 + 2j)])
    Array([1., 1., 1., 2.], dtype=float64, device='cpu')
    """
    parts = []
    for leaf in leaves:
        flat = ops.reshape(leaf, (-1,))
        parts += [ops.real(flat), ops.imag(flat)] if flat.dtype.kind == "c" else [flat]
    if not parts:
        return wrap(np.zeros(0, dtype or np.float64))
    vector = ops.concatenate(parts)
    return vector if dtype is None else ops.astype(vector, dtype)


def from_vector(vector: Array, types: Sequence[ShapeDtype]) -> Values:
    """Returns arrays, of given shapes and dtypes, with the elements of a real vector."""
    leaves, start = [], 0

    def part(size: int, dtype: DType) -> Array:
        nonlocal start
        start += size
        return ops.astype(vector[start - size : start], dtype)

    for known in types:
        real = finfo(known.dtype).dtype
        flat = part(known.size, real)
        if known.dtype.kind == "c":
            flat = ops.astype(flat + 1j * part(known.size, real), known.dtype)
        leaves.append(ops.reshape(flat, known.shape))
    return leaves


def dense_solve(matvec: Callable[[Values], Values], rhs: Values) -> Values:
    """Solves a linear system by its matrix, which is found column by column, all at once."""
    types = [shape_dtype(leaf) for leaf in rhs]
    vector = to_vector(rhs)
    basis = beside(vector, np.eye(vector.shape[0], dtype=vector.dtype))
    columns = vmap(lambda e: to_vector(matvec(from_vector(e, types)), vector.dtype))(basis)
    return from_vector(solve(columns.T, vector[:, None])[:, 0], types)


# -- the rule


class ImplicitCall(CustomCall):
    """A call whose outputs solve an equation, on flat lists of arrays.

    Args:
        name: what messages call it.
        residual: ``residual(x, operands)``, a list of arrays that are zero at the solution.
        solve: ``solve(operands)``: the solution, and behind it outputs without a derivative.
        tangent_solve: ``tangent_solve(matvec, rhs)``: solves linear equations.
        types, extras: types of the solution, and of the other outputs or None if they are unknown.
        sequential: whether ``solve`` needs plain numbers, and runs once for each example.
    """

    def __init__(
        self,
        name: str,
        residual: Callable[[Values, Values], Values],
        solve: Callable[[Values], Values],
        tangent_solve: Callable[[Any, Values], Values],
        types: Sequence[ShapeDtype],
        extras: Sequence[ShapeDtype] | None = (),
        sequential: bool = False,
    ) -> None:
        super().__init__(name, solve, self._fwd, self._bwd, self._jvp)
        self.residual = residual
        self.tangent_solve = tangent_solve
        self.types = types
        self.sequential = sequential
        if extras is not None:
            self.infer = lambda *operands: [*types, *extras]

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch."""
        call = super().batched(flags, size, axis_name)
        if self.sequential:
            return _sequential(self, call, flags, size)
        if self.infer is not None:
            call.infer = _batched_types(self.infer(), size)
        return call

    def _by_operands(self, x: Values, operands: Values) -> tuple[Callable[..., Values], list[int]]:
        """Returns the residual as a function of the operands that have derivatives."""
        known = [i for i, v in enumerate(operands) if is_inexact(v)]

        def residual(*moved: Array) -> Values:
            return self.residual(x, replaced(operands, known, moved))

        return residual, known

    def _fwd(self, operands: Values) -> tuple[Values, Values]:
        outs = self.bind(operands)
        return outs, [*outs[: len(self.types)], *operands]

    def _bwd(self, residuals: Values, gs: Values) -> Values:
        count = len(self.types)
        x, operands = residuals[:count], residuals[count:]
        solution = self._linear_solve(x, operands, gs[:count], transposed=True)
        residual, known = self._by_operands(x, operands)
        _, pull = vjp(residual, *[operands[i] for i in known])
        return replaced([None] * len(operands), known, pull([-w for w in solution]))

    def _jvp(self, operands: Values, tangents: Values) -> tuple[Values, Values]:
        outs = self.bind(operands)
        x = list(outs[: len(self.types)])
        residual, known = self._by_operands(x, operands)
        moved = [operands[i] for i in known]
        _, change = jvp(residual, moved, [tangents[i] for i in known])
        solution = self._linear_solve(x, operands, [-c for c in change], transposed=False)
        return outs, [*solution, *[None] * (len(outs) - len(x))]

    def _linear_solve(self, x: Values, operands: Values, rhs: Values, transposed: bool) -> Values:
        """Solves the linearised equation; its solution is a solution of an equation too."""
        count = len(self.types)

        def split(values: Values) -> tuple[Callable[[Values], Values], Values]:
            rhs, x, operands = values[:count], values[count : 2 * count], values[2 * count :]

            def moved_residual(*moved: Array) -> Values:
                return self.residual(list(moved), operands)

            if transposed:
                _, pull = vjp(moved_residual, *x)
                return lambda v: list(pull(v)), rhs
            return lambda v: list(jvp(moved_residual, x, _in_dtypes_of(v, x))[1]), rhs

        def residual(v: Values, values: Values) -> Values:
            matvec, rhs = split(values)
            return [a - b for a, b in zip(matvec(v), rhs, strict=True)]

        def solve(values: Values) -> Values:
            matvec, rhs = split(values)
            return _in_dtypes_of(self.tangent_solve(matvec, rhs), rhs)

        name = f"linear solve of {self.name}"
        call = ImplicitCall(name, residual, solve, self.tangent_solve, self.types)
        return call.bind([*_in_dtypes_of(rhs, x), *x, *operands])


def _in_dtypes_of(values: Sequence[Any], wanted: Sequence[Any]) -> Values:
    """Returns arrays in the dtypes of others."""
    kinds = [shape_dtype(w).dtype for w in wanted]
    return [
        v if shape_dtype(v).dtype == kind else ops.astype(v, kind)
        for v, kind in zip(values, kinds, strict=True)
    ]


class _SequentialCall(CustomCall):
    """A call for a batch that is evaluated for one example after the other."""

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        return _sequential(self, super().batched(flags, size, axis_name), flags, size)


def _sequential(one: CustomCall, many: CustomCall, flags: Sequence[bool], size: int) -> CustomCall:
    """Returns a batched call that is evaluated by calls for single examples."""
    types = one.infer() if one.infer is not None else []

    def evaluate(values: Values) -> Values:
        rows = [
            one.evaluate([v[i] if flag else v for v, flag in zip(values, flags, strict=True)])
            for i in range(size)
        ]
        if not rows:
            none = [np.zeros((0, *known.shape), known.dtype) for known in types]
            return [wrap(beside(values[0], x) if values else x) for x in none]
        return [ops.stack(column) for column in zip(*rows, strict=True)]

    call = _SequentialCall(many.name, evaluate, many.fwd, many.bwd, many.jvp)
    call.infer = _batched_types(types, size)
    return call


def _batched_types(types: Sequence[ShapeDtype], size: int) -> Callable[..., Any]:
    """Returns a function that gives the types of a batch of outputs, whatever the operands."""
    return lambda *operands: [ShapeDtype((size, *k.shape), k.dtype) for k in types]


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    has_aux: bool = False,
) -> Any:
    """Finds a root of a function by any solver, and differentiates it as the root that it is.

    The root is a function of all that ``f`` closes over. Derivatives flow there, in both modes and
    to any order, by the implicit function theorem. The steps of ``solve`` are not differentiated,
    and the initial guess has no derivative.

    Args:
        f: a function of a tree of arrays that returns one of the same structure and shapes. It may
            close over traced values.
        initial_guess: where to start: a tree of real or complex arrays.
        solve: ``solve(f, initial_guess)`` returns a root. Both arguments hold plain values, except
            under vmap, where it is called once for all examples. Other values that it uses must not
            be traced: ``ft.value(x)``.
        tangent_solve: ``tangent_solve(g, y)`` returns x with ``g(x) = y`` for a linear function of
            trees; by default by its matrix.
        has_aux: whether ``solve`` returns a pair of the root and extras: arrays, or None.

    Returns:
        The root, with ``has_aux`` a pair of that and the extras.

    Raises:
        RuleResultError: ``f`` or ``solve`` returned a tree that does not fit the guess.

    Source: S. Krantz and H. Parks, "The implicit function theorem", 2002, theorem 1.3.1.

    >>> import functensor as ft
    >>> def newton(f, x):
    ...     for _ in range(6):
    ...         x = x - f(x) / ft.grad(f)(x)
    ...     return x
    >>> root = lambda a: ft.custom_root(lambda x: x * x - a, 1.5, newton)
    >>> ft.grad(root)(4.0)
    Array(0.25, dtype=float64, device='cpu')
    """
    tangent_solver = solve if tangent_solve is None else tangent_solve
    for name, fun in (("f", f), ("solve", solve), ("tangent_solve", tangent_solver)):
        check_function("custom_root", fun, name)
    leaves, treedef = tree.flatten(initial_guess)
    leaves = [leaf if is_inexact(leaf) else ops.astype(leaf, np.float64) for leaf in leaves]
    types = [shape_dtype(leaf).strong() for leaf in leaves]
    leaves = [wrap(owned(leaf)) for leaf in leaves]
    closed, constants = close(f, treedef.unflatten(leaves))
    # They may run later, too.
    solve = kept_as_it_is(solve, leaves)
    tangent_solve = tangent_solve and kept_as_it_is(tangent_solve, leaves)
    count = len(leaves)
    aux_tree: Any = None

    def residual(x: Values, operands: Values) -> Values:
        out = closed(operands[count:], treedef.unflatten(x))
        return _fitting_leaves("f", out, treedef, types)

    def evaluate(operands: Values) -> Values:
        nonlocal aux_tree
        guess = treedef.unflatten(operands[:count])
        found = solve(lambda x: closed(operands[count:], x), guess)
        aux = None
        if has_aux:
            if not isinstance(found, tuple | list) or len(found) != 2:
                what = f"custom_root: solve returned {type(found).__name__}, not a pair"
                fix = "with has_aux=True, return root, extras"
                raise RuleResultError(message(what, fix=fix, number=9))
            found, aux = found
        extras, aux_tree = tree.flatten(aux)
        return [*_in_dtypes_of(_fitting_leaves("solve", found, treedef, types), leaves), *extras]

    def tangent(matvec: Callable[[Values], Values], rhs: Values) -> Values:
        if tangent_solve is None:
            return dense_solve(matvec, rhs)
        out = tangent_solve(
            lambda x: treedef.unflatten(matvec(tree.leaves(x))), treedef.unflatten(rhs)
        )
        return _fitting_leaves("tangent_solve", out, treedef, types)

    # The extras' shapes are known only once the solver has run.
    call = ImplicitCall("custom_root", residual, evaluate, tangent, types, None if has_aux else ())
    outs = call.bind([*leaves, *constants])
    root = treedef.unflatten(outs[:count])
    return (root, aux_tree.unflatten(map(ops.stop_gradient, outs[count:]))) if has_aux else root


def _fitting_leaves(name: str, out: Any, treedef: TreeDef, types: Sequence[ShapeDtype]) -> Values:
    """Returns the leaves of a function's result, checked against the guess."""
    leaves, got = tree.flatten(out)
    shapes = [shape_dtype(leaf).shape for leaf in leaves]
    wanted = [known.shape for known in types]
    if got != treedef or shapes != wanted:
        what = f"custom_root: {name} returned {got} of shapes {shapes}, but the initial guess is "
        what += f"{treedef} of shapes {wanted}"
        fix = f"return from {name} a tree of the structure and shapes of the initial guess"
        raise RuleResultError(message(what, fix=fix, number=9))
    return leaves
