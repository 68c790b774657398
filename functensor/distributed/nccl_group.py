"""Collectives among a group of processes over NCCL, on CuPy's arrays.

Each call is queued on CuPy's current stream: nothing waits for it on the host, and a CUDA graph
that is being recorded takes it in. A `Watch` looks whether it gets done. Sums of float16 and
bfloat16 are NCCL's own. Maxima and minima go as integers of the same order, as over MPI.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cupy

from ..backends import get as get_backend
from .failures import news
from .objects import broadcast_object
from .ordered_integers import from_ordered, to_ordered
from .waiting import wait
from .watching import Watch

__all__ = ["NcclGroup"]

# NCCL's names of dtypes, and the words that one of each has.
NCCL_DTYPES = {
    **{name: (name.upper(), 1) for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64")},
    **{name: (name.upper(), 1) for name in ("float16", "bfloat16", "float32", "float64")},
    "complex64": ("FLOAT32", 2),
    "complex128": ("FLOAT64", 2),
}
# NCCL's numbers of operations; CuPy has no name for the average.
NCCL_SUM, NCCL_MAX, NCCL_MIN, NCCL_AVG = 0, 2, 3, 4
# The priority of a stream, the lowest number that there is or less, is before that of others.
HIGHEST_PRIORITY = -5
# The library, as CuPy has loaded it.
NCCL_LIBRARY = "libnccl.so.2"
# Integers that NCCL does not have go as these.
WIDER_INTEGERS = {"int16": "int32", "uint16": "uint32"}
# The processes of a group may record graphs at different calls. NCCL would make them wait for each
# other, to register the memory of a graph.
os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")


class Queued:
    """A mean that is queued on a stream.

    Attributes:
        out: the array.
        event: when it is there.
        kept: the array whose memory the pool is not to give away before.
        recorded: whether it is a part of a graph that is being recorded, in which nothing is done.
    """

    def __init__(self, out: Any, dtype: Any, event: Any, kept: Any, recorded: bool) -> None:
        self.out = out
        self.dtype = dtype
        self.event = event
        self.kept = kept
        self.recorded = recorded

    def advance(self) -> bool:
        """Says whether it is there, or never will be; the GPU goes on by itself."""
        if self.recorded or self.event is None:
            return True
        if self.event.done:
            self.kept = None
        return self.kept is None

    def result(self) -> Any:
        """Returns the mean; what is queued after this waits for it."""
        if self.event is not None:
            cupy.cuda.get_current_stream().wait_event(self.event)
            self.event = self.kept = None
        return self.out.astype(self.dtype, copy=False)


class Watched:
    """The watch over all communicators of NCCL of this process; None before there is one."""

    watch: Watch | None = None


def the_watch() -> Watch:
    """Returns the watch over what NCCL does, which reads of results ask."""
    if Watched.watch is None:
        known = news()
        assert known is not None  # groups have several processes
        # A thread that computes nowhere would begin on the first GPU.
        Watched.watch = Watch(known, cupy.cuda.Device().use)
        get_backend("cupy").waited = Watched.watch.check
    return Watched.watch


class NcclGroup:
    """A group of processes that exchange CuPy's arrays.

    Args:
        comm: MPI's communicator of the processes, by which NCCL's is made.
        ranks: of its processes among all, in their order.

    Attributes:
        size, rank: the number of processes, and of this one among them.
    """

    def __init__(self, comm: Any, ranks: tuple[int, ...]) -> None:
        self.size: int = comm.size
        self.rank: int = comm.rank
        self._ranks = ranks
        # Where NCCL is missing the import warns.
        from cupy.cuda import nccl

        self._names = nccl
        self._watch = the_watch()
        what = "communicator of NCCL"
        number = broadcast_object(
            nccl.get_unique_id() if comm.rank == 0 else None, comm, what, ranks
        )
        # NCCL makes communicators by a call that blocks.
        wait(comm.Ibarrier(), what, ranks)
        self._nccl = self._watch.call(
            what, ranks, nccl.NcclCommunicator, self.size, number, self.rank
        )
        # A communicator that is freed waits until all graphs are that have its work. Some live as
        # long as the process, which would never end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._nccl))
        self._watch.over(self._abort, self._nccl.check_async_error)
        # One object, by which a graph tells that it has it.
        self._check = self._watch.check
        self._call_at_launches = get_backend("cupy").call_at_launches
        self._marks: dict[Any, Callable[..., None]] = {}
        # Events that are used again. To free one waits for the GPU, with all threads of Python.
        self._events: list[Any] = []
        self._stream: Any = None

    def _call(
        self,
        what: str,
        stream: Any,
        function: Callable[..., Any],
        *args: Any,
        among: tuple[int, ...] | None = None,
    ) -> bool:
        """Has NCCL queue something, and the watch look whether it gets done.

        Args:
            what: the thing, in words.
            stream: where it is queued.
            function, args: the function of NCCL, and what it is given before the stream.
            among: the processes that take part; None for those of the group.

        Returns:
            Whether it was recorded for a graph.
        """
        ranks = self._ranks if among is None else among
        self._watch.call(what, ranks, function, *args, stream.ptr)
        mark = self._marks.get((what, ranks))
        if mark is None:
            mark = self._marks[what, ranks] = partial(self._mark, what, ranks)
        # What a graph does beside its stream is done before the stream goes on.
        recorded = self._call_at_launches(self._check, mark)
        if not recorded:
            mark(stream)
        return recorded

    def _abort(self) -> None:
        """Ends what the communicator does; blocks as long as there are graphs that have its work.

        CuPy's own call would keep all other threads of Python from going on meanwhile.
        """
        ctypes.CDLL(NCCL_LIBRARY).ncclCommAbort(ctypes.c_void_p(self._nccl.comm))

    def _mark(self, what: str, ranks: tuple[int, ...], stream: Any = None) -> None:
        """Has the watch look whether a stream, by default the current one, comes to here."""
        event = self._events.pop() if self._events else cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        self._watch.queued(what, ranks, partial(self._is_there, event))

    def _is_there(self, event: Any) -> bool:
        """Says whether a stream has come to an event, which the next mark uses then."""
        there: bool = event.done
        if there:
            self._events.append(event)
        return there

    @property
    def stream(self) -> Any:
        """A stream beside the current one, for means that others are not to wait for.

        What it has takes its turn before what other streams have, which would fill the GPU first.
        """
        if self._stream is None:
            self._stream = cupy.cuda.Stream(non_blocking=True, priority=HIGHEST_PRIORITY)
        return self._stream

    def begin_mean(self, x: Any, owned: bool) -> Queued:
        """Begins to average the arrays of all, beside what is queued on the current stream.

        Where nobody else has the memory of this one, the mean is written into it.
        """
        given = _summable(x)
        out = given if owned or given.dtype != x.dtype else cupy.empty_like(given)
        self.stream.wait_event(cupy.cuda.get_current_stream().record())
        recorded = self._sum("mean", given, out, self.stream, NCCL_AVG)
        return Queued(out, x.dtype, self.stream.record(), given, recorded)

    def _dtype(self, x: Any) -> tuple[int, int]:
        """Returns NCCL's number of an array's dtype, and how many words an element has."""
        name, words = NCCL_DTYPES[x.dtype.name]
        return getattr(self._names, f"NCCL_{name}"), words

    def _sum(self, what: str, given: Any, out: Any, stream: Any, operation: int) -> bool:
        dtype, words = self._dtype(given)
        places = given.data.ptr, out.data.ptr, given.size * words
        return self._call(what, stream, self._nccl.allReduce, *places, dtype, operation)

    def sum(self, x: Any) -> Any:
        """Returns the sum of the arrays of all."""
        given = _summable(x)
        out = cupy.empty_like(given)
        self._sum("sum", given, out, cupy.cuda.get_current_stream(), NCCL_SUM)
        return out.astype(x.dtype, copy=False)

    def extremum(self, x: Any, largest: bool) -> Any:
        """Returns the largest elements of the arrays of all, or the smallest; NaN wins."""
        ordered = _summable(to_ordered(cupy, _contiguous(x), largest))
        out = cupy.empty_like(ordered)
        operation = NCCL_MAX if largest else NCCL_MIN
        self._sum("extremum", ordered, out, cupy.cuda.get_current_stream(), operation)
        words = cupy.uint8 if x.dtype.kind == "b" else f"i{x.dtype.itemsize}"
        if x.dtype.kind in "iu":
            words = x.dtype
        return from_ordered(cupy, out.astype(words, copy=False), x.dtype)

    def gather(self, x: Any) -> Any:
        """Returns the arrays of all, along a new first axis."""
        x = _contiguous(x)
        out = cupy.empty((self.size, *x.shape), x.dtype)
        given = x.data.ptr, out.data.ptr, x.nbytes, self._names.NCCL_UINT8
        self._call("gather", cupy.cuda.get_current_stream(), self._nccl.allGather, *given)
        return out

    def begin_scatter_mean(self, x: Any) -> Queued:
        """Begins to average the arrays of all, of which each gets the row of its rank."""
        given = _summable(x)
        out = cupy.empty(given.shape[1:], given.dtype)
        self.stream.wait_event(cupy.cuda.get_current_stream().record())
        recorded = self._scatter("mean", given, out, self.stream, NCCL_AVG)
        return Queued(out, x.dtype, self.stream.record(), given, recorded)

    def _scatter(self, what: str, given: Any, out: Any, stream: Any, operation: int) -> bool:
        dtype, words = self._dtype(given)
        places = given.data.ptr, out.data.ptr, out.size * words
        return self._call(what, stream, self._nccl.reduceScatter, *places, dtype, operation)

    def scatter_sum(self, x: Any) -> Any:
        """Returns of the sum of all arrays the row of this process's rank."""
        given = _summable(x)
        out = cupy.empty(given.shape[1:], given.dtype)
        self._scatter("sum", given, out, cupy.cuda.get_current_stream(), NCCL_SUM)
        return out.astype(x.dtype, copy=False)

    def exchange(self, x: Any) -> Any:
        """Returns the rows that all have for this process, in the order of their ranks."""
        x = _contiguous(x)
        out = cupy.empty_like(x)
        sizes = x.nbytes // self.size
        pairs = [(peer, peer) for peer in range(self.size)]
        targets = [(peer, peer * sizes) for peer, _ in pairs]
        self._send("exchange", x, out, targets, sizes, pairs)
        return out

    def permute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """Returns the array that another process sends to this one; zeros where none does."""
        x = _contiguous(x)
        sources = [source for source, destination in pairs if destination == self.rank]
        out = cupy.empty_like(x) if sources else cupy.zeros_like(x)
        targets = [(destination, 0) for source, destination in pairs if source == self.rank]
        self._send("permutation", x, out, targets, x.nbytes, [(peer, 0) for peer in sources])
        return out

    def _send(
        self,
        what: str,
        x: Any,
        out: Any,
        targets: Sequence[tuple[int, int]],
        count: int,
        sources: Sequence[tuple[int, int]],
    ) -> None:
        """Sends parts of an array and receives parts of another, all at once.

        Args:
            what: what that is for, in words.
            x, out: the arrays.
            targets: to whom a part is sent, and at which byte it begins.
            count: the bytes of a part.
            sources: from whom one comes, and its number in ``out``.
        """
        peers = {peer for peer, _ in (*targets, *sources)}
        if not count or not peers:
            return
        nccl = self._names

        def queue(stream: int) -> None:
            nccl.groupStart()
            try:
                for peer, begin in targets:
                    self._nccl.send(x.data.ptr + begin, count, nccl.NCCL_UINT8, peer, stream)
                for peer, number in sources:
                    place = out.data.ptr + number * count
                    self._nccl.recv(place, count, nccl.NCCL_UINT8, peer, stream)
            finally:
                nccl.groupEnd()

        among = tuple(self._ranks[peer] for peer in sorted(peers | {self.rank}))
        self._call(what, cupy.cuda.get_current_stream(), queue, among=among)


def _contiguous(x: Any) -> Any:
    """Returns an array whose elements lie one behind the other."""
    return cupy.ascontiguousarray(x).reshape(x.shape)


def _summable(x: Any) -> Any:
    """Returns an array of a dtype that NCCL has."""
    x = _contiguous(x)
    wider = WIDER_INTEGERS.get(x.dtype.name)
    return x if wider is None else x.astype(wider)
