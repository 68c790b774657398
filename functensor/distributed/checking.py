"""Comparisons among processes, most of them while ``config.check_collectives`` is on.

Before each collective, and at the end of each ``spmd``, all processes of the mesh say what they are
about to do: one exchange of a digest, and of the words where digests differ. So all of them find
the same difference, and all raise the same error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from ..backends.devices import to_host
from ..backends.frames import user_line
from ..backends.generated_file import planned_line
from ..backends.notebook_cells import with_cells_named
from ..primitives.core.errors import CollectiveError, describe, failure
from .failures import ranks_in_words
from .groups import is_capturing, process_group
from .world import world

__all__ = [
    "begin_checks", "check_collective", "check_raised", "check_same_values", "check_spmd_end",
    "compare_processes", "first_other", "not_the_same",
]  # fmt: skip


BFLOAT16_PRECISION = 2.0**-7


class Order:
    """Counts the collectives of a process, from the beginning of an ``spmd`` on."""

    number = 0


def begin_checks() -> None:
    """Counts from the first collective on."""
    Order.number = 0


def check_collective(
    name: str, buffer: Any, axes: Sequence[Any], params: dict[str, Any]
) -> None:
    """Compares a collective with those that other processes are about to do.

    Raises:
        CollectiveError: another process does something else.
    """
    Order.number += 1
    shown = "".join(f", {key}={value}" for key, value in params.items() if key != "size")
    names = ", ".join(map(repr, axes))
    line = planned_line() or user_line()
    compare_processes(
        f"{name} of {describe(buffer)} over {names}{shown} at {with_cells_named(line)}, "
        f"its collective {Order.number}"
    )


def check_spmd_end(words: str) -> None:
    """Compares the end of an ``spmd`` with what other processes are about to do."""
    compare_processes(f"the end of {words} after {Order.number} collectives")


def check_raised(words: str, error: BaseException) -> None:
    """Tells the other processes that this one leaves an ``spmd`` by an error."""
    if isinstance(error, CollectiveError):
        return
    try:
        compare_processes(f"{type(error).__name__} raised in {words}: {error}")
    except CollectiveError:
        # The error itself says more.
        return


def compare_processes(doing: str) -> None:
    """Compares what processes are about to do, in words.

    Raises:
        CollectiveError: they are not equal.
    """
    if is_capturing():
        return  # nothing is done now
    everybody = _everybody()
    digest = np.frombuffer(blake2b(doing.encode(), digest_size=32).digest(), np.uint8)
    rows = everybody.gather(digest)
    if (rows == digest).all():
        return
    told = _texts(everybody, doing)
    usual = Counter(told).most_common(1)[0][0]
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(told):
        ranks.setdefault(text, []).append(rank)
    others = sorted((text for text in ranks if text != usual), key=lambda text: ranks[text])
    lines = [f"    {_named(ranks[text])}: {text}   <- differs" for text in others]
    raise failure(
        CollectiveError,
        "\n".join([
            "processes that run together do not do the same:",
            *lines,
            f"    {_named(ranks[usual])}: {usual}",
        ]),
        fix="let all processes call the same collectives in the same order: no branch, loop or "
        "exception that depends on the rank around them",
    )


def _texts(everybody: Any, doing: str) -> list[str]:
    """Returns what all processes are about to do."""
    own = np.frombuffer(doing.encode(), np.uint8)
    lengths = everybody.gather(np.array([own.size]))[:, 0]
    padded = np.zeros(lengths.max(), np.uint8)
    padded[: own.size] = own
    rows = everybody.gather(padded)
    return [row[:n].tobytes().decode(errors="replace") for row, n in zip(rows, lengths)]


def _everybody() -> Any:
    """Returns the group of all processes, which exchange what is on the host."""
    return process_group(tuple(range(world().size)), np.zeros(0))


def _named(ranks: Sequence[int]) -> str:
    """Returns the words for some ranks.

    >>> _named([0, 1, 2, 5])
    'ranks 0 to 2, 5'
    >>> _named([3])
    'rank 3'
    """
    return f"rank{'s' if len(ranks) > 1 else ''} {ranks_in_words(ranks)}"


def check_same_values(mesh: Any, what: str, buffer: Any, axes: Sequence[Any]) -> None:
    """Checks that what is said to be the same along axes is so, but for rounding.

    Args:
        mesh: the mesh.
        what: ``"argument"`` or ``"output"``.
        buffer: this process's.
        axes: the axes along which it is not cut.

    Raises:
        CollectiveError: it is not.
    """
    if is_capturing():
        return
    names = [axis.name for axis in axes]
    along = ", ".join(map(repr, names))
    shown = f"an {what} {describe(buffer)}"
    compare_processes(f"the comparison of {shown} along {along}")
    mine = np.asarray(to_host(buffer))
    ranks = mesh.ranks(names)
    odd = first_other(process_group(tuple(ranks), mine).gather(mine))
    # Those whose neighbours agree raise as well.
    told = _everybody().gather(np.array([-1 if odd is None else ranks[odd], ranks[0]]))
    found = [(int(rank), int(first)) for rank, first in told if rank >= 0]
    if found:
        raise not_the_same(shown, names, *found[0])


def first_other(rows: Any) -> int | None:
    """Returns the number of the first row that is not the first one, but for rounding, or None.

    >>> first_other(np.array([[1.0, 2.0], [1.0, 2.0 + 1e-12], [1.0, 3.0]]))
    2
    """
    if rows.dtype.kind in "biu":
        differs = (rows != rows[0]).reshape(len(rows), -1).any(axis=1)
        return int(differs.argmax()) if differs.any() else None
    rounded = rows.dtype.kind == "V"
    wide = rows.astype(np.float64) if rounded else rows
    precision = BFLOAT16_PRECISION if rounded else np.finfo(wide.dtype).eps
    finite = np.abs(wide[0])[np.isfinite(wide[0])]
    tolerance = np.sqrt(precision) * np.max(finite, initial=0.0)
    for number, row in enumerate(wide):
        if not np.allclose(row, wide[0], rtol=0, atol=tolerance, equal_nan=True):
            return number
    return None


def not_the_same(shown: str, names: Sequence[Any], rank: int, first: int) -> CollectiveError:
    """Returns the error for what is not the same on two processes.

    Args:
        shown: an argument or an output, with its dtype and shape.
        names: the axes along which it is to be the same.
        rank, first: the processes.
    """
    along = ", ".join(map(repr, names))
    return failure(
        CollectiveError,
        f"{shown} of an spmd has a spec that does not cut it along {along}, and is "
        f"not the same there: rank {rank} has other values than rank {first}",
        fix="return ft.psum(x, name) or ft.pmean(x, name), or name the axis in out_specs"
        if "output" in shown
        else "P.local() for an argument of each process's own; or give all the same",
    )
