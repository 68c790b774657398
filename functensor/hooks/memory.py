"""A hook that measures the memory of what operations make, and says what holds it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..primitives.core.array import Array
from ..programs.labels import label
from .hook import Hook
from .live_memory import Block, LiveMemory
from .operation import Operation
from .scopes import scopes_around
from .tables import table
from .values import output_cotangents

__all__ = ["Held", "MemoryHook", "ScopeMemory"]


class Held(NamedTuple):
    """Memory of one kind that is held, or was.

    Attributes:
        bytes: how much.
        name: the primitive that made it.
        phase: the phase in which it did.
        line: the user's ``file:line``.
        scope: the scope.
        type: dtype and shape of the arrays.
        arrays: how many there are.
    """

    bytes: int
    name: str
    phase: str
    line: str
    scope: str
    type: str
    arrays: int


class ScopeMemory(NamedTuple):
    """The bytes that the operations in a scope have made.

    Attributes:
        live: those that are alive.
        peak: those that were, when most were.
    """

    live: int
    peak: int


# Where memory comes from: name, phase, line, scope and type.
Source = tuple[str, str, str, str, str]


class MemoryHook(Hook):
    """Measures the bytes of arrays that operations made and that are still alive.

    A view counts as the array whose memory it shares, so that all bytes count once; those of the
    arguments, which no operation made, do not count. The residuals of reverse mode count for as
    long as they are kept, and so do tangents. The hook keeps nothing alive. Numbers without axes,
    which NumPy does not keep in arrays, are left out, and so is what a plan or a kernel uses while
    it runs.

    Args:
        backward: whether cotangents count too. Under more than one transformation, and within
            `jit`, each operation then keeps its operands and output until the way back, as under
            all hooks that see the way back: more than it does alone.

    >>> import functensor as ft, functensor.numpy as np
    >>> memory = ft.hooks.MemoryHook()
    >>> with ft.hooks.use(memory):
    ...     y = np.exp(np.zeros(1000))
    ...     z = np.sum(y * 2)
    >>> memory.live, memory.peak
    (8000, 16000)
    >>> [(held.name, held.bytes) for held in memory.held_at_peak()]
    [('exp', 8000), ('multiply', 8000)]
    """

    on_replay = True

    def __init__(self, backward: bool = False) -> None:
        self._lock = threading.RLock()
        # Blocks whose arrays have died: this alone is changed where the last holder lets go.
        self._dead: deque[Block] = deque()
        self._blocks = LiveMemory(self._dead.append)
        self._held: Counter[Source] = Counter()
        self._arrays: Counter[Source] = Counter()
        self._at_peak: list[Held] | None = []
        self._scopes: dict[str, ScopeMemory] = {"": ScopeMemory(0, 0)}
        if backward:
            self.backward = self._backward  # type: ignore[method-assign]

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self._note(op, inputs, [output])

    def _backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        self._note(op, output_cotangents(grad_output), grad_inputs)

    def _note(self, op: Operation, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Notes the memory of an operation's results that neither they nor others had before."""
        with self._lock:
            self._settle()
            for block in self._blocks.met(made, given):
                name = label(op.name, op.params)
                block.note = (name, op.phase, op.line, op.scope, block.type)
                self._change(block, 1)

    def _settle(self) -> None:
        """Takes away what has died since."""
        while self._dead:
            block = self._dead.popleft()
            if self._at_peak is None:
                self._at_peak = self._all_held()
            self._blocks.drop(block)
            self._change(block, -1)

    def _change(self, block: Block, sign: int) -> None:
        """Adds a block's bytes, or takes them away."""
        source: Source = block.note
        self._held[source] += sign * block.bytes
        self._arrays[source] += sign
        if not self._arrays[source]:
            del self._held[source], self._arrays[source]
        peak = self._scopes[""].peak
        for scope in scopes_around(source[3]):
            before = self._scopes.get(scope, ScopeMemory(0, 0))
            live = before.live + sign * block.bytes
            self._scopes[scope] = ScopeMemory(live, max(before.peak, live))
        if self._scopes[""].peak > peak:
            # Listed when the next array dies, or somebody asks.
            self._at_peak = None

    def _all_held(self) -> list[Held]:
        found = [Held(n, *source, self._arrays[source]) for source, n in self._held.items()]
        return sorted(found, key=lambda held: -held.bytes)

    @property
    def live(self) -> int:
        """The bytes that are alive."""
        return self.scopes()[""].live

    @property
    def peak(self) -> int:
        """The bytes that were alive when most were."""
        return self.scopes()[""].peak

    def scopes(self) -> dict[str, ScopeMemory]:
        """Returns the memory of every scope, those within it included; ``""`` is all."""
        with self._lock:
            self._settle()
            return dict(self._scopes)

    def held(self) -> list[Held]:
        """Returns what is alive, by the operation that made it, the most bytes first."""
        with self._lock:
            self._settle()
            return self._all_held()

    def held_at_peak(self) -> list[Held]:
        """Returns what was alive when most was, the most bytes first."""
        with self._lock:
            self._settle()
            return self._all_held() if self._at_peak is None else list(self._at_peak)

    def report(self, rows: int = 20) -> str:
        """Returns the scopes, what is alive and what was at the peak, as tables.

        Args:
            rows: how many operations the last two list at most.
        """
        parts = [repr(self)]
        scopes = sorted(self.scopes().items(), key=lambda item: -item[1].peak)
        if len(scopes) > 1:
            lines = [(memory.live, memory.peak, name or "(all)") for name, memory in scopes]
            parts.append(table(["alive", "peak", "scope"], lines))
        titles = ["bytes", "arrays", "operation", "phase", "type", "line", "scope"]
        for when, found in (("alive", self.held()), ("alive at the peak", self.held_at_peak())):
            if found:
                cells = [
                    (h.bytes, h.arrays, h.name, h.phase, h.type, h.line, h.scope)
                    for h in found[:rows]
                ]
                rest = sum(h.bytes for h in found[rows:])
                more = f"\n{rest:,} bytes of {len(found) - rows} more" if rest else ""
                parts.append(f"{when}:\n{table(titles, cells)}{more}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        live, peak = self.scopes()[""]
        return f"<MemoryHook: {live:,} bytes alive, {peak:,} at the peak>"
