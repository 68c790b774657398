"""``Tensor``: the mutable face of the library, for scripts of ``loss.backward()`` and ``step()``.

Tensors use the nodes and primitives of everything else; what they record is in ``tape``,
PyTorch's names for what arrays can do already are in ``torch_methods``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.devices import device_of, on_device, to_host
from ..backends.errors.public_functions import begins, check_function, wrap_methods
from ..hooks.hook import Hook
from ..hooks.registration import Registration
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.array import Array
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import (
    BackwardError,
    GradientInputError,
    ImmutableArrayError,
    MissingGradientError,
    TracerConversionError,
    failure,
)
from ..primitives.core.numpy_protocols import conversion_error
from ..primitives.core.shape_dtype import INEXACT
from ..primitives.core.trace import base_trace, new, slot
from ..traces.reverse import maker_of
from ..transforms.given_cotangents import cotangent_of
from ..transforms.tensor_entrance import entrance
from .buffers import check_is_bool, tensor_buffer
from .copies import added_to, of_class, with_state
from .device_names import device, named_device
from .functions.naming import copied
from .grad_mode import enable_grad, is_grad_enabled, no_grad
from .level import LEVEL
from .missing_gradients import gradient_of, missing_grad, missing_reason, warn_of_missing_grad
from .rebinding import lie_with, rebind
from .resting import put_to_rest, receiver_at, wake
from .tape import TAPE, LeafNode, TapeTrace, receiver_of
from .tensor_hooks import hook_after_gradient, hook_on_gradient, hook_on_operations, remove_hook
from .torch_in_place import InPlaceFunctions
from .views import detached

__all__ = [
    "Tensor", "enable_grad", "is_grad_enabled", "no_grad", "tensor",
]  # fmt: skip


class Tensor(InPlaceFunctions):
    """An array that can be changed, and that collects its gradient in ``grad``.

    Every operation on tensors gives a new tensor. Changing one in place, with ``x[i] = v``,
    ``x += v`` or a method whose name ends in an underscore, gives this one a new value: tensors
    that were computed from it before keep theirs. Slices, transposes and tensors of another shape
    that methods return are views, as in PyTorch: what is written to one of them is seen through
    all of them.

    Given to a transformation, ``ft.vmap(f)(x)``, tensors give tensors with a graph.

    Methods have PyTorch's names and NumPy's. Called with PyTorch's arguments (``dim``,
    ``keepdim``) they do as in PyTorch, with NumPy's (``axis``, ``keepdims``) as in NumPy.

    Args:
        data: an array, which keeps its dtype, or numbers in nested lists; of those, floats become
            float32.
        requires_grad: whether ``backward`` adds to ``grad``.
        dtype: the dtype of the elements, if it is to be another.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:0"``; None for that of an array, and the default
            device for numbers.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.
        GradientInputError: ``requires_grad`` of integers.

    >>> import functensor as ft
    >>> w = ft.Tensor([1.0, 2.0], requires_grad=True)
    >>> loss = (w * w).sum()
    >>> loss.backward()
    >>> w.grad
    Tensor([2., 4.], dtype=float32)
    """

    # Users put attributes of their own on tensors, as on parameters that are trained otherwise.
    __slots__ = ("__dict__",)

    owner: Any = TAPE
    mutable: Literal[True] = True  # type: ignore[assignment]
    # A tensor has its buffer where an array has it; tracers are asked for their value.
    value: Any = Array.__dict__["_data"]
    # Whether a deep copy has the gradient too; a parameter's has none, as in PyTorch.
    copies_gradient = True
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        # A tensor that is made within a transformation is written to there.
        if slot.face is not None and cls is Tensor and isinstance(base_trace(), TapeTrace.face):
            return base_trace().new_tensor()  # type: ignore[attr-defined,no-any-return]
        return new(cls)

    def __init__(
        self,
        data: ArrayLike,
        requires_grad: bool = False,
        dtype: DTypeLike | None = None,
        device: str | None = None,
    ) -> None:
        buffer = tensor_buffer(data, dtype)
        self._data = buffer if device is None else on_device(buffer, device)
        self.node = None
        if requires_grad:
            check_is_bool(data, requires_grad)
            self.requires_grad_()

    # -- what it is

    # A tensor holds its buffer as an array does; other tracers hold a value of an outer level.
    shape = Array.shape
    dtype = Array.dtype

    @property
    def device(self) -> device:
        """The device of the buffer, a string with ``type`` and ``index``: ``"cpu"``, ``"cuda:0"``.

        >>> import functensor as ft
        >>> ft.Tensor([1.0]).device.type
        'cpu'
        """
        return named_device(device_of(self._data))

    @property
    def is_leaf(self) -> bool:
        """True if the tensor was not computed from others that require grad."""
        return self.node is None or isinstance(self.node, LeafNode)

    @property
    def grad_fn(self) -> str | None:
        """The name of the operation that computed the tensor, None for leaves."""
        return None if self.is_leaf else maker_of(self.node)

    @property
    def requires_grad(self) -> bool:
        """True if operations on the tensor are recorded; may be set on leaves.

        Raises:
            BackwardError: it is set to False on a tensor that is no leaf.
            GradientInputError: it is set to True on integers.
        """
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets `requires_grad` and returns the tensor, which keeps its gradient."""
        if requires_grad and self.node is None:
            if self.dtype.kind not in INEXACT:
                raise failure(
                    GradientInputError,
                    f"requires_grad of {self.name()}: {self.dtype} has no gradient",
                    fix="Tensor(data, dtype='float32', requires_grad=True)",
                )
            wake(self)
        elif not requires_grad and not self.is_leaf:
            raise failure(
                BackwardError,
                f"requires_grad = False on {self.name()}, which is no leaf: it was computed "
                f"by {self.grad_fn!r}",
                fix="x.detach()",
            )
        elif not requires_grad:
            put_to_rest(self)
        return self

    @property
    def data(self) -> Tensor:
        """The tensor without its graph, as `detach` returns it; may be set to another tensor.

        Both share memory: what is written to one is seen through the other, and is not recorded.
        Once set to a tensor, it lies in that one's memory, with its shape and dtype; the tensors
        that it shared memory with before do not follow. An array's values are copied.

        Raises:
            BackwardError: a computed tensor is set to one of another shape or dtype.
            DeviceError: it is set to an array on another device.
            RuntimeError: it requires grad, and is set to a tensor of integers.
        """
        return self.detach()

    @data.setter
    def data(self, value: ArrayLike) -> None:
        given = getattr(self, "given", False)
        if isinstance(value, Tensor) and (given or value.home is not self.home):
            with no_grad():
                self._change(lambda: value, "x.data = value")
        elif isinstance(value, Tensor):
            rebind(self, value, "x.data = value")
        else:
            self.copy_value(value)

    # -- gradients

    @property
    def grad(self) -> Tensor | None:
        """The sum of the gradients of all backward passes since it was last cleared, or None.

        Reading it where it can only be None, or where a backward pass has not reached it, gives a
        `MissingGradientWarning` that says why; ``x.grad is None`` asks without one. It may be set.
        """
        receiver = receiver_at(self)
        if receiver is None or not receiver.keeps or receiver.missed():
            warn_of_missing_grad(self)
            return None
        return receiver.grad  # type: ignore[no-any-return]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        receiver = receiver_at(self)
        if receiver is None or not receiver.keeps:
            if value is not None:
                raise MissingGradientError(missing_grad(self, "was set"))
        elif value is None:
            receiver.clear()
        else:
            with no_grad():
                given = to_buffer(value)
                buffer = to_buffer(cotangent_of(self._data, given, "gradient", "a tensor"))
            same = isinstance(value, Tensor) and buffer is given
            receiver.grad = value if same else TAPE.wrap(buffer, None)

    # PyTorch's other name for it, which programs use that share gradients between processes.
    _grad = grad

    def retain_grad(self) -> None:
        """Lets ``backward`` set ``grad`` although the tensor is no leaf.

        Raises:
            MissingGradientError: the tensor does not require grad.
        """
        self._receiver("retain_grad()").keeps = True

    @begins
    def register_hook(self, hook: Callable[[Tensor], Any] | Hook) -> Registration:
        """Calls a function with the tensor's whole gradient, once in every backward pass.

        A `hooks.Hook` is called for the operations that this thread does on the tensor, outside of
        transformations: ``forward`` after each, and ``backward`` where cotangents flow through it.
        So the tensor need not require grad. All other operations ask whether it is among theirs,
        until the hook is removed or the tensor is gone.

        A hook belongs to the value that the tensor has now, as in PyTorch. After ``x *= 2`` it is
        still called with the gradient by the earlier value, which flows back through ``x *= 2``,
        and it sees no operation on the new one. A leaf stays the same value when it is changed
        under ``no_grad``, as optimizers do.

        Args:
            hook: takes the gradient; returns None, or what takes its place from there on. Or a
                `hooks.Hook`.

        Returns:
            A handle with an ``id`` and ``remove()``; a context manager too.

        Raises:
            MissingGradientError: the tensor does not require grad, and ``hook`` is a function.

        >>> import functensor as ft
        >>> x = ft.Tensor([3.0, 0.1], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad.clamp(-1.0, 1.0))
        >>> (x * x).sum().backward()
        >>> x.grad
        Tensor([1. , 0.2], dtype=float32)
        """
        if isinstance(hook, Hook):
            return hook_on_operations(self, hook)
        check_function("Tensor.register_hook", hook, "hook")
        return hook_on_gradient(self, hook, self._receiver("register_hook()"))

    @begins
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> Registration:
        """Calls a function with the leaf each time a backward pass has added to its ``grad``.

        What the function does is not recorded. The handle that is returned is as `register_hook`'s.

        Raises:
            BackwardError: the tensor is no leaf that requires grad.

        >>> import functensor as ft
        >>> x = ft.Tensor([1.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: x.sub_(0.1 * x.grad))
        >>> (x * 5).sum().backward()
        >>> x
        Tensor([0.5], dtype=float32, requires_grad=True)
        """
        check_function("Tensor.register_post_accumulate_grad_hook", hook, "hook")
        if not isinstance(self.node, LeafNode):
            raise failure(
                BackwardError,
                f"register_post_accumulate_grad_hook of {self.name()}, which is no leaf that "
                "requires grad",
                fix="x.register_hook(hook) is called with the gradient of any tensor",
            )
        return hook_after_gradient(self, hook, self.node.receiver)

    def remove_hook(self, id: int | Registration) -> None:
        """Ends the registration of a hook of this tensor.

        Args:
            id: the handle that `register_hook` returned, or its ``id``.

        Raises:
            ValueError: it is none of a hook that this tensor has.
        """
        remove_hook(self, id)

    def _receiver(self, what: str) -> Any:
        if self.node is None:
            raise failure(
                MissingGradientError,
                f"{what} of {self.name()}, which will have no gradient: {missing_reason(self)}",
                fix="Tensor(data, requires_grad=True)",
            )
        return receiver_of(self.node, make=True)

    def backward(
        self,
        gradient: ArrayLike | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Adds the gradient of the tensor by every leaf that requires grad to that leaf's ``grad``.

        Args:
            gradient: the gradient by this tensor, of its shape; 1 for a single element.
            retain_graph: keep what the graph holds, so that ``backward`` can go over it again; by
                default as ``create_graph``.
            create_graph: record the pass, so that the gradients have a graph themselves.
            inputs: the tensors whose ``grad`` is added to; by default all leaves.

        Raises:
            BackwardError: there is no graph, or an earlier pass has used it up.
            NonScalarOutputError: there is no ``gradient``, and not just one real element.
        """
        TAPE.run_backward([self], [gradient], retain_graph, create_graph, inputs, "backward()")

    def detach(self) -> Tensor:
        """Returns a tensor of the same value that does not require grad."""
        return detached(self)  # type: ignore[no-any-return]

    def without_graph(self) -> Tensor:
        """Returns the same memory without its graph."""
        return TAPE.wrap(self._data, None)  # type: ignore[no-any-return]

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """Returns a copy, through which gradients flow back."""
        return copied(self)  # type: ignore[no-any-return]

    # -- conversion

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Returns a NumPy array in whose memory the tensor lies: a write to one is seen by both.

        ``numpy.asarray(x)`` is a read-only view of the values that the tensor has now.

        Args:
            force: of a tensor that requires grad or is on a GPU, return a copy of its values.

        Raises:
            DeviceError: the tensor is on a GPU.
            TracerConversionError: the tensor requires grad.

        >>> import functensor as ft
        >>> x = ft.Tensor([1.0, 2.0])
        >>> a = x.numpy()
        >>> a[0] = 5
        >>> x
        Tensor([5., 2.], dtype=float32)
        """
        plain = self.detach().cpu().resolve_conj() if force else self
        return TAPE.array_over(plain)  # type: ignore[no-any-return]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        if self.node is not None:
            error = conversion_error(self)
            if isinstance(error, ImmutableArrayError):
                raise error
            raise failure(
                TracerConversionError,
                f"numpy() asked for a plain NumPy array, but {self.name()} requires grad",
                fix="x.detach().numpy()",
            )
        return super().__array__(dtype, copy)

    def _copy(self) -> Tensor:
        if not self.is_leaf:
            raise failure(
                BackwardError,
                f"copy of {self.name()}, which was computed by {self.grad_fn!r}: "
                "the copy would have no graph",
                fix="x.detach(), or x.clone() to let gradients through",
            )
        return of_class(type(self), Tensor, self, self.requires_grad)

    def __copy__(self) -> Tensor:
        if self.home is not None:
            return self[...]  # type: ignore[no-any-return]
        out = self._copy()
        lie_with(out, self)
        return with_state(out, added_to(self, Tensor))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        from copy import deepcopy

        out = memo[id(self)] = self._copy()
        if self.copies_gradient and (gradient := gradient_of(self)) is not None:
            if not self.requires_grad:
                out.requires_grad_().requires_grad_(False)
            out.grad = deepcopy(gradient, memo)
        return with_state(out, deepcopy(added_to(self, Tensor), memo))

    def __reduce__(self) -> tuple[Any, ...]:
        given = to_host(self._copy()._data), self.dtype, str(self.device), self.requires_grad
        own = added_to(self, Tensor)
        if type(self) is Tensor and not own:
            return tensor, given
        data, dtype, device, requires_grad = given
        again = type(self), Tensor, data, requires_grad, dtype, device
        return of_class, again, own or None, None, None, with_state

    def under(self) -> str:
        """Returns the transformation that the tensor belongs to: none."""
        return ""

    def origin(self) -> str:
        """Returns what made the tensor, for messages."""
        return "a tensor" if self.is_leaf else f"a tensor made by {self.grad_fn}"

    def __repr__(self) -> str:
        body = np.array2string(np.asarray(to_host(self._data)), separator=", ", prefix="Tensor(")
        if 0 in self.shape:
            body = f"[], shape={self.shape}"
        suffix = "" if self.device == "cpu" else f", device={self.device!r}"
        suffix += ", requires_grad=True" if self.requires_grad else ""
        return f"Tensor({body}, dtype={self.dtype}{suffix})"

    def __str__(self) -> str:
        return str(to_host(self._data))

    def _repr_html_(self) -> str | None:
        from ..primitives.core.notebook import html_of

        return html_of(self, {"requires_grad": True} if self.requires_grad else None)

    def __format__(self, spec: str) -> str:
        return format(to_host(self._data)[()], spec) if spec else str(self)


wrap_methods(
    Tensor, "Tensor", ["register_hook", "register_post_accumulate_grad_hook", "remove_hook"]
)
TapeTrace.tracer = Tensor
TapeTrace.level = LEVEL
entrance.classes = (Tensor,)
entrance.made = partial(TapeTrace.wrap, TAPE, node=None)
entrance.all_made = TAPE.all_wrapped

def tensor(
    data: ArrayLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a `Tensor` of a copy of data.

    Args:
        data: an array, or numbers in nested lists.
        dtype: the dtype of the elements, if it is to be another.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:0"``; None for that of an array, and the default
            device for numbers.
        requires_grad: whether ``backward`` adds to its ``grad``.

    Returns:
        The tensor.

    Raises:
        BackendUnavailable: the device's backend is not installed.

    >>> import functensor as ft
    >>> ft.tensor([[1, 2], [3, 4]], dtype="float32").mean()
    Tensor(2.5, dtype=float32)
    """
    return Tensor(data, requires_grad, dtype, device)
