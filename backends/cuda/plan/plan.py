"""Plans on a GPU: compiled functions that run a program on buffers, its regions as kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ...generated_file import GeneratedFile
from ...known_buffers import KnownBuffers
from ...restoring import silently
from ..launch import is_contiguous
from .plain_numbers import PLAIN_NAME
from .plan_text import PlanText
from .region_run import load_all

if TYPE_CHECKING:
    from ...cpu.plan.annotations import ProgramLike

__all__ = ["GpuPlan", "items_of"]


def items_of(places: Sequence[int]) -> Callable[[list[Any]], list[Any]]:
    """Returns a function that takes the items at some places of a list, as a new list.

    Neighbours are taken in the quickest way.
    """
    begin = places[0] if places else 0
    if [*places] == [*range(begin, begin + len(places))]:
        return itemgetter(slice(begin, begin + len(places)))
    if len(places) > 1:
        several = itemgetter(*places)
        return lambda items: [*several(items)]
    return lambda items: [items[i] for i in places]


class GpuPlan:
    """Runs a program: ``plan(buffers)`` returns the buffers of its results.

    Several threads may run it at once. Nobody waits for what it queues.

    Attributes:
        called: the equations that it does by calls of their own; none of them compiles anything.
        donated: the numbers of the inputs whose memory results may take.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        donated: the numbers of the inputs whose memory results may take.
        apart: whether numbers of the host are computed before anything is queued.
        precision: the precision of small products, as ``config.matmul_precision`` has it.
    """

    called = ()

    def __init__(
        self,
        program: ProgramLike,
        bound: Callable[[Any], Callable[..., Sequence[Any]]],
        donated: Sequence[int] = (),
        apart: bool = False,
        precision: str = "highest",
    ) -> None:
        self.name = program.name
        self.donated = frozenset(donated)
        self.text = PlanText(program, bound, apart, donated, precision)
        source = self.text.source
        self._file = GeneratedFile(f"{self.name} on a GPU", source.text(), source.origins)
        module = compile(source.code(), self._file.name, "exec")
        codes = {c.co_name: c for c in module.co_consts if isinstance(c, CodeType)}
        code = codes["queue"]
        defaults = (None,) * (len(self.text.taken) + 1)
        self._given_away = items_of([*self.text.taken.values()])
        # The buffers whose order is known.
        self._ordered: Any = None
        self.queue: Callable[..., list[Any]] = FunctionType(code, source.scope, "queue", defaults)
        self._plain: Callable[[Sequence[Any]], tuple[list[Any], list[Any]]] | None = None
        if self.text.is_plain:
            self._plain = FunctionType(codes[PLAIN_NAME], source.scope, PLAIN_NAME)
        if apart:
            self._numbers: Callable[..., tuple[list[Any], list[Any]]] = FunctionType(
                codes["numbers"], source.scope, "numbers"
            )

    def numbers(self, buffers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Returns the host's numbers that kernels need, and those among the outputs."""
        if self._plain is not None:
            # Where Python raises an error, NumPy has infinity, NaN or an integer that wraps around.
            try:
                return silently(self._plain, (buffers,))
            except (ArithmeticError, TypeError, ValueError):
                return silently(self._numbers, buffers)
        return silently(self._numbers, buffers)

    def load(self) -> None:
        """Compiles its kernels, for the current GPU."""
        load_all(self.text.runs)

    @property
    def source(self) -> str:
        """The generated text, and those of its kernels."""
        return "\n".join([self._file.text, *[run.text for run in self.text.runs]])

    def __call__(self, buffers: list[Any]) -> list[Any]:
        """Queues the program on the current stream, and returns the buffers of its results."""
        try:
            known = buffers.known if type(buffers) is KnownBuffers else None
            memory = self._given_away(buffers)
            if known is None or known is not self._ordered:
                # Results are written in order.
                ordered = all(map(is_contiguous, memory))
                memory = memory if ordered else [x if is_contiguous(x) else None for x in memory]
                self._ordered = known if ordered else None
            return silently(self.queue, [*buffers, *memory, known])
        except Exception as error:
            self.explain(error)
            raise

    def explain(self, error: Exception) -> None:
        """Adds a note with the user's line to an error."""
        self._file.explain(error, self.name)

    def __repr__(self) -> str:
        return f"<plan of {self.name} on a GPU, {len(self.text.runs)} regions>"
