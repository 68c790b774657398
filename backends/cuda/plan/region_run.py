"""Runs of regions on a GPU: their kernels for the memory that they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import cupy
import numpy as np
from cupy import ndarray

from ...cpu.plan.codegen.operands import constant, is_variable
from ...cpu.plan.native.complex_nodes import ComplexExpr
from ...cpu.plan.native.layouts import c_strides
from ...cpu.plan.native.not_native import NotNative
from ...cpu.plan.native.region_graph import RegionGraph
from ..launch import COMPILER_OPTIONS, WIDEST_LOAD_BYTES, included, is_contiguous
from .region_source import RegionSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...annotations import DType, Shape
    from ...cpu.plan.annotations import EquationLike, Operand, RegionLike

__all__ = ["GpuRegion", "GroupRun", "load_all", "region_source", "whole_text"]

# Products and sums are rounded each, as in eager mode.
REGION_OPTIONS = (*COMPILER_OPTIONS, "-fmad=false")
# The kernels of a region for memory in other orders; beyond that, arrays are copied.
MOST_FORMS = 8
INCLUDES = '#include "region.cuh"\n#include "leaves.cuh"\n'
OF_PRODUCTS = '#include "small_products.cuh"\n'


class Launch(NamedTuple):
    """A launch of a kernel: the function, and the places of its arguments."""

    function: Callable[..., Any]
    blocks: tuple[int, ...]
    threads: tuple[int]
    arguments: tuple[int, ...]


class KernelForm(NamedTuple):
    """The kernels of a region for memory in some order.

    Attributes:
        launches: the launches, in order.
        scratch: the shapes and dtypes of memory between them.
        width: how many elements are loaded at once, at most.
    """

    launches: list[Launch]
    scratch: list[tuple[Any, DType]]
    width: int


def region_source(
    name: str,
    region: RegionLike,
    given: Sequence[Operand],
    on_host: Sequence[bool],
    lying: Sequence[Sequence[int]] | None = None,
    wide: bool = True,
    lanes: int = 32,
) -> RegionSource:
    """Returns the kernels of a region.

    Args:
        name: what their names begin with.
        region: the region.
        given: its operands.
        on_host: for each whether it is a number of the host's.
        lying: the strides of each operand's axes, in elements; None if all are in order.
        wide: whether memory begins where wide loads may.
        lanes: as in `RegionSource`.

    Raises:
        NotNative: kernels do not compute it.
    """
    graph = RegionGraph(region, given, None, lying, on_gpu=True)
    inputs = [x for x in graph.inputs if not isinstance(x, ComplexExpr)]
    if len(inputs) < len(graph.inputs) or any(r.imag is not None for r in graph.results):
        raise NotNative("complex numbers")
    dtypes = [out.type.dtype for out in region.program.outputs]
    arrays = [x.type.dtype for x in region.program.inputs if x.type.shape]
    sizes = [dtype.itemsize for dtype in (*dtypes, *arrays)]
    width = WIDEST_LOAD_BYTES // max(sizes) if wide else 1
    numbers = [i for i, flag in enumerate(on_host) if flag]
    return RegionSource(
        name,
        graph.graph.lengths,
        inputs,
        graph.results,
        dtypes,
        graph.strides,
        numbers,
        width,
        lanes,
    )


class GpuRegion:
    """Computes the outputs of a region: ``run(*operands)``.

    Args:
        name: the name of its kernels.
        region: the region.
        given: its operands in the program.
        apart: whether numbers that the host computes are given as arrays on the GPU.
        lying: for each operand its strides, in elements; None where elements are in order.

    Raises:
        NotNative: kernels do not compute it.
    """

    def __init__(
        self,
        name: str,
        region: RegionLike,
        given: Sequence[Operand],
        apart: bool = False,
        lying: Sequence[Shape | None] | None = None,
    ) -> None:
        self.__name__ = self.name = name
        self._region = region
        self._given = given
        self._on_host = given_by_value(given, apart)
        self._held = dtypes_of_numbers(region)
        self._outputs = [(x.type.shape, x.type.dtype) for x in region.program.outputs]
        self._lying = (None,) * len(given) if lying is None else (*lying,)
        self.source = self._source(self._lying)
        self._forms: dict[Any, KernelForm] = {}

    def writes_apart(self, part: Any, x: Any) -> bool:
        """Says whether results may lie where an operand of a part does, in the same order.

        Each thread then reads elements of operands before it writes the same ones of results.
        """
        return self.source.writes_apart

    @property
    def text(self) -> str:
        """The text of its kernels."""
        return "\n".join(kernel.text for kernel in self.source.kernels)

    def take(self, module: Any) -> None:
        """Takes its kernels from a compiled module."""
        self._forms[self._lying, True] = self._form(self.source, module)

    def _source(self, orders: Sequence[Shape | None], aligned: bool = True) -> RegionSource:
        """Returns the kernels for operands that lie in some orders."""
        lying = None
        if any(orders):
            shapes = [x.type.shape for x in self._region.program.inputs]
            lying = [order or c_strides(n) for order, n in zip(orders, shapes, strict=True)]
        return region_source(self.name, self._region, self._given, self._on_host, lying, aligned)

    def _form(self, source: RegionSource, module: Any) -> KernelForm:
        inputs, outputs = len(self._given), len(self._outputs)
        begin = {"in": 0, "out": inputs, "scratch": inputs + outputs}
        launches = [
            Launch(
                module.get_function(kernel.name),
                kernel.blocks,
                (kernel.threads,),
                tuple([begin[place.kind] + place.number for place in kernel.arguments]),
            )
            for kernel in source.kernels
        ]
        return KernelForm(launches, [(x.shape, x.dtype) for x in source.scratch], source.width)

    def __call__(self, *operands: Any, into: Sequence[ndarray | None] = ()) -> list[Any]:
        """Queues the kernels.

        Args:
            operands: the operands: arrays, and numbers.
            into: for each output memory for it, or None.

        Returns:
            The outputs.
        """
        arrays: list[Any] = []
        orders: list[Any] = []
        aligned = True
        for x, dtype, on_host in zip(operands, self._held, self._on_host):
            order = None
            if on_host:
                x = dtype.type(x)
            else:
                if type(x) is not ndarray:
                    x = cupy.asarray(x)
                if not is_contiguous(x):
                    order = tuple([step // x.itemsize for step in x.strides])
                    if min(order) < 0:
                        x, order = cupy.ascontiguousarray(x), None
                # Numbers are loaded one by one.
                aligned = aligned and not (x.ndim and x.data.ptr % WIDEST_LOAD_BYTES)
            arrays.append(x)
            orders.append(order)
        form = self._forms.get(((*orders,), aligned))
        if form is None:
            form = self._made(arrays, orders, aligned)
        if into:
            for (shape, dtype), memory in zip(self._outputs, into, strict=True):
                arrays.append(ndarray(shape, dtype) if memory is None else memory)
        else:
            for shape, dtype in self._outputs:
                arrays.append(ndarray(shape, dtype))
        for shape, dtype in form.scratch:
            arrays.append(ndarray(shape, dtype))
        for function, blocks, threads, places in form.launches:
            function(blocks, threads, tuple([arrays[i] for i in places]))
        begin = len(self._given)
        return arrays[begin : begin + len(self._outputs)]

    def _dense(self, arrays: list[Any], orders: list[Any]) -> list[Any]:
        """Brings arrays into order."""
        for i, order in enumerate(orders):
            if order is not None:
                arrays[i], orders[i] = cupy.ascontiguousarray(arrays[i]), None
        return arrays

    def _made(self, arrays: list[Any], orders: list[Any], aligned: bool) -> KernelForm:
        """Returns the kernels for arrays in other orders; or brings the arrays into order."""
        if len(self._forms) >= MOST_FORMS:
            self._dense(arrays, orders)
        key = (*orders,), aligned
        found = self._forms.get(key)
        if found is None:
            try:
                source = self._source(orders, aligned)
            except NotNative:
                if not any(orders):
                    raise
                return self._made(self._dense(arrays, orders), orders, aligned)
            text = "\n".join(kernel.text for kernel in source.kernels)
            found = self._forms[key] = self._form(source, compiled_module(text))
        return found


class GroupRun:
    """Computes the outputs of several regions by one kernel: ``run(*operands)``.

    Its operands are those of the first region, of the second, and so on; its outputs too.

    Args:
        name: the name of the kernel.
        members: the equations of the regions.
        apart: as in `GpuRegion`.

    Attributes:
        kernel: the kernel.
    """

    kernel: Any

    def __init__(self, name: str, members: Sequence[EquationLike], apart: bool) -> None:
        self.__name__ = self.name = name
        self._members = members
        self._apart = apart
        self._outputs = [(x.type.shape, x.type.dtype) for e in members for x in e.outputs]
        self._function: Any = None

    @property
    def text(self) -> str:
        """The text of its kernel."""
        return self.kernel.text  # type: ignore[no-any-return]

    def take(self, module: Any) -> None:
        """Takes its kernel from a compiled module."""
        self._function = module.get_function(self.name)

    def _memory(self, into: Sequence[ndarray | None]) -> list[Any]:
        """Returns memory for the outputs: for each what is given, or new memory for None."""
        if not into:
            return [ndarray(*kind) for kind in self._outputs]
        pairs = zip(self._outputs, into, strict=True)
        return [ndarray(*kind) if own is None else own for kind, own in pairs]


def is_on_host(x: Operand) -> bool:
    """Says whether an operand is a number of the host's, which kernels take by value."""
    if is_variable(x):
        return getattr(x, "device") == "cpu" and not x.type.shape  # noqa: B009
    value = constant(x)
    return type(value) is not ndarray and not np.shape(value)


def given_by_value(given: Sequence[Operand], apart: bool) -> list[bool]:
    """Says for operands whether kernels take them by value.

    Args:
        given: the operands.
        apart: as in `GpuRegion`.
    """
    return [is_on_host(x) and not (apart and is_variable(x)) for x in given]


def dtypes_of_numbers(region: Any) -> list[DType]:
    """Returns the dtypes in which kernels take the inputs of a region that are given by value."""
    dtypes = [x.type.dtype for x in region.program.inputs]
    return [np.dtype(np.float32) if d.char in "eE" else d for d in dtypes]


def whole_text(text: str) -> str:
    """Returns the text of some kernels with what it includes."""
    return included(INCLUDES + OF_PRODUCTS * ("small_product<" in text) + text)


def compiled_module(text: str) -> Any:
    """Returns the compiled module of some kernels."""
    return cupy.RawModule(code=whole_text(text), options=REGION_OPTIONS)


def load_all(runs: Sequence[Any]) -> None:
    """Compiles the kernels of regions, as one module."""
    if runs:
        module = compiled_module("\n".join(run.text for run in runs))
        for run in runs:
            run.take(module)
