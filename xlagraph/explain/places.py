"""Where in the user's program a cause goes back to, from what it cites and what was captured."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Family
from xlagraph.cause.sources import called_at, knows_lines, stack, where
from xlagraph.cause.verdict import NOWHERE, Place
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.message import EMPTY, Code, say
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.cause.model import Context, Evidence
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, Part, SourceLine

_PLACE = re.compile(r" at |;")
"""What a title's place, or what comes of it, begins with."""
_MORE = re.compile(r"(?: \([^()]*\))? and (\d+) more")
MAX_LOOKED = 1000
"""Instructions of a cause that are looked at for the stack around its line."""


def place_of(
    finding: Finding, evidence: Iterable[Evidence], diff: Diff, contexts: tuple[Context, Context]
) -> Place:
    """The place that a finding with this evidence goes back to.

    Its line is the first one of the program itself that the evidence cites, else a library's.
    """
    lines = [line for one in evidence for line in one.sources]
    line = next((one for one in lines if not one.is_library), next(iter(lines), None))
    tensors, further = _tensors(finding.title), _further(finding.title)
    if line is None:
        unknown, command = _unknown(finding, diff, contexts)
        site = contexts[1].call_site
        return Place(
            tensors=tensors, further=further, unknown=unknown, command=command, step_ends=site
        )
    above = min(finding.made.lines) if finding.made else line.line
    around = (context.around(line.forward, above) for context in reversed(contexts))
    source = next(filter(None, around), ())
    stack = _stack(line, finding, diff, contexts)
    return Place(line, stack, source, tensors, further, made=finding.made)


def place_left(
    diff: Diff, a: Iterable[int], b: Iterable[int], contexts: tuple[Context, Context]
) -> Place:
    """The line that all instructions without a cause were called from, those of B before A's.

    Where that is outside the function that ends the step it tells nothing: then their own line.
    """
    for module, members in ((diff.b, list(b)), (diff.a, list(a))):
        line = _line_left(module, members, contexts[1].call_site)
        if line and not line.is_library:
            plain = line.forward._replace(called=None)
            around = (context.around(plain) for context in reversed(contexts))
            frames = next((s for i in members if plain in (s := stack(module, i))), (plain,))
            return Place(line, frames[frames.index(plain) :], next(filter(None, around), ()))
    return NOWHERE


def _line_left(
    module: Module, members: Sequence[int], site: SourceLine | None
) -> SourceLine | None:
    line = next(iter(called_at(module, members)), None)
    frames = next((s for i in members if line in (s := stack(module, i))), ())
    inner = takewhile(lambda frame: frame != line, frames)
    if site and any((f.file, f.function) == (site.file, site.function) for f in inner):
        return next(iter(where(module, members)), None)
    return line


def _tensors(message: Message) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(part for part in message.parts if isinstance(part, Tensor)))


def _further(message: Message) -> int:
    """How many tensors are left out behind the last one that a title names: ``and 18 more``."""
    last = max((k for k, p in enumerate(message.parts) if isinstance(p, Tensor)), default=-1)
    behind = message.parts[last + 1 : last + 2] if last >= 0 else ()
    found = (_MORE.match(part) for part in behind if isinstance(part, str))
    return next((int(one[1]) for one in found if one), 0)


def _stack(
    line: SourceLine, finding: Finding, diff: Diff, contexts: tuple[Context, Context]
) -> tuple[SourceLine, ...]:
    """The frames around a line: those of most instructions cited, else those captured with it."""
    plain = line.forward._replace(called=None)
    cited = chain(
        ((diff.b, i) for e in finding.evidence for i in e.b),
        ((diff.a, i) for e in finding.evidence for i in e.a),
        ((diff.b, i) for i in sorted(finding.b)),
        ((diff.a, i) for i in sorted(finding.a)),
    )
    stacks = (stack(module, i) for module, i in islice(cited, MAX_LOOKED))
    found = Counter(frames for frames in stacks if plain in frames)
    if found:
        return found.most_common(1)[0][0]
    return next((c.stacks[plain] for c in contexts if plain in c.stacks), ())


def _unknown(
    finding: Finding, diff: Diff, contexts: tuple[Context, Context]
) -> tuple[Message, Message]:
    """Why there is no line, and the command that captures one."""
    argv = contexts[1].argv or contexts[0].argv
    if not (knows_lines(diff.a) or knows_lines(diff.b)):
        if argv:
            return say("the graphs were captured without lines"), _command("XLAGRAPH=1", argv)
        if is_jitted(diff.a) and is_jitted(diff.b):
            return say('the texts have none; as_text("hlo", debug_info=True) writes them'), EMPTY
        return say("the modules were dumped without XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1"), EMPTY
    is_live = finding.kind.family is Family.LIVE and not contexts[1].created
    unknown = say("what differs has none in the graph")
    return unknown, _command("XLAGRAPH=2", argv) if is_live else EMPTY


def _command(variable: str, argv: tuple[str, ...]) -> Message:
    return say(f"{variable} python ", Code(shlex.join(argv))) if argv else EMPTY


def before_place(title: Message) -> Iterator[Part]:
    """The parts of a title before where that is, and what else comes of it."""
    for part in title.parts:
        own = _PLACE.split(part)[0] if isinstance(part, str) else part
        yield own
        if own != part:
            return
