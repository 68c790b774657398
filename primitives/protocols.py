"""How NumPy and DLPack meet our arrays: NumPy's own functions dispatch to the primitives."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from .errors import ImmutableArrayError, TracerConversionError, message
from .registry import registry as ops

__all__ = ["NumpyProtocols"]

# NumPy's names of ufuncs where ours differ, and the reductions that ufuncs offer.
UFUNC_NAMES = {"absolute": "abs", "conjugate": "conj"}
FUNCTION_NAMES = {"amax": "max", "amin": "min", "around": "round"}
# What depends on shapes and dtypes alone, so that a tracer can answer as an array does.
SHAPE_FUNCTIONS = {"can_cast", "iscomplexobj", "isrealobj", "ndim", "result_type", "shape", "size"}
SHAPE_FUNCTIONS |= {"empty_like", "full_like", "ones_like", "zeros_like"}
UFUNC_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}


class NumpyProtocols:
    """The protocols that an array speaks; ``_data`` is its buffer, a tracer has none."""

    __slots__ = ()
    __array_priority__ = 1000

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if is_tracer(self):
            raise conversion_error(self)
        if copy is False and dtype not in (None, self._data.dtype):  # type: ignore[attr-defined]
            raise ValueError(f"a dtype of {dtype} asks for a copy, which copy=False forbids")
        view = np.asarray(self._data, dtype)  # type: ignore[attr-defined]
        if copy:
            return view.copy()
        view = view.view()
        view.flags.writeable = False
        return view

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = None
        if "out" in kwargs:
            for x in inputs:
                if isinstance(x, NumpyProtocols) and is_tracer(x):
                    raise buffer_error(x, kwargs["out"][0])
            return on_values(getattr(ufunc, method), inputs, kwargs, f"numpy.{ufunc.__name__}")
        if method == "__call__":
            function = ops.find(UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__))
        elif method == "reduce":
            function = ops.find(UFUNC_REDUCTIONS.get(ufunc.__name__, ""))
            kwargs.setdefault("axis", 0)
            kwargs = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
        if function is not None:
            return function(*inputs, **kwargs)
        return on_values(getattr(ufunc, method), inputs, kwargs, f"numpy.{ufunc.__name__}")

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        if func.__module__ == "numpy":
            function = ops.find(FUNCTION_NAMES.get(func.__name__, func.__name__))
            if function is not None:
                return function(*args, **kwargs)
            if func.__name__ in SHAPE_FUNCTIONS:
                return func(*_stand_ins(args), **_stand_ins(kwargs))
        return on_values(func, args, kwargs, f"{func.__module__}.{func.__name__}")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["functensor.numpy"]

    def __dlpack__(self, **options: Any) -> Any:
        return self.__array__().__dlpack__(**{**options, "copy": True})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def is_tracer(x: Any) -> bool:
    """Says whether an array is a tracer: those have no buffer."""
    return not hasattr(x, "_data")


def on_values(function: Callable[..., Any], args: Any, kwargs: Any, name: str) -> Any:
    """Calls a function of NumPy that has no counterpart here on the arrays' plain values.

    Raises:
        TracerConversionError: an argument is a tracer, whose derivative would get lost.
    """
    plain_args = _plain(args, name)
    return function(*plain_args, **_plain(kwargs, name))


def _stand_ins(x: Any) -> Any:
    """Returns arguments with every array replaced by one of its shape and dtype."""
    if isinstance(x, NumpyProtocols):
        known: Any = x
        return np.broadcast_to(np.empty((), known.dtype), known.shape)
    if isinstance(x, tuple | list):
        return type(x)(_stand_ins(item) for item in x)
    if isinstance(x, dict):
        return {key: _stand_ins(item) for key, item in x.items()}
    return x


def _plain(x: Any, name: str) -> Any:
    if isinstance(x, NumpyProtocols):
        if is_tracer(x):
            raise conversion_error(x, name)
        return x.__array__()
    if isinstance(x, tuple | list):
        return type(x)(_plain(item, name) for item in x)
    if isinstance(x, dict):
        return {key: _plain(item, name) for key, item in x.items()}
    return x


def conversion_error(tracer: Any, asked_by: str = "") -> Exception:
    """Returns the error for a tracer where a plain NumPy array is wanted."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("functensor"):
        frame = frame.f_back
    if stores_item(frame) and not asked_by:
        return buffer_error(tracer, None)
    code = frame.f_code
    asked = asked_by or f"{code.co_name} ({code.co_filename.rpartition('/')[2]})"
    return TracerConversionError(
        message(
            f"{asked} asked for a plain NumPy array, but got {tracer.describe()}"
            f"{tracer.dependence()}",
            under=tracer.under(),
            fix="use functensor.numpy instead of numpy; ft.value(x) or ft.stop_gradient(x) drops "
            "the gradient; ft.custom_vjp gives foreign code a rule",
            number=1,
        )
    )


def stores_item(frame: FrameType) -> bool:
    """Says whether a frame is at an assignment to an item, ``buf[i] = x``."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "STORE_SUBSCR"


def buffer_error(x: Any, buffer: Any) -> Exception:
    """Returns the error for writing a tracer, or an array, into a NumPy buffer."""
    kind = f"a plain ndarray ({buffer.dtype}{list(buffer.shape)})" if buffer is not None else ""
    return ImmutableArrayError(
        message(
            f"buf[i] = x: buf is {kind or 'a plain ndarray'} and cannot record gradients of x, "
            f"{x.describe()}",
            under=x.under() if is_tracer(x) else "",
            fix="buf = functensor.numpy.zeros(shape), then buf = buf.at[i].set(x)",
            number=2,
        )
    )
