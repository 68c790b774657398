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


    def pop(self, key: int | slice) -> Any:
        """Takes a module out, and returns it."""
        found = self[key]
        del self[key]
        return found


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

    def __add__(self, other: Sequential) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential and {type(other).__name__} are not added")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential and {type(other).__name__} are not added")
        return self.extend(list(other))

    def __mul__(self, other: int) -> Any:
        return Sequential(*list(self) * repeats_given(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (repeats_given(other) - 1))


def repeats_given(count: Any) -> int:
    """Returns how often modules are repeated."""
    if not isinstance(count, int):
        raise TypeError(f"a Sequential is repeated a number of times, not {count!r}")
    if count <= 0:
        raise ValueError(f"a Sequential is repeated at least once, not {count} times")
    return count


class ModuleList(Numbered):
    """A list of modules, whose parameters count.

    Args:
        modules: some to begin with.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __repr__(self) -> str:
        # Neighbours that are shown alike are shown once.
        groups: list[list[Any]] = []
        for i, module in enumerate(self):
            if not groups or repr(module) != groups[-1][2]:
                groups.append([i, i, repr(module)])
            groups[-1][1] = i
        lines = [
            f"({first}): {text}" if first == last
            else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in groups
        ]  # fmt: skip
        inner = "".join(["\n  " + line.replace("\n", "\n  ") for line in lines])
        return f"{type(self).__name__}({inner}\n)" if lines else f"{type(self).__name__}()"

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])


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

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int | slice) -> Any:
        found = list(self._parameters.values())[index]
        return type(self)(found) if isinstance(index, slice) else found

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

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._parameters)

    def __or__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        out = ParameterDict(dict(other))
        out.update(self)
        return out

    def __ior__(self, other: Mapping[str, Any] | ParameterDict) -> Self:
        self.update(other)
        return self

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a parameter, or the default where there is none of this name."""
        return self._parameters.get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Returns a parameter; where there is none of this name the default is entered."""
        if key not in self:
            self[key] = default
        return self._parameters[key]

    def pop(self, key: str) -> Parameter:
        """Takes a parameter out, and returns it."""
        return self._parameters.pop(key)  # type: ignore[no-any-return]

    def popitem(self) -> tuple[str, Parameter]:
        """Takes the last parameter out, and returns its name and it."""
        return self._parameters.popitem()

    def clear(self) -> None:
        """Takes all parameters out."""
        self._parameters.clear()

    def copy(self) -> ParameterDict:
        """Returns another dictionary of the same parameters."""
        return ParameterDict(dict(self._parameters))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Returns another dictionary, of a parameter made of the default for each name."""
        return ParameterDict(dict.fromkeys(keys, default))


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
