"""NumPy's interface for the arrays of another module: the floors above ask it of all buffers.

CuPy's arrays have it by themselves. Arrays of other modules are put into a `ForeignBuffer`, and
their functions are called through a `NumpyLike`, under NumPy's names and with NumPy's promotion. A
backend for such a module subclasses both, as ``examples/backend.py`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..annotations import DType, DTypeLike, Shape, Shaped
from ..devices import device_of
from ..dtypes import result_type
from ..protocol import DeviceError, loaded

__all__ = ["ForeignBuffer", "Lacking", "NumpyLike"]


class Lacking(NotImplementedError, AttributeError):
    """The other module has no function for one of NumPy's or SciPy's."""


# Python's numbers whose classes ufuncs resolve to dtypes by themselves.
RESOLVED_NUMBERS = frozenset({int, float, complex})
# Functions that compute in the dtype of their result, as NumPy's do.
SUMMING = frozenset({"cumprod", "cumsum", "mean", "prod", "sum", "add.reduce"})
# Functions that take any axes; those of other modules take one.
REDUCING = frozenset(
    {
        "add.reduce", "all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min",
        "prod", "sum",
    }
)  # fmt: skip
# Functions whose operands promote together, and how many operands stand in front of those.
JOINING = {"concatenate": 0, "einsum": 1, "stack": 0}
# Functions that make arrays of numbers: NumPy computes them, and the results are copied.
MAKING = frozenset({"arange", "empty", "eye", "full", "linspace", "ones", "zeros"})
# Attributes that an array of NumPy's with the same shape and dtype has too.
OF_SHAPE = frozenset({"flags", "itemsize"})
# Attributes that are functions of an array, by the functions' names.
ATTRIBUTES = {"T": "transpose", "imag": "imag", "real": "real"}
# Methods that return Python's numbers.
ON_HOST = frozenset({"item", "tolist"})


class ForeignBuffer(np.lib.mixins.NDArrayOperatorsMixin, Shaped):
    """An array of another module, with the operators, attributes and methods of NumPy's.

    Attributes:
        array: the other module's array.
        xp: the array module whose functions compute with it; a subclass says which.
    """

    __slots__ = ("__weakref__", "array")
    array: Any
    xp: ClassVar[NumpyLike]

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def dtype(self) -> DType:
        """NumPy's name for the type of its elements."""
        return self.xp.dtype_of(self.array)  # type: ignore[no-any-return]

    @property
    def shape(self) -> Shape:
        """The length of every axis."""
        return tuple(self.array.shape)

    @property
    def mT(self) -> Any:
        """The array with its last two axes swapped."""
        return self.xp.swapaxes(self, -1, -2)

    def __getitem__(self, key: Any) -> Any:
        return self.xp.wrap(self.xp.element(self.array, self.xp.unwrap(key)))

    def __setitem__(self, key: Any, value: Any) -> None:
        array, key = self.xp.place(self.array, self.xp.unwrap(key))
        if array is not self.array:
            raise Lacking(f"{self.xp.__name__} does not write where steps are negative")
        array[key] = self.xp.to(self.xp.unwrap(value), self.dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in OF_SHAPE:
            return getattr(np.broadcast_to(np.zeros((), self.dtype), self.shape), name)
        if name in ON_HOST:
            return getattr(self.xp.to_host(self.array), name)
        if name in ATTRIBUTES:
            return getattr(self.xp, ATTRIBUTES[name])(self)
        return partial(getattr(self.xp, name), self)

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(self.xp.to_host(self.array).__index__())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Lacking(f"NumPy itself does not read {self.xp.__name__}'s arrays")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return getattr(self.xp, function.__name__)(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        known = type(self) | np.ndarray | np.generic | int | float | complex
        if method != "__call__" or not all(isinstance(x, known) for x in args):
            return NotImplemented
        out = kwargs.pop("out", None)
        result = getattr(self.xp, ufunc.__name__)(*args, **kwargs)
        if out is None:
            return result
        out[0][...] = result
        return out[0]


class NumpyLike:
    """An array module with NumPy's functions: a subclass says how they are computed.

    Args:
        buffer: the class of its buffers, which functions return.
        dtypes: the other module's dtypes, by NumPy's.
    """

    __name__ = "another"

    def __init__(self, buffer: type[ForeignBuffer], dtypes: Mapping[DType, Any]) -> None:
        self.ndarray = buffer
        self.dtypes = dtypes
        self.named = {dtype.name: theirs for dtype, theirs in dtypes.items()}
        self.numpys = {theirs: ours for ours, theirs in dtypes.items()}
        buffer.xp = self
        self.linalg, self.fft = Namespace(self, "linalg"), Namespace(self, "fft")
        self.scipy = Namespace(self, "scipy")

    # -- a subclass has these

    def find(self, name: str) -> Callable[..., Any] | None:
        """Returns the function for NumPy's of that name, which takes the other module's arrays.

        Args:
            name: as NumPy has it, or SciPy: ``linalg.det``, ``special.erf``.
        """
        raise NotImplementedError

    def cast(self, array: Any, dtype: Any) -> Any:
        """Returns an array of the other module's in one of its dtypes."""
        raise NotImplementedError

    def from_host(self, array: Any) -> Any:
        """Returns a copy of NumPy's array as one of the other module's."""
        raise NotImplementedError

    def to_host(self, array: Any) -> Any:
        """Returns an array of the other module's as NumPy's."""
        raise NotImplementedError

    # -- they follow from those

    def wrap(self, x: Any) -> Any:
        """Returns a result with its arrays as buffers."""
        if isinstance(x, tuple | list):
            return type(x)(tuple(map(self.wrap, x)))
        return self.ndarray(x) if hasattr(x, "dtype") else x

    def unwrap(self, x: Any) -> Any:
        """Returns an argument with its buffers and dtypes, also those in lists, as the module's."""
        if type(x) is self.ndarray:
            return x.array
        if isinstance(x, np.ndarray | np.generic):
            return self.from_host(np.asarray(x))
        if loaded(type(x)) is not None:
            raise DeviceError(f"an array of {type(x).__module__} on {device_of(x)}")
        if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)):
            return self.dtypes[np.dtype(x)]
        if type(x) is str and x in self.named:
            return self.named[x]
        return type(x)(map(self.unwrap, x)) if type(x) in (list, tuple) else x

    def dtype_of(self, array: Any) -> Any:
        """Returns NumPy's dtype of an array of the other module's; a weak number's class."""
        if type(array) in RESOLVED_NUMBERS:
            return type(array)
        return self.numpys[array.dtype] if hasattr(array, "dtype") else np.asarray(array).dtype

    def to(self, array: Any, dtype: DTypeLike) -> Any:
        """Returns an array of the other module's, or a number, in one of NumPy's dtypes."""
        if not hasattr(array, "dtype"):
            return self.from_host(np.asarray(array, dtype))
        return self.cast(array, self.dtypes[np.dtype(dtype)])

    def together(self, *arrays: Any) -> list[Any]:
        """Returns arrays of the other module's, and numbers, in the dtype to which they promote."""
        kinds = [x if type(x) in RESOLVED_NUMBERS else self.dtype_of(x) for x in arrays]
        return [self.to(x, result_type(*kinds)) for x in arrays]

    def place(self, array: Any, key: Any) -> tuple[Any, tuple[Any, ...]]:
        """Returns an array and a key without what few modules' indexing has.

        Axes are flipped in place of negative steps. Integers beside index arrays, with which they
        broadcast in NumPy, become arrays.
        """
        keys = key if type(key) is tuple else (key,)
        mask = self.named["bool"]
        counts = [
            len(k.shape) if getattr(k, "dtype", None) is mask else int(k is not None) for k in keys
        ]
        rest = len(array.shape) - sum(n for k, n in zip(keys, counts) if k is not Ellipsis)
        beside = any(getattr(k, "shape", ()) for k in keys)
        axis, out = 0, []
        for k, count in zip(keys, counts):
            if k is Ellipsis:
                out += [slice(None)] * rest
                axis += rest
                continue
            if type(k) is slice and k.step is not None and k.step < 0:
                length, places = array.shape[axis], range(array.shape[axis])[k]
                array = self.flip(self.ndarray(array), axis).array
                start, stop = (places[0], places[-1]) if places else (length - 1, length)
                k = slice(length - 1 - start, length - stop, -k.step)
            elif beside and isinstance(k, int):
                k = self.from_host(np.array([k]))
            out.append(k)
            axis += count
        return array, tuple(out)

    def element(self, array: Any, key: Any) -> Any:
        """Returns ``array[key]`` of the other module's arrays."""
        array, key = self.place(array, key)
        return array[key]

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        """Returns a number, a list or NumPy's array as a buffer."""
        if type(x) is not self.ndarray:
            return self.ndarray(self.from_host(np.asarray(x, dtype)))
        return x if dtype is None or x.dtype == dtype else self.astype(x, dtype)

    def array(self, x: Any, dtype: Any = None) -> Any:
        """Returns a buffer with memory of its own."""
        return self.copy(self.asarray(x, dtype))

    def astype(self, x: Any, dtype: DTypeLike, copy: bool = True) -> Any:
        """Returns a buffer in another of NumPy's dtypes."""
        return self.ndarray(self.to(x.array, dtype))

    def shape(self, x: Any) -> Shape:
        """Returns the length of every axis."""
        return np.shape(x) if not hasattr(x, "shape") else x.shape

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Returns elements limited from both sides."""
        return self.minimum(self.maximum(self.asarray(x), low), high)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Returns x's elements where a condition holds, y's elsewhere."""
        mask = self.astype(self.asarray(condition), np.bool_).array
        return self.ndarray(self.found("where")(mask, *self.together(*self.unwrap((x, y)))))

    def result_type(self, *operands: Any) -> DType:
        """Returns the dtype to which operands promote together."""
        return result_type(*operands)

    def promoting(
        self, ufunc: Any, function: Callable[..., Any], *args: Any, dtype: Any = None
    ) -> Any:
        """Calls a function of elements with operands and results in the dtypes of NumPy's."""
        arrays = [self.unwrap(x) for x in args]
        kinds = [np.dtype(dtype) if dtype else self.dtype_of(x) for x in arrays]
        if all(kind in RESOLVED_NUMBERS for kind in kinds):
            kinds = [np.dtype(kind) for kind in kinds]
        loop = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
        out = function(*map(self.to, arrays, loop))
        if ufunc.nout == 1:
            return self.ndarray(self.to(out, loop[-1]))
        return tuple(self.ndarray(self.to(*pair)) for pair in zip(out, loop[ufunc.nin :]))

    def in_dtype_of(self, name: str, x: Any, dtype: Any) -> Any:
        """Returns a sum's operand in the dtype of the result."""
        numpys = np.sum if name == "add.reduce" else getattr(np, name)
        return self.astype(x, dtype or numpys(np.ones((1,), x.dtype)).dtype)

    def cumulating(
        self, name: str, function: Callable[..., Any], x: Any, axis: int, dtype: Any = None
    ) -> Any:
        """Calls a function along one axis, with the operand in the result's dtype."""
        return self.wrap(function(self.in_dtype_of(name, x, dtype).array, axis))

    def reducing(
        self,
        name: str,
        function: Callable[..., Any],
        x: Any,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Any:
        """Calls a function of the last axis, in which those to be reduced are joined."""
        x = self.asarray(x)
        if name in SUMMING:
            x = self.in_dtype_of(name, x, dtype)
        axes = [int(a) % x.ndim for a in (range(x.ndim) if axis is None else np.atleast_1d(axis))]
        full, rest = x.shape, [a for a in range(x.ndim) if a not in axes]
        shape = tuple(x.shape[a] for a in rest)
        joined = prod(x.shape[a] for a in axes)
        x = self.reshape(self.transpose(x, (*rest, *axes)), (*shape, joined))
        if keepdims:
            shape = tuple(1 if a in axes else n for a, n in enumerate(full))
        return self.reshape(self.wrap(function(x.array, -1)), shape)

    def joining(self, first: int, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a function whose operands, from a place on or in a list, promote together."""
        args = self.unwrap(args)
        if type(args[0]) in (tuple, list):
            return self.wrap(function(self.together(*args[0]), *args[1:], **options))
        return self.wrap(function(*args[:first], *self.together(*args[first:]), **options))

    def making(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Returns an array that NumPy's function makes of numbers."""
        numbers = [x.item() if type(x) is self.ndarray else x for x in args]
        return self.asarray(function(*numbers, **options))

    def calling(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls any other function."""
        options = {name: self.unwrap(x) for name, x in options.items() if x is not None}
        return self.wrap(function(*self.unwrap(args), **options))

    def found(self, name: str) -> Callable[..., Any]:
        """Returns the other module's function; `Lacking` where there is none."""
        function = self.find(name)
        if function is None:
            raise Lacking(f"{self.__name__} has no {name}")
        return function

    def function(self, name: str) -> Any:
        """Returns the function by NumPy's or SciPy's name, which takes buffers."""
        if name in MAKING:
            return partial(self.making, getattr(np, name))
        function = self.found(name)
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc):
            return Elementwise(self, ufunc, function)
        if name in REDUCING:
            return partial(self.reducing, name, function)
        if name in SUMMING:
            return partial(self.cumulating, name, function)
        if name in JOINING:
            return partial(self.joining, JOINING[name], function)
        return partial(self.calling, function)

    def __getattr__(self, name: str) -> Any:
        numpys: Any = getattr(np, name, None)
        if isinstance(numpys, int | float | type):
            return numpys
        return self.function(name)


class Elementwise:
    """A function of elements, with those methods of NumPy's ufuncs that primitives call."""

    def __init__(self, xp: NumpyLike, ufunc: Any, function: Callable[..., Any]) -> None:
        self.xp, self.ufunc, self.function = xp, ufunc, function

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.xp.promoting(self.ufunc, self.function, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return self.xp.function(f"{self.ufunc.__name__}.{name}")


class Namespace:
    """A namespace of a `NumpyLike`, like ``linalg`` or ``scipy.special``."""

    def __init__(self, xp: NumpyLike, name: str) -> None:
        self.xp, self.name = xp, name

    def __getattr__(self, name: str) -> Any:
        full = f"{self.name}.{name}"
        return Namespace(self.xp, full) if self.name == "scipy" else self.xp.function(full)
