"""Functions that pack and unpack what backward keeps, as in ``torch.autograd.graph``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from ...hooks import OffloadHook, ResidualHook, use
from ...primitives.core.buffers import wrap
from ...tensors.tape import TAPE
from ...tensors.tensor import Tensor
from .blocks import HookBlock

__all__ = ["save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks(HookBlock):
    """Packs what operations save for the way back, and unpacks it when a rule asks for it.

    It is a context manager.

    Args:
        pack_hook: takes a tensor and returns anything.
        unpack_hook: takes that, also where it is the tensor itself, and returns the tensor again.

    >>> import functensor.torch as torch
    >>> packed = []
    >>> def pack(x):
    ...     packed.append(tuple(x.shape))
    ...     return x
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
    ...     y = (x.exp() ** 2).sum()
    >>> y.backward()
    >>> packed
    [(2,)]
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        check_function("saved_tensors_hooks", pack_hook, "pack_hook")
        check_function("saved_tensors_hooks", unpack_hook, "unpack_hook")

        def pack(op: Any, value: Any) -> list[Any]:
            # In a list it is another value than the array, which is not unpacked.
            return [pack_hook(TAPE.wrap(value._data, None))]

        def unpack(op: Any, packed: list[Any]) -> Any:
            x = unpack_hook(*packed)
            return wrap(x._data) if isinstance(x, Tensor) else x

        hook = ResidualHook(pack=pack, unpack=unpack)
        hook.always_unpacks = True
        super().__init__(lambda: use(hook))


class save_on_cpu(HookBlock):
    """Keeps what operations save for the way back in the memory of the host.

    It is a context manager.

    Args:
        pin_memory: has no effect: copies go through pinned memory anyway.
        device_type: ``"cuda"``.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if device_type != "cuda":
            raise ValueError(f"save_on_cpu takes tensors from cuda, not from {device_type!r}")
        super().__init__(lambda: use(OffloadHook("host")))


publish(globals())
