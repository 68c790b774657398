"""Bounds and constraints of `functensor.scipy.optimize`, as SciPy's solvers take them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .. import tree
from ..backends.annotations import Buffer
from ..backends.optional_modules import extra
from ..custom.root import to_vector
from ..functions.closure import kept_as_it_is
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from .optimize_results import (
    Unknown,
    hessian_matrix,
    hessian_products,
    host_buffer,
    jacobian_matrix,
)

__all__ = ["Bounds", "constraints_of", "free_gradient", "limits_of", "scipy_constraint"]

# Takes and returns leaves.
LeavesFunction: TypeAlias = Callable[[Values], Values]

# A variable this close to a bound, in relation to it, counts as held there.
HELD_AT_BOUND_RTOL = 1e-7


class Bounds:
    """Lower and upper bounds of the elements of a tree.

    Args:
        lb, ub: trees of the structure of the initial guess, or of its beginning, with numbers or
            arrays that broadcast to it; infinite where there is no bound.
    """

    def __init__(self, lb: Any = -np.inf, ub: Any = np.inf) -> None:
        self.lb = lb
        self.ub = ub


def limits_of(unknown: Unknown, bounds: Any) -> tuple[Values, Values] | None:
    """Returns the lower and the upper bounds of all leaves, in their shapes."""
    if bounds is None:
        return None
    if any(known.dtype.kind == "c" for known in unknown.types):
        raise TypeError("minimize: complex numbers have no order, so that they have no bounds")
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        sides = [bounds.lb, bounds.ub]
    else:
        pairs = [*bounds]
        if len(unknown.types) != 1 or unknown.types[0].shape != (len(pairs),):
            raise ValueError(
                f"minimize: {len(pairs)} bounds for x0 of shapes "
                f"{[known.shape for known in unknown.types]}: pairs (lower, upper) are for the "
                "elements of one vector; Bounds(lower tree, upper tree) is for trees"
            )
        sides = [
            np.array([end if pair[i] is None else pair[i] for pair in pairs], float)
            for i, end in ((0, -np.inf), (1, np.inf))
        ]
    like = unknown.tree(unknown.leaves)
    lower, upper = (
        [
            np.broadcast_to(np.asarray(host_buffer(limit), float), known.shape)
            for limit, known in zip(tree.broadcast_prefix(side, like), unknown.types, strict=True)
        ]
        for side in sides
    )
    return lower, upper


def free_gradient(x: Values, gradient: Values, limits: tuple[Values, Values]) -> Values:
    """Returns the gradient, with differences of 0 for variables that are held at a bound."""
    out = []
    for v, g, lower, upper in zip(x, gradient, *limits, strict=True):
        near = []
        for limit in (np.nan_to_num(lower), np.nan_to_num(upper)):
            reach = HELD_AT_BOUND_RTOL * (1 + np.abs(limit))
            near.append(ops.less_equal(ops.abs(v - beside(v, limit)), beside(v, reach)))
        held = ops.logical_or(
            ops.logical_and(near[0], beside(v, np.isfinite(lower))),
            ops.logical_and(near[1], beside(v, np.isfinite(upper))),
        )
        out.append(ops.where(held, v - ops.stop_gradient(v), g))
    return out


def constraints_of(unknown: Unknown, constraints: Any) -> list[tuple[str, LeavesFunction]]:
    """Returns constraints as kinds, "eq" or "ineq", and functions of leaves that return leaves."""
    out: list[tuple[str, LeavesFunction]] = []
    for given in [constraints] if isinstance(constraints, dict) else constraints:
        known = isinstance(given, dict) and callable(given.get("fun"))
        if not known or given.get("type") not in ("eq", "ineq"):
            raise TypeError(
                f"minimize: constraint {given!r:.60} is not a dict with a type and a function: "
                'give {"type": "ineq", "fun": lambda x: ...}'
            )
        fun, args = kept_as_it_is((given["fun"], tuple(given.get("args", ()))), unknown.leaves)
        out.append((given["type"], partial(_leaves_of, unknown, fun, args)))
    return out


def _leaves_of(
    unknown: Unknown, fun: Callable[..., Any], args: tuple[Any, ...], leaves: Values
) -> Values:
    return tree.leaves(fun(unknown.tree(leaves), *args))


def scipy_constraint(unknown: Unknown, kind: str, leaves_of: LeavesFunction, method: str) -> Any:
    """Returns a constraint as SciPy takes it, on vectors and with our derivatives."""

    def value(v: Buffer) -> Buffer:
        return unknown.vector(leaves_of(unknown.arrays(v)))

    def jacobian(v: Buffer) -> Buffer:
        return jacobian_matrix(unknown, leaves_of, v)

    if method != "trust-constr":
        return {"type": kind, "fun": value, "jac": jacobian}

    def hessian(v: Buffer, weights: Buffer) -> Buffer:
        def weighted(leaves: Values) -> Array:
            return ops.sum(to_vector(leaves_of(leaves), np.float64) * unknown.placed(weights))

        return hessian_matrix(hessian_products(unknown, weighted), v)

    upper = 0.0 if kind == "eq" else np.inf
    make = extra("scipy.optimize", "scipy").NonlinearConstraint
    return make(value, 0.0, upper, jac=jacobian, hess=hessian)
