"""``scan``, ``while_loop``, ``fori_loop`` and ``map``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..primitives.core.annotations import ArrayLike, Number, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer, unknown_behind
from ..primitives.core.buffers import device_of, wrap
from ..primitives.core.errors import AxisSizeError, describe, function_name, message
from ..primitives.core.python_numbers import as_python_number
from ..primitives.core.shape_dtype import ShapeDtype, result_type, shape_dtype
from ..programs.program import Variable, argument_type
from ..transforms.vmap import vmap
from ..tree import containers as tree
from .body import Body, is_staged
from .carry_types import BodyTypeError, Carry, leaves_of, returned, same_structure
from .checks import as_count, check_body_function, check_scalar
from .eager import scanned, stacked_steps, whiled
from .program_edits import zeros
from .scan_rules import ScanCall
from .while_rules import WhileCall

if TYPE_CHECKING:
    from ..backends.annotations import DType

__all__ = ["fori_loop", "map", "scan", "while_loop"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
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
    """Does what `scan` does, under the name by which the user knows it, for a function shown."""
    where = f"{name} of {function_name(shown)}"
    leaves, x_tree, names = leaves_of(f"{where}: xs", xs)
    size = _scan_length(where, leaves, names, length)
    carry = Carry(name, shown, init)
    count = len(carry.leaves)
    ys: list[Any] = []

    def flat(values: Values) -> Values:
        out: Any = f(carry.treedef.unflatten(values[:count]), x_tree.unflatten(values[count:]))
        if not isinstance(out, tuple) or len(out) != 2:
            got = f"{len(out)} values" if isinstance(out, tuple) else f"a {type(out).__name__}"
            raise BodyTypeError(
                message(
                    f"{carry.where}the body returned {got}, not a pair",
                    fix="return carry, y; return carry, None where there is nothing to stack",
                    number=22,
                )
            )
        second = f"{where}: the " + (
            "second value that the body returned" if name == "scan" else "result"
        )
        found, treedef, _ = leaves_of(second, out[1])
        if ys:
            same_structure(
                second,
                treedef,
                ys[0],
                "but before it was",
                "return the same structure in every step",
            )
        else:
            ys.append(treedef)
        return [*carry.flat(out[0]), *found]

    everything = _unrolled(where, unroll, size)
    if size and (everything or not is_staged()):
        values, rows = scanned(carry, flat, leaves, size, reverse)
        outs = [*values, *stacked_steps(rows)]
    else:
        outs = _staged_scan(name, shown, carry, flat, leaves, size, reverse)
    outs = [returned(out) for out in outs]
    return carry.treedef.unflatten(outs[:count]), ys[0].unflatten(outs[count:])


def _unrolled(where: str, unroll: int | bool, length: int) -> bool:
    """Says whether every step of a loop is to be in the program by itself."""
    if unroll is True or unroll is None:
        return bool(unroll)
    return as_count(where, "unroll", unroll, 0, "unroll=True, or a number of steps") >= length > 1


def _scan_length(where: str, leaves: Values, names: Sequence[str], length: int | None) -> int:
    """Returns how many slices there are.

    Raises:
        AxisSizeError: that is not known, or the arrays disagree.
    """
    sizes = []
    for leaf, name in zip(leaves, names, strict=True):
        shape = shape_dtype(leaf).shape
        if not shape:
            raise AxisSizeError(
                message(
                    f"{where}: xs{name} is {describe(leaf)}, which has no axis to go along",
                    fix="close over what is the same in every step",
                    number=10,
                )
            )
        sizes.append(shape[0])
    if length is not None:
        length = as_count(where, "length", length, 0, "scan(f, init, None, length=10)")
    known_sizes = [*sizes, *([] if length is None else [length])]
    if not known_sizes:
        raise AxisSizeError(
            message(
                f"{where}: xs has no array, and there is no length",
                fix="map(f, np.arange(10))"
                if where.startswith("map of ")
                else "scan(f, init, None, length=10)",
                number=10,
            )
        )
    usual = max(set(known_sizes), key=known_sizes.count)
    if len(set(known_sizes)) > 1:
        rows = [
            f"    xs{name}: {describe(leaf)} has length {size}"
            + ("   <- differs" if size != usual else "")
            for name, leaf, size in zip(names, leaves, sizes, strict=True)
        ]
        if length is not None:
            rows.append(f"    length={length}" + ("   <- differs" if length != usual else ""))
        raise AxisSizeError(
            message(
                f"{where}: the arrays differ in length\n" + "\n".join(rows),
                fix="give all arrays in xs the same length along their first axis",
                number=10,
            )
        )
    return usual


def _variables_like(values: Values, types: Sequence[ShapeDtype]) -> list[Variable]:
    return [Variable(known, device_of(x)) for x, known in zip(values, types, strict=True)]


def _staged_body(
    name: str,
    carry: Carry,
    flat: Callable[[Values], Values],
    more: list[Variable],
    fun: Callable[..., Any],
) -> Body:
    """Stages a loop's body for the types that its carry settles to."""
    count = len(carry.types)
    while True:
        body = Body(flat, [*_variables_like(carry.leaves, carry.types), *more], name, fun)
        if not carry.meet(body.types[:count]):
            return body


def _staged_scan(
    name: str,
    f: Callable[..., Any],
    carry: Carry,
    flat: Callable[[Values], Values],
    xs: Values,
    length: int,
    backwards: bool,
) -> Values:
    slices = [
        Variable(ShapeDtype(known.shape[1:], known.dtype), device_of(x))
        for x, known in zip(xs, [shape_dtype(x) for x in xs], strict=True)
    ]
    body = _staged_body(name, carry, flat, slices, f)
    count = len(carry.types)
    types = [*carry.types, *body.types[count:]]
    call = ScanCall(body.program(types), count, len(xs), length, backwards, name=name)
    if not length and not is_staged():
        made = call.outputs()[count:]
        return [*carry.cast(carry.leaves), *(zeros(known) for known in made)]
    return call.bind([*carry.cast(carry.leaves), *xs, *body.captured()])


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> Any:
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
        TypeError: the condition is no boolean scalar, or what is to be called no function.

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
        check_scalar(
            f"while_loop: the condition {function_name(cond_fun)} returned",
            holds,
            "b",
            "a boolean",
            ("return x < 10 from it", "return np.any(x < 10) from it, or np.all"),
        )
        return [holds]

    def flat(values: Values) -> Values:
        return carry.flat(body_fun(carry.treedef.unflatten(values)))

    outs = _while("while_loop", cond_fun, body_fun, condition, flat, carry, max_steps)
    return carry.treedef.unflatten(outs)


def _while(
    name: str,
    cond_fun: Callable[..., Any],
    body_fun: Callable[..., Any],
    condition: Callable[[Values], Values],
    flat: Callable[[Values], Values],
    carry: Carry,
    max_steps: int | None,
) -> Values:
    """Runs a body of flat lists, or stages it, for as long as a condition of them holds."""
    if not is_staged():
        outs = whiled(carry, condition, flat, max_steps)
    else:
        outs = _staged_while(name, cond_fun, body_fun, condition, flat, carry, max_steps)
    return [returned(out) for out in outs]


def _staged_while(
    name: str,
    cond_fun: Callable[..., Any],
    body_fun: Callable[..., Any],
    condition: Callable[[Values], Values],
    flat: Callable[[Values], Values],
    carry: Carry,
    max_steps: int | None,
) -> Values:
    # What the body computes of what it closes over stays in it: it may not run at all.
    while True:
        like = _variables_like(carry.leaves, carry.types)
        body = Body(flat, like, name, body_fun, lazy=True)
        if not carry.meet(body.types):
            break
    test = Body(condition, like, name, cond_fun, lazy=True)
    call = WhileCall(
        test.program([ShapeDtype((), bool)]),
        body.program(carry.types),
        len(carry.types),
        max_steps,
        name,
    )
    return call.bind([*carry.cast(carry.leaves), *test.captured(), *body.captured()])


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
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
    if unknown_behind(lower) is None and unknown_behind(upper) is None:
        return _counted_loop(lower, upper, body_fun, init_val, unroll)
    if not argument_type(lower).weak:
        lower = ops.astype(lower, _dtype_of(lower, upper))
    carry = Carry("fori_loop", body_fun, init_val, [lower, upper])

    def condition(values: Values) -> Values:
        return [values[0] < values[1]]

    def flat(values: Values) -> Values:
        i, end, *inner = values
        return [i + 1, end, *carry.flat(body_fun(i, carry.treedef.unflatten(inner)))]

    outs = _while("fori_loop", condition, body_fun, condition, flat, carry, None)
    return carry.treedef.unflatten(outs[2:])


def _loop_bound(x: ArrayLike) -> Array | Number:
    x = as_python_number(x)
    return x if isinstance(x, Tracer) or type(x) is int else wrap(x)


def _dtype_of(lower: Any, upper: Any) -> DType:
    """Returns the dtype of a counter that begins with an array."""
    if argument_type(upper).weak:
        return shape_dtype(lower).dtype
    return result_type(shape_dtype(lower).dtype, shape_dtype(upper).dtype)


def _counted_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any, unroll: Any) -> Any:
    """Runs a loop whose number of steps is known: a scan that stacks nothing."""
    start, end = int(lower), int(upper)
    length = max(0, end - start)
    # A counter that begins with a Python integer is weak too: it decides no promotion.
    first: Array | int = start if type(lower) is int else ops.astype(start, _dtype_of(lower, upper))
    carry = Carry("fori_loop", body_fun, init_val, [first])

    def flat(values: Values) -> Values:
        i, *inner = values
        return [i + 1, *carry.flat(body_fun(i, carry.treedef.unflatten(inner)))]

    if _unrolled(f"fori_loop of {function_name(body_fun)}", unroll, length) or not is_staged():
        outs, _ = scanned(carry, flat, [], length, False)
    else:
        outs = _staged_scan("fori_loop", body_fun, carry, flat, [], length, False)
    return carry.treedef.unflatten([returned(out) for out in outs[1:]])


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies a function to one slice of arrays after the other, and stacks the results.

    What `vmap` does at once this does in order, in the memory of one slice.

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
