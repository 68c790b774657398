"""Parameters that are computed from others: ``torch.nn.utils.parametrize``.

A parametrized module has a class of its own, on which the tensor's name is a property: reading it
calls the parametrizations with the original tensors, setting it asks them for the originals.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache as remembered
from typing import Any

from ....backends.restoring import setting
from ....faces.publish import publish
from ....tensors import Tensor, no_grad
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip


class Cache(threading.local):
    """A thread's parametrized tensors that were computed within `cached`, by module and name."""

    entries: dict[tuple[int, str], Any] | None = None


cache = Cache()


def cached() -> setting:
    """Computes every parametrized tensor once, for the length of a ``with`` block.

    >>> import functensor.torch as torch
    >>> from functensor.torch.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> with parametrize.cached():
    ...     print(layer.weight is layer.weight)
    True
    """
    return setting(cache, entries={} if cache.entries is None else cache.entries)


class ParametrizationList(ModuleList):
    """The parametrizations of a tensor, one after another, and the tensors that they begin with.

    Args:
        modules: the parametrizations.
        original: the tensor as it was.
        unsafe: whether they may change its shape and dtype.

    Attributes:
        original: what the first one is called with; ``original0``, ``original1`` and so on where
            its ``right_inverse`` returned several tensors.
        is_tensor: whether it is one tensor.
        ntensors: how many there are.

    Raises:
        ValueError: there are no parametrizations, or they do not fit the tensor.
    """

    is_tensor: bool
    ntensors: int

    def __init__(self, modules: Sequence[Any], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList: there are no parametrizations")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with no_grad():
            for module in reversed(modules):
                try:
                    new = module.right_inverse(new)
                except (AttributeError, NotImplementedError):
                    # It has no way back: it begins with the tensor itself.
                    continue
        several = isinstance(new, Sequence)
        if not isinstance(new, Tensor) and not several:
            raise ValueError(
                "ParametrizationList: right_inverse returns a tensor or several, not "
                f"{type(new).__name__}"
            )
        self.is_tensor = not several
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != original.dtype:
                raise ValueError(
                    f"right_inverse returned {new.dtype}, but the tensor is {original.dtype}"
                )
            if isinstance(original, Parameter):
                if new is not original:
                    original.data = new
                self.original = original
            else:
                self.register_buffer("original", new)
        else:
            for i, x in enumerate(new):
                if isinstance(original, Parameter):
                    x = x if isinstance(x, Parameter) else Parameter(x.clone())
                    x.requires_grad_(original.requires_grad)
                    self.register_parameter(f"original{i}", x)
                else:
                    self.register_buffer(f"original{i}", x)
        if not unsafe:
            # As it was: the parameter's memory may be that of the originals by now.
            check_fits(self(), original)

    def _originals(self, value: Any) -> Any:
        """Returns what the first parametrization is to be called with to give a value."""
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(
                    f"a tensor is set that {type(module).__name__} computes, which has no method "
                    "right_inverse"
                )
            value = module.right_inverse(value)
        return value

    def _held(self) -> list[Any]:
        """Returns the original tensors."""
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Sets the originals so that a tensor is computed from them, as far as there is a way.

        Raises:
            RuntimeError: a parametrization has no ``right_inverse``.
            ValueError: it returned another number of tensors.
        """
        with no_grad():
            new = self._originals(value)
            several = [new] if self.is_tensor else list(new)
            held = self._held()
            if len(several) != len(held):
                raise ValueError(
                    f"right_inverse returned {len(several)} tensors, not {len(held)} as before"
                )
            for x, v in zip(held, several, strict=True):
                if not isinstance(v, Tensor):
                    raise ValueError(f"right_inverse returned {type(v).__name__}, not a tensor")
                x.data = v.detach().to(x.dtype) if self.unsafe else v.detach()

    def forward(self) -> Any:
        """Returns the tensor."""
        first, *others = list(self)
        x = first(*self._held())
        for module in others:
            x = module(x)
        return x


def check_fits(x: Any, original: Any) -> None:
    """Checks that a parametrized tensor may stand for the original one.

    Raises:
        ValueError: it is no tensor, or has another shape or dtype.
    """
    advice = "; register it with unsafe=True if that is meant"
    if not isinstance(x, Tensor):
        raise ValueError(f"a parametrization returns a tensor, not {type(x).__name__}")
    if x.dtype != original.dtype:
        raise ValueError(
            f"the parametrization returns {x.dtype}, but the tensor is {original.dtype}{advice}"
        )
    if x.shape != original.shape:
        raise ValueError(
            f"the parametrization returns the shape {x.shape}, but the tensor's is "
            f"{original.shape}{advice}"
        )


def parametrized_property(name: str) -> Any:
    """Returns the property that computes a parametrized tensor."""

    def get(self: Any) -> Any:
        if cache.entries is None:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in cache.entries:
            cache.entries[key] = self.parametrizations[name]()
        return cache.entries[key]

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


@remembered
def parametrized_class(base: Any, names: tuple[str, ...]) -> type:
    """Returns the class of modules of another class, some of whose tensors are parametrized."""

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name in names:
            object.__setattr__(self, name, value)
        else:
            base.__setattr__(self, name, value)

    def refuse_pickles(self: Any) -> Any:
        raise RuntimeError(
            f"{base.__name__} has parametrized tensors, and is not pickled: save its state_dict()"
        )

    def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
        from copy import deepcopy

        out = memo[id(self)] = object.__new__(type(self))
        out.__dict__.update(deepcopy(self.__dict__, memo))
        return out

    return type(f"Parametrized{base.__name__}", (base,), {
        **{name: parametrized_property(name) for name in names}, "__setattr__": set_attribute,
        "__getstate__": refuse_pickles, "__deepcopy__": deep_copy, "parametrized_base": base,
        "__module__": base.__module__,
    })  # fmt: skip


def set_class(module: Any, names: tuple[str, ...]) -> None:
    """Gives a module the class in which some of its tensors are parametrized."""
    base = type_before_parametrizations(module)
    module.__class__ = parametrized_class(base, names) if names else base


def type_before_parametrizations(module: Module) -> type:
    """Returns the class that a module had before its tensors were parametrized."""
    kind: type = getattr(type(module), "parametrized_base", type(module))
    return kind


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Says whether a tensor of a module is parametrized; without a name, whether any is."""
    parametrizations = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Lets a parameter or buffer be computed by a module from now on, whenever it is read.

    What was the tensor is ``module.parametrizations.NAME.original``; a parameter stays one there.
    A tensor that is parametrized already is given to the new module next.

    Args:
        module: has the tensor.
        tensor_name: its name.
        parametrization: a module whose ``forward`` takes the original tensor. With a method
            ``right_inverse`` the tensor may be set; it may return several tensors, with which
            ``forward`` is called then.
        unsafe: whether it may change the tensor's shape or dtype.

    Returns:
        The module.

    Raises:
        ValueError: there is no such tensor, or the result does not fit it.

    >>> import functensor.torch as torch
    >>> from functensor.torch.nn.utils import parametrize
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = torch.nn.Linear(3, 3)
    >>> _ = parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    known = module.parametrizations if is_parametrized(module) else {}
    if tensor_name in known:
        old = known[tensor_name]
        before = getattr(module, tensor_name)
        if not unsafe:
            with no_grad():
                check_fits(parametrization(before), before)
        old.append(parametrization)
        old.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not known:
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made
    set_class(module, tuple(module.parametrizations))
    return module


def remove_parametrizations(
    module: Any, tensor_name: str, leave_parametrized: bool = True
) -> Any:
    """Ends the parametrizations of a tensor.

    Args:
        module: has the tensor.
        tensor_name: its name.
        leave_parametrized: whether the tensor keeps the value that it was computed to have, and
            becomes what it was before, a parameter or a buffer; else it is the original again.

    Returns:
        The module.

    Raises:
        ValueError: the tensor is not parametrized, or there are several originals to be left.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {type(module).__name__}.{tensor_name} is not parametrized"
        )
    old = module.parametrizations[tensor_name]
    if not leave_parametrized and not old.is_tensor:
        raise ValueError(
            "remove_parametrizations: leave_parametrized=False takes one original tensor, and "
            f"{tensor_name!r} is made of {old.ntensors}"
        )
    held = old._held()
    is_parameter = isinstance(held[0], Parameter)
    tensor = held[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        if old.is_tensor:
            tensor.data = value.detach().clone()
        elif is_parameter:
            tensor = Parameter(value.detach().clone(), tensor.requires_grad)
        else:
            tensor = value.detach().clone()
    del module.parametrizations[tensor_name]
    set_class(module, tuple(module.parametrizations))
    if not len(module.parametrizations):
        del module.parametrizations
    if is_parameter:
        module.register_parameter(tensor_name, tensor)
    else:
        module.register_buffer(tensor_name, tensor)
    return module


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Gives a module the parametrizations of another one's tensors, and their originals.

    Args:
        from_module: has parametrized tensors.
        to_module: gets the same ones.
        tensor_name: of the tensor; by default all that are parametrized.

    Returns:
        The second module.
    """
    if not is_parametrized(from_module):
        return to_module
    chosen = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in chosen:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for part in from_module.parametrizations[name]:
            register_parametrization(to_module, name, part, unsafe=True)
        ours, theirs = (m.parametrizations[name] for m in (to_module, from_module))
        ours.unsafe = theirs.unsafe
        several = ["original"] if theirs.is_tensor else [
            f"original{i}" for i in range(theirs.ntensors)
        ]  # fmt: skip
        for original in several:
            setattr(ours, original, getattr(theirs, original))
    return to_module


publish(globals())
