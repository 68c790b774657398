"""Nodes whose residuals a backward pass has used up, and the error for a second pass over them."""

from __future__ import annotations

from ..primitives.core.errors import BackwardError, failure

__all__ = ["Consumed", "spent_error"]


class Consumed:
    """Stands for what a node saved, once a backward pass has used it up."""

    __slots__ = ("line",)

    def __init__(self, line: str) -> None:
        self.line = line


def spent_error(name: str, line: str, maker: str) -> BackwardError:
    """Returns the error for a pass that comes to what another one, at a line, has used up.

    ``maker`` is what messages call the operation.
    """
    return failure(
        BackwardError,
        f"{name} reached {maker!r} a second time: what it had saved was freed by "
        f"the backward pass at {line}",
        fix="loss.backward(retain_graph=True) the first time; for two losses that share a "
        "graph, (loss1 + loss2).backward()",
    )
