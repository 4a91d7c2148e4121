"""Sizes that Python computes of a number that it reads: ``n = int(index.max()) + 1``.

A cause of sizes names the line that makes a tensor of them, perhaps several calls behind the read.
The records tell where values were read in the steps whose sizes were new, and the program's text
what was done with them there. Other reads are none in the text: of how many elements a mask keeps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.shapes.size_makers import maker_in_text
from xlagraph.message import SourceLine, say
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.shapes.sizes import PYTHON_INDEX, PYTHON_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.facts.shapes.size_makers import SizeMaker
    from xlagraph.run.reader import Process
    from xlagraph.run.records import Frame
    from xlagraph.runs.model import CauseGroup, GraphNode

OFTEN = 3
"""In so many steps with a new size at least a number was read."""
REACH = 20
"""So many lines at most behind the one that names a number one makes a size of it."""
_READ = re.compile(r"\bint\(|\.item\(|\.tolist\(")
_BOUND = re.compile(r"\s*(\w+)\s*(?::[^=]+)?=(?!=)")
_HEAD = re.compile(r"\s*(?:async\s+)?(?:def|class)\b")
_SIZED = r"\b(?:arange|range|zeros|ones|full|empty|rand|randn|expand|repeat|pad|narrow)\(.*?\b{0}\b"
_SLICED = r"\[[^\]]*:\s*{0}\b|\[[^\]]*\b{0}\s*:"


def with_reads(
    groups: Iterable[CauseGroup],
    nodes: Sequence[GraphNode],
    processes: Iterable[Process],
    program: ProgramText,
) -> tuple[CauseGroup, ...]:
    """The groups, those of sizes with the line that reads a number of which a size is made.

    All steps with a graph of the group read one there, and no other read in them makes a size.
    """
    reads: defaultdict[int, set[SourceLine]] = defaultdict(set)
    for process in processes:
        for sync in process.syncs:
            if sync.kind == "value" and (line := _making(sync.call_site, program.lines)):
                reads[sync.step].add(line)
    found = []
    for group in groups:
        members = set(group.graphs)
        steps = {node.step for node in nodes if node.digest in members}
        lines = set[SourceLine]().union(*(reads[step] for step in steps))
        is_asked = group.kind in (PYTHON_SIZE, PYTHON_INDEX) and not group.expected
        if is_asked and len(steps) >= OFTEN and len(lines) == 1 and all(reads[s] for s in steps):
            (line,) = lines
            found.append(group if line == group.place.line else replace(group, read=line))
        else:
            found.append(group)
    return tuple(found)


def _making(frames: Sequence[Frame], program: Mapping[str, Mapping[int, str]]) -> SourceLine | None:
    """The line that reads a number, if that is given a name of which a size is made further on."""
    lines = [SourceLine(one.file, one.line, one.function) for one in frames]
    own = [line for line in lines if not line.is_library]
    for k, line in enumerate(own):
        text = program.get(line.file, {}).get(line.line, "")
        if k == 0 and not _READ.search(text):
            return None
        if bound := _BOUND.match(text):
            is_size = any(_makes(bound[1], one) for one in _below(program[line.file], line.line))
            return own[0] if is_size else None
        if not text.strip().startswith("return "):
            return None
    return None


def _below(lines: Mapping[int, str], number: int) -> Iterator[str]:
    """The known lines behind one, in its function."""
    for below in range(number + 1, number + 1 + REACH):
        text = lines.get(below, "")
        if _HEAD.match(text):
            return
        yield text


def _makes(name: str, text: str) -> bool:
    """Whether a line makes a size of the number of this name."""
    forms = (_SIZED.format(re.escape(name)), _SLICED.format(re.escape(name)))
    return any(re.search(form, text) for form in forms)


def with_counts(groups: Iterable[CauseGroup], program: ProgramText) -> tuple[CauseGroup, ...]:
    """The groups, steps that are cut where a size is counted with what mends that.

    There is no value to be read later: the size has to go.
    """
    return tuple(_counted(group, program) for group in groups)


def _counted(group: CauseGroup, program: ProgramText) -> CauseGroup:
    maker = _maker(group, program)
    if maker is None or group.expected:
        return group
    title = say(group.title, f"; the {maker.what} is counted there, on the device")
    told = replace(group, title=title)
    if group.cause is None:
        return replace(told, mend=(say(maker.fix), maker.short_fix))
    cause = replace(group.cause, title=title, fix=say(maker.fix), short_fix=maker.short_fix)
    return replace(told, cause=cause)


def _maker(group: CauseGroup, program: ProgramText) -> SizeMaker | None:
    """What makes a size in the line at which a step is cut; None if it is cut by nothing else."""
    line = group.place.line
    if group.kind is not EARLY_EXECUTION or line is None:
        return None
    return maker_in_text(program.lines.get(line.file, {}).get(line.line, ""))
