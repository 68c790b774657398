"""Views of tensors: what is written to one is seen through its base, and through all others.

Buffers never change. A view knows the tensor that it was taken from and how; after a change in
place the base takes the new elements, and every view that is still held is behind it: it takes
itself anew when it is next read. So a write costs the same however many views are held. Results
that were computed from any of them before keep their value and their graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ..backends.devices import to_host
from ..backends.errors.words import WRAPPER_CODES
from ..functions.closure import ClosureTrace
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.errors import BackwardError, failure
from ..primitives.core.index_key import STATIC
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import RAW, base_trace, slot, under
from .grad_mode import GradMode, mode
from .places import Recast, lies_in_order, repeats, would_share_memory
from .short_views import short_view
from .tape import TAPE, LeafNode, receiver_of

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value
    from ..primitives.core.array import Tracer

__all__ = [
    "Recast", "Views", "catch_up", "changed", "detached", "fall_behind", "is_basic", "is_there",
    "taken", "viewing", "views_of", "within", "without_graph",
]  # fmt: skip

# The types of numbers, of which no argument has to be frozen.
NUMBERS = frozenset({bool, int})
# Threads may take the first view of one tensor at the same time.
writing_views = threading.Lock()


class Views(list[Any]):
    """References to the views of a tensor that are not behind it.

    Attributes:
        most: how many there may be before those that are gone are left out.
        behind: references to the views that are behind it, by their ids.
        most_behind: how many of these there may be, in the same way.
        lock: held where one of all tensors that share memory is written, or catches up.
    """

    __slots__ = ("behind", "lock", "most", "most_behind")

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self.most = self.most_behind = 16
        self.behind: dict[int, Any] = {}
        self.lock = lock

    def note_behind(self, view: Any) -> None:
        """Keeps a reference to a view that has fallen behind."""
        self.behind[id(view)] = ref(view)
        if len(self.behind) > self.most_behind:
            self.behind = {key: view for key, view in self.behind.items() if view() is not None}
            self.most_behind = 2 * len(self.behind) + 16

    def all(self) -> list[Any]:
        """Returns the views that are held, those that are behind too."""
        references = [*self, *self.behind.values()]
        return [view for reference in references if (view := reference()) is not None]

    def leave_out(self, view: Any) -> None:
        """Forgets a view, which now lies elsewhere."""
        self[:] = [reference for reference in self if reference() is not view]
        self.behind.pop(id(view), None)

    def drop(self) -> None:
        """Leaves out those that are gone."""
        with self.lock:
            number = len(self)
            # Others may come behind these meanwhile.
            self[:number] = [view for view in self[:number] if view() is not None]
            self.most = 2 * len(self) + 16

    def pop_all(self) -> list[Any]:
        """Takes all of them out, and returns those that are not gone."""
        found = self[:]
        del self[: len(found)]
        return [view for reference in found if (view := reference()) is not None]


def views_of(base: Any) -> Views:
    """Returns the views of a tensor, to be added to."""
    with writing_views:
        views = getattr(base, "_views", None)
        if views is None:
            source = getattr(base, "_source", None)
            lock = threading.RLock() if source is None else source[0]._views.lock
            views = base._views = Views(lock)
        return views


def is_basic(key: Any) -> bool:
    """Says whether indexing by a key gives a view: by integers, slices, None and ``...``."""
    if type(key) is tuple:
        if STATIC.issuperset(map(type, key)):
            return True
        return all(type(part) in STATIC or isinstance(part, np.integer) for part in key)
    return type(key) in STATIC or isinstance(key, np.integer)


def taken(
    base: Any,
    view: Any,
    seen: Any,
    take: Callable[[Any], Any] | None,
    key: Any = None,
    recorded: bool = True,
) -> Any:
    """Returns a view that knows its base; the base knows it as long as others hold it.

    Args:
        base, view: a tensor, and what was taken from it.
        seen: the base's buffer before that.
        take: takes the view of a tensor anew; None where it is indexed.
        key: what the base was indexed by.
        recorded: whether gradients flow between the two.
    """
    if view is base or not isinstance(view, TAPE.tracer):
        return view
    if slot.trace is not None and is_replaced(view, base):
        return view
    views = getattr(base, "_views", None)
    if views is None:
        views = views_of(base)
    view._source = (base, take, key, recorded and mode.enabled, base.node)
    views.append(ref(view))
    if len(views) > views.most:
        views.drop()
    if base._data is not seen:
        # Another thread wrote to the base before this view stood among those that fall behind.
        with views.lock:
            _take_anew(view, view.node)
    elif (
        type(base) is not TAPE.tracer
        and isinstance(base, TAPE.in_memory)
        and not base.take_in(view)
    ):
        raise failure(
            RuntimeError,
            f"a view of shape {view.shape} of {base.name()}: its elements do not lie in that "
            "order in the array that it shares memory with",
            fix="x.reshape(...), which copies, or x.contiguous().view(...)",
            number=None,
        )
    return view


def viewing(
    method: Callable[..., Any],
    recorded: bool = True,
    copies: bool = False,
    windows: bool = False,
    short: Callable[[Any, tuple[Any, ...]], Any] | None = None,
) -> Callable[..., Any]:
    """Returns a method of tensors whose results are views.

    Args:
        method: returns a tensor with the elements of another, each once unless it broadcasts.
        recorded: whether gradients flow between the view and its base.
        copies: whether the method may copy; a copy is no view.
        windows: whether elements may lie in the view several times.
        short: makes the same of a buffer, as `short_views` has it.
    """

    def view(self: Any, *args: Any, **options: Any) -> Any:
        # The view may be taken anew later, after a list of lengths was changed.
        if not NUMBERS.issuperset(map(type, args)):
            args = tuple(map(_frozen, args))
        if options:
            options = {name: _frozen(option) for name, option in options.items()}
        seen = self._data
        out = None if short is None or options else short_view(self, seen, short, args)
        if out is None and within(self):
            # Writes to a view of a tensor must not be lost in an array.
            with under(self.home):
                out = method(self, *args, **options)
        elif out is None:
            out = method(self, *args, **options)

        def take(x: Any) -> Any:
            return method(x, *args, **options)

        if out is self or (copies and not _shares_memory(out, self, take)):
            return out
        return taken(self, out, seen, Overlapping(take) if windows else take, recorded=recorded)

    WRAPPER_CODES.add(view.__code__)
    return update_wrapper(view, method)


def without_graph(x: Any) -> Any:
    """Returns the same memory without its graph."""
    return x.without_graph()


def detached(x: Any) -> Any:
    """Returns a view of all elements of a tensor, to which no gradients flow."""
    seen = x._data
    if within(x):
        with under(x.home):
            return taken(x, without_graph(x), seen, without_graph, recorded=False)
    return taken(x, without_graph(x), seen, without_graph, recorded=False)


class Overlapping:
    """Takes a view in which elements may lie several times, as overlapping windows do."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[Any], Any]) -> None:
        self.take = take

    def __call__(self, x: Any) -> Any:
        return self.take(x)


def within(x: Any) -> bool:
    """Says whether a transformation runs, whose values would stand in place of views of a tensor.

    Hooks are none: they see the operations of views as others. A function that a solver calls again
    and again, with other values in place of a tensor, takes its views of those.
    """
    if slot.trace is None and x.home is None:
        return False
    trace = base_trace()
    if x.home is None:
        return trace is not RAW
    around = trace
    while around is not x.home and around is not RAW:
        if isinstance(around, ClosureTrace):
            return False
        around = around.parent
    return trace is not x.home


def is_replaced(view: Any, base: Any) -> bool:
    """Says whether a hook has put another value in the place of a view of a tensor."""
    if slot.trace is None or not slot.trace.interceptor:
        return False
    buffers = view._data, base._data
    return all(type(x) is np.ndarray for x in buffers) and not np.may_share_memory(*buffers)


def _frozen(argument: Any) -> Any:
    """Returns an argument that nobody can change any more."""
    if type(argument) is tuple and NUMBERS.issuperset(map(type, argument)):
        return argument
    if isinstance(argument, list | tuple):
        return tuple(map(_frozen, argument))
    is_row = type(argument) is np.ndarray and argument.ndim == 1
    return tuple(argument.tolist()) if is_row else argument


def _shares_memory(view: Any, base: Any, take: Callable[[Any], Any]) -> bool:
    """Says whether a result lies in a tensor's memory: what had to be copied is no view."""
    if not isinstance(view, TAPE.tracer):
        return False
    if isinstance(base, TAPE.in_memory):
        return bool(base.has_view(take))
    if repeats(base):
        return would_share_memory(base, take)
    # One element lies in order however it is shaped; what has no axes is no array of NumPy's.
    if view._data.size == 1:
        return True
    if type(view._data) is np.ndarray:
        return np.may_share_memory(view._data, base._data)
    if base.home is not None:
        return lies_in_order(base)
    return getattr(view._data, "base", None) is not None


def is_there(base: Tracer, key: Any, value: Any) -> bool:
    """Says whether a value is the view of what lies at a key, as after ``x[key] += y``."""
    source = getattr(value, "_source", None)
    if source is None or isinstance(value.node, LeafNode):
        return False
    origin, take, taken_by, recorded, *_ = source
    indexed = take is None and recorded and origin is base
    return indexed and type(key) is type(taken_by) and bool(key == taken_by)


def changed(view: Any, value: Value, what: str) -> list[tuple[Any, Any, GradMode]]:
    """Returns what is to be set for a view to have a value: the view, its base, that one's base.

    Each comes with its value and the mode in which it is set.

    Raises:
        BackwardError: a base is a leaf that requires grad, or the view repeats elements.
    """
    found = [(view, value, GradMode(mode.enabled))]
    recorded = mode.enabled
    while (source := getattr(view, "_source", None)) is not None:
        base = source[0]
        recorded = recorded and source[3]
        if recorded and isinstance(base.node, LeafNode):
            raise failure(
                BackwardError,
                f"{what}: {view.name()} is a view of {base.name()}, a leaf that requires "
                "grad: a change in place would cut it off from its gradient",
                fix="with no_grad(): for an update, or change a copy: y = x.clone()",
            )
        with GradMode(recorded):
            value = _base_with_view(source, view, value, what)
        found.append((base, value, GradMode(recorded)))
        view = base
    return found


def _base_with_view(source: Any, view: Any, value: Any, what: str) -> Any:
    """Returns the base's value with other elements where a view of it lies."""
    base, take, key, *_ = source
    if take is without_graph:
        return value if base.home is None else ops.stop_gradient(value)
    if take is None:
        return ops.index_set(base, key, value)
    if isinstance(take, Recast):
        return take.put(base, value)
    size = base.numel()
    places = places_of(base, take, np.arange(size))
    repeats = view.numel() > size
    if type(take) is Overlapping and not repeats:
        repeats = len(np.unique(to_host(places._data))) < view.numel()
    if repeats:
        raise failure(
            BackwardError,
            f"{what}: {view.name()} has some elements of the tensor that it is a view of "
            "several times",
            fix="change a copy: y = x.clone()",
        )
    flat = ops.index_set(ops.reshape(base, -1), wrap(places._data), ops.reshape(value, -1))
    return ops.reshape(flat, base.shape)


def places_of(base: Any, take: Callable[[Any], Any], numbers: Any) -> Any:
    """Returns the elements of a view of a tensor, where that has numbers."""
    numbers = numbers.reshape(base.shape)
    with GradMode(False), under(None):
        if base.home is None:
            numbers = beside(base, numbers)
        return take(TAPE.wrap(numbers, None)).ravel()


def fall_behind(root: Any) -> None:
    """Leaves all views of a tensor, and the views of these, to take themselves anew."""
    behind = {*TAPE.late.values()}
    left = [root]
    while left:
        for view in left.pop()._views.pop_all():
            late = TAPE.late.get(type(view))
            if late is not None:
                # Other threads find the slots full, or the class that fills them.
                node = view.node
                view._source = (*view._source, node)
                view.__class__ = late
                del view._data, view.node
                view._source[0]._views.note_behind(view)
            elif type(view) not in behind:
                # A class of the user's stays what it is.
                _take_anew(view, view.node)
            if getattr(view, "_views", None) is not None:
                left.append(view)


def catch_up(view: Any) -> None:
    """Takes a view anew, and before it those that it was taken from, where they are behind."""
    late = {*TAPE.late.values()}
    with view._source[0]._views.lock, under(view.home):
        behind = []
        while type(view) in late:
            behind.append(view)
            view = view._source[0]
        for view in reversed(behind):
            _take_anew(view, view._source[5])


def _take_anew(view: Any, node: Any) -> None:
    """Gives a view the elements of its base, and a new node in place of its own if that changed."""
    base, take, key, recorded, seen = view._source[:5]
    now = base.node
    # Traced tensors have no nodes that would tell.
    traced = view.home is not None
    anew = recorded and (traced or (now is not seen and not isinstance(node, LeafNode)))
    with GradMode(anew):
        value = ops.index(base, key) if take is None else take(base)
    if anew:
        kept = None if node is None else receiver_of(node)
        node = value.node
        if node is not None and kept is not None and kept.keeps:
            receiver_of(node, make=True).keeps = True
    view._data = value._data
    view.node = node
    view._source = (base, take, key, recorded, now)
    kind: Any = type(view).__base__
    if TAPE.late.get(kind) is type(view):
        view.__class__ = kind
    base._views.behind.pop(id(view), None)
    base._views.append(ref(view))
    if isinstance(base, TAPE.in_memory) and not isinstance(view, TAPE.in_memory):
        base.take_in(view)
