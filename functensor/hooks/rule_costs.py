"""The operations of arithmetic that derivative rules do on the way back, for hooks that count."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..primitives.core.primitive import Primitive
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import under
from ..programs.costs import cost_of
from ..programs.staging import make_program
from .watched_calls import cotangents_of, dense_cotangents

__all__ = ["rule_flops"]


def rule_flops(
    name: str,
    params: Mapping[str, Any],
    out: ShapeDtype,
    operands: Sequence[ShapeDtype],
    wanted: Sequence[bool],
) -> int:
    """Returns the operations of arithmetic of an operation's rules in reverse mode.

    Args:
        name, params: the primitive's, or those of a function with a rule of its own, which counts
            as one operation, of its largest operand or result.
        out, operands: the types of the output and the operands.
        wanted: for every operand whether its cotangent is computed.
    """
    if name not in registry:
        return max(x.size for x in (out, *operands))
    primitive = registry[name]
    known = out.strong(), tuple(operands), tuple(wanted)
    # The cache would keep a user's function alive.
    if not any(map(callable, params.values())):
        try:
            return cached_flops(primitive, tuple(params.items()), *known)
        except TypeError:  # a parameter that is not hashable
            pass
    return staged_flops(primitive, params, *known)


@lru_cache(maxsize=4096)
def cached_flops(primitive: Primitive, params: Hashable, *known: Any) -> int:
    """Returns the same for parameters in pairs, at once where it is known."""
    return staged_flops(primitive, dict(params), *known)  # type: ignore[call-overload]


def staged_flops(
    primitive: Primitive,
    params: Mapping[str, Any],
    out: ShapeDtype,
    operands: tuple[ShapeDtype, ...],
    wanted: tuple[bool, ...],
) -> int:
    """Stages the rules and returns what they cost."""

    def rules(g: Any, *saved: Any) -> list[Any]:
        found = cotangents_of(primitive, g, saved, dict(params), wanted)
        return [c for c in dense_cotangents(found) if c is not None]

    with under(None):
        return cost_of(make_program(rules)(out, out, *operands)).flops
