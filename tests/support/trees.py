"""The comparison of a result with the right one: one tree, and in it the same arrays."""

import numpy as np

import functensor as ft


def close(got, wanted, rtol=1e-12):
    """Asserts that two trees have one structure, and leaves of equal shapes, dtypes and values."""
    assert ft.tree.structure(got) == ft.tree.structure(wanted)
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert isinstance(a, ft.Array)
        assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-14)
