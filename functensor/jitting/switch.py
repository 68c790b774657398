"""The switch by which jitted functions run as they were written, operation by operation."""

from __future__ import annotations

import threading

from ..backends.restoring import setting

__all__ = ["disable_jit", "switch"]


class Switch(threading.local):
    """The switch by which jitted functions run as plans in a thread."""

    off = False


switch = Switch()


def disable_jit(disable: bool = True) -> setting:
    """Makes jitted functions run as they were written, for the length of a ``with`` block.

    So values within them can be looked at.

    Args:
        disable: False turns ``jit`` on again within such a block.

    >>> import functensor as ft
    >>> with ft.disable_jit():
    ...     ft.jit(lambda x: print(x) or 2 * x)(3.0)
    3.0
    Array(6., dtype=float64, device='cpu')
    """
    return setting(switch, off=disable)
