"""Where in the program something is called: its innermost frame outside torch."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_MAX_WALK = 60
_PACKAGES = ("torch", "triton", "torchgen", "xlagraph.streams.record", "xlagraph.capture")
"""Packages whose frames are passed over."""
_NOT_THE_USER = ("<frozen ", "<eval_with_key>", "<string>", "<__array_function__")
_INSTALLED = ("/site-packages/", "/dist-packages/")


class Sites:
    """Call sites as ``file:line function``, each made once.

    Files are given as seen from the working directory, or within their installed package:
    no record holds a path of the machine.
    """

    def __init__(self) -> None:
        self._files: dict[CodeType, str] = {}
        self._known: dict[tuple[CodeType, int], str] = {}
        self._folder = str(Path.cwd()) + "/"
        self._standard = sysconfig.get_path("stdlib") + "/"
        self._inner = tuple(_folders())

    def here(self, up: int = 1) -> str | None:
        """The site that a hook is called from; None where only torch's own frames are."""
        try:
            frame: FrameType | None = sys._getframe(up)  # noqa: SLF001 - there is no other way
        except ValueError:
            return None  # a thread of C++'s, with no more than the hook's own frames
        files = self._files
        for _ in range(_MAX_WALK):
            if frame is None:
                return None
            code = frame.f_code
            file = files.get(code)
            if file is None:
                file = files[code] = self._file(code)
            if file:
                key = code, frame.f_lineno
                known = self._known.get(key)
                if known is None:
                    known = self._known[key] = f"{file}:{frame.f_lineno} {code.co_name}"
                return known
            frame = frame.f_back
        return None

    def _file(self, code: CodeType) -> str:
        """The file of a code object as records give it; ``""`` for what is not the user's."""
        file = code.co_filename
        if file.startswith((*_NOT_THE_USER, *self._inner)):
            return ""
        for part in _INSTALLED:
            if part in file:
                return file.rpartition(part)[2]
        if file.startswith(self._standard):
            return ""
        if file.startswith(self._folder):
            return file[len(self._folder) :]
        return file.rpartition("/")[2]


def _folders() -> Iterator[str]:
    """The folders of the packages that are passed over, as far as they are imported."""
    for name in _PACKAGES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield str(Path(file).parent) + "/"
