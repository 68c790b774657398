"""PyTorch's questions about the compiler of a function: ``torch.compiler``.

>>> import functensor.torch as torch
>>> seen = []
>>> @torch.compile
... def double(x):
...     seen.append(torch.compiler.is_compiling())
...     return x * 2
>>> double(torch.ones(2)).tolist(), seen, torch.compiler.is_compiling()
([2.0, 2.0], [True], False)
"""

from __future__ import annotations

from ..faces.publish import publish
from ..primitives.core.trace import is_staged

__all__ = ["is_compiling", "is_dynamo_compiling", "is_exporting", "reset"]


def is_compiling() -> bool:
    """Says whether a program is being staged, by ``torch.compile`` or by `functensor.jit`."""
    return is_staged()


def is_dynamo_compiling() -> bool:
    """Says the same as `is_compiling`."""
    return is_staged()


def is_exporting() -> bool:
    """Returns False: nothing is exported."""
    return False


def reset() -> None:
    """Does nothing: the plans of a compiled function are its own, and go with it."""


publish(globals())
