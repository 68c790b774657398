"""PyTorch's choice between ways to compute attention: ``torch.nn.attention``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from enum import IntEnum

from ...backends.restoring import Restoring
from ...faces.publish import publish

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's ways to compute attention; here there is one, which needs no more memory."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


class NoChoice(Restoring, ContextDecorator):
    """A ``with`` block that sets nothing."""

    __slots__ = ()
    close = staticmethod(int)


def sdpa_kernel(
    backends: Sequence[SDPBackend] | SDPBackend, set_priority: bool = False
) -> NoChoice:
    """Returns a ``with`` block that has no effect: there is one way to compute attention.

    Raises:
        AssertionError: ``backends`` is neither an `SDPBackend` nor a list.

    >>> import functensor.torch as torch
    >>> from functensor.torch.nn.attention import SDPBackend, sdpa_kernel
    >>> x = torch.ones(1, 2, 3)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).shape
    (1, 2, 3)
    """
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "sdpa_kernel: backends is an SDPBackend or a list of these, not of type "
            f"{type(backends).__name__}"
        )
    return NoChoice()


publish(globals())
