"""A hook that measures the memory of what operations make, and says what holds it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..primitives.core.array import Array
from ..programs.labels import label
from .hook import Hook
from .keeping import Keeping, keepings
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
        holder: the node of reverse mode that keeps them for its rules: "residual of tanh at
            f.py:12", the oldest one if there are several; empty if there is none, but variables of
            the program, or if a compiled function keeps them.
    """

    bytes: int
    name: str
    phase: str
    line: str
    scope: str
    type: str
    arrays: int
    holder: str = ""


class ScopeMemory(NamedTuple):
    """The bytes that the operations in a scope have made.

    Attributes:
        live: those that are alive.
        peak: those that were, when most were.
    """

    live: int
    peak: int


# The source of memory: name, phase, line, scope and type.
Source = tuple[str, str, str, str, str]


class Followed(NamedTuple):
    """Knowledge of memory: its source, and what the nodes keep that hold it."""

    source: Source
    keepings: list[Keeping]

    @property
    def holder(self) -> str:
        """The oldest node that holds it, in words; empty without one."""
        return self.keepings[0].holder if self.keepings else ""


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
        # Blocks and keepings that have ended: this alone is changed where the last holder lets go.
        self._dead: deque[Block | Keeping] = deque()
        self._blocks = LiveMemory(self._dead.append)
        # Bytes and arrays by their sources and holders.
        self._held: Counter[tuple[Source, str]] = Counter()
        self._arrays: Counter[tuple[Source, str]] = Counter()
        self._at_peak: list[Held] | None = []
        self._scopes: dict[str, ScopeMemory] = {"": ScopeMemory(0, 0)}
        if backward:
            self.backward = self._backward  # type: ignore[method-assign]

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self._note(op, inputs, [output])
        with self._lock:
            self._note_keepings(op, output)

    def _backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        self._note(op, output_cotangents(grad_output), grad_inputs)

    def _note(self, op: Operation, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Notes the memory of an operation's results that neither they nor others had before."""
        with self._lock:
            self._settle()
            for block in self._blocks.met(made, given):
                name = label(op.name, op.params)
                block.note = Followed((name, op.phase, op.line, op.scope, block.type), [])
                self._count(block, 1)
                self._change(block, 1)

    def _note_keepings(self, op: Operation, output: Array) -> None:
        """Notes which memory the nodes of an operation keep."""
        holder = f"residual of {label(op.name, op.params)} at {op.line}"
        for keeping, values in keepings(output, holder, self._dead.append):
            for block in (block for x in values for block in self._blocks.known(x)):
                keeping.keys.append(block.key)
                self._count(block, -1)
                block.note.keepings.append(keeping)
                self._count(block, 1)

    def _settle(self) -> None:
        """Takes away what has died since."""
        while self._dead:
            ended = self._dead.popleft()
            if self._at_peak is None:
                self._at_peak = self._all_held()
            if isinstance(ended, Keeping):
                for block in filter(None, map(self._blocks.get, ended.keys)):
                    self._release(block, ended)
            else:
                self._blocks.drop(ended)
                self._count(ended, -1)
                self._change(ended, -1)

    def _release(self, block: Block, keeping: Keeping) -> None:
        """Notes that a node does not keep memory any more."""
        if keeping in block.note.keepings:
            self._count(block, -1)
            block.note.keepings.remove(keeping)
            self._count(block, 1)

    def _count(self, block: Block, sign: int) -> None:
        """Adds a block to those of its source and holder, or takes it away."""
        key = block.note.source, block.note.holder
        self._held[key] += sign * block.bytes
        self._arrays[key] += sign
        if not self._arrays[key]:
            del self._held[key], self._arrays[key]

    def _change(self, block: Block, sign: int) -> None:
        """Adds a block's bytes to the scopes', or takes them away."""
        peak = self._scopes[""].peak
        for scope in scopes_around(block.note.source[3]):
            before = self._scopes.get(scope, ScopeMemory(0, 0))
            live = before.live + sign * block.bytes
            self._scopes[scope] = ScopeMemory(live, max(before.peak, live))
        if self._scopes[""].peak > peak:
            # Listed when the next array dies, or somebody asks.
            self._at_peak = None

    def _all_held(self) -> list[Held]:
        found = [
            Held(n, *source, self._arrays[source, holder], holder)
            for (source, holder), n in self._held.items()
        ]
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
        """Returns what is alive, by what made it and what holds it, the most bytes first."""
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
        titles = ["bytes", "arrays", "operation", "phase", "type", "line", "scope", "held as"]
        for when, found in (("alive", self.held()), ("alive at the peak", self.held_at_peak())):
            if found:
                cells = [
                    (h.bytes, h.arrays, h.name, h.phase, h.type, h.line, h.scope, h.holder)
                    for h in found[:rows]
                ]
                rest = sum(h.bytes for h in found[rows:])
                more = f"\n{rest:,} bytes of {len(found) - rows} more" if rest else ""
                parts.append(f"{when}:\n{table(titles, cells)}{more}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        live, peak = self.scopes()[""]
        return f"<MemoryHook: {live:,} bytes alive, {peak:,} at the peak>"
