"""Reverse mode for users: ``grad``, ``value_and_grad`` and ``vjp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Literal, overload

from numpy import ndarray

from ..backends.errors.public_functions import check_function, guarded
from ..functions.argument_names import leaf_name
from ..functions.arguments import Selection, check_argnums, check_inexact
from ..functions.wrapping import transformed
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import (
    apart_from,
    beside,
    device_of,
    owned,
    required_on,
    to_buffer,
    wrap,
)
from ..primitives.core.errors import (
    NonScalarOutputError,
    RuleResultError,
    failure,
    function_name,
)
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.shape_dtype import REAL, shape_dtype
from ..primitives.core.trace import (
    RAW,
    Trace,
    as_written,
    base_trace,
    run,
    slot,
    staging_level,
    under,
)
from ..traces.forward import zeros_like
from ..traces.reverse import ReverseTrace, ReverseTracer, backward, is_inexact
from ..tree import containers as tree
from .averaged_gradients import Buckets, averaged_over_processes, first_users, means_of_now
from .given_cotangents import cotangent_of
from .keeping_trace import KeepingTrace
from .returned_pairs import check_holomorphic, outline_of_output, pair_of
from .taken_gradients import taken_gradients
from .tensor_entrance import entrance

if TYPE_CHECKING:
    from ..functions.type_variables import Aux, Derivative, NumberLike, P, PullBack, R, T
    from ..primitives.core.annotations import ArrayFunction, FunctionOfArray

__all__ = ["grad", "value_and_grad", "vjp"]


@overload
def grad(
    fun: ArrayFunction[Concatenate[Any, P]], *, allow_int: bool = ..., holomorphic: bool = ...
) -> FunctionOfArray[Concatenate[Any, P]]: ...


@overload
def grad(
    fun: Callable[Concatenate[T, P], Any], *, has_aux: Literal[False] = ...,
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Derivative[T, P, Array, T]: ...  # fmt: skip


@overload
def grad(
    fun: Callable[Concatenate[T, P], tuple[Any, Aux]], *, has_aux: Literal[True],
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Derivative[T, P, tuple[Array, Aux], tuple[T, Aux]]: ...  # fmt: skip


@overload
def grad(
    fun: Callable[P, Any], argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str] | None = ..., *, has_aux: bool = ..., allow_int: bool = ...,
    holomorphic: bool = ...,
) -> Callable[P, Any]: ...  # fmt: skip


@overload
def grad(
    fun: Callable[P, Any], *, argnames: str | Sequence[str], has_aux: bool = ...,
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Callable[P, Any]: ...  # fmt: skip


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes the gradient of a scalar function.

    Args:
        fun: returns a real scalar, or an array with one real element; with ``has_aux`` a pair of
            that and anything.
        argnums: by which positional arguments to differentiate: one (the default, 0) or several.
            Each may be a tree of real or complex arrays of any shape.
        argnames: by which arguments, by name: one or several, passed by position or by keyword,
            or left to their defaults.
        has_aux: whether ``fun`` returns extras beside the scalar.
        allow_int: whether integer inputs are accepted; their gradients are zeros.
        holomorphic: whether ``fun`` is a holomorphic function of complex arguments.

    Returns:
        A function of the same arguments. It returns the gradient in the structure, shapes and
        dtypes of the argument: a tuple for several positions, a dict for several names, and where
        both are given a pair of what is returned for each; with ``has_aux`` a pair of that and the
        extras. A gradient by a complex argument is the derivative along the real axis minus i
        times that along the imaginary one, as in JAX. Type checkers call it an
        ``Array`` where ``fun`` takes a number, and else of the argument's type.

    Raises:
        NonScalarOutputError: the output is not one real number.
        GradientInputError: an input is not real or complex.
        TypeError: there is no argument at a position or of a name.

    >>> import functensor as ft
    >>> ft.grad(lambda x: x**3)(2.0)
    Array(12., dtype=float64, device='cpu')
    >>> ft.grad(lambda x, scale: scale * x**3, argnames=("scale",))(2.0, scale=3.0)
    {'scale': Array(8., dtype=float64, device='cpu')}
    """
    options = {"has_aux": has_aux, "allow_int": allow_int, "holomorphic": holomorphic}
    gradient = differentiated("grad", fun, argnums, argnames, with_value=False, **options)
    return transformed(gradient, fun, grad, fun, argnums, argnames, **options)


@overload
def value_and_grad(
    fun: ArrayFunction[Concatenate[Any, P]], *, allow_int: bool = ..., holomorphic: bool = ...
) -> Callable[Concatenate[Any, P], tuple[Array, Array]]: ...


@overload
def value_and_grad(
    fun: Callable[Concatenate[T, P], NumberLike], *, has_aux: Literal[False] = ...,
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Derivative[T, P, tuple[Array, Array], tuple[Array, T]]: ...  # fmt: skip


@overload
def value_and_grad(
    fun: Callable[Concatenate[T, P], R], *, has_aux: Literal[False] = ...,
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Derivative[T, P, tuple[R, Array], tuple[R, T]]: ...  # fmt: skip


@overload
def value_and_grad(
    fun: Callable[Concatenate[T, P], tuple[Any, Aux]], *, has_aux: Literal[True],
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Derivative[
    T, P, tuple[tuple[Array, Aux], Array], tuple[tuple[Array, Aux], T]
]: ...  # fmt: skip


@overload
def value_and_grad(
    fun: Callable[P, Any], argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str] | None = ..., *, has_aux: bool = ..., allow_int: bool = ...,
    holomorphic: bool = ...,
) -> Callable[P, tuple[Any, Any]]: ...  # fmt: skip


@overload
def value_and_grad(
    fun: Callable[P, Any], *, argnames: str | Sequence[str], has_aux: bool = ...,
    allow_int: bool = ..., holomorphic: bool = ...,
) -> Callable[P, tuple[Any, Any]]: ...  # fmt: skip


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes a scalar function's value and gradient.

    Args:
        fun, argnums, argnames, has_aux, allow_int, holomorphic: as for `grad`.

    Returns:
        A function of the same arguments that returns ``(value, gradient)``; with ``has_aux`` the
        value is the pair that ``fun`` returned.

    Raises:
        NonScalarOutputError: the output is not a scalar.
        GradientInputError: an input is not real or complex.

    >>> import functensor as ft
    >>> value, (by_x, by_y) = ft.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
    >>> print(value, by_x, by_y)
    6.0 3.0 2.0
    """
    options = {"has_aux": has_aux, "allow_int": allow_int, "holomorphic": holomorphic}
    both = differentiated("value_and_grad", fun, argnums, argnames, **options)
    return transformed(both, fun, value_and_grad, fun, argnums, argnames, **options)


def differentiated(
    name: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
    with_value: bool = True,
) -> Callable[..., Any]:
    """Does as `value_and_grad`, under the name by which messages call the transformation.

    Without the value, it does as `grad`.
    """
    check_function(name, fun)
    check_argnums(name, argnums, argnames)

    def once(selection: Selection, buckets: Buckets | None = None) -> tuple[Any, Any, list[Any]]:
        """Returns the value, the extras and the gradients, or gives these to buckets."""
        leaves, treedef = tree.flatten(selection.values)
        check_inexact(selection, leaves, allow_int)
        if holomorphic:
            check_holomorphic(fun, leaves, name, "inputs")
        staging: Any = staging_level()
        trace = ReverseTrace(base_trace(), name, fun)
        if staging is not None:
            # A program copies the arrays that it closes over, and the way back is a part of it.
            trace = KeepingTrace(base_trace(), name, fun, staging.kept)
        tracers = _input_tracers(trace, leaves, selection.name)
        out = run(trace, selection.call, (as_written(fun), treedef.unflatten(tracers)))
        aux = None
        if has_aux:
            out, aux = pair_of(fun, out)
        if not is_array_like(out):
            is_pair = isinstance(out, tuple) and len(out) == 2
            call = f"{name}({function_name(fun)}, has_aux=True)"
            fix = call if is_pair else "return one number; has_aux=True"
            what = f"is {outline_of_output(out)}, not a scalar"
            raise _output_error(name, fun, what, f"{fix} is for a pair (output, extras)")
        value, node = _output_node(trace, out)
        _check_scalar(fun, value, name, holomorphic)
        nodes = [None if t is leaf else t.node for leaf, t in zip(leaves, tracers, strict=True)]
        grads: dict[Any, Any] = {}
        with under(trace.parent):
            if buckets is not None:
                if with_value:
                    buckets.begin_value(value)
                inputs = {n for n in nodes if n is not None}
                buckets.begin(leaves, nodes, first_users([] if node is None else [node], inputs))
            if node is not None:
                known = shape_dtype(value)
                one = beside(value, known.dtype.type(1))
                if known.shape:
                    one = ops.broadcast_to(one, known.shape)
                grads = backward([(node, one)], consume=True, of=trace)
            if buckets is not None:
                gradients = list(map(wrap, buckets.end()))
            else:
                # Leaves of integers have no node.
                gradients = [
                    wrap(grads[node] if node is not None and node in grads else zeros_like(leaf))
                    for leaf, node in zip(leaves, nodes, strict=True)
                ]
        if trace.parent.staging:
            trace.parent.note_gradients(leaves, gradients)
        elif taken_gradients.watched and leaves:
            taken_gradients.note(leaves[0], gradients[0])
        plain = plain_arrays(leaves)
        if has_aux:
            aux = tree.map(partial(trace.released, given=plain), aux)
        if with_value:
            value = apart_from(value, plain)
        return value, aux, gradients

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        if entrance.classes and entrance.is_met((args, kwargs)):
            # Made anew: a function that names itself would live until the garbage is collected.
            options = {"has_aux": has_aux, "allow_int": allow_int, "holomorphic": holomorphic}
            again = differentiated(name, fun, argnums, argnames, with_value=with_value, **options)
            return entrance.lift(again, args, kwargs)
        selection = Selection(fun, args, kwargs, argnums, argnames)
        means = None if slot.axes is None else means_of_now(name)
        if means is None:
            value, aux, gradients = once(selection)
        else:
            value, aux, gradients = averaged_over_processes(once, means, selection)
        found = tree.structure(selection.values).unflatten(gradients)
        if not with_value:
            return (found, aux) if has_aux else found
        return ((value, aux) if has_aux else value), found

    return update_wrapper(value_and_gradient, fun)


@overload
def vjp(
    fun: Callable[..., NumberLike], *primals: Any, has_aux: Literal[False] = ...
) -> tuple[Array, PullBack]: ...


@overload
def vjp(
    fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = ...
) -> tuple[R, PullBack]: ...


@overload
def vjp(
    fun: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, PullBack, Aux]: ...


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Computes a function and returns it with the function that pulls cotangents back.

    Args:
        fun: takes and returns trees of arrays.
        primals: its arguments. NumPy arrays among them, and those that ``fun`` refers to otherwise,
            are copied, so that later changes to them do not show.
        has_aux: whether ``fun`` returns a pair of the output and extras.

    Returns:
        ``(out, vjp_fun)``, with ``has_aux`` ``(out, vjp_fun, aux)``. ``vjp_fun`` takes a cotangent
        of the output's structure, shapes and dtypes, and returns a tuple with one of every
        argument's; it may be called many times.

    Raises:
        RuleResultError: a cotangent does not fit the output.

    >>> import functensor as ft
    >>> out, pull = ft.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> by_x, by_y = pull(1.0)
    >>> print(by_x, by_y)
    3.0 2.0
    """
    return pulled_back("vjp", fun, primals, has_aux, keeps=True)


def pulled_back(
    name: str,
    fun: Callable[..., Any],
    primals: Sequence[Any],
    has_aux: bool,
    path: Callable[[int], str] | None = None,
    *,
    keeps: bool = False,
) -> Any:
    """Does as `vjp`, for a transformation that messages call by another name.

    ``path`` gives the name of the leaf of an index, where it is not that of the arguments' own.
    ``keeps`` says that what is pulled back later must not change with NumPy arrays until then.
    """
    primals = tuple(primals)
    leaves, treedef = tree.flatten(primals)
    if entrance.classes and entrance.is_met(leaves):
        return entrance.with_function(
            pulled_back, (name, fun, primals, has_aux, path), {"keeps": keeps}
        )
    leaves = [owned(leaf) for leaf in leaves]
    path = path or partial(leaf_name, fun, primals)
    trace = (KeepingTrace if keeps else ReverseTrace)(base_trace(), name, fun)
    # Copies of our own are wrapped, not copied once more.
    given = [wrap(leaf) if type(leaf) is ndarray and is_inexact(leaf) else leaf for leaf in leaves]
    tracers = _input_tracers(trace, given, path)
    out = run(trace, as_written(fun), treedef.unflatten(tracers))
    aux = None
    if has_aux:
        out, aux = pair_of(fun, out)
    out_leaves, out_treedef = tree.flatten(out)
    outputs = [_output_node(trace, leaf) for leaf in out_leaves]
    roots = [(shape_dtype(value), node, device_of(value)) for value, node in outputs]
    inputs = [None if t is leaf else t.node for leaf, t in zip(given, tracers, strict=True)]
    pull = _pull_back(name, fun, trace, (leaves, inputs, treedef), (out_treedef, roots))
    public = out_treedef.unflatten([wrap(value) for value, _ in outputs])
    if has_aux:
        return public, pull, tree.map(trace.released, aux)
    return public, pull


def _pull_back(
    name: str, fun: Callable[..., Any], trace: ReverseTrace, arguments: Any, outputs: Any
) -> Callable[[Any], Any]:
    """Returns the function that pulls cotangents back over a run.

    Args:
        name, fun: of the transformation, for messages.
        trace: what ran.
        arguments: their leaves, the leaves' nodes, and their structure.
        outputs: their structure; of every leaf its type, its node and its device.
    """
    leaves, inputs, treedef = arguments
    out_treedef, known = outputs

    def pull(cotangent: Any) -> Any:
        gs, got = tree.flatten(cotangent)
        if entrance.classes and entrance.is_met(gs):
            # Made anew: what names itself keeps its residuals until the garbage is collected.
            again = _pull_back(name, fun, trace, arguments, outputs)
            return entrance.lift(again, (cotangent,), {})
        if got != out_treedef:
            raise failure(
                RuleResultError,
                f"{name} of {function_name(fun)} was given a cotangent of structure {got}, "
                f"but its output has the structure {out_treedef}",
                fix="pass a cotangent with the structure of the output",
            )
        outer = trace.parent
        while outer is not RAW:
            if not outer.alive:
                raise outer.escaped(f"the {name} function of {function_name(fun)}, made under it,")
            outer = outer.parent
        level = base_trace()
        with under(level):
            roots = []
            for g, (kind, node, place) in zip(gs, known, strict=True):
                if node is not None:
                    g = required_on(owned(g), place, f"a cotangent of {name}")
                    roots.append((node, cotangent_of(kind, to_buffer(g) if level is RAW else g)))
            asked = Trace(level, name, fun, slot.running)
            grads = backward(roots, consume=False, of=asked)
            result = [
                wrap(grads[node] if node in grads else zeros_like(leaf))
                for leaf, node in zip(leaves, inputs, strict=True)
            ]
        return treedef.unflatten(result)

    return guarded(pull, f"{name}({function_name(fun)})[1]")


def _input_tracers(trace: ReverseTrace, leaves: list[Any], path: Callable[[int], str]) -> list[Any]:
    """Returns the leaves of arguments as a trace's tracers, those of integers as they are."""
    return [
        trace.input(trace.argument(leaf), partial(path, i)) if is_inexact(leaf) else leaf
        for i, leaf in enumerate(leaves)
    ]


def _output_node(trace: ReverseTrace, out: Any) -> tuple[Any, Any]:
    """Returns an output's value at the parent's level and its node, None for a constant."""
    if isinstance(out, ReverseTracer) and out.owner is trace:
        return out.value, out.node
    return trace.lift(owned(out)), None


def _check_scalar(fun: Callable[..., Any], value: Value, name: str, holomorphic: bool) -> None:
    known = shape_dtype(value)
    if known.size != 1:
        fix = "use ft.jacrev or ft.vjp, or reduce it, e.g. .sum()"
        raise _output_error(name, fun, f"has shape {known.shape}, not ()", fix)
    check_kind(fun, value, name, holomorphic)


def check_kind(fun: Callable[..., Any], value: Value, name: str, holomorphic: bool) -> None:
    """Checks that an output is real, or complex if the function is called holomorphic."""
    dtype = shape_dtype(value).dtype
    if dtype.kind not in ("c" if holomorphic else REAL):
        what = f"is {dtype}, not {'complex' if holomorphic else 'real'}"
        fix = "return a float; holomorphic=True is for complex outputs of complex inputs"
        raise _output_error(name, fun, what, fix)


def _output_error(name: str, fun: Callable[..., Any], what: str, fix: str) -> NonScalarOutputError:
    text = f"{name} of {function_name(fun)}: the output {what}"
    return failure(NonScalarOutputError, text, fix=fix)
