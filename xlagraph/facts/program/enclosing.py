"""The loop that a line of the program runs in, and the branch that it stands in there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.program.written import indentation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.message import SourceLine

    Program = Mapping[str, Mapping[int, str]]
    """File to its lines by number, as far as a run has stored them."""


@dataclass(frozen=True, slots=True)
class ProgramText:
    """What a run has stored of its program's files."""

    lines: Program = field(default_factory=dict)
    step_loops: frozenset[tuple[str, int]] = frozenset()
    """File and line of the loops in which steps end."""

    def loop_in_step(self, line: SourceLine | None) -> SourceLine | None:
        """The innermost loop around a line; None if steps end in it, or none is in sight."""
        found = enclosing(self.lines, [line]) if line else None
        is_within = found is not None and found.loop[:2] not in self.step_loops
        return found.loop if found and is_within else None

    def may_end_early(self, loop: SourceLine) -> bool:
        """Whether a loop may end by what a turn finds: a comprehension goes over what there is."""
        return bool(_LOOP.match(self.lines.get(loop.file, {}).get(loop.line, "").strip()))


_LOOP = re.compile(r"(?:async\s+for|for|while)\b")
_BRANCH = re.compile(r"(?:if|elif|else)\b")
_HEAD = re.compile(r"(?:async\s+def|def|class|@)\b")
_COMPREHENSION = re.compile(r"[\[({].*\bfor\b.+\bin\b")
_GOES_ON = re.compile(r":\s*continue$")
_YIELD = re.compile(r"(?:[\w.,\s]+=\s*)?yield\b")
_IF = re.compile(r"\bif\b")


class Enclosing(NamedTuple):
    """Where the innermost loop around a call begins."""

    loop: SourceLine
    branch: SourceLine | None
    """The line of the condition between the loop and the call; None if the call always runs."""


def enclosing(program: Program, stack: Iterable[SourceLine]) -> Enclosing | None:
    """The innermost loop around some frames, innermost first; None if none is in sight.

    A loop that yields, as a loader does, has a turn for each turn of the loop that it feeds: that
    one counts. A function of which not all lines up to the call are stored may have one that is not
    seen.
    """
    for frame in stack:
        if frame.is_library:
            continue
        found = _in_function(program.get(frame.file, {}), frame)
        if found:
            return found
    return None


def runs_in_turn(program: Program, stack: Sequence[SourceLine], loop: SourceLine) -> bool:
    """Whether a loop runs the innermost of some frames once in each turn, as far as can be seen.

    The functions between them are called by name, one by the other, and stored from their heads
    on: a library between two of them (a closure that an optimizer calls) may have a loop of its
    own, and so may lines that are not known.
    """
    functions = [(frame.file, frame.function) for frame in stack]
    own = (loop.file, loop.function)
    between = functions.index(own) if own in functions else len(stack)
    return between < len(stack) and all(
        re.search(rf"\b{re.escape(frame.function)}\(", _line(program, caller))
        and head_of(program, frame) is not None
        for frame, caller in pairwise(stack[: between + 1])
    )


def _line(program: Program, frame: SourceLine) -> str:
    return program.get(frame.file, {}).get(frame.line, "")


def head_of(program: Program, frame: SourceLine) -> SourceLine | None:
    """The line at which a frame's function begins; None if not all lines up to it are stored."""
    lines, number = program.get(frame.file, {}), frame.line
    head = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(frame.function)}\b")
    while number in lines and not head.match(lines[number]):
        number -= 1
    return frame._replace(line=number, called=None) if number in lines else None


def has_condition(program: Program, frame: SourceLine) -> bool:
    """Whether a condition stands in a line or above it in its function, as far as that is stored.

    True as well where the function's head is not stored: there may be one.
    """
    lines, number = program.get(frame.file, {}), frame.line
    if number not in lines or _IF.search(lines[number]):
        return True
    column = indentation(lines[number])
    while (number := number - 1) in lines:
        text = lines[number].strip()
        if _BRANCH.match(text):
            return True
        if _HEAD.match(text) and indentation(lines[number]) < column:
            return False
    return True


def guard(program: Program, frame: SourceLine) -> SourceLine | None:
    """The condition that goes on with a loop's next turn before a line that is reached in it.

    None if there is none or there are several in the loop's own body above the line, of which any
    may decide, or if a line between is not stored.
    """
    lines, number = program.get(frame.file, {}), frame.line
    if number not in lines:
        return None
    column, below, found = indentation(lines[number]), "", list[int]()
    while (number := number - 1) in lines:
        text = lines[number].strip()
        if not text or text.startswith("#"):
            continue
        if indentation(lines[number]) < column:
            is_one = bool(_LOOP.match(text)) and len(found) == 1
            return frame._replace(line=found[0], called=None) if is_one else None
        is_condition = indentation(lines[number]) == column and text.startswith("if ")
        if is_condition and (below == "continue" or _GOES_ON.search(text)):
            found.append(number)
        below = text
    return None


def early_end(program: Program, loop: SourceLine) -> SourceLine | None:
    """The condition at which a loop ends before its last turn; None where none is stored."""
    lines = program.get(loop.file, {})
    if loop.line not in lines:
        return None
    number, inner = loop.line, [(indentation(lines[loop.line]), loop.line)]
    while (number := number + 1) in lines:
        text, column = lines[number].strip(), indentation(lines[number])
        if not text or text.startswith("#"):
            continue
        if column <= inner[0][0]:
            return None
        while column <= inner[-1][0]:
            inner.pop()
        heads = [one for _, one in inner]
        if text == "break" and not any(_LOOP.match(lines[one].strip()) for one in heads[1:]):
            is_guarded = lines[heads[-1]].strip().startswith("if ")
            return loop._replace(line=heads[-1], called=None) if is_guarded else None
        inner.append((column, number))
    return None


def _in_function(lines: Mapping[int, str], frame: SourceLine) -> Enclosing | None:
    number, branch = frame.line, None
    if number not in lines:
        return None
    if _COMPREHENSION.search(lines[number]):
        return Enclosing(frame, None)
    column = indentation(lines[number])
    while (number := number - 1) in lines:
        text = lines[number].strip()
        if not text or text.startswith("#") or indentation(lines[number]) >= column:
            continue
        column = indentation(lines[number])
        here = frame._replace(line=number)
        if _LOOP.match(text):
            return None if _yields(lines, number) else Enclosing(here, branch)
        if _HEAD.match(text):
            return None
        if _BRANCH.match(text) and branch is None:
            branch = here
    return None


def _yields(lines: Mapping[int, str], loop: int) -> bool:
    """Whether a loop hands a value on in each turn, as far as its lines are stored."""
    column, number = indentation(lines[loop]), loop
    while (number := number + 1) in lines:
        text = lines[number].strip()
        if text and not text.startswith("#") and indentation(lines[number]) <= column:
            return False
        if _YIELD.match(text):
            return True
    return False
