"""Compiled functions, as they are held by what calls them."""

from __future__ import annotations

__all__ = ["Code"]


class Code:
    """Compiled functions; their machine code is freed when this object dies.

    Attributes:
        key: the name of its object in the cache.
        bytes: the size of the object file.
        from_disk: whether it was compiled by an earlier process, or earlier by this one.
    """

    __slots__ = ("__weakref__", "_addresses", "bytes", "from_disk", "key")

    def __init__(self, addresses: dict[str, int], key: str, size: int, from_disk: bool) -> None:
        self._addresses = addresses
        self.key = key
        self.bytes = size
        self.from_disk = from_disk

    def address(self, name: str) -> int:
        """Returns the address of a function, which is valid for as long as this object lives."""
        return self._addresses[name]
