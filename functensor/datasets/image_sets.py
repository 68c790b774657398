"""MNIST and Fashion-MNIST: images of 28 by 28 pixels of ten classes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ..primitives.core.errors import failure
from .fetching import PublishedFiles, cache_folder
from .idx import bad_file, read_idx

__all__ = ["fashion_mnist", "mnist"]

# The images of a split, and their labels.
Split: TypeAlias = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

SPLITS = {"train": "train", "test": "t10k"}
IMAGES, LABELS = "{}-images-idx3-ubyte.gz", "{}-labels-idx1-ubyte.gz"
MNIST = PublishedFiles(
    "mnist",
    {
        "train-images-idx3-ubyte.gz": (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
        ),
        "train-labels-idx1-ubyte.gz": (
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
        ),
        "t10k-images-idx3-ubyte.gz": (
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
        ),
        "t10k-labels-idx1-ubyte.gz": (
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
        ),
    },
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    "MNIST/raw",
)
FASHION_MNIST = PublishedFiles(
    "fashion_mnist",
    {
        "train-images-idx3-ubyte.gz": (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
        ),
        "train-labels-idx1-ubyte.gz": (
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
        ),
        "t10k-images-idx3-ubyte.gz": (
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
        ),
        "t10k-labels-idx1-ubyte.gz": (
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
        ),
    },
    (
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    ),
    "FashionMNIST/raw",
)


def split_of(
    files: PublishedFiles,
    folder: str | PathLike[str] | None,
    split: str,
    download: bool,
    mirrors: Sequence[str] | None,
    check: bool,
) -> Split:
    """Returns the images and labels of a split; arguments as of `mnist`."""
    if split not in SPLITS:
        known = " or ".join(map(repr, SPLITS))
        raise failure(
            ValueError, f"{files.name}: split={split!r} is not {known}", fix='split="train"'
        )
    place = cache_folder(files.name) if folder is None else Path(folder)
    if place is None:
        # Without pooch there is no folder of its own.
        place = Path(files.name)
    paths = []
    for pattern in (IMAGES, LABELS):
        file = pattern.format(SPLITS[split])
        path = files.found(file, place)
        if path is None:
            if not download:
                raise files.missing(file, place, ["download=False"])
            path = files.fetched(file, place, mirrors)
        paths.append(files.checked(path) if check else path)
    images, labels = map(read_idx, paths)
    for path, array, ndim in zip(paths, (images, labels), (3, 1)):
        if array.dtype != np.uint8 or array.ndim != ndim:
            shown = f"{array.dtype}{list(array.shape)}"
            raise bad_file(path, f"has {shown} in place of uint8 of {ndim} axes")
    if len(images) != len(labels):
        raise bad_file(paths[1], f"has {len(labels)} labels for {len(images)} images")
    return images, labels


def mnist(
    folder: str | PathLike[str] | None = None,
    split: Literal["train", "test"] = "train",
    *,
    download: bool = True,
    mirrors: Sequence[str] | None = None,
    check: bool = False,
) -> Split:
    """Returns the images and labels of MNIST, handwritten digits.

    The four published files are looked for in the folder, compressed or not, also where torchvision
    keeps them. Files that are missing are fetched by pooch, which the extra ``mnist`` brings; what
    is fetched has to have the published SHA-256.

    Args:
        folder: the folder of the files; None for ``functensor/mnist`` in the user's cache.
        split: ``"train"`` for 60,000 images or ``"test"`` for 10,000.
        download: whether missing files are fetched.
        mirrors: the addresses of folders that have the files, tried in turn; None for known ones.
        check: whether files that were there already have to have the published SHA-256, too.

    Returns:
        Two NumPy arrays of uint8: images of shape ``(n, 28, 28)`` and labels of shape ``(n,)``.

    Raises:
        MissingFilesError: files are missing and cannot be fetched; says where to put them.
        ValueError: a file is damaged, or is not the published one.

    >>> import numpy, tempfile
    >>> from functensor.datasets import mnist, write_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_idx(f"{folder}/t10k-images-idx3-ubyte.gz", numpy.zeros((2, 28, 28), "uint8"))
    ...     write_idx(f"{folder}/t10k-labels-idx1-ubyte.gz", numpy.array([7, 2], "uint8"))
    ...     images, labels = mnist(folder, "test")
    >>> images.shape, labels
    ((2, 28, 28), array([7, 2], dtype=uint8))

    References:
        LeCun, Cortes, Burges: The MNIST database of handwritten digits.
    """
    return split_of(MNIST, folder, split, download, mirrors, check)


def fashion_mnist(
    folder: str | PathLike[str] | None = None,
    split: Literal["train", "test"] = "train",
    *,
    download: bool = True,
    mirrors: Sequence[str] | None = None,
    check: bool = False,
) -> Split:
    """Returns the images and labels of Fashion-MNIST, pictures of clothes.

    Args:
        folder: the folder of the files; None for ``functensor/fashion_mnist`` in the user's cache.
        split: ``"train"`` for 60,000 images or ``"test"`` for 10,000.
        download: whether missing files are fetched, as by `mnist`.
        mirrors: the addresses of folders that have the files, tried in turn; None for known ones.
        check: whether files that were there already have to have the published SHA-256, too.

    Returns:
        Two NumPy arrays of uint8: images of shape ``(n, 28, 28)`` and labels of shape ``(n,)``.

    Raises:
        MissingFilesError: files are missing and cannot be fetched; says where to put them.
        ValueError: a file is damaged, or is not the published one.

    >>> import numpy, tempfile
    >>> from functensor.datasets import fashion_mnist, write_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_idx(f"{folder}/train-images-idx3-ubyte", numpy.zeros((1, 28, 28), "uint8"))
    ...     write_idx(f"{folder}/train-labels-idx1-ubyte", numpy.array([9], "uint8"))
    ...     images, labels = fashion_mnist(folder)
    >>> labels
    array([9], dtype=uint8)

    References:
        Xiao, Rasul, Vollgraf: Fashion-MNIST, arXiv:1708.07747.
    """
    return split_of(FASHION_MNIST, folder, split, download, mirrors, check)
