"""NumPy's facts and methods of ufuncs, for elementwise primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from ...backends.annotations import Axis, DType, DTypeLike, Number
from ...backends.errors.public_functions import wrap_methods
from .annotations import ArrayLike
from .array import Array
from .errors import ImmutableArrayError, failure, refuse_out
from .registry import registry
from .shape_dtype import ShapeDtype
from .ufunc_methods import UFUNC_METHODS

if TYPE_CHECKING:
    from .array_annotations import Casting

__all__ = [
    *("FACTS", "BinaryMethods", "LoopSignature", "Ufunc", "check_casting", "check_order"),
    *("checked_axes", "loop_of"),
]

# The loop of a NumPy ufunc: a text such as ``"dd->d"``, or dtypes, of which None is not fixed.
LoopSignature: TypeAlias = str | tuple[DTypeLike | None, ...] | None
# Python's numbers, whose dtypes are weak.
PYTHON_TYPES = (int, float, complex)
# Attributes that NumPy's ufuncs have.
FACTS = ("identity", "nargs", "nin", "nout", "ntypes", "signature", "types")


def check_casting(
    name: str, known: list[ShapeDtype], dtype: DTypeLike | None, casting: Casting
) -> None:
    """Checks that a ufunc casts operands no further than a rule of NumPy's allows.

    Raises:
        TypeError: an operand would be cast further.
        ValueError: there is no such rule.
    """
    np.can_cast(np.int8, np.int8, casting)
    ufunc: Any = np.__dict__.get(name)
    if isinstance(ufunc, np.ufunc) and all(x.dtype.kind in "biufc" for x in known):
        more: Any = {} if dtype is None else {"signature": (*[None] * len(known), np.dtype(dtype))}
        if ufunc.signature is not None:
            ufunc.resolve_dtypes((*[x.dtype for x in known], None), casting=casting, **more)
            return
        # The ufunc is called on empty arrays: `resolve_dtypes` reads foreign memory for Python's
        # types under "equiv". Every dtype has a one.
        args: list[Any] = [
            x.weak(1) if x.weak in PYTHON_TYPES else np.empty(0, x.dtype) for x in known
        ]
        if all(x.weak in PYTHON_TYPES for x in known):
            args = [np.empty(0, x.dtype) for x in known]
        ufunc(*args, casting=casting, **more)


def check_order(name: str, order: str | None) -> None:
    """Checks a layout in memory, which changes nothing here.

    Raises:
        ValueError: there is no such layout.
    """
    if order is not None and order not in ("K", "C", "F", "A"):
        raise ValueError(f"{name}: order={order!r}: it is 'K', 'C', 'F' or 'A'; leave it out")


def checked_axes(
    primitive: Ufunc, axes: Sequence[Any] | None, axis: int | None, keepdims: bool | None
) -> tuple[str, Sequence[Any]]:
    """Returns the signature of a product, and which axes its operands have for it.

    Raises:
        TypeError: it works on elements, or it has no such option.
    """
    signature = primitive.signature
    name = primitive.name
    if signature is None or axes is None or axis is not None or keepdims is not None:
        given = "axes" if axes is not None else "axis" if axis is not None else "keepdims"
        fix = f"np.{name}.reduce has axis= and keepdims=" if primitive.nin == 2 else "leave it out"
        if signature is not None:
            fix = "axes=[(-2, -1), (-2, -1), (-2, -1)] names them"
        raise TypeError(f"{name}: {given}= is not there: {fix}")
    return signature.replace("?", ""), axes


def loop_of(
    name: str,
    known: list[ShapeDtype],
    signatures: tuple[LoopSignature, LoopSignature],
    dtype: DTypeLike | None,
    casting: Casting | None,
) -> tuple[list[DType], DType]:
    """Returns the dtypes to which operands are cast, and that of the result.

    Args:
        name, known: the ufunc, and the operands' types.
        signatures: what was given as ``signature`` and as ``sig``; only one may be given.
        dtype: None; it cannot be given as well.
        casting: how far operands may be cast; None for ``same_kind``.

    Raises:
        TypeError: NumPy has no such loop, or the operands may not be cast to it.
    """
    given = [x for x in signatures if x is not None]
    ufunc: Any = np.__dict__.get(name)
    if len(given) > 1 or dtype is not None:
        raise TypeError(f"{name}: signature=, sig= and dtype= say the same: give one of them")
    if not isinstance(ufunc, np.ufunc) or any(x.dtype.kind not in "biufc" for x in known):
        raise TypeError(f"{name}: signature= is for NumPy's functions and dtypes: use dtype=")
    # NumPy would read foreign memory for Python's types under "equiv".
    numbers = () if casting == "equiv" else PYTHON_TYPES
    types = [x.weak if x.weak in numbers else x.dtype for x in known]
    loop: Any = given[0]
    *kinds, result = ufunc.resolve_dtypes(
        (*types, None), signature=loop, casting=casting or "same_kind"
    )
    return kinds, result


class Ufunc:
    """Facts that NumPy's ufuncs have as attributes, and ``at``, which is refused."""

    arity: int
    name: str

    @property
    def nin(self) -> int:
        """The number of operands."""
        return self.arity

    @property
    def nout(self) -> int:
        """The number of results."""
        return 1

    @property
    def nargs(self) -> int:
        """The number of operands and results."""
        return self.arity + 1

    @property
    def identity(self) -> Number | None:
        """The operand that changes nothing, or None."""
        return getattr(np.__dict__.get(self.name), "identity", None)

    @property
    def signature(self) -> str | None:
        """The axes of a product such as `matmul`; None of what is done to every element."""
        return getattr(np.__dict__.get(self.name), "signature", None)

    @property
    def types(self) -> list[str]:
        """NumPy's characters of the dtypes for which it is computed."""
        return list(getattr(np.__dict__.get(self.name), "types", ()))

    @property
    def ntypes(self) -> int:
        """The number of these."""
        return len(self.types)

    def at(self, x: ArrayLike, indices: Any, *values: ArrayLike) -> NoReturn:
        """Refuses to write into an array.

        Raises:
            ImmutableArrayError: always.
        """
        fix = f"x = x.at[i].apply(np.{self.name})"
        if values:
            fix = (
                f"x = x.at[i].set(np.{self.name}(x[i], y)); .add, .multiply, .min and .max "
                "take repeated indices"
            )
        raise failure(
            ImmutableArrayError,
            f"{self.name}.at would write into its first argument, but arrays are immutable",
            fix=fix,
        )

    def reduce(self, x: ArrayLike, /, *args: Any, **options: Any) -> Array:
        """Refuses to put elements together, as all methods but those of two operands.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"{self.name}.reduce: only a function of two operands puts elements together; "
            f"np.{self.name}(x) is done to each"
        )

    accumulate = reduceat = outer = reduce


class BinaryMethods(Ufunc):
    """The methods of NumPy's ufuncs of two operands that have a meaning for immutable arrays."""

    def reduce(self, x: ArrayLike, /, axis: Axis = 0, **options: Any) -> Array:
        """Returns what is left when neighbours along axes are put together, until one is left.

        Args:
            x: an array.
            axis: along which axes; None stands for all.
            options: ``dtype``, in which it is computed; ``keepdims``; ``initial``, with what it
                begins; ``where``, which elements count.

        An operation that cares about the order, such as ``subtract``, goes from the first element
        to the last.

        >>> registry.add.reduce([[1, 2], [3, 4]]).tolist()
        [4, 6]
        """
        return self._method("reduce", x, axis=axis, **options)

    def accumulate(self, x: ArrayLike, /, axis: int = 0, **options: Any) -> Array:
        """Returns what all elements up to each place along an axis are put together to.

        >>> registry.maximum.accumulate([1, 3, 2]).tolist()
        [1, 3, 3]
        """
        return self._method("accumulate", x, axis=axis, **options)

    def reduceat(self, x: ArrayLike, /, indices: ArrayLike, axis: int = 0, **options: Any) -> Array:
        """Returns what is left of parts along an axis, each from one index up to the next.

        Args:
            x: an array.
            indices: where the parts begin, known integers. Where the next is not larger, the part
                is one element.
            axis: along which axis.
            options: ``dtype``, in which it is computed.

        >>> registry.add.reduceat([1, 2, 3, 4], [0, 3, 1]).tolist()
        [6, 4, 9]
        """
        return self._method("reduceat", x, indices, axis=axis, **options)

    def outer(self, x: ArrayLike, y: ArrayLike, /, **options: Any) -> Array:
        """Returns what every element of one array gives with every one of another.

        >>> registry.subtract.outer([1, 2], [0, 1]).tolist()
        [[1, 0], [2, 1]]
        """
        return self._method("outer", x, y, **options)

    def _method(self, method: str, x: ArrayLike, *args: Any, **options: Any) -> Array:
        name = f"{self.name}.{method}"
        refuse_out(name, options.pop("out", None))
        if self.signature is not None and method != "outer":
            raise RuntimeError(f"{name} is not there: {self.name} puts no two elements together")
        out: Array = UFUNC_METHODS[method](self, self.name, registry.asarray(x), *args, **options)
        return out


# Messages put the function's own name in the place of this one.
wrap_methods(Ufunc, "ufunc", ("at",))
wrap_methods(BinaryMethods, "ufunc")
