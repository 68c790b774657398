"""A hook that gets the values of a GPU when they have arrived, so that nobody waits for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..backends.devices import backend_of, device_of
from ..backends.errors.public_functions import check_function
from ..backends.protocol import Arrival
from ..primitives.core.array import Array, concrete
from ..primitives.core.buffers import to_buffer, wrap
from ..primitives.core.errors import describe, function_name
from ..primitives.core.trace import under
from .faults import blaming, wrong_result
from .hook import Hook, check_hook
from .operation import Operation
from .values import output_cotangents, plain_value

__all__ = ["QueuedHook"]

# Values are sent to the host when there are so many operations or bytes of them.
SENT_OPERATIONS = 64
SENT_BYTES = 2**24
# Values that were sent and not yet shown take at most so much of the host's memory.
MOST_SENT_BYTES = 2**28


class QueuedHook(Hook):
    """Calls another hook later, with copies in the host's memory of the values that it sees.

    Values on a GPU are copied behind the work that computes them, many at a time, and the program
    goes on. The hook is called in the order of the operations, when its values have arrived and
    another operation comes. It only observes. Values in the host's memory are shown at once, unless
    others are on their way. Under transformations it gets what `value` returns: batch axes are in
    front.

    The hook is called for the last values when the ``with`` block of `use` ends, or by `flush`.

    Args:
        hook: the hook. It may not have a method ``before``: what measures cannot come later.
        reduce: takes every value as an array where it is, and returns an array or a number, which
            is copied and shown in its place: a sum, as a rule. None copies whole values, which
            takes longer than to wait where a hook wants only a number.

    Attributes:
        hook, reduce: the same.
        waiting: how many operations the hook has not seen yet.

    Raises:
        TypeError: ``hook`` is no `Hook`, or has a method ``before``.
        RuleResultError: the hook returned a value in place of another one.

    >>> import functensor as ft, functensor.numpy as np
    >>> largest = []
    >>> hook = ft.hooks.FnHook(forward=lambda op, inputs, out: largest.append(float(out)))
    >>> with ft.hooks.use(ft.hooks.QueuedHook(hook, reduce=np.max), match="sin"):
    ...     _ = np.sin(np.array([0.0, np.pi / 2])) * 2
    >>> largest
    [1.0]
    """

    traceable = False

    def __init__(self, hook: Hook, reduce: Callable[[Array], Any] | None = None) -> None:
        if reduce is not None:
            check_function("QueuedHook", reduce, "reduce")
        check_hook("QueuedHook", hook)
        if not (hook.sees("forward") or hook.sees("backward")):
            name = type(hook).__name__
            raise TypeError(f"QueuedHook calls forward or backward, and {name} has neither")
        if hook.sees("before"):
            name = type(hook).__name__
            raise TypeError(f"QueuedHook would call {name}.before too late: use {name} itself")
        self.hook = hook
        self.reduce = reduce
        self.on_replay = hook.on_replay
        self.compiled = hook.compiled
        self.exact = hook.exact
        self._next: list[Waiting] = []
        self._sent: deque[Sent] = deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        return len(self._next) + sum(len(sent.operations) for sent in list(self._sent))

    def flush(self) -> None:
        """Waits for all values that are on their way, and calls the hook with them.

        Raises:
            Exception: what the hook raises. It is not called again for the same operation.
        """
        with self._lock:
            self._send()
        self._show(0)

    def ended(self) -> None:
        self.flush()
        self.hook.ended()

    def sees(self, moment: str) -> bool:
        return moment != "before" and self.hook.sees(moment)

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        self._put("forward", op, inputs, [output])

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        self._put("backward", op, grad_inputs, output_cotangents(grad_output))

    def _put(
        self, method: str, op: Operation, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Queues the values of an operation, and calls the hook with those that have arrived."""
        with under(None):
            buffers = [None if x is None else self._buffer(x) for x in (*inputs, *outputs)]
        with self._lock:
            self._next.append(Waiting(method, op, buffers, len(inputs)))
            here = not self._sent and all(waiting.is_here() for waiting in self._next)
            nbytes = sum(waiting.nbytes for waiting in self._next)
            if here or len(self._next) >= SENT_OPERATIONS or nbytes >= SENT_BYTES:
                self._send()
        self._show(MOST_SENT_BYTES)

    def _buffer(self, x: Any) -> Any:
        """Returns the plain buffer behind a value, reduced."""
        buffer = plain_value(x)
        buffer = concrete(x, "QueuedHook") if buffer is None else buffer
        return buffer if self.reduce is None else to_buffer(self.reduce(wrap(buffer)))

    def _send(self) -> None:
        """Begins to copy all values that were not sent yet."""
        operations, self._next = self._next, []
        if operations:
            self._sent.append(Sent(operations))

    def _show(self, most_bytes: int) -> None:
        """Calls the hook with what has arrived; waits while more than so many bytes have not."""
        with under(None):
            while waiting := self._arrived(most_bytes):
                waiting.show(self.hook)

    def _arrived(self, most_bytes: int) -> Waiting | None:
        """Returns the next operation whose values have arrived, or are waited for."""
        with self._lock:
            while self._sent:
                first = self._sent[0]
                if not first.ready() and sum(sent.nbytes for sent in self._sent) <= most_bytes:
                    return None
                if first.operations:
                    return first.taken()
                self._sent.popleft()
        return None

    def __repr__(self) -> str:
        reduce = "" if self.reduce is None else f", reduce={function_name(self.reduce)}"
        return f"QueuedHook({self.hook!r}{reduce})"


class Waiting:
    """An operation whose values the hook has not seen.

    Attributes:
        method: which of the hook's methods it is for.
        op: the operation.
        buffers: the values; None where there is none.
        count: how many of them are shown as a sequence; one other is shown as it is.
        nbytes: the bytes of all.
    """

    def __init__(self, method: str, op: Operation, buffers: list[Any], count: int) -> None:
        self.method = method
        self.op = op
        self.buffers = buffers
        self.count = count
        self.nbytes = sum(getattr(buffer, "nbytes", 0) for buffer in buffers)

    def is_here(self) -> bool:
        """Says whether all values are in the host's memory."""
        return all(device_of(buffer) == "cpu" for buffer in self.buffers)

    def show(self, hook: Hook) -> None:
        """Shows the values, which are in the host's memory, to the hook."""
        method, op = self.method, self.op
        values = [None if buffer is None else wrap(buffer) for buffer in self.buffers]
        inputs, outputs = tuple(values[: self.count]), tuple(values[self.count :])
        output = outputs[0] if len(outputs) == 1 else outputs
        new = blaming(hook, method, getattr(hook, method), op, inputs, output)
        if new is not None and new is not output:
            what = f"{describe(new)} where QueuedHook has it observe alone"
            raise wrong_result(hook, method, op, what, "return None, or use the hook itself")


class Sent:
    """Operations whose values are on their way to the host's memory.

    Attributes:
        operations: those that the hook has not seen yet.
        nbytes: the bytes of all values.
    """

    def __init__(self, operations: list[Waiting]) -> None:
        self.operations = deque(operations)
        self.nbytes = sum(waiting.nbytes for waiting in operations)
        self._arrivals: dict[str, Arrival] = {}
        by_device: dict[str, list[Any]] = {}
        # Each buffer by its id: an output of one operation is an input of the next one.
        self._places: dict[int, tuple[str, int]] = {}
        for buffer in (b for waiting in operations for b in waiting.buffers if b is not None):
            if id(buffer) not in self._places:
                device = device_of(buffer)
                sent = by_device.setdefault(device, [])
                self._places[id(buffer)] = device, len(sent)
                sent.append(buffer)
        for device, buffers in by_device.items():
            backend = backend_of(buffers[0])
            with backend.current(device):
                self._arrivals[device] = backend.to_host_later(buffers)

    def ready(self) -> bool:
        """Says whether all values have arrived."""
        return all(arrival.ready() for arrival in self._arrivals.values())

    def taken(self) -> Waiting:
        """Takes the first operation away, with its values, which are waited for."""
        waiting = self.operations.popleft()
        places = [None if b is None else self._places[id(b)] for b in waiting.buffers]
        waiting.buffers = [p and self._arrivals[p[0]].values()[p[1]] for p in places]
        return waiting
