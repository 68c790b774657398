"""Sums over the last axis go to BLAS at once, with the bits of the way for runs of axes."""

import numpy as np
import pytest

from functensor.backends.cpu import reductions


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(64, 10), (4, 16, 33), (2, 1024), (600, 1), (3, 1025)], ids=str)
def test_sums_are_those_of_runs_of_axes(monkeypatch, shape, dtype, keepdims):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    last = x.ndim - 1
    middle = reductions._sum_middle
    wanted = middle(x.reshape(-1, shape[-1], 1)).reshape(*shape[:-1], *(1,) * keepdims)
    asked = []

    def noted(given):
        asked.append(given.shape)
        return middle(given)

    monkeypatch.setattr(reductions, "_sum_middle", noted)
    found = reductions.sum(x, axis=(last,), keepdims=keepdims)
    assert (found.shape, found.dtype, found.tobytes()) == (wanted.shape, x.dtype, wanted.tobytes())
    assert bool(asked) == (shape[-1] > reductions.LONGEST_BLAS_RUN)
