"""Arrays joined, cut apart and repeated along their axes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, DTypeLike, ShapeLike
from ...backends.devices import device_of as buffer_device
from ...backends.devices import on_device, to_host
from ..core.annotations import ArrayLike, Value, of_sequence
from ..core.annotations import operations as ops
from ..core.array import Array, concrete
from ..core.buffers import DEVICE_TYPES, beside, device_of, operands_together
from ..core.derivative_rules import shape_of
from ..core.errors import misfit, refuse_out
from ..core.families import filled_operands
from ..core.index_key import FULL, IndexKey
from ..core.primitive import Primitive
from ..core.registry import operand, registry
from ..core.shape_dtype import ShapeDtype, canonical_axis, result_type, shape_dtype
from ..core.test_samples import Sample
from .index import index_primitive
from .reshape_transpose import as_shape

__all__ = [
    "array_split", "concatenate", "concatenate_primitive", "hstack", "repeat", "split", "stack",
    "stack_primitive", "tile", "vstack",
]  # fmt: skip


def _check_joined(name: str, shapes: Sequence[tuple[int, ...]], skip: int | None) -> None:
    """Checks that shapes agree, on all axes but one."""
    first = shapes[0]
    for shape in shapes[1:]:
        if shape == first:
            continue
        axes = [
            i for i, (n, m) in enumerate(zip(first, shape, strict=False)) if n != m and i != skip
        ]
        if axes or len(first) != len(shape):
            where = f"axis {axes[0]} differs" if axes else "the numbers of axes differ"
            raise misfit(
                f"{name}: shapes {first} and {shape} do not fit: {where}",
                f"only the axis that is joined may differ; np.{name} does not broadcast",
            )


def _infer_concatenate(primitive: Primitive, *xs: ShapeDtype, axis: int) -> ShapeDtype:
    _check_joined("concatenate", [x.shape for x in xs], axis)
    first = xs[0].shape
    shape = (*first[:axis], sum(x.shape[axis] for x in xs), *first[axis + 1 :])
    return ShapeDtype(shape, result_type(*(x.dtype for x in xs)))


def _infer_stack(primitive: Primitive, *xs: ShapeDtype, axis: int) -> ShapeDtype:
    _check_joined("stack", [x.shape for x in xs], None)
    first = xs[0].shape
    shape = (*first[:axis], len(xs), *first[axis:])
    return ShapeDtype(shape, result_type(*(x.dtype for x in xs)))


def _joinable(xp: ArrayModule, xs: Sequence[Any]) -> Sequence[Any]:
    """Returns operands as an array module joins them: CuPy joins arrays only, no numbers."""
    if xp is np or all(isinstance(x, xp.ndarray) for x in xs):
        return xs
    device = next((buffer_device(x) for x in xs if isinstance(x, xp.ndarray)), "cuda")
    return [on_device(x if isinstance(x, xp.ndarray) else np.asarray(x)[()], device) for x in xs]


def _batch_joined(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    return primitive.bind(filled_operands(values, flags), {"axis": params["axis"] + 1})


def _concatenate_pullback(g: Array, xs: Sequence[Any], *, axis: int) -> list[Any]:
    parts = []
    end = 0
    for x in xs:
        start, end = end, end + shape_of(x)[axis]
        key = IndexKey((*(FULL,) * axis, slice(start, end)))
        parts.append(index_primitive.bind((g,), {"key": key}))
    return parts


def _stack_pullback(g: Array, xs: Sequence[Any], *, axis: int) -> list[Any]:
    keys = (IndexKey((*(FULL,) * axis, i)) for i in range(len(xs)))
    return [index_primitive.bind((g,), {"key": key}) for key in keys]


def _joining(name: str, **declared: Any) -> Primitive:
    primitive = Primitive(
        name,
        batch=_batch_joined, dtypes="fdD",
        keep=lambda ans, xs: (None, *map(shape_of, xs)),
        pushforward=lambda ts, *, axis: primitive.bind(ts, {"axis": axis}),
        **declared,
    )
    return primitive


concatenate_primitive = _joining(
    "concatenate",
    compute=lambda xp, *xs, axis: xp.concatenate(_joinable(xp, xs), axis),
    infer=_infer_concatenate,
    pullback=_concatenate_pullback,
    reference=lambda *xs, axis: np.concatenate(xs, axis),
    samples=[
        Sample((2, 3), (4, 3), axis=0), Sample((2, 1), (2, 0), (2, 3), axis=1),
        Sample((0, 3), axis=0),
    ],
)
stack_primitive = _joining(
    "stack",
    compute=lambda xp, *xs, axis: xp.stack(_joinable(xp, xs), axis),
    infer=_infer_stack,
    pullback=_stack_pullback,
    reference=lambda *xs, axis: np.stack(xs, axis),
    samples=[
        Sample((2, 3), (2, 3), (2, 3), axis=1), Sample((), (), axis=0),
        Sample((0, 3), (0, 3), axis=2),
    ],
)


def _operands_to_join(
    name: str,
    arrays: Iterable[ArrayLike],
    dtype: DTypeLike | None,
    out: ArrayLike | None,
    casting: str,
) -> list[Any]:
    if out is not None:
        refuse_out(name, out)
    if DEVICE_TYPES:
        operands = operands_together(name, *arrays)
    else:
        operands = [operand(x) if isinstance(x, (list, tuple)) else x for x in arrays]
    if not operands:
        raise ValueError(f"{name}: need at least one array")
    if dtype is None:
        return operands
    for x in operands:
        if not np.can_cast(shape_dtype(x).dtype, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"{name}: {shape_dtype(x).dtype} is not cast to {np.dtype(dtype)} by "
                f"casting={casting!r}; casting='unsafe' would"
            )
    return [ops.astype(x, dtype) for x in operands]


def _with_axes(name: str, operands: Iterable[ArrayLike]) -> Iterable[Any]:
    """Returns operands of which numbers, that get axes, have become arrays beside the others."""
    if not DEVICE_TYPES:
        return operands
    operands = operands_together(name, *operands)
    place = next((d for d in map(device_of, operands) if d != "cpu"), None)
    if place is None:
        return operands
    return [x if shape_of(x) else ops.asarray(x, device=place) for x in operands]


@of_sequence
@registry.add_function
def concatenate(
    arrays: Iterable[ArrayLike],
    /,
    axis: int | None = 0,
    out: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array:
    """Returns arrays joined along an axis that they have.

    Args:
        arrays: a sequence of arrays, which may differ in length along ``axis`` only.
        axis: along which axis; None joins the flattened arrays.
        out: None; arrays are immutable.
        dtype: the result's dtype; None for that to which the arrays promote.
        casting: which casts to that dtype are made; others are an error.

    Returns:
        An array.

    Raises:
        ShapeError: the arrays do not fit.

    >>> import functensor.numpy as np
    >>> np.concatenate([np.zeros(2), np.ones(1)])
    Array([0., 0., 1.], dtype=float64, device='cpu')
    """
    operands = _operands_to_join("concatenate", arrays, dtype, out, casting)
    if axis is None:
        operands, axis = [ops.reshape(x, -1) for x in _with_axes("concatenate", operands)], 0
    axis = canonical_axis(axis, len(shape_of(operands[0])))
    return concatenate_primitive.bind(operands, {"axis": axis})


@of_sequence
@registry.add_function
def stack(
    arrays: Iterable[ArrayLike],
    axis: int = 0,
    out: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array:
    """Returns arrays joined along a new axis.

    Args:
        arrays: a sequence of arrays of one shape.
        axis: where the new axis stands in the result.
        out: None; arrays are immutable.
        dtype: the result's dtype; None for that to which the arrays promote.
        casting: which casts to that dtype are made; others are an error.

    Returns:
        An array of one more axis.

    Raises:
        ShapeError: the shapes differ.

    >>> import functensor.numpy as np
    >>> np.stack([np.zeros(2), np.ones(2)], axis=1)
    Array([[0., 1.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    operands = _operands_to_join("stack", arrays, dtype, out, casting)
    axis = canonical_axis(axis, len(shape_of(operands[0])) + 1)
    return stack_primitive.bind(operands, {"axis": axis})


@of_sequence
@registry.add_function
def vstack(
    tup: Iterable[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> Array:
    """Returns arrays joined along the first axis, 1-d ones as rows.

    Args:
        tup: a sequence of arrays.
        dtype: the result's dtype; None for that to which the arrays promote.
        casting: which casts to that dtype are made; others are an error.

    >>> import functensor.numpy as np
    >>> np.vstack([np.zeros(2), np.ones(2)])
    Array([[0., 0.],
           [1., 1.]], dtype=float64, device='cpu')
    """
    arrays = [ops.atleast_2d(x) for x in _with_axes("vstack", tup)]
    return concatenate(arrays, 0, dtype=dtype, casting=casting)


@of_sequence
@registry.add_function
def hstack(
    tup: Iterable[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> Array:
    """Returns arrays joined along the second axis, 1-d ones along their only axis.

    Args:
        tup: a sequence of arrays.
        dtype: the result's dtype; None for that to which the arrays promote.
        casting: which casts to that dtype are made; others are an error.

    >>> import functensor.numpy as np
    >>> np.hstack([np.zeros(2), np.ones(1)])
    Array([0., 0., 1.], dtype=float64, device='cpu')
    """
    arrays = [ops.atleast_1d(x) for x in _with_axes("hstack", tup)]
    axis = 0 if arrays and len(shape_of(arrays[0])) == 1 else 1
    return concatenate(arrays, axis, dtype=dtype, casting=casting)


# -- one array cut into several


@registry.add_function
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Returns the parts into which an array is cut along an axis.

    Args:
        ary: an array.
        indices_or_sections: into how many parts, of which the first ones may be longer by one; or
            the indices before which to cut.
        axis: along which axis.

    Returns:
        A list of arrays of ary's dtype.

    >>> import functensor.numpy as np
    >>> [part.shape for part in np.array_split(np.zeros(5), 2)]
    [(3,), (2,)]
    """
    ary = operand(ary)
    axis = canonical_axis(axis, len(shape_of(ary)))
    length = shape_of(ary)[axis]
    try:
        cuts = [0, *map(operator.index, indices_or_sections), length]
    except TypeError:
        cuts = []
    if not cuts:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0")
        size, longer = divmod(length, sections)
        cuts = [i * size + min(i, longer) for i in range(sections + 1)]
    before = (FULL,) * axis
    return [ops.index(ary, (*before, slice(start, end))) for start, end in pairwise(cuts)]


@registry.add_function
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Returns the parts, of equal length, into which an array is cut along an axis.

    Args:
        ary: an array.
        indices_or_sections: into how many parts; or the indices before which to cut.
        axis: along which axis.

    Returns:
        A list of arrays of ary's dtype.

    Raises:
        ShapeError: the axis does not divide into so many parts.

    >>> import functensor.numpy as np
    >>> np.split(np.arange(4.0), 2)[1]
    Array([2., 3.], dtype=float64, device='cpu')
    """
    ary = operand(ary)
    if np.ndim(indices_or_sections) == 0:
        length = shape_of(ary)[canonical_axis(axis, len(shape_of(ary)))]
        if length % max(operator.index(indices_or_sections), 1):
            raise misfit(
                f"split: axis {axis} of length {length} does not divide into "
                f"{indices_or_sections} equal parts",
                f"np.array_split(x, {indices_or_sections}, axis={axis})",
            )
    parts: list[Any] = array_split(ary, indices_or_sections, axis)
    return parts


# -- repeated


@ops.add_function
def tile(A: ArrayLike, reps: ShapeLike) -> Array:
    """Returns an array repeated as a whole along its axes.

    Args:
        A: an array.
        reps: how often: an integer, or integers for the last axes; more of them add axes.

    Returns:
        An array of A's dtype.

    >>> import functensor.numpy as np
    >>> np.tile(np.array([1.0, 2.0]), 2)
    Array([1., 2., 1., 2.], dtype=float64, device='cpu')
    """
    A = operand(A)
    counts, lengths = as_shape(reps), shape_of(A)
    rank = max(len(counts), len(lengths))
    counts = (1,) * (rank - len(counts)) + counts
    lengths = (1,) * (rank - len(lengths)) + lengths
    apart = [n for length in lengths for n in (1, length)]
    spread = [n for pair in zip(counts, lengths, strict=True) for n in pair]
    out = ops.broadcast_to(ops.reshape(A, apart), spread)
    return ops.reshape(out, [n * length for n, length in zip(counts, lengths, strict=True)])


# Single elements that are repeated so often are copied array by array, in a quarter of the time.
MOST_STACKED_REPEATS = 4
REPEAT_FIX = "np.repeat(x, counts, total_repeat_length=n), which tells the length of the result"


@ops.add_function
def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Returns an array with every element, or every slice along an axis, repeated.

    Args:
        a: an array.
        repeats: how often: an integer, or one for each slice (known numbers, not traced, unless
            the length of the result is told).
        axis: along which axis; None repeats the elements of the flattened array.
        total_repeat_length: the length of the result along the axis. Slices beyond it are cut off;
            missing ones repeat the last slice.

    Returns:
        An array of a's dtype.

    Raises:
        ConcretizationError: ``repeats`` is traced and there is no ``total_repeat_length``.

    >>> import functensor.numpy as np
    >>> np.repeat(np.array([1.0, 2.0]), 2)
    Array([1., 1., 2., 2.], dtype=float64, device='cpu')
    """
    a = ops.reshape(a, -1) if axis is None else operand(a)
    shape = shape_of(a)
    axis = canonical_axis(axis or 0, len(shape))
    if total_repeat_length is not None:
        counts = ops.broadcast_to(ops.astype(ops.asarray(repeats), np.intp), (shape[axis],))
        ends = ops.cumsum(counts, axis=0)
        wanted = beside(ends, np.arange(total_repeat_length))
        places = ops.searchsorted(ends, wanted, "right")
        return ops.take(a, ops.minimum(places, shape[axis] - 1), axis)
    if not isinstance(repeats, int | np.integer):
        repeats = ops.asarray(repeats)
    if shape_of(repeats):
        # The length of the result depends on their values.
        known = np.asarray(to_host(concrete(repeats, "np.repeat", REPEAT_FIX)))
        return ops.take(a, np.repeat(np.arange(shape[axis]), known), axis)
    if isinstance(repeats, Array):
        repeats = to_host(concrete(repeats, "np.repeat", REPEAT_FIX))
    count = operator.index(repeats)
    before, length, after = shape[:axis], shape[axis], shape[axis + 1 :]
    if prod(after) == 1 and 0 < count <= MOST_STACKED_REPEATS:
        out = ops.stack([a] * count, axis=axis + 1)
    else:
        out = ops.reshape(a, (*before, length, 1, *after))
        out = ops.broadcast_to(out, (*before, length, count, *after))
    return ops.reshape(out, (*before, length * count, *after))
