"""The loop around a line of the program, found without compiling it: nothing warns twice."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable, Sequence

_LOOPS = frozenset({"for", "while"})
_FUNCTIONS = frozenset({"def", "class"})
_SPACING = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
)


def loops_around(lines: Sequence[str], wanted: Iterable[int]) -> dict[int, int]:
    """For each line that stands in a loop the first line of the innermost one.

    Lines are counted from 1. A loop around the function that a line stands in does not count;
    the line of a loop's head is in that loop. Empty where the text is no Python.
    """
    try:
        return _Blocks(wanted).read(lines)
    except (tokenize.TokenError, SyntaxError):
        return {}


class _Blocks:
    """Statements one after the other, with the heads of the blocks that they stand in."""

    def __init__(self, wanted: Iterable[int]):
        self._wanted = sorted(wanted)
        self._heads: list[tuple[str, int]] = []
        """The word that each block around begins with, and its line; outermost first."""
        self._words: list[str] = []
        """Up to two words that the statement begins with."""
        self._first = 0
        self.found: dict[int, int] = {}

    def read(self, lines: Sequence[str]) -> dict[int, int]:
        ended = iter([f"{line}\n" for line in lines])
        head = ("", 0)
        for token in tokenize.generate_tokens(lambda: next(ended, "")):
            if token.type == tokenize.INDENT:
                self._heads.append(head)
            elif token.type == tokenize.DEDENT:
                self._heads.pop()
            elif token.type == tokenize.NEWLINE:
                head = (self._word(), self._first)
                self._statement(head, token.start[0])
                self._words, self._first = [], 0
            elif token.type not in _SPACING:
                self._first = self._first or token.start[0]
                if len(self._words) < 2:
                    self._words.append(token.string)
        return self.found

    def _word(self) -> str:
        """``for`` of ``async for``."""
        return self._words[-1] if self._words[:1] == ["async"] else "".join(self._words[:1])

    def _statement(self, head: tuple[str, int], last: int) -> None:
        for line in self._wanted:
            if not self._first <= line <= last:
                continue
            for word, number in (head, *reversed(self._heads)):
                if word in _FUNCTIONS:
                    break
                if word in _LOOPS:
                    self.found[line] = number
                    break
