"""Scopes as hooks add up by them."""

from __future__ import annotations

from itertools import accumulate
from typing import Literal, TypeAlias, get_args

__all__ = ["BY", "check_choice", "scopes_around"]

# By what hooks add up.
BY: TypeAlias = Literal["primitive", "scope"]


def scopes_around(scope: str) -> tuple[str, ...]:
    """Returns the scopes that an operation counts for, from that of all to its own.

    >>> scopes_around("block/attention")
    ('', 'block', 'block/attention')
    """
    names = scope.split("/") if scope else []
    return ("", *accumulate(names, "{}/{}".format))


def check_choice(by: str) -> None:
    """Raises a ``ValueError`` for what hooks do not add up by."""
    if by not in get_args(BY):
        raise ValueError(f'by is "primitive" or "scope", not {by!r}')
