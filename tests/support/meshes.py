"""A function on the processes of a mesh beside the same under nested ``vmap``, the oracle."""

import numpy as np

import functensor as ft
from functensor.distributed import spmd


def values_of(tree):
    """Returns the leaves of a tree as NumPy's arrays."""
    return [np.asarray(leaf) for leaf in ft.tree.leaves(tree)]


def assert_close(got, wanted, rtol=1e-11, atol=1e-12):
    """Checks that two trees have the same shapes, dtypes and, but for rounding, values."""
    pairs = list(zip(values_of(got), values_of(wanted), strict=True))
    assert pairs
    for x, y in pairs:
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def assert_same(use, fun, shape, in_specs, out_specs, *args, **tolerance):
    """Checks that what is done with a function's spmd is the same on processes and emulated.

    Args:
        use: takes the whole function, and arguments of it.
        fun: the function of one process.
        shape: the mesh's.
        in_specs, out_specs: those of `spmd`.
        args: the arguments.
    """
    got, wanted = (
        use(
            spmd(fun, ft.distributed.mesh(shape, emulated=emulated), in_specs, out_specs), *args
        )
        for emulated in (False, True)
    )
    assert_close(got, wanted, **tolerance)
