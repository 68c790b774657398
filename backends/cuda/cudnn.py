"""cuDNN, where ``nvidia-cudnn-frontend`` and the library are installed: convolution and attention.

A graph of one operation is built once for every signature: shapes, strides, dtypes and the user's
choices. Refusals of cuDNN are remembered too; the kernels of this backend do that work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import cupy
from cupy import ndarray

from ..annotations import Shape
from ..config import config
from .annotations import Heads
from .launch import Kernel, get_device
from .strides import strides_of, strides_without_gaps

if TYPE_CHECKING:
    from ..annotations import GeometryLike

__all__ = [
    "attention", "attention_grad", "available", "convolved", "describe", "places_of",
    "takes_attention",
]  # fmt: skip

alloc = cupy.cuda.alloc
get_current_stream = cupy.cuda.get_current_stream

# The oldest version of the library whose graphs are used, and the oldest GPUs for attention.
OLDEST_CUDNN = 90000
OLDEST_ATTENTION_GPU = 80
# The dtypes by cuDNN's names; sums are formed in float32, which is too short for double precision.
CUDNN_DTYPES = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT"}
# Heads that all versions of the library take, forward and backward.
WIDEST_HEAD, HEAD_MULTIPLE = 128, 8
# All graphs are forgotten when there are so many.
MOST_CUDNN_GRAPHS = 1024
UNSEEN: Any = object()
# The names of operands in cuDNN's operations.
CUDNN_OPERANDS = {
    "conv_fprop": ("image", "weight"),
    "conv_dgrad": ("loss", "filter"),
    "conv_wgrad": ("image", "loss"),
}


class Here(threading.local):
    """A thread's handles by device, each with the stream that it was last given."""

    def __init__(self) -> None:
        self.handles: dict[int, tuple[Any, int]] = {}


here = Here()
graphs: dict[tuple[Any, ...], CudnnGraph | None] = {}


@cache
def loaded_cudnn() -> tuple[Any, str]:
    """Returns the front end's module, None without it, and which versions there are, or why not."""
    try:
        frontend = import_module("cudnn")
        version = int(frontend.backend_version())
    # The front end raises errors of several kinds where it finds no library.
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "cudnn"
        reason = "nvidia-cudnn-frontend is missing" if missing else str(error).splitlines()[0]
        return None, f"not used: {reason}; pip install 'functensor[cudnn]'"
    if version < OLDEST_CUDNN:
        return None, f"not used: version {version} of the library is too old"
    number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    return frontend, f"cuDNN {number}, front end {frontend.__version__}"


def available() -> bool:
    """Says whether cuDNN is there."""
    return loaded_cudnn()[0] is not None


def describe() -> str:
    """Returns the versions of cuDNN and its front end, or why they are not used.

    >>> describe()  # doctest: +SKIP
    'cuDNN 9.13.0, front end 1.18.0'
    """
    return loaded_cudnn()[1]


def handle() -> Any:
    """Returns this thread's handle for the current device, on CuPy's current stream."""
    device = 0 if Kernel.alone else get_device()
    stream = get_current_stream().ptr
    found = here.handles.get(device)
    if found is not None and found[1] == stream:
        return found[0]
    frontend = loaded_cudnn()[0]
    own = frontend.create_handle() if found is None else found[0]
    frontend.set_stream(own, stream)
    here.handles[device] = own, stream
    return own


# -- graphs


class CudnnGraph:
    """A graph of one operation that is ready to run."""

    __slots__ = ("graph", "launch", "workspace")

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.workspace: int = graph.get_workspace_size()
        # The function that the front end's own way ends in, after it has looked at the kind of
        # each pointer; the front end's way where there is none.
        self.launch: Any = compiled_launch(graph) or getattr(graph, "_execute", graph.execute)

    def __call__(self, *buffers: ndarray) -> None:
        """Runs on buffers in the order of the operation's operands and results."""
        self.run({i: buffer.data.ptr for i, buffer in enumerate(buffers, 1)})

    def run(self, pointers: dict[int, int]) -> None:
        """Runs on the memory at pointers, by the number of each operand and result."""
        # The memory is given back on return: its next user comes later on the same stream.
        memory = alloc(self.workspace) if self.workspace else None
        workspace = 0 if memory is None else memory.ptr
        try:
            self.launch(pointers, workspace, handle())
        except TypeError:
            # Another version's function takes other arguments; nothing has been launched.
            if self.launch == self.graph.execute:
                raise
            self.launch = self.graph.execute
            self.launch(pointers, workspace, handle())


def compiled_launch(graph: Any) -> Callable[[dict[int, int], int, Any], None] | None:
    """Returns the compiled function that launches a graph; None where a front end has none.

    Newer front ends describe every operand anew in each call, which takes them 100 microseconds
    and more.
    """
    try:
        if graph.selected_engine is not None or not graph._plans:
            return None
        plan = graph._materialize_backend_plan(graph._plan_index).cpp_index
        launch_plan = graph._lowered_graph._execute_plan_at_index
    except AttributeError:
        return None

    def launch(pointers: dict[int, int], workspace: int, handle: Any) -> None:
        launch_plan(pointers, workspace, plan, handle.backend_handle, None, None, None)

    return launch


def graph_of(
    signature: tuple[Any, ...], dtype: str, build: Callable[[ModuleType, Any], None]
) -> CudnnGraph | None:
    """Returns the graph for a signature, of all that it depends on beside dtype and device.

    ``build(frontend, graph)`` adds the operation, whose tensors have the numbers from 1 on in the
    order of the buffers. None stands for an operation that cuDNN does not have.
    """
    key = *signature, dtype, config.numerics, get_device()
    if key not in graphs:
        if len(graphs) >= MOST_CUDNN_GRAPHS:
            graphs.clear()
        graphs[key] = built_graph(dtype, build)
    return graphs[key]


def built_graph(dtype: str, build: Callable[[ModuleType, Any], None]) -> CudnnGraph | None:
    """Returns the graph of an operation; None if cuDNN has none."""
    frontend = loaded_cudnn()[0]
    try:
        graph = frontend.pygraph(
            intermediate_data_type=frontend.data_type.FLOAT,
            compute_data_type=frontend.data_type.FLOAT,
            handle=handle(),
        )
        build(frontend, graph)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([frontend.heur_mode.A, frontend.heur_mode.FALLBACK])
        graph.deselect_numeric_notes(refused_notes(frontend, dtype))
        graph.check_support()
        graph.build_plans()
        return CudnnGraph(graph)
    # Errors are of other kinds in other versions; in all cases the kernels of this backend do it.
    except Exception:
        return None


def refused_notes(frontend: ModuleType, dtype: str) -> list[Any]:
    """Returns the properties that a graph's execution may not have."""
    notes = frontend.numerical_note
    out = [notes.REDUCED_PRECISION_REDUCTION]
    if dtype == "float32" and config.matmul_precision == "highest":
        out += [notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS]
    if config.deterministic:
        out.append(notes.NONDETERMINISTIC)
    return out


def tensor(
    graph: Any, frontend: ModuleType, number: int, shape: Shape, steps: Shape, name: str
) -> Any:
    """Returns a tensor of a graph."""
    kind = getattr(frontend.data_type, CUDNN_DTYPES[name])
    return graph.tensor(dim=[*shape], stride=[*steps], data_type=kind, uid=number)


def result(
    tensor: Any, frontend: ModuleType, number: int, shape: Shape, steps: Shape, name: str
) -> None:
    """Makes a tensor a result of the graph."""
    kind = getattr(frontend.data_type, CUDNN_DTYPES[name])
    tensor.set_output(True).set_uid(number).set_data_type(kind)
    tensor.set_dim([*shape]).set_stride([*steps])


# -- convolution


class Convolution(NamedTuple):
    """One of the three operations for operands of given shapes and strides.

    Attributes:
        graph: its graph.
        copies: for each operand whether it has to be copied.
        last: whether channels are the last axis in memory.
        made: the shape in which the result is made.
    """

    graph: CudnnGraph
    copies: tuple[bool, bool]
    last: bool
    made: Shape


convolutions: dict[tuple[Any, ...], Convolution | None] = {}


def convolved(
    name: str, x: ndarray, y: ndarray, wanted: Shape, geometry: GeometryLike
) -> ndarray | None:
    """Returns the result of an operation of ``CUDNN_OPERANDS``; None if cuDNN has no graph for it.

    Operands have one dtype. ``wanted`` is the result's spatial shape, if they do not tell it.
    """
    if not available():
        return None
    device = 0 if Kernel.alone else x.data.device_id
    key = (
        name, x.dtype.char, x.shape, x.strides, y.shape, y.strides, wanted, geometry,
        config.numerics, device,
    )  # fmt: skip
    found = convolutions.get(key, UNSEEN)
    if found is UNSEEN:
        if len(convolutions) >= MOST_CUDNN_GRAPHS:
            convolutions.clear()
        found = convolutions[key] = convolution_of(name, x, y, wanted, geometry)
    if found is None:
        return None
    graph, copies, last, made = found
    out = ndarray(made, x.dtype)
    if copies[0]:
        x = without_gaps(x, last)
    if copies[1]:
        y = without_gaps(y, last)
    graph.run({1: x.data.ptr, 2: y.data.ptr, 3: out.data.ptr})
    return cupy.moveaxis(out, -1, 1) if last else out


def convolution_of(
    name: str, x: ndarray, y: ndarray, wanted: Shape, geometry: GeometryLike
) -> Convolution | None:
    """Returns an operation; None if cuDNN has no graph for it."""
    shape = shape_of_result(name, x, y, wanted, geometry)
    dtype = x.dtype.name
    if dtype not in CUDNN_DTYPES or x.ndim > 5 or not (x.size and y.size and prod(shape)):
        return None
    last = x.shape[1] > 1 and x.strides[1] == x.itemsize and not x.flags.c_contiguous
    shapes: tuple[Shape, ...] = x.shape, y.shape, shape
    spatial = [geometry.stride, *zip(*geometry.padding), geometry.dilation]
    if x.ndim == 3:
        # There are no operations on one spatial axis.
        shapes = tuple((*own[:2], 1, *own[2:]) for own in shapes)
        spatial = [(one, *own) for one, own in zip((1, 0, 0, 1), spatial)]

    def build(frontend: ModuleType, graph: Any) -> None:
        tensors = [
            tensor(graph, frontend, i, own, strides_without_gaps(own, last), dtype)
            for i, own in enumerate(shapes[:2], 1)
        ]
        places = ("stride", "pre_padding", "post_padding", "dilation")
        made = getattr(graph, name)(
            **dict(zip(CUDNN_OPERANDS[name], tensors)),
            **{place: [*own] for place, own in zip(places, spatial)},
            compute_data_type=frontend.data_type.FLOAT,
        )
        result(made, frontend, 3, shapes[2], strides_without_gaps(shapes[2], last), dtype)

    graph = graph_of((name, *shapes, last, geometry), dtype, build)
    if graph is None:
        return None
    copies = not is_dense(x, last), not is_dense(y, last)
    made = (shape[0], *shape[2:], shape[1]) if last else shape
    return Convolution(graph, copies, last, made)


def shape_of_result(
    name: str, x: ndarray, y: ndarray, wanted: Shape, geometry: GeometryLike
) -> Shape:
    """Returns the shape of an operation's result."""
    if name == "conv_dgrad":
        return x.shape[0], y.shape[1] * geometry.groups, *wanted
    if name == "conv_wgrad":
        return y.shape[1], x.shape[1] // geometry.groups, *wanted
    return x.shape[0], y.shape[0], *places_of(x.shape[2:], y.shape[2:], geometry)


def places_of(spatial: Shape, kernel: Shape, geometry: GeometryLike) -> Shape:
    """Returns at how many places along each axis a kernel fits."""
    sizes = zip(spatial, kernel, geometry.stride, geometry.padding, geometry.dilation)
    return tuple((n + lo + hi - d * (k - 1) - 1) // s + 1 for n, k, s, (lo, hi), d in sizes)


def without_gaps(x: ndarray, last: bool) -> ndarray:
    """Returns an array without gaps, its channels the last axis in memory or the second."""
    return cupy.ascontiguousarray(cupy.moveaxis(x, 1, -1) if last else x)


def is_dense(x: ndarray, last: bool) -> bool:
    """Says whether an array has no gaps in the order that is asked for."""
    return bool((cupy.moveaxis(x, 1, -1) if last else x).flags.c_contiguous)


# -- attention


def takes_attention(heads: Heads) -> bool:
    """Says whether cuDNN may take operands."""
    q, k, v = heads[:3]
    if heads.mask is not None or q.itemsize != 2 or not available():
        return False
    widths = q.shape[3], v.shape[3]
    if max(widths) > WIDEST_HEAD or any(width % HEAD_MULTIPLE for width in widths):
        return False
    return all(map(is_aligned, (q, k, v))) and has_attention(q.data.device_id)


@cache
def has_attention(device: int) -> bool:
    """Says whether there is fused attention for a GPU."""
    return int(cupy.cuda.Device(device).compute_capability) >= OLDEST_ATTENTION_GPU


def is_aligned(x: ndarray) -> bool:
    """Says whether every row begins at a multiple of 16 bytes."""
    return not any(number % 16 for number in (x.data.ptr, *x.strides[:3]))


def attention(heads: Heads, out: ndarray) -> ndarray | None:
    """Writes the output and returns the logarithms of the rows' sums; None without a graph."""
    q, k, v, _, causal, scale = heads
    dtype = q.dtype.name
    operands = [(x.shape, strides_of(x)) for x in (q, k, v, out)]
    sums_shape = *q.shape[:3], 1

    def build(frontend: ModuleType, graph: Any) -> None:
        tensors = [tensor(graph, frontend, i, *own, dtype) for i, own in enumerate(operands[:3], 1)]
        made, sums = graph.sdpa(
            *tensors, is_inference=False, attn_scale=scale, use_causal_mask=causal
        )
        result(made, frontend, 4, *operands[3], dtype)
        result(sums, frontend, 5, sums_shape, strides_without_gaps(sums_shape, False), "float32")

    graph = graph_of(("sdpa", causal, scale, *operands), dtype, build)
    if graph is None:
        return None
    sums = ndarray(sums_shape, "f")
    graph(q, k, v, out, sums)
    return sums


def attention_grad(
    g: ndarray, out: ndarray, heads: Heads, sums: ndarray, parts: Sequence[ndarray]
) -> bool:
    """Writes the gradients of q, k and v; returns False, and does nothing, without a graph."""
    q, k, v, _, causal, scale = heads
    dtype = q.dtype.name
    if g.strides != out.strides or not is_aligned(g):
        # Some versions of cuDNN ask for the layout of the output.
        moved = cupy.empty_like(out, order="K")
        moved[...] = g
        g = moved
    operands = [(x.shape, strides_of(x)) for x in (q, k, v, out, g)]
    results = [(x.shape, strides_of(x)) for x in parts]
    deterministic = config.deterministic

    def build(frontend: ModuleType, graph: Any) -> None:
        tensors = [tensor(graph, frontend, i, *own, dtype) for i, own in enumerate(operands, 1)]
        given = tensor(
            graph, frontend, 6, sums.shape, strides_without_gaps(sums.shape, False), "float32"
        )
        made = graph.sdpa_backward(
            *tensors,
            given,
            attn_scale=scale,
            use_causal_mask=causal,
            use_deterministic_algorithm=deterministic,
        )
        for i, (own, place) in enumerate(zip(made, results), 7):
            result(own, frontend, i, *place, dtype)

    graph = graph_of(("sdpa_backward", causal, scale, *operands, *results), dtype, build)
    if graph is None:
        return False
    graph(q, k, v, out, g, sums, *parts)
    return True
