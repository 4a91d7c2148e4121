"""Random draws of Python in a function of the program, and the lines that they decide about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.program.written import indentation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_GAP = 3
"""So many lines in a row may be unknown within a function: two around each are stored."""
_DRAW = re.compile(
    r"(?:\b(?:\w*(?:random|rng)\w*\.)+\w+"
    r"|(?<![\w.])(?:random|randint|randrange|getrandbits|uniform|choices?|sample))\("
    r"|\btorch\.rand\w*\(.*\.(?:item|tolist)\("
)
_SHUFFLED = re.compile(
    r"\bshuffle\(\s*(\w+)"
    r"|\b(\w+)\s*=\s*.*(?:random|rng)\w*\.(?:sample|permutation)\("
    r"|\b(\w+)\s*=\s*torch\.randperm\(.*\.tolist\("
    r"|\b(\w+)\s*=\s*sorted\(.*\bkey="
    r"|\b(\w+)\.sort\(\s*key="
)
"""What is put into another order, in place or as a new list; by a key, for that may change."""
_JOINED = re.compile(r"\b(?:cat|concat|concatenate|stack)\(\s*\[?\*?(\w+)\]?\s*[,)]")
_IN_LINE = re.compile(r"\bfor\s+(.+?)\s+in\s+(.+)")
_OF_TENSOR = re.compile(r"\btorch\.rand\w*\(")
_OF_LIST = re.compile(r"\b(?:choices?|sample)\(")
_DEF = re.compile(r"(?:async\s+def|def|class)\b")
_ASSIGNED = re.compile(r"([\w\s,()]+?)\s*(?::[^=]+)?=(?!=)(.+)")
_FOR = r"for\s+(.+?)\s+in\s+(.+):"
_LOOP = re.compile(_FOR)
_PLAIN = re.compile(r"[^\[(]*")
_BRANCH = re.compile(r"(?:if|elif)\b(.+):")
_GUARD = re.compile(r"if\b(.+?):\s*(?:(?:return|continue|break)\b.*)?")
_LEAVES = re.compile(r"(?:return|continue|break)\b|.*:\s*(?:return|continue|break)\b")
_TERNARY = re.compile(r"\bif\b(.+?)\belse\b")
_NAME = re.compile(r"(?!_\b)\b[^\W\d]\w*")


class Draw(NamedTuple):
    """A draw of Python that a line depends on."""

    line: int
    """Where it is drawn."""
    bound: int
    """Where what is drawn gets the name by which it is used, or is taken from a list in turn."""
    used: int
    """Where it decides."""
    is_item: bool = False
    """One of several is taken by its index there."""

    def is_of(self, loop: int) -> bool:
        """Whether each turn of the loop on this line of the same function has one of its own."""
        return self.used >= loop and (self.bound >= loop or self.is_item)


@dataclass(frozen=True)
class Draws:
    """What is known of a function's text, and of the names that it draws."""

    lines: Mapping[int, str]

    def decides(self, number: int) -> Draw | None:
        """What decides whether this line runs, or what it takes: a condition in or around it.

        Also one before it which, where it holds, leaves the function or the turn of a loop.
        """
        tests = [(number, one[1]) for one in _TERNARY.finditer(_code(self.lines[number]))]
        within = number
        for head in (*self._heads(number), None):
            tests += self._guards(within)
            branch = _BRANCH.match(_code(self.lines[head])) if head else None
            tests += [(head, branch[1])] if head and branch else []
            within = head or within
        for line, test in tests:
            if _OF_TENSOR.search(test):
                return Draw(line, line, line)
            if found := self._drawn(test, line, self.names):
                return found
        return None

    def takes(self, number: int) -> Draw | None:
        """What says which of several this line takes out of a list: ``images[drawn]``.

        A line that joins a list takes what others before it append to that.
        """
        found = self._taken(number)
        joined = None if found else _JOINED.search(_code(self.lines[number]))
        if joined is None:
            return found
        added = re.compile(rf"\b{joined[1]}\.append\(")
        before = (one for one in self.lines if one < number and added.search(self.lines[one]))
        return next(filter(None, map(self._taken, before)), None)

    def _taken(self, number: int) -> Draw | None:
        text = _code(self.lines[number])
        if _OF_LIST.search(text) and _DRAW.search(text):
            return Draw(number, number, number)
        places = re.findall(r"\[(.+?)\]|\.pop\((.+?)\)", text)
        drawn = (self._drawn(one, number, self.names) for pair in places for one in pair)
        return next(filter(None, drawn), None)

    def goes_through(self, number: int) -> tuple[int, str] | None:
        """The line of the innermost loop around a line, and what it goes through."""
        inner = [(number, _IN_LINE.search(_code(self.lines[number])))]
        around = [(one, _LOOP.match(_code(self.lines[one]))) for one in self._heads(number)]
        return next(((one, head[2]) for one, head in inner + around if head), None)

    def shuffled(self, number: int) -> int | None:
        """The line that shuffles, or sorts, what the innermost loop around a line goes through."""
        within = self.goes_through(number)
        if within is None:
            return None
        loop, source = within
        if _SHUFFLED.search(f"_ = {source}"):
            return loop
        mixed = {
            name: line
            for line, text in self.lines.items()
            for pair in _SHUFFLED.findall(_code(text))
            for name in pair
            if line < loop
        }
        return next((mixed[name] for name in _NAME.findall(source) if name in mixed), None)

    def turns(self) -> frozenset[int]:
        """The lines whose slices follow the turn of a loop: what it counts or goes through."""
        found = set()
        for number, line in self.lines.items():
            heads = (_LOOP.match(_code(self.lines[head])) for head in self._heads(number))
            bound = {name for head in heads if head for name in _NAME.findall(head[1])}
            own = bound.difference(self.names).intersection(_NAME.findall(line))
            if own or _LOOP.match(_code(line)):
                found.add(number)
        return frozenset(found)

    @cached_property
    def names(self) -> dict[str, Draw]:
        """Names that are drawn, or taken in turn from what is."""
        found: dict[str, Draw] = {}
        for number, line in self.lines.items():
            names, value = _bound(_code(line))
            drawn = self._drawn(value, number, found)
            if names and drawn:
                found |= dict.fromkeys(names, drawn._replace(bound=number))
        return found

    @staticmethod
    def _drawn(text: str, number: int, names: Mapping[str, Draw]) -> Draw | None:
        if _DRAW.search(text):
            return Draw(number, number, number)
        for name in _NAME.findall(text):
            if name in names:
                is_item = bool(re.search(rf"\b{name}\[", text))
                return names[name]._replace(used=number, is_item=is_item)
        return None

    def _guards(self, number: int) -> Iterator[tuple[int, str]]:
        """The conditions before a line, in its own block, after which it may not run."""
        column, inner = indentation(self.lines[number]), ""
        for above in sorted((one for one in self.lines if one < number), reverse=True):
            text, here = _code(self.lines[above]), indentation(self.lines[above])
            if not text:
                continue
            if here < column:
                return
            if here > column:
                inner = inner or text
                continue
            guard = _GUARD.fullmatch(text)
            if guard and _LEAVES.match(inner if text.endswith(":") else text):
                yield above, guard[1]
            inner = ""

    def _heads(self, number: int) -> Iterator[int]:
        """The heads of the blocks around a line, innermost first, and those it is the else of."""
        column, is_else = indentation(self.lines[number]), False
        for above in sorted((one for one in self.lines if one < number), reverse=True):
            text, here = _code(self.lines[above]), indentation(self.lines[above])
            if text and (here < column or (is_else and here == column)):
                yield above
                is_else = text.startswith(("elif", "else"))
                column = here


def _bound(text: str) -> tuple[list[str], str]:
    """The names that a statement binds to what may be drawn, and the text of that.

    What is computed of a drawn number by a call or an index is taken for a draw no more.
    """
    if loop := _LOOP.match(text):
        names, is_range = _NAME.findall(loop[1]), loop[2].startswith("range(")
        counted = loop[2].startswith("enumerate(")
        return ([] if is_range else names[counted:]), loop[2]
    assigned = _ASSIGNED.match(text)
    if not assigned or not (_DRAW.search(assigned[2]) or _PLAIN.fullmatch(assigned[2])):
        return [], ""
    return _NAME.findall(assigned[1]), assigned[2]


def draws_around(lines: Mapping[int, str], number: int) -> Draws:
    """The draws of the function that a line stands in, as far as its text is stored.

    Args:
        lines: those known of the file, by number.
        number: of a line that is known.
    """
    found = {number: lines[number]}
    column = indentation(lines[number])
    for above in _known(lines, number, -1):
        text = _code(lines[above])
        if text and indentation(lines[above]) < column:
            column = indentation(lines[above])
            if _DEF.match(text):
                break
        found[above] = lines[above]
    else:
        column -= 1  # the head is not known
    for below in _known(lines, number, 1):
        if _code(lines[below]) and indentation(lines[below]) <= column:
            break
        found[below] = lines[below]
    return Draws(dict(sorted(found.items())))


def _known(lines: Mapping[int, str], number: int, step: int) -> Iterator[int]:
    """The numbers of known lines above or below one, up to a large gap."""
    gap = 0
    while gap <= MAX_GAP:
        number += step
        gap = 0 if number in lines else gap + 1
        if not gap:
            yield number


def _code(line: str) -> str:
    text = line.strip()
    return "" if text.startswith("#") else text
