"""SciPy's ``spatial``: its module ``distance``."""

from __future__ import annotations

from ...faces.publish import publish
from . import distance

__all__ = ["distance"]

publish(globals())
