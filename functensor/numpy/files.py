"""Arrays in files of NumPy's formats; nothing is pickled."""

from __future__ import annotations

from os import PathLike
from typing import IO, Any, TypeAlias

import numpy as np

from ..backends.annotations import Buffer
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.array import Array
from .creation import asarray
from .known_values import value_of

__all__ = ["load", "save", "savetxt", "savez", "savez_compressed"]

# A path, or an open file.
File: TypeAlias = str | PathLike[str] | IO[Any]


def _written(name: str, x: ArrayLike) -> Buffer:
    """Returns the values of an array that is to be written."""
    fix = f"np.{name}(...) outside of the transformation, with the array that it returns"
    return value_of(name, asarray(x), fix, "what {} writes")


def save(file: File, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Writes an array into a file in NumPy's format.

    Args:
        file: a path, to which ``.npy`` is added where it is missing, or an open file.
        arr: an array.
        allow_pickle: of no effect: arrays hold numbers, which are not pickled.

    Raises:
        ConcretizationError: its values are not known, under vmap or while staging.

    >>> import io
    >>> import functensor.numpy as np
    >>> file = io.BytesIO()
    >>> np.save(file, np.ones(2))
    >>> np.load(io.BytesIO(file.getvalue()))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    np.save(file, _written("save", arr), allow_pickle=False)


def savez(file: File, *args: ArrayLike, **kwds: ArrayLike) -> None:
    """Writes several arrays into a file in NumPy's format.

    Args:
        file: a path, to which ``.npz`` is added where it is missing, or an open file.
        args, kwds: arrays; those without a name are called ``arr_0``, ``arr_1`` and so on.

    Raises:
        ConcretizationError: values are not known, under vmap or while staging.

    >>> import io
    >>> import functensor.numpy as np
    >>> file = io.BytesIO()
    >>> np.savez(file, x=np.ones(2))
    >>> np.load(io.BytesIO(file.getvalue()))["x"].tolist()
    [1.0, 1.0]
    """
    named = {name: _written("savez", x) for name, x in kwds.items()}
    np.savez(file, *[_written("savez", x) for x in args], allow_pickle=False, **named)


def savez_compressed(file: File, *args: ArrayLike, **kwds: ArrayLike) -> None:
    """Writes several arrays into a compressed file in NumPy's format.

    Args:
        file, args, kwds: as for `savez`.

    Raises:
        ConcretizationError: values are not known, under vmap or while staging.

    >>> import io
    >>> import functensor.numpy as np
    >>> file = io.BytesIO()
    >>> np.savez_compressed(file, np.ones(2))
    >>> list(np.load(io.BytesIO(file.getvalue())))
    ['arr_0']
    """
    named = {name: _written("savez_compressed", x) for name, x in kwds.items()}
    values = [_written("savez_compressed", x) for x in args]
    np.savez_compressed(file, *values, allow_pickle=False, **named)


def savetxt(fname: File, X: ArrayLike, *args: Any, **kwargs: Any) -> None:
    """Writes an array of one or two axes into a text file.

    Args:
        fname: a path or an open file.
        X: the array.
        args, kwargs: NumPy's options: ``fmt, delimiter, newline, header, footer ...``.

    Raises:
        ConcretizationError: its values are not known, under vmap or while staging.

    >>> import io
    >>> import functensor.numpy as np
    >>> file = io.StringIO()
    >>> np.savetxt(file, np.ones(2), fmt="%.1f")
    >>> file.getvalue().split()
    ['1.0', '1.0']
    """
    np.savetxt(fname, _written("savetxt", X), *args, **kwargs)


def load(
    file: File,
    mmap_mode: str | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    *,
    max_header_size: int = 10_000,
    device: str | None = None,
) -> Array | dict[str, Array]:
    """Returns what was written into a file in NumPy's format.

    Args:
        file: a path or an open file.
        mmap_mode: None; arrays have memory of their own.
        allow_pickle: False; nothing is pickled.
        fix_imports, encoding: of no effect, for the same reason.
        max_header_size: how long what describes the array may be.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    Returns:
        An array; of a file with several a dict of them by name.

    Raises:
        ValueError: the file holds objects, which would be pickled, or is none of NumPy's.

    >>> import io
    >>> import functensor.numpy as np
    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(3))
    >>> np.load(io.BytesIO(file.getvalue())).tolist()
    [0, 1, 2]
    """
    if mmap_mode is not None:
        raise ValueError("load: mmap_mode is not offered: np.asarray(numpy.load(file, mmap_mode))")
    if allow_pickle:
        raise ValueError("load: allow_pickle=True is not offered: np.load(file), for numbers")
    found = np.load(file, allow_pickle=False, max_header_size=max_header_size)
    if isinstance(found, np.ndarray):
        return asarray(found, device=device)
    with found:
        return {name: asarray(found[name], device=device) for name in found.files}
