"""The namespace's abilities, in the words of the Python array API standard."""

from __future__ import annotations

import numpy as np

from ..backends import info
from ..backends.annotations import DType
from ..backends.devices import devices, resolved

__all__ = ["__array_api_version__", "__array_namespace_info__"]

# The edition of the standard that the namespace follows.
__array_api_version__ = "2025.12"

DTYPES_BY_KIND = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
DTYPES_BY_KIND["integral"] = DTYPES_BY_KIND["signed integer"] + DTYPES_BY_KIND["unsigned integer"]
DTYPES_BY_KIND["numeric"] = (
    *DTYPES_BY_KIND["integral"],
    *DTYPES_BY_KIND["real floating"],
    *DTYPES_BY_KIND["complex floating"],
)
DEFAULT_DTYPES = {
    "real floating": "float64",
    "complex floating": "complex128",
    "integral": "int64",
    "indexing": "int64",
}


class NamespaceInfo:
    """Answers a library that was written for the standard and asks what there is.

    >>> import functensor.numpy as np
    >>> np.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """

    def capabilities(self) -> dict[str, bool | int]:
        """Returns the optional parts of the standard, by their names there.

        Returns:
            A dictionary: whether arrays are indexed by booleans, whether shapes may depend on
            values (where those are known: under vmap and while staging such functions take
            ``size=``), and how many axes an array may have.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Returns the device on which arrays are made."""
        return resolved()[1]

    def devices(self) -> tuple[str, ...]:
        """Returns the names of all devices: those of other backends once one was used."""
        return tuple(devices()) if len(info()) > 1 else ("cpu",)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Returns the dtypes that creation functions choose, by kind.

        Args:
            device: a device's name, or None; all have the same.

        Raises:
            DeviceError: there is no such device.
        """
        resolved(device)
        return {kind: np.dtype(name) for kind, name in DEFAULT_DTYPES.items()}

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Returns the dtypes of the standard, by name.

        Args:
            device: a device's name, or None; all have the same.
            kind: which of them: ``"bool"``, ``"signed integer"``, ``"unsigned integer"``,
                ``"integral"``, ``"real floating"``, ``"complex floating"``, ``"numeric"``, or a
                tuple of these; None for all.

        Raises:
            DeviceError: there is no such device.
            ValueError: there is no such kind.

        >>> import functensor.numpy as np
        >>> list(np.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
        """
        resolved(device)
        kinds = ("bool", "numeric") if kind is None else kind
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        for known in kinds:
            if known not in DTYPES_BY_KIND:
                listed = ", ".join(DTYPES_BY_KIND)
                raise ValueError(f"there is no kind {known!r}; there are {listed}")
        wanted = {name for known in kinds for name in DTYPES_BY_KIND[known]}
        every = DTYPES_BY_KIND["bool"] + DTYPES_BY_KIND["numeric"]
        return {name: np.dtype(name) for name in every if name in wanted}


def __array_namespace_info__() -> NamespaceInfo:
    """Returns an object that tells of devices, dtypes and what is optional in the standard.

    Source: https://data-apis.org/array-api/2025.12/API_specification/inspection.html

    >>> import functensor.numpy as np
    >>> np.__array_namespace_info__().devices()
    ('cpu',)
    """
    return NamespaceInfo()
