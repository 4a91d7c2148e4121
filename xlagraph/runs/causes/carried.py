"""A value carried from step to step that is never detached: each backward pass gets longer.

What earlier steps saved for their gradients comes into each graph, and nothing but the backward
pass takes it. A list that the program keeps is used by its own operations.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.facts.program.written import indentation, statement_at
from xlagraph.message import Code, count, say
from xlagraph.runs.causes.draws import draws_around
from xlagraph.runs.kinds import GROWING_GRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import Message, SourceLine
    from xlagraph.runs.model import GraphNode


_NO_GRADIENTS = re.compile(r"\b(?:no_grad|inference_mode)\b")


class Carried(NamedTuple):
    """A statement that makes the next value of a variable from the one before."""

    line: SourceLine
    name: str
    """``state``, ``self.hidden``."""


@dataclass(frozen=True, slots=True)
class AsCarried:
    """Says the causes of single graphs as the value that is carried with its gradients."""

    backward: SourceLine | None
    """The call of the backward pass; None where it is not known, and what is carried is."""
    carried: Carried | None
    """None where the text does not tell what is carried."""

    @property
    def line(self) -> SourceLine | None:
        """Where there is something to change."""
        return self.carried.line if self.carried else self.backward

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause of one of these graphs, of all of them."""
        carried = self.carried
        more = " takes in more of what earlier steps had saved for their gradients"
        if self.backward is None:
            more = " is longer than the one before"
        what = say(Code(carried.name)) if carried else say("a value of the step before")
        return replace(
            cause,
            kind=GROWING_GRAPH,
            title=say(
                what,
                " goes from step to step with its gradients",
                at((self.line,) if self.line else ()),
                ", so that each backward pass",
                at((self.backward,)) if carried and self.backward else "",
                f" goes through all steps before it: {count(len(members), 'graph')}, each of "
                f"which{more}",
            ),
            fix=self._fix(),
            short=say("A value kept over steps is never detached"),
            short_fix=say(
                "Detach it before its next use",
                say(": ", Code(_detached(carried.name))) if carried else "",
                ".",
            ),
            place=Place(self.line) if self.line else cause.place,
        )

    def _fix(self) -> Message:
        if self.carried:
            first = say(
                "Behind the backward pass, or before the value is used again, write ",
                Code(_detached(self.carried.name)),
                " (of a list or tuple each tensor)",
            )
        else:
            first = say("Detach what is carried into the next step (.detach()) before it is used")
        return say(
            first,
            ": the gradients then end at the step, every step has the same graph, and "
            "backward(retain_graph=True) is not needed. Where gradients shall go through several "
            "steps, detach every n-th step, and sync there.",
        )


def _detached(name: str) -> str:
    return f"{name} = {name}.detach()"


def as_carried(
    frames: Sequence[SourceLine], program: ProgramText, lines: Iterable[SourceLine] = ()
) -> AsCarried:
    """What is said of a backward pass, called from these frames, that gets longer.

    `lines`: those of what it computes more than that of the step before.
    """
    found = [one for frame in frames for one in _carried(frame, program)]
    found = found or [one for line in lines for one in _renewed_by_itself(line, program)]
    names = {one.name for one in found}
    return AsCarried(frames[0], found[0] if len(names) == 1 else None)


def carried_alone(causes: Iterable[Cause], program: ProgramText) -> AsCarried | None:
    """What is said of graphs that grow, where they cite an attribute that is made from its last.

    A weighted mean saves nothing for its gradients: no graph takes in more than the one before.
    """
    seen = dict.fromkeys(line for cause in causes for one in cause.evidence for line in one.sources)
    found = [one for line in seen for one in _renewed_by_itself(line, program)]
    return AsCarried(None, found[0]) if len({one.name for one in found}) == 1 else None


def carried_somewhere(line: SourceLine | None, program: ProgramText) -> AsCarried | None:
    """What is said of a backward pass at a line that gets longer, where one statement explains it.

    The one of its file, as far as it is stored, that makes a value that is kept of its last one,
    and under no ``torch.no_grad()``.
    """
    if line is None:
        return None
    stored = program.lines.get(line.file, {})
    found = [
        one
        for number in sorted(stored)
        if not _is_without_gradients(stored, number)
        for one in _renewed_by_itself(line._replace(line=number, function=""), program)
    ]
    return AsCarried(line, found[0]) if len({one.line for one in found}) == 1 else None


def _is_without_gradients(lines: Mapping[int, str], number: int) -> bool:
    """Whether a line stands under ``torch.no_grad()``, as far as the lines above it are stored."""
    inner = indentation(lines[number])
    above = number - 1
    while above in lines:
        text, own = lines[above].strip(), indentation(lines[above])
        if text and own < inner:
            inner = own
            if _NO_GRADIENTS.search(text):
                return True
        elif text.startswith("@") and own == inner and _NO_GRADIENTS.search(text):
            return True
        above -= 1
    return False


def _carried(frame: SourceLine, program: ProgramText) -> Iterator[Carried]:
    """The statements of a function that make a variable's next value from its last one."""
    lines = program.lines.get(frame.file, {})
    if frame.line not in lines:
        return
    around = enclosing(program.lines, [frame])
    begin = around.loop.line if around else 0
    own = draws_around(lines, frame.line).lines
    for number in own:
        if number < begin:
            continue
        for name in _renewed(lines, number):
            is_own = name.startswith("self.")
            first = min(own) if is_own else begin
            if (is_own or around) and not _is_set(own, name, range(first, number)):
                yield Carried(frame._replace(line=number), name)


def _renewed(lines: Mapping[int, str], number: int) -> set[str]:
    """The variables that a statement passes to a call and takes out of it."""
    _, found = statement_at(lines, number)
    node = found[0] if len(found) == 1 else None
    if not isinstance(node, ast.Assign):
        return set()
    calls = [one for one in ast.walk(node.value) if isinstance(one, ast.Call)]
    given = [one for call in calls for one in (*call.args, *(k.value for k in call.keywords))]
    targets = [one for target in node.targets for one in _parts(target)]
    return {*map(ast.unparse, targets)} & {
        ast.unparse(part) for one in given for part in _parts(one)
    }


def _renewed_by_itself(line: SourceLine, program: ProgramText) -> Iterator[Carried]:
    """An attribute, or a place in a container, whose next value a statement makes of its last."""
    _, found = statement_at(program.lines.get(line.file, {}), line.line)
    node = found[0] if len(found) == 1 else None
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return
    (target, *others) = node.targets if isinstance(node, ast.Assign) else [node.target]
    if others or not isinstance(target, (ast.Attribute, ast.Subscript)):
        return
    name = ast.unparse(target)
    cut = {one.value for one in ast.walk(node.value) if isinstance(one, ast.Attribute)}  # .detach()
    used = [one for one in ast.walk(node.value) if ast.unparse(one) == name and one not in cut]
    is_sum = isinstance(node, ast.AugAssign) and not ast.unparse(node.value).endswith(".detach()")
    if used or is_sum:
        yield Carried(line, name)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for one in node.elts:
            yield from _parts(one)
    elif isinstance(node, ast.Starred):
        yield from _parts(node.value)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield node


def _is_set(lines: Mapping[int, str], name: str, numbers: range) -> bool:
    """Whether one of these lines gives the variable another value."""
    bare = re.escape(name)
    setting = re.compile(
        rf"\s*(?:[\w.,\s()*]*,\s*)?\(?{bare}\s*(?:,[^=]*)?=(?!=)|\s*for\b.*(?<![\w.]){bare}\b.*\bin\b"
    )
    return any(number in lines and setting.match(lines[number]) for number in numbers)
