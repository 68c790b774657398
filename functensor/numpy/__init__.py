"""NumPy's names for functions that every transformation understands.

Primitives are here as they are; the rest is made of them. Signatures and results follow NumPy 2,
but for what immutable arrays make pointless: ``out=`` and memory layouts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as _numpy

from ..backends.tracebacks import tidy
from ..primitives.ufuncs import FACTS as _FACTS
from ..public import no_such_name, publish
from . import (
    aliases,
    applying,
    creation,
    dtypes,
    elementary,
    environment,
    files,
    filled,
    forms,
    histograms,
    indexing,
    inspection,
    logic,
    matrices,
    nans,
    operations,
    ordering,
    polynomials,
    quantiles,
    ranges,
    searching,
    sequences,
    sets,
    shaping,
    signals,
    statistics,
    windows,
)
from .aliases import *
from .applying import *
from .creation import *
from .dtypes import *
from .elementary import *
from .environment import *
from .files import *
from .filled import *
from .forms import *
from .histograms import *
from .indexing import *
from .inspection import *
from .logic import *
from .matrices import *
from .nans import *
from .operations import *
from .ordering import *
from .polynomials import *
from .quantiles import *
from .ranges import *
from .searching import *
from .sequences import *
from .sets import *
from .shaping import *
from .signals import *
from .statistics import *
from .windows import *

# Each module says which of its names are public. Add a line here, one above, and one further up.
__all__: list[str] = []
__all__ += aliases.__all__
__all__ += applying.__all__
__all__ += creation.__all__
__all__ += dtypes.__all__
__all__ += elementary.__all__
__all__ += environment.__all__
__all__ += files.__all__
__all__ += filled.__all__
__all__ += forms.__all__
__all__ += histograms.__all__
__all__ += indexing.__all__
__all__ += inspection.__all__
__all__ += logic.__all__
__all__ += matrices.__all__
__all__ += nans.__all__
__all__ += operations.__all__
__all__ += ordering.__all__
__all__ += polynomials.__all__
__all__ += quantiles.__all__
__all__ += ranges.__all__
__all__ += searching.__all__
__all__ += sequences.__all__
__all__ += sets.__all__
__all__ += shaping.__all__
__all__ += signals.__all__
__all__ += statistics.__all__
__all__ += windows.__all__

# Functions that are ufuncs in NumPy, and no primitives here, tell of themselves as those do.
for _name in ("divmod", "fabs", "float_power", "frexp", "matvec", "modf", "vecdot", "vecmat"):
    for _fact in _FACTS:
        setattr(globals()[_name], _fact, getattr(getattr(_numpy, _name, None), _fact, None))

# Namespaces that are imported when they are first used.
NAMESPACES = ("fft", "linalg")

if TYPE_CHECKING:
    from . import fft as fft
    from . import linalg as linalg


def __getattr__(name: str) -> Any:
    if name in NAMESPACES:
        return import_module(f".{name}", __name__)
    if name == "bfloat16":
        return import_module("..primitives.types", __name__).number_dtype(name).type
    if name == "special":
        # Where SciPy looks for a namespace's own special functions.
        return import_module("..scipy.special", __name__)
    from .absent import ABSENT  # looked at only here

    try:
        raise no_such_name(globals(), name, ABSENT.get(name, ""))
    except AttributeError as error:
        tidy(error)
        raise


publish(globals())
