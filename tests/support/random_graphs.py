"""Random graphs of kernels, and what NumPy computes for them directly."""

from math import erf, erfc

import numpy as np
from hypothesis import strategies as st

from functensor.backends.kernels.arithmetic import computed
from functensor.backends.kernels.graph import ExprGraph, Gathering, cast, input_place, select
from functensor.backends.kernels.operations import KERNEL_FUNCTIONS
from functensor.backends.kernels.schedule import KernelResult

__all__ = ["evaluated", "float_graphs", "input_shape", "integer_graphs", "is_exact", "shown"]

# Lengths that cross the lanes of every dtype, and 64 steps of them.
LONG = (9, 17, 33, 130, 600, 1100)
INTEGER_OPERATIONS = (
    *("add", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "multiply"),
    "subtract",
)
FLOAT_OPERATIONS = ("add", "maximum", "minimum", "multiply", "subtract")
KERNEL_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
# Functions that do not grow: the first ones of negative numbers, the last one of positive ones.
FUNCTIONS_OF_ONE = "exp", "expm1", "arcsinh", "arctan", "erf", "sin", "tanh", "log1p"
FOLDS = ("add", "maximum", "minimum", "multiply")


@st.composite
def grids(draw):
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    if draw(st.booleans()):
        lengths[draw(st.integers(0, len(lengths) - 1))] = draw(st.sampled_from(LONG))
    return lengths


class Drawn:
    """A graph that is being drawn.

    Attributes:
        inputs: the inputs; of those whose elements have two parts, the first parts.
        nodes: nodes of the dtype, known in each block.
        late: folds over all blocks, alone or in pairs.
    """

    def __init__(self, draw, dtype):
        self.draw = draw
        self.graph = ExprGraph(draw(grids()))
        self.dtype = np.dtype(dtype)
        self.everywhere = frozenset(range(len(self.graph.lengths)))
        axes = st.sets(st.sampled_from(sorted(self.everywhere)))
        wanted = draw(st.lists(axes, min_size=1, max_size=4))
        self.inputs, self.nodes, self.late = [], [], []
        for number, x in enumerate(wanted):
            parts = (0, 1) if draw(st.booleans()) else (None,)
            made = [self.graph.input(number, self.dtype, x, part) for part in parts]
            self.inputs.append(made[0])
            self.nodes += made

    def node(self):
        return self.draw(st.sampled_from(self.nodes))

    def gathered(self):
        """Draws an element of a source at places that nodes name, in bounds or not."""
        lengths = self.draw(st.lists(st.integers(1, 9), min_size=1, max_size=2))
        axes = self.draw(st.sets(st.sampled_from(sorted(self.everywhere)), max_size=2))
        strides, extent = [], 1
        for length in reversed(lengths):
            strides.insert(0, extent * self.draw(st.integers(1, 2)))
            extent += (length - 1) * strides[0]
        terms = []
        for axis in sorted(axes):
            terms.append((axis, self.draw(st.integers(0, 3))))
            extent += (self.graph.lengths[axis] - 1) * terms[-1][1]
        begin = self.draw(st.integers(0, 2))
        number = len(self.inputs)
        self.inputs.append(self.graph.source(number, self.dtype, begin + extent))
        places = []
        for length in lengths:
            x = self.node()
            if x.dtype.kind == "f":
                x = self.graph.place(self.draw(st.sampled_from(sorted(self.everywhere))))
            places.append(self.graph.within(x, length))
        where = Gathering(number, tuple(terms), tuple(strides), begin)
        self.nodes.append(self.graph.gather(self.dtype, places, where))

    def condition(self, nodes):
        x, y = self.draw(st.sampled_from(nodes)), self.draw(st.sampled_from(nodes))
        return self.graph.op(self.draw(st.sampled_from(KERNEL_COMPARISONS)), x, y)

    def compared(self):
        """The inputs that lie in the grid."""
        return [x for x in self.inputs if x.operation == "input"]

    def fold(self, operations):
        xs = [self.node() for _ in range(self.draw(st.integers(1, 2)))]
        gone = self.draw(st.sets(st.sampled_from(sorted(self.everywhere)), min_size=1))
        axes = frozenset(gone).union(*[x.axes for x in xs])
        xs = [x if x.axes == axes else self.graph.spread(x, axes) for x in xs]
        operation = self.draw(st.sampled_from(operations))
        folds = [self.graph.fold(operation, x, gone) for x in xs]
        if 0 in gone:
            self.late.append(tuple(folds))
        else:
            self.nodes += folds

    def results(self):
        results = []
        for node in self.draw(st.lists(st.sampled_from(self.nodes), min_size=1, max_size=3)):
            imag = self.node() if self.draw(st.booleans()) else None
            more = self.draw(st.sets(st.sampled_from(sorted(self.everywhere))))
            axes = node.axes | more | {0} | (imag.axes if imag else set())
            results.append(KernelResult(node, axes, imag=imag))
        for node, *others in dict.fromkeys(self.late):
            mean = node.dtype.kind == "f" and not others and self.draw(st.booleans())
            results.append(KernelResult(node, node.axes, 7 if mean else 1, *others))
        return results


@st.composite
def integer_graphs(draw):
    """Graphs of whole numbers, which wrap around: folds are exact in every order.

    Returns the graph, its inputs and its results.
    """
    made = Drawn(draw, draw(st.sampled_from(["int16", "int32", "int64", "uint8"])))
    kinds = ["operation"] * 4 + ["fold"] * 3 + ["gather"] * 2
    kinds += ["divided", "remainder", "select", "place", "constant"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=10)):
        if kind == "fold":
            made.fold(FOLDS)
        elif kind == "gather":
            made.gathered()
        elif kind == "select":
            made.nodes.append(select(made.condition(made.nodes), made.node(), made.node()))
        elif kind == "remainder":
            divisor = draw(st.integers(1, 120))
            made.nodes.append(made.graph.op("remainder", made.node(), divisor))
        elif kind == "divided":
            operation = draw(st.sampled_from(["floor_divide", "remainder"]))
            made.nodes.append(made.graph.op(operation, made.node(), made.node()))
        elif kind == "place":
            place = made.graph.place(draw(st.sampled_from(sorted(made.everywhere))))
            made.nodes.append(cast(place, made.dtype))
        elif kind == "constant":
            made.nodes.append(made.graph.constant(draw(st.integers(0, 9)), made.dtype))
        else:
            operation = draw(st.sampled_from(INTEGER_OPERATIONS))
            made.nodes.append(made.graph.op(operation, made.node(), made.node()))
    return made.graph, made.inputs, made.results()


@st.composite
def float_graphs(draw):
    """Graphs of floats whose numbers stay small, and do not jump where they are rounded.

    Returns the graph, its inputs and its results.
    """
    made = Drawn(draw, draw(st.sampled_from(["float32", "float64"])))
    kinds = ["operation"] * 4 + ["fold"] * 3 + ["function"] * 3
    kinds += ["select", "fma", "divide", "gather"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=10)):
        x = made.node()
        if kind == "fold":
            made.fold(("add", "maximum", "minimum"))
        elif kind == "gather":
            made.gathered()
        elif kind == "select":
            made.nodes.append(select(made.condition(made.compared()), x, made.node()))
        elif kind == "fma":
            made.nodes.append(made.graph.fma(x, made.node(), made.node()))
        elif kind == "divide":
            made.nodes.append(made.node() / made.graph.op("sqrt", x * x + 1))
        elif kind == "function":
            name = draw(st.sampled_from(FUNCTIONS_OF_ONE))
            below = {"exp": -abs(x), "expm1": -abs(x), "log1p": abs(x)}.get(name, x)
            made.nodes.append(made.graph.op(name, below))
        else:
            operation = draw(st.sampled_from(FLOAT_OPERATIONS))
            made.nodes.append(made.graph.op(operation, x, made.node()))
    return made.graph, made.inputs, made.results()


def input_shape(graph, x):
    """Returns the shape of an input in memory; two parts of its elements are the last axis."""
    if x.operation == "source":
        return [x.detail.elements]
    parts = [] if input_place(x)[1] is None else [2]
    return [graph.lengths[axis] for axis in sorted(x.axes)] + parts


def shown(results):
    """Returns the nodes of results as text, for failures."""
    names = {}
    lines = []
    for node in needed(results):
        operands = [names[x] for x in node.operands]
        names[node] = f"n{len(names)}"
        detail = "" if node.detail is None else f" {node.detail}"
        what = f"{node.operation}{detail}({', '.join(operands)})"
        lines.append(f"{names[node]}: {node.dtype} over {sorted(node.axes)} = {what}")
    for result in results:
        stored = " and ".join(names[x] for x in result.nodes)
        lines.append(f"{stored} is stored over {sorted(result.axes)}")
    return "\n".join(lines)


def needed(results):
    """Returns all nodes that results need, operands first."""
    seen = set()
    stack = [x for result in results for x in result.nodes]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.operands
    return sorted(seen, key=lambda node: node.number)


def is_exact(results):
    """Says whether all numbers are the same in each order of computation."""
    return not any(
        node.operation in KERNEL_FUNCTIONS
        or (node.operation == "fold" and node.detail == "add" and node.dtype.kind == "f")
        for node in needed(results)
    )


def evaluated(graph, results, arrays):
    """Returns for every needed node its array over the grid: of length 1 along axes it lacks."""
    known = {}
    for node in needed(results):
        known[node] = _evaluated(graph, node, [known[x] for x in node.operands], arrays)
    return known


def _evaluated(graph, node, operands, arrays):
    shape = [n if axis in node.axes else 1 for axis, n in enumerate(graph.lengths)]
    if node.operation == "constant":
        return np.full(shape, node.detail)
    if node.operation == "input":
        number, part = input_place(node)
        whole = arrays[number]
        return (whole if part is None else whole[..., part]).reshape(shape)
    if node.operation == "place":
        return np.arange(graph.lengths[node.detail], dtype=np.int32).reshape(shape)
    if node.operation == "within":
        places = np.asarray(operands[0]).astype(np.int64)
        return np.clip(np.where(places < 0, places + node.detail, places), 0, node.detail - 1)
    if node.operation == "gather":
        number, terms, strides, place = node.detail
        for axis, stride in terms:
            along = [-1 if a == axis else 1 for a in range(len(graph.lengths))]
            place = place + stride * np.arange(graph.lengths[axis]).reshape(along)
        for operand, stride in zip(operands, strides):
            place = place + stride * operand
        return np.broadcast_to(arrays[number].reshape(-1)[place], shape)
    if node.operation == "spread":
        return np.broadcast_to(operands[0], shape)
    if node.operation == "fold":
        gone = tuple(node.operands[0].axes - node.axes)
        fold = getattr(np, node.detail).reduce
        how = {} if node.detail in ("maximum", "minimum") else {"dtype": node.dtype}
        return fold(operands[0], axis=gone, keepdims=True, **how)
    if node.operation in ("erf", "erfc"):
        return np.vectorize({"erf": erf, "erfc": erfc}[node.operation], "d")(*operands).astype(
            node.dtype
        )
    if node.operation in KERNEL_FUNCTIONS:
        return getattr(np, node.operation)(*operands)
    return computed(node.operation, operands, node.dtype, node.detail)
