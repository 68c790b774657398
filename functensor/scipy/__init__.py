"""SciPy's names for functions that every transformation understands.

Values may come from SciPy, which ``pip install 'functensor[scipy]'`` brings; derivative rules are
functensor's own. A module is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..faces.publish import publish

if TYPE_CHECKING:
    from . import (
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        spatial,
        special,
        stats,
    )

__all__ = [
    "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "spatial",
    "special", "stats",
]  # fmt: skip
NAMESPACES = __all__

publish(globals())
