"""The one error type that bad input may raise, with its place in the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

EXCERPT_WIDTH = 100
"""Characters of the offending line shown around the caret."""


class Source(NamedTuple):
    """A text and where it came from; what a `Location` points into."""

    name: str
    """File name, ``<stdin>``, or a container entry such as ``dump.hlo:3``."""
    text: str
    first_line: int = 1
    """Line number of the text's first line in the file that it was cut from."""


class Location(NamedTuple):
    """A character offset in a source; line and column are computed when asked for."""

    source: Source
    offset: int

    @property
    def line(self) -> int:
        """1-based line number in the file."""
        return self.source.first_line + self.source.text.count("\n", 0, self.offset)

    @property
    def column(self) -> int:
        """1-based column, in characters."""
        return self.offset - self.source.text.rfind("\n", 0, self.offset)

    def excerpt(self) -> str:
        """The line with a caret below the column; long lines are cut around it."""
        text, column = self.source.text, self.column - 1
        begin = self.offset - column
        end = text.find("\n", self.offset)
        end = len(text) if end < 0 else end
        left = max(begin, self.offset - EXCERPT_WIDTH // 2)
        right = min(end, left + EXCERPT_WIDTH)
        cut = "".join(c if c.isprintable() else "·" for c in text[left:right])
        return f"  {cut}\n  {' ' * (self.offset - left)}^"


class XlagraphError(Exception):
    """Base of the errors that a user can cause; the command line ends with `exit_code`."""

    exit_code = 2

    def __reduce__(self) -> tuple[Callable[..., XlagraphError], tuple[object, ...]]:
        """For pickle: as it is, not by what its class takes; worker processes raise them too."""
        return _again, (type(self), self.args, self.__dict__)


def _again(
    cls: type[XlagraphError], args: tuple[object, ...], state: dict[str, object]
) -> XlagraphError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class InputError(XlagraphError):
    """Input that is not what it should be: message, file, line, column and a caret."""

    def __init__(self, message: str, location: Location):
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        at = self.location
        return f"{at.source.name}:{at.line}:{at.column}: {self.message}\n{at.excerpt()}"


class BytesError(InputError):
    """Bytes that are not the message they should be: what is wrong, the file, the byte."""

    def __init__(self, message: str, name: str, offset: int):
        super().__init__(message, Location(Source(name, ""), 0))
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.location.source.name}: byte {self.offset}: {self.message}"


class SpecError(XlagraphError):
    """A name on the command line (``FILE``, ``FILE:3``, ...) that opens nothing, or too much."""


class GraphError(XlagraphError):
    """A module that breaks the graph's rules; a transformation, not a user, made it."""


class RuleWarning(RuntimeWarning):
    """A rule that raised, which is a mistake of the rule: the rest is explained without it."""
