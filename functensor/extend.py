"""New primitives and foreign functions, with rules for every transformation, in one statement.

A *primitive* is declared by the family that it is of, with how the array module computes it and its
derivative as a line of calculus. From then on it is like those of the library: ``grad``, ``jvp``,
``vmap`` and staging work on it, to any order, and hooks see it by its name. Here is all of the
Gudermannian function, the integral of the hyperbolic secant:

>>> import functensor as ft
>>> from functensor import extend
>>> from functensor.extend import registry as ops
>>> gudermannian = extend.unary(
...     "gudermannian",
...     lambda g, x: g / ops.cosh(x),
...     compute=lambda xp, x: xp.arctan(xp.sinh(x)),
... )
>>> ft.grad(gudermannian)(0.0)
Array(1., dtype=float64, device='cpu')
>>> ft.testing.check_grads(gudermannian, (ft.numpy.ones(3),), order=2)
>>> ops.remove("gudermannian")  # names are unique; a cell that runs again frees its own first

A rule names the letters that it needs, and nothing else is kept for the backward pass: ``g`` is the
cotangent (in forward mode the tangent), ``ans`` the output, ``x``, ``y`` and ``z`` the operands,
``xs`` all of them, ``x_shape`` a shape alone; static parameters follow a ``*``. It is made of
primitives, ``registry.name``, and of operators, so that it has derivatives too. `unary`, `binary`,
`elementwise`, `reduction`, `along`, `structural` and `linear` are the families; what fits none of
them is a `Primitive` with its own ``infer`` and ``batch``. ``infer`` depends on nothing but the
operands' types and the parameters: staging asks it once for equal ones. ``registry.add_function``
enters a function made of primitives, by which NumPy's function of that name finds it.

A *function that only knows plain NumPy arrays*, compiled code or a solver, becomes differentiable
with `numpy_function`, whose rules may be plain NumPy too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .backends.errors.public_functions import check_function
from .custom.numpy_function import BATCHING, NumpyFunction, NumpyRule
from .custom.outputs import Declared
from .faces.publish import publish
from .primitives.core.families import (
    along,
    binary,
    elementwise,
    linear,
    reduction,
    structural,
    unary,
)
from .primitives.core.primitive import Primitive
from .primitives.core.registry import registry
from .primitives.core.shape_dtype import ShapeDtype
from .primitives.core.test_samples import Domain, Operand, Sample

__all__ = [
    "Domain", "Operand", "Primitive", "Sample", "ShapeDtype", "along", "binary", "elementwise",
    "linear", "numpy_function", "reduction", "registry", "structural", "unary",
]  # fmt: skip


def numpy_function(
    fun: Callable[..., Any] | None = None,
    *,
    result: Declared | None = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    numpy_vjp: Callable[..., Any] | None = None,
    numpy_jvp: Callable[..., Any] | None = None,
    vmap: str | None = None,
    writable: bool = False,
) -> Any:
    """Returns a function that only knows plain NumPy arrays as one that transformations know.

    Rules get what the function returned and what it was given: ``g`` is the cotangent of ``ans``
    and ``ts`` a tuple of the operands' tangents. Where the function returns a tuple, ``ans`` and
    ``g`` are tuples. Of one mode's rule made of ``functensor.numpy``, the other mode's is derived.

    Args:
        fun: takes NumPy arrays, which are read-only, and returns one or a tuple of them. Keyword
            arguments are passed to it, and to all rules, as they are. Without it, a decorator is
            returned.
        result: a `ShapeDtype`, a tuple of them, or a function of the operands' that returns
            either. Without it, what is staged calls ``fun`` once with ones in order to find out.
        vjp: ``vjp(g, ans, *xs)`` returns a tuple with a cotangent or None for each operand, made
            of ``functensor.numpy``, so that it has derivatives itself.
        jvp: ``jvp(ts, ans, *xs)`` returns the tangent of ``ans``, likewise.
        numpy_vjp, numpy_jvp: the same made of plain NumPy, for derivatives of first order.
        vmap: ``"vectorized"`` if ``fun``, and plain rules, take operands that all have batch axes
            in front, any number of them; ``"sequential"`` to call them for one example after the
            other; None refuses ``vmap``.
        writable: whether ``fun`` and plain rules get copies in C order, which they may write to.
            Code that is compiled for typed arguments asks for such arrays: numba's
            ``float64[::1]``, Cython's ``double[::1]``.

    Returns:
        A function of arrays, and of what can be one, that returns arrays.

    Raises:
        MissingRuleError: a transformation needs a rule that was not given; when it is needed.
        RuleResultError: the function or a rule returned another shape or dtype than it should.

    >>> import numpy
    >>> import functensor as ft
    >>> arcsinh = ft.extend.numpy_function(
    ...     numpy.arcsinh, vjp=lambda g, ans, x: g / (1 + x * x) ** 0.5, vmap="vectorized"
    ... )
    >>> ft.vmap(ft.grad(arcsinh))(numpy.array([0.0, 0.75]))
    Array([1. , 0.8], dtype=float64, device='cpu')
    """
    rules = {"vjp": vjp, "jvp": jvp, "numpy_vjp": numpy_vjp, "numpy_jvp": numpy_jvp}
    for rule, given in rules.items():
        if given is not None:
            check_function("numpy_function", given, rule)
    if fun is None:
        return partial(numpy_function, result=result, vmap=vmap, writable=writable, **rules)
    check_function("numpy_function", fun)
    if vmap not in BATCHING:
        raise ValueError(f"vmap={vmap!r}; it is 'vectorized', 'sequential' or None")
    for ours, plain, name in ((vjp, numpy_vjp, "vjp"), (jvp, numpy_jvp, "jvp")):
        if ours is not None and plain is not None:
            raise ValueError(f"{name} and numpy_{name} are the same rule: give one of them")
    function = NumpyFunction(fun, result=result, vjp=vjp, jvp=jvp, vmap=vmap, writable=writable)
    if numpy_vjp is not None:
        function.vjp = NumpyRule(function, numpy_vjp, forward=False)
    if numpy_jvp is not None:
        function.jvp = NumpyRule(function, numpy_jvp, forward=True)
    return function


publish(globals())
