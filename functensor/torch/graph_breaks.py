"""The choices of `torch.compiler` that compiled functions read, and what ends their staging."""

from __future__ import annotations

import threading

from ..backends.frames import frame_at, is_users, module_of
from ..primitives.core.errors import (
    BackwardError,
    ConcretizationError,
    GradientInputError,
    ImmutableArrayError,
    TracerConversionError,
)
from ..primitives.core.trace import is_staged
from ..tensors import TracedTensor

__all__ = ["UNSTAGED", "GraphBreak", "SurroundingsChanged", "compiling"]


class GraphBreak(BaseException):
    """A function that is not to be compiled was called while another one was staged."""


class SurroundingsChanged(GraphBreak):
    """A function changed values beside its arguments while it was staged."""


# Faults of functions that cannot be staged; run as they are they may have none.
UNSTAGED = (
    BackwardError, ConcretizationError, GradientInputError, GraphBreak, ImmutableArrayError,
    TracerConversionError,
)  # fmt: skip


class Compiling(threading.local):
    """The choices of one thread.

    Attributes:
        eager: whether compiled functions run as they are.
        staged: whether one is being staged, or run.
        before: what ``eager`` was before each block that set it.
    """

    eager = False
    staged = False

    def __init__(self) -> None:
        self.before: list[bool] = []


compiling = Compiling()


def refuse_to_answer() -> None:
    """Ends the staging of a compiled function of the user's that asks whether tensors require grad.

    One plan serves tensors that do and others that do not.
    """
    if compiling.staged and is_staged() and is_users(module_of(frame_at(2))):
        raise GraphBreak("it asks for requires_grad, which is not known")


TracedTensor.graph_asked = refuse_to_answer
