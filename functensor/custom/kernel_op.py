"""Kernels of the user's own, for the CPU and for GPUs, as functions under all transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.devices import device_of, on_device
from ..backends.errors.public_functions import check_function
from ..backends.protocol import BACKENDS, DeviceError
from ..backends.user_kernels import call_kernel, kernel_kind, kind_of_module
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.derivative_rules import compile_rules, shape_of
from ..primitives.core.errors import describe, function_name, message
from ..primitives.core.families import filled_operands
from ..primitives.core.handing_out import sealed
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.test_samples import Sample
from ..primitives.core.trace import at_face
from ..primitives.elementwise.cast_and_complex import cast
from .numpy_function import NumpyCall, NumpyFunction, Values, examples, packed_primitive
from .outputs import Declared

if TYPE_CHECKING:
    from ..primitives.core.array import Array

__all__ = ["CustomOp", "custom_op"]

CUSTOM_OP_FIX = (
    "custom_op(kernel, abstract=..., vjp=lambda g, ans, *xs: cotangents), or "
    "jvp=lambda ts, ans, *xs: tangent"
)
BATCH_FIX = (
    "custom_op(kernel, ..., batch=True) if it broadcasts over axes in front, or "
    "batch=lambda axes, *xs: outputs"
)

NUMBER_TYPES = (np.generic, float, int, complex)


class CustomOp(NumpyFunction):
    """A function whose values come from a kernel for each kind of device: ``ft.custom_op``.

    Attributes:
        launch, batch: as there.
    """

    kind = "custom_op"
    kept_functions = (*NumpyFunction.kept_functions, "_kernels", "batch", "launch")

    def __init__(
        self,
        kernels: dict[str, Any],
        *,
        name: str,
        abstract: Declared,
        vjp: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        jvp: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        batch: bool | Callable[..., Any] | None = None,
        launch: Callable[..., Any] | None = None,
        writable: bool = False,
    ) -> None:
        first = next(iter(kernels.values()))
        super().__init__(first, name=name, result=abstract, writable=writable, fix=CUSTOM_OP_FIX)
        self.vjp = by_operand(vjp) if isinstance(vjp, Sequence) else vjp
        self.jvp = by_tangent(jvp) if isinstance(jvp, Sequence) else jvp
        self._kinds, self._kernels = tuple(kernels), tuple(kernels.values())
        self.batch: Any = batch
        self.launch = launch

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernels, by the kind of device."""
        return dict(zip(self._kinds, self._kernels, strict=True))

    def __call__(self, *operands: ArrayLike, **static: Any) -> Any:
        arrays = [ops.asarray(x) for x in operands]
        call = OpCall.kept(self, static, arrays)
        outputs = call.outputs(examples(arrays))
        return outputs.shown(outputs.unpack(operation(*arrays, call=call, batch=0)))

    def kernel(self, kind: str) -> Any:
        """Returns the kernel for a kind of device; raises a DeviceError where there is none."""
        if kind not in self.kernels:
            there = ", ".join(self.kernels)
            what = f"custom_op {self.__name__!r} has no kernel for {kind!r}"
            what += f"; it has one for {there!r}"
            fix = f'ft.to_device(x, "{there}"), or custom_op({{"{kind}": f, ...}}, ...)'
            raise NoKernel(message(what, fix=fix, number=14))
        return self.kernels[kind]

    def check_outputs(
        self, found: Sequence[Any], types: Sequence[ShapeDtype], what: str, fix: str
    ) -> None:
        """Checks that a kernel or a rule returned arrays of some types; ``what`` shows both."""
        got, wanted = (", ".join(map(describe, values)) for values in (found, types))
        if got != wanted:
            raise self.wrong(f"has a {what.format(got, wanted)}", fix)


class NoKernel(DeviceError):
    """Arrays are on a device for which an operation has no kernel."""


def by_operand(rules: Sequence[Any]) -> Callable[..., Any]:
    """Returns rules of reverse mode in letters, one for each operand, as one function."""
    compiled = compile_rules(rules)

    def vjp(g: Any, ans: Any, *xs: Array, **static: Any) -> tuple[Any, ...]:
        return tuple(rule and rule(g, (ans, *xs), static) for rule in compiled)

    return vjp


def by_tangent(rules: Sequence[Any]) -> Callable[..., Any]:
    """Returns rules of forward mode in letters, one for each operand, as one function."""
    compiled = compile_rules(rules)

    def jvp(ts: Sequence[Any], ans: Any, *xs: Array, **static: Any) -> Any:
        terms = [rule(t, (ans, *xs), static) for rule, t in zip(compiled, ts) if rule]
        terms = [term for term in terms if term is not None]
        return reduce(ops.add, terms) if terms else None

    return jvp


class OpCall(NumpyCall):
    """One call of such a function: its static arguments, and its outputs once they are known."""

    function: CustomOp

    def evaluated(self, xp: Any, buffers: Sequence[Any], batch: int) -> Any:
        """Returns the packed outputs for operands with so many batch axes in front."""
        function = self.function
        arrays = placed_operands(buffers)
        outputs = self.outputs(examples(arrays, batch))
        lengths = arrays[0].shape[:batch] if batch else ()
        shapes = [lengths + t.shape for t in outputs.types]
        space: list[Any] = []

        def written() -> Values:
            if outputs.single or batch or len({t.dtype for t in outputs.types}) > 1:
                return [xp.empty(s, t.dtype) for s, t in zip(shapes, outputs.types)]
            # The kernel writes the outputs side by side, where they are packed.
            space.append(xp.empty(outputs.packed.shape, outputs.packed.dtype))
            ends = list(accumulate(t.size for t in outputs.types))
            parts = [space[0][end - t.size : end] for end, t in zip(ends, outputs.types)]
            return [part.reshape(s) for part, s in zip(parts, shapes)]

        kernel = function.kernel(kind_of_module(xp.__name__))
        operands = aligned_behind_batch(arrays, batch)
        if function.writable:
            operands = [xp.array(x, order="C") for x in operands]
        made = call_kernel(kernel, xp, operands, written, function.launch, self.static)
        if space:
            return space[0]
        found = list(made) if isinstance(made, tuple) else [made]
        function.check_outputs(
            found,
            [ShapeDtype(s, t.dtype) for s, t in zip(shapes, outputs.types)],
            "kernel that returned {}, but abstract= says {}",
            "return the shapes and dtypes of abstract=, with batch axes in front if batch=True",
        )
        # A function may write again into an array that it returned; a kernel of CuPy's does not.
        values = [np.array(v) if isinstance(v, np.ndarray | np.generic) else v for v in found]
        return self.packed(xp, values, outputs, lengths)


def placed_operands(buffers: Sequence[Any]) -> list[Any]:
    """Returns operands as arrays: numbers go to where the first array is."""
    first = next((b for b in buffers if not isinstance(b, NUMBER_TYPES)), None)
    if first is None or isinstance(first, np.ndarray):
        return [sealed(np.asarray(b)) for b in buffers]
    device = device_of(first)
    return [on_device(b, device) for b in buffers]


def aligned_behind_batch(arrays: Sequence[Any], batch: int) -> list[Any]:
    """Returns operands with batch axes in front whose other axes broadcast against each other."""
    rank = max((x.ndim for x in arrays), default=0)
    if not batch or all(x.ndim == rank for x in arrays):
        return list(arrays)
    return [x.reshape(x.shape[:batch] + (1,) * (rank - x.ndim) + x.shape[batch:]) for x in arrays]


def _batch_kernel(
    primitive: Primitive, values: Sequence[Any], flags: Sequence[bool], params: dict[str, Any]
) -> Any:
    call: OpCall = params["call"]
    function = call.function
    if function.batch is None:
        raise function.missing("batching rule", BATCH_FIX)
    if function.batch is True:
        operands = filled_operands(values, flags)
        return primitive.bind(operands, {**params, "batch": params["batch"] + 1})
    (size,) = {shape_of(v)[0] for v, flag in zip(values, flags) if flag}
    known = [shape_dtype(v) for v in values]
    types = [ShapeDtype(t.shape[flag:], t.dtype) for t, flag in zip(known, flags)]
    outputs = call.outputs(tuple(types))

    def rule(operands: Values) -> Values:
        axes = tuple(0 if flag else None for flag in flags)
        found = function.batch(axes, *map(ops.asarray, operands), **call.static)
        made = list(found) if isinstance(found, tuple | list) else [found]
        function.check_outputs(
            made,
            [ShapeDtype((size, *t.shape), t.dtype) for t in outputs.types],
            "batching rule that returned {}, expected {}",
            "return every output with the batch axis in front",
        )
        if outputs.single:
            return made
        dtype = outputs.packed.dtype
        flat = [ops.reshape(cast(v, dtype), (size, -1)) for v in made]
        return [ops.concatenate(flat, axis=-1)]

    return at_face(rule, list(values))[0]


def _samples() -> list[Sample]:
    function = CustomOp(
        dict.fromkeys(BACKENDS, lambda x, y: np.sin(x) * y),
        name="sine",
        abstract=lambda x, y: x,
        vjp=(lambda g, x, y: g * ops.cos(x) * y, lambda g, x: g * ops.sin(x)),
        batch=True,
    )
    shapes = ((2, 3), (0, 3), ())
    return [Sample(shape, shape, call=OpCall(function, {}), batch=0) for shape in shapes]


operation = packed_primitive(
    "custom_op",
    lambda xp, *buffers, call, batch: call.evaluated(xp, buffers, batch),
    _batch_kernel,
    _samples,
)


def custom_op(
    kernel: Any,
    *,
    abstract: Declared,
    vjp: Any = None,
    jvp: Any = None,
    batch: bool | Callable[..., Any] | None = None,
    name: str | None = None,
    launch: Callable[..., Any] | None = None,
    writable: bool = False,
) -> CustomOp:
    """Returns a kernel of one's own as a function that every transformation knows.

    Derivatives are those of the rules, to any order that they have themselves; where a rule for one
    mode is given, the other mode is its transpose. Nothing waits for the GPU.

    Args:
        kernel: a ``cupy.RawKernel``, a ``cupy.ElementwiseKernel``, or a function of NumPy arrays
            that returns an array or a tuple of them; for several kinds of device a dict with
            ``"cpu"`` and ``"cuda"``, whose values may be functions of CuPy arrays too. A
            ``RawKernel`` gets C-contiguous arrays: operands, then outputs, then numbers.
        abstract: ``abstract(*xs)`` returns the `ShapeDtype` of the output, or a tuple of them, by
            those of the operands; one that is always the same may be given as it is.
        vjp: ``vjp(g, ans, *xs)`` returns the cotangent of the operand, or a tuple with a cotangent
            or None for each, made of ``functensor.numpy`` or of other such functions; or a
            sequence with a rule for each operand in the letters of `functensor.extend`.
        jvp: ``jvp(ts, ans, *xs)`` returns the tangent of ``ans`` by a tuple of the operands'; or a
            sequence of rules, whose terms are added up.
        batch: True if the kernel takes operands with any number of batch axes in front (and axes
            of length one after them where an operand has fewer than others) and returns its
            outputs with these axes; or a rule, ``batch(axes, *xs)``: ``axes`` has 0 for an operand
            with a batch axis in front and None for another, and the outputs have it in front. None
            refuses ``vmap``.
        name: what programs and messages call it; by default the kernel's name.
        launch: of a ``RawKernel``: ``launch(*operands, *outputs)`` returns ``(grid, block)``,
            ``(grid, block, numbers)`` or ``(grid, block, numbers, bytes of shared memory)``. By
            default a thread for each element of the last output, and as the last argument, a
            ``long long``, how many there are.
        writable: whether kernels get copies in C order, which they may write to, as with
            `extend.numpy_function`. Otherwise their arrays are read-only on the CPU. Code that is
            compiled for typed arguments asks for such copies: numba's ``float64[::1]``, Cython's
            ``double[::1]``.

    Returns:
        A function of arrays on the device of a kernel. Keyword arguments are handed on to the
        kernel's function, and to ``abstract``, ``launch`` and all rules.

    Raises:
        DeviceError: arrays are where there is no kernel for them.
        MissingRuleError: a transformation needs a rule that was not given.
        RuleResultError: a kernel or a rule returned another shape or dtype than it should.

    >>> import numpy
    >>> import functensor as ft
    >>> cube = ft.custom_op(
    ...     lambda x: x**3, abstract=lambda x: x, vjp=lambda g, ans, x: 3 * g * x**2, batch=True
    ... )
    >>> ft.vmap(ft.grad(cube))(numpy.array([1.0, 2.0]))
    Array([ 3., 12.], dtype=float64, device='cpu')
    """
    kernels = dict(kernel) if isinstance(kernel, dict) else {kernel_kind(kernel): kernel}
    if not kernels or not kernels.keys() <= BACKENDS.keys():
        raise ValueError(
            f"custom_op: a kernel for each of {', '.join(map(repr, kernels)) or 'no device'}; the "
            f"kinds of devices are {', '.join(map(repr, BACKENDS))}"
        )
    if launch is not None:
        check_function("custom_op", launch, "launch")
    if batch is not None and batch is not True and not callable(batch):
        raise ValueError(f"custom_op: batch={batch!r}; it is True, a rule or None")
    first = next(iter(kernels.values()))
    name = name or getattr(first, "name", None) or function_name(first)
    rules: dict[str, Any] = {"vjp": vjp, "jvp": jvp, "batch": batch}
    return CustomOp(
        kernels, name=name, abstract=abstract, launch=launch, writable=writable, **rules
    )
