"""``while_loop`` and ``fori_loop``: a function that is run on its own result.

Outside of ``jit`` these are Python's own loops. In a program each is one operation, whose
derivatives and batches are in ``while_rules.py``; a ``fori_loop`` with known bounds is a scan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.devices import to_host
from ..backends.restoring import quiet
from ..functions.type_variables import R
from ..jitting.program_call import Flat
from ..primitives.core.annotations import ArrayLike, Number, Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer, unknown_behind
from ..primitives.core.buffers import wrap
from ..primitives.core.errors import function_name
from ..primitives.core.python_numbers import as_number, as_python_number
from ..primitives.core.shape_dtype import ShapeDtype, result_type, shape_dtype
from ..primitives.core.trace import below_hooks, is_staged
from ..primitives.elementwise.cast_and_complex import cast
from ..programs.program import argument_type
from ..traces.captured_values import handing_out
from .body import Body, known, run_in_place, settled_body
from .carry_types import Carry, returned, unlike_steps
from .checks import as_count, check_body_function, check_scalar
from .scan import body_step, is_unrolled, scanned, stacked_steps, staged_scan
from .while_rules import WhileCall

__all__ = ["fori_loop", "while_loop"]


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], R],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> R:
    """Runs a function on its own result as long as a condition holds.

    It is ``while cond_fun(val): val = body_fun(val)``. Under ``vmap`` it runs until the condition
    holds for no example; those that are done keep their values.

    Args:
        cond_fun: takes the value and returns a boolean scalar.
        body_fun: takes the value and returns the next one, of the same structure, shapes and
            dtypes; a Python number to begin with takes the dtype that comes out. Both functions
            may close over traced values.
        init_val: the first value, a tree of arrays.
        max_steps: after how many steps the loop ends in any case. Within ``jit``, reverse mode
            needs it: it then keeps the values of about 3 sqrt(max_steps) steps and computes those
            between again.

    Returns:
        The last value.

    Raises:
        BodyTypeError: the value changes its structure, shape or dtype.
        MissingRuleError: within ``jit``, reverse mode of a loop without ``max_steps``.
        TypeError: the condition is no boolean scalar, or an argument no function.

    >>> import functensor as ft
    >>> def root(a):
    ...     close = lambda x: abs(x * x - a) > 1e-12
    ...     return ft.while_loop(close, lambda x: (x + a / x) / 2, a)
    >>> root(2.0)
    Array(1.41421356, dtype=float64, device='cpu')
    """
    right = "while_loop(lambda x: x < 10, lambda x: x * 2, init_val{})"
    for argument, fun in (("cond_fun", cond_fun), ("body_fun", body_fun)):
        check_body_function("while_loop", argument, fun, right.format(""))
    if max_steps is not None:
        more = right.format(", max_steps=1000")
        max_steps = as_count("while_loop", "max_steps", max_steps, 0, more)
    carry = Carry("while_loop", body_fun, init_val)

    def condition(values: Values) -> Values:
        holds = cond_fun(carry.treedef.unflatten(values))
        what = f"while_loop: the condition {function_name(cond_fun)} returned"
        fixes = ("return x < 10 from it", "return np.any(x < 10) from it, or np.all")
        check_scalar(what, holds, "b", "a boolean", fixes)
        return [holds]

    def flat(values: Values) -> Values:
        return carry.flat(body_fun(carry.treedef.unflatten(values)))

    outs = _while("while_loop", cond_fun, body_fun, condition, flat, carry, max_steps)
    last: R = carry.treedef.unflatten(outs)
    return last


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], R],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> R:
    """Runs a function on its own result for every integer of a range.

    It is ``for i in range(lower, upper): val = body_fun(i, val)``.

    Args:
        lower, upper: the first integer, and the one after the last; they may be traced. Reverse
            mode within ``jit`` needs Python integers.
        body_fun: takes the integer and the value and returns the next value, of the same
            structure, shapes and dtypes. It may close over traced values.
        init_val: the first value, a tree of arrays.
        unroll: as for `scan`.

    Returns:
        The last value.

    Raises:
        BodyTypeError: the value changes its structure, shape or dtype.
        MissingRuleError: within ``jit``, reverse mode of a loop with traced bounds.
        TypeError: a bound is no integer, or the body no function.

    >>> import functensor as ft
    >>> ft.fori_loop(0, 4, lambda i, x: x * (i + 1), 1.0)
    Array(24., dtype=float64, device='cpu')
    """
    right = "fori_loop(0, 10, lambda i, x: x * i, init_val)"
    check_body_function("fori_loop", "body_fun", body_fun, right)
    for name, x in (("lower", lower), ("upper", upper)):
        check_scalar(f"fori_loop: {name} is", x, "iu", "an integer", (right, right))
    lower, upper = _loop_bound(lower), _loop_bound(upper)
    counted = unknown_behind(lower) is None and unknown_behind(upper) is None
    first = int(lower) if counted else lower
    # A counter that begins with a Python integer is weak: it decides no promotion.
    if not (type(lower) is int if counted else argument_type(lower).weak):
        dtype = shape_dtype(lower).dtype
        if not argument_type(upper).weak:
            dtype = result_type(dtype, shape_dtype(upper).dtype)
        first = ops.astype(first, dtype)
    own = [first] if counted else [first, upper]
    carry = Carry("fori_loop", body_fun, init_val, own)

    # Hooks do not see how the steps are counted.
    def condition(values: Values) -> Values:
        with below_hooks():
            return [values[0] < values[1]]

    def flat(values: Values) -> Values:
        i, val = values[0], carry.treedef.unflatten(values[len(own) :])
        with below_hooks():
            following = i + 1
        return [following, *values[1 : len(own)], *carry.flat(body_fun(i, val))]

    if counted:
        length = max(0, int(upper) - int(lower))
        where = f"fori_loop of {function_name(body_fun)}"
        body, note = handing_out(flat, unlike_steps(where))
        unrolled = is_unrolled(where, unroll, length)
        if unrolled or not is_staged():
            body = body if unrolled else run_in_place("fori_loop", body_fun, body)
            outs, rows = scanned(carry, body, [], length, False)
            outs = [*outs, *stacked_steps(rows)]
        else:
            outs = staged_scan("fori_loop", body_fun, carry, body, [], length, False)
        outs = list(map(returned, note(outs)))
    else:
        outs = _while("fori_loop", condition, body_fun, condition, flat, carry, None)
    last: R = carry.treedef.unflatten(outs[len(own) :])
    return last


def _loop_bound(x: ArrayLike) -> Array | Number:
    x = as_python_number(x)
    return x if isinstance(x, Tracer) or type(x) is int else wrap(x)


def _while(
    name: str,
    cond_fun: Callable[..., Any],
    body_fun: Callable[..., Any],
    condition: Flat,
    flat: Flat,
    carry: Carry,
    max_steps: int | None,
) -> Values:
    """Runs a body of flat lists, or stages it, for as long as a condition of them holds."""
    if not is_staged():
        condition = run_in_place(name, cond_fun, condition)
        outs = whiled(carry, condition, run_in_place(name, body_fun, flat), max_steps)
    else:
        # The body computes nothing in advance: it may not run at all.
        body = settled_body(name, carry, flat, [], body_fun, lazy=True)
        names = carry.shown_names()
        test = Body(condition, carry.variables(), name, cond_fun, lazy=True, names=names)
        holds = test.program([ShapeDtype((), bool)])
        call = WhileCall(holds, body.program(carry.types), len(carry.types), max_steps, name)
        outs = call.bind([*carry.cast(carry.leaves), *test.captured(), *body.captured()])
    return [returned(out) for out in outs]


def whiled(carry: Carry, condition: Flat, body: Flat, max_steps: int | None) -> Values:
    """Runs a loop's body as long as the condition holds; under vmap, for any example."""
    values = carry.leaves
    weak = any(x.weak for x in carry.types)
    done = 0

    def step(values: Values) -> Values:
        return body(list(map(as_number, values)))

    active: Array | None = None
    while max_steps is None or done < max_steps:
        (holds,) = condition(list(map(as_number, values)))
        if active is not None or not known(holds):
            with below_hooks():
                active = holds if active is None else ops.logical_and(active, holds)
            if not holds_anywhere(active):
                break
            values = _masked_step(carry, step, values, active, done == 0, weak)
        else:
            if not holds:
                break
            values = body_step(carry, step, values, done == 0)
        done += 1
    return values


def _masked_step(
    carry: Carry, body: Flat, values: Values, active: Array | None, first: bool, weak: bool
) -> Values:
    """Does a step for the examples that are not done; hooks see the body's operations alone."""

    def run(values: Values) -> Values:
        with below_hooks():
            entering = [
                ops.where(active, x, ops.stop_gradient(x))
                if not known(x) and kind.dtype.kind in "fcV"
                else x
                for x, kind in zip(values, carry.types, strict=True)
            ]
        outs = body(entering)
        if weak and not first:
            # A weak scalar has become an array of examples, which decides promotions.
            with below_hooks():
                return [
                    cast(out, kind.dtype) if argument_type(out).dtype != kind.dtype else out
                    for out, kind in zip(outs, carry.types, strict=True)
                ]
        return outs

    # Examples that are done may give NaN, which nobody is to be warned of.
    with quiet():
        outs = body_step(carry, run, values, first)
    with below_hooks():
        before = carry.cast(values) if first else values
        return [
            cast(ops.where(active, new, old), kind.dtype)
            for new, old, kind in zip(outs, before, carry.types, strict=True)
        ]


def holds_anywhere(holds: Value) -> bool:
    """Says whether a condition holds for any example of the batches at whatever level."""
    while isinstance(holds, Tracer):
        holds = holds.value
    return bool(np.any(to_host(wrap(holds)._data)))
