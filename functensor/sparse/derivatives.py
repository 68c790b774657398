"""Jacobians and Hessians as triplets, a directional derivative for each colour."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from .. import tree
from ..backends.annotations import Buffer, DType
from ..backends.devices import default_device
from ..backends.errors.public_functions import check_function, guarded
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, device_of
from ..primitives.core.errors import function_name, misfit
from ..primitives.core.shape_dtype import INEXACT, ShapeDtype, shape_dtype
from ..programs.staging import make_program
from ..transforms.grad import grad, vjp
from ..transforms.jvp import jvp
from ..transforms.tensor_entrance import entrance
from ..transforms.vmap import vmap
from .colouring import coloured
from .pattern import Dependence, dependence_of
from .triplets import Pattern, Triplets

__all__ = ["hessian", "hessian_pattern", "jacobian", "jacobian_pattern"]

DERIVATIVE_MODES = ("auto", "fwd", "rev")


def jacobian_pattern(fun: Callable[..., Any], argnums: int = 0) -> Callable[..., Pattern]:
    """Returns a function that finds where the Jacobian of ``fun`` may differ from zero.

    No value is computed: the pattern depends on shapes and on constant index arrays. It may have
    too many places, as where an operation mixes its operands in an unknown way, but never too few.

    Args:
        fun: takes and returns trees of arrays.
        argnums: by which argument.

    Returns:
        A function of the same arguments: a `Pattern` with a row for each element of the result and
        a column for each of the argument, in the order of ``tree.ravel``.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.sparse.jacobian_pattern(np.diff)(np.ones(4)).todense().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    check_function("jacobian_pattern", fun)

    def found(*args: Any, **kwargs: Any) -> Pattern:
        if entrance.classes and entrance.is_met((args, kwargs)):
            lifted: Pattern = entrance.lift(jacobian_pattern(fun, argnums), args, kwargs)
            return lifted
        one = _OfOneArgument(fun, argnums, args, kwargs)
        with default_device(device_of(one.vector)):
            program = make_program(one.flat)(ShapeDtype((one.width,), one.dtype))
        diagonal = np.arange(one.width)
        (out,) = dependence_of(program, [Dependence(diagonal, diagonal, one.width)])
        return Pattern(out.elements, out.inputs, (out.count, one.width))

    return update_wrapper(found, fun)


def hessian_pattern(fun: Callable[..., Any], argnums: int = 0) -> Callable[..., Pattern]:
    """Returns a function that finds where the Hessian of a scalar ``fun`` may differ from zero.

    Args:
        fun: returns a real scalar.
        argnums: by which argument.

    Returns:
        A function of the same arguments: the gradient's `Pattern`, which is symmetric.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.sparse.hessian_pattern(lambda x: np.sum(x[1:] * x[:-1]))(np.ones(3)).rows
    array([0, 1, 1, 2])
    """
    check_function("hessian_pattern", fun)

    def found(*args: Any, **kwargs: Any) -> Pattern:
        half = jacobian_pattern(grad(fun, argnums), argnums)(*args, **kwargs)
        rows = np.concatenate([half.rows, half.cols])
        return Pattern(rows, np.concatenate([half.cols, half.rows]), half.shape)

    return update_wrapper(found, fun)


def jacobian(
    fun: Callable[..., Any], argnums: int = 0, *, pattern: Pattern | None = None, mode: str = "auto"
) -> Callable[..., Triplets]:
    """Returns a function that computes the Jacobian of ``fun`` as triplets.

    Args:
        fun: takes and returns trees of arrays.
        argnums: by which argument.
        pattern: where the Jacobian may differ from zero; by default it is found anew in each call.
        mode: "fwd" computes columns together, "rev" rows, "auto" what takes fewer of them.

    Returns:
        A function of the same arguments: `Triplets` with a row for each element of the result and
        a column for each of the argument, in the order of ``tree.ravel``. Its values can be
        differentiated further. Functions of a complex argument have to be holomorphic.

    Raises:
        ShapeError: the pattern is one of another shape.
        TypeError: a complex argument has a real result, or mode "rev" a real argument and a
            complex result.

    >>> import functensor as ft, functensor.numpy as np
    >>> slopes = ft.sparse.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    >>> print(slopes.todense())
    [[2. 1. 0.]
     [0. 3. 2.]]
    """
    if mode not in DERIVATIVE_MODES:
        raise ValueError(f"sparse.jacobian: mode={mode!r} is none of {', '.join(DERIVATIVE_MODES)}")

    check_function("sparse.jacobian", fun)

    def computed(*args: Any, **kwargs: Any) -> Triplets:
        if entrance.classes and entrance.is_met((args, kwargs)):
            again = jacobian(fun, argnums, pattern=pattern, mode=mode)
            lifted: Triplets = entrance.lift(again, args, kwargs)
            return lifted
        places = jacobian_pattern(fun, argnums)(*args, **kwargs) if pattern is None else pattern
        one = _OfOneArgument(fun, argnums, args, kwargs)
        _check_pattern(fun, places)
        _check_size(fun, places, 1, one.width)
        height, width = places.shape
        columns = coloured(places.rows, places.cols, width)
        rows = coloured(places.cols, places.rows, height) if mode != "fwd" else columns
        if mode == "rev" or (mode == "auto" and _colour_count(rows) < _colour_count(columns)):
            out, pull = vjp(one.flat, one.vector)
            known = shape_dtype(out)
            _check_size(fun, places, 0, known.size)
            # A real argument's cotangents would lack the imaginary parts.
            if mode == "rev" or known.dtype.kind == one.dtype.kind:
                _check_kinds(fun, one.dtype, known.dtype, mode)
                pulled = vmap(lambda g: pull(g)[0])(beside(out, _seeds(rows, known.dtype)))
                return Triplets(ops.index(pulled, (rows[places.rows], places.cols)), places)
        seeds = beside(one.vector, _seeds(columns, one.dtype))
        pushed = vmap(lambda t: jvp(one.flat, (one.vector,), (t,))[1])(seeds)
        _check_size(fun, places, 0, shape_dtype(pushed).shape[1])
        _check_kinds(fun, one.dtype, shape_dtype(pushed).dtype, mode)
        return Triplets(ops.index(pushed, (columns[places.cols], places.rows)), places)

    public = guarded(computed, f"sparse.jacobian({function_name(fun)})")
    return update_wrapper(public, fun)


def hessian(
    fun: Callable[..., Any], argnums: int = 0, *, pattern: Pattern | None = None
) -> Callable[..., Triplets]:
    """Returns a function that computes the Hessian of a scalar ``fun`` as triplets.

    Args:
        fun: returns a real scalar.
        argnums: by which argument.
        pattern: where the Hessian may differ from zero; by default it is found anew in each call.

    Returns:
        A function of the same arguments: `Triplets` with a row and a column for each element of
        the argument, in the order of ``tree.ravel``.

    >>> import functensor as ft, functensor.numpy as np
    >>> energy = lambda x: np.sum((x[1:] - x[:-1]) ** 2) / 2
    >>> print(ft.sparse.hessian(energy)(np.zeros(3)).todense())
    [[ 1. -1.  0.]
     [-1.  2. -1.]
     [ 0. -1.  1.]]
    """

    check_function("sparse.hessian", fun)

    def computed(*args: Any, **kwargs: Any) -> Triplets:
        places = hessian_pattern(fun, argnums)(*args, **kwargs) if pattern is None else pattern
        slopes = jacobian(grad(fun, argnums), argnums, pattern=places, mode="fwd")
        return slopes(*args, **kwargs)

    public = guarded(computed, f"sparse.hessian({function_name(fun)})")
    return update_wrapper(public, fun)


class _OfOneArgument:
    """A function as one of a vector: the elements of one of its arguments.

    Attributes:
        vector: these elements.
        width, dtype: how many there are, and their dtype.
    """

    def __init__(
        self, fun: Callable[..., Any], argnums: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not isinstance(argnums, int) or not -len(args) <= argnums < len(args):
            raise ValueError(
                f"the sparse derivative of {function_name(fun)} by argnums={argnums!r}: give the "
                f"position of one of the {len(args)} positional arguments"
            )
        self.fun = fun
        self.place = argnums % len(args)
        self.args = args
        self.kwargs = kwargs
        self.vector, self.unravel = tree.ravel(args[self.place])
        known = shape_dtype(self.vector)
        if known.dtype.kind not in INEXACT:
            raise TypeError(
                f"the sparse derivative of {function_name(fun)}: argument {self.place} is of dtype "
                f"{known.dtype}; pass real or complex numbers"
            )
        self.width, self.dtype = known.shape[0], known.dtype

    def flat(self, vector: Array) -> Array:
        """Returns the result's elements for those of the argument."""
        args = list(self.args)
        args[self.place] = self.unravel(vector)
        flat: Array = tree.ravel(self.fun(*args, **self.kwargs))[0]
        return flat


def _check_pattern(fun: Callable[..., Any], pattern: Any) -> None:
    if not isinstance(pattern, Pattern):
        raise TypeError(
            f"the sparse derivative of {function_name(fun)}: pattern= is a Pattern, as "
            f"jacobian_pattern(f)(x) returns, not {type(pattern).__name__}"
        )


def _check_size(fun: Callable[..., Any], pattern: Pattern, axis: int, size: int) -> None:
    if pattern.shape[axis] != size:
        what, others = (("result", "rows"), ("argument", "columns"))[axis]
        raise misfit(
            f"the pattern of shape {pattern.shape} for {function_name(fun)} has "
            f"{pattern.shape[axis]} {others}, but the {what} has {size} elements",
            "find the pattern for arguments of these shapes",
        )


def _check_kinds(fun: Callable[..., Any], given: DType, out: DType, mode: str) -> None:
    lost = (given.kind == "c") != (out.kind == "c")
    if lost and (given.kind == "c" or mode == "rev"):
        raise TypeError(
            f"the sparse derivative of {function_name(fun)}, of {given} to {out}: complex values "
            "have one Jacobian only where the function is holomorphic; split real and imaginary "
            "parts" + (", or leave out mode='rev'" if out.kind == "c" else "")
        )


def _colour_count(colours: Buffer) -> int:
    return int(colours.max()) + 1 if colours.size else 0


def _seeds(colours: Buffer, dtype: DType) -> Buffer:
    """Returns for every colour the vector that is 1 at the elements that have it."""
    ones: Buffer = np.arange(_colour_count(colours))[:, None] == colours
    return ones.astype(dtype)
