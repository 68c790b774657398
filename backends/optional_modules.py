"""Modules that are installed only where they are wanted, imported when first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .annotations import ArrayModule

__all__ = ["MissingExtraError", "extra", "scipy_module"]

# SciPy's functions for an array module, by that one's name.
SCIPY = {"numpy": "scipy", "cupy": "cupyx.scipy"}


class MissingExtraError(ImportError):
    """A package that an optional part needs is not installed; the message has pip's command."""


def extra(module: str, name: str) -> ModuleType:
    """Returns an optional package's module.

    Args:
        module: its dotted name.
        name: the extra of functensor that brings it.

    Raises:
        MissingExtraError: it is not installed.

    >>> extra("math", "scipy").pi > 3
    True
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed: pip install 'functensor[{name}]'"
        ) from error


def scipy_module(xp: ArrayModule, name: str) -> ModuleType:
    """Returns SciPy's module of that name for an array module: ``scipy.special`` for NumPy.

    An array module other than NumPy and CuPy has it as ``xp.scipy.special``.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    if xp.__name__ in SCIPY:
        return extra(f"{SCIPY[xp.__name__]}.{name}", "scipy")
    module: ModuleType = getattr(xp.scipy, name)
    return module
