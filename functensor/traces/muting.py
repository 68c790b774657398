"""The switch by which hooks see nothing of a backward pass that is staged.

A backward pass may be staged long before it runs, when other hooks may be there.
"""

from __future__ import annotations

from threading import local
from typing import Any

__all__ = ["muting"]


class Muting(local):
    """Says whether hooks see nothing of a backward pass.

    Attributes:
        met: the registrations that would have, while they do not; None where they do.
    """

    met: dict[Any, None] | None = None


muting = Muting()
