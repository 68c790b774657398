"""Checks of derivatives against numbers, and of trees of numbers against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import tree
from ..backends.restoring import errstate
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.errors import function_line
from ..primitives.core.shape_dtype import INEXACT, finfo, result_type, shape_dtype
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.jvp import jvp

if TYPE_CHECKING:
    from ..backends.annotations import Buffer

__all__ = ["assert_allclose", "check_grads"]

GRADIENT_MODES = ("fwd", "rev")
GRADIENT_METHODS = ("central", "complex-step")

# The relative errors that derivatives may have, by the bytes of a real number. In double
# precision the yardstick is the limit: how smooth the function is decides what differences give.
TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-6}
# Complex steps and the comparison of both modes are free of cancellation.
EXACT_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}
# So small that its square vanishes beside 1, and far from the smallest number.
COMPLEX_STEP = 1e-40
# Central differences of fourth order: at which multiples of the step, with which weights.
DIFFERENCE_WEIGHTS = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))


def assert_allclose(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Checks that two trees agree in structure, shapes, dtypes and, nearly, in values.

    Args:
        actual, expected: trees of arrays, numbers, or other leaves, which must be equal. NaN
            equals NaN.
        rtol, atol: how far values may be apart, relative to the expected ones and at all; by
            default as far as the dtype suggests (1e-9 in double, 1e-4 in single precision).

    Raises:
        AssertionError: they do not; the message has the leaf's path and the figures.

    >>> import functensor.numpy as np
    >>> assert_allclose({"w": np.ones(2)}, {"w": np.ones(2) + 1e-12})
    >>> assert_allclose({"w": np.ones(2)}, {"w": np.zeros(2)})
    Traceback (most recent call last):
    AssertionError: ['w'] differs from what is expected
      2 of 2 elements differ; the worst is 1.0 off at index 0: got 1.0, expected 0.0
      tolerance: atol=1e-09, rtol=1e-09
    """
    found, treedef = tree.flatten_with_path(actual)
    wanted, wanted_treedef = tree.flatten(expected)
    if treedef != wanted_treedef:
        raise AssertionError(f"the structure is {treedef}, expected {wanted_treedef}")
    for (path, a), e in zip(found, wanted, strict=True):
        name = tree.keystr(path) or "the value"
        if not (is_array_like(a) and is_array_like(e)):
            if a is not e and a != e:
                raise AssertionError(f"{name} is {a!r}, expected {e!r}")
            continue
        _check_type(name, a, e)
        default = _tolerance(EXACT_TOLERANCES, [a])
        limits = default if atol is None else atol, default if rtol is None else rtol
        _compare(f"{name} differs from what is expected", a, e, *limits, equal_nan=True)


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: str | Sequence[str] = GRADIENT_MODES,
    *,
    method: str = "central",
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Checks the derivatives of a function, to any order, against numerical ones.

    Every order is checked along a random direction: the derivative J v of forward mode for all
    outputs, the product <u, J v> with a random cotangent for reverse mode, whose own side is
    <J^T u, v>, and both modes against each other. Shapes, dtypes and primal values of what either
    mode returns are checked too. The next order checks the derivative that each mode gives, as a
    function of the arguments and of the direction, in the same way: order 2 is all four of the
    forward and reverse derivatives of both.

    Arguments in half or single precision are compared with differences in double precision.
    Products of complex arrays are not conjugated, as ``vjp`` transposes without conjugation:
    <u, w> is the real part of the sum of u w.

    Args:
        f: takes and returns trees of arrays; smooth near the arguments.
        args: its arguments, a tuple or list. Leaves that are not real or complex stay as they are.
        order: how many times to differentiate.
        modes: ``"fwd"``, ``"rev"`` or both.
        method: ``"central"`` differences, of fourth order, or the ``"complex-step"``: exact but for
            rounding, where f is analytic, its arguments are real, and it takes complex ones too.
        atol, rtol: how far values may be off, at all and relative to the expected ones. By default
            rtol is what the dtypes suggest (1e-6 in double precision, 1e-4 in single), and atol is
            rtol and what rounding makes of differences.
        eps: the length of the step; by default the cube root of the precision in which f computes.
        seed: from which directions and cotangents are drawn.

    Raises:
        AssertionError: a derivative is wrong; the message has the mode, the path of the leaf, the
            error, the step, the tolerance and the order.
        TypeError: there is nothing real or complex to differentiate.
        ValueError: an argument is none of those above.

    The complex step is due to W. Squire and G. Trapp, "Using complex variables to estimate
    derivatives of real functions", SIAM Review 40 (1998).

    >>> import functensor as ft, functensor.numpy as np
    >>> x = np.array([0.5, 2.0])
    >>> check_grads(lambda x: {"y": x * x}, (x,), order=2)
    >>> check_grads(lambda x: ft.stop_gradient(x) * x, (x,), modes="fwd")
    Traceback (most recent call last):
    AssertionError: ...forward mode...
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or set(modes) - set(GRADIENT_MODES):
        raise ValueError(f"modes are 'fwd' and 'rev', not {modes}")
    if method not in GRADIENT_METHODS:
        raise ValueError(f"method is 'central' or 'complex-step', not {method!r}")
    if order < 1:
        raise ValueError(f"order counts from 1, not {order}")
    if not isinstance(args, tuple | list):
        raise ValueError(f"args is a tuple or list of arguments, not {type(args).__name__}")
    if eps is not None and not eps > 0:
        raise ValueError(f"eps is a positive step, not {eps}")
    subject, values = _flattened_function(f, args)
    is_complex = method == "complex-step"
    if is_complex and any(shape_dtype(v).dtype.kind == "c" for v in values):
        raise TypeError("method='complex-step' takes real arguments; use method='central'")
    rng = np.random.default_rng(seed)
    _Check(modes, is_complex, atol, rtol, eps, rng).run(subject, values, order)


class _Subject(NamedTuple):
    """A function of some arrays that returns a list of arrays, with their names for messages."""

    title: str
    call: Callable[..., Any]
    inputs: list[str]
    outputs: list[str]

    def pushed(self) -> _Subject:
        """Returns the derivative of forward mode, a function of arguments and tangents."""
        count = len(self.inputs)

        def call(*values: ArrayLike) -> Any:
            return jvp(self.call, values[:count], values[count:])[1]

        inputs = self.inputs + [f"the tangent of {name}" for name in self.inputs]
        outputs = [f"the tangent of {name}" for name in self.outputs]
        return _Subject(f"the jvp of {self.title}", call, inputs, outputs)

    def pulled(self) -> _Subject:
        """Returns the derivative of reverse mode, a function of arguments and cotangents."""
        count = len(self.inputs)

        def call(*values: ArrayLike) -> Any:
            return list(vjp(self.call, *values[:count])[1](list(values[count:])))

        inputs = self.inputs + [f"the cotangent of {name}" for name in self.outputs]
        outputs = [f"the cotangent of {name}" for name in self.inputs]
        return _Subject(f"the vjp of {self.title}", call, inputs, outputs)


def _flattened_function(f: Callable[..., Any], args: Sequence[Any]) -> tuple[_Subject, list[Any]]:
    """Returns the function of the real and complex leaves of its arguments, and those leaves."""
    found, treedef = tree.flatten_with_path(tuple(args))
    leaves = [leaf for _, leaf in found]
    places = [i for i, leaf in enumerate(leaves) if is_array_like(leaf) and is_inexact(leaf)]

    def outputs(*values: ArrayLike) -> list[tuple[str, Any]]:
        filled = list(leaves)
        for i, value in zip(places, values, strict=True):
            filled[i] = value
        out = tree.leaves_with_path(f(*treedef.unflatten(filled)))
        return [
            (f"output{tree.keystr(path)}", leaf)
            for path, leaf in out
            if is_array_like(leaf) and is_inexact(leaf)
        ]

    values = [leaves[i] for i in places]
    names = [name for name, _ in outputs(*values)]
    if not values or not names:
        raise TypeError(
            f"check_grads of {function_line(f)}: no {'output' if values else 'argument'} is real "
            "or complex, so there is no derivative to check"
        )

    def call(*values: ArrayLike) -> list[Any]:
        return [leaf for _, leaf in outputs(*values)]

    inputs = [f"args{tree.keystr(found[i][0])}" for i in places]
    return _Subject(function_line(f), call, inputs, names), values


class _Check(NamedTuple):
    """The settings of one check, and its source of random directions."""

    modes: Sequence[str]
    complex: bool
    atol: float | None
    rtol: float | None
    eps: float | None
    rng: np.random.Generator

    def run(self, subject: _Subject, values: list[Any], orders: int, order: int = 1) -> None:
        """Checks the derivatives of a subject, and then those of its derivatives."""
        outs = subject.call(*values)
        direction = [self.random_like(v) for v in values]
        cotangent = [self.random_like(out) for out in outs]
        numeric, limits, step = self.numeric(subject.call, values, direction)
        try:
            self.run_order(subject, values, outs, (direction, cotangent, numeric), limits)
        except AssertionError as error:
            raise AssertionError(f"{error}\n  order: {order}, step: {step:.2g}") from None
        if order < orders:
            if "fwd" in self.modes:
                self.run(subject.pushed(), [*values, *direction], orders, order + 1)
            if "rev" in self.modes:
                self.run(subject.pulled(), [*values, *cotangent], orders, order + 1)

    def run_order(
        self,
        subject: _Subject,
        values: list[Any],
        outs: list[Any],
        known_along: tuple[list[Any], list[Any], list[Any]],
        limits: tuple[float, float],
    ) -> None:
        """Checks the first derivatives of a subject.

        ``known_along`` has a direction, a cotangent, and the derivative along the direction.
        """
        direction, cotangent, numeric = known_along
        tangents = cotangents = None
        if "fwd" in self.modes:
            where = f"forward mode of {subject.title}"
            primal, tangents = jvp(subject.call, values, direction)
            for name, got, known in zip(subject.outputs, primal, outs, strict=True):
                _check_same(f"{where}: {name}", got, known, values)
            for name, got, known in zip(subject.outputs, tangents, outs, strict=True):
                _check_type(f"{where}: the tangent of {name}", got, known)
            for name, got, known in zip(subject.outputs, tangents, numeric, strict=True):
                what = f"{where}: the tangent of {name} differs from {self.yardstick()}"
                _compare(what, got, known, *limits)
        if "rev" in self.modes:
            where = f"reverse mode of {subject.title}"
            primal, pull = vjp(subject.call, *values)
            cotangents = list(pull(list(cotangent)))
            for name, got, known in zip(subject.outputs, primal, outs, strict=True):
                _check_same(f"{where}: {name}", got, known, values)
            for name, got, known in zip(subject.inputs, cotangents, values, strict=True):
                _check_type(f"{where}: the cotangent of {name}", got, known)
            self.compare_products(
                subject, values, (cotangent, numeric), (cotangents, direction), limits
            )
        if tangents is not None and cotangents is not None:
            tolerance = _tolerance(EXACT_TOLERANCES, [*values, *outs])
            _compare_pairings(
                f"the modes of {subject.title} differ: <J^T u, v> of reverse mode against <u, J v> "
                "of forward mode",
                (cotangents, direction),
                (cotangent, tangents),
                0.0,
                tolerance if self.rtol is None else self.rtol,
            )

    def compare_products(
        self,
        subject: _Subject,
        values: list[Any],
        expected: tuple[list[Any], list[Any]],
        actual: tuple[list[Any], list[Any]],
        limits: tuple[float, float],
    ) -> None:
        """Compares <J^T u, v> with <u, J v>; of all arguments first, and if they differ of each."""
        where = f"reverse mode of {subject.title}"
        against = f"differs from {self.yardstick()}"
        try:
            _compare_pairings(f"{where}: <J^T u, v> {against}", actual, expected, *limits)
            return
        except AssertionError as error:
            all_together = error
        cotangents, direction = actual
        for i, name in enumerate(subject.inputs):
            alone = [v if j == i else v * 0 for j, v in enumerate(direction)]
            numeric, limits, _ = self.numeric(subject.call, values, alone)
            _compare_pairings(
                f"{where}: the cotangent of {name} {against}",
                ([cotangents[i]], [direction[i]]),
                (expected[0], numeric),
                *limits,
            )
        raise all_together

    def random_like(self, x: ArrayLike) -> ArrayLike:
        """Returns normal numbers of the shape and dtype of an array."""
        known = shape_dtype(x)
        numbers = self.rng.standard_normal(known.shape)
        if known.dtype.kind == "c":
            numbers = numbers + 1j * self.rng.standard_normal(known.shape)
        return numbers.item() if known.weak else _placed_like(np.asarray(numbers, known.dtype), x)

    def yardstick(self) -> str:
        """Returns what derivatives are compared with, for messages."""
        return "the complex step" if self.complex else "central differences"

    def numeric(
        self, call: Callable[..., Any], values: list[Any], direction: list[Any]
    ) -> tuple[list[Any], tuple[float, float], float]:
        """Returns the derivative along a direction, the atol and rtol that go with it, the step."""
        wide = [
            (_in_double_precision(x), _in_double_precision(v))
            for x, v in zip(values, direction, strict=True)
        ]

        def moved(step: complex) -> list[Any]:
            return [
                _moved_argument(x, step * v, like)
                for (x, v), like in zip(wide, values, strict=True)
            ]

        if self.complex:
            step = COMPLEX_STEP if self.eps is None else self.eps
            outs = [_host(out) for out in call(*moved(1j * step))]
            if not all(np.iscomplexobj(out) for out in outs):
                raise TypeError(
                    "method='complex-step': an output is real though the arguments are complex, "
                    "so that f is not analytic or does not depend on them; use method='central'"
                )
            numeric = [out.imag / step for out in outs]
            noise = 0.0
            tolerance = _tolerance(EXACT_TOLERANCES, [*values, *outs])
        else:
            outs = [_host(out) for out in call(*moved(0))]
            precision = max(float(finfo(out.dtype).eps) for out in outs)
            step = precision ** (1 / 3) if self.eps is None else self.eps
            around = [call(*moved(k * step)) for k, _ in DIFFERENCE_WEIGHTS]
            numeric = [
                _difference([_host(out) for out in points]) / step
                for points in zip(*around, strict=True)
            ]
            # The differences themselves are off by rounding, and by a power of the step.
            largest = max(float(np.max(np.abs(out[np.isfinite(out)]), initial=0.0)) for out in outs)
            noise = 4 * precision * largest / step
            tolerance = max(_tolerance(TOLERANCES, values), 20 * step**4)
        if self.rtol is not None:
            tolerance = self.rtol
        limits = tolerance + noise if self.atol is None else self.atol, tolerance
        return numeric, limits, step


def _host(x: ArrayLike) -> Buffer:
    """Returns an array's values in NumPy's hands, to read."""
    if type(x) is Array:
        x = x._data
    # Checks ask for values so often that the way through `__array__` is a third of their time.
    return x if type(x) is np.ndarray else np.asarray(ops.to_device(x, "cpu"))


def _in_double_precision(x: ArrayLike) -> Any:
    """Returns a value in at least double precision; a Python scalar stays one."""
    if type(x) in (float, complex):
        return x
    buffer = _host(x)
    return buffer.astype(result_type(buffer.dtype, np.float64))


def _moved_argument(x: Any, by: Any, like: Any) -> ArrayLike:
    """Returns an argument of the function, moved; a Python scalar stays one."""
    moved = x + by
    return moved if type(moved) in (float, complex) else _placed_like(np.asarray(moved), like)


def _placed_like(values: Buffer, like: ArrayLike) -> ArrayLike:
    """Returns NumPy's values as an array on the device of another."""
    return wrap(beside(like, values))


def _difference(points: Sequence[Any]) -> Any:
    """Returns the derivative by the step: zero also of what stays at the same infinity."""
    with errstate(invalid="ignore"):
        total = sum(w * out for (_, w), out in zip(DIFFERENCE_WEIGHTS, points, strict=True))
    return np.where(np.logical_and.reduce([out == points[0] for out in points]), 0, total)


def _tolerance(table: dict[int, float], values: Sequence[Any]) -> float:
    """Returns the tolerance of the coarsest of some arrays."""
    kinds = [shape_dtype(v).dtype for v in values]
    sizes = [finfo(d).bits // 8 if d.kind in INEXACT else 8 for d in kinds]
    return table[min(8, *sizes)]


def _check_type(name: str, got: ArrayLike, wanted: ArrayLike) -> None:
    """Checks that a value has the shape and dtype of another."""
    a, b = shape_dtype(got).strong(), shape_dtype(wanted).strong()
    if a != b:
        raise AssertionError(f"{name} is {a!r}, expected {b!r}")


def _check_same(name: str, got: ArrayLike, known: ArrayLike, values: Sequence[Any]) -> None:
    """Checks that a primal value is the one that the function itself gives for some values."""
    _check_type(name, got, known)
    tolerance = _tolerance(EXACT_TOLERANCES, [*values, known])
    what = f"{name} differs from the function's own value"
    _compare(what, got, known, tolerance, tolerance, equal_nan=True)


def _compare(
    what: str, got: ArrayLike, wanted: ArrayLike, atol: float, rtol: float, equal_nan: bool = False
) -> None:
    """Compares two arrays element by element: integers and booleans exactly."""
    a, b = _host(got), _host(wanted)
    if np.array_equal(a, b):
        return
    if b.dtype.kind not in INEXACT:
        atol = rtol = 0.0
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if not wrong.any():
        return
    with errstate(invalid="ignore"):
        off = np.abs(np.where(wrong, a, 0) - np.where(wrong, b, 0.0))
    place = np.unravel_index(np.argmax(np.where(np.isnan(off), np.inf, off)), off.shape)
    at = f" at index {', '.join(str(int(i)) for i in place)}" if place else ""
    raise AssertionError(
        f"{what}\n  {int(wrong.sum())} of {wrong.size} elements differ; the worst is "
        f"{off[place]:.6} off{at}: got {_shown_value(a[place])}, "
        f"expected {_shown_value(b[place])}\n"
        f"  tolerance: atol={atol:.2g}, rtol={rtol:.2g}"
    )


def _shown_value(x: Any) -> str:
    return f"{x:.8}" if x.dtype.kind in INEXACT else str(x)


def _compare_pairings(
    what: str,
    actual: tuple[Sequence[Any], Sequence[Any]],
    expected: tuple[Sequence[Any], Sequence[Any]],
    atol: float,
    rtol: float,
) -> None:
    """Compares two products of lists of arrays, relative to the lengths of their factors."""
    got, size = _pairing_of_lists(*actual)
    wanted, wanted_size = _pairing_of_lists(*expected)
    limit = atol + rtol * max(size, wanted_size)
    if not abs(got - wanted) <= limit:
        raise AssertionError(
            f"{what}\n  {abs(got - wanted):.6} off: got {got:.8}, expected {wanted:.8}\n"
            f"  tolerance: atol={atol:.2g}, rtol={rtol:.2g} of {max(size, wanted_size):.3}"
        )


def _pairing_of_lists(us: Sequence[Any], ws: Sequence[Any]) -> tuple[float, float]:
    """Returns the real part of the sum of products, and the bound on it by the factors' lengths."""
    total = size = 0.0
    for u, w in zip(us, ws, strict=True):
        a, b = _in_double_precision(_host(u)), _in_double_precision(_host(w))
        total += float(np.sum(a * b).real)
        size += float(np.linalg.norm(a.ravel()) * np.linalg.norm(b.ravel()))
    return total, size
