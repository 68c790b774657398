"""The core and every primitive with all its rules: the middle floor."""

from __future__ import annotations

if __name__ != "functensor.primitives":
    raise ImportError(f"'{__name__}' imported bare: write 'import functensor.primitives' instead")

import importlib as _i
for _m in ("numbers","arithmetic","selection","logic","exponential","trigonometric","activation","reductions","cumulative","manipulation","indexing","updates","joining","padding","axes","sorting","contraction","convolution","pooling","identity"):
    try:
        _i.import_module("functensor.primitives."+_m)
    except ModuleNotFoundError as e:
        if _m not in str(e): raise
from .array import Array, Tracer
from .core import Primitive
from .registry import registry
