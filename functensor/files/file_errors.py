"""The errors of files: one that is damaged or hostile, and one that does not fit a tree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike

from ..primitives.core.errors import failure

__all__ = ["FileError", "TreeMismatchError", "damaged", "not_fitting", "not_saved", "path_text"]

# So many places of a tree that do not fit are listed.
MOST_PLACES = 8


class FileError(ValueError):
    """A file is damaged, cut off, hostile or of another format (docs/errors.md#error-19)."""


class TreeMismatchError(ValueError):
    """A file has another structure, shape or dtype than asked for (docs/errors.md#error-20)."""


def damaged(file: str, what: str, expected: str, fix: str = "") -> FileError:
    """Returns the error for a file that cannot be read.

    Args:
        file: the name that the message shows.
        what: what was found.
        expected: what was expected in its place.
        fix: right code; by default that of another copy.
    """
    return failure(
        FileError,
        f"{file}: {what}; expected {expected}. Nothing was loaded",
        fix=fix or "load another copy, or write the file anew with ft.save(path, tree)",
        number=19,
    )


def not_fitting(file: str, places: Sequence[str], fix: str = "") -> TreeMismatchError:
    """Returns the error for a file that does not fit ``like``, with the places that differ."""
    listed = "".join(f"\n    {place}" for place in places[:MOST_PLACES])
    if len(places) > MOST_PLACES:
        listed += f"\n    and {len(places) - MOST_PLACES} more"
    return failure(
        TreeMismatchError,
        f"{file} does not fit like, and nothing was loaded:{listed}",
        fix=fix or "ft.load(path) without like returns the tree that the file has",
        number=20,
    )


def path_text(path: str | PathLike[str]) -> str:
    """Returns a path as text.

    Raises:
        TypeError: it is none: an open file, or a number, which would be taken for one.
    """
    if isinstance(path, str | PathLike):
        return os.fspath(path)
    raise failure(
        TypeError,
        f"a file is given by its path, not by {type(path).__name__}",
        fix='"model.safetensors"; torch.save and torch.load of functensor take open files',
        number=None,
    )


def not_saved(place: str, what: str, fix: str) -> TypeError:
    """Returns the error for a leaf that no file can hold."""
    return failure(TypeError, f"save: {place} is {what}", fix=fix, number=None)
