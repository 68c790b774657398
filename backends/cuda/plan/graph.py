"""Plans as CUDA graphs: their work is recorded once, and launched as a whole from then on.

A graph reads and writes at the addresses that it was recorded with. Inputs that are elsewhere in
each call are copied into memory of its own first. Results are copied out of it, but for those that
lie in donated inputs, which stay where they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeAlias

import cupy
import numpy as np
from cupy import ndarray

from ...config import config
from ...cpu.plan.codegen.operands import is_variable
from ...known_buffers import KnownBuffers, SameBuffers
from ...logs import log_debug
from ..capturing import NotCaptured, captured_here
from ..cublas.recorded import RecordedCublas
from ..gapless_copies import gapless
from ..kernels.plan import MOST_COPIED, MOST_WORDS, copy_arrays, copy_in, copy_out, set_words
from ..launch import is_contiguous
from .checked_nodes import NODES_OF_NCCL, check_nodes
from .copied_inputs import CopiedInputs
from .first_node import FirstNode
from .graph_by_priority import GraphByPriority
from .graph_choice import is_collective
from .leaf_kernels import WORD_BYTES
from .plan import GpuPlan, items_of
from .words import Words

__all__ = ["GraphedPlan"]

# Calls before a graph is recorded: by then caches have what they copy from the host.
CALLS_BEFORE_RECORDING = 2
# Each time an input lies elsewhere, a graph is recorded anew that copies it; later ones copy all.
MOST_RECORDINGS = 6
# So often inputs may share memory in another manner before each is copied by itself.
MOST_SHARED_OTHERWISE = 2
# A small plan is recorded so often, and then runs as a plan that is no graph.
MOST_RECORDINGS_OF_SMALL = 3
# On further streams a plan runs operation by operation.
MOST_STREAMS = 8
# The numbers of the host, and those among the outputs, where there are none.
NO_NUMBERS: tuple[list[Any], list[Any]] = [], []


class Lane:
    """Holds what all graphs have that run on one stream, one after the other.

    Attributes:
        stream: the stream on which work is recorded.
        lock: is held while a thread queues a plan.
    """

    def __init__(self) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.lock = threading.RLock()
        self._cublas: RecordedCublas | None = None

    @property
    def cublas(self) -> RecordedCublas:
        """Calls of cuBLAS on that stream."""
        if self._cublas is None:
            self._cublas = RecordedCublas(self.stream)
        return self._cublas


# Of each thread this names another stream.
STREAM_OF_THREAD = 2
# The device, the stream, and the thread where the stream is its own.
StreamKey: TypeAlias = tuple[int, int, int]
_lanes: dict[StreamKey, Lane] = {}
_lanes_lock = threading.Lock()


def stream_key(stream: Any) -> StreamKey:
    """Returns what tells a stream of the current device from others, as this thread sees it."""
    pointer = stream.ptr
    thread = threading.get_ident() if pointer == STREAM_OF_THREAD else 0
    return cupy.cuda.runtime.getDevice(), pointer, thread


def lane_of(stream: Any) -> Lane:
    """Returns the lane of a stream of the current device."""
    key = stream_key(stream)
    found = _lanes.get(key)
    if found is None:
        with _lanes_lock:
            found = _lanes.setdefault(key, Lane())
    return found


class RecordedGraph:
    """A graph, and the memory that it reads and writes.

    Attributes:
        graph: the graph.
        addresses: the addresses of inputs, by their places; None for those that are copied.
        strides: their strides; None for those whose elements lie one behind the other.
        copied: the memory of inputs that are copied.
        outputs: the arrays of results; None for those in donated inputs.
        kept: what has to live as long.
        first: the node that is told the numbers of the host, where results are to be, and where
            inputs lie that are copied; None where there are too many of them.
        launched: what is called before each launch, and what is called behind it.
    """

    def __init__(
        self,
        graph: Any,
        addresses: list[int | None],
        strides: list[tuple[int, ...] | None],
        copied: CopiedInputs,
        outputs: list[ndarray | None],
        kept: list[Any],
        first: FirstNode | None = None,
        launched: Sequence[tuple[Callable[[], None], Callable[[], None]]] = (),
    ) -> None:
        self.first = first
        self.graph = graph
        self.launched = launched
        self.addresses = addresses
        self.strides = strides
        self.copied = copied
        self.outputs = outputs
        self.kept = kept
        # The places of results that are copied out, with what they are copied from.
        self.copied_out = [
            (place, own, own.shape, own.dtype)
            for place, own in enumerate(outputs)
            if own is not None
        ]
        # The places of what is read where it is: of all, and of what lies in order.
        self._read = [i for i, address in enumerate(addresses) if address is not None]
        self._there = [address for address in addresses if address is not None]
        self._ordered = [i for i in self._read if strides[i] is None]
        self._strided = [(i, strides[i]) for i in self._read if strides[i] is not None]
        # What stands for inputs that were found to be there.
        self._known: SameBuffers | None = None

    def reads_only(self, places: Container[int]) -> bool:
        """Says whether all inputs that are read where they are have places among some."""
        return all(i in places for i in self._read)

    def launch(self, stream: Any) -> None:
        """Queues the graph."""
        for before, _ in self.launched:
            before()
        self.graph.launch(stream)
        for _, behind in self.launched:
            behind()

    def fits(self, arrays: Sequence[ndarray], known: SameBuffers | None = None) -> bool:
        """Says whether inputs are where the graph reads them, in the order that it expects.

        Args:
            arrays: the inputs.
            known: stands for them; None where nothing does.
        """
        if known is not None and known is self._known:
            return True
        found = (
            [arrays[i].data.ptr for i in self._read] == self._there
            and all([is_contiguous(arrays[i]) for i in self._ordered])  # noqa: C419 - it is faster
            and all(arrays[i].strides == strides for i, strides in self._strided)
        )
        if found:
            self._known = known
        return found


class OnStream:
    """A plan's work on one stream.

    Args:
        plan: the plan.
        stream: the stream.
        small, moving: as in `GraphedPlan`.
    """

    def __init__(
        self, plan: GpuPlan, stream: Any, small: bool = False, moving: bool = False
    ) -> None:
        self.plan = plan
        self._small = small
        self.lane = lane_of(stream)
        self._recording: RecordedGraph | None = None
        # Whether all else than what is donated is copied.
        self._reads_donated = False
        self._calls = 0
        self._recordings = 0
        # The places of inputs that lie elsewhere in each call.
        self._moving = {*range(len(plan.text.inputs) if moving else 0)}
        # How often copied inputs shared memory in another manner than those of a recording.
        self._shared_otherwise = 0
        # Why nothing is recorded any more.
        self.refused = ""
        text = plan.text
        # Processes that compare each collective do so where it is queued, and not in a graph.
        self._collective = any(map(is_collective, text.program.equations))
        self._dtypes = [x.type.dtype for x in text.numbers]
        self._words = Words(self._dtypes)
        # Calls write it one after the other, on one stream: numbers, and behind them addresses of
        # results, and of inputs that are copied.
        slots = len(self._dtypes) + sum(text.outputs) + len(text.inputs)
        self._slots = cupy.empty(max(WORD_BYTES * slots, 1), "u1")
        self._numbers = [
            ndarray((), dtype, self._slots.data + WORD_BYTES * i)
            for i, dtype in enumerate(self._dtypes)
        ]
        self._places = {number: i for i, number in enumerate(text.inputs)}
        # By the places of results the places of the inputs whose memory they take.
        order = [k for k, there in enumerate(text.outputs) if there]
        self._taken = {
            order.index(k): self._places[i] for k, i in text.taken.items() if i in self._places
        }
        # The same of results that are inputs themselves.
        inputs = {text.program.inputs[i]: place for i, place in self._places.items()}
        outputs = [text.program.outputs[k] for k in order]
        self._handed_on = {
            place: inputs[out]
            for place, out in enumerate(outputs)
            if is_variable(out) and out in inputs
        }
        # All others stand in the first place until they are there.
        found = self._taken | self._handed_on
        self._in_place = items_of([found.get(place, 0) for place in range(len(order))])
        if not found:
            self._in_place = lambda arrays: [None] * len(order)

    def run(
        self,
        arrays: list[ndarray],
        numbers: Sequence[Any],
        stream: Any,
        known: SameBuffers | None = None,
        donated: SameBuffers | None = None,
    ) -> list[ndarray]:
        """Queues the work of a call, and returns the results.

        Args:
            arrays: the inputs.
            numbers: the numbers of the host.
            stream: the stream.
            known: as in `RecordedGraph.fits`.
            donated: the same for inputs that are donated.
        """
        recording = self._recording
        one_by_one = self._collective and config.check_collectives
        if recording is not None and not one_by_one:
            if recording.fits(arrays, donated if self._reads_donated else known):
                sources = recording.copied.sources(arrays)
                if sources is not None:
                    return self._launched(recording, arrays, sources, numbers, stream)
                self._shared_otherwise += 1
            if not self._small:
                self._note_moving(recording, arrays)
            elif self._recordings >= MOST_RECORDINGS_OF_SMALL:
                self.refused = "inputs lie elsewhere in each call"
            self._recording = None
        self._set(numbers)
        for place in self._taken.values():
            # Results are written into it in order.
            arrays[place] = gapless(arrays[place])
        outs = self._directly(arrays)
        if one_by_one:
            return outs
        self._calls += 1
        if self._calls >= CALLS_BEFORE_RECORDING and not self.refused:
            self._record(arrays, stream)
        return outs

    def _set(self, numbers: Sequence[Any]) -> None:
        """Sets the numbers of the host, by a launch."""
        if self._dtypes:
            set_words(self._words.of(numbers), self._slots)

    def _note_moving(self, recording: RecordedGraph, arrays: list[ndarray]) -> None:
        """Notes the inputs that are not where a graph reads them."""
        known = zip(arrays, recording.addresses, recording.strides)
        for place, (x, address, strides) in enumerate(known):
            if address is None:
                continue
            alike = is_contiguous(x) if strides is None else x.strides == strides
            if x.data.ptr != address or not alike:
                self._moving.add(place)

    def _launched(
        self,
        recording: RecordedGraph,
        arrays: list[ndarray],
        sources: list[ndarray],
        numbers: Sequence[Any],
        stream: Any,
    ) -> list[ndarray]:
        outs = self._in_place(arrays)
        fresh = []
        for place, _, shape, dtype in recording.copied_out:
            outs[place] = made = ndarray(shape, dtype)
            fresh.append(made)
        if recording.first is not None:
            recording.first.set(numbers, [x.data.ptr for x in fresh + sources])
            recording.launch(stream)
            return outs
        if sources:
            copy_arrays([*zip(sources, recording.copied.memory, strict=True)])
        self._set(numbers)
        recording.launch(stream)
        if fresh:
            copy_arrays([(own, outs[place]) for place, own, *_ in recording.copied_out])
        return outs

    def _directly(self, arrays: list[ndarray]) -> list[ndarray]:
        """Queues the work operation by operation."""
        memory = [arrays[place] for place in self._taken.values()]
        return self.plan.queue(*arrays, *self._numbers, *memory)

    def _record(self, arrays: list[ndarray], stream: Any) -> None:
        """Records a graph for arrays that lie where these do."""
        self._recordings += 1
        if self._recordings > MOST_RECORDINGS:
            self._moving |= {*range(len(arrays))}
        try:
            self._recording = self._recorded(arrays, stream)
            places = {self._places[i] for i in self.plan.donated if i in self._places}
            self._reads_donated = self._recording.reads_only(places)
        except Exception as error:
            self.refused = f"{type(error).__name__}: {error}"
            log_debug("jit", "%s is no graph: %s", self.plan.name, self.refused)

    def _recorded(self, arrays: list[ndarray], stream: Any) -> RecordedGraph:
        make_room()
        lane, pool = self.lane, cupy.cuda.MemoryPool()
        moving = {i for i in self._moving if i < len(arrays)}
        with cupy.cuda.using_allocator(pool.malloc):
            joint = self._shared_otherwise < MOST_SHARED_OTHERWISE
            copied = CopiedInputs({i: arrays[i] for i in sorted(moving)}, joint)
        given = [copied.arrays.get(i, x) for i, x in enumerate(arrays)]
        memory = [None if place in moving else arrays[place] for place in self._taken.values()]
        captured_here.cublas, captured_here.kept, captured_here.launched = lane.cublas, [], ()
        # What caches have of the caller's stream is there when the graph runs, which is there, too.
        captured_here.stream = stream.ptr
        in_place = {k for k, place in self._taken.items() if place not in moving}
        in_place |= {*self._handed_on}
        count = sum(self.plan.text.outputs) - len(in_place)
        copies = len(copied.memory)
        words = len(self._dtypes) + count + copies
        begins = 0 < words <= MOST_WORDS and max(count, copies) <= MOST_COPIED
        results = self._slots[WORD_BYTES * len(self._dtypes) :]
        graph = None
        try:
            with lane.stream, cupy.cuda.using_allocator(pool.malloc):
                lane.stream.begin_capture()
                try:
                    if begins:
                        set_words(bytes(WORD_BYTES * words), self._slots)
                        copy_in(results[WORD_BYTES * count :], copied.memory)
                    outs = self.plan.queue(*given, *self._numbers, *memory)
                    owned = [None if k in in_place else x for k, x in enumerate(outs)]
                    if begins:
                        copy_out([x for x in owned if x is not None], results)
                finally:
                    graph = lane.stream.end_capture()
            kept = [pool, *captured_here.kept, self._slots]
            launched = captured_here.launched
        finally:
            captured_here.cublas = captured_here.kept = captured_here.stream = None
            captured_here.launched = ()
        check_nodes(graph.graph, NODES_OF_NCCL if self._collective else ())
        if self._collective:
            graph = GraphByPriority(graph)
        addresses = [None if i in moving else x.data.ptr for i, x in enumerate(arrays)]
        if not all(x is None or is_contiguous(x) for x in owned):
            raise NotCaptured("the elements of a result do not lie one behind the other")
        strides = [*map(strides_unless_ordered, arrays)]
        addressed = words - len(self._dtypes)
        first = FirstNode(graph, self._slots, self._dtypes, addressed) if begins else None
        return RecordedGraph(graph, addresses, strides, copied, owned, kept, first, launched)


def make_room() -> None:
    """Gives back what CuPy's pool holds for later, where a graph may not find memory otherwise.

    What a graph needs for itself is about what a call left there.
    """
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    if pool.free_bytes() > free:
        pool.free_all_blocks()


def strides_unless_ordered(x: ndarray) -> tuple[int, ...] | None:
    """Returns the strides of an array; None where elements lie one behind the other."""
    return None if is_contiguous(x) else x.strides


class GraphedPlan:
    """Runs a plan as a graph, one for each stream.

    Attributes:
        called: as that of plans.

    Args:
        plan: the plan, whose numbers are apart.
        small: whether it is of few operations, which are no better copied than launched: inputs
            are not copied where they lie elsewhere, and nobody is told that it is no graph.
        moving: whether all inputs are copied from the first recording on.
    """

    called = ()

    def __init__(self, plan: GpuPlan, small: bool = False, moving: bool = False) -> None:
        self.plan = plan
        self._small = small
        self._moving = moving
        self._is_graph = True
        self._inputs = items_of(plan.text.inputs)
        # Whether the host computes anything.
        self._computes = bool(plan.text.numbers) or not all(plan.text.outputs)
        self._on_streams: dict[StreamKey, OnStream] = {}
        self._lock = threading.Lock()

    @property
    def source(self) -> str:
        """The generated text, and those of its kernels."""
        return self.plan.source

    @property
    def remark(self) -> str:
        """The reason why it is no graph, for people; empty where it is one, or may become one."""
        if self._small:
            return ""
        found = {one.refused for one in [*self._on_streams.values()]}
        return f", and not as a CUDA graph: {min(found)}" if found and "" not in found else ""

    def __call__(self, buffers: list[Any]) -> list[Any]:
        """Queues the program on the current stream, and returns the buffers of its results."""
        if not self._is_graph:
            return self.plan(buffers)
        try:
            numbers, of_host = self.plan.numbers(buffers) if self._computes else NO_NUMBERS
            stream = cupy.cuda.get_current_stream()
            key = stream_key(stream)
            found = self._on_streams.get(key)
            if found is None and len(self._on_streams) < MOST_STREAMS:
                with self._lock:
                    found = self._on_streams.setdefault(
                        key, OnStream(self.plan, stream, self._small, self._moving)
                    )
            arrays = self._inputs(buffers)
            known = donated = None
            if type(buffers) is KnownBuffers:
                known, donated = buffers.known, buffers.donated
            if found is None:
                outs = self.plan.queue(*arrays, *map(cupy.asarray, self._typed(numbers)))
            else:
                with found.lane.lock:
                    outs = found.run(arrays, numbers, stream, known, donated)
                if self._small and found.refused:
                    self._is_graph = False
        except Exception as error:
            self.plan.explain(error)
            raise
        if not of_host:
            return outs
        places, hosts = iter(outs), iter(of_host)
        return [next(places) if there else next(hosts) for there in self.plan.text.outputs]

    def _typed(self, numbers: Sequence[Any]) -> list[Any]:
        """Returns numbers of the host in the dtypes that kernels read."""
        pairs = zip(numbers, self.plan.text.numbers, strict=True)
        return [np.asarray(number, x.type.dtype) for number, x in pairs]

    def __repr__(self) -> str:
        return f"<graph of {self.plan!r}>"
