"""Jacobians and Hessians, all columns or all rows at once or in chunks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, overload
from weakref import WeakKeyDictionary

import numpy as np

from ..functions.arguments import Selection, check_argnums, check_inexact
from ..functions.type_variables import P, typed_as
from ..functions.wrapping import Transformed, transformed
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import ARRAY_TYPES, beside, wrap
from ..primitives.core.errors import function_name
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.elementwise.cast_and_complex import complex_of
from ..tree import TreeDef
from ..tree import containers as tree
from .grad import pulled_back
from .jvp import linearized, pushed_forward
from .returned_pairs import check_holomorphic
from .taken_gradients import TakenGradients, taken_gradients
from .tensor_entrance import entrance
from .vmap import vmap

if TYPE_CHECKING:
    from ..primitives.core.annotations import AnyFunction

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]


def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Returns a function that computes the Jacobian column by column, by forward mode.

    Best where there are more outputs than inputs.

    Args:
        fun: takes and returns trees of arrays.
        argnums, argnames, has_aux, holomorphic: as for `grad`.
        chunk_size: how many columns are computed at once, which bounds the memory; ``fun`` runs
            once for every chunk. None stands for all.

    Returns:
        A function of the same arguments. It returns, in the output's structure, trees of the
        argument's structure of arrays of shape ``output.shape + argument.shape``, in the
        argument's precision; with ``has_aux`` a pair of that and the extras.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float64, device='cpu')
    """
    return _jacobian("jacfwd", fun, argnums, argnames, "fwd", has_aux, holomorphic, chunk_size)


def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Returns a function that computes the Jacobian row by row, by reverse mode.

    Best where there are more inputs than outputs.

    Args:
        fun, argnums, argnames, has_aux, holomorphic: as for `jacfwd`.
        chunk_size: how many rows are computed at once, which bounds the memory; ``fun`` runs once
            in any case. None stands for all.

    Returns:
        As `jacfwd`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float64, device='cpu')
    """
    return _jacobian("jacrev", fun, argnums, argnames, "rev", has_aux, holomorphic, chunk_size)


@overload
def jacobian(
    fun: AnyFunction, argnums: int | Sequence[int] | None = ...,
    argnames: str | Sequence[str] | None = ..., *, mode: str = ..., has_aux: bool = ...,
    holomorphic: bool = ..., chunk_size: int | None = ...,
) -> Callable[..., Any]: ...  # fmt: skip


@overload
def jacobian(
    fun: Callable[P, Any], argnums: int | Sequence[int] | None = ...,
    argnames: str | Sequence[str] | None = ..., *, mode: str = ..., has_aux: bool = ...,
    holomorphic: bool = ..., chunk_size: int | None = ...,
) -> Callable[P, Any]: ...  # fmt: skip


def jacobian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    mode: str = "auto",
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Returns a function that computes the Jacobian by the mode that is cheaper.

    Args:
        fun, argnums, argnames, has_aux, holomorphic, chunk_size: as for `jacfwd`.
        mode: ``"fwd"``, ``"rev"``, or ``"auto"``: forward mode unless there are more elements of
            arguments than of outputs, or, where ``fun`` takes a gradient itself, not fewer than
            three quarters. That is found in the first run for arguments of the same shapes and
            dtypes, which gives the result too, by `linearize`; and not again as long as ``fun``,
            or what `grad` and the like made it of, is the same object.

    Returns:
        As `jacfwd`.

    Raises:
        ValueError: there is no such mode.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.jacobian(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    Array([2., 4.], dtype=float64, device='cpu')
    """
    _check_mode("jacobian", mode, ("auto", "fwd", "rev"))
    return _jacobian("jacobian", fun, argnums, argnames, mode, has_aux, holomorphic, chunk_size)


@typed_as(jacobian)
def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    mode: str = "auto",
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Returns a function that computes the Hessian, by default by reverse over reverse mode.

    Args:
        fun, argnums, argnames, has_aux, holomorphic: as for `jacfwd`; outputs may have any shape.
        mode: ``"fwd-rev"``, ``"rev-rev"``, ``"fwd-fwd"`` or ``"rev-fwd"``: the outer mode and the
            inner one; ``"auto"`` takes ``"rev-rev"``. Of a logistic regression, two parameters
            and 100 samples, that takes eagerly two thirds of the time of ``"fwd-rev"``; with
            1,000 parameters, and within ``jit``, both take the same.
        chunk_size: how many columns or rows are computed at once, in either derivative; None
            stands for all.

    Returns:
        A function of the same arguments that returns trees of trees of arrays of shape
        ``output.shape + argument.shape + argument.shape``; with ``has_aux`` a pair of that and
        the extras.

    Raises:
        ValueError: there is no such mode.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float64, device='cpu')
    """
    if mode == "auto":
        mode = "rev-rev"
    _check_mode("hessian", mode, ("fwd-rev", "rev-rev", "fwd-fwd", "rev-fwd"))
    outer, inner = mode.split("-")
    first = _jacobian("hessian", fun, argnums, argnames, inner, has_aux, holomorphic, chunk_size)
    return _jacobian("hessian", first, argnums, argnames, outer, has_aux, holomorphic, chunk_size)


def _check_mode(name: str, mode: str, modes: tuple[str, ...]) -> None:
    if mode not in modes:
        raise ValueError(f"{name}: mode={mode!r} is none of {', '.join(map(repr, modes))}")


def _jacobian(
    name: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str] | None,
    mode: str,
    has_aux: bool,
    holomorphic: bool,
    chunk_size: int | None,
) -> Callable[..., Any]:
    """Returns the Jacobian's function, under the name by which messages call it."""
    check_argnums(name, argnums, argnames)
    if chunk_size is not None and operator.index(chunk_size) < 1:
        raise ValueError(f"{name}: chunk_size={chunk_size} is not positive")

    options = (argnums, argnames, mode, has_aux, holomorphic, chunk_size)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        if entrance.classes and entrance.is_met((args, kwargs)):
            return entrance.lift(_jacobian(name, fun, *options), args, kwargs)
        selection = Selection(fun, args, kwargs, argnums, argnames)
        leaves = tree.leaves(selection.values)
        check_inexact(selection, leaves, False)
        _check_complex(fun, leaves, holomorphic, name, "inputs")
        call = update_wrapper(lambda values: selection.call(fun, values), fun)
        chosen = mode
        if mode == "auto":
            known, key = _known_function(fun, leaves, holomorphic)
            if key not in known and sum(shape_dtype(leaf).size for leaf in leaves) <= 1:
                known[key] = "fwd"
            if key not in known:
                given = (name, call, selection, has_aux, holomorphic, chunk_size)
                known[key], found = _by_a_linear_function(*given)
                return found
            chosen = known[key]
        if chosen == "fwd":
            return _jacobian_by_columns(name, call, selection, has_aux, chunk_size)
        return _jacobian_by_rows(name, call, selection, has_aux, holomorphic, chunk_size)

    return transformed(jacobian, fun, _jacobian, name, fun, *options)


# The modes that were found to be cheaper, by the function and the types of its arguments.
_modes: WeakKeyDictionary[Any, dict[Any, str]] = WeakKeyDictionary()


def _known_function(
    fun: Callable[..., Any], leaves: list[Any], holomorphic: bool
) -> tuple[dict[Any, str], Any]:
    """Returns what is known of a function, and by which key: each is looked for once."""
    kinds = [shape_dtype(leaf) for leaf in leaves]
    inner, made_by = _lasting_function(fun)
    key = (made_by, holomorphic, *((kind.shape, kind.dtype) for kind in kinds))
    try:
        return _modes.setdefault(inner, {}), key
    except TypeError:  # an object that nothing refers to weakly, or without a hash
        return {}, key


def _lasting_function(fun: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]]:
    """Returns what a function was made of, by transformations that are told by names and numbers,
    and by which: ``grad(f)`` is made anew where ``f`` stays the same.
    """
    made_by = []
    while type(fun) is Transformed:
        make, args, options = fun.made_by
        inner = fun.__wrapped__  # type: ignore[attr-defined]
        told = [x for x in (*args, *options.values()) if x is not inner]
        if not all(x is None or type(x) in (bool, int, str) for x in told):
            break
        made_by.append((make, *options, *told))
        fun = inner
    return fun, tuple(made_by)


def _cheaper_by(leaves: list[Any], out: Any, has_gradient: bool, holomorphic: bool) -> str:
    """Returns the mode that is cheaper, by the sizes of arguments and outputs.

    Passes cost the same in either mode, but where a function takes a gradient itself: forward mode
    over that takes 4 to 3 of the time of reverse mode.
    """
    kinds = [shape_dtype(leaf) for leaf in tree.leaves(out)]
    # A complex output of real inputs has its one Jacobian in forward mode only.
    if not holomorphic and any(kind.dtype.kind == "c" for kind in kinds):
        return "fwd"
    columns = sum(shape_dtype(leaf).size for leaf in leaves)
    rows = sum(kind.size for kind in kinds)
    if has_gradient:
        return "rev" if 3 * rows <= 4 * columns else "fwd"
    return "fwd" if columns <= rows else "rev"


def _by_a_linear_function(
    name: str,
    call: Callable[..., Any],
    selection: Selection,
    has_aux: bool,
    holomorphic: bool,
    chunk_size: int | None,
) -> tuple[str, Any]:
    """Returns the mode that is cheaper, and the Jacobian, of a function of which nothing is known.

    The function runs once: its derivative is a linear function, whose Jacobian is the same.
    """
    TakenGradients.watched = True
    before = taken_gradients.count
    given = (selection.values,)
    out, linear, *aux = linearized(name, call, given, has_aux, selection.name)
    has_gradient = taken_gradients.count > before
    mode = _cheaper_by(tree.leaves(selection.values), out, has_gradient, holomorphic)
    if mode == "fwd":
        found = _jacobian_by_columns(name, linear, selection, False, chunk_size)
    else:
        found = _jacobian_by_rows(name, linear, selection, False, holomorphic, chunk_size)
    return mode, (found, aux[0]) if has_aux else found


def _jacobian_by_columns(
    name: str, call: Callable[..., Any], selection: Selection, has_aux: bool, chunk_size: int | None
) -> Any:
    values = selection.values
    leaves, treedef = tree.flatten(values)
    returned: list[Any] = []

    def push(direction: Array) -> Any:
        found = pushed_forward(name, call, (values,), (direction,), has_aux, selection.name)
        returned[:] = found[2:]
        return found

    update_wrapper(push, call)
    out_axes = (None, -1, *((None,) if has_aux else ()))
    if len(leaves) == 1 and shape_dtype(leaves[0]).size == 1:
        # A single column needs no batch.
        known = shape_dtype(leaves[0])
        one = wrap(beside(leaves[0], np.ones(known.shape, known.dtype)))
        out, moved, *aux = push(treedef.unflatten([one]))
        found = [(out, tree.map(lambda t: ops.reshape(t, (*t.shape, 1)), moved), *aux)]
    else:
        found = [
            vmap(push, out_axes=out_axes, axis_size=count)(treedef.unflatten(basis))
            for count, basis in _bases(leaves, chunk_size)
        ]
    out, _, *aux = found[0]
    columns = tree.map(partial(_joined_chunks, -1), *(chunk[1] for chunk in found))
    split = tree.map(lambda column, o: _by_argument(column, o, leaves, treedef), columns, out)
    if not has_aux:
        return split
    # The batch makes arrays of all that it returns, and extras are what the user returned.
    return split, tree.map(lambda x, y: x if type(x) in ARRAY_TYPES else y, *returned, *aux)


def _jacobian_by_rows(
    name: str,
    call: Callable[..., Any],
    selection: Selection,
    has_aux: bool,
    holomorphic: bool,
    chunk_size: int | None,
) -> Any:
    out, pull, *aux = pulled_back(name, call, (selection.values,), has_aux, selection.name)
    outs, out_treedef = tree.flatten(out)
    _check_complex(call, outs, holomorphic, name, "outputs")

    def row(cotangent: Array) -> Any:
        return pull(cotangent)[0]

    if len(outs) == 1 and outs[0].size == 1:
        # A single row needs no batch.
        (o,) = outs
        one = wrap(beside(o, np.ones(o.shape, o.dtype)))
        found = row(out_treedef.unflatten([one]))
        if o.shape:
            found = tree.map(lambda r: ops.reshape(r, (*o.shape, *r.shape)), found)
        split = out_treedef.unflatten([found])
        return (split, aux[0]) if has_aux else split
    update_wrapper(row, call)
    found = [
        vmap(row, axis_size=count)(out_treedef.unflatten(basis))
        for count, basis in _bases(outs, chunk_size)
    ]
    rows = tree.map(partial(_joined_chunks, 0), *found)
    start = 0
    parts = []
    for o in outs:
        block = partial(_block_of_rows, o, start)
        parts.append(tree.map(block, rows))
        start += o.size
    split = out_treedef.unflatten(parts)
    return (split, aux[0]) if has_aux else split


def _bases(leaves: list[Any], chunk_size: int | None) -> Iterator[tuple[int, list[Any]]]:
    """Yields chunks: how many directions of single elements, and for every leaf its part."""
    known = [shape_dtype(leaf) for leaf in leaves]
    total = sum(k.size for k in known)
    step = total if chunk_size is None else chunk_size
    for start in range(0, max(total, 1), max(step, 1)):
        count = min(step, total - start)
        first = -start
        chunk = []
        for leaf, k in zip(leaves, known, strict=True):
            rows = np.zeros((count, k.size), k.dtype)
            here = np.arange(max(first, 0), min(first + k.size, count))
            rows[here, here - first] = 1
            chunk.append(wrap(beside(leaf, rows.reshape(count, *k.shape))))
            first += k.size
        yield count, chunk


def _joined_chunks(axis: int, *chunks: Array) -> Array:
    return chunks[0] if len(chunks) == 1 else ops.concatenate(chunks, axis=axis)


def _by_argument(columns: Array, out: Array, leaves: list[Any], treedef: TreeDef) -> Any:
    """Splits the last axis into one axis for each axis of each argument."""
    start = 0
    parts = []
    for leaf in leaves:
        known = shape_dtype(leaf)
        block = columns[..., start : start + known.size]
        block = ops.reshape(block, (*out.shape, *known.shape))
        dtype = known.dtype
        if block.dtype.kind == "c" and dtype.kind != "c":
            dtype = complex_of(dtype)
        # As in reverse mode, a derivative has the precision of what it is by.
        parts.append(block if block.dtype == dtype else ops.astype(block, dtype))
        start += known.size
    return treedef.unflatten(parts)


def _block_of_rows(out: Array, start: int, rows: Array) -> Array:
    """Returns the rows of one output with its axes in front."""
    return ops.reshape(rows[start : start + out.size], (*out.shape, *rows.shape[1:]))


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
