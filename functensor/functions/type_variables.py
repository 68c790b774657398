"""The types in signatures of transformations, which show editors what goes in and comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from ..primitives.core.annotations import ArrayLike, Number

__all__ = ["Aux", "Batched", "Derivative", "NumberLike", "P", "PullBack", "R", "T", "typed_as"]

# The parameters of the function that is transformed, and what it returns.
P = ParamSpec("P")
R = TypeVar("R")
# The argument that it is differentiated by. The bound lets lambdas use it in any way.
T = TypeVar("T", bound=Any)
# The extras that it returns beside, with ``has_aux``.
Aux = TypeVar("Aux")
# Values in whose place a transformation returns an ``Array``.
NumberLike: TypeAlias = np.ndarray[Any, Any] | np.generic | Number
PullBack: TypeAlias = Callable[[Any], tuple[Any, ...]]

if TYPE_CHECKING:
    from typing import Concatenate

    from ..primitives.core.annotations import AnyFunction, AnyTensor, Plain
    from ..primitives.core.array import Array

    Q = ParamSpec("Q")
    # A function of arrays that keeps its signature.
    F = TypeVar("F", bound=AnyFunction)
    SomeTensor = TypeVar("SomeTensor", bound=AnyTensor)
    Argument = TypeVar("Argument", contravariant=True)
    OfNumbers = TypeVar("OfNumbers", covariant=True)
    OfTree = TypeVar("OfTree", covariant=True)
    Out = TypeVar("Out", covariant=True)

    class Derivative(Protocol[Argument, P, OfNumbers, OfTree]):
        """A function with the derivative by its first argument among its results.

        That is an array where the argument is a number or an array of NumPy's, and a tree like the
        argument otherwise. The first overload is for functions without annotations: lambdas.
        """

        __name__: str

        def __get__(self, instance: object, owner: type | None = None) -> Any: ...

        @overload
        def __call__(
            self: Derivative[object, P, Any, OfTree], x: Any, /, *args: P.args, **kwargs: P.kwargs
        ) -> OfTree: ...

        @overload
        def __call__(
            self: Derivative[bool, P, OfNumbers, Any]
            | Derivative[np.ndarray[Any, Any], P, OfNumbers, Any],
            x: ArrayLike, /, *args: P.args, **kwargs: P.kwargs,
        ) -> OfNumbers: ...  # fmt: skip

        @overload
        def __call__(self, x: Argument, /, *args: P.args, **kwargs: P.kwargs) -> OfTree: ...

    class Batched(Protocol[P, Out]):
        """A function of batches: arrays, where that of an example takes and returns numbers."""

        __name__: str

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> Batched[P, Out]: ...

        @overload
        def __get__(
            self: Batched[Concatenate[Any, Q], Out], instance: object, owner: type | None = None
        ) -> Callable[Q, Out]: ...

        @overload
        def __call__(self: Batched[P, NumberLike], *args: Any, **kwargs: Any) -> Any: ...

        @overload
        def __call__(
            self: Batched[Concatenate[Plain, Q], Array],
            x: SomeTensor, /, *args: Q.args, **kwargs: Q.kwargs,
        ) -> SomeTensor: ...  # fmt: skip

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Out: ...
else:
    # At run time, signatures are read with it.
    Batched = Callable


def typed_as(model: T) -> Callable[[Callable[..., Any]], T]:
    """Returns a decorator that changes nothing; type checkers read the model's overloads."""

    def decorator(fun: Callable[..., Any]) -> Any:
        return fun

    return decorator
