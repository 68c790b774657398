"""Expressions mean the same in PyTorch and in its names here: values, dtypes, gradients."""

import pytest
from support.long_forms import thinned
from torch_face.expressions import DIFFERENT, EXPRESSIONS, array, flat, outcomes, values
from torch_face.recorded import differences, load, unlike_the_record

import functensor as ft
import functensor.torch as torch

# Some operands are outside of a function's domain, on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    # Every expression is a function of its own.
    pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning"),
]
VERSION, RECORDED = load("expressions")
PARTS = 16
# Results whose shape depends on values.
OF_UNKNOWN_SHAPE = (
    "unique", "bincount", "histc", "masked_select", "m[b]", "m[i>0]", "torch.nonzero",
    "b.nonzero", "argwhere",
    "torch.where(b)",
)  # fmt: skip


def test_there_are_enough_of_them():
    assert len(EXPRESSIONS) > 2000
    assert set(EXPRESSIONS) == set(RECORDED)
    assert len(DIFFERENT) < 20
    assert sum(bool(gradients) for _, gradients in RECORDED.values()) > 2000


def worst(part):
    """Returns how outcomes of a part of the expressions differ from PyTorch's."""
    bad = []
    for text in EXPRESSIONS[part::PARTS]:
        if text in DIFFERENT:
            continue
        theirs = RECORDED[text]
        try:
            found = list(differences(outcomes(torch, text, bool(theirs[1])), theirs))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        bad += [f"{text}: {each}" for each in found]
    return "\n".join(bad)


@pytest.mark.parametrize("part", range(PARTS))
def test_expressions_are_pytorchs(part):
    assert not worst(part)


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
def test_expressions_are_pytorchs_on_a_gpu(part):
    with ft.default_device("cuda"):
        assert not worst(part)


@pytest.mark.parametrize("part", thinned(range(PARTS), every=4))
def test_expressions_are_the_same_within_transformations(part):
    operands = values(torch)
    del operands["torch"]
    pairs = {name: torch.stack([x, x]) for name, x in operands.items()}
    bad = []
    for text in EXPRESSIONS[part::PARTS]:

        def tensors(names, text=text):
            found = flat(eval(text, {**names, "torch": torch}))
            return [x for x in found if isinstance(x, ft.Tensor)]

        plain = [array(x) for x in tensors(operands)]
        if not plain:
            continue
        if any(word in text for word in OF_UNKNOWN_SHAPE):
            with pytest.raises((ft.errors.ConcretizationError, ft.errors.TracerConversionError)):
                ft.jit(tensors)(operands)
            continue
        compiled = [array(x) for x in ft.jit(tensors)(operands)]
        batched = [array(x)[1] for x in ft.vmap(tensors)(pairs)]
        for way, found in (("jit", compiled), ("vmap", batched)):
            bad += [f"{way}: {text}: {each}" for each in differences([found], [plain])]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("text", DIFFERENT)
def test_what_is_said_to_differ_differs(text):
    assert list(differences(outcomes(torch, text), RECORDED[text]))


def test_the_record_is_pytorchs():
    there = pytest.importorskip("torch")
    bad = unlike_the_record(there, EXPRESSIONS, RECORDED, outcomes)
    assert not bad, f"recorded with PyTorch {VERSION}"
