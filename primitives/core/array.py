"""The immutable array, and the tracer that stands for one inside a transformation.

Every operation is a primitive found in the registry, so that this module knows none of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import ref

import numpy as np

from ...backends.annotations import Buffer, DType, Shape, Shaped
from ...backends.devices import device_of as buffer_device
from ...backends.devices import on_device, to_host
from ...backends.errors.asked_values import asking
from ...backends.errors.public_functions import complain
from ...backends.errors.tracebacks import tidy
from ...backends.errors.value_fixes import item_fix, value_fix
from ...backends.errors.words import INDEXED
from ...backends.frames import calling_module, frame_at, user_code
from ...backends.messages import Running
from .at import At
from .bytecode import stores_item
from .errors import (
    ConcretizationError,
    ImmutableArrayError,
    TracerConversionError,
    describe,
    failure,
    message,
    misfit,
)
from .methods import Methods
from .missing_attributes import ForeignNames
from .numpy_protocols import NumpyProtocols, buffer_error, runs_our_function, unlazy
from .operators import Operators
from .refused_indices import last_refusal
from .shape_dtype import INEXACT

if TYPE_CHECKING:
    from typing import Self

    from .array_annotations import AnyOperand
    from .array_annotations import array_functions as ops
else:
    from .registry import registry as ops

__all__ = ["Array", "Tracer", "concrete", "is_unknown", "unknown_behind"]
PythonNumber = TypeVar("PythonNumber", bool, int, float, complex)
NUMBER_CONVERSIONS = ("complex()", "float()", "int()")
# Conversions of which a derivative is expected; that of int() is zero.
DIFFERENTIABLE = ("complex()", "float()", ".item()", ".tolist()", "pickle")


def index_signature(x: Any, key: Any, /) -> Any:
    """Stands for the signature of ``x[key]``."""


def conversion(kind: Callable[[Any], PythonNumber]) -> Callable[[Any], PythonNumber]:
    """Returns the method by which an array becomes a number of Python's."""
    name = kind.__name__
    asked = f"{name}()"

    def method(self: Array) -> PythonNumber:
        try:
            return kind(concrete(self, asked))
        except Exception as error:
            complain(error, kind, name, (self,), {})
            raise

    method.__name__ = f"__{name}__"
    return method


class Array(Shaped, Operators, Methods, NumpyProtocols, ForeignNames):
    """An immutable n-dimensional array over a backend's buffer.

    Arrays follow NumPy: operators broadcast, dtypes promote as in NumPy 2, indexing gives views.
    ``x.at[i].set(v)`` and its kin stand in place of assignment. Make one with
    ``functensor.numpy.array`` or any other creation function.

    >>> import functensor.numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> (x * 2).at[0].set(0)
    Array([0., 4., 6.], dtype=float64, device='cpu')
    """

    __slots__ = ("__weakref__", "_data")
    _data: Buffer
    mutable: Literal[False]

    # -- what it is

    @property
    def shape(self) -> Shape:
        """The length of every axis."""
        return self._data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._data.dtype  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        """The bytes that one element takes."""
        return self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next along every axis.

        Raises:
            TracerConversionError: it is a traced value, which has no memory.
        """
        buffer = self._data if type(self) is Array else np.asarray(self)
        return buffer.strides

    @property
    def device(self) -> str:
        """The device of the buffer: ``"cpu"``, or a GPU, ``"cuda:0"``."""
        return buffer_device(self._data)

    @property
    def T(self) -> Self:
        """The array with its axes reversed."""
        return ops.transpose(self)

    @property
    def mT(self) -> Self:
        """The array with its last two axes swapped."""
        try:
            if self.ndim < 2:
                fix = "x[:, None] is a vector as a column, x[None] as a row"
                raise misfit(f".mT swaps two axes, but {describe(self)} has fewer", fix)
            return ops.swapaxes(self, -1, -2)
        except Exception as error:
            tidy(error)
            raise

    @property
    def real(self) -> Self:
        """The real part."""
        return ops.real(self)

    @property
    def imag(self) -> Self:
        """The imaginary part."""
        return ops.imag(self)

    @property
    def at(self) -> At[Self]:
        """Updates by index: ``x.at[i].set(v)``, add, multiply, min, max and get."""
        return At(self)

    # -- containers and conversion

    def __getitem__(self, key: Any) -> Self:
        try:
            return ops.index(self, key)
        except Exception as error:
            complain(error, index_signature, INDEXED, (self, key), {}, 1)
            raise

    def __setitem__(self, key: Any, value: AnyOperand | None) -> None:
        try:
            raise failure(
                ImmutableArrayError,
                f"x[...] = value: an array ({self.describe()}) is immutable",
                fix=item_fix(),
            )
        except ImmutableArrayError as error:
            tidy(error)
            raise

    def __delitem__(self, key: Any) -> None:
        try:
            self[key] = None
        except Exception as error:
            tidy(error)
            raise

    def __len__(self) -> int:
        try:
            if not self.shape:
                raise without_axes("len() of", self)
            return self.shape[0]
        except Exception as error:
            tidy(error)
            raise

    def __iter__(self) -> Iterator[Self]:
        try:
            if not self.shape:
                # NumPy iterates over an index that it cannot read, since its value is not known.
                if self.dtype.kind in "iu" and calling_module().startswith("numpy."):
                    concrete(self, AN_INDEX)
                raise without_axes("iteration over", self)
        except Exception as error:
            tidy(error)
            raise
        return (ops.index(self, i) for i in range(self.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return item is not None and bool(ops.any(self == item))

    __bool__ = conversion(bool)
    __int__ = conversion(int)
    __float__ = conversion(float)
    __complex__ = conversion(complex)

    def __index__(self) -> int:
        try:
            return operator.index(to_host(concrete(self, AN_INDEX)))
        except Exception as error:
            tidy(error)
            raise

    def __floor__(self) -> int:
        return int(ops.floor(self))

    def __ceil__(self) -> int:
        return int(ops.ceil(self))

    def __trunc__(self) -> int:
        return int(ops.trunc(self))

    def __round__(self, ndigits: int | None = None) -> int | Self:
        if ndigits is None and not self.shape:
            return int(ops.round(self))
        return ops.round(self, ndigits or 0)

    def item(self, *index: int) -> Any:
        """Returns the only element, or that at an index, as a Python scalar."""
        return to_host(concrete(self, ".item()")).item(*index)

    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python scalars."""
        return concrete(self, ".tolist()").tolist()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        buffer = concrete(self, "pickle")
        return _rebuild, (np.asarray(to_host(buffer)), buffer_device(buffer))

    def describe(self) -> str:
        """Returns dtype and shape as ``float32[2,3]``."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        gone: Any = self._data
        if hasattr(type(gone), "shown"):
            return f"<{gone.shown} {type(self).__name__}, which {gone.to} took>"
        body = np.array2string(np.asarray(to_host(self._data)), separator=", ", prefix="Array(")
        if 0 in self.shape:
            body = f"[], shape={self.shape}"
        elif is_shortened(self):
            body += f", shape={self.shape}"
        return f"Array({body}, dtype={self.dtype}, device={self.device!r})"

    def __str__(self) -> str:
        return str(to_host(self._data)) if not hasattr(type(self._data), "shown") else repr(self)

    def __format__(self, spec: str) -> str:
        return format(to_host(concrete(self, "format()"))[()], spec) if spec else str(self)

    def _repr_html_(self) -> str | None:
        # Few programs run in a notebook.
        from .notebook import html_of

        return html_of(self)


class Tracer(Array):
    """Stands for an array inside a transformation; operations on it are handed to its trace.

    Attributes:
        owner: the trace that it belongs to.
        value: what it stands for at the level of the trace's parent.
    """

    __slots__ = ()
    owner: Any
    value: Any

    # True where the caller's value is behind it, so that Python may branch on it.
    concrete = True
    # True where the value is computed once it is asked for; it then has no derivative to lose.
    lazy = False

    @property
    def shape(self) -> Shape:
        return np.shape(self.value) if not hasattr(self.value, "shape") else self.value.shape

    @property
    def dtype(self) -> DType:
        if hasattr(self.value, "dtype"):
            return self.value.dtype  # type: ignore[no-any-return]
        return np.dtype(type(self.value))

    @property
    def device(self) -> str:
        value = self.value
        return value.device if isinstance(value, Array) else buffer_device(value)

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            code = user_code() or "hash()"
            concrete(self, code, KEY_FIX)
            raise failure(
                TypeError,
                f"{code} asked for the hash of {self.describe()}{self.dependence()}: an array has "
                "none",
                fix="ft.value(x).item() is a number, which can be a key",
            )
        except Exception as error:
            tidy(error)
            raise

    def origin(self) -> str:
        """Returns what made the tracer, for messages."""
        return "made by a transformation"

    def dependence(self) -> str:
        """Returns which arguments the value depends on, for messages."""
        return ""

    def is_known(self) -> bool:
        """Says whether Python can ask for the value."""
        return unknown_behind(self) is None

    def under(self) -> str:
        """Returns the transformations that run, with its own among them, for messages.

        Raises:
            EscapedTracerError: its own is over, which is then what has to be told.
        """
        if not self.owner.alive:
            self.owner.leave(self)
        return Running.stack() or self.owner.stack()

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.describe()} under {self.owner.stack()}>"

    __str__ = __repr__

    def _repr_html_(self) -> str | None:
        return None

    def __format__(self, spec: str) -> str:
        if not (spec and self.concrete):
            return repr(self)
        return format(to_host(concrete(self, "format()"))[()], spec)


def is_shortened(x: Array) -> bool:
    """Says whether an array's text leaves elements out and has its shape in their place.

    NumPy's texts have it since 2.2.
    """
    options: Any = np.get_printoptions()
    return x.size > options["threshold"] and options["legacy"] in (False, "2.2")


def unknown_behind(x: Any) -> Tracer | None:
    """Returns the tracer whose value Python cannot ask for behind an array, or None."""
    while isinstance(x, Tracer) and not x.lazy:
        if not x.concrete:
            return x
        x = x.value
    return None


def is_unknown(x: Any) -> bool:
    """Says whether Python cannot ask for a number, or for one of several, as it is traced."""
    if isinstance(x, list | tuple):
        return any(map(is_unknown, x))
    return unknown_behind(x) is not None


# Conversions by which our own functions ask for arguments that have to be known.
LOGIC = ("bool()", "float()", "int()")
# Right code for a dict or a set that is asked for a value.
KEY_FIX = "np.asarray(list(d.values()))[i] for numbers, ft.switch(i, functions, x) for functions"
# The name of the request for a number, unless the user's code gives a better one.
AN_INDEX = "an index"


def without_axes(what: str, x: Array) -> TypeError:
    """Returns the error for an array without axes where there should be one.

    Raises:
        EscapedTracerError: the transformation that made it is over, which is then to be told.
    """
    if isinstance(x, Tracer) and not x.owner.alive:
        x.owner.leave(x)
    code = user_code()
    shown = f"{code}: " if code else ""
    return failure(
        TypeError,
        f"{shown}{what} an array without axes, {x.describe()}",
        fix="int(x) for a number, np.atleast_1d(x) for an array with an axis",
    )


def concrete(x: AnyOperand, wanted: str, fix: str = "") -> Buffer:
    """Returns the buffer behind an array or a tracer.

    Args:
        x: the array.
        wanted: what asks for it, for the message.
        fix: right code for where the value is not known, if there is some for what asks.

    Raises:
        ConcretizationError: under vmap or staging the value is not known.
    """
    asked: Any = unlazy(x)
    if isinstance(asked, Tracer) and not asked.owner.standing:
        # NumPy asks for the number that it is to store in a buffer of its own.
        if wanted in NUMBER_CONVERSIONS and stores_item(frame_at(2)):
            raise buffer_error(asked, None)
        if wanted in DIFFERENTIABLE and asked.is_known() and asked.dtype.kind in INEXACT:
            raise failure(
                TracerConversionError,
                f"{wanted} asked for the plain value of {asked.describe()}"
                f"{asked.dependence()}, and would lose its derivative",
                fix="compute with functensor.numpy; ft.value(x) drops the derivative",
                under=asked.under(),
            )
    inner = asked
    while isinstance(inner, Tracer):
        if not inner.concrete:
            index = wanted == AN_INDEX
            if wanted in LOGIC and runs_our_function(frame_at(2)):
                # One of our functions looks at an argument, which is to be a number of Python's.
                wanted = user_code() or "an integer"
            if index:
                ours = runs_our_function(frame_at(2))
                wanted = user_code() or ("an integer" if ours else wanted)
            fix = fix or value_fix(wanted)
            # As a static argument, a value that is differentiated would lose its derivative there.
            lossy = wanted in DIFFERENTIABLE and inner is not asked
            staged = inner.owner.name == "jit" and not lossy
            option = inner.owner.static_option(inner) if staged else ""
            if option:
                fix += f"; or make the argument static: {option}"
            text = message(
                f"{wanted} asked for the value of {asked.describe()}{asked.dependence()}, "
                "which is not known while the function is traced",
                under=asked.under(),
                fix=fix,
                number=4 if wanted == "bool()" else 5,
            )
            if index:
                frame = frame_at(2)
                place = frame.f_code, frame.f_lasti
                last_refusal.last = place, type(asked).__name__, text, ref(asked)
            raise asking(ConcretizationError(text), asked)
        inner = inner.value
    if isinstance(inner, Array):
        return inner._data
    return np.asarray(inner)[()] if buffer_device(inner) == "cpu" else inner


def _rebuild(buffer: Buffer, device: str) -> Array:
    out = object.__new__(Array)
    out._data = on_device(buffer, device)
    return out
