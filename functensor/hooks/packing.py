"""Residuals that a hook keeps in another form, from the run to the rule that needs them.

A node keeps values of the level below its own: buffers, or tracers with a buffer at the bottom.
The hook is given the buffer. All around it stays as it is, nodes and batch axes included. So an
unpacked value stands for the same traced value, and derivatives of any order go through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..backends.devices import device_of
from ..primitives.core.array import Array, Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import BUFFER_TYPES, owned, to_buffer, wrap
from ..primitives.core.errors import describe
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import Trace, new, slot
from ..traces.stand_ins import waits
from .faults import blaming, hook_name, is_looked_at, look_at_replacement, shown, wrong_result
from .live_memory import owner_of, owners_of
from .memory_order import View, in_memory_order, memory_order
from .operation import Operation
from .values import Range, levels_of

if TYPE_CHECKING:
    from ..backends.annotations import Buffer

__all__ = ["Form", "Opening", "Packing", "opened"]


class Form:
    """Stands where a value was kept, and can make that value again."""

    __slots__ = ()

    def opened(self) -> Any:
        """Returns the value."""
        raise NotImplementedError


def opened(x: Any) -> Any:
    """Returns the value that a form stands for; all else as it is."""
    return x.opened() if isinstance(x, Form) else x


class Opening(list[Any]):
    """The residuals of a node, each of which is unpacked when a rule asks for it.

    Args:
        saved: what the node keeps.
        found: those that were unpacked already, by their places.
    """

    def __init__(self, saved: Sequence[Any], found: dict[int, Any]) -> None:
        super().__init__(saved)
        self._found = found

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple([self[i] for i in range(*place.indices(len(self)))])
        x = super().__getitem__(place)
        if not isinstance(x, Form):
            return x
        if place not in self._found:
            self._found[place] = x.opened()
        return self._found[place]

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))


class Origin(ref[Any]):
    """Knowledge of a buffer, or of a value of a program, for as long as it is alive.

    Attributes:
        key: its id.
        given: whether it is an argument, which others hold.
        left: whether the hook has left it as it is.
        form: a weak reference to its packed form, or None.
    """

    __slots__ = ("form", "given", "key", "left")

    key: int
    given: bool
    left: bool
    form: Any


class Origins(dict[int, Origin]):
    """Knowledge of buffers, by their ids."""

    __slots__ = ("__weakref__",)


def drop(origins: ref[Origins], origin: Origin) -> None:
    """Forgets a buffer that is no more."""
    known = origins()
    if known is not None and known.get(origin.key) is origin:
        del known[origin.key]


class Packing:
    """The residuals that a registration of a hook has packed, and those that it may pack.

    Args:
        handle: the registration.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.hook = handle.hook
        self._origins = Origins()
        # A buffer may live for longer than what is known of it.
        self._drop = partial(drop, ref(self._origins))

    # -- which values are arguments, and which were made

    def origin(self, owner: Any) -> Origin | None:
        """Returns what is known of a buffer; None if nothing is."""
        found = self._origins.get(id(owner))
        return found if found is not None and found() is owner else None

    def add(self, owner: Any, given: bool = False) -> Origin | None:
        """Begins to know a buffer; None for a number, to which there is no weak reference."""
        try:
            origin = Origin(owner, self._drop)
        except TypeError:
            return None
        origin.key, origin.given, origin.left, origin.form = id(owner), given, False, None
        self._origins[origin.key] = origin
        return origin

    def note_arguments(self, args: Sequence[Any]) -> None:
        """Notes which operands are arguments: inputs, and constants that nobody was seen to make.

        Of several levels of reverse mode the outermost one tells. An input of another one may have
        been computed, and be kept for that level alone.
        """
        for x in args:
            if is_waiting(x):
                continue
            found = (getattr(level, "node", None) for level in levels_of(x))
            nodes: list[Any] = [node for node in found if node is not None]
            is_input = bool(nodes) and nodes[-1].primitive is None
            for owner in owners_in(x):
                origin = self.origin(owner)
                if origin is None:
                    self.add(owner, given=is_input or not nodes)
                elif is_input:
                    origin.given = True

    def note_results(self, outs: Sequence[Any]) -> None:
        """Notes the memory that an operation has made."""
        for x in outs:
            for owner in owners_in(x):
                if self.origin(owner) is None:
                    self.add(owner)

    # -- packing

    def form(self, x: Any, op: Operation) -> Any:
        """Returns what is kept in place of a residual: a form, or the residual itself."""
        kind = type(x)
        if isinstance(x, Tracer):
            if x.owner.staging:
                return self._staged(x, op)
            return x if x.owner.standing or waits(x, "value") else self._traced(x, op)
        if kind is Array:
            inner = self.form(x._data, op)
            return x if inner is x._data else FaceForm(inner)
        if kind not in BUFFER_TYPES or not getattr(x, "ndim", 0) or not x.size:
            return x
        owner = owner_of(x)
        origin = self.origin(owner)
        if origin is not None and origin.given:
            return x
        view = None if owner is x else View(x, owner)
        if view is None or not view.whole:
            return self._packed(x, op)
        inner = self._packed(owner, op)
        return x if inner is owner else ViewForm(inner, view)

    def _traced(self, x: Any, op: Operation) -> Any:
        parts = {}
        for name in ("value", "tangent"):
            part = getattr(x, name, None)
            inner = self.form(part, op)
            if inner is not part:
                parts[name] = inner
        return TracerForm(x, parts) if parts else x

    def _packed(self, buffer: Buffer, op: Operation) -> Any:
        if not buffer.ndim:
            return buffer
        origin = self.origin(buffer) or self.add(buffer)
        if origin is None or origin.left:
            return buffer
        form = origin.form and origin.form()
        if form is None:
            shown = wrap(buffer)
            packed = self.called("pack", op, shown, None)
            if packed is shown or packed is buffer:
                origin.left = True
                return buffer
            form = ArrayForm(self, op, packed, buffer)
            origin.form = ref(form)
        return form

    def _staged(self, x: Any, op: Operation) -> Any:
        if not self.hook.traceable or not x.shape:
            return x
        origin = self.origin(x) or self.add(x)
        if origin is None or origin.left or origin.given:
            return x
        form = origin.form and origin.form()
        if form is None:
            packed = self.called("pack", op, x, x.owner)
            if packed is x:
                origin.left = True
                return x
            form = StagedForm(self, op, packed, x)
            origin.form = ref(form)
        return form

    def adopt(self, value: Any, form: Form) -> None:
        """Notes that a buffer, or a value of a program, has a packed form already."""
        if owner_of(value) is value:
            origin = self.add(value)
            if origin is not None:
                origin.form = ref(form)

    def called(self, method: str, op: Operation, value: Any, level: Trace | None) -> Any:
        """Calls a method of the hook on values of a level, where no hook sees what it does."""
        before = slot.trace
        try:
            slot.trace = level
            return blaming(self.hook, method, getattr(self.hook, method), op, value)
        finally:
            slot.trace = before


def owners_in(x: Any) -> Iterator[Any]:
    """Yields the buffers that own a value's memory, or the value of a program in their place.

    A value that has not been computed yet has none.
    """
    if not is_waiting(x):
        yield from owners_of(x)
        yield from (x for x in levels_of(x) if isinstance(x, Tracer) and x.owner.staging)


def is_waiting(x: Any) -> bool:
    """Says whether a value, or a tangent of it, waits to be computed at some level."""
    while isinstance(x, Tracer) and not (x.owner.standing or x.owner.staging):
        if waits(x, "value") or is_waiting(getattr(x, "tangent", None)):
            return True
        x = getattr(x, "value", None)
    return False


# -- forms


def no_array() -> None:
    """Stands in place of a weak reference to an array that is no more."""


class ArrayForm(Form):
    """A buffer that a hook has packed."""

    __slots__ = (
        "__weakref__", "axes", "device", "latest", "op", "packed", "packing", "range", "type",
    )  # fmt: skip

    def __init__(self, packing: Packing, op: Operation, packed: Any, buffer: Buffer) -> None:
        self.packing = packing
        self.op = op
        self.packed = packed
        self.type = shape_dtype(buffer)
        self.device = device_of(buffer)
        self.axes = memory_order(buffer)
        # The array itself will do for as long as somebody holds it.
        self.latest: Callable[[], Any] = no_array if packing.hook.always_unpacks else ref(buffer)
        # The range of the residual, for hooks that look at its replacement later.
        self.range = Range(buffer) if is_looked_at(op) else None

    def opened(self) -> Buffer:
        buffer: Buffer | None = self.latest()
        if buffer is not None:
            return buffer
        packing, op = self.packing, self.op
        value = packing.called("unpack", op, self.packed, None)
        check_unpacked(packing.hook, op, value, self.type, self.device)
        if self.range is not None:
            look_at_unpacked(packing.hook, op, value, self.range)
        buffer = in_memory_order(to_buffer(owned(value)), self.axes)
        self.latest = ref(buffer)
        packing.adopt(buffer, self)
        return buffer


class StagedForm(Form):
    """A value of a program that a hook has packed, by operations of the program."""

    __slots__ = ("__weakref__", "op", "owner", "packed", "packing", "type")

    def __init__(self, packing: Packing, op: Operation, packed: Any, x: Any) -> None:
        self.packing = packing
        self.op = op
        self.packed = packed
        self.owner = x.owner
        self.type = shape_dtype(x)

    def opened(self) -> Any:
        packing, op = self.packing, self.op
        value = packing.called("unpack", op, self.packed, self.owner)
        check_unpacked(packing.hook, op, value, self.type)
        look_at_unpacked(packing.hook, op, value, None)
        if isinstance(value, Tracer):
            packing.adopt(value, self)
        return value


class ViewForm(Form):
    """A view of a buffer that a hook has packed."""

    __slots__ = ("form", "view")

    def __init__(self, form: Form, view: View) -> None:
        self.form = form
        self.view = view

    def opened(self) -> Buffer:
        return self.view.of(self.form.opened())


class FaceForm(Form):
    """An array whose buffer a hook has packed."""

    __slots__ = ("form",)

    def __init__(self, form: Form) -> None:
        self.form = form

    def opened(self) -> Array:
        return wrap(self.form.opened())


class TracerForm(Form):
    """A tracer whose value, or tangent, is kept in another form; its node is its own.

    Attributes:
        kind: the class of the tracer.
        parts: its attributes, of which some are forms.
    """

    __slots__ = ("kind", "parts")

    def __init__(self, x: Tracer, parts: dict[str, Form]) -> None:
        self.kind = type(x)
        kinds = self.kind.__mro__
        own = kinds[: kinds.index(Tracer)]
        names = {name for kind in own for name in vars(kind).get("__slots__", ())}
        self.parts = {name: getattr(x, name) for name in names if hasattr(x, name)} | parts

    def opened(self) -> Any:
        out = new(self.kind)
        for name, part in self.parts.items():
            setattr(out, name, opened(part))
        return out


def look_at_unpacked(hook: Any, op: Operation, value: Any, old: Range | None) -> None:
    """Shows what a hook has unpacked to the hooks that look at what replaces a value."""

    def by() -> str:
        return f"unpack of the hook {hook_name(hook, 'unpack')} on {shown(op, scope=True)}"

    fix = "return from unpack what pack was given, but for rounding"
    look_at_replacement(hook, by, value, old, op, fix=fix)


def check_unpacked(hook: Any, op: Operation, value: Any, known: Any, device: str = "") -> None:
    """Checks that a hook has unpacked a value of the shape, dtype and device that it was given.

    Raises:
        RuleResultError: it has not.
    """
    fits = is_array_like(value) and shape_dtype(value).strong() == known.strong()
    if fits and device and device_of(to_buffer(value)) != device:
        place = device_of(to_buffer(value))
        what = f"from unpack {describe(value)} on {place} in place of one on {device}"
        fix = f'return ft.to_device(value, "{device}") from unpack'
        raise wrong_result(hook, "unpack", op, what, fix)
    if not fits:
        what = f"from unpack {describe(value)} in place of {describe(known)}"
        fix = "return from unpack an array of the shape and dtype that pack was given"
        raise wrong_result(hook, "unpack", op, what, fix)
