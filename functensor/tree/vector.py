"""A tree of arrays as one vector, for solvers and samplers that know vectors only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .containers import flatten_with_path, keystr

if TYPE_CHECKING:
    from ..primitives.core.annotations import ArrayLike

__all__ = ["ravel"]


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Writes the elements of all arrays of a tree one after another into a vector.

    Differentiable in both directions.

    Args:
        tree: its leaves are arrays of any shapes and dtypes, or numbers.

    Returns:
        ``(vector, unravel)``. The vector has the dtype to which those of the leaves promote. The
        function ``unravel`` takes a vector of that length and returns it as a tree of the same
        structure, shapes and dtypes; one of another precision is cast.

    Raises:
        TypeError: a leaf is not an array; the message has its path.
        ValueError: ``unravel`` was given a vector of another length.

    >>> from functensor import tree
    >>> import functensor.numpy as np
    >>> vector, unravel = tree.ravel({"w": np.ones((2, 2)), "b": np.zeros(1)})
    >>> vector
    Array([0., 1., 1., 1., 1.], dtype=float64, device='cpu')
    >>> unravel(2 * vector)["w"]
    Array([[2., 2.],
           [2., 2.]], dtype=float64, device='cpu')
    """
    # Containers alone need nothing but the standard library.
    import numpy

    from ..primitives.core.array_likes import is_array_like
    from ..primitives.core.registry import registry as ops
    from ..primitives.core.shape_dtype import result_type, shape_dtype
    from ..primitives.elementwise.cast_and_complex import cast

    found, treedef = flatten_with_path(tree)
    for path, leaf in found:
        if not is_array_like(leaf):
            raise TypeError(
                f"tree.ravel: the leaf at {keystr(path) or 'the root'} is of type "
                f"{type(leaf).__name__}, not an array"
            )
    kinds = [shape_dtype(leaf).strong() for _, leaf in found]
    dtype = result_type(*(kind.dtype for kind in kinds)) if kinds else numpy.dtype(float)
    total = sum(kind.size for kind in kinds)

    def unravel(vector: ArrayLike) -> Any:
        given = shape_dtype(vector)
        if given.shape != (total,):
            raise ValueError(
                f"unravel takes a vector of shape ({total},), as tree.ravel returned, not of "
                f"shape {given.shape}"
            )
        if given.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"unravel was given a {given.dtype} vector for a tree of {dtype}")
        leaves = []
        start = 0
        for kind in kinds:
            stop = start + kind.size
            part = ops.reshape(ops.asarray(vector)[start:stop], kind.shape)
            leaves.append(cast(part, kind.dtype))
            start = stop
        return treedef.unflatten(leaves)

    if not found:
        return ops.asarray(numpy.zeros(0)), unravel
    flat = [
        cast(ops.reshape(leaf, (kind.size,)), dtype)
        for (_, leaf), kind in zip(found, kinds, strict=True)
    ]
    return (ops.concatenate(flat) if len(flat) > 1 else flat[0]), unravel
