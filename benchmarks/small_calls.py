"""Calls that have next to nothing to compute, so that a call's own cost is seen."""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Unsupported
from benchmarks.peers.functional import Function

TREES = ("flat", "nested", "named")
"""A dict; a dict of dicts of lists of two; a named tuple."""

KINDS = ("one", "same", "next")
"""What is returned: one of the leaves, the tree as it came, or, of one array x, x + 1."""

TURNS, SECONDS = 20, 0.01


def make_tree(name: str, leaves: list[Any]) -> Any:
    """A tree of the leaves, in order."""
    if name == "flat":
        return {f"leaf{i}": leaf for i, leaf in enumerate(leaves)}
    if name == "named":
        fields = [f"leaf{i}" for i in range(len(leaves))]
        return namedtuple("Leaves", fields)(*leaves)
    pairs = [leaves[i : i + 2] for i in range(0, len(leaves), 2)]
    layers = [{"weights": pair, "layer": {"more": pair_after}} for pair, pair_after in two(pairs)]
    return {f"block{i}": layer for i, layer in enumerate(layers)}


def two(items: list[Any]) -> list[tuple[Any, Any]]:
    """The items in pairs; the last one's other half may be empty."""
    return [
        (items[i], items[i + 1] if i + 1 < len(items) else []) for i in range(0, len(items), 2)
    ]


def first_leaf(name: str) -> Function:
    """A function that returns the tree's first leaf."""
    if name == "flat":
        return lambda tree: tree["leaf0"]
    if name == "named":
        return lambda tree: tree[0]
    return lambda tree: tree["block0"]["weights"][0]


def small_call(peer: Any, tree: str, leaves: int, kind: str) -> float:
    """Seconds of one call, the least of several turns; nothing is waited for.

    Raises:
        Unsupported: the peer does not compile functions of trees.
    """
    if not hasattr(peer, "compile"):
        raise Unsupported("not a function of trees")
    arrays = [peer.asarray(np.full(4, i, np.float32)) for i in range(leaves)]
    if kind == "next":
        return seconds_of(peer.compile(lambda x: x + 1), arrays[0])
    written: Function = first_leaf(tree) if kind == "one" else lambda tree: tree
    return seconds_of(peer.compile(written), make_tree(tree, arrays))


def seconds_of(function: Callable[[Any], Any], argument: Any) -> float:
    """The least time of a call over turns of many calls."""
    clock = time.perf_counter
    function(argument)
    function(argument)
    start = clock()
    function(argument)
    repeats = max(1, min(100_000, round(SECONDS / max(clock() - start, 1e-8))))
    best = float("inf")
    for _ in range(TURNS):
        start = clock()
        for _ in range(repeats):
            function(argument)
        best = min(best, (clock() - start) / repeats)
    return best
