"""SciPy's ``spatial``, of which there is ``distance``."""

from __future__ import annotations

from . import distance

__all__ = ["distance"]
