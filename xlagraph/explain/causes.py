"""From findings to causes: what each accounts for, merged, with its share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import clean
from xlagraph.cause.case import Case
from xlagraph.cause.model import Cause, Evidence
from xlagraph.cause.slices import called_only_by
from xlagraph.cause.sources import backward_line, line_around, lines_near
from xlagraph.explain.libraries import in_library
from xlagraph.explain.merge import merged
from xlagraph.explain.origins import following
from xlagraph.explain.places import place_of
from xlagraph.explain.settings import cited, set_there, settings_of
from xlagraph.facts.calls.callers import placed
from xlagraph.facts.training.optimizers import is_optimizer_line
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, A, B, count, say, words
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.training.clipping import CLIPPING
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.cause.model import Context
    from xlagraph.diff import Diff
    from xlagraph.explain.engine import Found
    from xlagraph.message import Message

MANY = 100
"""Instructions of another type beyond which the nearest line is that of where this begins."""
SHORT = 12
"""Words that the short form of an advice may have."""


def unexplained(diff: Diff, found: Found) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What no cause accounts for: nothing, if undoing them made the modules equal."""
    if found.proved:
        return (), ()
    case = Case.of(diff)
    for finding in found.findings:
        case.claim(finding)
    case.a.claimed.update(called_only_by(diff.a, case.a.claimed))
    case.b.claimed.update(called_only_by(diff.b, case.b.claimed))
    now = found.state.now
    open_pairs = case.open_changes()
    left_a = now.differing_in_a.union((x for x, _, _ in open_pairs), case.a.open_lone())
    left_b = now.differing_in_b.union((y for _, y, _ in open_pairs), case.b.open_lone())
    return tuple(sorted(left_a & diff.differing_in_a)), tuple(sorted(left_b & diff.differing_in_b))


def causes_of(diff: Diff, found: Found, contexts: tuple[Context, Context]) -> tuple[Cause, ...]:
    """The causes by share, those that follow from others last, and such as change no value.

    What is incidental counts only where nothing else is found.
    """
    findings = found.findings
    named = merged([f for f in findings if not f.incidental], diff)
    if not found.proved:
        named = [f for f in named if not f.kind.only_proved]
    aside = [f for f in findings if f.incidental]
    if not named:
        named, aside = aside, []
    taken_a = set[int]().union(*(f.a for f in aside)) - set[int]().union(*(f.a for f in named))
    taken_b = set[int]().union(*(f.b for f in aside)) - set[int]().union(*(f.b for f in named))
    behind = following(diff, named)
    told = [
        (f in behind, _cause(diff, f, contexts, (taken_a, taken_b), proved=found.proved))
        for f in named
    ]
    told.sort(key=lambda one: (one[1].expected, one[1].is_neutral, one[0], -one[1].share))
    causes = [cause for _, cause in told]
    if found.proved and causes:
        causes[0] = _with_rest(diff, causes, taken_a, taken_b)
    return tuple(causes)


def _with_rest(diff: Diff, causes: Sequence[Cause], taken_a: set[int], taken_b: set[int]) -> Cause:
    """The first cause with what no cause cites: since the proof holds, it is a consequence."""
    cited_a = taken_a.union(*(c.a for c in causes))
    cited_b = taken_b.union(*(c.b for c in causes))
    rest = [c for c in diff.changes if c.a not in cited_a and c.b not in cited_b]
    rest_a = {c.a for c in rest} | (set(diff.removed) - cited_a)
    rest_b = {c.b for c in rest} | (set(diff.added) - cited_b)
    first = causes[0]
    number = len(rest_a) + len(rest_b) - len(rest)
    return replace(
        first,
        a=first.a | rest_a,
        b=first.b | rest_b,
        share=min(1.0, first.share + number / max(_counted(diff, taken_a, taken_b), 1)),
    )


def _counted(diff: Diff, taken_a: set[int], taken_b: set[int]) -> int:
    """The number of differing instructions, without those of incidental causes."""
    aside = sum(1 for c in diff.changes if c.a in taken_a or c.b in taken_b)
    aside += len(taken_a.intersection(diff.removed)) + len(taken_b.intersection(diff.added))
    return diff.differing - aside


def _cause(
    diff: Diff,
    finding: Finding,
    contexts: tuple[Context, Context],
    taken: tuple[set[int], set[int]],
    *,
    proved: bool,
) -> Cause:
    finding = placed(diff, finding)
    mine_a = finding.a | called_only_by(diff.a, finding.a)
    mine_b = finding.b | called_only_by(diff.b, finding.b)
    changed = [c for c in diff.changes if c.a in mine_a or c.b in mine_b]
    own_a = frozenset({c.a for c in changed} | mine_a.intersection(diff.removed))
    own_b = frozenset({c.b for c in changed} | mine_b.intersection(diff.added))
    number = len(own_a) + len(own_b) - len(changed)
    total = _counted(diff, *taken)
    behind = _backward(diff, finding)
    near = () if behind else _own_line(diff, finding)
    evidence = finding.evidence + near + behind
    place = place_of(finding, evidence, diff, contexts)
    if near:
        place = replace(place, is_near=True, beside=next(iter(near[0].sources[1:]), None))
    settings = settings_of(finding.option, contexts) if finding.option else ()
    fix, short_fix = in_library(diff, finding) or (finding.fix or say(finding.kind.fix), EMPTY)
    return Cause(
        kind=finding.kind,
        title=finding.title,
        evidence=evidence + cited(settings),
        fix=fix,
        share=number / total if total else 1.0,
        proved=proved,
        proof=finding.proof,
        expected=finding.expected,
        a=own_a,
        b=own_b,
        short=_carried(diff, finding) or finding.short,
        effect=finding.effect,
        short_fix=short_fix or finding.short_fix or _if_short(finding.fix),
        seen=finding.seen,
        is_exact=finding.is_exact,
        is_neutral=finding.is_neutral,
        place=set_there(place, settings, contexts),
    )


def _carried(diff: Diff, finding: Finding) -> Message:
    """What is said of a value that a loop computes which carries more values on one side."""
    if finding.kind is not REPLACED_SUBGRAPH:
        return EMPTY
    a, b = diff.a, diff.b
    for x, y in enumerate(diff.match.to_b):
        if y < 0 or not a.opcodes[x] == b.opcodes[y] == "while":
            continue
        inside = called_only_by(a, {x}) & finding.a or called_only_by(b, {y}) & finding.b
        more = len(read_shape(clean(b.shapes[y])).parts) - len(read_shape(clean(a.shapes[x])).parts)
        if inside and more:
            carries = f"A loop carries {count(abs(more), 'value')} more in "
            return say(carries, B if more > 0 else A, " and computes one in another way")
    return EMPTY


def _if_short(fix: Message) -> Message:
    return fix if len(words(fix).split()) <= SHORT else EMPTY


def _own_line(diff: Diff, finding: Finding) -> tuple[Evidence, ...]:
    """The program's line nearest to what a finding cites, if it cites none of the program."""
    lines = [line for evidence in finding.evidence for line in evidence.sources]
    if not all(line.is_library for line in lines):
        return ()
    is_of_optimizer = finding.kind is OPTIMIZER_OPTION or (
        finding.kind in (REPLACED_SUBGRAPH, SPECIAL_SCALAR) and all(map(is_optimizer_line, lines))
    )
    if lines and (is_of_optimizer or _clips_otherwise(diff, finding)):
        return ()  # the line that sets it, or calls step(), is none of the model's
    own_a, own_b = finding.a, finding.b
    cited = frozenset(finding.evidence[0].b)
    if finding.kind is SKIPPED_BLOCK and cited and own_b.isdisjoint(cited):
        own_a, own_b = frozenset(finding.evidence[0].a), cited  # what it claims only follows
    if finding.kind is DTYPE and max(len(own_a), len(own_b)) > MANY:
        own_a, own_b = frozenset(finding.evidence[0].a), cited  # where it begins
    near = lines_near(diff.b, own_b) or lines_near(diff.a, own_a)
    around = line_around(diff.b, own_b) if lines and not near else None
    near = (around,) if around else near
    text = say("the program's own lines nearest to it in the graph")
    return (Evidence(text, sources=near),) if near else ()


def _clips_otherwise(diff: Diff, finding: Finding) -> bool:
    """Whether both sides clip, each in its own way."""
    in_both = finding.a.intersection(diff.removed) and finding.b.intersection(diff.added)
    return finding.kind is CLIPPING and bool(in_both)


def _backward(diff: Diff, finding: Finding) -> tuple[Evidence, ...]:
    """Where the backward pass is called that runs what a finding cites without any line."""
    if any(evidence.sources for evidence in finding.evidence):
        return ()
    line = backward_line(diff.b, finding.b) or backward_line(diff.a, finding.a)
    if not line:
        return ()
    text = say("this runs in the backward pass; what it is the derivative of is not in the graph")
    return (Evidence(text, sources=(line,)),)
