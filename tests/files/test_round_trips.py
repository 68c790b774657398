"""Trees come back from files as they were: containers, types, dtypes, shapes and bits."""

import os
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum

import numpy
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.long_forms import sized
from support.saved_trees import bits, same, tree_of_every_kind

import functensor as ft
import functensor.numpy as np
from functensor import torch

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 2**60
    HIGH = 2**70


@dataclass
class Layer:
    weights: object
    name: str


@st.composite
def buffers(draw):
    """Draws NumPy arrays of any bits, whole, as steps of larger ones, or turned."""
    dtype = ft.numpy.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    size = int(numpy.prod(shape, dtype=int))
    raw = numpy.frombuffer(draw(st.binary(min_size=size * dtype.itemsize)), numpy.uint8)
    raw = raw[: size * dtype.itemsize]
    x = (raw & 1 if dtype.kind == "b" else raw).view(dtype).reshape(shape)
    kind = draw(st.sampled_from(["whole", "turned", "steps"]))
    if kind == "steps" and shape:
        return x[..., ::2]
    return x.T if kind == "turned" else x


def as_leaf(x, kind):
    """Returns an array as one of the classes that hold elements."""
    if kind == "tensor":
        return ft.Tensor(np.asarray(x))
    return {"array": np.asarray, "numpy": numpy.array, "scalar": lambda x: x.ravel()[:1]}[kind](x)


numbers = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=5)
)
elements = st.builds(as_leaf, buffers(), st.sampled_from(["array", "numpy", "tensor", "scalar"]))
keys = st.one_of(st.text(max_size=4), st.integers(), st.tuples(st.integers(), st.text(max_size=2)))
trees = st.recursive(
    st.one_of(numbers, elements),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.builds(Point, inner, inner),
    ),
    max_leaves=8,
)


def without_names(x):
    """Returns a tree with dicts in the place of named tuples, as files give it by themselves."""
    if isinstance(x, Point):
        return {"x": without_names(x.x), "y": without_names(x.y)}
    if isinstance(x, dict):
        return type(x)((k, without_names(v)) for k, v in x.items())
    return type(x)(map(without_names, x)) if type(x) in (list, tuple) else x


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("trees") / "tree.safetensors"


@given(trees)
def test_any_tree_comes_back(path, tree):
    ft.save(path, tree)
    assert same(ft.load(path), without_names(tree))
    assert same(ft.load(path, tree), tree)
    assert same(ft.load(path, tree, mmap=True), tree)


def test_a_tree_of_every_kind_comes_back(path):
    tree = tree_of_every_kind()
    ft.save(path, tree)
    for found in (ft.load(path), ft.load(path, mmap=True), ft.load(path, tree_of_every_kind())):
        assert same(found, tree)
        # A tensor that is in two places is one tensor again, and is trained as one.
        assert found["t"][0] is found["t"][1]
        assert found["t"][0] is not found["t"][2]


def test_saves_of_one_tree_are_equal_files(path):
    ft.save(path, tree_of_every_kind())
    first = path.read_bytes()
    ft.save(path, tree_of_every_kind())
    assert path.read_bytes() == first


@pytest.mark.parametrize("dtype", DTYPES)
def test_safetensors_itself_reads_and_writes_every_dtype(path, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    ft.save(path, {"a.b": x, "z": x[:0]})
    found = safetensors.numpy.load_file(path)
    if x.dtype.kind == "c":
        # Readers of older versions know no complex numbers: pairs are for all.
        found = {name: y.view(dtype)[..., 0] for name, y in found.items()}
    assert {name: (y.dtype, y.shape, bits(y)) for name, y in found.items()} == {
        "a.b": (x.dtype, (2, 3), bits(x)), "z": (x.dtype, (0, 3), b"")
    }  # fmt: skip
    if dtype == "complex128":
        return
    safetensors.numpy.save_file({"b": numpy.array(x), "s": numpy.array(x[0, 0])}, path)
    for options in ({}, {"mmap": True}):
        plain = ft.load(path, **options)
        assert same(plain, {"b": x, "s": x[0, 0]})
        assert all(type(y) is ft.Array for y in plain.values())
    assert same(torch.load(path), {k: ft.Tensor(v) for k, v in plain.items()})
    assert same(ft.load(path, {"b": ft.ShapeDtype((2, 3), dtype), "s": x[0, 0]}), plain)


def test_arrays_of_other_libraries_files_go_into_a_tree_by_their_paths(path):
    safetensors.numpy.save_file({"layers.0.w": numpy.ones(2), "layers.1.w": numpy.zeros(3)}, path)
    like = {"layers": [{"w": np.zeros(2)}, {"w": np.zeros(3)}]}
    assert same(ft.load(path, like), {"layers": [{"w": np.ones(2)}, {"w": np.zeros(3)}]})
    model = torch.nn.Linear(2, 1)
    weight, bias = numpy.full((1, 2), 3, "f4"), numpy.ones(1, "f4")
    safetensors.numpy.save_file({"weight": weight, "bias": bias}, path)
    assert ft.load(path, model) is model
    assert model.weight.tolist() == [[3.0, 3.0]]


def test_memory_that_is_shared_is_stored_once(path):
    x, buffer = np.ones((100, 100)), numpy.zeros((50, 50))
    ft.save(path, {"a": x, "b": [x, buffer, buffer], "t": ft.Tensor(x)})
    assert path.stat().st_size < 8 * (10_000 + 2500) + 2000
    found = ft.load(path)
    assert found["a"] is found["b"][0]
    assert found["b"][1] is found["b"][2]
    # Tensors are changed, and share nothing with what was another object.
    found["t"].add_(1)
    assert (found["t"].tolist()[0][0], found["a"].tolist()[0][0]) == (2.0, 1.0)


def test_arrays_lie_in_the_mapped_file(path):
    ft.save(path, {"w": np.arange(1000.0), "n": numpy.zeros(3), "t": torch.ones(2)})
    found = ft.load(path, mmap=True)
    assert not numpy.asarray(found["w"]).flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        numpy.asarray(found["w"])[0] = 1.0
    found["n"][0] = 5.0
    found["t"][0] = 7.0
    donated = ft.jit(lambda x: x + 1, donate_argnums=0)(found["w"])
    ft.save(path, {"other": np.zeros(3)})
    assert donated[999].item() == 1000.0
    assert ft.load(path)["other"].tolist() == [0.0, 0.0, 0.0]


def test_classes_of_the_caller_come_from_like(path):
    like = {
        "point": Point(np.ones(2), 1), "layer": Layer(np.ones(3), "first"),
        "default": defaultdict(list, a=np.ones(1)), "parameter": torch.nn.Parameter(torch.ones(2)),
    }  # fmt: skip
    ft.save(path, like)
    assert ft.load(path)["layer"]["name"] == "first"
    found = ft.load(path, like)
    assert isinstance(found["point"], Point)
    assert isinstance(found["layer"], Layer)
    assert found["default"].default_factory is list
    assert type(found["parameter"]) is torch.nn.Parameter
    assert found["parameter"].requires_grad


def test_a_module_an_optimizer_and_generators_go_on_from_their_states(path):
    def made(seed):
        torch.manual_seed(seed)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (seed + 1))
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
        keys = ft.random.KeyStream(seed)
        keys(seed)
        return {"m": model, "o": optimizer, "k": keys, "g": torch.Generator().manual_seed(seed)}

    first, second = made(1), made(2)
    ft.save(path, first)
    found = ft.load(path, second)
    assert all(found[name] is second[name] for name in second)
    assert same(ft.load(path), ft.load(path))
    ft.save(path.with_suffix(".again"), second)
    assert same(ft.load(path.with_suffix(".again")), ft.load(path))


def test_a_schedule_stays_that_of_the_optimizer(path):
    def made():
        w = ft.Tensor([1.0, 2.0], requires_grad=True)
        optimizer = ft.optim.Adam([w], lr=lambda step: 0.1 / (1.0 + step))
        (w * w).sum().backward()
        optimizer.step()
        return optimizer

    optimizer = made()
    optimizer.step()
    ft.save(path, optimizer)
    other = made()
    rate = other.lr
    assert ft.load(path, other) is other
    assert other.lr is rate
    assert same(ft.tree.leaves(other._states), ft.tree.leaves(optimizer._states))
    assert ft.load(path)["lr"] is None


def test_a_file_under_a_gradient_has_the_values(path):
    def loss(x):
        ft.save(path, {"x": x, "y": 2 * x})
        return x.sum()

    assert ft.grad(loss)(np.ones(2)).tolist() == [1.0, 1.0]
    assert same(ft.load(path), {"x": np.ones(2), "y": 2 * np.ones(2)})


def test_metadata_come_back(path):
    told = {"name": "é", "loss": 0.5, "tags": ["a", None, True], "inner": {"n": 3}}
    ft.save(path, np.ones(2), metadata=told)
    assert ft.read_metadata(path) == told
    ft.save(path, np.ones(2))
    assert ft.read_metadata(path) == {}
    safetensors.numpy.save_file({"a": numpy.ones(1)}, path, {"format": "np"})
    assert ft.read_metadata(path) == {"format": "np"}


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "tree.safetensors"
    script = (
        "import resource, signal, sys, functensor as ft, functensor.numpy as np\n"
        "ft.save(sys.argv[1], {'n': 1})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    ft.save(sys.argv[1], np.ones(1000))\n"
        "except OSError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"[Errno 27] File too large: '{path}'\n"
    assert os.listdir(tmp_path) == ["tree.safetensors"]
    assert ft.load(path) == {"n": 1}


@pytest.mark.long
def test_several_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "tree.safetensors"

    def write(first):
        for n in range(first, first + sized(5, 50)):
            ft.save(path, {"n": n, "w": np.full(1000, n)})
            found = ft.load(path)
            assert found["w"].tolist() == [found["n"]] * 1000

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(write, range(0, 4000, 1000))] == [None] * 4
    assert os.listdir(tmp_path) == ["tree.safetensors"]


def test_a_file_has_the_rights_that_new_files_have(tmp_path):
    (tmp_path / "other").touch()
    ft.save(tmp_path / "tree.safetensors", 1)
    assert (tmp_path / "tree.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_new_file_has_the_rights_of_the_old_one(tmp_path):
    path = tmp_path / "tree.safetensors"
    ft.save(path, [1])
    path.chmod(0o600)
    ft.save(path, [2])
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_no_file_takes_the_place_of_a_pipe_or_a_folder(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match="a folder, a device or a pipe"):
            ft.save(path, [1])
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_only_files_of_stopped_writers_are_removed(tmp_path):
    mine = tmp_path / ".tree.safetensors.mine.tmp"
    left = tmp_path / f".tree.safetensors.{'0a' * 8}.tmp"
    for path in (mine, left):
        path.touch()
    ft.save(tmp_path / "tree.safetensors", [1])
    assert mine.exists()
    assert left.exists() == (os.name == "nt")


def test_numbers_and_keys_of_subclasses(path):
    # The ranges of Python would count up to an integer of a subclass: for centuries.
    tree = {numpy.float64(0.5): Level.LOW, "many": Level.HIGH}
    ft.save(path, tree)
    assert ft.load(path) == {0.5: 2**60, "many": 2**70}
    assert ft.load(path, tree) == tree


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file [1]")
    ft.save(tmp_path / "link", [1])
    assert (tmp_path / "link").is_symlink()
    assert ft.load(tmp_path / "file [1]") == [1]


@pytest.mark.gpu
def test_arrays_on_a_gpu_are_saved_from_there_and_loaded_to_it(path):
    x = ft.to_device(np.arange(6.0).reshape(2, 3), "cuda:0")
    tree = {"x": x, "again": x, "t": torch.ones(2, device="cuda:0"), "n": numpy.ones(2)}
    ft.save(path, tree)
    assert ft.load(path)["x"].device == "cpu"
    given = {"device": "cuda:0"}, {"like": tree}, {"like": tree, "mmap": True}
    for found in (ft.load(path, **options) for options in given):
        assert [found[name].device for name in ("x", "again", "t")] == ["cuda:0"] * 3
        assert type(found["n"]) is numpy.ndarray
        assert found["x"].tolist() == x.tolist()
    assert torch.load(path, map_location="cuda:0")["t"].device == "cuda:0"
