"""Modules: parameters, buffers and other modules under names, and what they compute."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Self

import numpy as np

from ...backends.dtypes import named as dtype_named
from ...backends.errors.public_functions import check_function
from ...tensors import Tensor, no_grad
from ...tensors.missing_gradients import clear_gradient, gradient_of
from ...tensors.rebinding import rebind
from ..utils.hooks import RemovableHandle, put_hook
from .module_hooks import (
    BACKWARD_OF_ALL,
    BEFORE_ALL,
    BEFORE_BACKWARD_OF_ALL,
    BEHIND_ALL,
    WITH_KEYWORDS,
    HookedPass,
    Passing,
    told_of_entry,
    wrong_entry,
)
from .module_states import ModuleStates, no_state_hooks
from .parameter import Buffer, Parameter

__all__ = ["Module"]


class Module(ModuleStates):
    """The base of all modules.

    A subclass calls ``super().__init__()``, assigns `Parameter` objects and other modules to
    attributes, and has a method ``forward``; a module is called as a function.

    Attributes:
        training: whether it is trained; see `train` and `eval`.

    >>> import functensor.torch as torch
    >>> class Line(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = torch.nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> line(torch.tensor(3.0)).item(), len(list(line.parameters()))
    (6.0, 1)
    """

    training: bool
    # The plan that calls run as, after `compile`.
    _compiled_call_impl: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(f"{type(self).__name__}.__init__ passes arguments on to Module's")
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "training", True)
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            object.__setattr__(self, name, OrderedDict())
        object.__setattr__(self, "_backward_pre_hooks", OrderedDict())
        object.__setattr__(self, "_non_persistent_buffers_set", set())
        # The numbers of hooks before and after calls that take keywords too.
        object.__setattr__(self, "_with_kwargs", {})
        object.__setattr__(self, "_state_hooks", no_state_hooks())

    # -- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if "_parameters" not in tables:
            if isinstance(value, Parameter | Buffer | Module):
                raise AttributeError(
                    f"{type(self).__name__}.{name} is assigned before super().__init__() was called"
                )
            object.__setattr__(self, name, value)
            return
        for table, kind, kept in (
            ("_parameters", Parameter, Parameter),
            ("_modules", Module, Module),
            ("_buffers", Buffer, Tensor),
        ):
            if isinstance(value, kind):
                self._forget(name, keep=table)
            elif name not in tables[table]:
                continue
            elif value is not None and not isinstance(value, kept):
                raise wrong_entry(self, name, kind, kept, value)
            tables[table][name] = told_of_entry(self, table, name, value)
            return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str = "") -> None:
        """Takes a name out of all tables, but one where it keeps its place."""
        self.__dict__.pop(name, None)
        for key in {"_parameters", "_buffers", "_modules"} - {keep}:
            self.__dict__[key].pop(name, None)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        hint = "" if "_parameters" in self.__dict__ else "; was super().__init__() called?"
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self
        )

    def __delattr__(self, name: str) -> None:
        if any(name in t for t in (self._parameters, self._buffers, self._modules)):
            self._forget(name)
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Enters a parameter, or None for one that there is not."""
        check_name(self, name, self._parameters, param, Parameter)
        self._parameters[name] = told_of_entry(self, "_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Enters a tensor that is no parameter, but moves with the module.

        Args:
            name: of the attribute.
            tensor: the tensor, or None.
            persistent: whether it is in `state_dict`.
        """
        check_name(self, name, self._buffers, tensor, Tensor)
        self._buffers[name] = told_of_entry(self, "_buffers", name, tensor)
        self._non_persistent_buffers_set.discard(name)
        if not persistent:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Enters a module under a name."""
        check_name(self, name, self._modules, module, Module)
        self._modules[name] = told_of_entry(self, "_modules", name, module)

    register_module = add_module

    # -- calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the result; a subclass has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self._forward_hooks or self._forward_pre_hooks or self._has_backward_hooks()
        if not (own or BEFORE_ALL or BEHIND_ALL or self._compiled_call_impl):
            return self.forward(*args, **kwargs)
        return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the result, with the hooks before and after."""
        for number, hook in [*BEFORE_ALL.items(), *self._forward_pre_hooks.items()]:
            if number in self._with_kwargs:
                changed = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if changed is None else changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        out = (
            self._between_hooks(args, kwargs)
            if self._has_backward_hooks()
            else self.forward(*args, **kwargs)
        )
        for number, hook in [*BEHIND_ALL.items(), *self._forward_hooks.items()]:
            takes_kwargs = number in self._with_kwargs or number in WITH_KEYWORDS
            changed = hook(self, args, kwargs, out) if takes_kwargs else hook(self, args, out)
            out = out if changed is None else changed
        return out

    def _has_backward_hooks(self) -> bool:
        """Says whether gradients are to be seen."""
        own = self._backward_hooks or self._backward_pre_hooks
        return bool(own or BACKWARD_OF_ALL or BEFORE_BACKWARD_OF_ALL)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Has calls of the module run as a plan from here on, as those of `torch.compile` do.

        Copies of the module, and pickles, are not compiled.

        Args:
            args, kwargs: as for `torch.compile`.

        >>> import functensor.torch as torch
        >>> layer = torch.nn.Linear(2, 3)
        >>> layer.compile()
        >>> tuple(layer(torch.ones(4, 2)).shape), list(layer.state_dict())
        ((4, 3), ['weight', 'bias'])
        """
        # By its name: what makes plans of modules stands above them.
        import_module("..compilation.modules", __package__).compile_in_place(self, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name != "_compiled_call_impl"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def _between_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes the result between two functions whose way back calls the hooks."""
        places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ended = not any(args[i].home is not None or args[i].requires_grad for i in places)
        passed = HookedPass(self, len(places), ended)
        if not ended:
            several = list(args)
            for i, x in zip(places, Passing.apply(passed.enter, *[args[i] for i in places])):
                several[i] = x
            args = tuple(several)
        out = self.forward(*args, **kwargs)
        if isinstance(out, Tensor):
            return Passing.apply(passed.leave, out)[0]
        if isinstance(out, tuple) and all(isinstance(x, Tensor) for x in out):
            return Passing.apply(passed.leave, *out)
        return out

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls a function with the module and its arguments before each call.

        It may return other arguments. With ``with_kwargs`` it gets keywords too, and returns both.
        """
        check_function("register_forward_pre_hook", hook, "hook")
        noted = self._with_kwargs if with_kwargs else None
        return put_hook(self._forward_pre_hooks, hook, prepend, noted)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls a function with the module, its arguments and its result after each call.

        It may return another result. With ``with_kwargs`` it gets keywords before the result.

        >>> import functensor.torch as torch
        >>> layer, seen = torch.nn.Linear(2, 3), []
        >>> handle = layer.register_forward_hook(lambda module, args, out: seen.append(out.shape))
        >>> _ = layer(torch.ones(2))
        >>> seen
        [(3,)]
        """
        check_function("register_forward_hook", hook, "hook")
        noted = self._with_kwargs if with_kwargs else None
        return put_hook(self._forward_hooks, hook, prepend, noted)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls a function with the module, the gradients by its arguments and by its results.

        It may return other gradients by the arguments.
        """
        check_function("register_full_backward_hook", hook, "hook")
        return put_hook(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls a function with the module and the gradients by its results; it may change them."""
        check_function("register_full_backward_pre_hook", hook, "hook")
        return put_hook(self._backward_pre_hooks, hook, prepend)

    # -- what is in it

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yields all modules within this one with their names, itself first."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yields all modules within this one, itself first."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields the modules that are attributes of this one, with their names."""
        for name, module in self._modules.items():
            if module is not None:
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yields the modules that are attributes of this one."""
        for _, module in self.named_children():
            yield module

    def _named(self, table: str, prefix: str, recurse: bool, unique: bool) -> Iterator[Any]:
        """Yields what a table of this module, and of those within it, has, with its names."""
        seen: set[int] = set()
        several = self.named_modules(prefix=prefix) if recurse else [(prefix, self)]
        for path, module in several:
            for name, x in module.__dict__[table].items():
                if x is not None and not (unique and id(x) in seen):
                    seen.add(id(x))
                    yield f"{path}.{name}" if path else name, x

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields the parameters with their names; one that has two names once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields the parameters."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields the buffers with their names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields the buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """Returns the module of a name with points, as ``"layers.0"``."""
        module: Any = self
        for name in target.split(".") if target else ():
            if name not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no module {name!r}")
            module = module._modules[name]
        return module  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter of a name with points."""
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._parameters[name]  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer of a name with points."""
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._buffers[name]  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module in the place of a name with points; with ``strict`` there must be one."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and name not in owner._modules:
            raise AttributeError(f"{type(owner).__name__} has no module {name!r}")
        owner._modules[name] = module

    # -- states

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Calls a function with every module within this one, itself last, and returns it."""
        check_function("Module.apply", fn, "fn")
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Sets ``training`` of all modules within this one."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Sets ``training`` to False."""
        return self.train(False)

    def share_memory(self) -> Self:
        """Returns the module: there is one process, in which all threads share it."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether the parameters are trained."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients to None, or to zeros where ``set_to_none`` is False."""
        for parameter in self.parameters():
            clear_gradient(parameter, set_to_none)

    def _converted(self, convert: Callable[[Tensor], Tensor]) -> Self:
        """Gives all parameters and buffers other values; they stay the same objects."""
        for x in [*self.parameters(), *self.buffers()]:
            with no_grad():
                new = convert(x.detach())
            kept = gradient_of(x) if x.is_leaf else None
            rebind(x, new, "a conversion of the module")
            if kept is not None:
                with no_grad():
                    x.grad = convert(kept)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, or casts those of floats to a dtype.

        Arguments are those of `Tensor.to`. Gradients are cleared.
        """

        def convert(x: Tensor) -> Tensor:
            moved = x.to(*args, **kwargs)
            return moved if x.dtype.kind in "fcV" else x.to(device=moved.device)

        return self._converted(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device, as `to` does; values stay."""
        return self.to(device)

    def _cast(self, dtype: Any) -> Self:
        return self._converted(lambda x: x.to(dtype_named(dtype)) if x.dtype.kind in "fV" else x)

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers to a dtype."""
        return self._converted(lambda x: x.to(dtype_named(dst_type)))

    def cuda(self, device: int | None = None) -> Self:
        """Moves parameters and buffers to a GPU."""
        return self._converted(lambda x: x.cuda(device))

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self._converted(lambda x: x.cpu())

    def float(self) -> Self:
        """Casts parameters and buffers of floats to float32."""
        return self._cast(np.float32)

    def double(self) -> Self:
        """Casts parameters and buffers of floats to float64."""
        return self._cast(np.float64)

    def half(self) -> Self:
        """Casts parameters and buffers of floats to float16."""
        return self._cast(np.float16)

    def bfloat16(self) -> Self:
        """Casts parameters and buffers of floats to bfloat16."""
        return self._cast("bfloat16")

    # -- text

    def extra_repr(self) -> str:
        """Returns what stands between the parentheses; a subclass has its own."""
        return ""

    def __repr__(self) -> str:
        lines = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        inner = "\n  ".join([*([extra] if extra else []), *lines])
        return f"{type(self).__name__}(\n  {inner}\n)"


def check_name(
    module: Module, name: str, table: dict[str, Any], value: object, kind: type
) -> None:
    """Checks the name of an attribute that is entered into a table, and what it is.

    Raises:
        KeyError: it has a point, or an attribute that is not in the table has it.
        AttributeError: the module's ``__init__`` has not run.
        TypeError: it is not of the kind, nor None.
    """
    if "_parameters" not in module.__dict__:
        raise AttributeError(f"{type(module).__name__}: call super().__init__() first")
    if not name or "." in name:
        raise KeyError(f"the name of an attribute is not empty and has no point: {name!r}")
    if name not in table and hasattr(module, name):
        raise KeyError(f"{type(module).__name__} has an attribute {name!r} already")
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name!r} is a {kind.__name__} or None, not a {type(value).__name__}")
