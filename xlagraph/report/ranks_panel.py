"""What was found between the ranks of a run, as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.figures import ranges
from xlagraph.message import EMPTY, count, say, spans
from xlagraph.ranks.alike import alike
from xlagraph.ranks.model import Outcome
from xlagraph.ranks.words import (
    cause_words,
    collective_words,
    cost_words,
    matching_words,
    own_number_words,
    rank_words,
    step_words,
)
from xlagraph.report.graph_table import colour_of
from xlagraph.report.names import visible
from xlagraph.report.wording import source_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.message import Message
    from xlagraph.ranks.alike import Alike
    from xlagraph.ranks.explain import RanksExplanation, Stop
    from xlagraph.report.model import Spans
    from xlagraph.report.names import Names

    Letters = tuple[tuple[str, int], ...]
    """Letters of graphs with their colours."""

MAX_ROWS = 50
"""Rows of ranks that ran other graphs; more are counted."""
MAX_NOTES = 8
"""What is said of single steps and ranks that compiled; more is counted."""
MAX_LETTERS = 6
"""Graphs in one row; more are counted."""
MAX_BOXES = 8
"""Ranks that wait are shown in so many boxes; more are counted."""
BOX = 76
"""Height of a box, and how far apart they stand, in pixels."""
DEEP = 30
"""How far an arrow to the next box reaches out; to one further off it is more."""
SHIFT = 12
"""How far from the middle of a box arrows leave it and come in."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """Ranks that ran the same."""

    ranks: str
    steps: str
    """Empty for those that ran what most ran."""
    ran: Letters
    usual: Letters
    why: Spans


@dataclass(frozen=True, slots=True)
class Box:
    """Ranks that stand at one collective, or have ended."""

    ranks: str
    place: str
    """Step and graph; of those that have ended their last step."""
    what: Spans
    site: str
    is_odd: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """From those that wait to those that they wait for."""

    path: str
    """An SVG path."""
    text: str
    """What it says, for who does not see it."""
    is_both: bool
    """It has no direction: they meet, and do not match."""
    place: tuple[int, int]
    """Where its label stands, in pixels."""


@dataclass(frozen=True, slots=True)
class RanksPanel:
    """The section on ranks."""

    head: str
    matching: str
    rows: tuple[RankRow, ...]
    """Those that differ first; empty where all agree."""
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    boxes_left: int
    """Boxes that are not shown."""
    height: int
    """Of the picture, in pixels."""
    notes: tuple[Spans, ...]


def ranks_panel(found: RanksExplanation, letters: Sequence[str], names: Names) -> RanksPanel:
    """The section on ranks; `letters`: of the run's graphs, in their order."""
    colours = {letter: colour_of(k) for k, letter in enumerate(letters)}
    boxes, arrows, left = _picture(found, names)
    job = found.job
    of = f" of {job.world}" if len(job.ranks) < job.world else ""
    by = f", numbered by {', '.join(map(visible, job.sources))}" if job.sources else ""
    return RanksPanel(
        head=f"{len(job.ranks)}{of} ranks{by}",
        matching=f"{matching_words(found.matching)}.",
        rows=tuple(_rows(found, colours, names)),
        boxes=boxes,
        arrows=arrows,
        boxes_left=left,
        height=BOX * len(boxes),
        notes=tuple(spans(note, names) for note in _notes(found)),
    )


def _notes(found: RanksExplanation) -> list[Message]:
    own = [say(own_number_words(one).sentence, ".") for one in found.own_numbers]
    total, *parts = cost_words(found.cost)
    left = len(parts) - MAX_NOTES
    more = [say(f"and {left} more (xlagraph explain --full)")] if left > 0 else []
    return [*own, total, *parts[:MAX_NOTES], *more]


def _rows(found: RanksExplanation, colours: Mapping[str, int], names: Names) -> list[RankRow]:
    groups = alike(found.divergences)
    rows = [_row(one, colours, names) for one in groups[:MAX_ROWS]]
    left = len(groups) - len(rows)
    if left:
        more = spans(say(f"and {count(left, 'more difference')} (xlagraph explain --json)"), names)
        rows.append(RankRow("", "", (), (), more))
    if rows:
        odd = {rank for one in found.divergences for rank in one.difference.ranks}
        rest = [one.rank for one in found.job.ranks if one.rank not in odd]
        if rest:
            same = spans(say("ran the same in every step"), names)
            rows.append(RankRow(ranges(rest), "", (), (), same))
    return rows


def _row(one: Alike, colours: Mapping[str, int], names: Names) -> RankRow:
    cause, line = cause_words(one.first), one.first.line
    if not cause:
        cause = say("ran at " if one.ran else "step ends at ", line) if line else EMPTY
    return RankRow(
        ranks=ranges(one.first.difference.ranks),
        steps=step_words(one.steps).removeprefix("steps ").removeprefix("step "),
        ran=_letters(one.ran, colours),
        usual=_letters(one.usual, colours),
        why=spans(cause, names),
    )


def _letters(found: Sequence[str], colours: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Letters with their colours, and how many more there are."""
    shown = [(letter, colours.get(letter, -1)) for letter in found[:MAX_LETTERS]]
    left = len(found) - len(shown)
    return (*shown, *([(f"+{left}", -1)] if left else []))


def _picture(
    found: RanksExplanation, names: Names
) -> tuple[tuple[Box, ...], tuple[Arrow, ...], int]:
    """A box for each place where ranks stand, and who waits for whom."""
    matching = found.matching
    if matching.outcome not in (Outcome.HANG, Outcome.MISMATCH):
        return (), (), 0
    stops = [stop for stop in found.stops if stop.wait.is_root]
    least = min(len(stop.wait.ranks) for stop in stops)
    boxes = [_box(stop, names, is_odd=len(stop.wait.ranks) == least) for stop in stops]
    owners = [set(stop.wait.ranks) for stop in stops]
    for one in found.ended:
        done = spans(say("nothing more to run"), names)
        place, site = f"last step {one.step}", source_line(one.place, names)
        boxes.append(Box(rank_words(one.ranks), place, done, site, is_odd=True))
        owners.append(set(one.ranks))
    arrows = []
    for k, stop in enumerate(stops[:MAX_BOXES]):
        for other in range(min(len(boxes), MAX_BOXES)):
            if matching.outcome is Outcome.MISMATCH and other > k == 0:
                text = f"{boxes[k].ranks} and {boxes[other].ranks} meet and do not match"
                arrows.append(_arrow(k, other, text, is_both=True))
            elif other != k and owners[other] & set(stop.wait.missing):
                text = f"{boxes[k].ranks} waits for {boxes[other].ranks}"
                arrows.append(_arrow(k, other, text, is_both=False))
    return tuple(boxes[:MAX_BOXES]), tuple(arrows), max(0, len(boxes) - MAX_BOXES)


def _box(stop: Stop, names: Names, *, is_odd: bool) -> Box:
    line = stop.stand.lines[0] if stop.stand.lines else None
    return Box(
        ranks=rank_words(stop.wait.ranks),
        place=f"{step_words([stop.wait.step])}, graph {stop.letter}",
        what=spans(collective_words(stop), names),
        site=source_line(line, names),
        is_odd=is_odd,
    )


def _arrow(start: int, end: int, text: str, *, is_both: bool) -> Arrow:
    """A curve on the right of the boxes; it leaves one above its middle, and comes in below."""
    y, to = BOX * start + BOX // 2 - SHIFT, BOX * end + BOX // 2 + SHIFT
    if is_both:
        y, to = y + SHIFT, to - SHIFT
    reach = DEEP * (1 + abs(end - start)) + (0 if end > start else DEEP)
    path = f"M6 {y} C{reach} {y} {reach} {to} 6 {to}"
    return Arrow(path, text, is_both, (reach * 3 // 4 + 8, (y + to) // 2 + 4))
