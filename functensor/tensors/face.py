"""Tensors within transformations: what a function that was given tensors computes with.

A transformation that is given tensors runs on traced values. The function of the user gets these as
`TracedTensor`, which has the methods of tensors: PyTorch's names and promotion, views, and writes
in place, which give the tensor another traced value. They stand on a level of their own, right
above the transformation's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from .. import tree
from ..backends.errors.words import WRAPPER_CODES
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import wrap
from ..primitives.core.errors import BackwardError, ImmutableArrayError, failure
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import Trace, base_trace, new, run
from ..programs.program import argument_type
from ..transforms.tensor_entrance import entrance
from .device_names import device, named_device
from .functions.naming import copied
from .grad_mode import mode
from .tape import TapeTrace
from .tensor import Tensor
from .widening import may_be_too_wide, without_widening

__all__ = ["TracedTensor"]


class TracedTensor(Tensor):
    """A tensor within a transformation: it holds a traced value, and records nothing itself."""

    __slots__ = ("given", "owner")

    # True of an argument of the function, whose memory the caller sees.
    given: bool
    # Called before it is said that the tensor records nothing, which its caller may not be told.
    graph_asked: Callable[[], None] | None = None

    shape = Tracer.shape
    dtype = Tracer.dtype
    __repr__ = Tracer.__repr__
    __str__ = Tracer.__str__
    __format__ = Tracer.__format__
    _repr_html_ = Tracer._repr_html_

    @property
    def device(self) -> device:
        """The device where the value is computed."""
        return named_device(Tracer.device.fget(self))  # type: ignore[attr-defined]

    @property
    def home(self) -> Trace:
        """The trace under which the tensor's operations give tensors."""
        return self.owner  # type: ignore[no-any-return]

    def origin(self) -> str:
        """Returns what made the tensor, for messages."""
        return "the value of a tensor"

    def dependence(self) -> str:
        """Returns which arguments the value depends on, for messages."""
        value: Any = self._data
        return value.dependence() if isinstance(value, Tracer) else ""

    def without_graph(self) -> Tensor:
        """Returns a tensor of the same value through which no derivative goes."""
        return ops.stop_gradient(self)  # type: ignore[no-any-return]

    @property
    def requires_grad(self) -> bool:
        """False, as the transformation records what there is; what compiles may refuse to say."""
        asked = type(self).graph_asked
        if asked is not None:
            asked()
        return False

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Raises an error where derivatives are to be recorded.

        Raises:
            BackwardError: within a transformation ``backward`` has no graph.
        """
        if requires_grad:
            raise failure(
                BackwardError,
                f"requires_grad_() of {self.describe()} within {self.owner.stack()}, where tensors "
                "record no graph",
                fix="ft.grad of the function; or backward() outside of the transformation",
            )
        return self

    def _copy(self) -> Tensor:
        return copied(self)  # type: ignore[no-any-return]

    def numpy(self, *, force: bool = False) -> Any:
        """Returns the values as a NumPy array, as far as they are known.

        ``force`` has no effect: a traced value has no graph that could be left out.

        Raises:
            TracerConversionError: they are not.
        """
        return self.__array__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return wrap(self._data).__array__(dtype, copy)

    def _put(self, result: Array, what: str) -> Any:
        root: Any = self
        while (source := getattr(root, "_source", None)) is not None:
            root = source[0]
        if getattr(root, "given", False):
            raise failure(
                ImmutableArrayError,
                f"{what}: within {self.owner.stack()} the tensor is an argument, or a view of one, "
                "and the caller's tensor would not see what is written",
                fix="x = x.clone(), and return what was written",
            )
        return super()._put(result, what)


class FaceTrace(Trace):
    """Processes primitives that meet traced tensors: it takes these off, and puts them on again."""

    __slots__ = ("_blocks", "_recorded")

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent, "")
        # Whether tensors recorded when the function began, and how many blocks had said so.
        self._recorded = mode.enabled
        self._blocks = len(mode.before)

    def wrap(self, value: Any) -> TracedTensor:
        """Returns the tensor of a value of the parent's level."""
        out: TracedTensor = new(TracedTensor)
        out.owner = self
        out._data = value
        out.node = None
        return out

    def new_tensor(self) -> TracedTensor:
        """Returns a tensor of this level without a value."""
        return self.wrap(None)

    def entered(self, x: Any) -> Any:
        """Returns an argument as a tensor; what stands for a number of Python's as it is."""
        is_array = isinstance(x, Tracer) or type(x) is Array
        if not is_array or isinstance(x, Tensor) or argument_type(x).weak is not None:
            return x
        out = self.wrap(x if isinstance(x, Tracer) else self.lift(x))
        out.given = True
        return out

    def left(self, x: Any) -> Any:
        """Returns a result as a value of the level below."""
        return x._data if isinstance(x, TracedTensor) and x.owner is self else x

    def unwrap(self, args: Sequence[Any]) -> tuple[list[Any], bool]:
        """Returns operands as values of the level below, and whether a tensor is among them."""
        values = []
        met = False
        for a in args:
            if isinstance(a, Tensor):
                met = True
            mine = isinstance(a, TracedTensor) and a.owner is self
            values.append(a._data if mine else self.lift(a))
        return values, met

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, met = self.unwrap(args)
        ans = self.below(primitive, values, params)
        if met and primitive.broadcasts and may_be_too_wide(ans.dtype.char, values):
            narrow = without_widening(primitive, values, ans.dtype, self.cast)
            if narrow is not None:
                ans = self.below(primitive, narrow, params)
        return self.wrap(self.kept(ans)) if met else wrap(ans)

    def cast(self, x: Any, dtype: Any) -> Any:
        """Returns a value of the level below in another dtype."""
        return self.below(ops["astype"], [x], {"dtype": dtype})

    def kept(self, ans: Any) -> Any:
        """Returns a value as derivatives see it: under the function's ``no_grad`` a constant."""
        if mode.enabled or not (self._recorded or len(mode.before) > self._blocks):
            return ans
        return self.below(ops["stop_gradient"], [ans], {})

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        values, met = self.unwrap(args)
        outs = self.parent.custom(call, values)
        if not met:
            return list(map(wrap, outs))
        return [self.wrap(self.kept(out)) for out in outs]


def faced(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of traced values that gives them to another as tensors."""

    def with_tensors(*args: Any, **kwargs: Any) -> Any:
        level = FaceTrace(base_trace())
        args, kwargs = tree.map(level.entered, (args, kwargs))
        return run(level, left, (level, fun, args, kwargs))

    WRAPPER_CODES.add(with_tensors.__code__)
    return update_wrapper(with_tensors, fun)


def left(level: FaceTrace, fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Returns a function's results as values of the level below; views are read while it stands."""
    return tree.map(level.left, fun(*args, **kwargs))


WRAPPER_CODES.add(left.__code__)
entrance.faced = faced
entrance.inside = (TracedTensor,)
TapeTrace.face = FaceTrace
