"""Plans of single primitives, by which a backend computes large ones outside of plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.annotations import Buffer, DType, Shape
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.staging import make_program
from .tiers import native_plan

__all__ = ["plan_of_primitive"]


def plan_of_primitive(
    name: str, types: Sequence[tuple[Shape, DType]], params: Mapping[str, Any]
) -> Callable[[Sequence[Buffer]], Any] | None:
    """Returns what computes a primitive on buffers as machine code; None where there is none.

    That returns None where its plan raises: the kernel raises an error of its own.

    Args:
        name: the primitive's name.
        types: the shapes and dtypes of its operands, and of its result.
        params: its parameters.
    """
    primitive: Any = registry[name]
    *known, whole = [ShapeDtype(shape, dtype) for shape, dtype in types]
    parts = PACKED_PARTS[name](types, whole.shape, params) if name in PACKED_PARTS else [...]

    def applied(*operands: Any) -> Any:
        out = primitive.bind(operands, dict(params))
        return [out if part is ... else out[part] for part in parts]

    applied.__name__ = name
    plan: Any = native_plan(make_program(applied)(*known), ())
    if plan is None:
        return None

    def run(operands: Sequence[Buffer]) -> Any:
        try:
            found = plan([np.ascontiguousarray(x) for x in operands])
        except Exception:
            return None
        if parts == [...]:
            (out,) = found
            return out if out.ndim else out[()]
        out = np.empty(whole.shape, whole.dtype)
        for key, part in zip(parts, found, strict=True):
            out[key] = part
        return out

    return run


# Results that are several, packed into one, are computed one by one.


def parts_of_normalization(
    types: Sequence[tuple[Shape, DType]], shape: Shape, params: Mapping[str, Any]
) -> list[Any]:
    """Returns the keys of the gradients of rows, of the weight and of the bias."""
    rows = shape[-2] - 1 - params["bias"]
    ends: list[Any] = [slice(None, rows), *range(rows, shape[-2])]
    return [(..., end, slice(None)) for end in ends]


def parts_of_attention(
    types: Sequence[tuple[Shape, DType]], shape: Shape, params: Mapping[str, Any]
) -> list[Any]:
    """Returns the keys of the gradients of queries, keys and values, where none is padded."""
    alike = len({given for given, _ in types[2:5]}) == 1
    return [0, 1, 2] if alike else [...]


PACKED_PARTS: dict[str, Callable[..., list[Any]]] = {
    "affine_normalize_grad": parts_of_normalization,
    "attention_grad": parts_of_attention,
}
