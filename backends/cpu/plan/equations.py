"""The writers of single equations that have a quicker form than a call of the primitive's function.

Such a writer returns the right side of a line. It returns None if it has no quicker form, and an
empty string if the result needs no line, as it lies in kept memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import getitem
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...arrays.column_times_row import is_widened
from ...blas_calls import (
    READING_WORK,
    SHORTEST_BLAS_THREADED_VECTOR,
    SMALLEST_BLAS_THREADED_WORK,
    SMALLEST_SHARED_WORK,
    work_of,
)
from ..reductions import FEWEST_ELEMENTS_BY_BLAS
from .codegen.operands import form_of, is_native_array, is_variable
from .liveness import JOINS, is_copied, rows_of

if TYPE_CHECKING:
    from ...annotations import Buffer
    from .annotations import EquationLike, PartsOfArrays, VariableLike
    from .codegen.source import Source
    from .memory import KeptMemory

__all__ = ["EQUATION_WRITERS", "Writer", "key_part", "product_beside"]

# Writing an element of a column times a row takes as long as this many multiplications.
OUTER_PRODUCT_WORK = 2


class Writer(Protocol):
    """The part of `Straight` that lines of single equations need; ``writer.py`` documents it."""

    source: Source
    native: bool
    regions: list[Any]
    kept: KeptMemory
    rows: PartsOfArrays
    joined: set[VariableLike]
    shares: bool
    parts: set[VariableLike]
    spread: set[VariableLike]

    def buffer_for(self, out: VariableLike) -> str: ...
    def row_buffer(self, joined: VariableLike, part: Any) -> str: ...
    def is_view(
        self, equation: EquationLike, how: Callable[[Buffer, Any], Buffer], argument: Any
    ) -> bool: ...
    def lies_in(self, variable: VariableLike, name: str) -> None: ...


def _write_rearrangement(writer: Writer, equation: EquationLike) -> str | None:
    (x,), name = equation.operands, equation.primitive.name
    if not is_variable(x) or not x.type.shape:
        return None
    argument = equation.params["shape" if name == "reshape" else "axes"]
    if writer.is_view(equation, getattr(np, name), argument):
        return ""
    return f"{writer.source.shown(x)}.{name}({argument!r})"


def _write_index(writer: Writer, equation: EquationLike) -> str | None:
    x, *indices = equation.operands
    if indices or not is_variable(x) or not x.type.shape:
        return None
    native = equation.params["key"].native
    if equation.outputs[0].type.shape:
        writer.parts.add(equation.outputs[0])
    if writer.is_view(equation, getitem, native):
        return ""
    shown = ", ".join(map(key_part, native)) or "()"
    return f"{writer.source.shown(x)}[{shown}]"


def key_part(item: Any) -> str:
    """Returns the text of a part of a key."""
    if item is Ellipsis:
        return "..."
    if type(item) is not slice:
        return repr(item)
    parts = ["" if part is None else repr(part) for part in (item.start, item.stop, item.step)]
    return ":".join(parts if parts[2] else parts[:2])


def _write_sum(writer: Writer, equation: EquationLike) -> str | None:
    (x,) = equation.operands
    params = equation.params
    if (
        not is_variable(x)
        or not is_native_array(x.type)
        or x.type.dtype.char not in "fdFD"
        or x.type.size >= FEWEST_ELEMENTS_BY_BLAS
        or params.get("dtype") is not None
    ):
        return None
    axis = None if len(params["axis"]) == x.type.ndim else params["axis"]
    rest = f", None, None, {writer.source.flag('keepdims')}" if params["keepdims"] else ""
    return f"np.add.reduce({writer.source.shown(x)}, {axis!r}{rest})"


def _write_matmul(writer: Writer, equation: EquationLike) -> str | None:
    if not is_blas_product(writer, equation):
        return None
    x, y = map(form_of, equation.operands)
    shared = is_shared_product(equation)
    if shared:
        # They load the pool of threads.
        from .threads.matmul import threaded_matmul
        from .threads.sharing import MeasuredSharing
    operands = list(map(writer.source.shown, equation.operands))
    if shared and x.ndim > 2 and y.ndim == 2:
        shape = equation.outputs[0].type.shape
        product = writer.source.bind(threaded_matmul)
        rows = f"{operands[0]}.reshape(-1, {x.shape[-1]})"
        writer.shares = True
        sharing = writer.source.constant(MeasuredSharing(), "sharing")
        return f"{product}({rows}, {operands[1]}, None, {sharing}).reshape({shape!r})"
    by_vector = min(x.ndim, y.ndim) == 1 and x.ndim + y.ndim <= 3
    if not shared and by_vector and max(x.size, y.size) < SHORTEST_BLAS_THREADED_VECTOR:
        # ``dot`` makes the same call of BLAS as ``matmul``, in a third of the time.
        into = writer.buffer_for(equation.outputs[0]) if x.ndim + y.ndim > 2 else ""
        return f"{operands[0]}.dot({operands[1]}{into and ', '}{into})"
    if not has_equal_stacks(equation):
        return None
    # The primitive's function widens columns and rows first.
    if not shared and (x.ndim != 2 or y.ndim != 2 or x.shape[-1] == 1):
        return None
    into = writer.buffer_for(equation.outputs[0])
    if shared:
        writer.shares = True
        sharing = writer.source.constant(MeasuredSharing(), "sharing")
        given = ", ".join([*operands, into or "None", sharing])
        return f"{writer.source.bind(threaded_matmul)}({given})"
    given = ", ".join([*operands, into] if into else operands)
    # BLAS would use threads of its own for this size, and wait for them.
    writer.shares |= work_of(x.shape, y.shape) >= SMALLEST_BLAS_THREADED_WORK
    return f"np.matmul({given})"


def is_blas_product(writer: Writer, equation: EquationLike) -> bool:
    """Says whether an equation is a product that BLAS computes."""
    x, y = map(form_of, equation.operands)
    if x is None or y is None or not (x.shape and y.shape):
        return False
    dtype = x.dtype
    if dtype.char not in "fdFD" or not dtype == y.dtype == equation.outputs[0].type.dtype:
        return False
    # BLAS takes no strides of zero. The primitive's function copies such arrays.
    for operand, form in zip(equation.operands, (x, y), strict=True):
        if operand in writer.spread if is_variable(operand) else 0 in form.strides:
            return False
    if x.shape[-1] > 1:
        return True
    return bool(min(x.ndim, y.ndim) > 1) and is_widened(x.shape, y.shape, dtype)


def is_shared_product(equation: EquationLike) -> bool:
    """Says whether a product is large enough to be shared among threads."""
    x, y = [form_of(v).shape for v in equation.operands]
    if len(x) == 1 or len(y) == 1:
        work = READING_WORK * max(prod(x), prod(y))
    else:
        work = prod(x) * y[-1] * (OUTER_PRODUCT_WORK if x[-1] == 1 else 1)
    return bool(work >= SMALLEST_SHARED_WORK)


def has_equal_stacks(equation: EquationLike) -> bool:
    """Says whether a product is one of two matrices, or of two stacks of one shape."""
    x, y = map(form_of, equation.operands)
    return bool(x.shape[:-2] == y.shape[:-2] if y.ndim > 2 else x.ndim <= 2)


def _write_convolution(writer: Writer, equation: EquationLike) -> str | None:
    if not writer.native:
        return None
    from .native.convolution_runs import native_convolution

    run = native_convolution(f"windows_{len(writer.regions)}", equation)
    if run is None:
        return None
    writer.regions.append(run)
    writer.shares |= run.most > 1
    operands = ", ".join(map(writer.source.shown, equation.operands))
    return f"{writer.source.constant(run, 'convolution')}({operands})"


def product_beside(writer: Writer, equation: EquationLike) -> Any:
    """Returns the run of a large product among other large work; None for other equations."""
    if equation.primitive.name != "matmul" or not is_blas_product(writer, equation):
        return None
    x, y = equation.operands
    if not (is_variable(x) and is_variable(y)):
        return None
    rows = x.type.ndim > 2 and y.type.ndim == 2
    if min(x.type.ndim, y.type.ndim) < 2 or not is_shared_product(equation):
        return None
    if not rows and not has_equal_stacks(equation):
        return None
    from .threads.matmul import SharedProduct

    return SharedProduct(rows, equation.outputs[0].type.shape)


def _write_broadcast(writer: Writer, equation: EquationLike) -> str | None:
    (x,), (out,) = equation.operands, equation.outputs
    if not is_copied(equation):
        return None
    into = writer.buffer_for(out)
    if not into:
        return f"np.broadcast_to({writer.source.shown(x)}, {out.type.shape!r}).copy()"
    writer.source.add(f"np.copyto({into}, {writer.source.shown(x)})", equation)
    writer.lies_in(out, into)
    return ""


def _write_astype(writer: Writer, equation: EquationLike) -> str | None:
    (x,) = equation.operands
    dtype = equation.params["dtype"]
    if not is_variable(x) or not is_native_array(x.type) or x.type.dtype == dtype:
        return None
    return f"{writer.source.shown(x)}.astype({writer.source.constant(dtype, 'dtype')})"


def _write_join(writer: Writer, equation: EquationLike) -> str | None:
    (out,) = equation.outputs
    axis = equation.params["axis"]
    stack = equation.primitive.name == "stack"
    if (axis and stack) or not is_native_array(out.type) or not out.type.size:
        return None
    if not all(is_variable(x) and x.type.dtype == out.type.dtype for x in equation.operands):
        return None
    if out in writer.joined:
        for x, part in zip(equation.operands, rows_of(equation), strict=True):
            if writer.rows.get(x) != (out, part) and x.type.size:
                line = f"np.copyto({writer.row_buffer(out, part)}, {writer.source.shown(x)})"
                writer.source.add(line, equation)
        writer.lies_in(out, writer.buffer_for(out))
        return ""
    if not all(is_native_array(x.type) for x in equation.operands):
        return None
    shape = out.type.shape
    into = writer.buffer_for(out)
    given = f"({', '.join(map(writer.source.shown, equation.operands))},), {axis}"
    if not stack:
        return f"np.concatenate({given}{into and ', '}{into})"
    if not into:
        return f"np.concatenate({given}).reshape({shape!r})"
    if into not in writer.kept:
        return f"np.stack({given}, {into})"
    flat = writer.kept.view(into, np.reshape, (shape[0] * shape[1], *shape[2:]))
    writer.source.add(f"np.concatenate({given}, {flat})", equation)
    writer.lies_in(out, into)
    return ""


EQUATION_WRITERS: dict[str, Callable[[Writer, Any], str | None]] = {
    **dict.fromkeys(JOINS, _write_join),
    "astype": _write_astype,
    "conv": _write_convolution,
    "conv_input_grad": _write_convolution,
    "conv_kernel_grad": _write_convolution,
    "broadcast_to": _write_broadcast,
    "reshape": _write_rearrangement,
    "transpose": _write_rearrangement,
    "index": _write_index,
    "sum": _write_sum,
    "matmul": _write_matmul,
}
