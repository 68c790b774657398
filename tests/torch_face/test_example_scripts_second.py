"""Examples after published scripts have PyTorch's loss curves, from the same weights."""

import numpy as np
import pytest
from support.long_forms import only_long
from torch_face.record_second_examples import CURVES, SCRIPTS, STEPS, losses


def compare(name, steps):
    with np.load(CURVES) as file:
        expected = file[name][:steps]
    assert len(expected) == steps
    np.testing.assert_allclose(losses(name, steps), expected, rtol=1e-4)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_first_losses_are_pytorchs(name):
    compare(name, 3)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_loss_curve_is_pytorchs(name):
    compare(name, STEPS)
