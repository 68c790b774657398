"""Sequences of several lengths together: padded, or packed step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....faces.publish import publish
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors import Tensor
from ....tensors.functions.naming import on_host

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Sequences of several lengths, the longest first: all their first elements, and so on.

    Attributes:
        data: the elements, of shape (sum of the lengths, ...).
        batch_sizes: how many sequences have a first element, a second one, and so on.
        sorted_indices: which sequence each of those in ``data`` is; None where they were in order.
        unsorted_indices: where in ``data`` each sequence is.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    @property
    def is_cuda(self) -> bool:
        """True if the elements are on a GPU."""
        return bool(self.data.is_cuda)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Returns the sequences with another dtype or on another device."""
        return self._replace(data=self.data.to(*args, **kwargs))


def invert_permutation(permutation: Any) -> Any:
    """Returns the permutation that undoes another; None of None."""
    return None if permutation is None else Tensor(np.argsort(on_host(permutation)))


def lengths_in(lengths: Any) -> np.ndarray[Any, Any]:
    """Returns lengths as a NumPy array."""
    return on_host(lengths) if isinstance(lengths, Tensor) else np.asarray(lengths, np.int64)


def pad_sequence(
    sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:  # fmt: skip
    """Returns sequences beside each other, filled up to the longest.

    Args:
        sequences: tensors of shape (length, ...).
        batch_first: whether the result is (batch, time, ...), not (time, batch, ...).
        padding_value: what they are filled up with.
        padding_side: ``"right"``, or ``"left"`` to fill up in front.

    >>> import functensor.torch as torch
    >>> rnn = torch.nn.utils.rnn
    >>> rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side is 'left' or 'right', not {padding_side!r}")
    longest = max(x.shape[0] for x in sequences)
    padded = []
    for x in sequences:
        rest = longest - x.shape[0]
        ends = (0, rest) if padding_side == "right" else (rest, 0)
        around = (ends, *((0, 0),) * (x.ndim - 1))
        padded.append(ops.pad(x, around, constant_values=padding_value))
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Returns the sequences that `pad_sequence` filled up."""
    rows = padded_sequences if batch_first else ops.swapaxes(padded_sequences, 0, 1)
    return [rows[i, :n] for i, n in enumerate(lengths_in(lengths).tolist())]


def packed_places(lengths: np.ndarray[Any, Any]) -> tuple[Any, Any, Any]:
    """Returns steps and sequences of packed elements, and sizes, for lengths in falling order."""
    sizes = np.array([(lengths > t).sum() for t in range(lengths[0])], np.int64)
    steps = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.concatenate([np.arange(n) for n in sizes])
    return steps, rows, sizes


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Returns sequences that were filled up without what they were filled up with.

    Args:
        input: of shape (time, batch, ...).
        lengths: those of the sequences, all positive.
        batch_first: whether the shape is (batch, time, ...).
        enforce_sorted: whether the lengths must be in falling order; else they are sorted.

    Raises:
        RuntimeError: the lengths are not in falling order, or not positive.
    """
    counts = lengths_in(lengths)
    if counts.size == 0 or counts.min() <= 0:
        raise RuntimeError(f"pack_padded_sequence: lengths are positive, not {counts.tolist()}")
    x = ops.swapaxes(input, 0, 1) if batch_first else input
    order = None
    if enforce_sorted:
        if (np.diff(counts) > 0).any():
            raise RuntimeError(
                f"pack_padded_sequence: lengths {counts.tolist()} are not in falling order: sort "
                "them, or give enforce_sorted=False"
            )
    else:
        order = np.argsort(-counts, kind="stable")
        x, counts = ops.take(x, order, 1), counts[order]
    steps, rows, sizes = packed_places(counts)
    indices = None if order is None else Tensor(order)
    data = ops.index(x, (steps, rows))
    return PackedSequence(data, Tensor(sizes), indices, invert_permutation(indices))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Returns packed sequences beside each other, filled up, and their lengths.

    Args:
        sequence: what `pack_padded_sequence` or a recurrent module returned.
        batch_first: whether the result is (batch, time, ...), not (time, batch, ...).
        padding_value: what they are filled up with.
        total_length: to which length; by default the longest.

    Raises:
        ValueError: a sequence is longer than ``total_length``.
    """
    sizes = on_host(sequence.batch_sizes)
    counts = np.array([(sizes > i).sum() for i in range(sizes[0])], np.int64)
    steps, rows, _ = packed_places(counts)
    length = len(sizes) if total_length is None else total_length
    if length < len(sizes):
        raise ValueError(f"pad_packed_sequence: total_length={length} is less than {len(sizes)}")
    data = sequence.data
    shape = (length, int(sizes[0]), *data.shape[1:])
    empty = beside(data, np.full(shape, padding_value, data.dtype))
    out = ops.index_set(empty, (steps, rows), data)
    if sequence.unsorted_indices is not None:
        order = on_host(sequence.unsorted_indices)
        out, counts = ops.take(out, order, 1), counts[order]
    return ops.swapaxes(out, 0, 1) if batch_first else out, Tensor(counts)


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Returns sequences packed; see `pack_padded_sequence`."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Returns the sequences that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


publish(globals())
