"""NumPy's names for functions that every transformation understands.

Primitives are here as they are; the rest is made of them. Signatures and results follow NumPy 2,
but for what immutable arrays make pointless: ``out=`` and memory layouts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as _numpy

from ..faces.publish import publish
from ..primitives.core.shape_dtype import number_dtype as _number_dtype
from ..primitives.core.ufunc_facts import FACTS as _FACTS
from . import (
    apply,
    array_api_info,
    comparison,
    conversion,
    correlation,
    creation,
    differences,
    dtypes,
    elementary,
    indexing,
    matrices,
    nans,
    primitive_names,
    printing,
    quantiles,
    ranges,
    reshaping,
    searching,
    sets,
    sorting,
    statistics,
    zeros_ones,
)
from .apply import *
from .array_api_info import *
from .comparison import *
from .conversion import *
from .correlation import *
from .creation import *
from .differences import *
from .dtypes import *
from .elementary import *
from .indexing import *
from .matrices import *
from .nans import *
from .primitive_names import *
from .printing import *
from .quantiles import *
from .ranges import *
from .reshaping import *
from .searching import *
from .sets import *
from .sorting import *
from .statistics import *
from .zeros_ones import *

# Each module says which of its names are public. Add a line here, one above, and one further up.
__all__: list[str] = []
__all__ += primitive_names.__all__
__all__ += apply.__all__
__all__ += creation.__all__
__all__ += dtypes.__all__
__all__ += elementary.__all__
__all__ += printing.__all__
__all__ += zeros_ones.__all__
__all__ += conversion.__all__
__all__ += indexing.__all__
__all__ += array_api_info.__all__
__all__ += comparison.__all__
__all__ += matrices.__all__
__all__ += nans.__all__
__all__ += sorting.__all__
__all__ += quantiles.__all__
__all__ += ranges.__all__
__all__ += searching.__all__
__all__ += differences.__all__
__all__ += sets.__all__
__all__ += reshaping.__all__
__all__ += correlation.__all__
__all__ += statistics.__all__

# These functions are ufuncs in NumPy, and no primitives here. They have the attributes of both.
for _name in ("divmod", "fabs", "float_power", "frexp", "matvec", "modf", "vecdot", "vecmat"):
    for _fact in _FACTS:
        setattr(globals()[_name], _fact, getattr(getattr(_numpy, _name, None), _fact, None))

# Namespaces, and names by the module that has them, that are imported when they are first used.
NAMESPACES = ("fft", "linalg")
LATE_NAMES = {
    "files": "load save savetxt savez savez_compressed",
    "histograms": "histogram histogram2d histogram_bin_edges histogramdd",
    "polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub roots vander",
    "window_functions": "bartlett blackman hamming hanning i0 kaiser",
}
for _names in LATE_NAMES.values():
    __all__ += _names.split()

if TYPE_CHECKING:
    from . import fft as fft
    from . import linalg as linalg
    from .files import *
    from .histograms import *
    from .polynomials import *
    from .window_functions import *

    bfloat16: type[_numpy.generic]


def _bfloat16() -> type[_numpy.generic]:
    return _number_dtype("bfloat16").type


def _special() -> object:
    # SciPy looks here for a namespace's own special functions.
    return import_module("..scipy.special", __name__)


def _reason(name: str) -> str:
    from .absent import ABSENT_NAMES  # looked at only here

    return ABSENT_NAMES.get(name, "")


publish(
    globals(),
    late=LATE_NAMES,
    made={"bfloat16": _bfloat16, "special": _special},
    reason=_reason,
)
