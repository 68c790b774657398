"""Modules that hold others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from ...primitives.core.array import Array
from .module import Module
from .parameter import Parameter

__all__ = [
    "DataParallel", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]  # fmt: skip


class Numbered(Module):
    """Modules under the names "0", "1" and so on."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _place(self, index: int) -> Any:
        """Returns the name of a place, which may be counted from the end."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} modules")
        return list(self._modules)[index]

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._of(dict(list(self._modules.items())[index]))
        return self._modules[self._place(index)]

    def _of(self, modules: dict[str, Any]) -> Self:
        """Returns a module of this kind with some of its modules."""
        out = type(self)()
        for name, module in modules.items():
            out.add_module(name if isinstance(self, Sequential) else str(len(out)), module)
        return out

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[self._place(index)] = module

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [self._place(index)]
        kept = [module for name, module in self._modules.items() if name not in gone]
        numbered = all(name.isdigit() for name in names)
        rest = [name for name in names if name not in gone]
        self._modules.clear()
        for i, module in enumerate(kept):
            self._modules[str(i) if numbered else rest[i]] = module

    def append(self, module: Module) -> Self:
        """Enters a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Enters modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Enters a module before a place."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        for each in modules:
            self.append(each)


class Sequential(Numbered):
    """Modules that are called one after the other, each with the result of that before.

    Args:
        args: modules, or one dictionary of them by names.

    >>> import functensor.torch as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> model(torch.ones(3, 4)).shape
    (3, 1)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self.extend(args)

    def forward(self, input: Array) -> Any:
        """Returns the result of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Numbered):
    """A list of modules, whose parameters count.

    Args:
        modules: some to begin with.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class ModuleDict(Module):
    """A dictionary of modules, whose parameters count.

    Args:
        modules: some to begin with.
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Any) -> None:
        """Enters modules by names."""
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]  # type: ignore[no-any-return]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """Returns the names."""
        return self._modules.keys()

    def values(self) -> Any:
        """Returns the modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Returns names and modules."""
        return self._modules.items()

    def pop(self, key: str) -> Module:
        """Takes a module out, and returns it."""
        return self._modules.pop(key)  # type: ignore[no-any-return]

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()


class ParameterList(Module):
    """A list of parameters.

    Args:
        values: tensors to begin with, which become parameters.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def append(self, value: Any) -> Self:
        """Enters a parameter at the end."""
        self.register_parameter(str(len(self)), as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Enters parameters at the end."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int) -> Parameter:
        return list(self._parameters.values())[index]  # type: ignore[no-any-return]

    def __setitem__(self, index: int, value: Any) -> None:
        self._parameters[list(self._parameters)[index]] = as_parameter(value)


def as_parameter(value: Any) -> Parameter:
    """Returns a tensor as a parameter."""
    return value if isinstance(value, Parameter) else Parameter(value)


class ParameterDict(Module):
    """A dictionary of parameters.

    Args:
        parameters: tensors to begin with, which become parameters.
    """

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Any) -> None:
        """Enters parameters by names."""
        for name, value in dict(parameters).items():
            self[name] = value

    def __getitem__(self, key: str) -> Parameter:
        return self._parameters[key]  # type: ignore[no-any-return]

    def __setitem__(self, key: str, value: Any) -> None:
        self._parameters[key] = as_parameter(value)

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def keys(self) -> Any:
        """Returns the names."""
        return self._parameters.keys()

    def values(self) -> Any:
        """Returns the parameters."""
        return self._parameters.values()

    def items(self) -> Any:
        """Returns names and parameters."""
        return self._parameters.items()


class DataParallel(Module):
    """Holds a module that is to run on several devices; here it runs on its own.

    Args:
        module: the module.
        device_ids: numbers of GPUs, one at most.
        output_device: has no effect.
        dim: has no effect: the batch is not divided.

    Raises:
        ValueError: there are several numbers.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DataParallel: one device, not {list(device_ids)}")
        self.module, self.dim = module, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Returns what the module gives."""
        return self.module(*inputs, **kwargs)
