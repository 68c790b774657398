"""MNIST and its kin: files that are there, files that are fetched from this machine, and errors."""

import gzip
import sys
import threading
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy
import pytest
from support.long_forms import only_long

import functensor as ft
from functensor.datasets import digits, fashion_mnist, mnist, write_idx
from functensor.datasets.fetching import MissingFilesError, PublishedFiles
from functensor.datasets.image_sets import FASHION_MNIST, MNIST

NOBODY = "http://127.0.0.1:9/nobody"
IMAGES = numpy.arange(3 * 28 * 28).reshape(3, 28, 28).astype("uint8")
LABELS = numpy.array([3, 1, 4], "uint8")


def written(folder, part="train", end=".gz", images=IMAGES, labels=LABELS):
    """Writes the two files of a split."""
    folder.mkdir(parents=True, exist_ok=True)
    write_idx(folder / f"{part}-images-idx3-ubyte{end}", images)
    write_idx(folder / f"{part}-labels-idx1-ubyte{end}", labels)


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder and logs nothing."""

    def log_message(self, *args):
        return


@pytest.fixture
def served(tmp_path):
    """Yields a folder and the address at which this machine serves it."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("end", [".gz", ""])
@pytest.mark.parametrize("load", [mnist, fashion_mnist])
def test_files_that_are_there(tmp_path, load, end):
    name = load.__name__
    torchvision = {"mnist": "MNIST/raw", "fashion_mnist": "FashionMNIST/raw"}[name]
    for i, place in enumerate((".", name, torchvision)):
        folder = tmp_path / str(i)
        written(folder / place, "t10k", end)
        images, labels = load(folder, "test", mirrors=[NOBODY])
        assert numpy.array_equal(images, IMAGES)
        assert numpy.array_equal(labels, LABELS)
        assert images.dtype == labels.dtype == numpy.uint8


def test_the_error_tells_where_to_put_the_files(tmp_path):
    with pytest.raises(MissingFilesError) as info:
        mnist(tmp_path, mirrors=[NOBODY, "file:///nobody"])
    text = str(info.value)
    assert f"train-images-idx3-ubyte.gz is not in {tmp_path}, and was not fetched:" in text
    assert f"{NOBODY}/train-images-idx3-ubyte.gz: " in text
    assert "file:///nobody/train-images-idx3-ubyte.gz: " in text
    assert f"put the files {', '.join(MNIST.sums)} into {tmp_path}" in text
    assert '\n  fix: mnist("folder")' in text
    with pytest.raises(MissingFilesError, match="download=False"):
        fashion_mnist(tmp_path, download=False)
    assert isinstance(info.value, OSError)
    assert list(tmp_path.iterdir()) == []


def test_without_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingFilesError, match=r"pip install 'functensor\[mnist\]'"):
        mnist(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFilesError, match="is not in mnist, and was not fetched"):
        mnist()
    written(tmp_path / "mnist")
    assert mnist()[1].tolist() == [3, 1, 4]


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ft.errors.MissingExtraError, match=r"pip install 'functensor\[examples\]'"):
        digits()


def test_digits_are_read_without_an_import_of_scikit_learn(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.delitem(sys.modules, "sklearn.datasets", raising=False)
    digits()
    assert "sklearn.datasets" not in sys.modules


@only_long
@pytest.mark.long
def test_digits_are_there():
    known = pytest.importorskip("sklearn.datasets").load_digits()
    images, labels = digits()
    assert (images == known.images).all()
    assert (labels == known.target).all()
    assert (images.shape, images.dtype, labels.dtype) == ((1797, 8, 8), "float64", "int64")
    assert (images.min(), images.max()) == (0, 16)
    assert set(labels.tolist()) == set(range(10))


def test_a_mirror_with_other_files_is_not_believed(tmp_path, served):
    folder, address = served
    written(folder)
    with pytest.raises(MissingFilesError, match=r"idx3-ubyte\.gz: ValueError: SHA256"):
        mnist(tmp_path / "kept", mirrors=[address])
    assert not (tmp_path / "kept" / "train-images-idx3-ubyte.gz").exists()


def test_files_are_fetched_from_the_first_mirror_that_has_them(tmp_path, served):
    folder, address = served
    content = gzip.compress(b"anything")
    (folder / "a.gz").write_bytes(content)
    files = PublishedFiles("any", {"a.gz": sha256(content).hexdigest()}, [NOBODY, address], "raw")
    kept = tmp_path / "kept"
    assert files.found("a.gz", kept) is None
    path = files.fetched("a.gz", kept, None)
    assert path == kept / "a.gz"
    assert path.read_bytes() == content
    assert files.found("a.gz", kept) == files.checked(path) == path
    path.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match=r"has the SHA-256 [0-9a-f]{64}, and the published"):
        files.checked(path)


def test_files_that_were_there_are_checked_if_asked(tmp_path):
    written(tmp_path)
    with pytest.raises(ValueError, match="fix: remove the file, to fetch it anew"):
        mnist(tmp_path, check=True)
    written(tmp_path / "plain", end="")
    with pytest.raises(ValueError, match="only the published files have a known SHA-256"):
        mnist(tmp_path / "plain", check=True)


def test_files_of_another_kind(tmp_path):
    written(tmp_path / "a", images=IMAGES.astype("int32"))
    with pytest.raises(ValueError, match=r"has int32\[3, 28, 28\] in place of uint8 of 3 axes"):
        mnist(tmp_path / "a")
    written(tmp_path / "b", labels=LABELS[:2])
    with pytest.raises(ValueError, match="has 2 labels for 3 images"):
        mnist(tmp_path / "b")
    with pytest.raises(ValueError, match="split='tset' is not 'train' or 'test'"):
        mnist(tmp_path, "tset")


def test_published_sums_are_of_eight_different_files():
    sums = [*MNIST.sums.values(), *FASHION_MNIST.sums.values()]
    assert len(set(sums)) == 8
    assert all(len(bytes.fromhex(one)) == 32 for one in sums)
    assert MNIST.sums.keys() == FASHION_MNIST.sums.keys()
