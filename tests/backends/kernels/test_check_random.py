"""Kernels that were changed at random: what the checker lets pass breaks no rule when it runs."""

from itertools import permutations, product

import numpy as np
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.random_graphs import integer_graphs, shown

from functensor.backends.kernels.accesses import buffer_elements
from functensor.backends.kernels.check import KernelError, check_kernel, check_shared
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import (
    BLOCK_NUMBER,
    For,
    Index,
    Load,
    LoopKernel,
    PlaceWithin,
    Store,
    UpdateOf,
    all_statements,
)
from functensor.backends.kernels.printed import kernel_text
from functensor.backends.kernels.row_tiles import in_tiles, loop_to_tile
from functensor.backends.kernels.schedule import scheduled

MEMORY = Load, Store, UpdateOf


class Trace:
    """Runs a kernel place by place, without numbers, and looks at the elements that it takes.

    Attributes:
        written: how often each element of an output was written in all blocks.
        begun: the elements of parts and scratch memory that this block has written.
        gathered: the outputs that were read.
        last: whether numbers name the last places of axes, and not the first ones.
        overwritten: pairs of an input and an output, of which an element was read after it was
            written.
    """

    def __init__(self, kernel, last=False):
        self.kernel = kernel
        self.last = last
        self.within = {}
        self.written = {
            x: np.zeros(buffer_elements(x), int) for x in kernel.buffers if x.role == "out"
        }
        self.gathered = set()
        self.overwritten = set()
        self.begun = set()
        self.tiles = {}

    def block(self, low, high):
        self.begun = set()
        self.range = low, high
        self.places = {BLOCK_NUMBER: 0}
        self.body(self.kernel.body, [])
        for buffer in self.kernel.buffers:
            if buffer.role == "part":
                assert all(
                    (buffer, element) in self.begun for element in range(buffer_elements(buffer))
                )

    def body(self, body, touched):
        for statement in body:
            if isinstance(statement, For):
                self.loop(statement)
            elif isinstance(statement, PlaceWithin):
                self.within[statement.value] = statement.length
            elif isinstance(statement, MEMORY):
                self.access(statement, touched)

    def loop(self, loop):
        lanes = []
        low, high = self.range if loop.axis.block else (0, loop.axis.extent)
        low, high = self.tiles.get(loop.axis, (low, high))
        for place in range(low, high, max(loop.tile, 1)):
            if loop.tile:
                self.tiles[loop.axis] = place, min(place + loop.tile, high)
                # The memory for rows of a tile has those of another one now.
                self.begun = {(b, element) for b, element in self.begun if not b.tile}
            else:
                self.places[loop.axis] = place
            lanes.append([])
            self.body(loop.body, lanes[-1])
        self.places.pop(loop.axis, None)
        if loop.tile:
            del self.tiles[loop.axis]
        if loop.lanes > 1:
            owner = {}
            for number, lane in enumerate(lanes):
                for writes, where in lane:
                    if writes:
                        assert owner.setdefault(where, number) == number
            for number, lane in enumerate(lanes):
                assert all(owner.get(where, number) == number for _, where in lane)

    def access(self, statement, touched):
        buffer, index = statement.buffer, statement.index
        element = index.begin + sum(s * self.places[axis] for axis, s in index.terms)
        for value, stride in index.picks:
            # The places that numbers name are the first and the last one in turn.
            element += stride * (self.within[value] - 1) * self.last
        assert 0 <= element < buffer_elements(buffer)
        writes, reads = not isinstance(statement, Load), not isinstance(statement, Store)
        touched.append((writes, (buffer, element)))
        if buffer.role == "in":
            assert not writes
            for out, counts in self.written.items():
                if element < len(counts) and counts[element]:
                    self.overwritten.add((buffer, out))
        elif buffer.role == "out":
            # Where one run computes all rows a fold may be gathered in an output.
            assert self.written[buffer][element] or not reads
            self.gathered |= {buffer} if reads else set()
            self.written[buffer][element] += writes
        else:
            assert (buffer, element) in self.begun or not reads
            self.begun.add((buffer, element))


def cuts(rows, whole=False):
    """Cuts rows into two blocks, or one."""
    if whole or rows == 1:
        return [(0, 0, rows)]
    return [(0, 0, rows // 2), (1, rows // 2, rows)]


def changed(draw, kernel):
    """Returns a kernel in which one thing is another."""
    some = list(all_statements(kernel.body))
    chosen = draw(st.sampled_from(some))
    axes = list({id(s.axis): s.axis for s in some if isinstance(s, For)}.values())
    what = draw(st.sampled_from(["index", "buffer", "drop", "move", "lanes", "twice", "operand"]))
    return LoopKernel(
        kernel.name,
        kernel.buffers,
        kernel.scratch,
        _changed(draw, kernel.body, chosen, what, axes, kernel),
    )


def _changed(draw, body, chosen, what, axes, kernel):
    result = []
    for statement in body:
        if statement is not chosen:
            if isinstance(statement, For):
                inner = _changed(draw, statement.body, chosen, what, axes, kernel)
                old = statement
                statement = For(old.axis, inner, old.folds, old.lanes, old.tile, old.together)
            result.append(statement)
        elif what == "twice":
            result += [statement, statement]
        elif what == "move":
            result.insert(draw(st.integers(0, len(result))), statement)
        elif what != "drop":
            result.append(_other(draw, statement, what, axes, kernel))
    return result


def _other(draw, statement, what, axes, kernel):
    if isinstance(statement, For):
        lanes = draw(st.sampled_from([1, 2, 4])) if what == "lanes" else statement.lanes
        axis = draw(st.sampled_from(axes)) if what == "index" else statement.axis
        tile = draw(st.sampled_from([0, 1, 2, 4])) if what == "lanes" else statement.tile
        return For(axis, statement.body, statement.folds, lanes, tile, statement.together)
    if not isinstance(statement, MEMORY):
        return statement
    buffer, index = statement.buffer, statement.index
    if what == "buffer":
        same = [x for x in (*kernel.buffers, *kernel.scratch) if x.dtype == buffer.dtype]
        buffer = draw(st.sampled_from(same))
    elif index.terms and draw(st.booleans()):
        terms = list(index.terms)
        number = draw(st.integers(0, len(terms) - 1))
        axis, stride = terms[number]
        terms[number] = draw(
            st.sampled_from([(axis, 0), (axis, 1), (axis, stride + 1), (axis, -stride)])
            | st.sampled_from([(axis, stride) for axis in axes])
        )
        index = Index(terms, index.begin, index.picks)
    else:
        index = Index(index.terms, index.begin + draw(st.sampled_from([-1, 1])), index.picks)
    if isinstance(statement, Load):
        return Load(statement.value, buffer, index)
    if isinstance(statement, Store):
        return Store(buffer, index, statement.operand)
    return UpdateOf(buffer, index, statement.operation, statement.operand)


def outputs_of(kernel, seed, cut):
    """Returns the outputs of a kernel of numbers that runs in blocks."""
    rng = np.random.default_rng(seed)
    arrays = []
    for x in kernel.buffers:
        shape = (len(cut) if x.role == "part" else 1, buffer_elements(x))
        numbers = rng.integers(0, 120, shape) if x.role == "in" else np.full(shape, 77)
        arrays.append(numbers.astype(x.dtype))
    for block in cut:
        interpret(kernel, arrays, *block)
    return [array for x, array in zip(kernel.buffers, arrays) if x.role == "out"]


@settings(max_examples=sized(15, 60))
@given(integer_graphs(), st.data(), st.integers(0, 99))
def test_what_passes_breaks_no_rule(drawn, data, seed):
    graph, inputs, results = drawn
    note(shown(results))
    whole = data.draw(st.booleans())
    kernel = scheduled("changed", graph, inputs, results, whole=whole)
    loop = loop_to_tile(kernel) if data.draw(st.booleans()) else None
    if loop is not None:
        kernel = in_tiles(kernel, loop, data.draw(st.sampled_from([2, 4])))
        check_kernel(kernel)
        event("in tiles")
    for _ in range(data.draw(st.integers(0, 2))):
        kernel = changed(data.draw, kernel) if kernel.body else kernel
    note(kernel_text(kernel))
    try:
        check_kernel(kernel)
    except KernelError as error:
        event("refused")
        note(str(error))
        return
    event("passed")
    rows = graph.lengths[0]
    for order, last in product(permutations(cuts(rows, whole)), (False, True)):
        trace = Trace(kernel, last)
        for _, low, high in order:
            trace.block(low, high)
        for out, counts in trace.written.items():
            assert (counts > 0 if out in trace.gathered and whole else counts == 1).all()
        for pair in trace.overwritten:
            source, target = pair
            if source.dtype == target.dtype and buffer_elements(source) == buffer_elements(target):
                try:
                    check_shared(kernel, [pair])
                except KernelError:
                    continue
                raise AssertionError(f"{pair} may not share memory")
    one, other = [outputs_of(kernel, seed, cuts(rows, how)) for how in (True, whole)]
    for right, found in zip(one, other):
        np.testing.assert_array_equal(found, right)
