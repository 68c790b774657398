"""The error of an equation that kernels do not compute."""

from __future__ import annotations

__all__ = ["NotNative"]


class NotNative(Exception):
    """An equation that kernels do not compute."""
