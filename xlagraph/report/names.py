"""What a report calls things: paths cut to what tells them apart, control characters shown.

Every string of a report goes through one `Names`, so that nothing reaches the page that
was not made visible, and so that `xlagraph.report.redact` has one place to stand in.
"""

from __future__ import annotations

import re
from os.path import commonpath, dirname
from typing import TYPE_CHECKING, Protocol

from xlagraph.message import Wording

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Module
    from xlagraph.tensors import Tensor

    Excerpt = tuple[tuple[int, str], ...]

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)
_PACKAGES = re.compile(r"(?:/[^\s:()'\",/]+)*/(?:site|dist)-packages/")


class Names(Wording, Protocol):
    """How a report names each kind of thing, in messages and beside them."""

    def module(self, name: str) -> str:
        """An HLO module."""

    def input(self, name: str) -> str:
        """A file or folder that the user gave."""

    def detail(self, text: str) -> str:
        """The free part of a note."""

    def excerpt(self, lines: Excerpt) -> Excerpt:
        """Numbered lines of the user's program."""

    def learn(self, modules: Iterable[Module]) -> None:
        """Takes in the names of modules that are shown from here on."""


class PlainNames:
    """Names as they are; paths relative to the folder that all files of the report share."""

    def __init__(self, files: Iterable[str]):
        self._prefix = shared_folder(files)

    def path(self, file: str) -> str:
        """The path without the shared folder, or from ``site-packages`` on."""
        return visible(_PACKAGES.sub("", file).removeprefix(self._prefix))

    def tensor(self, tensor: Tensor) -> str:
        """The tensor in words."""
        return visible(str(tensor))

    def function(self, name: str) -> str:
        """The name itself."""
        return visible(name)

    def module(self, name: str) -> str:
        """The name itself."""
        return visible(name)

    def input(self, name: str) -> str:
        """The name itself."""
        return visible(name)

    def computation(self, name: str) -> str:
        """The name itself."""
        return visible(name)

    def instruction(self, name: str, opcode: str) -> str:  # noqa: ARG002
        """The name itself."""
        return visible(name)

    def operation(self, name: str) -> str:
        """The name itself."""
        return visible(name)

    def code(self, text: str) -> str:
        """The text itself."""
        return visible(text)

    def attributes(self, text: str) -> str:
        """The text itself."""
        return visible(text)

    def excerpt(self, lines: Excerpt) -> Excerpt:
        """The lines themselves."""
        return tuple((number, visible(text)) for number, text in lines)

    def detail(self, text: str) -> str:
        """The text, its paths cut."""
        return visible(_PACKAGES.sub("", text).replace(self._prefix or "\0", ""))

    def learn(self, modules: Iterable[Module]) -> None:
        """Nothing: names stay as they are."""


def visible(text: str) -> str:
    """The text with control, bidirectional and zero-width characters written as escapes."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shared_folder(files: Iterable[str]) -> str:
    """The deepest folder of all absolute paths outside of installed packages, with its slash."""
    own = {f for f in files if f.startswith("/") and not _PACKAGES.search(f)}
    if not own:
        return ""
    folder = commonpath([dirname(file) for file in own])  # noqa: PTH120
    return "" if folder == "/" else folder + "/"
