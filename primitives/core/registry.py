"""The table of all primitives by name, through which arrays reach them without importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

__all__ = ["OLD_NAMES", "PRIMITIVES", "Registry", "operand", "registry"]

Registered = TypeVar("Registered", bound=Callable[..., Any])

# Names that primitives had when earlier versions pickled them, or programs with them.
OLD_NAMES = {
    "affine_normalize_slope": "affine_normalize_grad",
    "betainc_slope": "betainc_grad",
    "cross_entropy_slope": "cross_entropy_grad",
    "gammainc_slope": "gammainc_grad",
    "gelu_derivative": "gelu_grad",
    "gelu_slope": "gelu_unit_grad",
    "log_ndtr_slope": "log_ndtr_grad",
    "normalize_slope": "normalize_grad",
    "relu_derivative": "relu_grad",
    "sigmoid_derivative": "sigmoid_grad",
    "silu_derivative": "silu_grad",
    "softmax_derivative": "softmax_grad",
    "softplus_derivative": "softplus_grad",
    "tanh_derivative": "tanh_grad",
}


class Registry:
    """Maps names to primitives: ``registry.sin``, ``registry["sin"]``, iteration.

    Besides primitives it holds the functions of NumPy that are made of them (``mean``), so that
    an array's methods and NumPy's own functions find both in one place.
    """

    def __init__(self) -> None:
        self._primitives: dict[str, Any] = {}

    def add_primitive(self, primitive: Any) -> None:
        """Enters a primitive; its name must be new."""
        if primitive.name in self._primitives:
            raise ValueError(f"a primitive named {primitive.name!r} exists already")
        self._primitives[primitive.name] = primitive
        setattr(self, primitive.name, primitive)

    def add_function(self, function: Registered) -> Registered:
        """Enters a function that is made of primitives, under its own name, and returns it.

        It may be the public form of the primitive of that name, which stays ``registry[name]``.

        Raises:
            ValueError: there is another function of that name.
        """
        name = function.__name__
        if self.find(name) is not self._primitives.get(name):
            raise ValueError(f"a function named {name!r} exists already")
        setattr(self, name, function)
        return function

    def remove(self, name: str) -> None:
        """Takes a primitive out again (for tests that declare their own)."""
        del self._primitives[name]
        delattr(self, name)

    def find(self, name: str) -> Any:
        """Returns the primitive or function of that name, or None."""
        return self.__dict__.get(name)

    def __reduce__(self) -> str:
        # There is one: copies and pickles refer to it by its name in this module.
        return "registry"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no primitive named {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._primitives[name]

    def __contains__(self, name: object) -> bool:
        return name in self._primitives

    def __iter__(self) -> Iterator[Any]:
        return iter(self._primitives.values())

    def __len__(self) -> int:
        return len(self._primitives)


registry = Registry()
# Primitives and functions by name, as they are once all modules have declared theirs.
PRIMITIVES = registry.__dict__


def operand(x: Any) -> Any:
    """Returns nested lists as an array, whatever is traced in them included, and all else as is."""
    return registry.asarray(x) if isinstance(x, (list, tuple, range)) else x
