"""Calls of PyTorch's names give what they do in PyTorch: all dtypes, empty tensors, errors."""

import pytest
from support.long_forms import LONG
from torch_face.expressions import array, flat, outcomes, values
from torch_face.name_expressions import BOTH_FAIL, NAME_EXPRESSIONS, NAMES_DIFFER
from torch_face.recorded import differences, load, unlike, unlike_the_record

import functensor as ft
import functensor.torch as torch

pytestmark = [
    # Some operands are outside of a function's domain, on purpose.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    # Every expression is a function of its own.
    pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning"),
]
VERSION, RECORDED = load("name_expressions")
STEP = 1 if LONG else 4
PARTS = 8


def test_there_are_enough_of_them():
    assert len(NAME_EXPRESSIONS) > 1300
    assert set(NAME_EXPRESSIONS) == set(RECORDED)
    assert len(BOTH_FAIL) > 80
    assert len(NAMES_DIFFER) < 10


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_names_give_what_they_do_in_pytorch(part):
    texts = [text for text in NAME_EXPRESSIONS[part :: PARTS * STEP] if text not in NAMES_DIFFER]
    bad = unlike(torch, texts, RECORDED, outcomes)
    assert not bad, "\n".join(bad)


# What counts on the host, or records a graph of its own.
NOT_WITHIN = ("torch.histogram", "torch.autograd.functional")


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_names_give_the_same_within_transformations(part):
    operands = values(torch)
    del operands["torch"]
    pairs = {name: torch.stack([x, x]) for name, x in operands.items()}
    bad = []
    for text in NAME_EXPRESSIONS[part :: PARTS * STEP]:
        if text.startswith(NOT_WITHIN):
            continue

        def tensors(names, text=text):
            found = flat(eval(text, {**names, "torch": torch}))
            return [x for x in found if isinstance(x, ft.Tensor)]

        plain = [array(x) for x in tensors(operands)]
        if plain:
            compiled = [array(x) for x in ft.jit(tensors)(operands)]
            batched = [array(x)[1] for x in ft.vmap(tensors)(pairs)]
            for way, found in (("jit", compiled), ("vmap", batched)):
                bad += [f"{way}: {text}: {each}" for each in differences([found], [plain])]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("text", NAMES_DIFFER)
def test_what_is_said_to_differ_differs(text):
    assert list(differences(outcomes(torch, text), RECORDED[text]))


def fails(module, text):
    """Says whether a call is an error."""
    try:
        eval(text, values(module))
    except (RuntimeError, ValueError, IndexError, TypeError):
        return True
    return False


def test_calls_that_are_errors_in_pytorch_are_errors():
    assert [text for text in BOTH_FAIL if not fails(torch, text)] == []


def test_the_record_of_names_is_pytorchs():
    there = pytest.importorskip("torch")
    bad = unlike_the_record(there, NAME_EXPRESSIONS, RECORDED, outcomes)
    assert not bad, f"recorded with PyTorch {VERSION}"
    assert [text for text in BOTH_FAIL if not fails(there, text)] == []
