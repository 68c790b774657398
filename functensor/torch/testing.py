"""PyTorch's comparisons of tensors for tests, and tensors to test with: ``torch.testing``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.dtypes import named
from ..backends.restoring import errstate
from ..faces.publish import publish
from ..primitives.core.shape_dtype import INEXACT, finfo
from ..tensors import Tensor, no_grad
from .creation import as_tensor, sizes_of
from .random_tensors import rand, randint
from .types import result_type

__all__ = ["assert_close", "make_tensor"]

# How far values may be apart by default, relative and absolute.
DTYPE_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
DTYPE_OF_NUMBERS = {int: "int64", float: "float64", complex: "complex128"}
# Where numbers of `make_tensor` lie by default.
LOWEST, ABOVE_FLOATS, ABOVE_INTEGERS = -9, 9, 10


class Mismatch(Exception):
    """A difference between what is compared: the class of its error, the text, and where it is."""

    def __init__(self, kind: type[Exception], text: str, place: tuple[Any, ...]) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.place = place

    def error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """Returns the error, with a text that may be a user's."""
        if isinstance(msg, str):
            return self.kind(msg)
        where = "".join(f"[{item!r}]" for item in self.place)
        text = f"{self.text}\n\nThe failure occurred for item {where}" if where else self.text
        return self.kind(msg(text) if callable(msg) else text)


class Demands(NamedTuple):
    """The demands of `assert_close` on two values."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def limits(self, dtypes: Sequence[Any], place: tuple[Any, ...]) -> tuple[float, float]:
        """Returns the tolerances, relative and absolute, of values of some dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        if self.rtol is not None or self.atol is not None:
            lacking = "rtol" if self.rtol is None else "atol"
            raise Mismatch(
                ValueError,
                "Both 'rtol' and 'atol' must be either specified or omitted, "
                f"but got no {lacking}.",
                place,
            )
        known = [DTYPE_TOLERANCES.get(named(dtype).name, (0.0, 0.0)) for dtype in dtypes]
        return max(r for r, _ in known), max(a for _, a in known)


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Checks that tensors, numbers, or sequences and mappings of them, are nearly equal.

    Args:
        actual, expected: they are alike in shape, and where it is checked in device, dtype and
            strides, and ``|actual - expected| <= atol + rtol |expected|``.
        allow_subclasses: whether one may be of a subclass of the other's class.
        rtol, atol: tolerances, both or none; by default 1.3e-6 and 1e-5 for single, 1e-7 and 1e-7
            for double precision, and 0 for integers.
        equal_nan: whether NaN equals NaN.
        check_device, check_dtype, check_layout, check_stride: whether these must be the same.
        msg: the text of the error, or a function that makes it of the one that there would be.

    Raises:
        AssertionError: they are not.
        TypeError: values are of classes that are not compared with each other.
        ValueError: one tolerance is given without the other.

    >>> import functensor.torch as torch
    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-6)
    >>> torch.testing.assert_close({"a": torch.ones(2)}, {"a": torch.tensor([1.0, 3.0])})
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 2.0 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.6666666865348816 at index (1,) (up to 1.3e-06 allowed)
    <BLANKLINE>
    The failure occurred for item ['a']
    """
    demands = Demands(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout,
        check_stride,
    )  # fmt: skip
    error = None
    try:
        found = list(comparisons(actual, expected, demands, ()))
    except Mismatch as mismatch:
        error = mismatch.error()
    if error is None:
        try:
            for compare in found:
                compare()
        except Mismatch as mismatch:
            error = mismatch.error(msg)
    if error is not None:
        raise error


def comparisons(
    a: Any, b: Any, demands: Demands, place: tuple[Any, ...]
) -> Iterator[Callable[[], None]]:
    """Yields a function that compares for each pair of values in two structures.

    Raises:
        Mismatch: the structures differ, or values cannot be compared.
    """
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in (a, b)):
        if len(a) != len(b):
            text = f"The length of the sequences mismatch: {len(a)} != {len(b)}"
            raise Mismatch(AssertionError, text, place)
        for i, pair in enumerate(zip(a, b, strict=True)):
            yield from comparisons(*pair, demands, (*place, i))
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            text = (
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(set(b) - set(a))}\n"
                f"Additional keys in the actual mapping: {sorted(set(a) - set(b))}"
            )
            raise Mismatch(AssertionError, text, place)
        for key in a:
            yield from comparisons(a[key], b[key], demands, (*place, key))
    elif a is None or b is None:
        yield lambda: compare_constants("None", a, b, place)
    elif all(isinstance(x, bool | np.bool_) for x in (a, b)):
        yield lambda: compare_constants("Booleans", bool(a), bool(b), place)
    elif all(isinstance(x, int | float | complex | np.number) for x in (a, b)):
        numbers = [x.item() if isinstance(x, np.number) else x for x in (a, b)]
        dtypes = [DTYPE_OF_NUMBERS.get(type(x), "bool") for x in numbers]
        limits = demands.limits(dtypes, place)
        yield lambda: compare_numbers(numbers[0], numbers[1], limits, demands, place)
    else:
        tensors = [tensor_like(x) for x in (a, b)]
        related = isinstance(a, type(b)) or isinstance(b, type(a))
        alike = related if demands.allow_subclasses else type(a) is type(b)
        if not alike or any(x is None for x in tensors):
            text = (
                f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}."
            )
            raise Mismatch(TypeError, text, place)
        limits = demands.limits([x.dtype for x in tensors], place)
        yield lambda: compare_tensors(tensors[0], tensors[1], limits, demands, place)


def tensor_like(x: Any) -> Any:
    """Returns a value as a tensor, and None of one that is none."""
    if isinstance(x, Tensor):
        return x.detach()
    try:
        return as_tensor(x)
    except (TypeError, ValueError):
        return None


def compare_constants(what: str, a: Any, b: Any, place: tuple[Any, ...]) -> None:
    """Checks that two values are the same."""
    if a is not b:
        raise Mismatch(AssertionError, f"{what} mismatch: {a} is not {b}", place)


def compare_numbers(
    a: Any, b: Any, limits: tuple[float, float], demands: Demands, place: tuple[Any, ...]
) -> None:
    """Checks that two of Python's numbers are nearly equal."""
    if demands.check_dtype and type(a) is not type(b):
        text = f"The (d)types do not match: {type(a)} != {type(b)}."
        raise Mismatch(AssertionError, text, place)
    rtol, atol = limits
    apart = abs(a - b)
    nan = demands.equal_nan and a != a and b != b
    if not (a == b or nan or (apart <= atol + rtol * abs(b) and apart < math.inf)):
        raise Mismatch(AssertionError, scalars_differ(a, b, limits), place)


def compare_tensors(
    a: Any, b: Any, limits: tuple[float, float], demands: Demands, place: tuple[Any, ...]
) -> None:
    """Checks that two tensors are nearly equal, and alike."""
    attributes = [
        ("shape", True, tuple(a.shape), tuple(b.shape)),
        ("stride()", demands.check_stride, a.stride(), b.stride()),
        ("device", demands.check_device, a.device, b.device),
        ("dtype", demands.check_dtype, a.dtype, b.dtype),
    ]
    for name, wanted, mine, theirs in attributes:
        if wanted and mine != theirs:
            text = f"The values for attribute '{name}' do not match: {mine} != {theirs}."
            raise Mismatch(AssertionError, text, place)
    dtype = result_type(a, b) if a.dtype != b.dtype else a.dtype
    if dtype.itemsize == 2 and dtype.kind in INEXACT:
        dtype = np.dtype(np.float32)
    if dtype.kind not in "fc":
        dtype = dtype if dtype == np.uint64 else np.dtype(np.int64)
    x, y = (np.asarray(t.cpu().numpy()).astype(dtype) for t in (a, b))
    rtol, atol = limits
    with errstate(all="ignore"):
        apart, size = difference_between(x, y), difference_between(y, np.zeros_like(y))
        matches = (x == y) | ((apart <= atol + rtol * size) & np.isfinite(apart))
        if demands.equal_nan:
            matches |= np.isnan(x) & np.isnan(y)
        if matches.all():
            return
        if not matches.shape:
            raise Mismatch(AssertionError, scalars_differ(a.item(), b.item(), limits), place)
        apart = np.where(matches, 0, apart)
        # As PyTorch divides, integers in single precision.
        kind = np.dtype(np.float32) if dtype.kind in "iu" else apart.dtype
        relative = np.where(matches, 0, apart.astype(kind) / size.astype(kind))
    count = matches.size - np.count_nonzero(matches)
    lines = [f"Mismatched elements: {count} / {matches.size} ({count / matches.size:.1%})"]
    for word, values, limit in (("absolute", apart, atol), ("relative", relative, rtol)):
        worst = np.unravel_index(np.argmax(values), values.shape)
        index = tuple(int(i) for i in worst)
        lines.append(
            f"Greatest {word} difference: {values[worst].item()} at index {index}"
            f"{allowed(limit, limits)}"
        )
    raise Mismatch(AssertionError, "\n".join([head("Tensor-likes", limits), *lines]), place)


def difference_between(x: Any, y: Any) -> Any:
    """Returns how far numbers are apart; no integers are too far."""
    if x.dtype.kind in "fc":
        return abs(x - y)
    a, b = x.astype(np.uint64), y.astype(np.uint64)
    return np.where(x < y, b - a, a - b)


def head(what: str, limits: tuple[float, float]) -> str:
    """Returns the first lines of a message."""
    return f"{what} are not {'close' if any(limits) else 'equal'}!\n"


def allowed(limit: float, limits: tuple[float, float]) -> str:
    """Returns what a message says of a tolerance, nothing where values are to be equal."""
    return f" (up to {limit} allowed)" if any(limits) else ""


def scalars_differ(a: Any, b: Any, limits: tuple[float, float]) -> str:
    """Returns the message for two numbers that differ."""
    apart = abs(a - b)
    relative = math.inf if b == 0 else apart / abs(b)
    rtol, atol = limits
    return "\n".join([
        head("Scalars", limits),
        f"Expected {b} but got {a}.",
        f"Absolute difference: {apart}{allowed(atol, limits)}",
        f"Relative difference: {relative}{allowed(rtol, limits)}",
    ])  # fmt: skip


def make_tensor(
    *shape: Any, dtype: DTypeLike, device: Any, low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Returns a tensor of numbers that are drawn evenly from ``low`` to before ``high``.

    Args:
        shape: one sequence or several integers.
        dtype: booleans, integers, floats or complex numbers, whose parts are drawn.
        device: where the tensor is.
        low, high: by default -9 and 9, of integers -9 and 10, and 0 at least where the dtype has
            no negative numbers; cut off to what the dtype can hold.
        requires_grad: whether the tensor requires a gradient.
        noncontiguous: whether it is every second element of another tensor.
        exclude_zero: whether zeros become 1, or the smallest normal number of floats.
        memory_format: has no effect, and is not given with ``noncontiguous``.

    Raises:
        ValueError: ``low`` is not below ``high``, or options do not fit each other.
        TypeError: there are no such tensors.

    >>> import functensor.torch as torch
    >>> x = torch.testing.make_tensor(3, 2, dtype=torch.float32, device="cpu", low=1)
    >>> x.shape, bool((x >= 1).all())
    ((3, 2), True)
    """
    sizes, wanted = sizes_of(shape), named(dtype)
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format are mutually exclusive")
    inexact = wanted.kind in INEXACT
    if requires_grad and not inexact:
        raise ValueError(f"make_tensor: tensors of {wanted} cannot require a gradient")
    spread = noncontiguous and math.prod(sizes) > 1
    drawn_sizes = (*sizes[:-1], 2 * sizes[-1]) if spread else sizes
    low, high = drawn_range(wanted, low, high)
    with no_grad():
        if inexact:
            wide = "float64" if wanted.itemsize >= 8 else "float32"
            pairs = (*drawn_sizes, 2) if wanted.kind == "c" else drawn_sizes
            share = rand(pairs, dtype=wide, device=device)
            # No product is beyond both ends, whose difference may be too large.
            out = share * high + (1 - share) * low
            if wanted.kind == "c":
                out = out[..., 0] + 1j * out[..., 1]
        else:
            out = randint(math.ceil(low), math.ceil(high), drawn_sizes, device=device)
        out = out.to(wanted)
        if spread:
            out = out[..., 1::2]
        if exclude_zero:
            least = finfo(wanted).tiny if inexact else 1
            out[out == 0] = least
    result: Tensor = out.requires_grad_() if requires_grad else out
    return result


def drawn_range(dtype: np.dtype[Any], low: float | None, high: float | None) -> tuple[float, float]:
    """Returns the range of numbers of a dtype, cut off to what it can hold."""
    inexact = dtype.kind in INEXACT
    if dtype.kind == "b":
        least, most, usual = 0.0, 2.0, (0.0, 2.0)
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        # The greatest integer of 64 bits is never drawn.
        least, most = limits.min, limits.max + (dtype.itemsize < 8)
        usual = (LOWEST, ABOVE_INTEGERS)
    elif inexact:
        least, most = float(finfo(dtype).min), float(finfo(dtype).max)
        usual = (LOWEST, ABOVE_FLOATS)
    else:
        raise TypeError(f"make_tensor: {dtype} is no dtype of tensors")
    start, end = usual[0] if low is None else low, usual[1] if high is None else high
    if start != start or end != end:
        raise ValueError(f"make_tensor: low and high are {start} and {end}, they cannot be NaN")
    if start == end and inexact:
        text = "make_tensor: low is high; use torch.full for such a tensor"
        warnings.warn(text, FutureWarning, stacklevel=3)
    elif start >= end:
        raise ValueError(f"make_tensor: low must be less than high, but {start} >= {end}")
    elif end < least or start >= most:
        raise ValueError(f"make_tensor: {dtype} has numbers from {least} to {most} alone")
    return min(max(start, least), most), min(max(end, least), most)


publish(globals())
