"""Names of operations in pictures, on pages and in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..primitives.identities import checkpoint_name

__all__ = ["label"]


def label(name: str, params: Mapping[str, Any]) -> str:
    """Returns the name of an operation's primitive, and of a tag what ``ft.tag`` was given.

    >>> label("sum", {"axis": 0}), label("checkpoint_name", {"name": "hidden"})
    ('sum', "tag 'hidden'")
    """
    return f"tag {params['name']!r}" if name == checkpoint_name.name else name
