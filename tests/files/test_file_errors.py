"""The messages about files: which one, which place of the tree, what was expected and found."""

import re
import sys

import numpy
import pytest
from support.error_cases import check, line_of

import functensor as ft
import functensor.numpy as np
from functensor import torch

ANOTHER = "load another copy, or write the file anew with ft.save(path, tree)"
LOADED = "ft.load(path) without like returns the tree that the file has"


@pytest.fixture
def path(tmp_path):
    ft.save(tmp_path / "w.safetensors", {"w": np.ones((2, 3)), "b": [np.zeros(3), 1, None]})
    return tmp_path / "w.safetensors"


def place_error(call):
    """Returns the lines of a message that name places, of a call that must not fit."""
    with pytest.raises(ft.errors.TreeMismatchError) as info:
        call()
    assert f"\n  at {line_of(info.tb, __file__)}\n  fix: " in str(info.value)
    return re.findall(r"^    (.*)", str(info.value), re.MULTILINE)


def test_19_a_file_that_is_cut_off(path):
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.truncate(size - 8)
    check(
        ft.errors.FileError,
        lambda: ft.load(path),
        f"{path}: it has 64 bytes of data; expected 72, as its header says. Nothing was loaded",
        ANOTHER,
        19,
    )


def test_19_a_bit_that_has_changed(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    with pytest.raises(ft.errors.FileError, match=r"'[bw.0]+' has the checksum \w+; expected \w+"):
        ft.load(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04" + bytes(20), "a zip archive, as torch.save of PyTorch and numpy.savez"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P", "a pickle, as old versions of PyTorch write it"),
    ],
)
def test_19_a_file_that_pytorch_has_pickled(path, content, what):
    path.write_bytes(content)
    with pytest.raises(ft.errors.FileError) as info:
        torch.load(path)
    assert f"{path}: it is {what}" in str(info.value)
    assert "fix: nothing is unpickled here. With PyTorch: safetensors.torch.save_file(" in str(
        info.value
    )
    # A length of a header may begin as a pickle does.
    header = b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    path.write_bytes((640).to_bytes(8, "little") + header.ljust(640))
    assert ft.load(path)["a"].shape == (0,)


def test_20_shapes_dtypes_and_keys(path):
    like = {"w": np.ones((3, 2)), "b": [np.zeros(3, "float32"), "a", None], "c": 1}
    check(
        ft.errors.TreeMismatchError,
        lambda: ft.load(path, like),
        f"{path} does not fit like, and nothing was loaded:\n"
        "    ['b'][0]: expected float32[3], found float64[3]\n"
        "    ['b'][1]: expected str, found int 1\n"
        "    ['c']: expected int, found nothing\n"
        "    ['w']: expected float64[3, 2], found float64[2, 3]",
        LOADED,
        20,
    )


def test_20_structures(path):
    w = np.ones((2, 3))
    cases = {
        "a key too many": ({"w": w}, ["['b']: expected nothing, found list of 3"]),
        "a tuple": (
            {"w": w, "b": (np.zeros(3), 1, None)}, ["['b']: expected tuple of 3, found list of 3"]
        ),
        "a length": ({"w": w, "b": [1]}, ["['b']: expected list of 1, found list of 3"]),
        "an array": ([1], ["the root: expected list of 1, found dict of 2"]),
        "leaves": (
            {"w": 1.0, "b": [1, np.zeros(3), "a"]},
            ["['b'][0]: expected int, found float64[3]",
             "['b'][1]: expected float64[3], found int 1",
             "['b'][2]: expected str, found None",
             "['w']: expected float, found float64[2, 3]"],
        ),
        "None": (
            {"w": w, "b": [np.zeros(3), None, None]}, ["['b'][1]: expected None, found int 1"]
        ),
        "what no file holds": (
            {"w": w, "b": {1, 2}}, ["['b']: expected set, which files do not hold, found list of 3"]
        ),
        "a generator": (
            {"w": torch.Generator(), "b": ft.random.KeyStream(1)},
            ["['b']: expected a KeyStream, found list of 3",
             "['w']: expected a Generator, found float64[2, 3]"],
        ),
    }  # fmt: skip
    for name, (like, places) in cases.items():
        assert place_error(lambda like=like: ft.load(path, like)) == places, name


def test_20_a_module_of_another_shape_keeps_its_values(path):
    ft.save(path, {"first": torch.nn.Linear(3, 2), "second": torch.nn.Linear(2, 2)})
    like = {"first": torch.nn.Linear(3, 2), "second": torch.nn.Linear(2, 1).double()}
    before = like["first"].weight.tolist()
    assert place_error(lambda: ft.load(path, like)) == [
        "['second']['weight']: expected float64[1, 2], found float32[2, 2]",
        "['second']['bias']: expected float64[1], found float32[2]",
    ]
    assert like["first"].weight.tolist() == before


def test_an_object_that_refuses_its_state_sets_the_others_back(path):
    def made(count):
        model = torch.nn.Linear(3, 2)
        groups = [{"params": [model.weight]}, {"params": [model.bias]}][:count]
        keys = ft.random.KeyStream(count)
        return {"k": keys, "g": torch.Generator().manual_seed(count), "m": model,
                "o": torch.optim.Adam(groups, lr=0.1)}  # fmt: skip

    ft.save(path, made(2))
    like = made(1)
    before = like["m"].weight.tolist(), repr(like["k"]), like["g"].get_state()
    with pytest.raises(ValueError, match=r"groups of \[1, 1\] parameters, not of \[1\]"):
        ft.load(path, like)
    assert (like["m"].weight.tolist(), repr(like["k"]), like["g"].get_state()) == before


def test_20_names_of_another_librarys_file(path):
    import safetensors.numpy

    safetensors.numpy.save_file({"a.w": numpy.ones(2), "c": numpy.ones(1)}, path)
    assert place_error(lambda: ft.load(path, {"a": {"w": np.ones(2), "b": np.ones(1)}})) == [
        "['c']: expected nothing, found float64[1]",
        "['a']['b']: expected float64[1], found nothing",
    ]  # fmt: skip


def test_many_places_are_not_all_listed(path):
    places = place_error(lambda: ft.load(path, {str(i): 1 for i in range(30)}))
    assert len(places) == 9
    assert places[-1] == "and 24 more"


@pytest.mark.parametrize(
    ("leaf", "what"),
    [
        ({1, 2}, "['a'][0] is of type set, which files do not hold"),
        (print, "['a'][0] is of type builtin_function_or_method, which files do not hold"),
        (numpy.array(["x"]), "['a'][0] is an array of <U1, which files do not hold"),
        (numpy.ones(2, "longdouble"), "['a'][0] is an array of float128, which files do not hold"),
        (
            numpy.ma.array([1.0], mask=[1]),
            "['a'][0] is a masked array, whose mask files do not hold",
        ),
        ({b"k": 1}, "['a'][0] is a dictionary with a key of type bytes"),
    ],
)
def test_a_leaf_that_no_file_holds(path, leaf, what):
    before = path.read_bytes()
    with pytest.raises(TypeError) as info:
        ft.save(path, {"a": [leaf]})
    assert str(info.value).startswith(f"save: {what}\n  at {line_of(info.tb, __file__)}\n  fix: ")
    assert path.read_bytes() == before


def test_a_tree_that_contains_itself(path):
    tree, inner = [], {}
    tree.append(tree)
    for call in (ft.save, ft.load):
        with pytest.raises(TypeError, match="a list contains itself, and is no tree"):
            call(path, tree)
    tree[0], inner["a"] = inner, tree
    with pytest.raises(TypeError, match="more than 100 levels deep; does the tree contain itself"):
        ft.save(path, tree)


def test_values_that_are_not_known(path):
    def f(x):
        ft.save(path, {"x": x})
        return x

    for form in (ft.jit, ft.vmap):
        with pytest.raises(ft.errors.ConcretizationError, match="what save writes depends on"):
            form(f)(np.ones(2))


@pytest.mark.parametrize("metadata", [{"a": {1}}, {"a": float("nan")}, [1], "text"])
def test_metadata_that_are_no_json(path, metadata):
    with pytest.raises(TypeError, match="save: metadata is no dict that JSON can hold"):
        ft.save(path, 1, metadata=metadata)


def test_a_header_that_could_not_be_read_is_not_written(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("functensor.files.saving.LONGEST_HEADER", 3000)
    with pytest.raises(ValueError, match=r"the header would have \d+ bytes, and files have at"):
        ft.save(path, [*range(2000)])
    assert path.read_bytes() == before


def test_the_message_without_safetensors_names_the_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ft.errors.MissingExtraError, match=r"functensor\[serialization\]"):
        ft.save(path, 1)
    # What is there can be read.
    assert ft.load(path)["b"][1] == 1


def test_what_is_no_path(path):
    calls = [ft.load, torch.load, ft.Checkpoints, ft.read_metadata]
    calls += [lambda x: ft.save(x, 1), lambda x: torch.save(1, x)]
    for x in (3, None, 1.5):
        for call in calls:
            with pytest.raises(TypeError) as info:
                call(x)
            text = str(info.value)
            assert text.startswith(f"a file is given by its path, not by {type(x).__name__}\n  at ")
            assert "fix: " in text
    with pytest.raises(TypeError, match="not by BufferedReader"), open(path, "rb") as file:
        ft.load(file)


def test_a_file_or_device_that_is_not_there(path):
    with pytest.raises(FileNotFoundError):
        ft.load(path.with_name("other"))
    with pytest.raises(ft.errors.DeviceError):
        ft.load(path, device="gpu")
    with pytest.raises(FileNotFoundError, match="no/folder'"):
        ft.save(path.parent / "no" / "folder", 1)
