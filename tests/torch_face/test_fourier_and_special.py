"""torch.fft and torch.special mean what they do in PyTorch: values, dtypes, gradients."""

import pytest
from torch_face.expressions import outcomes
from torch_face.namespaces import FOURIER, SPECIAL
from torch_face.recorded import load, unlike

import functensor.torch as torch

pytestmark = [
    # Some operands are outside of a function's domain, on purpose.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize(("name", "expressions"), [("fourier", FOURIER), ("special", SPECIAL)])
def test_namespaces_are_pytorchs(name, expressions):
    _, recorded = load(name)
    assert set(recorded) == set(expressions)
    bad = unlike(torch, expressions, recorded, outcomes)
    assert not bad, "\n".join(bad)
