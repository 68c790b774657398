"""SciPy's ``optimize`` over trees, with derivatives of functensor's own.

SciPy's solvers, which know vectors of real numbers, find the solution; its derivatives are those
of the equations that it solves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..backends.annotations import Buffer
from ..backends.errors.public_functions import check_function
from ..backends.optional_modules import extra
from ..custom.root import from_vector, to_vector
from ..faces.publish import publish
from ..functions.closure import kept_as_it_is
from ..numpy.arguments import as_inexact
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.errors import MissingRuleError, failure, function_name, misfit
from ..primitives.core.shape_dtype import shape_dtype
from ..transforms.grad import grad, value_and_grad
from .bounds import Bounds, constraints_of, free_gradient, limits_of, scipy_constraint
from .optimize_results import (
    Arguments,
    OptimizeResult,
    Unknown,
    hessian_matrix,
    hessian_products,
    host_buffer,
    jacobian_matrix,
    solved,
)

__all__ = ["Bounds", "OptimizeResult", "minimize", "root"]

WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
WITH_HESSIAN = {"dogleg", "trust-exact"}
WITH_JACOBIAN = {"hybr", "lm"}


# -- minima


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | Callable[..., Any] | None = None,
    jac: bool | str | Callable[..., Any] | None = None,
    hess: Callable[..., Any] | None = None,
    hessp: Callable[..., Any] | None = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Minimizes a scalar function of a tree by one of SciPy's solvers, with our derivatives.

    Gradients, Hessians and their products are found by differentiating ``fun``; none of them needs
    to be given. The solution differentiates with respect to ``args`` and to arrays that ``fun``
    closes over, by the implicit function theorem: the gradient is zero there, except for variables
    at a bound, which stay there. SciPy solves one problem at a time: under vmap it is called for
    one example after the other, while derivatives are taken of all at once.

    Args:
        fun: ``fun(x, *args)`` returns a real scalar.
        x0: the initial guess: a tree of real or complex arrays, whose dtypes the solution has.
            SciPy computes in double precision.
        args: further arguments, a tuple of trees.
        method: SciPy's name of the solver; by default "BFGS", with bounds "L-BFGS-B", with
            constraints "SLSQP".
        jac: nothing; or True where ``fun`` returns a pair of the value and the gradient, or a
            function that returns the gradient.
        hess, hessp: nothing; or functions of one real array ``x0`` that return the Hessian, or
            ``hessp(x, p, *args)`` its product with an array.
        bounds: `Bounds`; for a vector ``x0`` also SciPy's sequence of pairs (lower, upper).
        constraints: SciPy's dicts, one or several: the keys are "type" ("eq" or "ineq"), "fun",
            "args"; Jacobians are ours. Solutions under constraints have no derivative.
        tol: the tolerance, whose meaning depends on the method.
        callback: called after every iteration with the tree; of an argument that is named
            ``intermediate_result``, with an `OptimizeResult`.
        options: SciPy's, for the method.

    Returns:
        An `OptimizeResult`.

    Raises:
        MissingExtraError: SciPy is not installed.
        TypeError: ``fun`` does not return a real scalar.
        ValueError: x0 has no elements.
        MissingRuleError: the solution under constraints is differentiated.

    >>> import functensor as ft, functensor.numpy as np
    >>> def loss(x, a):
    ...     return np.sum((x["w"] - a) ** 2) + x["b"] ** 4
    >>> result = ft.scipy.optimize.minimize(loss, {"w": np.zeros(2), "b": 0.0}, (3.0,))
    >>> print(result.success, np.round(result.x["w"], 4))
    True [3. 3.]
    """
    for name, function in (("hess", hess), ("hessp", hessp)):
        if function is not None:
            check_function("scipy.optimize.minimize", function, name)
    unknown, arguments = Unknown("minimize", x0), Arguments(args)
    if not any(known.size for known in unknown.types):
        raise ValueError("minimize: x0 has no elements: give it at least one number to look for")

    # A program runs SciPy's solver later.
    traced = unknown.leaves, arguments.arrays
    jac, hess, hessp = kept_as_it_is((jac, hess, hessp), *traced)
    callback = kept_as_it_is(callback, *traced, workspace=True)

    def objective(leaves: Values, values: Values) -> Array:
        value = fun(unknown.tree(leaves), *arguments.filled(values))
        return _scalar(fun, value[0] if jac is True else value)

    limits = limits_of(unknown, bounds)
    constrained = constraints_of(unknown, constraints)
    if method is None:
        chosen = "slsqp" if constrained else "bfgs" if limits is None else "l-bfgs-b"
    else:
        chosen = method.lower() if isinstance(method, str) else "custom"

    def residual(f: Callable[[Values], Any], x: Values) -> Values:
        if constrained:
            raise failure(
                MissingRuleError,
                "no derivative of minimize with constraints",
                fix="minimize without constraints, e.g. with a penalty, or ft.stop_gradient",
            )
        gradient = grad(f)(x)
        return gradient if limits is None else free_gradient(x, gradient, limits)

    def solver(f: Callable[[Values], Any], x: Values, values: Values) -> Any:
        given: dict[str, Any] = {"method": method, "tol": tol, "options": options}
        if limits is not None:
            lower, upper = (unknown.vector(side) for side in limits)
            given["bounds"] = extra("scipy.optimize", "scipy").Bounds(lower, upper)
        if constrained:
            given["constraints"] = [scipy_constraint(unknown, *c, chosen) for c in constrained]
        if callback is not None:
            given["callback"] = _callback(unknown, callback)
        given |= _derivatives(unknown, arguments.filled(values), f, chosen, jac, hess, hessp)
        solve = extra("scipy.optimize", "scipy").minimize
        return solve(given.pop("value"), unknown.vector(x), **given)

    x, told = solved(unknown, arguments, objective, residual, solver)
    if chosen in WITHOUT_GRADIENT:
        value = objective(x, arguments.arrays)
        return OptimizeResult(x=unknown.tree(x), fun=value, **told)
    value, gradient = value_and_grad(lambda x: objective(x, arguments.arrays))(x)
    return OptimizeResult(x=unknown.tree(x), fun=value, jac=unknown.tree(gradient), **told)


def _scalar(fun: Callable[..., Any], value: Any) -> Array:
    """Returns the value of an objective, checked."""
    known = shape_dtype(value) if is_array_like(value) else None
    if known is None or known.size != 1 or known.dtype.kind == "c":
        raise TypeError(
            f"minimize: {function_name(fun)} returned {known or type(value).__name__}, not a real "
            "scalar: reduce it, e.g. np.sum(...)"
        )
    value = ops.reshape(value, ()) if known.shape else value
    return ops.astype(value, np.float64) if known.dtype.kind in "biu" else value


def _derivatives(
    unknown: Unknown,
    args: tuple[Any, ...],
    f: Callable[[Values], Any],
    method: str,
    jac: bool | str | Callable[..., Any] | None,
    hess: Callable[..., Any] | None,
    hessp: Callable[..., Any] | None,
) -> dict[str, Any]:
    """Returns the functions for SciPy: the value with the gradient, and second derivatives."""

    def value(v: Buffer) -> float:
        return float(f(unknown.arrays(v)))

    if method in WITHOUT_GRADIENT:
        return {"value": value}
    both = value_and_grad(f)

    def value_and_gradient(v: Buffer) -> tuple[float, Buffer]:
        value, gradient = both(unknown.arrays(v))
        return float(value), unknown.gradient(gradient)

    def user(call: Callable[..., Any], v: Buffer, *rest: Any) -> Any:
        return call(unknown.tree(unknown.arrays(v)), *rest, *args)

    found: dict[str, Any] = {"value": value_and_gradient, "jac": True}
    if callable(jac):
        found["value"] = value
        found["jac"] = lambda v: unknown.gradient(tree.leaves(user(jac, v)))
    product = hessian_products(unknown, f)
    if method in WITH_HESSIAN or (callable(hess) and method in WITH_PRODUCTS):
        found["hess"] = lambda v: hessian_matrix(product, v)
        if callable(hess):
            found["hess"] = lambda v: np.reshape(host_buffer(user(hess, v)), (v.size, v.size))
    elif method in WITH_PRODUCTS:
        found["hessp"] = lambda v, p: host_buffer(product(v, p))
        if callable(hessp):
            found["hessp"] = lambda v, p: unknown.vector(
                tree.leaves(user(hessp, v, unknown.tree(unknown.arrays(p))))
            )
    return found


def _callback(unknown: Unknown, callback: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the user's callback as SciPy calls it."""
    import inspect  # costs milliseconds

    check_function("scipy.optimize", callback, "callback")
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

        def with_result(intermediate_result: Any) -> Any:
            x = unknown.tree(unknown.arrays(intermediate_result.x))
            known = OptimizeResult({**intermediate_result, "x": x})
            return callback(intermediate_result=known)

        return with_result
    return lambda v, *rest: callback(unknown.tree(unknown.arrays(v)), *rest)


# -- roots


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: bool | None = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Finds a root of a function of a tree by one of SciPy's solvers, with our Jacobian.

    The solution differentiates with respect to ``args`` and to arrays that ``fun`` closes over, by
    the implicit function theorem. SciPy solves one problem at a time: under vmap it is called for
    one example after the other, while derivatives are taken of all at once.

    Args:
        fun: ``fun(x, *args)`` returns a tree with as many elements as x; for the method "lm",
            which then minimizes the sum of squares, it may be more.
        x0: the initial guess: a tree of real or complex arrays, whose dtypes the solution has.
        args: further arguments, a tuple of trees.
        method: SciPy's name of the solver.
        jac: nothing; False for SciPy's differences.
        tol, callback, options: as for `minimize`.

    Returns:
        An `OptimizeResult`.

    Raises:
        MissingExtraError: SciPy is not installed.
        MissingRuleError: the solution of more equations than unknowns is differentiated.
        ShapeError: there are fewer equations than unknowns, or more for another method than "lm".

    >>> import functensor as ft, functensor.numpy as np
    >>> cube_root = lambda a: ft.scipy.optimize.root(lambda x: x**3 - a, 1.0).x
    >>> print(np.round(cube_root(8.0), 6), np.round(ft.grad(cube_root)(8.0), 6))
    2.0 0.083333
    """
    unknown, arguments = Unknown("root", x0), Arguments(args)
    callback = kept_as_it_is(callback, unknown.leaves, arguments.arrays, workspace=True)

    def equations(leaves: Values, values: Values) -> Values:
        out = tree.leaves(fun(unknown.tree(leaves), *arguments.filled(values)))
        return [as_inexact(leaf) for leaf in out]

    def residual(f: Callable[[Values], Values], x: Values) -> Values:
        out = f(x)
        equations, unknowns = (sum(shape_dtype(v).size for v in vs) for vs in (out, x))
        if equations != unknowns:
            raise failure(
                MissingRuleError,
                f"no derivative of a root of {equations} equations for {unknowns} unknowns",
                fix="minimize the sum of squares, whose solution has one",
            )
        # The equations get the shapes of the unknowns, so that they are square when linearised.
        return from_vector(to_vector(out), unknown.types)

    def solver(f: Callable[[Values], Values], x: Values, values: Values) -> Any:
        def value(v: Buffer) -> Buffer:
            out = unknown.vector(f(unknown.arrays(v)))
            if out.size != v.size and not (method == "lm" and out.size > v.size):
                raise misfit(
                    f"root: {function_name(fun)} returned {out.size} numbers for {v.size} "
                    "unknowns",
                    "return as many as x has; method='lm' takes more of them",
                )
            return out

        given: dict[str, Any] = {"method": method, "tol": tol, "options": options}
        if callback is not None and method not in WITH_JACOBIAN:
            given["callback"] = _callback(unknown, callback)
        if jac is not False and method in WITH_JACOBIAN:
            given["jac"] = lambda v: jacobian_matrix(unknown, f, v)
        return extra("scipy.optimize", "scipy").root(value, unknown.vector(x), **given)

    x, told = solved(unknown, arguments, equations, residual, solver)
    solution = unknown.tree(x)
    value = fun(solution, *arguments.filled(arguments.arrays))
    return OptimizeResult(x=solution, fun=value, **told)


publish(globals())
