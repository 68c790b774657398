"""Functions of functions that are made of hooks: capture, edit, clip.

Captured values are further results. So they are differentiated, batched and compiled like others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import tree
from ..backends.errors.public_functions import check_function
from ..backends.restoring import setting
from ..functions.type_variables import P, R
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import wrap
from ..primitives.core.errors import describe, failure, function_name
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import base_trace
from ..traces.captured_values import resolved, taking
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.tensor_entrance import entrance
from .captured_gradients import Capture, CaptureGradients
from .faults import wrong_result
from .handle import Handle, check_hooked_function
from .handle import wrap as hooked
from .hook import FnHook
from .matching import Match, Matching
from .operation import Operation

__all__ = ["capture", "capture_grads", "clip_gradients", "edit"]

# The types of numbers that cotangents may be clipped to.
LIMIT_TYPES = (int, float, np.integer, np.floating)


class CaptureValues(Capture):
    """Takes outputs."""

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self.take(op, output)


def capturing(
    hook: Capture, fun: Callable[[], R], match: Match, found_in: Callable[[Any], Any]
) -> tuple[R, dict[str, Any]]:
    """Returns the result of a function and what a hook has taken meanwhile, by name.

    ``found_in`` returns the value of a name for what was taken, None where there is none.
    """
    with taking.anew():
        with Handle(hook, match, on_replay=True, lasting=True)._begin():
            out = fun()
        found = list(taking.values or ())
    if taking.values is not None:
        taking.values += [taken for taken in found if taken.taker is not hook]
    named: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    for taken in found:
        if taken.taker is not hook:
            continue
        name = free_name(taken.name, numbers)
        value = found_in(resolved(taken))
        if value is not None:
            named[name] = wrap(value) if is_array_like(value) else value
    return out, named


def free_name(name: str, numbers: dict[str, int]) -> str:
    """Returns a name, with a number behind it if there is a value of that name.

    Args:
        name: the value's.
        numbers: for all names that there are, the number to try next.
    """
    free, number = name, numbers.get(name, 0)
    if number:
        free = f"{name}:{number}"
        while free in numbers:
            number += 1
            free = f"{name}:{number}"
        numbers[free] = 1
    numbers[name] = number + 1
    return free


def capture(
    fun: Callable[P, R], match: Matching = None, *, scope: str | None = None
) -> Callable[P, tuple[R, dict[str, Array]]]:
    """Returns a function that also returns values which are computed on the way.

    The values are results like the first one: they have derivatives and batches, and may be
    compiled. Values within a ``vmap`` have its batch axis in front; those within a ``scan``, a
    ``map`` or a ``fori_loop`` are stacked along a first axis.

    Args:
        fun: any function.
        match, scope: which operations' outputs, as `use` takes them; a tag of `tag` is the plainest
            way to say it.

    Returns:
        A function of the same arguments that returns ``(out, values)``. The keys of ``values`` are
        tags, or names of primitives, behind those of their scopes: ``"block/hidden"``. Of several
        values by one name the second one is ``"hidden:1"``.

    Raises:
        EscapedTracerError: a value comes from a branch, or from a loop without a fixed number of
            steps, within ``jit``.
        BodyTypeError: a loop computes a value in some steps only, or in several shapes.

    >>> import functensor as ft, functensor.numpy as np
    >>> def f(x):
    ...     h = ft.tag(np.tanh(x), "h")
    ...     return np.sum(h**2)
    >>> out, values = ft.hooks.capture(f, "h")(np.zeros(2))
    >>> values["h"]
    Array([0., 0.], dtype=float64, device='cpu')
    >>> ft.jit(ft.grad(lambda x: np.sum(ft.hooks.capture(f, "h")(x)[1]["h"])))(np.zeros(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    check_hooked_function("capture", fun)
    chosen = Match(match, scope)

    @wraps(fun)
    def captured(*args: P.args, **kwargs: P.kwargs) -> tuple[R, dict[str, Array]]:
        hook = CaptureValues()
        return capturing(hook, lambda: fun(*args, **kwargs), chosen, lambda value: value)

    return captured


def capture_grads(
    fun: Callable[P, R], match: Matching = None, *, scope: str | None = None
) -> Callable[P, tuple[R, dict[str, Array]]]:
    """Returns a function that also returns the gradients of its result by values on the way.

    Args:
        fun: returns a scalar. It is differentiated by the floating-point arrays among its
            arguments: values that depend on none of them have no gradient here.
        match, scope: by which operations' outputs, as for `capture`, with the same names. A value
            that the result does not depend on is left out. Those of a loop's steps are stacked;
            within ``jit`` the program then has an equation of its own for each step. Checkpointed
            functions are not run again.

    Returns:
        A function of the same arguments that returns ``(out, gradients)``.

    Raises:
        TypeError: the result is no scalar of a floating-point dtype.
        EscapedTracerError: within ``jit``, a value comes from a branch, or from a loop without a
            fixed number of steps.
        BodyTypeError: as for `capture`.

    >>> import functensor as ft, functensor.numpy as np
    >>> def f(x):
    ...     return np.sum(ft.tag(np.sin(x), "h") ** 2)
    >>> ft.hooks.capture_grads(f, "h")(np.ones(1))[1]["h"]
    Array([1.68294197], dtype=float64, device='cpu')
    """
    check_hooked_function("capture_grads", fun)
    chosen = Match(match, scope)

    def of_arrays(*args: Any, **kwargs: Any) -> tuple[R, dict[str, Array]]:
        leaves, treedef = tree.flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if is_array_like(x) and is_inexact(x)]

        def of(*some: Any) -> R:
            filled = list(leaves)
            for i, x in zip(places, some, strict=True):
                filled[i] = x
            given, named = treedef.unflatten(filled)
            out: R = fun(*given, **named)
            return out

        def run() -> R:
            out, pull = vjp(of, *[leaves[i] for i in places])
            known = shape_dtype(out)
            if known.shape or known.dtype.kind not in "fV":
                raise failure(
                    TypeError,
                    f"capture_grads of {function_name(fun)}: the result is {known}, not a real "
                    "scalar",
                    fix="np.sum(f(x)), for one",
                )
            pull(known.dtype.type(1))
            hook.resolve()
            return out

        hook = CaptureGradients(base_trace())
        with setting(taking, gradients=True):
            return capturing(hook, run, chosen, hook.of)

    @wraps(fun)
    def captured(*args: P.args, **kwargs: P.kwargs) -> tuple[R, dict[str, Array]]:
        if entrance.classes and entrance.is_met((args, kwargs)):
            return entrance.lift(of_arrays, args, kwargs)  # type: ignore[no-any-return]
        return of_arrays(*args, **kwargs)

    return captured


def edit(
    fun: Callable[P, R],
    match: Matching,
    replace: Callable[[Array], Any],
    *,
    scope: str | None = None,
) -> Callable[P, R]:
    """Returns a function in which the outputs of some operations are replaced.

    Args:
        fun: any function.
        match, scope: which operations, as `use` takes them.
        replace: takes an output and returns an array of its shape and dtype. It is code like
            other code: differentiated, batched and compiled.

    Raises:
        RuleResultError: ``replace`` returned another shape or dtype.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.hooks.edit(lambda x: np.sum(np.tanh(x)), "tanh", lambda h: h * 0 + 1)(np.ones(3))
    Array(3., dtype=float64, device='cpu')
    """
    check_hooked_function("edit", fun)
    check_function("edit", replace, "replace")

    def edited(op: Operation, inputs: Sequence[Any], output: Array) -> Any:
        new = replace(output)
        if new is None:
            raise wrong_result(hook, "forward", op, "None", "return an array in place of the value")
        return new

    hook = FnHook(forward=edited, traceable=True)
    return hooked(fun, hook, match, scope=scope)


def clip_gradients(
    fun: Callable[P, R],
    match: Matching = None,
    *,
    max_norm: float | None = None,
    max_value: float | None = None,
    scope: str | None = None,
) -> Callable[P, R]:
    """Returns a function whose cotangents are clipped as they flow through some operations.

    Args:
        fun: any function.
        match, scope: which operations, as `use` takes them.
        max_norm: the largest Euclidean norm of the cotangent of an operand, which is scaled down.
            One with NaN or infinity stays as it is.
        max_value: the largest absolute value of an element, which is cut off; of complex ones the
            absolute value is.

    Raises:
        ValueError: not exactly one of the limits is given, or it is negative.

    >>> import functensor as ft, functensor.numpy as np
    >>> cube = ft.hooks.clip_gradients(lambda x: np.sum(x**3), "power", max_value=1.0)
    >>> ft.grad(cube)(np.array([0.1, 5.0]))
    Array([0.03, 1.  ], dtype=float64, device='cpu')
    """
    check_hooked_function("clip_gradients", fun)
    given: list[Any] = [limit for limit in (max_norm, max_value) if limit is not None]
    if len(given) == 1 and (type(given[0]) is bool or not isinstance(given[0], LIMIT_TYPES)):
        shown = describe(given[0])
        raise TypeError(f"clip_gradients takes a Python number as its limit, not {shown}")
    if len(given) != 1 or not given[0] >= 0:
        raise ValueError(
            "clip_gradients takes one limit that is not negative: max_norm=1.0 or max_value=1.0"
        )
    (limit,) = given

    clipped = clipped_values if max_norm is None else clipped_norm

    def backward(op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> list[Any]:
        return [g if g is None else clipped(g, limit) for g in grad_inputs]

    hook = FnHook(backward=backward, traceable=True)
    hook.keeps_finite = True
    return hooked(fun, hook, match, scope=scope)


def clipped_norm(g: Any, limit: float) -> Any:
    """Returns a cotangent scaled down to a norm. One that is zero or not finite stays as it is."""
    known = shape_dtype(g)
    if 0 in known.shape:
        return g
    # Sums of squares leave the range of 16 bits, and squares of large numbers that of others.
    wide = ops.astype(g, "float32") if known.dtype.itemsize == 2 else g
    largest = ops.stop_gradient(ops.max(ops.abs(wide)))
    usable = ops.isfinite(largest) & (largest > 0)
    unit = ops.where(usable, largest, 1)
    parts = ops.where(usable, wide / unit, 1)
    norm = ops.sqrt(ops.sum(ops.square(ops.abs(parts))))
    exceeds = usable & (norm > limit / unit)
    scaled = ops.astype(parts * (ops.where(exceeds, limit, 1) / norm), known.dtype)
    return ops.where(exceeds, scaled, g)


def clipped_values(g: Any, limit: float) -> Any:
    """Returns a cotangent whose elements are cut off at an absolute value."""
    if shape_dtype(g).dtype.kind != "c":
        return ops.clip(g, -limit, limit)
    size = ops.abs(g)
    exceeds = size > limit
    return g * ops.where(exceeds, limit / ops.where(exceeds, size, 1), 1)
