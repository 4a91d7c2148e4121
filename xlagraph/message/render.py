"""From parts to words: as they are, or as a page that must not tell names says them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from xlagraph.message.parts import (
    Change,
    Code,
    GraphName,
    HloName,
    Listing,
    Message,
    Operation,
    Part,
    Quoted,
    Side,
    SourceLine,
    short_path,
)
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

MODULE = "<module>"
"""What Python calls the code of a file outside of functions."""
MAX_CHANGE = 40
"""Characters of each text of a `Change` that are shown."""


class Wording(Protocol):
    """How each kind of part is called; a sentence is its parts in these words."""

    def tensor(self, tensor: Tensor) -> str:
        """A parameter, buffer, gradient, ...."""

    def path(self, file: str) -> str:
        """A source file."""

    def function(self, name: str) -> str:
        """A Python function."""

    def instruction(self, name: str, opcode: str) -> str:
        """An instruction of a module."""

    def computation(self, name: str) -> str:
        """A computation of a module."""

    def operation(self, name: str) -> str:
        """A framework operation of an instruction's metadata."""

    def code(self, text: str) -> str:
        """A name or an expression of the user's program."""

    def attributes(self, text: str) -> str:
        """A constant, an attribute list, a header field: text out of a module."""


class PlainWording:
    """Everything by its own name."""

    def tensor(self, tensor: Tensor) -> str:
        """The tensor in words."""
        return str(tensor)

    def path(self, file: str) -> str:
        """The telling end of the path."""
        return short_path(file)

    def function(self, name: str) -> str:
        """The name itself."""
        return name

    def instruction(self, name: str, opcode: str) -> str:  # noqa: ARG002
        """The name itself."""
        return name

    def computation(self, name: str) -> str:
        """The name itself."""
        return name

    def operation(self, name: str) -> str:
        """The name itself."""
        return name

    def code(self, text: str) -> str:
        """The text itself."""
        return text

    def attributes(self, text: str) -> str:
        """The text itself."""
        return text


PLAIN = PlainWording()


Span = tuple[str, str]
"""A kind (``text graph tensor source hlo code listing quoted``) and its words."""


def spans(message: Message, wording: Wording = PLAIN) -> tuple[Span, ...]:
    """The kind of each part and its words."""
    return tuple(_span(part, wording) for part in message.parts)


def words(message: Message, wording: Wording = PLAIN) -> str:
    """The message as one text without marks; a listing's lines are lines of it."""
    return in_lines(spans(message, wording))


def in_lines(pieces: Iterable[Span]) -> str:
    """Spans as one text, in which listings stand on lines of their own."""
    found = ""
    was_listing = False
    for kind, text in pieces:
        is_listing = kind == "listing"
        if found and (is_listing or was_listing):
            found, text = found.rstrip(" ") + "\n", text if is_listing else text.lstrip(" ")
        found += text
        was_listing = is_listing
    return found


def _span(part: Part, wording: Wording) -> Span:
    match part:
        case str():
            return "text", part
        case Side():
            return "graph", part.value
        case GraphName():
            return "graph", part.letter
        case Quoted():
            return "quoted", cut(wording.attributes(part.text), part.limit)
        case Change():
            old, new = from_difference(*(wording.attributes(text) for text in (part.old, part.new)))
            return "quoted", f"{old} {part.became} {new}"
        case _:
            return _name(part, wording)


def _name(
    part: Tensor | SourceLine | HloName | Operation | Code | Listing, wording: Wording
) -> Span:
    match part:
        case Tensor():
            return "tensor", wording.tensor(part)
        case SourceLine():
            return "source", _source_line(part, wording)
        case HloName() if part.opcode:
            return "hlo", wording.instruction(part.name, part.opcode)
        case HloName():
            return "hlo", wording.computation(part.name)
        case Operation():
            return "hlo", wording.operation(part.name)
        case Code():
            return "code", wording.code(part.text)
        case Listing():
            return "listing", "\n".join(map(wording.code, part.lines))


def _source_line(line: SourceLine, wording: Wording) -> str:
    """``net.py:10 in forward()``; a line of an installed package is marked."""
    name = "" if line.function == MODULE else line.function
    within = f" in {wording.function(name)}{'' if name.startswith('<') else '()'}" if name else ""
    library = " (a library)" if line.is_installed else ""
    return f"{wording.path(line.file)}:{line.line}{within}{library}"


def from_difference(old: str, new: str) -> tuple[str, str]:
    """Two values for reading: long ones from the first part in which they differ."""
    same = next((k for k, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), 0)
    start = old.rfind(", ", 0, same) + 2 if ", " in old[:same] else old.rfind(" ", 0, same) + 1
    if same - start > MAX_CHANGE // 2:
        start = same - MAX_CHANGE // 4
    if max(len(old), len(new)) <= MAX_CHANGE or not start:
        return cut(old, MAX_CHANGE), cut(new, MAX_CHANGE)
    return cut("..." + old[start:], MAX_CHANGE), cut("..." + new[start:], MAX_CHANGE)


def cut(text: str, limit: int) -> str:
    """The text, its end left out where it is longer than `limit`."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
