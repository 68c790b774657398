"""Layers and losses compute what PyTorch's do from the same weights: results and all gradients."""

import pytest
from torch_face.layers import LAYERS, layer_outcomes
from torch_face.recorded import differences, load, pytorchs

import functensor as ft
import functensor.torch as torch

VERSION, RECORDED = load("layers")


def test_there_are_enough_of_them():
    assert len(LAYERS) > 250
    assert set(LAYERS) == set(RECORDED)
    assert sum(bool(gradients) for _, gradients in RECORDED.values()) > 250


@pytest.mark.parametrize("line", LAYERS)
def test_layer_is_pytorchs(line):
    assert not list(differences(layer_outcomes(torch, line), RECORDED[line]))


@pytest.mark.gpu
@pytest.mark.parametrize("line", LAYERS)
def test_layer_is_pytorchs_on_a_gpu(line):
    with ft.default_device("cuda"):
        assert not list(differences(layer_outcomes(torch, line), RECORDED[line]))


def test_the_record_is_pytorchs():
    there = pytest.importorskip("torch")
    found = pytorchs(there, LAYERS, layer_outcomes)
    bad = [text for text in LAYERS if list(differences(found[text], RECORDED[text]))]
    assert not bad, f"recorded with PyTorch {VERSION}"
