"""The running values of a fold in a loop of LLVM's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernels.kernel import STEPS_BETWEEN_FLUSHES, Fold, For, fold_identity
from .instructions import Lines, constant

if TYPE_CHECKING:
    from ..annotations import DType
    from .statement_printer import Copy

__all__ = ["RunningFold"]


class RunningFold:
    """The running values of a fold."""

    def __init__(
        self,
        fold: Fold,
        loop: For,
        lines: Lines,
        width: int,
        inner: bool,
        copy: Copy,
        begin: str | None = None,
    ) -> None:
        self.fold = fold
        # What its operands are taken from.
        self.copy = copy
        self.lines = lines
        # The lanes of the loop, or of the loop with lanes around it, if it is an inner loop.
        self.width = width
        self.inner = inner
        self.dtype: DType = fold.value.dtype
        in_order = self.inner or fold.begin is not None
        self.flushes = loop.flushes and fold.operation == "add" and not in_order
        self.identity = fold_identity(fold.operation, self.dtype)
        # What idle lanes take.
        self.idle = self.identity, self.dtype.type(1)
        self.sums = self.totals = constant(self.identity, self.width)
        if begin is not None:
            self.sums = begin
        self.steps = "0"
        self._phis: list[tuple[str, str, str, str]] = []

    def _apply(self, x: str, y: str) -> str:
        return self.lines.operation(self.fold.operation, self.dtype, [x, y], self.dtype, self.width)

    def _with(self, operands: tuple[str, ...]) -> str:
        """Returns the running values with those of a step."""
        if self.fold.operation == "hand_on":
            return operands[0]
        if len(operands) == 1:
            return self._apply(self.sums, operands[0])
        given = [*operands, self.sums]
        return self.lines.operation("fma", self.dtype, given, self.dtype, self.width)

    def enter(self) -> None:
        """Enters the loop: what runs gets names."""
        kind = self.lines.type(self.dtype, self.width)
        self._phis = [(kind, self.sums, self.lines.name(), "")]
        if self.flushes:
            self._phis.append((kind, self.totals, self.lines.name(), ""))
            self._phis.append(("i64", self.steps, self.lines.name(), ""))
        self.sums = self._phis[0][2]
        if self.fold.operation == "hand_on":
            self.copy.values[self.fold.value] = self.sums, self.width
        if self.flushes:
            self.totals, self.steps = self._phis[1][2], self._phis[2][2]

    def take(self, *operands: str) -> None:
        """Takes the operand of a step, and the factor if there is one."""
        new = [self._with(operands)]
        if self.flushes:
            lines = self.lines
            kind = lines.type(self.dtype, self.width)
            steps = lines.let(f"add i64 {self.steps}, 1")
            due = lines.let(f"and i64 {steps}, {STEPS_BETWEEN_FLUSHES - 1}")
            due = lines.let(f"icmp eq i64 {due}, 0")
            total = self._apply(self.totals, new[0])
            total = lines.let(f"select i1 {due}, {kind} {total}, {kind} {self.totals}")
            none = constant(self.identity, self.width)
            new[0] = lines.let(f"select i1 {due}, {kind} {none}, {kind} {new[0]}")
            new += [total, steps]
        self._phis = [
            (kind, old, name, made) for (kind, old, name, _), made in zip(self._phis, new)
        ]

    def phis(self, before: str, end: str) -> list[str]:
        """Returns the lines at the head of the loop."""
        return [
            f"  {name} = phi {kind} [ {old}, %{before} ], [ {made}, %{end} ]"
            for kind, old, name, made in self._phis
        ]

    def enter_rest(self, *operands: str) -> None:
        """Takes the operands of the last step."""
        self.sums = self._with(operands)

    def result(self) -> str:
        """Returns the fold of all lanes; in a loop within a loop with lanes, that of each."""
        found = self._apply(self.totals, self.sums) if self.flushes else self.sums
        if self.inner:
            return found
        return self.lines.folded(found, self.fold.operation, self.dtype, self.width)
