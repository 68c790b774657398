"""NumPy's and DLPack's protocols: NumPy's own functions dispatch to the primitives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.annotations import Buffer, DTypeLike
from ...backends.errors.tracebacks import tidy
from ...backends.frames import frame_at, is_users, module_of, user_code
from .bytecode import reads_item, stores_item
from .errors import DeviceError, ImmutableArrayError, OperandError, TracerConversionError, failure
from .handing_out import is_overwriting, sealed
from .registry import registry as ops
from .ufunc_methods import UFUNC_METHODS

if TYPE_CHECKING:
    from .array_annotations import AnyArray, ArrayAttributes, TracedArray
else:
    ArrayAttributes = object

__all__ = ["NumpyProtocols", "has_own"]

# Functions of shapes and dtypes alone: a tracer can answer them as an array does.
SHAPE_FUNCTIONS = {"can_cast", "iscomplexobj", "isrealobj", "ndim", "result_type", "shape", "size"}
SHAPE_FUNCTIONS |= {"empty_like", "full_like", "ones_like", "zeros_like"}
# NumPy's functions that write into their first argument, and what does that here.
WRITING_FUNCTIONS = {
    "copyto": "x = np.where(where, src, x)",
    "fill_diagonal": "x = functensor.numpy.fill_diagonal(x, value, inplace=False)",
    "place": "x = x.at[mask].set(values)",
    "put": "x = x.ravel().at[i].set(values).reshape(x.shape)",
    "put_along_axis": "x = functensor.numpy.put_along_axis(x, i, values, axis, inplace=False)",
    "putmask": "x = np.where(mask, values, x)",
}
# Classes without labels, beside our arrays.
UNLABELLED = {np.ndarray, bool, int, float, complex, list, tuple}
UNLABELLED |= {np.dtype(c).type for c in np.typecodes["All"] if c not in "mM"}
# Editions of the array API standard that the namespace can be asked for.
EDITIONS = (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
# Libraries that hand NumPy's results to compiled code, which takes NumPy's own arrays only.
# Traced values keep their derivatives there.
PLAIN_VALUE_LIBRARIES = ("matplotlib.", "mpl_toolkits.", "pandas.", "scipy.")
# Libraries that compute with whatever speaks the array API, in code that was NumPy's before.
LIBRARIES = ("scipy.", "sklearn.", "array_api_extra.", "array_api_compat.")
# NumPy's functions that were asked for once, with ours.
COUNTERPARTS: dict[Any, Callable[..., Any]] = {}
# Ends of the names of array_api_extra's modules that update arrays by index, and the modules: its
# own ones, and those of the copies in SciPy and scikit-learn. Versions differ in the places.
UPDATE_NAMES = ("array_api_extra._at", "array_api_extra._lib._at")
COPIED_INTO = ("", "scipy._external.", "scipy._lib.", "sklearn.externals.")
UPDATE_MODULES = [place + name for place in COPIED_INTO for name in UPDATE_NAMES]

# The priority of array classes that are more than their numbers and do not know ufuncs.
PRIORITY = 1000
# Above pandas' own, the highest of which is 4000, that of a data frame.
FIRST_IN_PANDAS = 5000


def has_own(kind: Any, method: str) -> bool:
    """Says whether a class that meets NumPy's arrays has an operator other than theirs."""
    knows_ufuncs = hasattr(kind, "__array_ufunc__")  # None asks to be left alone
    priority = getattr(kind, "__array_priority__", 0)
    # That of NumPy's numbers is no number for their class.
    if not knows_ufuncs and not (isinstance(priority, int | float) and priority > PRIORITY):
        return False
    own = getattr(kind, method, None)
    if own is None or own is getattr(np.ndarray, method):
        # NumPy's operator heeds the class's ufuncs, or gives the result the class.
        return own is not None and kind.__radd__ is not np.ndarray.__radd__
    return True


class Bottom:
    """Tells whether raw buffers are worked on now; ``trace.py`` knows, and puts its answer here."""

    reached: Callable[[], bool] = staticmethod(lambda: False)


class Asked:
    """The work to do once a library asks for a namespace; the module that does it says it here."""

    watch: Callable[[], None] = staticmethod(lambda: None)


class NumpyProtocols(ArrayAttributes):
    """The protocols that an array speaks; ``_data`` is its buffer, a tracer has none."""

    __slots__ = ()
    __array_priority__ = 1000

    @property
    def __pandas_priority__(self) -> int:
        """The array's place among pandas' operands.

        Pandas makes a column of what has one axis. Of more axes it takes NumPy's arrays only, and
        what is traced has no values for it: those come first, and their own operator answers.

        Raises:
            TypeError: pandas works in place, where it does not look at answers.
        """
        plain = unlazy(self)
        if not (is_tracer(plain) or getattr(plain, "requires_grad", False)) and self.ndim < 2:
            return 0
        frame: FrameType | None = frame_at(1).f_back
        if frame is not None and frame.f_code.co_name == "_inplace_method":
            raise failure(
                TypeError,
                f"pandas writes {self.describe()} into no frame of its own",
                fix="df = df + x in place of df += x, or df += numpy.asarray(x)",
                number=1,
            )
        return FIRST_IN_PANDAS

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        if is_tracer(self):
            if dtype is not None and np.dtype(dtype) == object:
                return objects(self)
            plain = unlazy(self)
            if not is_tracer(plain):
                return plain.__array__(dtype, copy)
            error = conversion_error(self)
            whole = dtype is not None and np.dtype(dtype).kind in "biu"
            if whole and not isinstance(error, ImmutableArrayError):
                # Like int(x): whole numbers have no derivative that could be lost.
                cast = ops.astype(self, dtype)
                if not is_tracer(cast):
                    return cast.__array__(copy=copy)
            raise error
        if copy is False and dtype is not None and np.dtype(dtype) != self._data.dtype:
            raise ValueError(f"a dtype of {dtype} asks for a copy, which copy=False forbids")
        if self.device != "cpu":
            raise failure(
                DeviceError,
                f"NumPy asked for the memory of {self.describe()}, which is on {self.device}",
                fix='numpy.asarray(ft.to_device(x, "cpu")), or x.tolist()',
                number=14,
            )
        view = np.asarray(self._data, dtype)
        if copy or ("scipy.linalg" in sys.modules and is_overwriting(frame_at(1))):
            return view.copy()
        return sealed(view)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        try:
            if Bottom.reached():
                # A rule wrapped a buffer in an array on the way: NumPy gets the buffer back.
                return on_values(getattr(ufunc, method), inputs, kwargs, ufunc.__name__)
            function = COUNTERPARTS.get(ufunc) or ufunc_counterpart(ufunc)
            if wants_plain(frame_at(1), inputs) or has_labels(inputs):
                function = None
            if function is not None and method == "__call__" and "out" not in kwargs:
                return function(*inputs, **kwargs)
            name = ufunc.__name__
            if "out" in kwargs:
                fix = f"y = np.{name}(...), and use y"
                if "where" in kwargs:
                    fix = f"np.where(mask, np.{name}(...), other)"
                    fix += ", operands made valid by another where"
                refuse_writing(f"numpy.{name}", kwargs["out"][0], inputs, fix)
            elif method == "at":
                fix = f"x = x.at[i].{name}(values)"
                refuse_writing(f"numpy.{name}.at", inputs[0], inputs[1:], fix)
            elif function is not None and method in UFUNC_METHODS:
                answer = UFUNC_METHODS[method](function, name, *inputs, **kwargs)
                if answer is not NotImplemented:
                    return answer
            known = np.__dict__.get(name) is ufunc
            module = "numpy" if known else getattr(ufunc, "__module__", None)
            parts = (module, name, "" if method == "__call__" else method)
            called = ".".join(part for part in parts if part)
            return on_values(getattr(ufunc, method), inputs, kwargs, called)
        except Exception as error:
            tidy(error)
            raise

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        try:
            if Bottom.reached():
                return on_values(func, args, kwargs, func.__name__)
            function = COUNTERPARTS.get(func) or function_counterpart(func)
            name = func.__name__
            if function is not None:
                if not wants_plain(frame_at(1), (args, kwargs)):
                    try:
                        return function(*args, **kwargs)
                    except OperandError:
                        # NumPy's own function takes objects and strings too, beside plain arrays.
                        pass
            elif name in WRITING_FUNCTIONS:
                named = (kwargs[key] for key in ("a", "arr", "dst") if key in kwargs)
                target = args[0] if args else next(named, None)
                refuse_writing(f"numpy.{name}", target, (args[1:], kwargs), WRITING_FUNCTIONS[name])
            elif name in SHAPE_FUNCTIONS:
                return func(*with_arrays_as(args, stand_in), **with_arrays_as(kwargs, stand_in))
            return on_values(func, args, kwargs, f"{func.__module__}.{name}")
        except Exception as error:
            tidy(error)
            raise

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version not in EDITIONS:
            raise ValueError(f"there is no edition {api_version!r} of the array API here")
        for name in UPDATE_MODULES:
            if name in sys.modules:
                introduce(sys.modules[name])
        # Programs that call no library pay nothing for augmented assignments.
        Asked.watch()
        return sys.modules["functensor.numpy"]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if not is_tracer(self) and self.device != "cpu":
            return self._data.__dlpack__(
                stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
            )
        # Some libraries ignore that memory is read-only, and one of the protocol's first version
        # cannot be told. So a library gets memory of its own, unless it insists.
        view = self.__array__()
        if copy is False and (max_version is None or max_version < (1, 0)):
            view = np.asarray(self._data)
        return view.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy is not False
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        if is_tracer(self) or self.device == "cpu":
            return 1, 0
        place: tuple[int, int] = self._data.__dlpack_device__()
        return place

    @property
    def __cuda_array_interface__(self) -> Any:
        """The memory of an array on a GPU; an array on the CPU has no such attribute."""
        if is_tracer(self):
            raise AttributeError("a traced value has no memory")
        array: Any = self
        interface = array._data.__cuda_array_interface__
        if array._data.base is None:
            # Whoever has the address holds this array alone: donation is to see that it is shared.
            array._data = array._data.view()
        return interface


def objects(tracer: Any) -> Buffer:
    """Returns the elements of a tracer as Python objects in a NumPy array, each of them traced."""
    out = np.empty(tracer.shape, dtype=object)
    for place in np.ndindex(tracer.shape):
        out[place] = tracer[place] if place else tracer
    return out


def wants_plain(frame: FrameType, arguments: tuple[Any, ...]) -> bool:
    """Says whether a call of NumPy's by a library is to be answered by NumPy, on plain values."""
    return module_of(frame).startswith(PLAIN_VALUE_LIBRARIES) and first_tracer(arguments) is None


def has_labels(inputs: tuple[Any, ...]) -> bool:
    """Says whether a ufunc's operands are known arrays and one that makes more of its result."""
    foreign = False
    for x in inputs:
        if isinstance(x, NumpyProtocols):
            if is_tracer(x):
                return False
        elif type(x) not in UNLABELLED:
            foreign = foreign or has_own(type(x), "__radd__")
    return foreign


def introduce(module: Any) -> None:
    """Lets array_api_extra update our arrays as it updates JAX's: ``x = x.at[i].set(v)``.

    The standard has no way to say that arrays are immutable, so that it asks whose they are.
    """
    asks: Any = module
    if not hasattr(module, "is_writeable_array") and hasattr(module, "_compat"):
        # It asks by a module's functions, which other modules call too.
        asks = SimpleNamespace(**vars(module._compat))
    if hasattr(module, "knows_functensor") or not hasattr(asks, "is_writeable_array"):
        return
    by_at, writeable = asks.is_jax_array, asks.is_writeable_array
    asks.is_jax_array = lambda x: isinstance(x, NumpyProtocols) or by_at(x)
    asks.is_writeable_array = lambda x: not isinstance(x, NumpyProtocols) and writeable(x)
    if asks is not module:
        module._compat = asks
    module.knows_functensor = True


def counterpart(module: str, name: str) -> Any:
    """Returns our function of the name that NumPy has it by, or None.

    Args:
        module: ``numpy``, or one of its modules that there is one of here: ``numpy.linalg``.
        name: the function's name.
    """
    namespace: Any = sys.modules["functensor.numpy"]
    root, _, inner = module.partition(".")
    if root != "numpy" or inner not in ("", "fft", "linalg"):
        return None
    if inner:
        return getattr(getattr(namespace, inner, None), name, None)
    return getattr(namespace, name, None) or ops.find(name)


def function_counterpart(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns our function for one of NumPy's, or None; remembers it."""
    if func.__name__ in WRITING_FUNCTIONS:
        return None
    function: Callable[..., Any] | None = counterpart(func.__module__, func.__name__)
    if function is not None:
        COUNTERPARTS[func] = function
    return function


def ufunc_counterpart(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Returns our function for a ufunc of NumPy or of ``scipy.special``, or None; remembers it."""
    name = ufunc.__name__
    special = sys.modules.get("scipy.special._ufuncs")
    function: Callable[..., Any] | None = None
    if np.__dict__.get(name) is ufunc:
        function = counterpart("numpy", name)
    elif special is not None and getattr(special, name, None) is ufunc:
        function = getattr(sys.modules["functensor"].scipy.special, name, None)
    if function is not None:
        COUNTERPARTS[ufunc] = function
    return function


def refuse_writing(name: str, buffer: Any, values: Any, fix: str) -> None:
    """Checks what is to be written into.

    Raises:
        ImmutableArrayError: it is an array, or a tracer would be written into a NumPy buffer.
    """
    if isinstance(buffer, NumpyProtocols):
        raise failure(
            ImmutableArrayError,
            f"{name} would write into {buffer.describe()}, but arrays are immutable",
            fix=fix,
        )
    tracer = first_tracer(values)
    if tracer is not None:
        raise buffer_error(tracer, buffer)


def first_tracer(x: Any) -> Any:
    """Returns a tracer, or a tensor that requires grad, among nested arguments; or None."""
    if isinstance(x, NumpyProtocols):
        traced = is_tracer(x) and not getattr(x, "lazy", False)
        return x if traced or getattr(x, "requires_grad", False) else None
    items = x.values() if isinstance(x, dict) else x if isinstance(x, tuple | list) else ()
    return next((found for found in map(first_tracer, items) if found is not None), None)


def is_tracer(x: NumpyProtocols | AnyArray) -> bool:
    """Says whether an array is a tracer: those have no buffer."""
    return not hasattr(x, "_data")


def unlazy(x: Any) -> Any:
    """Returns what a tracer stands for whose value is known, but was not needed until now."""
    while getattr(x, "lazy", False):
        x = x.value
    return x


def on_values(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Calls a function of NumPy that has no counterpart here on the arrays' plain values.

    Raises:
        TracerConversionError: an argument is a tracer, whose derivative would get lost.
    """

    def plain_value(x: Any) -> Any:
        known = unlazy(x)
        if is_tracer(known):
            raise conversion_error(known, name)
        return known.__array__()

    return function(*with_arrays_as(args, plain_value), **with_arrays_as(kwargs, plain_value))


def with_arrays_as(x: Any, replace: Callable[[Any], Any]) -> Any:
    """Returns nested arguments with every array of ours replaced."""
    if isinstance(x, NumpyProtocols):
        return replace(x)
    if isinstance(x, tuple | list):
        return type(x)(with_arrays_as(item, replace) for item in x)
    if isinstance(x, dict):
        return {key: with_arrays_as(item, replace) for key, item in x.items()}
    return x


def stand_in(x: AnyArray) -> Buffer:
    """Returns a NumPy array of the shape and dtype of an array."""
    return np.broadcast_to(np.empty((), x.dtype), x.shape)


def conversion_error(tracer: Any, asked_by: str = "") -> Exception:
    """Returns the error for a tracer where a plain NumPy array is wanted."""
    frame = frame_at(2)
    whole = not tracer.concrete and tracer.dtype.kind in "biu"
    if not asked_by and whole and runs_our_function(frame):
        # One of our functions wants an integer that is not known; NumPy was not called.
        return refused_number(tracer)
    frame = frame_at(1)
    while frame.f_back is not None and module_of(frame).startswith("functensor"):
        frame = frame.f_back
    if stores_item(frame) and not asked_by:
        return buffer_error(tracer, None)
    code = frame.f_code
    # An unknown value cannot be computed with.
    plain = "ft.value(x) or ft.stop_gradient(x) drops the gradient; " * tracer.is_known()
    fix = (
        f"use functensor.numpy instead of numpy; {plain}ft.extend.numpy_function gives foreign "
        "code a rule"
    )
    if not asked_by and tracer.dtype.kind in "?biu" and reads_item(frame):
        fix = "functensor.numpy.asarray(buf)[i], where buf is the NumPy array that is indexed"
    asked = asked_by or f"{code.co_name} ({code.co_filename.rpartition('/')[2]})"
    if not asked_by and is_users(module_of(frame)):
        # The call itself, where there is source.
        asked = " in ".join(filter(None, [user_code(), asked]))
    return failure(
        TracerConversionError,
        f"{asked} asked for a plain NumPy array, but got {tracer.describe()}{tracer.dependence()}",
        fix=fix,
        under=tracer.under(),
    )


def runs_our_function(frame: FrameType) -> bool:
    """Says whether a frame, or the code of NumPy's that it calls, runs one of our functions."""
    asking: FrameType | None = frame
    while asking is not None and module_of(asking).startswith("numpy."):
        asking = asking.f_back
    name = "" if asking is None else module_of(asking)
    return name.startswith("functensor.") and not name.startswith("functensor.tensors")


def refused_number(tracer: TracedArray) -> Exception:
    """Returns the error for a traced integer where one has to be known."""
    try:
        return TypeError(f"no integer: {tracer.__index__()}")
    except TypeError as error:
        return error


def buffer_error(x: Any, buffer: Any) -> Exception:
    """Returns the error for writing a tracer, or an array, into a NumPy buffer."""
    known = isinstance(buffer, np.ndarray)
    kind = f"a plain ndarray ({buffer.dtype}{list(buffer.shape)})" if known else "a plain ndarray"
    # An integer may be the index too.
    whole = is_tracer(x) and x.dtype.kind in "biu"
    limit = "takes no i and no x that is traced" if whole else "cannot record gradients of x"
    return failure(
        ImmutableArrayError,
        f"buf[i] = x: buf is {kind} and {limit}, {x.describe()}",
        fix="buf = functensor.numpy.zeros(shape), then buf = buf.at[i].set(x)",
        under=x.under() if is_tracer(x) else "",
        number=2,
    )
