"""``torch.save`` and ``torch.load``: trees of tensors in paths and open files, without pickle."""

import io

import numpy
import pytest
import safetensors.numpy
from support.saved_trees import same

import functensor as ft
from functensor import torch


def trained():
    """Returns a module and an optimizer that have made a step."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(5, 3)).square().mean().backward()
    optimizer.step()
    return model, optimizer


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("mmap", [None, True])
def test_states_come_back_from_a_path(path, mmap):
    model, optimizer = trained()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2}, path)
    found = torch.load(path, mmap=mmap)
    other, its_optimizer = trained()
    other.load_state_dict(found["model"])
    its_optimizer.load_state_dict(found["optimizer"])
    assert same(dict(other.state_dict()), dict(model.state_dict()))
    assert same(
        ft.tree.leaves(its_optimizer.state_dict()), ft.tree.leaves(optimizer.state_dict())
    )
    assert found["epoch"] == 2


def test_states_come_back_from_an_open_file(path):
    model, _ = trained()
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    assert same(dict(torch.load(buffer)), dict(model.state_dict()))
    with open(path, "wb") as file:
        torch.save([torch.ones(2)], file)
    with open(path, "rb") as file:
        assert same(torch.load(file), [torch.ones(2)])


def test_a_file_of_safetensors_gives_tensors(path):
    safetensors.numpy.save_file({"w": numpy.ones((2, 2), "f4")}, path)
    assert same(torch.load(path), {"w": torch.ones(2, 2)})
    assert same(torch.load(io.BytesIO(path.read_bytes())), {"w": torch.ones(2, 2)})
    torch.load(path)["w"].add_(1)
    assert same(torch.load(path), {"w": torch.ones(2, 2)})


def test_devices(path):
    torch.save(torch.ones(2), path)
    for device in ("cpu", torch.device("cpu")):
        assert torch.load(path, device).device == "cpu"
    with pytest.raises(ft.errors.DeviceError):
        torch.load(path, map_location="tpu")
    with pytest.raises(TypeError, match="map_location is of type int"):
        torch.load(path, map_location=0)


def test_devices_by_functions_and_dictionaries(path):
    torch.save({"a": torch.ones(2), "b": [torch.arange(3), 4]}, path)
    whole = torch.load(path)
    for location in ({"cuda:0": "cpu"}, {}, lambda storage, place: storage):
        assert same(torch.load(path, map_location=location), whole)
    asked = []
    torch.load(path, lambda x, place: asked.append((tuple(x.shape), place)))
    assert asked == [((2,), "cpu"), ((3,), "cpu")]
    found = torch.load(path, lambda x, place: x.double())
    assert [found["a"].dtype.name, found["b"][0].dtype.name, found["b"][1]] == ["float64"] * 2 + [4]


def test_there_is_no_pickle(path):
    torch.save(torch.ones(2), path)
    with pytest.raises(ValueError, match="weights_only=False asks for pickle") as info:
        torch.load(path, weights_only=False)
    assert str(info.value).endswith("see python -m functensor.errors 19")
    with pytest.raises(TypeError, match="pickle_module"):
        torch.load(path, pickle_module=io)


def test_a_file_of_pytorch_is_refused_and_converted(path, tmp_path):
    pytorch = pytest.importorskip("torch")
    of_torch = pytest.importorskip("safetensors.torch")
    state = {"w": pytorch.ones(2, dtype=pytorch.bfloat16), "c": pytorch.zeros(3)}
    pickled = tmp_path / "model.pt"
    for new in (True, False):
        pytorch.save(state, pickled, _use_new_zipfile_serialization=new)
        with pytest.raises(ft.errors.FileError, match="nothing is unpickled here"):
            torch.load(pickled)
    of_torch.save_file(pytorch.load(pickled), tmp_path / "converted")
    found = torch.load(tmp_path / "converted")
    assert (found["w"].dtype.name, found["c"].shape) == ("bfloat16", (3,))
    torch.save(found, path)
    assert pytorch.equal(of_torch.load_file(path)["w"], state["w"])


def test_an_open_text_file_is_refused(path):
    path.write_text("x")
    with open(path) as file, pytest.raises(TypeError, match="the file is open for text"):
        torch.load(file)
