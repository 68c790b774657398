"""Results of SciPy's solvers as trees, whose solutions have derivatives; `optimize` uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import tree
from ..backends.annotations import Buffer
from ..custom.call import replaced
from ..custom.root import ImplicitCall, dense_solve, from_vector, to_vector
from ..functions.closure import close, kept_as_it_is
from ..numpy.arguments import as_inexact
from ..numpy.creation import asarray
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of, exposed, wrap
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import slot
from ..transforms.grad import grad
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap

__all__ = [
    "Arguments", "HessianProduct", "OptimizeResult", "Unknown", "hessian_matrix",
    "hessian_products", "host_buffer", "jacobian_matrix", "solved",
]  # fmt: skip

# Takes a vector of SciPy's and a direction, and returns the Hessian there times the direction.
HessianProduct: TypeAlias = Callable[[Buffer, Array | Buffer], Array]

RESULT_COUNTS = ("status", "nit", "nfev", "njev")
EXTRAS = [ShapeDtype((), np.bool_), *[ShapeDtype((), np.int64)] * len(RESULT_COUNTS)]


class OptimizeResult(dict[str, Any]):
    """A solver's result, by key or by attribute; a tree of arrays with a message.

    Attributes:
        x: the solution, a tree as the initial guess.
        fun: the function's value there; of `root`, a tree.
        jac: the gradient there, a tree; only of `minimize`, by methods that use one.
        success: whether the solver succeeded.
        status, message: the reason why it ended, as a number and in words.
        nit, nfev, njev: the numbers of iterations and evaluations, as far as SciPy has them.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the result has no {name!r}; it has {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*self]


def _flatten_result(result: OptimizeResult) -> tuple[Values, tuple[Any, ...]]:
    keys = tuple(key for key in result if key != "message")
    return [result[key] for key in keys], (keys, result["message"])


tree.register(
    OptimizeResult,
    _flatten_result,
    lambda static, children: OptimizeResult(zip(static[0], children), message=static[1]),
)

# -- between trees and SciPy's vectors


def host_buffer(x: Value) -> Buffer:
    """Returns an array, which may be on a GPU, as NumPy's, which waits for it."""
    return np.asarray(x if device_of(x) == "cpu" else ops.to_device(x, "cpu"))


class Unknown:
    """The unknown tree, as SciPy's vector and as arrays.

    Args:
        name: the function, for messages.
        x0: the initial guess.
    """

    def __init__(self, name: str, x0: Any) -> None:
        self.name = name
        leaves, self.treedef = tree.flatten(x0)
        self.leaves = [as_inexact(leaf) for leaf in leaves]
        self.types = [shape_dtype(leaf).strong() for leaf in self.leaves]

    def vector(self, leaves: Sequence[Any]) -> Buffer:
        """Returns leaves as NumPy's vector in double precision."""
        return host_buffer(to_vector(leaves, np.float64))

    def gradient(self, leaves: Sequence[Any]) -> Buffer:
        """Returns a gradient as a vector: by imaginary parts, it is minus its own."""
        return self.vector([ops.conj(g) for g in leaves])

    def arrays(self, vector: Buffer) -> Values:
        """Returns a vector of SciPy's as leaves."""
        return from_vector(self.placed(np.array(vector)), self.types)

    def placed(self, vector: Array | Buffer) -> Array:
        """Returns a vector of SciPy's, or a traced one, where the initial guess is."""
        device = device_of(self.leaves[0]) if self.leaves else "cpu"
        return wrap(vector) if device == "cpu" else ops.to_device(vector, device)

    def tree(self, leaves: Sequence[Any]) -> Any:
        """Returns leaves as a tree."""
        return self.treedef.unflatten(leaves)


class Arguments:
    """Arguments of the user's function: arrays, which have derivatives, and the rest."""

    def __init__(self, args: Any) -> None:
        self.leaves, self.treedef = tree.flatten(args if isinstance(args, tuple) else (args,))
        # Functions among them may be called later.
        self.leaves = [*kept_as_it_is(tuple(self.leaves), self.leaves)]
        self.places = [i for i, leaf in enumerate(self.leaves) if is_array_like(leaf)]
        self.arrays = [exposed(self.leaves[i]) for i in self.places]

    def filled(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the arguments with other arrays."""
        filled: tuple[Any, ...] = self.treedef.unflatten(replaced(self.leaves, self.places, values))
        return filled


def solved(
    unknown: Unknown,
    arguments: Arguments,
    fun: Callable[..., Any],
    residual: Callable[[Callable[..., Any], Values], Values],
    solver: Callable[[Callable[..., Any], Values, Values], Any],
) -> tuple[Values, OptimizeResult]:
    """Runs a solver of SciPy's on values, and makes its solution one that has derivatives.

    The function is ``fun(leaves, values)``, of the leaves of the unknown and of the arguments. Both
    ``residual``, which is zero at a solution, and ``solver`` get it as a function of the leaves of
    the unknown, and these; ``solver`` gets the leaves of the arguments, too. The results are the
    leaves of the solution, and all else of the result.
    """
    count = len(unknown.leaves)
    closed, constants = close(fun, unknown.leaves, arguments.arrays)
    number = len(arguments.arrays)
    runs: Values = []

    def of_leaves(operands: Values) -> Callable[[Values], Any]:
        values, constants = operands[count : count + number], operands[count + number :]
        return lambda leaves: closed(constants, list(leaves), values)

    def evaluate(operands: Values) -> Values:
        if slot.trace is not None:
            return call.bind(operands)
        result = solver(of_leaves(operands), operands[:count], operands[count : count + number])
        runs.append(result)
        counts = [asarray(np.int64(result.get(key, -1))) for key in RESULT_COUNTS]
        return [*unknown.arrays(result.x), asarray(np.bool_(result.success)), *counts]

    call = ImplicitCall(
        unknown.name,
        lambda x, operands: residual(of_leaves(operands), x),
        evaluate,
        dense_solve,
        unknown.types,
        EXTRAS,
        sequential=True,
    )
    outs = call.bind([*unknown.leaves, *arguments.arrays, *constants])
    told = OptimizeResult(success=outs[count])
    for key, out in zip(RESULT_COUNTS, outs[count + 1 :]):
        if not runs or key in runs[-1]:
            told[key] = out
    told["message"] = "; ".join(dict.fromkeys(str(run.message) for run in runs))
    return outs[:count], told


def jacobian_matrix(unknown: Unknown, f: Callable[[Values], Values], v: Buffer) -> Buffer:
    """Returns the Jacobian of a function of the leaves as a matrix for SciPy."""

    def column(e: Array) -> Array:
        tangent = jvp(f, (unknown.arrays(v),), (from_vector(e, unknown.types),))[1]
        moved: Array = to_vector(tangent, np.float64)
        return moved

    return host_buffer(vmap(column)(unknown.placed(np.eye(v.size)))).T


def hessian_products(unknown: Unknown, f: Callable[[Values], Any]) -> HessianProduct:
    """Returns ``product(v, p)``, the Hessian at a vector times another, both SciPy's."""
    gradient = grad(f)

    def product(v: Buffer, p: Array | Buffer) -> Array:
        direction = from_vector(unknown.placed(p), unknown.types)
        change = jvp(gradient, (unknown.arrays(v),), (direction,))[1]
        moved: Array = to_vector([ops.conj(c) for c in change], np.float64)
        return moved

    return product


def hessian_matrix(product: HessianProduct, v: Buffer) -> Buffer:
    """Returns the Hessian as a matrix for SciPy."""
    return host_buffer(vmap(lambda p: product(v, p))(np.eye(v.size)))
