"""Messages as typed parts: a rule says what it means, and whoever shows it finds the words.

A plain string among the parts is xlagraph's own wording, or a word that XLA itself uses (an
opcode, a shape, a number). All that comes from the user's program stands in a part of its own
kind, so that it can be marked, linked, cut, made visible or replaced by a pseudonym, and no
finished sentence ever has to be taken apart again.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.figures import capitalized, count, uncapitalized
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_QUOTED = 120
"""Characters of a quoted text that are shown, unless the part says otherwise."""
_PACKAGES = ("site-packages", "dist-packages")
_LIBRARY_PARTS = frozenset({*_PACKAGES, "torch", "torch_xla"})
_MADE = ("<frozen ", "<eval_with_key>")
_HOOKS = re.compile(r"[\\/]xlagraph[\\/]capture[\\/]")
"""The hooks of a capture: they stand in stacks between a program and what it calls."""
_STANDARD = re.compile(r"[\\/]lib(?:64)?[\\/]python3\.\d+[\\/]")


class Side(Enum):
    """One of the two modules that are compared."""

    A = "A"
    B = "B"

    @property
    def other(self) -> Side:
        """The module that it is compared with."""
        return Side.B if self is Side.A else Side.A


A, B = Side.A, Side.B


class GraphName(NamedTuple):
    """What a module is called where it is shown: A, B, or the letter of a run's graph."""

    letter: str


def short_path(file: str) -> str:
    """``models/net.py``: the path from here, so that it can be opened; else its telling end.

    Of an installed package its whole path in that.
    """
    parts = PurePath(file).parts
    for packages in _PACKAGES:
        if packages in parts:
            return "/".join(parts[parts.index(packages) + 1 :])
    here = _here()
    if here and file.startswith(here + os.sep):
        return PurePath(file).relative_to(here).as_posix()
    return "/".join(parts[-2:]) if len(parts) > 2 else file


def _here() -> str:
    """The current folder; empty if it is there no more."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


class SourceLine(NamedTuple):
    """A line of a Python program."""

    file: str
    line: int
    function: str = ""
    """The function it stands in, ``""`` where that is not known."""
    called: SourceLine | None = None
    """The innermost frame, in a library, that this line led to."""
    backward_of: str = ""
    """The forward operation whose derivative was asked about; the line is that of the operation."""

    @property
    def scope(self) -> tuple[str, str]:
        """File and function: alike for lines of one function."""
        return self.file, self.function

    @property
    def is_library(self) -> bool:
        """Whether the file belongs to Python, an installed package or a capture's hooks."""
        return (
            not _LIBRARY_PARTS.isdisjoint(PurePath(self.file).parts[:-1])
            or self.file.startswith(_MADE)
            or bool(_STANDARD.search(self.file))
            or bool(_HOOKS.search(self.file))
        )

    @property
    def is_installed(self) -> bool:
        """Whether the file lies in a folder of installed packages."""
        return not set(_PACKAGES).isdisjoint(PurePath(self.file).parts)

    def __lt__(self, other: tuple[object, ...]) -> bool:
        """By place; a line that led to no library comes before one that did."""
        return self.order < other.order if isinstance(other, SourceLine) else NotImplemented

    @property
    def order(self) -> tuple[object, ...]:
        """What lines are sorted by."""
        called = self.called.order if self.called else ()
        return self.file, self.line, self.function, called, self.backward_of

    @property
    def forward(self) -> SourceLine:
        """The line without the mark that its derivative was asked about."""
        return self._replace(backward_of="")

    @property
    def short(self) -> str:
        """``models/net.py:10``."""
        return f"{short_path(self.file)}:{self.line}"

    @property
    def place(self) -> Message:
        """Where evidence comes from, with the library that the line led to.

        ``net.py:7 in forward(), through torch/nn/modules/linear.py:134 in forward() (a library)``;
        of a derivative ``backward of addmm at ...``.
        """
        before = (
            say("backward of ", Operation(self.backward_of), " at ") if self.backward_of else ""
        )
        return say(before, self, say(", through ", self.called) if self.called else "")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class HloName(NamedTuple):
    """The name of an instruction or, without an opcode, of a computation."""

    name: str
    opcode: str = ""


class Operation(NamedTuple):
    """What the framework calls the operation that an instruction comes from."""

    name: str


class Code(NamedTuple):
    """A name or an expression of the user's program: what holds a tensor, a function."""

    text: str


class Listing(NamedTuple):
    """Statements to type, a line each: they stand below the words before them."""

    lines: tuple[str, ...]


class Quoted(NamedTuple):
    """A text out of a module, such as a constant or an attribute's value."""

    text: str
    limit: int = MAX_QUOTED


class Change(NamedTuple):
    """Two quoted texts, of which long ones are shown from the first difference on."""

    old: str
    new: str
    became: str = "->"
    """The word between them."""


Part = (
    str
    | Side
    | GraphName
    | Tensor
    | SourceLine
    | HloName
    | Operation
    | Code
    | Listing
    | Quoted
    | Change
)


@dataclass(frozen=True, slots=True)
class Message:
    """Parts in a row; build it with `say`."""

    parts: tuple[Part, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        """The message in plain words, for logs and tests; a page and a terminal render parts."""
        from xlagraph.message.render import words

        return words(self)

    def __format__(self, _: str) -> str:
        raise TypeError("a message joins others with say(), so that its parts stay apart")

    def __add__(self, other: Message | Part) -> Message:
        return say(self, other)

    def named(self, a: str, b: str) -> Message:
        """The message with both modules called by name."""
        names = {A: GraphName(a), B: GraphName(b)}
        return Message(tuple(names[p] if isinstance(p, Side) else p for p in self.parts))

    @property
    def sentence(self) -> Message:
        """The message with a capital first letter, where it begins with a word of ours."""
        if self.parts and isinstance(self.parts[0], str):
            return Message((capitalized(self.parts[0]), *self.parts[1:]))
        return self

    def respelled(self, words: Mapping[str, str]) -> Message:
        """The message with some of our words in place of others."""
        parts = list(self.parts)
        for old, new in words.items():
            parts = [part.replace(old, new) if isinstance(part, str) else part for part in parts]
        return Message(tuple(parts))

    @property
    def code(self) -> list[str]:
        """The texts of its formulas and names of a program, in order."""
        return [part.text for part in self.parts if isinstance(part, Code)]

    @property
    def clause(self) -> Message:
        """The message with a small first letter, to stand behind a colon."""
        if self.parts and isinstance(self.parts[0], str):
            return Message((uncapitalized(self.parts[0]), *self.parts[1:]))
        return self


EMPTY = Message()


def say(*parts: Message | Part) -> Message:
    """The parts as one message; messages among them are taken in, empty strings left out."""
    found: list[Part] = []
    for part in parts:
        found += part.parts if isinstance(part, Message) else (part,)
    merged: list[Part] = []
    for one in found:
        if isinstance(one, str) and merged and isinstance(merged[-1], str):
            merged[-1] += one
        elif one != "":
            merged.append(one)
    return Message(tuple(merged))


def without_stop(message: Message) -> Message:
    """A sentence without the full stop at its end."""
    *parts, last = message.parts
    return say(*parts, last.rstrip(".") if isinstance(last, str) else last)


def join(items: Iterable[Message | Part], limit: int = 3, between: str = ", ") -> Message:
    """Items in a row, cut after `limit` with the number of those left out."""
    listed = list(items)
    parts: list[Message | Part] = []
    for item in listed[:limit]:
        parts += [between, item] if parts else [item]
    left = len(listed) - limit
    return say(*parts, f" and {left} more" if left > 0 else "")


def grouped(tensors: Iterable[Message | Part], groups: int = 2, members: int = 2) -> Message:
    """Tensors gathered by the FSDP module that owns them: ``blocks.0: up.weight, up.bias``.

    What is met several times is counted. All else stands as it is, in a group of its own.
    """
    owners: dict[str, Counter[Message]] = {}
    for one in map(say, tensors):
        owner, within = _owned(one)
        owners.setdefault(owner, Counter())[within] += 1
    shown = [_members(owner, found, members) for owner, found in list(owners.items())[:groups]]
    left = list(owners.values())[groups:]
    if left:
        number = count(sum(found.total() for found in left), "tensor")
        shown.append(say(f"{number} of {count(len(left), 'more module')}"))
    return join(shown, len(shown), "; ")


def _owned(one: Message) -> tuple[str, Message]:
    """The FSDP module that owns a shard, and how the shard is called beside that name."""
    first = one.parts[0] if one.parts else ""
    if not (isinstance(first, Tensor) and first.shard):
        return "", one
    return first.owner, Message((replace(first, owner="", shard=False), *one.parts[1:]))


def _members(owner: str, found: Counter[Message], limit: int) -> Message:
    listed = join((say(one, f" x{n}" if n > 1 else "") for one, n in found.items()), limit)
    return say(Tensor("", owner), ": ", listed) if owner else listed
