"""Curves and grids of images."""

import sys

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch
from functensor import training
from functensor.backends.optional_modules import MissingExtraError
from functensor.primitives.core.errors import ShapeError


def heights(figure, number=0):
    return figure.axes[0].lines[number].get_ydata()


def test_curves_are_drawn():
    losses = [np.asarray(3.0), torch.tensor(2.0), 1.5]
    figure = training.draw_curves({"train": losses, "test": [(0, 3.5), (2, 2.5)]}, log=True)
    axes = figure.axes[0]
    assert heights(figure).tolist() == [3, 2, 1.5]
    assert axes.lines[1].get_xdata().tolist() == [0, 2]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["train", "test"]
    assert (axes.get_yscale(), axes.get_xlabel(), axes.get_ylabel()) == ("log", "step", "loss")


def test_smooth_curves_are_running_means():
    figure = training.draw_curves({"loss": [4.0, 2.0, 2.0]}, smooth=0.5)
    assert heights(figure, 0).tolist() == [4, 2, 2]
    means = [4, (0.25 * 4 + 0.5 * 2) / 0.75, (0.125 * 4 + 0.25 * 2 + 0.5 * 2) / 0.875]
    numpy.testing.assert_allclose(heights(figure, 1), means)
    with pytest.raises(ValueError, match="smooth is from 0 up to 1, not 1"):
        training.draw_curves({"loss": [1.0]}, smooth=1)


def test_pictures_are_files(tmp_path):
    training.save_curves(tmp_path / "loss.png", {"loss": [1.0, float("nan"), 0.5], "none": []})
    training.save_images(tmp_path / "grid.png", np.ones((5, 1, 4, 4)), columns=3)
    for name in ("loss.png", "grid.png"):
        assert (tmp_path / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_images_stand_in_rows():
    images = numpy.arange(3.0).reshape(3, 1, 1, 1) * numpy.ones((3, 1, 2, 2))
    grid = training.image_grid(images, columns=2, padding=1, limits=(0, 2), background=0.25)
    assert grid.shape == (7, 7, 1)
    assert (grid[1:3, 1:3] == 0).all()
    assert (grid[1:3, 4:6] == 0.5).all()
    assert (grid[4:6, 1:3] == 1).all()
    assert (grid[4:6, 4:6] == 0.25).all()
    assert (grid[0] == 0.25).all()


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (2, 1, 4, 5), (2, 3, 4, 5), (0, 3, 4, 5)])
def test_all_shapes_of_images(shape):
    grid = training.image_grid(torch.zeros(*shape, requires_grad=True), padding=0)
    assert grid.shape[2] == (3 if len(shape) == 4 and shape[1] == 3 else 1)
    assert grid.dtype == "float32"


def test_numbers_of_images():
    bytes_of = numpy.array([[0, 255], [51, 102]], "uint8")
    found = training.image_grid(bytes_of, padding=0)[..., 0]
    numpy.testing.assert_allclose(found, [[0, 1], [0.2, 0.4]], rtol=1e-6)
    normal = training.image_grid(numpy.array([[-1.0, 3.0]]), padding=0, normalize=True)
    assert normal[..., 0].tolist() == [[0, 1]]
    same = training.image_grid(numpy.full((1, 2), 7.0), padding=0, normalize=True)
    assert same[..., 0].tolist() == [[0, 0]]
    strange = training.image_grid(numpy.array([[numpy.nan, numpy.inf]]), padding=0)
    assert strange[..., 0].tolist() == [[0, 1]]
    with pytest.raises(ShapeError, match=r"images of shape \(2, 5, 4, 4\)"):
        training.image_grid(numpy.zeros((2, 5, 4, 4)))


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.image", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'functensor\[plot\]'"):
        ft.training.draw_curves({"loss": [1.0]})
    with pytest.raises(MissingExtraError, match=r"pip install 'functensor\[plot\]'"):
        ft.training.save_images(tmp_path / "x.png", np.ones((2, 2)))
