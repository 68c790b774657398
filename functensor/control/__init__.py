"""Control flow as functions, by JAX's names: loops and branches that ``jit`` keeps.

Outside of ``jit`` these are Python's own loops and branches, also under ``grad``, ``jvp`` and
``vmap``. Within ``jit`` each is one operation of the program, whose body is compiled.
"""

from __future__ import annotations

from ..faces.publish import publish
from .associative import associative_scan
from .carry_types import BodyTypeError
from .cond import cond, switch
from .scan import map, scan
from .while_loop import fori_loop, while_loop

__all__ = ["BodyTypeError", "associative_scan", "cond", "fori_loop", "map", "scan", "switch"]
__all__ += ["while_loop"]

publish(globals())
