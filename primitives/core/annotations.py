"""The types of operands and results, for signatures, and the registry as typed code sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, cast

import numpy as np

from ...backends.annotations import Buffer, Number
from .array import Array
from .registry import registry

__all__ = [
    "ArrayLike", "Number", "Operations", "Prepared", "Value", "Values", "of_array", "of_arrays",
    "of_sequence", "operations",
]  # fmt: skip

# An argument of a function of arrays: an array of ours or another's, a number, or nested lists.
ArrayLike: TypeAlias = Array | Buffer | np.generic | Number | Sequence[Any]
# A call as a primitive's ``prepare`` returns it: its operands and its static parameters.
Prepared: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
# A value that a trace works on: an array of its parent's level, at the bottom a buffer or a number.
Value: TypeAlias = Array | Buffer | np.generic | Number
# A flat list of what calls take and give: values, None where one is missing, and residuals.
Values: TypeAlias = list[Any]


if TYPE_CHECKING:
    from typing import Concatenate, Literal, TypeVar, overload

    from typing_extensions import ParamSpec as ParamSpecWithDefault

    class ImmutableArray(Protocol):
        """An ``Array`` that is no ``Tensor``."""

        mutable: Literal[False]

    class AnyTensor(Protocol):
        """A ``Tensor``, as far as modules below it know one."""

        mutable: Literal[True]

    # An operand that is no tensor.
    Plain: TypeAlias = ImmutableArray | Buffer | np.generic | Number | Sequence[Any]
    # A result is a tensor where an operand is one.
    T = TypeVar("T", bound=AnyTensor)
    # The parameters of a function, and those behind its operands.
    P = ParamSpecWithDefault("P", default=...)
    Q = ParamSpec("Q")
    F = TypeVar("F")
    # The signature of a primitive, if it is not that of its operands.
    Prepare: TypeAlias = Callable[P, Prepared] | None

    # mypy gives transformations the first overload of a function: the one for arrays.
    class AnyFunction(Protocol):
        """A function of arrays whose parameters are not known."""

        _operands: int

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    class FunctionOfArray(AnyFunction, Protocol[P]):
        """A function whose first argument is an array, a tensor, or what makes one."""

        _operands: Literal[1]

        @overload
        def __call__(
            self: FunctionOfArray[Concatenate[Any, Q]], x: Plain, /, *args: Q.args, **kw: Q.kwargs
        ) -> Array: ...
        @overload
        def __call__(
            self: FunctionOfArray[Concatenate[Any, Q]], x: T, /, *args: Q.args, **kw: Q.kwargs
        ) -> T: ...
        @overload
        def __call__(self, *args: P.args, **kw: P.kwargs) -> Array: ...

    class FunctionOfArrays(AnyFunction, Protocol[P]):
        """A function whose first two arguments are arrays, tensors, or what makes them."""

        _operands: Literal[2]

        @overload
        def __call__(
            self: FunctionOfArrays[Concatenate[Any, Any, Q]],
            x: Plain, y: Plain, /, *args: Q.args, **kw: Q.kwargs,
        ) -> Array: ...
        @overload
        def __call__(
            self: FunctionOfArrays[Concatenate[Any, Any, Q]],
            x: ArrayLike, y: T, /, *args: Q.args, **kw: Q.kwargs,
        ) -> T: ...
        @overload
        def __call__(
            self: FunctionOfArrays[Concatenate[Any, Q]], x: T, /, *args: Q.args, **kw: Q.kwargs
        ) -> T: ...
        @overload
        def __call__(self, *args: P.args, **kw: P.kwargs) -> Array: ...

    class FunctionOfSequence(AnyFunction, Protocol[P]):
        """A function whose first argument is a sequence of arrays, of tensors, or of others."""

        @overload
        def __call__(
            self: FunctionOfSequence[Concatenate[Any, Q]],
            x: Sequence[Plain] | ImmutableArray, /, *args: Q.args, **kw: Q.kwargs,
        ) -> Array: ...
        @overload
        def __call__(
            self: FunctionOfSequence[Concatenate[Any, Q]],
            x: Sequence[T] | T, /, *args: Q.args, **kw: Q.kwargs,
        ) -> T: ...
        @overload
        def __call__(self, *args: P.args, **kw: P.kwargs) -> Array: ...

    ArrayFunction: TypeAlias = FunctionOfArray[P] | FunctionOfArrays[P]

    class RegisteredFunction(Protocol):
        """A primitive, or a function that is made of primitives."""

        impl: Callable[..., Buffer]

        def __call__(self, *operands: Any, **params: Any) -> Array:
            """Applies it."""

        def bind(self, args: Sequence[Any], params: dict[str, Any]) -> Array:
            """Applies a primitive to operands and parameters that are prepared already."""

    class Operations(Protocol):
        """The primitives and functions of the registry, which return arrays."""

        @overload
        def add_function(self, function: Callable[P, Array]) -> FunctionOfArray[P]: ...
        @overload
        def add_function(self, function: F) -> F: ...

        def __getattr__(self, name: str) -> RegisteredFunction: ...

        def __getitem__(self, name: str) -> Any: ...
else:
    # At run time, signatures are read with these.
    P = ParamSpec("P")
    Prepare = Callable[P, Prepared] | None


operations = cast("Operations", registry)


def of_array(function: Callable[P, Array]) -> FunctionOfArray[P]:
    """Tells type checkers that a function of a tensor gives a tensor."""
    return cast("FunctionOfArray[P]", function)


def of_arrays(function: Callable[P, Array]) -> FunctionOfArrays[P]:
    """Tells type checkers that a function of two operands gives a tensor where one of them is."""
    return cast("FunctionOfArrays[P]", function)


def of_sequence(function: Callable[P, Array]) -> FunctionOfSequence[P]:
    """Tells type checkers that a function of a list of tensors gives a tensor."""
    return cast("FunctionOfSequence[P]", function)
