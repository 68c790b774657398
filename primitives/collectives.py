"""Communication between the examples of a ``vmap`` whose axis has a name.

Each is a function of one example's value and of the others'. The trace of the vmap of that name
does the work with plain operations over the batch axis (``along``). Every other trace sees a linear
function. An axis of processes is no trace: ``params["axis_name"]`` holds the axis itself, which
does the work on buffers, wherever that is. Outside of all named axes a call is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..backends.annotations import ArrayModule, Buffer
from ..backends.restoring import setting
from .core.annotations import Value
from .core.annotations import operations as ops
from .core.array import Array
from .core.buffers import beside, device_of
from .core.derivative_rules import shape_of
from .core.families import batch_along
from .core.primitive import Primitive
from .core.shape_dtype import ShapeDtype, shape_dtype
from .core.test_samples import DISTINCT, INTEGER, REAL, Domain, Operand, Sample
from .core.trace import slot
from .identities import batch_unchanged, infer_like_first

__all__ = [
    "Collective", "ProcessAxes", "all_gather", "all_to_all", "axis_device", "axis_index",
    "axis_length", "axis_names", "check_axis", "pmax", "pmin", "ppermute", "psum", "psum_scatter",
    "resolved_axis", "with_axes_of_now",
]  # fmt: skip

Params = dict[str, Any]


class AxisOfProcesses(Protocol):
    """A named axis of processes, as collectives know it."""

    size: int
    index: int

    def collect(self, name: str, buffer: Buffer, axes: Any, params: Params) -> Buffer:
        """Does a collective over axes, of which this is the first, on a buffer."""


@dataclass(frozen=True)
class ProcessAxes:
    """The axes of processes that the function of an ``spmd`` may speak of.

    Attributes:
        axes: by their names.
        device: where the function's arguments are.
        outer: the lengths of the axes of vmaps that a rule may speak of, which is staged without
            them; they come around it later.
        means: over which of the axes gradients are averaged, and how; None where they are not.
    """

    axes: Mapping[Hashable, AxisOfProcesses]
    device: str = "cpu"
    outer: Mapping[Hashable, int] = field(default_factory=dict)
    means: Any = None

    def __hash__(self) -> int:
        return hash((*self.axes.values(), self.device, *self.outer.items(), self.means))

    def __repr__(self) -> str:
        return f"<axes of processes: {', '.join(map(repr, self.axes))}>"


class Collective(Primitive):
    """A primitive over named axes; ``params["axis_name"]`` holds those that are still to be done.

    Args:
        name: its name.
        along: ``along(x, batched, size, params) -> (value, batched)``: does the work over the
            leading axis of its operand, if that is batched, at the level below the vmap.
        declared: what else ``Primitive`` takes. The batching rule is for axes of other names.
    """

    collective = True

    along: Callable[..., tuple[Any, bool]]

    def __init__(self, name: str, along: Callable[..., tuple[Any, bool]], **declared: Any) -> None:
        # Over an axis of another name every example does the same.
        super().__init__(name, batch=declared.pop("batch", batch_unchanged), **declared)
        self.along = along

    def exchanges(self, params: Mapping[str, Any]) -> bool:
        return any(hasattr(axis, "collect") for axis in params["axis_name"])


def axis_names() -> dict[str, int]:
    """Returns the named axes that the running code may speak of, with their lengths."""
    found = _batch_axes()
    if slot.axes is not None:
        for name, axis in slot.axes.axes.items():
            found.setdefault(name, axis.size)
        for name, size in slot.axes.outer.items():
            found.setdefault(name, size)
    return found


def _batch_axes() -> dict[Any, int]:
    """Returns the named axes of the vmaps that run, with their lengths."""
    found: dict[Any, int] = {}
    trace = slot.trace
    while trace is not None and trace.parent is not trace:
        name = getattr(trace, "axis_name", None)
        if name is not None:
            found.setdefault(name, trace.size)  # type: ignore[attr-defined]
        trace = trace.parent
    return found


def check_axis(function: str, name: Hashable) -> int:
    """Returns the length of a named axis.

    Raises:
        NameError: there is none of that name; the message has those that exist.
    """
    names = axis_names()
    if name not in names:
        raise _no_axis(function, name)
    return names[name]


def _no_axis(function: str, name: Hashable) -> NameError:
    """Returns the error for a name that no axis has."""
    existing = ", ".join(map(repr, axis_names())) or "none"
    of_mesh = f", or ft.distributed.mesh({{{name!r}: -1}})" if slot.axes is not None else ""
    return NameError(
        f"{function}: there is no axis named {name!r} here; axes with a name: {existing}. "
        f"Name one: ft.vmap(f, axis_name={name!r}){of_mesh}"
    )


def resolved_axis(function: str, name: Hashable) -> tuple[Any, int]:
    """Returns what collectives call a named axis, and its length.

    That is the name of a vmap's axis, and an axis of processes itself.
    """
    size = check_axis(function, name)
    if slot.axes is None or name in _batch_axes():
        return name, size
    return slot.axes.axes.get(name, name), size


def axis_length(function: str, axis: Any) -> int:
    """Returns the length of an axis that `resolved_axis` returned."""
    return axis.size if hasattr(axis, "collect") else check_axis(function, axis)


def with_axes_of_now(fun: Callable[..., Any] | None) -> Any:
    """Returns a function that may speak later, too, of the named axes that there are now."""
    outer = {} if fun is None else _batch_axes()
    if fun is None or (slot.axes is None and not outer):
        return fun
    axes = ProcessAxes({}, outer=outer)
    if slot.axes is not None:
        own = {name: axis for name, axis in slot.axes.axes.items() if name not in outer}
        axes = replace(slot.axes, axes=own, outer={**slot.axes.outer, **outer})

    def among(*args: Any) -> Any:
        with setting(slot, axes=axes):
            return fun(*args)

    return among


def axis_device(name: Hashable) -> str:
    """Returns the device where the examples along a named axis are."""
    trace = slot.trace
    while trace is not None and trace.parent is not trace:
        if getattr(trace, "axis_name", None) == name:
            inputs = trace.inputs  # type: ignore[attr-defined]
            return next((d for d in map(device_of, inputs) if d != "cpu"), "cpu")
        trace = trace.parent
    return "cpu" if slot.axes is None else slot.axes.device


def _computed(
    name: str, alone: Callable[..., Buffer] = lambda xp, x, **params: x
) -> Callable[..., Any]:
    """Returns what computes a collective over axes of processes, or over none by ``alone``."""

    def compute(xp: ArrayModule, x: Buffer, *, axis_name: tuple[Any, ...], **params: Any) -> Buffer:
        for axis in axis_name:
            if not hasattr(axis, "collect"):
                raise _no_axis(name, axis)
        x = xp.asarray(x)
        first: AxisOfProcesses | None = next(iter(axis_name), None)
        if first is None:
            return alone(xp, x, **params)[()]
        return first.collect(name, x, axis_name, params)[()]

    return compute


def _collective_samples(domain: Domain) -> list[Sample]:
    return [Sample(Operand(shape, domain), axis_name=()) for shape in ((), (2, 3), (0, 2))]


# -- sums


def _of_every_example(x: Value, batched: bool, size: int) -> Value:
    """Returns an operand with a batch axis."""
    return x if batched else ops.broadcast_to(x, (size, *shape_of(x)))


def _sum_of_examples(x: Value, batched: bool, size: int) -> Array:
    """Returns the sum over the examples, in the operand's own dtype."""
    known = shape_dtype(x)
    if batched or known.dtype.kind in "iu":
        total = ops.sum(_of_every_example(x, batched, size), axis=0)
    else:
        total = ops.multiply(x, size)
    return total if shape_dtype(total).dtype == known.dtype else ops.astype(total, known.dtype)


psum = Collective(
    "psum",
    lambda x, batched, size, params: (_sum_of_examples(x, batched, size), False),
    compute=_computed("psum"), infer=infer_like_first,
    # The sum goes to every example of the batch; the sum of all their cotangents comes back.
    vjp=(lambda g, *, axis_name: ops.psum(g, axis_name=axis_name),),
    linear=True,
    reference=lambda x, axis_name: x,
    samples=_collective_samples(REAL), dtypes="fdD",
    doc="Returns the sum over the examples of named axes; `functensor.psum` is its public form.",
)


# -- extrema


def _tied_share(g: Array, x: Array, ans: Array, axis_name: tuple[str, ...]) -> Array:
    """Returns a cotangent or tangent divided among the examples that attain the extremum."""
    tied = ops.astype(ops.equal(x, ans), x.dtype)
    return g * (tied / ops.psum(tied, axis_name=axis_name))


def _collective_extremum(name: str, reduction: str, adjective: str) -> Collective:
    def along(x: Value, batched: bool, size: int, params: Params) -> tuple[Value, bool]:
        return (getattr(ops, reduction)(x, axis=0) if batched else x), False

    return Collective(
        name,
        along,
        compute=_computed(name), infer=infer_like_first,
        vjp=(
            lambda g, x, ans, *, axis_name: _tied_share(
                ops.psum(g, axis_name=axis_name), x, ans, axis_name
            ),
        ),
        jvp=(
            lambda g, x, ans, *, axis_name: ops.psum(
                _tied_share(g, x, ans, axis_name), axis_name=axis_name
            ),
        ),
        reference=lambda x, axis_name: x,
        samples=_collective_samples(DISTINCT),
        doc=f"Returns the {adjective} over the examples of named axes; see `functensor.{name}`.",
    )


pmax = _collective_extremum("pmax", "max", "largest value")
pmin = _collective_extremum("pmin", "min", "smallest value")


# -- from all to all


def _along_gather(x: Value, batched: bool, size: int, params: Params) -> tuple[Array, bool]:
    x, axis = _of_every_example(x, batched, size), params["axis"]
    return ops.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, len(shape_of(x))))), False


all_gather = Collective(
    "all_gather",
    _along_gather,
    compute=_computed("all_gather", lambda xp, x, axis, size: xp.expand_dims(x, axis)),
    infer=lambda primitive, x, *, axis, size, axis_name: ShapeDtype(
        (*x.shape[:axis], size, *x.shape[axis:]), x.dtype
    ),
    batch=batch_along,
    vjp=(lambda g, **params: ops.psum_scatter(g, **params),),
    linear=True,
    reference=lambda x, axis_name, axis, size: np.expand_dims(x, axis),
    samples=[
        Sample((), axis_name=(), axis=0, size=1), Sample((2, 3), axis_name=(), axis=1, size=1),
        Sample((0, 3), axis_name=(), axis=2, size=1),
    ],
    dtypes="fdD",
    doc="Returns the values of all examples along a new axis; see `functensor.all_gather`.",
)


def _along_scatter(x: Value, batched: bool, size: int, params: Params) -> tuple[Array, bool]:
    total = _sum_of_examples(x, batched, size)
    axis, ndim = params["axis"], len(shape_of(total))
    return ops.transpose(total, (axis, *range(axis), *range(axis + 1, ndim))), True


psum_scatter = Collective(
    "psum_scatter",
    _along_scatter,
    compute=_computed("psum_scatter", lambda xp, x, axis, size: xp.squeeze(x, axis)),
    infer=lambda primitive, x, *, axis, size, axis_name: ShapeDtype(
        (*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype
    ),
    batch=batch_along,
    vjp=(lambda g, **params: ops.all_gather(g, **params),),
    linear=True,
    reference=lambda x, axis_name, axis, size: np.squeeze(x, axis),
    samples=[
        Sample((1,), axis_name=(), axis=0, size=1), Sample((2, 1, 3), axis_name=(), axis=1, size=1),
        Sample((0, 1), axis_name=(), axis=1, size=1),
    ],
    dtypes="fdD",
    doc="Returns each example's part of the sum over all; see `functensor.psum_scatter`.",
)


def _along_exchange(x: Value, batched: bool, size: int, params: Params) -> tuple[Array, bool]:
    x = _of_every_example(x, batched, size)
    order = [axis for axis in range(1, len(shape_of(x))) if axis != params["split_axis"] + 1]
    order.insert(params["concat_axis"], 0)
    return ops.transpose(x, (params["split_axis"] + 1, *order)), True


def _batch_exchange(
    primitive: Primitive, values: Any, flags: Any, params: Params
) -> Value:
    moved = {name: params[name] + 1 for name in ("split_axis", "concat_axis")}
    return primitive.bind(values, {**params, **moved})


def _exchange_alone(
    xp: ArrayModule, x: Buffer, *, split_axis: int, concat_axis: int, size: int
) -> Buffer:
    return xp.moveaxis(x, split_axis, concat_axis)


def _infer_exchange(
    primitive: Primitive, x: ShapeDtype, *, split_axis: int, concat_axis: int, size: int, **_: Any
) -> ShapeDtype:
    rest = [*x.shape[:split_axis], *x.shape[split_axis + 1 :]]
    rest.insert(concat_axis, size)
    return ShapeDtype(tuple(rest), x.dtype)


all_to_all = Collective(
    "all_to_all",
    _along_exchange,
    compute=_computed("all_to_all", _exchange_alone),
    infer=_infer_exchange,
    batch=_batch_exchange,
    # The way back sends everything back.
    vjp=(
        lambda g, *, split_axis, concat_axis, **params: ops.all_to_all(
            g, split_axis=concat_axis, concat_axis=split_axis, **params
        ),
    ),
    linear=True,
    reference=lambda x, axis_name, split_axis, concat_axis, size: np.moveaxis(
        x, split_axis, concat_axis
    ),
    samples=[
        Sample((1,), axis_name=(), split_axis=0, concat_axis=0, size=1),
        Sample((2, 1, 3), axis_name=(), split_axis=1, concat_axis=2, size=1),
        Sample((0, 1), axis_name=(), split_axis=1, concat_axis=0, size=1),
    ],
    dtypes="fdD",
    doc="Returns the parts that all examples have for one; see `functensor.all_to_all`.",
)


def _along_permute(x: Value, batched: bool, size: int, params: Params) -> tuple[Array, bool]:
    x = _of_every_example(x, batched, size)
    source = np.zeros(size, int)
    reached = np.zeros(size, bool)
    for start, end in params["perm"]:
        source[end] = start
        reached[end] = True
    moved = ops.take(x, source, axis=0)
    if reached.all():
        return moved, True
    shape = (size,) + (1,) * (len(shape_of(x)) - 1)
    return ops.where(beside(x, reached.reshape(shape)), moved, shape_dtype(x).dtype.type(0)), True


ppermute = Collective(
    "ppermute",
    _along_permute,
    compute=_computed("ppermute", lambda xp, x, perm: x * bool(perm)),
    infer=infer_like_first,
    vjp=(
        lambda g, *, axis_name, perm: ops.ppermute(
            g, axis_name=axis_name, perm=tuple((end, start) for start, end in perm)
        ),
    ),
    linear=True,
    reference=lambda x, axis_name, perm: x * len(perm),
    samples=[
        Sample((2, 3), axis_name=(), perm=((0, 0),)), Sample((2,), axis_name=(), perm=()),
        Sample((), axis_name=(), perm=((0, 0),)), Sample((0, 2), axis_name=(), perm=()),
    ],
    dtypes="fdD",
    doc="Returns the value of another example, zero if none; see `functensor.ppermute`.",
)


# -- the position of an example


def _along_index(x: Value, batched: bool, size: int, params: Params) -> tuple[Array, bool]:
    places = np.arange(size).reshape(size, *(1,) * (len(shape_of(x)) - batched))
    return ops.add(x, beside(x, places)), True


axis_index = Collective(
    "axis_index",
    _along_index,
    compute=_computed("axis_index"), infer=infer_like_first, constant=True,
    reference=lambda x, axis_name: x,
    samples=_collective_samples(INTEGER),
    doc="Adds the example's position along a named axis; see `functensor.axis_index`.",
)
