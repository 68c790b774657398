"""SciPy's names for functions that every transformation understands.

Values may come from SciPy, which ``pip install 'functensor[scipy]'`` brings; derivative rules are
functensor's own. A module is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..backends.errors.tracebacks import tidy
from ..faces.publish import no_such_name, publish

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


if not TYPE_CHECKING:
    # Type checkers would take any name for one of the module.

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return import_module(f".{name}", __name__)
        try:
            raise no_such_name(globals(), name)
        except AttributeError as error:
            tidy(error)
            raise


publish(globals())
