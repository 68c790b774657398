"""Recurrent modules over packed sequences, each of which ends when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...primitives.core.registry import registry as ops
from ...tensors.functions.naming import on_host
from . import functional as F
from .utils.rnn import PackedSequence

__all__ = ["PackedSequence", "run_packed"]


def run_packed(
    packed: PackedSequence, states: Any, layers: Sequence[Any], between: Callable[[Any], Any]
) -> tuple[PackedSequence, Any]:
    """Returns packed results, and the last states of all layers and directions.

    Args:
        packed: the sequences.
        states: the first states: tensors of shape (layers and directions, batch, features).
        layers: for every layer its directions: a step, its weights, its biases, and whether it
            goes backwards.
        between: what is done to results between layers.
    """
    sizes = on_host(packed.batch_sizes).tolist()
    if packed.sorted_indices is not None:
        states = tuple([ops.take(s, on_host(packed.sorted_indices), 1) for s in states])
    x = packed.data
    last: list[Any] = []
    for number, directions in enumerate(layers):
        if number:
            x = between(x)
        found = []
        for step, weights, biases, backwards in directions:
            begin = tuple([s[len(last)] for s in states])
            inputs = F.linear(x, weights[0], biases[0])

            def advance(state: Any, rows: Any, step: Any = step, w: Any = weights[1],
                        b: Any = biases[1]) -> Any:  # fmt: skip
                return step(rows, state, w, b)

            run = run_backwards if backwards else run_forwards
            out, end = run(inputs, sizes, begin, advance)
            found.append(ops.concatenate(out, 0))
            last.append(end)
        x = found[0] if len(found) == 1 else ops.concatenate(found, -1)
    ends = tuple([ops.stack(list(each)) for each in zip(*last)])
    if packed.unsorted_indices is not None:
        ends = tuple([ops.take(e, on_host(packed.unsorted_indices), 1) for e in ends])
    return packed._replace(data=x), ends


def pieces(inputs: Any, sizes: Sequence[int]) -> list[Any]:
    """Returns the elements of every step."""
    found, start = [], 0
    for size in sizes:
        found.append(inputs[start : start + size])
        start += size
    return found


def run_forwards(inputs: Any, sizes: Sequence[int], state: Any, advance: Any) -> tuple[Any, Any]:
    """Returns the results of every step, and the state of each sequence at its end."""
    out: list[Any] = []
    ended: list[Any] = []
    for rows in pieces(inputs, sizes):
        here = rows.shape[0]
        if here < state[0].shape[0]:
            ended.append(tuple([s[here:] for s in state]))
            state = tuple([s[:here] for s in state])
        state = advance(state, rows)
        out.append(state[0])
    parts = [state, *reversed(ended)]
    return out, tuple([ops.concatenate(list(each), 0) for each in zip(*parts)])


def run_backwards(inputs: Any, sizes: Sequence[int], begin: Any, advance: Any) -> tuple[Any, Any]:
    """Returns the results of every step, from the last one on, and the states at the first."""
    out: list[Any] = []
    state = tuple([s[:0] for s in begin])
    for rows in reversed(pieces(inputs, sizes)):
        here, before = rows.shape[0], state[0].shape[0]
        if here > before:
            more = [b[before:here] for b in begin]
            state = tuple([ops.concatenate([s, b], 0) for s, b in zip(state, more)])
        state = advance(state, rows)
        out.append(state[0])
    return out[::-1], state
