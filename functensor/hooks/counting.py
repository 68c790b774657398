"""A hook that counts operations, and what they cost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..primitives.core.array import Array
from ..primitives.core.buffers import WEAK_TYPES
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import is_staged
from ..programs.costs import VIEWING, array_bytes, operation_flops
from ..programs.labels import label
from .hook import Hook
from .operation import Operation
from .rule_costs import rule_flops
from .running import Running
from .scopes import BY, check_choice, scopes_around
from .tables import report
from .values import examples_in, output_cotangents

__all__ = ["Count", "CountHook"]


class Count(NamedTuple):
    """The costs of the operations of a primitive, or in a scope.

    Attributes:
        calls: how many there were.
        flops: operations of arithmetic; a multiplication and an addition count as two, and so does
            a function like ``sin`` as one.
        bytes: of what they read and write.
    """

    calls: int
    flops: int
    bytes: int


class CountHook(Hook):
    """Counts operations, their operations of arithmetic, and the bytes that they read and write.

    The costs are those of `jit(f).cost()`, before passes have made the program better: of shapes
    and dtypes, whatever a machine does. An operation under `vmap` costs what it does for all
    examples. On the way back the arithmetic is that of an operation's rules, and the bytes are
    those of the cotangents; the sum of the cotangents of a value that is used several times does
    not count. Neither does the tangent of an operation, nor, with ``on_replay=False``, the
    arithmetic of the way back through a checkpoint. A function with a rule of its own counts as one
    operation, of its largest operand or result, each way. Operations that are staged without being
    run are not counted. The second run of a checkpoint counts in full, whatever its policy: hooks
    are shown the whole function again, saved values too. What is left of it after a policy is in
    `jit(grad(f)).cost()`.

    >>> import functensor as ft, functensor.numpy as np
    >>> counter = ft.hooks.CountHook()
    >>> with ft.hooks.use(counter):
    ...     y = np.exp(np.ones((2, 3)) @ np.ones((3, 4)))
    >>> counter
    <CountHook: 2 operations, 56 flops, 336 bytes>
    >>> counter.counts
    {('matmul', 'forward'): 1, ('exp', 'forward'): 1}
    >>> counter.costs()["matmul", "forward"]
    Count(calls=1, flops=48, bytes=208)
    """

    on_replay = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Running[bool] = Running()
        self._costs: dict[tuple[str, str, str], Count] = {}
        # By the ids of operations, the id of the parameters and the types of output and operands.
        # An operation is shown forward first, and then takes the place of one that is no more.
        self._types: dict[int, tuple[int, ShapeDtype, list[ShapeDtype]]] = {}

    def before(self, op: Operation, values: Sequence[Any]) -> None:
        if not is_staged():
            self._running.begin(op, True)

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        out, operands = shape_dtype(output), [shape_dtype(x) for x in inputs]
        self._types[id(op.first or op)] = id(op._params), out, operands
        if is_staged():
            return
        # Of several outputs, the first counts for the operation, and others for their bytes.
        first = bool(self._running.end(op))
        flops = operation_flops(op.name, out, operands, op.params) if first else 0
        moved = [*inputs, output] if first else [output]
        self._add(op, Count(first, flops * examples_in(output), bytes_of(op.name, moved)))

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        if is_staged():
            return
        self._running.end(op)
        moved = [*output_cotangents(grad_output), *grad_inputs]
        flops, known = 0, self._types.get(id(op.first or op))
        if known is not None and known[0] == id(op._params):
            wanted = [g is not None for g in grad_inputs]
            flops = rule_flops(op.name, op.params, *known[1:], wanted)
            flops *= max(map(examples_in, moved))
        self._add(op, Count(1, flops, bytes_of(op.name, moved)))

    def _add(self, op: Operation, cost: Count) -> None:
        """Adds a cost to all that an operation belongs to."""
        keys = [("primitive", label(op.name, op.params), op.phase)]
        keys += [("scope", scope, op.phase) for scope in scopes_around(op.scope)]
        with self._lock:
            for key in keys:
                before = self._costs.get(key, Count(0, 0, 0))
                self._costs[key] = Count(*(a + b for a, b in zip(before, cost, strict=True)))

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """The numbers of operations, by primitive and phase."""
        return {key: cost.calls for key, cost in self.costs().items()}

    @property
    def flops(self) -> int:
        """The operations of arithmetic of all operations."""
        return self._whole().flops

    @property
    def bytes(self) -> int:
        """The bytes that all operations, and cotangents, have read and written."""
        return self._whole().bytes

    def _whole(self) -> Count:
        costs = [cost for (name, _), cost in self.costs("scope").items() if not name]
        return Count(*map(sum, zip(Count(0, 0, 0), *costs, strict=True)))

    def costs(self, by: BY = "primitive") -> dict[tuple[str, str], Count]:
        """Returns the costs that were added up.

        Args:
            by: "primitive" or "scope".

        Returns:
            The `Count` by the name of the primitive, or the scope, and the phase: "forward",
            "tangent", "replay" or "backward". A scope has the costs of those within it; that of
            the name ``""`` is all.

        Raises:
            ValueError: ``by`` is neither.
        """
        check_choice(by)
        with self._lock:
            return {
                (name, phase): cost
                for (kind, name, phase), cost in self._costs.items()
                if kind == by
            }

    def report(self) -> str:
        """Returns the costs as tables, the most expensive first."""
        return report(
            repr(self),
            ["flops", "bytes", "calls"],
            self.costs,
            lambda c: (c.flops, c.bytes, c.calls),
        )

    def __repr__(self) -> str:
        calls, flops, moved = self._whole()
        return f"<CountHook: {calls:,} operations, {flops:,} flops, {moved:,} bytes>"


def bytes_of(name: str, values: Sequence[Any]) -> int:
    """Returns the bytes of values, for all examples; none for views and numbers of Python's."""
    if name in VIEWING:
        return 0
    arrays = {id(x): x for x in values if x is not None and type(x) not in WEAK_TYPES}
    return sum(array_bytes(shape_dtype(x)) * examples_in(x) for x in arrays.values())
