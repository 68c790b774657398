"""The dtypes in which PyTorch computes where NumPy's are wider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import result_type
from .default_dtypes import TENSOR_DTYPES

__all__ = ["may_be_too_wide", "without_widening"]

# The kinds of dtypes, the later ones wider; a mask or a condition is of the first.
KIND_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
# One kind for each place in that order.
ORDERED_KINDS = "bifc"


def without_widening(
    primitive: Primitive,
    values: list[Any],
    wide: np.dtype[Any],
    cast: Callable[[Any, np.dtype[Any]], Any] = lambda v, dtype: v.astype(dtype),
) -> list[Any] | None:
    """Returns operands in the dtype in which PyTorch computes, where NumPy's is another.

    Integers do not widen floats, nor do numbers of Python and tensors without axes, unless they
    are of a wider kind; integers become the default dtype of floats where the result is no integer.

    Returns:
        The operands, or None where NumPy's result is PyTorch's too.
    """
    met: list[list[Any]] = [[], [], []]
    conditions = 1 if primitive.name == "where" else 0
    for v in values[conditions:]:
        dtype = getattr(v, "dtype", None)
        met[2 if dtype is None else 0 if v.ndim else 1].append(
            np.dtype(type(v)) if dtype is None else dtype
        )
    if not (met[0] or met[1]) or (wide.kind in "iu" and primitive.family != "elementwise"):
        # Rules compute with numbers, which keep all digits; indices have dtypes of their own.
        return None
    kind = -1
    some: list[Any] = []
    for dtypes in met:
        most = max([KIND_ORDER[d.kind] for d in dtypes], default=-1)
        if most > kind:
            kind = most
            # Floats beside complex numbers decide on their precision.
            known = [d for d in dtypes if KIND_ORDER[d.kind] >= min(most, 2)]
            some = known
            if dtypes is met[1] and most == 3 and any(KIND_ORDER[d.kind] == 2 for d in met[0]):
                # A complex tensor without axes is as precise as the floats beside it.
                doubles = any(d.char == "d" for d in met[0])
                some = [np.dtype(np.complex128 if doubles else np.complex64)]
            if dtypes is met[2]:
                some = [TENSOR_DTYPES.get(ORDERED_KINDS[most], known[0])]
            if dtypes is met[2] and met[0] + met[1] and most == 3:
                # A complex number beside doubles is double.
                doubles = any(d.char in "dD" for d in met[0] + met[1])
                some = [np.dtype(np.complex128) if doubles else TENSOR_DTYPES["c"]]
    wanted = result_type(*some)
    if wide.kind == "c" and wanted.kind != "c":
        # Real numbers that are made complex keep their precision.
        return None
    if KIND_ORDER[wanted.kind] < KIND_ORDER[wide.kind]:
        wanted = TENSOR_DTYPES.get(ORDERED_KINDS[KIND_ORDER[wide.kind]], wanted)
    floating = any(KIND_ORDER[d.kind] >= 2 for d in met[0] + met[1])
    if wanted == wide or (wanted.itemsize >= wide.itemsize and floating):
        return None

    def narrowed(v: Any) -> Any:
        if not hasattr(v, "dtype"):
            return wanted.type(v)
        return v if v.dtype == wanted else cast(v, wanted)

    return [*values[:conditions], *map(narrowed, values[conditions:])]


def may_be_too_wide(char: str, values: Sequence[Any]) -> bool:
    """Says whether PyTorch may have a narrower dtype for a result than NumPy."""
    if char == "f" and len(values) > 1:
        # Numbers of Python have no size.
        for v in values:  # noqa: SIM110  # a generator takes twice the time
            if getattr(v, "itemsize", 4) == 2:
                return True
        return False
    return char in "dDlehib"
