"""``scan`` and ``map``: a function that is run for one slice of arrays after the other.

Outside of ``jit`` a scan is Python's own loop. In a program it is one operation, whose
derivatives and batches are in ``scan_rules.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..functions.type_variables import R
from ..jitting.program_call import Flat
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import WEAK_TYPES, device_of, wrap
from ..primitives.core.errors import AxisSizeError, describe, function_name
from ..primitives.core.python_numbers import as_number
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import below_hooks, interceptors, is_staged
from ..primitives.elementwise.cast_and_complex import cast
from ..programs.program import Variable, argument_type
from ..random.key_reuse import ledger
from ..traces.captured_values import handing_out, taking
from ..transforms.vmap import vmap
from ..tree import containers as tree
from .body import run_in_place, settled_body
from .carry_types import BodyTypeError, Carry, leaves_of, returned, same_structure, unlike_steps
from .checks import as_count, check_body_function, control_error
from .program_edits import zeros
from .scan_rules import ScanCall

__all__ = ["body_step", "is_unrolled", "map", "scan", "scanned", "stacked_steps", "staged_scan"]


def scan(
    f: Callable[[Any, Any], tuple[R, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[R, Any]:
    """Runs a function for one slice of arrays after the other, and hands on a carry.

    It is ``for x in xs: carry, y = f(carry, x)``, with the ys stacked.

    Args:
        f: takes the carry and a slice, returns the next carry and a tree of arrays. The carry keeps
            its structure, shapes and dtypes; a Python number to begin with takes the dtype that
            comes out. It may close over traced values.
        init: the first carry, a tree of arrays.
        xs: a tree of arrays with a common length along the first axis; None for no slices.
        length: that length; needed where there are no arrays.
        reverse: whether to begin at the last slice; the ys stay beside their slices.
        unroll: True, or at least the length, puts every step into the program by itself within
            ``jit``; other numbers, which JAX takes, change nothing.

    Returns:
        The last carry, and the tree of the ys stacked along a new first axis.

    Raises:
        AxisSizeError: the arrays have different lengths, or none is known.
        BodyTypeError: the carry changes its structure, shape or dtype.
        TypeError: ``f`` is no function, or ``length`` no integer.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (Array(6., dtype=float64, device='cpu'), Array([0., 1., 3.], dtype=float64, device='cpu'))
    """
    check_body_function("scan", "f", f, "scan(lambda carry, x: (carry + x, carry), init, xs)")
    return _run_scan("scan", f, f, init, xs, length, reverse, unroll)


def _run_scan(
    name: str,
    shown: Callable[..., Any],
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Does what `scan` does, for ``scan`` and ``map``; messages show the user's function."""
    where = f"{name} of {function_name(shown)}"
    leaves, x_tree, names = leaves_of(f"{where}: xs", xs)
    size = _scan_length(where, leaves, names, length)
    carry = Carry(name, shown, init)
    count = len(carry.leaves)
    ys: list[Any] = []
    second = "second value that the body returned" if name == "scan" else "result"
    second = f"{where}: the {second}"

    def flat(values: Values) -> Values:
        out: Any = f(carry.treedef.unflatten(values[:count]), x_tree.unflatten(values[count:]))
        if not isinstance(out, tuple) or len(out) != 2:
            got = f"{len(out)} values" if isinstance(out, tuple) else f"a {type(out).__name__}"
            fix = "return carry, y; return carry, None where there is nothing to stack"
            what = f"{carry.where}the body returned {got}, not a pair"
            raise control_error(what, fix, BodyTypeError)
        found, treedef, _ = leaves_of(second, out[1])
        if not ys:
            ys.append(treedef)
        fix = "return the same structure in every step"
        same_structure(second, treedef, ys[0], "but before it was", fix)
        return [*carry.flat(out[0]), *found]

    unrolled = is_unrolled(where, unroll, size)
    body, note = handing_out(flat, unlike_steps(where))
    if size and (unrolled or not is_staged()):
        body = body if unrolled else run_in_place(name, shown, body)
        values, rows = scanned(carry, body, leaves, size, reverse)
        outs = [*values, *stacked_steps(rows)]
    else:
        outs = staged_scan(name, shown, carry, body, leaves, size, reverse)
    outs = [returned(out) for out in note(outs)]
    return carry.treedef.unflatten(outs[:count]), ys[0].unflatten(outs[count:])


def is_unrolled(where: str, unroll: int | bool | None, length: int) -> bool:
    """Says whether a program gets an equation of its own for every step of a loop."""
    if taking.gradients and is_staged():
        return True
    if unroll is True or unroll is None:
        return bool(unroll)
    return as_count(where, "unroll", unroll, 0, "unroll=True, or a number of steps") >= length > 1


def _scan_length(where: str, leaves: Values, names: Sequence[str], length: int | None) -> int:
    """Returns the number of slices; raises an AxisSizeError where the arrays disagree."""
    sizes = []
    for leaf, name in zip(leaves, names, strict=True):
        shape = shape_dtype(leaf).shape
        if not shape:
            what = f"{where}: xs{name} is {describe(leaf)}, which has no axis to go along"
            fix = "close over what is the same in every step"
            raise control_error(what, fix, AxisSizeError, 10)
        sizes.append(shape[0])
    right = "scan(f, init, None, length=10)"
    if length is not None:
        length = as_count(where, "length", length, 0, right)
    known_sizes = [*sizes, *([] if length is None else [length])]
    if not known_sizes:
        fix = "map(f, np.arange(10))" if where.startswith("map of ") else right
        what = f"{where}: xs has no array, and there is no length"
        raise control_error(what, fix, AxisSizeError, 10)
    usual = max(set(known_sizes), key=known_sizes.count)
    if len(set(known_sizes)) > 1:
        pairs = zip(names, leaves, sizes, strict=True)
        shown = [f"xs{name}: {describe(leaf)} has length {size}" for name, leaf, size in pairs]
        if length is not None:
            shown.append(f"length={length}")
        rows = [
            f"    {words}" + "   <- differs" * (size != usual)
            for words, size in zip(shown, known_sizes, strict=True)
        ]
        what = f"{where}: the arrays differ in length\n" + "\n".join(rows)
        fix = "give all arrays in xs the same length along their first axis"
        raise control_error(what, fix, AxisSizeError, 10)
    return usual


def staged_scan(
    name: str,
    f: Callable[..., Any],
    carry: Carry,
    flat: Flat,
    xs: Values,
    length: int,
    backwards: bool,
) -> Values:
    """Binds a scan as one operation; returns the last carry and the stacked values."""
    types = [shape_dtype(x) for x in xs]
    slices = [
        Variable(ShapeDtype(known.shape[1:], known.dtype), device_of(x))
        for x, known in zip(xs, types, strict=True)
    ]
    body = settled_body(name, carry, flat, slices, f)
    count = len(carry.types)
    program = body.program([*carry.types, *body.types[count:]])
    call = ScanCall(program, count, len(xs), length, backwards, name=name)
    if not length and not is_staged():
        return [*carry.cast(carry.leaves), *(zeros(x) for x in call.infer()[count:])]
    return call.bind([*carry.cast(carry.leaves), *xs, *body.captured()])


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies a function to one slice of arrays after the other, and stacks the results.

    Unlike `vmap` it does them in order, in the memory of one slice.

    Args:
        f: takes a slice and returns a tree of arrays.
        xs: a tree of arrays with a common length along the first axis.
        batch_size: how many slices are done at once, by `vmap`; the rest comes last.

    Returns:
        The tree of the results stacked along a new first axis.

    Raises:
        AxisSizeError: the arrays have different lengths.
        TypeError: ``f`` is no function, or ``batch_size`` no integer.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.control.map(lambda row: np.sum(row), np.ones((3, 2)))
    Array([2., 2., 2.], dtype=float64, device='cpu')
    """

    check_body_function("map", "f", f, "map(lambda x: np.sum(x), xs)")

    def step(carry: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    if batch_size is None:
        return _run_scan("map", f, step, None, xs)[1]
    where = f"map of {function_name(f)}"
    size = as_count(where, "batch_size", batch_size, 1, "map(f, xs, batch_size=32)")
    leaves, treedef, names = leaves_of(f"{where}: xs", xs)
    length = _scan_length(where, leaves, names, None)
    whole, batch = length - length % size, vmap(f)

    def part(cut: Callable[[Any], Any]) -> Any:
        return treedef.unflatten([cut(leaf) for leaf in leaves])

    results = []
    if whole or not length:
        rows = part(lambda x: ops.reshape(x[:whole], (whole // size, size, *x.shape[1:])))
        _, outs = _run_scan("map", f, lambda carry, x: (None, batch(x)), None, rows)
        results.append(tree.map(lambda y: ops.reshape(y, (whole, *y.shape[2:])), outs))
    if whole < length:
        results.append(batch(part(lambda x: x[whole:])))
    if len(results) == 1:
        return results[0]
    return tree.map(lambda *ys: ops.concatenate(ys), *results)


# -- as Python's own loop


def body_step(carry: Carry, run: Callable[[Values], Values], values: Values, first: bool) -> Values:
    """Runs a loop's body once; returns the next carry, cast to its types, and the other values.

    The first step is done again, with a weak scalar cast to the dtype that comes out.
    """
    count = len(carry.types)
    if first and interceptors() and any(x.weak for x in carry.types):
        # Hooks see each step once.
        with below_hooks(), ledger.replaying():
            while carry.meet([argument_type(out) for out in run(values)[:count]]):
                values = carry.cast(values)
    outs = run(values)
    changed = carry.meet([argument_type(out) for out in outs[:count]])
    while changed and first:
        values = carry.cast(values)
        with ledger.replaying():
            outs = run(values)
        changed = carry.meet([argument_type(out) for out in outs[:count]])
    return [*carry.cast(outs[:count]), *outs[count:]]


def scanned(
    carry: Carry, body: Flat, xs: Values, length: int, backwards: bool
) -> tuple[Values, list[Values]]:
    """Runs a scan's body for every slice, by Python's own loop.

    Returns:
        The last carry, and the other values of every step, in the order of the slices.
    """
    values = carry.leaves
    rows: list[Values] = []
    steps = range(length)
    for number, i in enumerate(reversed(steps) if backwards else steps):
        # Hooks see the steps, as they do in a program that runs them.
        with below_hooks():
            slices = [ops.index(x, i) for x in xs]

        def run(values: Values, slices: Values = slices) -> Values:
            return body([*[as_number(x) for x in values], *slices])

        outs = body_step(carry, run, values, not number)
        values = outs[: len(values)]
        rows.append(outs[len(values) :])
    if backwards:
        rows.reverse()
    return values, rows


def stacked_steps(rows: Sequence[Values]) -> Values:
    """Returns, for every value of a step, those of all steps along a new first axis."""
    with below_hooks():
        return [stacked(column) for column in zip(*rows)]


def stacked(column: Sequence[Any]) -> Array:
    """Returns values along a new first axis; weak scalars decide no dtype, wherever they come."""
    strong = next((x for x in column if type(x) not in WEAK_TYPES), None)
    if strong is not None:
        dtype = wrap(strong).dtype
        column = [cast(x, dtype) if type(x) in WEAK_TYPES else x for x in column]
    return ops.stack(column)
