"""Forward mode for users, and whole derivatives: Jacobians, Hessians and their products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import numpy as np

from . import tree
from .arguments import Selection, check_inexact
from .forward import ForwardTrace, ForwardTracer, zeros_like
from .gradients import check_holomorphic, grad, pair_of, vjp
from .primitives.buffers import to_buffer, wrap
from .primitives.core import RAW, base_trace, run, under
from .primitives.errors import (
    GradientInputError,
    RuleResultError,
    describe,
    function_name,
    message,
)
from .primitives.registry import registry as ops
from .primitives.types import shape_dtype
from .reverse import cotangent_of, is_inexact
from .staging import StagingTrace
from .vectorize import vmap

__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize"]


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Computes a function together with its directional derivative.

    Args:
        fun: takes and returns trees of arrays.
        primals: its arguments, a tuple or list.
        tangents: the direction: of every argument a tree of the same structure, shapes and dtypes.
        has_aux: whether ``fun`` returns a pair of the output and extras.

    Returns:
        ``(out, tangent_out)``, with ``has_aux`` ``(out, tangent_out, aux)``.

    Raises:
        RuleResultError: the tangents do not fit the arguments.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.jvp(np.square, (3.0,), (1.0,))
    (Array(9., dtype=float64, device='cpu'), Array(6., dtype=float64, device='cpu'))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            f"jvp of {function_name(fun)} takes a tuple or list of arguments and one of tangents, "
            f"not {type(primals).__name__} and {type(tangents).__name__}: ft.jvp(f, (x,), (t,))"
        )
    base = base_trace()
    leaves, treedef = tree.flatten(tuple(primals))
    directions = _directions(fun, tuple(tangents), leaves, treedef)
    out, out_tangents, aux = _push(fun, base, leaves, treedef, directions, has_aux, "jvp")
    out_leaves, out_treedef = tree.flatten(out)
    with under(base):
        filled = [
            wrap(zeros_like(leaf) if t is None else t)
            for leaf, t in zip(out_leaves, out_tangents, strict=True)
        ]
    result = out, out_treedef.unflatten(filled)
    return (*result, aux) if has_aux else result


def _directions(
    fun: Callable[..., Any], tangents: Any, leaves: list[Any], treedef: Any
) -> list[Any]:
    """Returns the tangents of the leaves, checked against them; None for integer leaves."""
    given, got = tree.flatten(tangents)
    if got != treedef:
        raise RuleResultError(
            message(
                f"jvp of {function_name(fun)}: the tangents have the structure {got}, "
                f"the arguments {treedef}",
                fix="give each argument a tangent of its own structure",
                number=9,
            )
        )
    for leaf, t in zip(leaves, given, strict=True):
        if not is_inexact(leaf) and is_inexact(t):
            raise GradientInputError(
                message(
                    f"jvp of {function_name(fun)}: a tangent {describe(t)} was given for "
                    f"{describe(leaf)}, which has none",
                    fix="pass a float, e.g. x.astype(float), or an integer as the tangent",
                    number=7,
                )
            )
    base = base_trace()
    with under(base):
        return [
            cotangent_of(
                shape_dtype(leaf), to_buffer(t) if base is RAW else t, "tangent", "argument"
            )
            if is_inexact(leaf)
            else None
            for leaf, t in zip(leaves, given, strict=True)
        ]


def _push(
    fun: Callable[..., Any],
    level: Any,
    leaves: list[Any],
    treedef: Any,
    directions: list[Any],
    has_aux: bool,
    name: str,
) -> tuple[Any, list[Any], Any]:
    """Runs forward mode under a level; returns the public output, raw tangents, and extras."""
    trace = ForwardTrace(level, name, fun)
    tracers = [
        leaf if t is None else trace.wrap(trace.argument(leaf), t)
        for leaf, t in zip(leaves, directions, strict=True)
    ]
    out = run(trace, fun, treedef.unflatten(tracers))
    aux = None
    if has_aux:
        out, aux = pair_of(fun, out)
        aux = tree.map(trace.released, aux)
    out_leaves, out_treedef = tree.flatten(out)
    pairs = [_split(trace, leaf) for leaf in out_leaves]
    return out_treedef.unflatten([p for p, _ in pairs]), [t for _, t in pairs], aux


def _split(trace: ForwardTrace, leaf: Any) -> tuple[Any, Any]:
    """Returns an output as the caller sees it, and its tangent, None for a constant."""
    if isinstance(leaf, ForwardTracer) and leaf.trace is trace:
        return wrap(leaf.value), leaf.tangent
    return wrap(trace.lift(leaf)), None


def linearize(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Computes a function and returns it with its derivative at that point, a linear function.

    The nonlinear work is done once; every call of the linear function repeats the linear part
    only.

    Args:
        fun: takes and returns trees of arrays.
        primals: its arguments.

    Returns:
        ``(out, linear)``; ``linear`` takes tangents of the arguments and returns the output's.

    >>> import functensor as ft, functensor.numpy as np
    >>> out, linear = ft.linearize(np.sin, 0.0)
    >>> linear(2.0)
    Array(2., dtype=float64, device='cpu')
    """
    leaves, treedef = tree.flatten(primals)
    staging = StagingTrace(base_trace(), "linearize", fun)
    inputs = [staging.input(shape_dtype(x).strong()) if is_inexact(x) else None for x in leaves]
    call = (fun, staging, leaves, treedef, inputs, False, "linearize")
    out, tangents, _ = run(staging, _push, call)
    out_leaves, out_treedef = tree.flatten(out)
    found = [i for i, t in enumerate(tangents) if t is not None]
    program = staging.program([v for v in inputs if v is not None], [tangents[i] for i in found])

    def linear(*directions: Any) -> Any:
        given = _directions(fun, directions, leaves, treedef)
        results: list[Any] = [None] * len(out_leaves)
        base = base_trace()
        # Hooks saw the operations when they were linearized.
        with under(None if base is RAW else base):
            pushed = program.run([wrap(t) for t in given if t is not None])
        for i, t in zip(found, pushed, strict=True):
            results[i] = t
        with under(base):
            filled = [
                wrap(zeros_like(leaf) if t is None else t)
                for leaf, t in zip(out_leaves, results, strict=True)
            ]
        return out_treedef.unflatten(filled)

    return out, linear


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes the Jacobian column by column, by forward mode.

    Best where there are more outputs than inputs.

    Args:
        fun: takes and returns trees of arrays.
        argnums, argnames, has_aux, holomorphic: as for `grad`.

    Returns:
        A function of the same arguments. It returns, in the output's structure, trees of the
        argument's structure of arrays of shape ``output.shape + argument.shape``.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float64, device='cpu')
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        selection = Selection(fun, args, kwargs, argnums, argnames)
        leaves, treedef = tree.flatten(selection.values)
        check_inexact(selection, leaves, False)
        _check_complex(fun, leaves, holomorphic, "jacfwd", "inputs")

        def push(direction: Any) -> Any:
            return jvp(_of_selected(selection, fun), (selection.values,), (direction,), has_aux)

        basis = treedef.unflatten(_basis(leaves))
        spare = (None,) if has_aux else ()
        out, columns, *aux = vmap(push, out_axes=(None, -1, *spare))(basis)
        split = tree.map(lambda column, o: _by_argument(column, o, leaves, treedef), columns, out)
        return (split, aux[0]) if has_aux else split

    return update_wrapper(jacobian, fun)


def _of_selected(selection: Selection, fun: Callable[..., Any]) -> Callable[[Any], Any]:
    """Returns a function of the selected arguments alone, which messages call by its own name."""
    return update_wrapper(lambda values: selection.call(fun, values), fun)


def _basis(leaves: list[Any]) -> list[Any]:
    """Returns for every leaf an array of the directions in which each element counts one."""
    known = [shape_dtype(leaf) for leaf in leaves]
    total = sum(k.size for k in known)
    start = 0
    result = []
    for k in known:
        rows = np.zeros((total, k.size), k.dtype)
        rows[np.arange(start, start + k.size), np.arange(k.size)] = 1
        result.append(wrap(rows.reshape(total, *k.shape)))
        start += k.size
    return result


def _by_argument(columns: Any, out: Any, leaves: list[Any], treedef: Any) -> Any:
    """Splits the last axis into one axis for each axis of each argument."""
    start = 0
    parts = []
    for leaf in leaves:
        known = shape_dtype(leaf)
        block = columns[..., start : start + known.size]
        parts.append(ops.reshape(block, (*out.shape, *known.shape)))
        start += known.size
    return treedef.unflatten(parts)


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes the Jacobian row by row, by reverse mode.

    Best where there are more inputs than outputs.

    Args:
        fun, argnums, argnames, has_aux, holomorphic: as for `jacfwd`.

    Returns:
        As `jacfwd`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float64, device='cpu')
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        selection = Selection(fun, args, kwargs, argnums, argnames)
        leaves, _ = tree.flatten(selection.values)
        check_inexact(selection, leaves, False)
        _check_complex(fun, leaves, holomorphic, "jacrev", "inputs")
        out, pull, *aux = vjp(_of_selected(selection, fun), selection.values, has_aux=has_aux)
        outs, out_treedef = tree.flatten(out)
        _check_complex(fun, outs, holomorphic, "jacrev", "outputs")
        (rows,) = vmap(pull)(out_treedef.unflatten(_basis(outs)))
        start = 0
        parts = []
        for o in outs:
            stop = start + o.size
            parts.append(tree.map(lambda r, o=o, a=start, b=stop: _block(r, o, a, b), rows))
            start = stop
        split = out_treedef.unflatten(parts)
        return (split, aux[0]) if has_aux else split

    return update_wrapper(jacobian, fun)


def _block(rows: Any, out: Any, start: int, stop: int) -> Any:
    """Returns the rows of one output with its axes in front."""
    return ops.reshape(rows[start:stop], (*out.shape, *rows.shape[1:]))


def _check_complex(
    fun: Callable[..., Any], leaves: list[Any], holomorphic: bool, name: str, what: str
) -> None:
    if holomorphic:
        check_holomorphic(fun, leaves, name, what)
    elif any(shape_dtype(leaf).dtype.kind == "c" for leaf in leaves):
        raise TypeError(
            f"{name} of {function_name(fun)}: complex values have one Jacobian only where the "
            "function is holomorphic; say holomorphic=True, or split real and imaginary parts"
        )


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes the Hessian: forward over reverse mode.

    Args:
        fun, argnums, argnames, has_aux, holomorphic: as for `jacfwd`; outputs may have any shape.

    Returns:
        A function of the same arguments that returns trees of trees of arrays of shape
        ``output.shape + argument.shape + argument.shape``.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float64, device='cpu')
    """
    first = jacrev(fun, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(first, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic)


def hvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Computes the product of a scalar function's Hessian with a vector, without the Hessian.

    Args:
        fun: returns a real scalar.
        primals: its arguments, all differentiated by.
        tangents: the vector: of every argument a tree of the same structure, shapes and dtypes.

    Returns:
        The product, in the structure of the arguments; of a single argument, its own structure.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    Array([ 6., 12.], dtype=float64, device='cpu')
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(fun, argnums), primals, tangents)[1]
