"""Regions: equations that run together, block by block, over one grid of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.region_functions import GATHERS, LAST_AXIS_FUNCTIONS
from ..primitives.core.buffers import exposed, to_buffer
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call
from ..primitives.core.trace import under
from ..programs.program import Equation, Program, Variable, type_of
from .index_ranges import IndexRange
from .region_gathers import is_gather
from .region_proofs import REGION_REDUCTIONS, ROW_OPERATIONS, Place, prove_places

if TYPE_CHECKING:
    from ..primitives.core.shape_dtype import ShapeDtype

__all__ = [
    *("Kinds", "Region", "broadcast_place", "identity", "lengths", "main_operand"),
    *("operand_place", "region_kind", "row_place"),
]

# Elementwise primitives that are no ufuncs, and look at no element but the one that they compute.
# Others may look at all of them to choose their way, or return what they are given.
ELEMENT_BY_ELEMENT = frozenset(
    {
        "astype", "clip", "elu", "erf", "erfc", "exceeds", "gelu", "gelu_grad", "gelu_unit_grad",
        "log_ratio", "logistic", "logistic_density", "logistic_loss", "one_less_square", "relu",
        "relu_biased", "relu_grad", "sigmoid", "sigmoid_biased", "sigmoid_grad", "silu",
        "silu_grad", "soft_sign", "softplus", "softplus_biased", "softplus_grad", "tanh_biased",
        "tanh_grad", "where",
    }
)  # fmt: skip
# The product of a matrix with a vector reads its rows in one pass with what else they need, if they
# are no longer than this, many times as many, and more than the last cache holds: BLAS is quicker
# by itself on what it finds there.
LONGEST_ROW, TALL, UNCACHED = 1024, 8, 1 << 23
PRECISE_DTYPES = "fd"
# What machine code may reduce; a backend says which functions it has for complex numbers.
NATIVE_PRECISE_DTYPES = "fdFD"
# What kernels of GPUs reduce in float32.
NARROW_FLOATS = "eE"
NATIVE_DTYPE_KINDS = "fiubc"
REDUCTIONS_OF_WHOLE_NUMBERS = frozenset({"max", "min", "prod", "sum"})
WHOLE_CHARS = "bBhHiIlLqQ"


class Region(Call):
    """A call of equations that run together over a grid.

    Attributes:
        program, bodies: what it computes, and the same alone in a tuple, to be shown.
        grid: the lengths of the grid's axes, none of them 1.
        places: for every variable of the program which axes of the grid it has.
        ranges: the smallest and the largest number that index arrays can have.
    """

    __slots__ = ("bodies", "grid", "places", "program", "ranges")

    name = "fused"
    fused = True

    def __init__(
        self,
        program: Program,
        grid: tuple[int, ...],
        places: dict[Variable, Place],
        ranges: dict[Variable, IndexRange] | None = None,
    ) -> None:
        self.program: Program = program
        self.bodies = (program,)
        self.grid = grid
        self.places = places
        self.ranges = ranges or {}

    def bind(self, operands: Sequence[Any]) -> list[Any]:
        """Computes the outputs equation by equation."""
        return self.program.run(operands)

    def on_buffers(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the outputs as buffers of their own, equation by equation."""
        with under(None):
            return [np.array(to_buffer(x)) for x in self.program.run(list(map(exposed, buffers)))]

    def infer(self, *types: ShapeDtype) -> list[Any]:
        """Returns the outputs' types."""
        return [type_of(out) for out in self.program.outputs]

    def prove(self) -> None:
        """Checks that places are those that broadcasting gives: see `prove_places`."""
        prove_places(self.program, self.grid, self.places)


def main_operand(equation: Equation) -> Any:
    """Returns the operand that a reduction or a product goes over."""
    if equation.primitive.name == "matmul":
        return max(equation.operands, key=lambda x: len(type_of(x).shape))
    return equation.operands[0]


def lengths(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the grid of an array: its shape without axes of length 1."""
    return tuple([n for n in shape if n != 1])


def identity(shape: Sequence[int]) -> Place:
    """Returns the place of an array in its own grid."""
    count = 0
    place: list[int | None] = []
    for n in shape:
        place.append(None if n == 1 else count)
        count += n != 1
    return tuple(place)


def operand_place(shape: Sequence[int], out: Place) -> Place:
    """Returns the place of an operand that broadcasts to a result at a place."""
    aligned = out[len(out) - len(shape) :]
    return tuple([None if n == 1 else axis for n, axis in zip(shape, aligned, strict=True)])


def broadcast_place(
    shape: tuple[int, ...], grid: tuple[int, ...], known: dict[Variable, Place]
) -> Place | None:
    """Returns where a result lies to which operands broadcast."""
    place: list[int | None] = [None] * len(shape)
    for source in known.values():
        offset = len(shape) - len(source)
        for a, axis in enumerate(source):
            if axis is not None:
                if place[offset + a] not in (None, axis):
                    return None
                place[offset + a] = axis
    if lengths(shape) == grid:
        whole = identity(shape)
        fits = all(axis is None or axis == whole[a] for a, axis in enumerate(place))
        return whole if fits else None
    # Axes that only operands from outside have could be any of the grid's.
    if any(n != 1 and axis is None for n, axis in zip(shape, place)):
        return None
    # A column beside the row of the same values makes a square.
    axes = [axis for axis in place if axis is not None]
    return tuple(place) if axes == sorted(set(axes)) else None


def row_place(
    equation: Equation, source: Place, grid: tuple[int, ...], known: dict[Variable, Place]
) -> Place | None:
    """Returns the place of the result of an equation that needs whole rows."""
    name, first = equation.primitive.name, equation.operands[0]
    if source != identity(type_of(first).shape) or lengths(type_of(first).shape) != grid:
        return None
    if name in ROW_OPERATIONS:
        if 0 in {source[a] for a in equation.params["axis"]}:
            return None
        return source if all(place == source for place in known.values()) else None
    if source[-1] in (None, 0):
        return None
    rows = source[:-1]
    # An operand with fewer axes than the first has one number for each of its rows, or is the
    # weight or the bias of all of them.
    fewer = source[-1:] if name == "affine_normalize" else rows
    for x, place in known.items():
        if x is not first and place != (source if len(place) == len(source) else fewer):
            return None
    return rows if name == "cross_entropy" else source


class Kinds(dict[int, str]):
    """The parts that equations can take, by their numbers; each is found when it is asked for.

    Attributes:
        are_of_kernels: whether kernels compute regions.
    """

    def __init__(
        self, equations: Sequence[Equation], takes: Callable[[Equation], bool] | None = None
    ) -> None:
        super().__init__()
        self._equations = equations
        self._takes = takes
        self.are_of_kernels = takes is not None

    def __missing__(self, i: int) -> str:
        kind = region_kind(self._equations[i], self._takes is not None)
        if kind and self._takes is not None and not self._takes(self._equations[i]):
            kind = ""
        self[i] = kind
        return kind


def region_kind(equation: Equation, every: bool = False) -> str:
    """Says how an equation can take part: by ``element``, as a ``reduction``, along ``rows``, as
    the ``product`` of a tall matrix and a vector, as a ``move`` that only adds or drops axes, as a
    ``gather``; empty where it cannot. ``every`` says that each elementwise primitive can, whatever
    computes it, and gathers and complex numbers can: the backend is asked too.
    """
    primitive = equation.primitive
    if not isinstance(primitive, Primitive):
        return ""
    (out,) = equation.outputs
    types = [type_of(x) for x in equation.operands]
    on_gpu = out.device != "cpu"
    if (on_gpu and not every) or not out.type.size:
        return ""
    kinds = NATIVE_DTYPE_KINDS + "V" * every
    if any(t.dtype.kind not in kinds for t in (*types, out.type)):
        return ""
    name = primitive.name
    if primitive.family == "elementwise":
        compute = primitive.compute
        known = (
            every
            or name in ELEMENT_BY_ELEMENT
            or (type(compute) is str and isinstance(getattr(np, compute, None), np.ufunc))
        )
        return "element" if known and out.type.shape else ""
    if name in ("broadcast_to", "reshape"):
        (x,) = types
        added = name == "broadcast_to" or lengths(x.shape) == lengths(out.type.shape)
        return "move" if added and x.shape and type(equation.operands[0]) is Variable else ""
    if name in GATHERS:
        return "gather" if every and out.type.shape and is_gather(equation) else ""
    precise = NATIVE_PRECISE_DTYPES if every else PRECISE_DTYPES
    if on_gpu:
        precise += NARROW_FLOATS
    if every and name in REDUCTIONS_OF_WHOLE_NUMBERS:
        precise += WHOLE_CHARS
    elif name == "prod":
        return ""
    if any(t.dtype.char not in precise for t in types if t.dtype.kind != "i"):
        return ""
    if types[0].dtype.char not in precise or not types[0].shape:
        return ""
    if name == "matmul":
        return "product" if _is_tall(types, every) and types[0].dtype == types[1].dtype else ""
    if name in REGION_REDUCTIONS or (name in ROW_OPERATIONS and have_equal_lengths(types)):
        if all(types[0].shape[a] == 1 for a in equation.params["axis"]):
            return ""
        if name in REGION_REDUCTIONS:
            dtype = equation.params.get("dtype")
            return "reduction" if dtype is None or (every and dtype == types[0].dtype) else ""
        return "rows"
    if name in LAST_AXIS_FUNCTIONS and len(types[0].shape) > 1 and types[0].shape[-1] > 1:
        fits = name != "affine_normalize" or all(len(t.shape) == 1 for t in types[1:])
        return "rows" if fits and (name != "normalize_grad" or have_equal_lengths(types)) else ""
    return ""


def _is_tall(types: Sequence[Any], cached: bool) -> bool:
    """Says whether a product is that of a tall matrix and a vector, from either side.

    ``cached`` says whether it may be one that BLAS finds in the cache.
    """
    shapes = [t.shape for t in types]
    if sorted(map(len, shapes)) != [1, 2]:
        return False
    rows, length = max(shapes, key=len)
    fits = 1 < length <= LONGEST_ROW and rows >= TALL * length
    return bool(fits and (cached or rows * length >= UNCACHED))


def have_equal_lengths(types: Sequence[Any]) -> bool:
    return all(t.shape == types[0].shape for t in types)
