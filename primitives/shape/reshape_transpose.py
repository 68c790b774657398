"""Shapes: elements move, none is computed with."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Axis, Buffer, Shape, ShapeLike
from ..core.annotations import ArrayLike, Prepared, Value
from ..core.annotations import operations as ops
from ..core.array import Array, is_unknown
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import structural
from ..core.index_key import FULL
from ..core.primitive import Primitive
from ..core.registry import operand
from ..core.shape_dtype import broadcast_shapes, canonical_axes, canonical_axis, shape_dtype
from ..core.test_samples import Sample

__all__ = ["as_shape", "broadcast_to", "flip", "reshape", "roll", "transpose", "tril", "triu"]

# Up to this many elements a copy costs less than making a view with strides of zero.
LARGEST_COPIED_ELEMENTS = 2048


def as_shape(shape: Any) -> tuple[int, ...]:
    """Returns a shape that was given as an integer or a sequence of integers."""
    try:
        lengths = iter(shape)
    except TypeError:
        # Errors about lengths are raised below, without this one as their context.
        lengths = iter((shape,))
    return tuple(map(operator.index, lengths))


class Reshape(Primitive):
    """Reshaping; in the order of Fortran it is that of what is transposed, transposed."""

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            if len(args) == 2 and not kwargs:
                a, shape = args
                order = "C"
            else:
                a, shape, order = _of_reshape(*args, **kwargs)
            a = operand(a)
            if order in ("C", "A", None):
                return self.bind(*_reshape_arguments(a, shape))
            if order != "F":
                raise ValueError(f"reshape: order is 'C' or 'F', not {order!r}")
            return ops.transpose(self(ops.transpose(a), as_shape(shape)[::-1]))
        except Exception as error:
            self.complain(error, args, kwargs)
            raise


def _of_reshape(
    a: ArrayLike, shape: ShapeLike, order: str | None = "C", *, copy: bool | None = None
) -> tuple[Any, ...]:
    return a, shape, order


def _reshape_arguments(
    a: ArrayLike, shape: ShapeLike, order: str = "C", *, copy: bool | None = None
) -> Prepared:
    wanted = as_shape(shape)
    size = prod(shape_of(a))
    if prod(wanted) != size or (wanted and min(wanted) < 0):
        known = -prod(wanted)
        if wanted.count(-1) != 1 or min(wanted) < -1 or not known or size % known:
            raise misfit(
                f"reshape: {shape_of(a)} has {size} elements, which do not fill {wanted}",
                f"give lengths whose product is {size}; one of them may be -1",
            )
        wanted = tuple(size // known if n == -1 else n for n in wanted)
    return (a,), {"shape": wanted}


reshape = structural(
    "reshape",
    lambda g, x_shape: ops.reshape(g, x_shape),
    kind=Reshape,
    compute=lambda xp, x, *, shape: (
        x.reshape(shape) if type(x) is xp.ndarray else xp.reshape(x, shape)
    ),
    prepare=_reshape_arguments,
    shape=lambda x_shape, *, shape: shape,
    shift=lambda size, *, shape: {"shape": (size, *shape)},
    samples=[
        Sample((2, 3), shape=(3, 2)), Sample((), shape=(1, 1)), Sample((0, 3), shape=(3, 0)),
        Sample((1,), shape=()),
    ],
    doc="""Returns the elements in another shape.

    Args:
        a: an array.
        shape: an integer or integers; one of them may be -1 and is then worked out.
        order: ``C``: the last axis moves fastest; ``F``: the first one.
        copy: of no effect; arrays are immutable, so that copies and views are alike.

    Returns:
        An array of a's dtype and the given shape.

    Raises:
        ShapeError: the elements do not fill the shape.

    >>> import functensor.numpy as np
    >>> np.reshape(np.arange(4.0), (2, -1))
    Array([[0., 1.],
           [2., 3.]], dtype=float64, device='cpu')
    """,
)


def _transpose_arguments(a: ArrayLike, axes: Axis = None) -> Prepared:
    ndim = len(shape_of(a))
    if axes is None:
        return (a,), {"axes": tuple(range(ndim - 1, -1, -1))}
    order = tuple([canonical_axis(i, ndim) for i in as_shape(axes)])
    if len(order) != ndim or len(set(order)) != ndim:
        raise ValueError(f"transpose: axes {axes} are not a permutation of {ndim} axes")
    return (a,), {"axes": order}


transpose = structural(
    "transpose",
    lambda g, *, axes: ops.transpose(g, sorted(range(len(axes)), key=axes.__getitem__)),
    compute=lambda xp, x, *, axes: (
        x.transpose(axes) if type(x) is xp.ndarray else xp.transpose(x, axes)
    ),
    prepare=_transpose_arguments,
    shape=lambda x_shape, *, axes: tuple(x_shape[a] for a in axes),
    shift=lambda size, *, axes: {"axes": (0, *(a + 1 for a in axes))},
    samples=[Sample((2, 3, 4), axes=(2, 0, 1)), Sample((), axes=()), Sample((0, 3), axes=(1, 0))],
    doc="""Returns an array with its axes permuted.

    Args:
        a: an array.
        axes: for every axis of the result the axis of a that it is; None reverses them.

    Returns:
        An array of a's dtype.

    >>> import functensor.numpy as np
    >>> np.transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """,
)


def _compute_broadcast(xp: ArrayModule, x: Buffer, *, shape: tuple[int, ...]) -> Any:
    x = xp.asarray(x)
    if x.size == prod(shape) and x.shape == shape[len(shape) - x.ndim :]:
        # Tensors rely on it: what repeats no element is a view.
        return x.reshape(shape)
    if prod(shape) > LARGEST_COPIED_ELEMENTS or x.ndim > len(shape) or xp is not np:
        return xp.broadcast_to(x, shape)
    out = xp.empty(shape, x.dtype)
    out[...] = x
    return out


def _broadcast_shape(x_shape: tuple[int, ...], *, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(x_shape) > len(shape) or broadcast_shapes("broadcast_to", x_shape, shape) != shape:
        raise misfit(
            f"broadcast_to: {x_shape} does not broadcast to {shape}",
            "axes are compared from the last; only axes of length 1 grow",
        )
    return shape


def _batch_broadcast(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    shape = params["shape"]
    size, *own = shape_of(values[0])
    # With as many axes as the result it keeps its batch axis in front.
    aligned = ops.reshape(values[0], (size, *(1,) * (len(shape) - len(own)), *own))
    return primitive.bind((aligned,), {"shape": (size, *shape)})


broadcast_to = structural(
    "broadcast_to",
    lambda g: g,
    compute=_compute_broadcast,
    prepare=lambda array, shape, subok=False: ((array,), {"shape": as_shape(shape)}),
    shape=_broadcast_shape, batch=_batch_broadcast, broadcasts=True,
    samples=[
        Sample((1, 3), shape=(2, 3)), Sample((), shape=(2,)), Sample((3,), shape=(2, 0, 3)),
        Sample((3, 1), shape=(2, 3, 4)),
    ],
    doc="""Returns an array repeated, without a copy where it is large, to a shape.

    Args:
        array: an array.
        shape: an integer or integers.
        subok: of no effect.

    Returns:
        An array of the same dtype and the given shape.

    Raises:
        ShapeError: axes are compared from the last; those that differ must have length 1.

    >>> import functensor.numpy as np
    >>> np.broadcast_to(np.array([1.0, 2.0]), (2, 2))
    Array([[1., 2.],
           [1., 2.]], dtype=float64, device='cpu')
    """,
)


def _flip(xp: ArrayModule, x: Buffer, *, axis: tuple[int, ...]) -> Any:
    backwards = slice(None, None, -1)
    x = xp.asarray(x)
    return x[tuple(backwards if i in axis else FULL for i in range(x.ndim))]


flip = structural(
    "flip",
    lambda g, *, axis: ops.flip(g, axis),
    compute=_flip,
    prepare=lambda m, axis=None: ((m,), {"axis": canonical_axes(axis, len(shape_of(m)))}),
    shape=lambda x_shape, *, axis: x_shape,
    shift=lambda size, *, axis: {"axis": tuple(a + 1 for a in axis)},
    samples=[
        Sample((2, 3), axis=(1,)), Sample((2, 3, 4), axis=(0, 2)), Sample((0, 3), axis=(0, 1)),
    ],
    doc="""Returns an array with its elements in reverse order along axes.

    Args:
        m: an array.
        axis: None for all axes, an integer or a tuple.

    Returns:
        An array of m's shape and dtype.

    >>> import functensor.numpy as np
    >>> np.flip(np.array([1.0, 2.0, 3.0]))
    Array([3., 2., 1.], dtype=float64, device='cpu')
    """,
)


class Roll(Primitive):
    """Rolling, by numbers of places that need not be known."""

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            a, shift, axis = _of_roll(*args, **kwargs)
            if is_unknown(shift):
                return _rolled(operand(a), shift, axis)
            return super().__call__(a, shift, axis)
        except Exception as error:
            self.complain(error, args, kwargs)
            raise


def _of_roll(a: ArrayLike, shift: ShapeLike, axis: Axis = None) -> tuple[Any, ...]:
    return a, shift, axis


def _rolled(a: Array, shift: Any, axis: Axis) -> Array:
    """Rolls by places that are not known: by indices, which are computed of them."""
    if axis is None:
        total = ops.sum(operand(shift))
        return ops.reshape(_rolled(ops.reshape(a, -1), total, 0), shape_of(a))
    axes = as_shape(axis)
    several = isinstance(shift, list | tuple) or shape_of(shift)
    steps = list(shift) if several else [shift]
    if len(axes) != len(steps):
        if 1 not in (len(axes), len(steps)):
            raise ValueError(f"roll: {len(steps)} shifts for {len(axes)} axes")
        axes, steps = axes * len(steps), steps * len(axes)
    for i, step in zip(axes, steps, strict=False):
        i = canonical_axis(i, len(shape_of(a)))
        length = shape_of(a)[i]
        places = ops.subtract(beside(a, np.arange(length)), step)
        a = ops.index(a, (*(FULL,) * i, ops.remainder(places, max(length, 1))))
    return a


def _roll_arguments(a: ArrayLike, shift: ShapeLike, axis: Axis = None) -> Prepared:
    if axis is None:
        return (a,), {"shift": (int(np.sum(as_shape(shift))),), "axis": None}
    total: dict[int, int] = {}
    steps, axes = np.broadcast_arrays(as_shape(shift), as_shape(axis))
    for step, i in zip(steps.tolist(), axes.tolist(), strict=True):
        i = canonical_axis(i, len(shape_of(a)))
        total[i] = total.get(i, 0) + step
    return (a,), {"shift": tuple(total.values()), "axis": tuple(total)}


def _batch_roll(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    axis = params["axis"]
    if axis is not None:
        return primitive.bind(values, {**params, "axis": tuple(a + 1 for a in axis)})
    shape = shape_of(values[0])
    flat = ops.reshape(values[0], (shape[0], prod(shape[1:])))
    return ops.reshape(primitive.bind((flat,), {**params, "axis": (1,)}), shape)


def _roll_buffer(xp: ArrayModule, x: Buffer, *, shift: Shape, axis: Shape | None) -> Buffer:
    if axis is None:
        return _roll_buffer(xp, x.reshape(-1), shift=shift[:1], axis=(0,)).reshape(x.shape)
    if xp is not np or len(axis) != 1 or not x.size or not x.dtype.isnative:
        return xp.roll(x, shift, axis)
    # NumPy's own function takes five times as long for a small array. Joined parts have the
    # machine's order of bytes.
    (i,) = axis
    cut = x.shape[i] - shift[0] % x.shape[i]
    before = (slice(None),) * i
    return np.concatenate((x[(*before, slice(cut, None))], x[(*before, slice(cut))]), i)


roll = structural(
    "roll",
    lambda g, *, shift, axis: ops.roll(g, tuple(-s for s in shift), axis),
    kind=Roll,
    compute=_roll_buffer,
    prepare=_roll_arguments,
    shape=lambda x_shape, *, shift, axis: x_shape,
    batch=_batch_roll,
    samples=[
        Sample((2, 3), shift=(1,), axis=None), Sample((2, 3), shift=(-1,), axis=(1,)),
        Sample((3, 2, 4), shift=(2, 5), axis=(0, 2)), Sample((0, 3), shift=(1,), axis=(0,)),
    ],
    doc="""Returns an array with its elements moved along axes, the last ones to the front.

    Args:
        a: an array.
        shift: by how many places; a tuple goes with a tuple of axes.
        axis: None rolls the flattened array; an integer or a tuple.

    Returns:
        An array of a's shape and dtype.

    >>> import functensor.numpy as np
    >>> np.roll(np.array([1.0, 2.0, 3.0]), 1)
    Array([3., 1., 2.], dtype=float64, device='cpu')
    """,
)


class Triangle(Primitive):
    """A triangle of matrices, above or below a diagonal that need not be known."""

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            m, k = _of_triangle(*args, **kwargs)
            return self._masked(operand(m), k) if is_unknown(k) else super().__call__(m, k)
        except Exception as error:
            self.complain(error, args, kwargs)
            raise

    def _masked(self, m: ArrayLike, k: Any) -> Array:
        (m,), _ = self.prepare(m)  # type: ignore[misc]
        rows, columns = shape_of(m)[-2:]
        offset = beside(m, np.arange(columns) - np.arange(rows)[:, None])
        inside = (ops.less_equal if self.name == "tril" else ops.greater_equal)(offset, k)
        return ops.where(inside, m, False if shape_dtype(m).dtype.kind == "b" else 0)


def _of_triangle(m: ArrayLike, k: int = 0) -> tuple[Any, ...]:
    return m, k


def _declare_triangle(name: str, which: str, shown: str) -> Primitive:
    def arguments(m: ArrayLike, k: int = 0) -> Prepared:
        shape = shape_of(m)
        if not shape:
            raise misfit(f"{name}: a number has no axes", f"np.{name}(x), x of one axis or more")
        if len(shape) == 1:
            m = ops.broadcast_to(m, shape * 2)
        return (m,), {"k": operator.index(k)}

    return structural(
        name,
        lambda g, *, k: ops[name].bind((g,), {"k": k}),
        kind=Triangle, prepare=arguments,
        shape=lambda x_shape, *, k: x_shape,
        samples=[Sample((3, 3), k=0), Sample((2, 3, 4), k=1), Sample((2, 0), k=-1)],
        doc=f"""Returns an array with zeros {which} a diagonal of its last two axes.

    Args:
        m: an array; of one axis it is taken for every row of a square matrix.
        k: which diagonal: 0 the main one, positive ones above it.

    Returns:
        An array of m's shape, or a square matrix, and dtype.

    Raises:
        ShapeError: it has no axes.

    >>> import functensor.numpy as np
    >>> np.{name}(np.ones((2, 2)))
    Array({shown}, dtype=float64, device='cpu')
    """,
    )


tril = _declare_triangle("tril", "above", "[[1., 0.],\n           [1., 1.]]")
triu = _declare_triangle("triu", "below", "[[1., 1.],\n           [0., 1.]]")
