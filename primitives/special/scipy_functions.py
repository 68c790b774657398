"""Declarations of functions that SciPy has by the same name, which tests compare them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ...backends.arrays.special_remainders import as_arrays, loop_dtype
from ...backends.dtypes import result_type
from ...backends.optional_modules import scipy_module
from ..core.array import Array
from ..core.derivative_rules import DerivativeRule
from ..core.errors import MissingRuleError, failure
from ..core.families import elementwise
from ..core.primitive import Binary, Primitive, Unary
from ..core.test_samples import Domain

__all__ = ["DLMF", "ORDER", "by_scipy", "scipy_elementwise", "scipy_unary", "without_derivative"]

DLMF = "NIST Digital Library of Mathematical Functions, "
ORDER = Domain(0, 3, kind="i")


def by_scipy(name: str) -> Callable[..., Buffer]:
    """Returns how SciPy, which is imported when it is first asked, computes a function.

    Python's numbers beside single precision are cast, as SciPy would compute in double precision.
    """

    def compute(xp: ArrayModule, *operands: Buffer) -> Buffer:
        function: Callable[..., Buffer] = getattr(scipy_module(xp, "special"), name)
        if xp is not np:
            return function(*as_arrays(xp, loop_dtype(name, *operands), *operands))
        if len(operands) == 1:
            return function(*operands)
        dtype = result_type(*operands)
        if dtype.kind != "f":
            return function(*operands)
        return function(*(x if hasattr(x, "dtype") else dtype.type(x) for x in operands))

    return compute


def scipy_unary(name: str, *vjps: DerivativeRule, **declared: Any) -> Primitive:
    """Declares a function of one operand, as ``elementwise`` does, that SciPy computes."""
    reference = f"scipy.special.{name}"
    own: dict[str, Any] = {"compute": by_scipy(name), "reference": reference, "kind": Unary}
    return elementwise(name, *vjps, arity=1, **own | declared)


def scipy_elementwise(name: str, *vjps: DerivativeRule, **declared: Any) -> Primitive:
    """Declares a function of several operands in the same way; ``compute`` replaces SciPy's."""
    kind = Binary if len(vjps) == 2 and "params" not in declared else Primitive
    reference = f"support.special_references.{name}"
    own: dict[str, Any] = {"compute": by_scipy(name), "reference": reference, "kind": kind}
    return elementwise(name, *vjps, **own | declared)


def without_derivative(name: str, by: str) -> Callable[[Array], Array]:
    """Returns the rule for an operand by which a function has no derivative here."""

    def rule(g: Array) -> Array:
        raise failure(
            MissingRuleError,
            f"{name} has no derivative by {by}",
            fix=f"differentiate by the other arguments alone: pass {by} as a constant, or as "
            "ft.stop_gradient(value)",
        )

    return rule
