"""Forward mode for users, and derivatives that are functions of a direction or an element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Literal, overload

from ..backends.errors.public_functions import check_function, guarded
from ..backends.restoring import quiet
from ..functions.argument_names import leaf_name
from ..functions.arguments import Selection, check_argnums, check_inexact
from ..functions.type_variables import typed_as
from ..functions.wrapping import transformed
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.buffers import (
    apart_from,
    computing_on,
    device_of,
    owned,
    required_on,
    to_buffer,
    wrap,
)
from ..primitives.core.errors import (
    GradientInputError,
    RuleResultError,
    describe,
    failure,
    function_name,
)
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import RAW, Trace, as_written, base_trace, below_hooks, run, under
from ..programs.linear_staging import LinearTrace
from ..traces.forward import ForwardTrace, ForwardTracer, zeros_like
from ..traces.reverse import is_inexact
from ..tree import TreeDef
from ..tree import containers as tree
from .given_cotangents import cotangent_of
from .grad import (
    check_kind,
    differentiated,
    grad,
    pulled_back,
)
from .linear_functions import linear_transpose
from .returned_pairs import check_holomorphic, pair_of
from .tensor_entrance import entrance

if TYPE_CHECKING:
    from ..functions.type_variables import Aux, NumberLike, R
    from ..primitives.core.array import Array

# Old pickles look for `linear_transpose` here.
__all__ = ["elementwise_grad", "hvp", "jvp", "linear_transpose", "linearize"]


@overload
def jvp(
    fun: Callable[..., NumberLike], primals: Sequence[Any], tangents: Sequence[Any],
    has_aux: Literal[False] = ...,
) -> tuple[Array, Array]: ...  # fmt: skip


@overload
def jvp(
    fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any],
    has_aux: Literal[False] = ...,
) -> tuple[R, R]: ...  # fmt: skip


@overload
def jvp(
    fun: Callable[..., tuple[R, Aux]], primals: Sequence[Any], tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...  # fmt: skip


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
    return pushed_forward("jvp", fun, primals, tangents, has_aux)


def pushed_forward(
    name: str,
    fun: Callable[..., Any],
    primals: Any,
    tangents: Any,
    has_aux: bool = False,
    path: Callable[[int], str] | None = None,
) -> Any:
    """Does as `jvp`, for a transformation that messages call by another name.

    ``path`` gives the name of the leaf of an index, where it is not that of the arguments' own.
    """
    _check_sequences(name, fun, primals, tangents)
    if entrance.classes and entrance.is_met((primals, tangents)):
        return entrance.lift(pushed_forward, (name, fun, primals, tangents, has_aux, path), {})
    base = base_trace()
    leaves, treedef = tree.flatten(tuple(primals))
    directions = _directions(name, fun, tuple(tangents), leaves, treedef)
    out, out_tangents, aux = _push_forward(
        fun, base, leaves, treedef, directions, has_aux, name, path
    )
    result = out, _zeros_filled(base, *tree.flatten(out), out_tangents)
    return (*result, aux) if has_aux else result


def _zeros_filled(base: Trace, leaves: list[Any], treedef: TreeDef, tangents: list[Any]) -> Any:
    """Returns a tree of tangents, zeros where an output has none."""
    with under(base):
        filled = [
            wrap(zeros_like(leaf) if t is None else t)
            for leaf, t in zip(leaves, tangents, strict=True)
        ]
    return treedef.unflatten(filled)


def _check_sequences(name: str, fun: Callable[..., Any], primals: Any, tangents: Any) -> None:
    check_function(name, fun)
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            f"{name} takes a tuple or list of arguments and one of tangents, not "
            f"{type(primals).__name__} and {type(tangents).__name__}: ft.{name}(f, (x,), (t,))"
        )


def _directions(
    name: str, fun: Callable[..., Any], tangents: Any, leaves: list[Any], treedef: TreeDef
) -> list[Any]:
    """Returns the tangents of the leaves, checked against them; None for integer leaves."""
    given, got = tree.flatten(tangents)
    if got != treedef:
        raise failure(
            RuleResultError,
            f"{name} of {function_name(fun)}: the tangents have the structure {got}, "
            f"the arguments {treedef}",
            fix="give each argument a tangent of its own structure",
        )
    for leaf, t in zip(leaves, given, strict=True):
        if not is_inexact(leaf) and is_inexact(t):
            raise failure(
                GradientInputError,
                f"{name} of {function_name(fun)}: a tangent {describe(t)} was given for "
                f"{describe(leaf)}, which has none",
                fix="pass a float, e.g. x.astype(float), or an integer as the tangent",
            )
    base = base_trace()
    directions: list[Any] = []
    with under(base):
        for leaf, t in zip(leaves, given, strict=True):
            if is_inexact(leaf):
                t = to_buffer(owned(t)) if base is RAW else owned(t)
                t = required_on(t, device_of(leaf), f"a tangent of {name}")
                t = cotangent_of(shape_dtype(leaf), t, "tangent", "an argument")
            directions.append(t if is_inexact(leaf) else None)
    return directions


def _push_forward(
    fun: Callable[..., Any],
    level: Trace,
    leaves: list[Any],
    treedef: TreeDef,
    directions: list[Any],
    has_aux: bool,
    name: str,
    path: Callable[[int], str] | None = None,
) -> tuple[Any, list[Any], Any]:
    """Runs forward mode under a level; returns the public output, raw tangents, and extras."""
    trace = ForwardTrace(level, name, fun)
    moved = [i for i, t in enumerate(directions) if t is not None]
    path = path or partial(leaf_name, fun, treedef.unflatten(leaves))
    trace.names = lambda: [path(i) for i in moved]
    tracers = [
        leaf if t is None else trace.wrap(trace.argument(leaf), t)
        for leaf, t in zip(leaves, directions, strict=True)
    ]
    with computing_on(leaves):
        out = run(trace, as_written(fun), treedef.unflatten(tracers))
    aux, plain = None, plain_arrays(leaves)
    if has_aux:
        out, aux = pair_of(fun, out)
        aux = tree.map(partial(trace.released, given=plain), aux)
    out_leaves, out_treedef = tree.flatten(out)
    pairs = [_split_tangent(trace, leaf, plain) for leaf in out_leaves]
    return out_treedef.unflatten([p for p, _ in pairs]), [t for _, t in pairs], aux


def _split_tangent(trace: ForwardTrace, leaf: ArrayLike, plain: list[Any]) -> tuple[Any, Any]:
    """Returns an output as the caller sees it, and its tangent, None for a constant."""
    if isinstance(leaf, ForwardTracer) and leaf.owner is trace:
        return apart_from(leaf.value, plain), leaf.tangent
    return apart_from(trace.lift(owned(leaf)), plain), None


@overload
def linearize(
    fun: Callable[..., NumberLike], *primals: Any, has_aux: Literal[False] = ...
) -> tuple[Array, Callable[..., Array]]: ...


@overload
def linearize(
    fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = ...
) -> tuple[R, Callable[..., R]]: ...


@overload
def linearize(
    fun: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], Aux]: ...


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Computes a function and returns it with its derivative at that point, a linear function.

    The nonlinear work is done once; every call of the linear function repeats the linear part
    only. Loops run step by step, as outside of all transformations; within ``jit`` a loop without
    reverse mode is done again as a whole by the linear function.

    Args:
        fun: takes and returns trees of arrays.
        primals: its arguments; NumPy arrays among them are copied, as by `vjp`.
        has_aux: whether ``fun`` returns a pair of the output and extras.

    Returns:
        ``(out, linear)``, with ``has_aux`` ``(out, linear, aux)``. ``linear`` takes tangents of
        the arguments and returns the output's; it may be called many times, and transformed.

    Raises:
        RuleResultError: ``linear`` was given tangents that do not fit the arguments.

    >>> import functensor as ft, functensor.numpy as np
    >>> out, linear = ft.linearize(np.sin, 0.0)
    >>> linear(2.0)
    Array(2., dtype=float64, device='cpu')
    """
    if entrance.classes and entrance.is_met(primals):
        return entrance.with_function(linearize, (fun, *primals), {"has_aux": has_aux})
    return linearized("linearize", fun, primals, has_aux)


def linearized(
    name: str,
    fun: Callable[..., Any],
    primals: Any,
    has_aux: bool,
    path: Callable[[int], str] | None = None,
) -> Any:
    """Does as `linearize`, for a transformation that messages call by another name."""
    leaves, treedef = tree.flatten(primals)
    leaves = [owned(leaf) for leaf in leaves]
    staging = LinearTrace(base_trace(), fun)
    inputs = [staging.input(shape_dtype(x).strong()) if is_inexact(x) else None for x in leaves]
    call = (fun, staging, leaves, treedef, inputs, has_aux, name, path)
    out, tangents, aux = run(staging, _push_forward, call)
    out_leaves, out_treedef = tree.flatten(out)
    found = [i for i, t in enumerate(tangents) if t is not None]
    program = staging.program([v for v in inputs if v is not None], [tangents[i] for i in found])

    def linear(*directions: Any) -> Any:
        if entrance.classes and entrance.is_met(directions):
            return entrance.lift(push, directions, {})
        return push(*directions)

    def push(*directions: Any) -> Any:
        given = _directions(name, fun, directions, leaves, treedef)
        base = base_trace()
        # Hooks saw the operations when they were linearized, and rules may overflow on the way.
        with below_hooks(), quiet():
            images = program.run([wrap(t) for t in given if t is not None])
        known = dict(zip(found, images, strict=True))
        results = [known.get(i) for i in range(len(out_leaves))]
        return _zeros_filled(base, out_leaves, out_treedef, results)

    pushing = guarded(linear, f"{name}({function_name(fun)})[1]")
    return (out, pushing, aux) if has_aux else (out, pushing)


def hvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Computes the product of a scalar function's Hessian with a vector, without the Hessian.

    Args:
        fun: returns a real scalar.
        primals: its arguments, all differentiated by.
        tangents: the vector: of every argument a tree of the same structure, shapes and dtypes.
        has_aux: whether ``fun`` returns a pair of the scalar and extras.

    Returns:
        The product, in the structure of the arguments; of a single argument, its own structure.
        With ``has_aux`` a pair of that and the extras.

    Raises:
        NonScalarOutputError: the output is not a scalar.
        RuleResultError: the vector does not fit the arguments.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    Array([ 6., 12.], dtype=float64, device='cpu')
    """
    _check_sequences("hvp", fun, primals, tangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    gradient = differentiated("hvp", fun, argnums, has_aux=has_aux, with_value=False)
    _, product, *aux = pushed_forward("hvp", gradient, primals, tangents, has_aux)
    return (product, aux[0]) if has_aux else product


@typed_as(grad)
def elementwise_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes the derivative of an elementwise function.

    It is the gradient of the sum of all outputs, so that one pass gives the derivatives of all
    elements; nested, those of higher order.

    Args:
        fun: takes and returns arrays; every element of the output depends only on the element at
            its place. Derivatives by other elements, if there are any, are added up.
        argnums, argnames, has_aux, allow_int, holomorphic: as for `grad`.

    Returns:
        A function of the same arguments that returns the derivative in the structure, shapes and
        dtypes of the argument; with ``has_aux`` a pair of that and the extras.

    Raises:
        NonScalarOutputError: an output is not an array of real numbers, or with ``holomorphic``
            of complex ones.
        GradientInputError: an input is not real or complex.

    >>> import functensor as ft, functensor.numpy as np
    >>> second = ft.elementwise_grad(ft.elementwise_grad(lambda x: x**3))
    >>> second(np.array([1.0, 2.0]))
    Array([ 6., 12.], dtype=float64, device='cpu')
    """
    check_argnums("elementwise_grad", argnums, argnames)
    options = {"has_aux": has_aux, "allow_int": allow_int, "holomorphic": holomorphic}

    def derivative(*args: Any, **kwargs: Any) -> Any:
        if entrance.classes and entrance.is_met((args, kwargs)):
            again = elementwise_grad(fun, argnums, argnames, **options)
            return entrance.lift(again, args, kwargs)
        selection = Selection(fun, args, kwargs, argnums, argnames)
        leaves = tree.leaves(selection.values)
        check_inexact(selection, leaves, allow_int)
        if holomorphic:
            check_holomorphic(fun, leaves, "elementwise_grad", "inputs")
        call = update_wrapper(lambda values: selection.call(fun, values), fun)
        out, pull, *aux = pulled_back(
            "elementwise_grad", call, (selection.values,), has_aux, selection.name
        )
        for leaf in tree.leaves(out):
            check_kind(fun, leaf, "elementwise_grad", holomorphic)
        with under(base_trace()):
            ones = tree.map(
                lambda leaf: wrap(ops.broadcast_to(leaf.dtype.type(1), leaf.shape)), out
            )
        (result,) = pull(ones)
        return (result, aux[0]) if has_aux else result

    return transformed(derivative, fun, elementwise_grad, fun, argnums, argnames, **options)
