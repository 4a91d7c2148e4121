"""Where files of a run are kept: a local folder, or an fsspec URL. Both give and take whole files.

A place is named by a string, so that a worker process on another machine can open it for itself.
"""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xlagraph.limits import check_size
from xlagraph.run.files import FOLDER_MODE, open_regular, write_new
from xlagraph.run.remote import filesystem, is_url, told

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}")
"""Names of files that are being written."""


class Place(Protocol):
    """A folder of files, by names with ``/`` between their parts."""

    def read(self, name: str) -> bytes | None:
        """A file; None if it is not there.

        Raises:
            OSError: it cannot be read.
            TooLargeError: it holds more than an input may.
        """

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of several files that are there and can be read."""

    def write(self, name: str, data: bytes) -> None:
        """Put a file, whole or not at all; one that is there is replaced.

        Raises:
            OSError: it cannot be written.
        """

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted; none where there is no such folder."""

    def tidy(self, folder: str) -> None:
        """Take away what writers that were killed left half-written in a folder."""


@cache
def place(name: str) -> Place:
    """The folder or URL of this name."""
    return _Remote(name) if is_url(name) else _Local(Path(name))


class _Local:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        path = self._folder / name
        try:
            with open_regular(path) as file:
                check_size(str(path), os.fstat(file.fileno()).st_size)
                return file.read()
        except FileNotFoundError:
            return None

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            try:
                data = self.read(name)
            except OSError:
                continue
            if data is not None:
                found[name] = data
        return found

    def write(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            write_new(partial, data)
            partial.replace(path)
        except BaseException:  # Ctrl-C too
            partial.unlink(missing_ok=True)
            raise

    def names(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self._folder / folder).glob("[!.]*"))

    def tidy(self, folder: str) -> None:
        for partial in (self._folder / folder).glob(".*"):
            if _PARTIAL.fullmatch(partial.name):
                with suppress(OSError):  # another's, who has put it by now; or read-only
                    partial.unlink()


class _Remote:
    """Objects are written whole: no rename, nothing appended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[Any, str] | None = None

    def _filesystem(self) -> tuple[Any, str]:
        if self._opened is None:
            self._opened = filesystem(self._url)
        return self._opened

    def read(self, name: str) -> bytes | None:
        files, path = self._filesystem()
        try:
            check_size(f"{self._url}/{name}", int(files.size(f"{path}/{name}") or 0))
            data: bytes = files.cat_file(f"{path}/{name}")
        except FileNotFoundError:
            return None
        except OSError:
            raise
        except Exception as error:  # stores raise their own kinds
            raise OSError(told(f"{self._url}/{name}", error)) from error
        return data

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        files, path = self._filesystem()
        if not names:
            return {}
        wanted = {f"{path}/{name}": name for name in names}
        try:
            found = files.cat(list(wanted), on_error="omit")
        except Exception:  # noqa: BLE001 - stores raise their own kinds; none can be read then
            return {}
        if isinstance(found, bytes):  # of a single file, some give it alone
            return {names[0]: found}
        return {wanted[key]: data for key, data in found.items() if key in wanted}

    def write(self, name: str, data: bytes) -> None:
        files, path = self._filesystem()
        target = f"{path}/{name}"
        try:
            files.makedirs(target.rpartition("/")[0], exist_ok=True)
            files.pipe_file(target, data)
        except OSError:
            raise
        except Exception as error:  # stores raise their own kinds
            raise OSError(told(f"{self._url}/{name}", error)) from error

    def names(self, folder: str) -> list[str]:
        files, path = self._filesystem()
        try:
            found = files.ls(f"{path}/{folder}" if folder else path, detail=False)
        except FileNotFoundError:
            return []
        except OSError:
            raise
        except Exception as error:  # stores raise their own kinds
            raise OSError(told(f"{self._url}/{folder}", error)) from error
        return sorted(str(one).rstrip("/").rpartition("/")[2] for one in found)

    def tidy(self, folder: str) -> None:
        """Nothing: what is not put whole is not there."""
