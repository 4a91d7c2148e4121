"""What a report calls things: paths cut to what tells them apart, control characters shown.

Every string of a report goes through one `Names`, so that nothing reaches the page that
was not made visible, and so that `xlagraph.report.redact` has one place to stand in.
"""

from __future__ import annotations

import re
from os.path import commonpath, dirname
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)
_PACKAGES = re.compile(r"(?:/[^\s:()'\",/]+)*/(?:site|dist)-packages/")
_CITED = re.compile(r"(?<![\w/.])(?:[\w.\-]+/)+[\w.\-]+(?=:\d)")


class Names(Protocol):
    """How a report names each kind of thing."""

    def path(self, file: str) -> str:
        """A source file."""

    def function(self, name: str) -> str:
        """A Python function."""

    def tensor(self, name: str) -> str:
        """A parameter, buffer, gradient or other tensor; a shape stays a shape."""

    def module(self, name: str) -> str:
        """An HLO module."""

    def input(self, name: str) -> str:
        """A file or folder that the user gave."""

    def computation(self, name: str) -> str:
        """A computation of a module."""

    def instruction(self, name: str, opcode: str) -> str:
        """An instruction of a module."""

    def operation(self, name: str) -> str:
        """A framework operation of an instruction's metadata."""

    def attributes(self, text: str) -> str:
        """An attribute list or a header field."""

    def text(self, text: str) -> str:
        """A sentence that may cite any of these."""

    def detail(self, text: str) -> str:
        """The free part of a note."""


class PlainNames:
    """Names as they are; paths relative to the folder that all files of the report share."""

    def __init__(self, files: Iterable[str]):
        files = frozenset(files)
        self._prefix = shared_folder(files)
        self._known = short_forms(files)

    def path(self, file: str) -> str:
        """The path without the shared folder, or from ``site-packages`` on."""
        whole = self._known.get(file, file)
        return visible(_PACKAGES.sub("", whole).removeprefix(self._prefix))

    def function(self, name: str) -> str:
        """The name itself."""
        return visible(name)

    def tensor(self, name: str) -> str:
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

    def attributes(self, text: str) -> str:
        """The text itself."""
        return visible(text)

    def text(self, text: str) -> str:
        """The sentence with its paths cut."""
        text = _PACKAGES.sub("", text)
        if self._prefix:
            text = text.replace(self._prefix, "")
        return visible(_CITED.sub(self._cited, text))

    def _cited(self, found: re.Match[str]) -> str:
        return self.path(found[0])

    def detail(self, text: str) -> str:
        """The sentence with its paths cut."""
        return self.text(text)


def visible(text: str) -> str:
    """The text with control, bidirectional and zero-width characters written as escapes."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def short_forms(files: Collection[str]) -> dict[str, str]:
    """Files by the ends under which a sentence may cite them, where that is unambiguous."""
    found: dict[str, set[str]] = {}
    whole = {file for file in files if file.startswith("/")}
    ends = {"/".join(file.split("/")[-n:]) for file in whole for n in (1, 2)}
    for file in whole | (set(files) - ends):
        parts = file.split("/")
        for short in {parts[-1], "/".join(parts[-2:]), _PACKAGES.sub("", file)}:
            found.setdefault(short, set()).add(file)
    return {short: known.pop() for short, known in found.items() if len(known) == 1}


def shared_folder(files: Iterable[str]) -> str:
    """The deepest folder of all absolute paths outside of installed packages, with its slash."""
    own = {f for f in files if f.startswith("/") and not _PACKAGES.search(f)}
    if not own:
        return ""
    folder = commonpath([dirname(file) for file in own])  # noqa: PTH120
    return "" if folder == "/" else folder + "/"
