"""Files of data sets: found in a folder, or fetched from mirrors and checked by their SHA-256."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..backends.logs import log_debug
from ..backends.optional_modules import MissingExtraError, extra
from ..primitives.core.errors import failure

__all__ = ["MissingFilesError", "PublishedFiles", "cache_folder"]


class MissingFilesError(OSError):
    """The files of a data set are not there, and cannot be fetched."""


def cache_folder(name: str) -> Path | None:
    """Returns the folder of the system's cache for a data set; None without pooch."""
    try:
        return Path(extra("pooch", "mnist").os_cache("functensor")) / name
    except MissingExtraError:
        return None


class PublishedFiles:
    """The files of a data set.

    Args:
        name: the set's name.
        sums: the SHA-256 of each file, by its name.
        mirrors: the addresses of folders that have them.
        subfolder: where other libraries keep them, within a folder of data.
    """

    def __init__(
        self, name: str, sums: dict[str, str], mirrors: Sequence[str], subfolder: str
    ) -> None:
        self.name = name
        self.sums = sums
        self.mirrors = tuple(mirrors)
        self.subfolder = subfolder

    def found(self, file: str, folder: Path) -> Path | None:
        """Returns a file in a folder, compressed or not; None if it is not there."""
        for place in (folder, folder / self.name, folder / self.subfolder):
            for name in (file, file.removesuffix(".gz")):
                if (place / name).is_file():
                    log_debug("files", "%s: found %s", self.name, place / name)
                    return place / name
        return None

    def checked(self, path: Path) -> Path:
        """Returns a file's path if it is the published file.

        Raises:
            ValueError: its SHA-256 is another one.
        """
        wanted = self.sums.get(path.name)
        if wanted is None:
            what = f"{path} is not compressed: only the published files have a known SHA-256"
            raise failure(ValueError, what, fix="check=False, or the published .gz files")
        found = sha256(path.read_bytes()).hexdigest()
        if found != wanted:
            what = f"{path} has the SHA-256 {found}, and the published file {wanted}"
            raise failure(ValueError, what, fix="remove the file, to fetch it anew")
        return path

    def fetched(self, file: str, folder: Path, mirrors: Sequence[str] | None) -> Path:
        """Returns a file that one of the mirrors has, in a folder, where it stays.

        Raises:
            MissingFilesError: no mirror gives the file, or pooch is not installed.
        """
        addresses = [f"{mirror.rstrip('/')}/{file}" for mirror in mirrors or self.mirrors]
        try:
            retrieve = extra("pooch", "mnist").retrieve
        except MissingExtraError as error:
            raise self.missing(file, folder, [str(error)]) from error
        reasons = []
        for address in addresses:
            log_debug("files", "%s: fetching %s", self.name, address)
            try:
                path: Any = retrieve(
                    address, known_hash=f"sha256:{self.sums[file]}", fname=file, path=folder
                )
                return Path(path)
            except Exception as error:  # whatever the network, or the disk, has
                reasons.append(f"{address}: {type(error).__name__}: {error}")
        raise self.missing(file, folder, reasons)

    def missing(self, file: str, folder: Path, reasons: Sequence[str]) -> MissingFilesError:
        """Returns the error for a file that is not there and cannot be fetched."""
        tried = "".join(f"\n    {reason}" for reason in reasons)
        what = (
            f"{self.name}: {file} is not in {folder}, and was not fetched:{tried}\n"
            f"  put the files {', '.join(self.sums)} into {folder}; {self.mirrors[0]} has them"
        )
        return failure(MissingFilesError, what, fix=f'{self.name}("folder") of the files')
