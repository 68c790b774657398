"""Trees: nested containers of leaves, taken apart and put together again.

A node is None (no children), a list, tuple, named tuple, dict, OrderedDict, defaultdict, dataclass,
or an instance of a class given to `register`; its children are trees. Every other object is a leaf,
an instance of a subclass of a builtin container too.
"""

from __future__ import annotations

from .containers import (
    AttributeKey,
    DictKey,
    PathEntry,
    SequenceKey,
    TreeDef,
    all,
    broadcast_prefix,
    flatten,
    flatten_with_path,
    keystr,
    leaves,
    leaves_with_path,
    map,
    map_with_path,
    prefix_flatten,
    reduce,
    register,
    register_dataclass,
    structure,
    transpose,
    unflatten,
)
from .vector import ravel

__all__ = [
    "AttributeKey", "DictKey", "PathEntry", "SequenceKey", "TreeDef", "all", "broadcast_prefix",
    "flatten", "flatten_with_path", "keystr", "leaves", "leaves_with_path", "map", "map_with_path",
    "prefix_flatten", "ravel", "reduce", "register", "register_dataclass", "structure", "transpose",
    "unflatten",
]  # fmt: skip
