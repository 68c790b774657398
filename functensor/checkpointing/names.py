"""Marks on a function's values: a name for policies, and a barrier for passes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .. import tree
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import WEAK_TYPES
from ..primitives.core.errors import failure
from ..primitives.identities import checkpoint_name as named
from ..primitives.identities import optimization_barrier as barrier
from ..programs.program import argument_type
from ..programs.python_numbers import as_numbers

if TYPE_CHECKING:
    from ..primitives.core.annotations import ArrayLike

__all__ = ["checkpoint_name", "optimization_barrier", "tag"]


def checkpoint_name(x: Any, name: str) -> Any:
    """Returns a value that hooks, and the policies of `checkpoint`, know by a name.

    ``tag`` is a shorter name of this function. Everything else treats the value as it was. If the
    name is saved, the operation that made the value is not computed again.

    Args:
        x: a tree of arrays. Python's numbers and other leaves get no name and are passed as they
            are, so that numbers go on to decide no dtype.
        name: the name, which several values may have.

    Returns:
        The same tree.

    Raises:
        TypeError: ``x`` is a list of numbers, which is no array; or ``name`` is no string.

    >>> import functensor as ft, functensor.numpy as np
    >>> policy = ft.checkpoint_policies.save_only_these_names("hidden")
    >>> @ft.checkpoint(policy=policy)
    ... def layer(w, x):
    ...     return np.sin(ft.checkpoint_name(np.tanh(w @ x), "hidden"))
    >>> ft.grad(lambda w: np.sum(layer(w, np.ones(2))))(np.zeros((2, 2)))
    Array([[1., 1.],
           [1., 1.]], dtype=float64, device='cpu')
    """
    return _with_name("checkpoint_name", x, name)


def tag(x: Any, name: str) -> Any:
    """Returns a value that hooks, and the policies of `checkpoint`, know by a name.

    It does what `checkpoint_name` does, by a shorter name.

    Args:
        x, name: as for `checkpoint_name`.

    Returns:
        The same tree.

    >>> import functensor as ft, functensor.numpy as np
    >>> def f(x):
    ...     return np.sum(ft.tag(np.exp(x), "hidden"))
    >>> ft.hooks.capture(f, "hidden")(np.zeros(2))[1]
    {'hidden': Array([1., 1.], dtype=float64, device='cpu')}
    """
    return _with_name("tag", x, name)


def _with_name(function: str, x: Any, name: str) -> Any:
    """Does what a public function of that name does."""
    if not isinstance(name, str):
        raise TypeError(f"{function}: the name is a string, not {type(name).__name__}")
    if isinstance(x, list | tuple) and x and all(type(leaf) in WEAK_TYPES for leaf in x):
        raise failure(
            TypeError,
            f"{function}({name!r}) was given a {type(x).__name__} of numbers, which is no array",
            fix=f"ft.{function}(np.array(x), {name!r})",
        )

    def with_name(leaf: Any) -> Any:
        # Derivatives and programs may be of Python's numbers. What is computed of them has a name
        # too, and stays a number.
        if isinstance(leaf, Tracer):
            return as_numbers(partial(named, name=name), leaf)
        return named(leaf, name=name) if _is_marked(leaf) else leaf

    return tree.map(with_name, x)


def optimization_barrier(x: Any) -> Any:
    """Returns the same values, but passes over a program take them for other ones.

    Operations on them are not merged with the same operations on the values themselves, and do not
    run before all values are there. Where nothing is staged it does nothing.

    Args:
        x: a tree of arrays; Python's numbers and other leaves are passed as they are.

    Returns:
        The same tree.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.make_program(lambda x: np.sin(x) - np.sin(ft.optimization_barrier(x)))(np.ones(2))
    <lambda>(a: float64[2]):
        b: float64[2] = sin(a)
        c: float64[2] = optimization_barrier(a)
        d: float64[2] = sin(c)
        e: float64[2] = subtract(b, d)
        return e
    """
    marked = [leaf for leaf in tree.leaves(x) if _is_marked(leaf)]

    def behind(leaf: ArrayLike) -> Any:
        if not _is_marked(leaf):
            return leaf
        return barrier(leaf, *(other for other in marked if other is not leaf))

    return tree.map(behind, x)


def _is_marked(leaf: Any) -> bool:
    return is_array_like(leaf) and argument_type(leaf).weak is None
