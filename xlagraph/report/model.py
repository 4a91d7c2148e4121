"""What a report shows, as values: everything is named, cut and redacted already.

`xlagraph.report.run_page` and `xlagraph.report.pair_page` fill these, `xlagraph.report.render`
puts them on the page. What the page draws on demand (modules, pairs, the timeline) is kept in
columns and travels as packed JSON; what a reader needs without a script is in the template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.kinds import Kind
    from xlagraph.report.ranks_panel import RanksPanel
    from xlagraph.report.run_model import RunData

ROWS_SHOWN = 20
"""Rows of a table that stand in the document; the page draws longer ones as they are scrolled."""
Json = dict[str, object]
Ints = tuple[int, ...]
Spans = tuple[tuple[str, str], ...]
"""A sentence in pieces: the kind of each (``xlagraph.message.render``) and its words."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What the user may choose."""

    redact: bool = False
    max_bytes: int = 1_500_000
    """Modules and pairs beyond this size of the page are left out, and said to be."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure of the summary strip."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A verdict in three short lines, and what limits it."""

    what: Spans
    where: Spans
    fix: Spans
    notes: tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """What a newer run does better or worse than an older one."""

    what: Spans
    worse: bool
    rows: tuple[tuple[str, Spans], ...]
    """``Gone``, ``New`` or ``Still``, and the cause."""
    common: str
    """How many graphs both have."""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line of evidence with links to the first instructions it cites."""

    text: Spans
    links: tuple[tuple[str, str], ...]
    """Text and address within the page."""
    more: int
    """Instructions cited beyond the links."""
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram."""

    label: str
    """The values that it counts."""
    count: int
    height: float
    """Of the highest, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Insight:
    """What many comparisons come to: a number, and how often it had which value."""

    text: Spans
    bars: tuple[Bar, ...]
    least: str
    most: str


@dataclass(frozen=True, slots=True)
class CauseCard:
    """A cause with what it cost and why it is believed."""

    anchor: str
    kind: Kind
    title: Spans
    evidence: tuple[EvidenceLine, ...]
    fix: Spans
    share: float | None
    """None where no single pair stands for the cause."""
    proved: bool
    proof: Spans
    expected: bool
    seconds: float | None
    """Compile seconds; None in a report of two files."""
    compiles: int
    graphs: tuple[tuple[str, int], ...]
    """Letter and colour of the graphs it accounts for."""
    address: str
    """Where the page shows it side by side, or ``""``."""
    where: Spans = ()
    """Line, function and tensor, or why no line is known and how to get one."""
    source: tuple[tuple[int, str, bool], ...] = ()
    """The line with those around it: number, text, whether it is the line itself."""
    stack: tuple[str, ...] = ()
    """The frames around the line, innermost first."""
    effect: Spans = ()
    """What it does to the training beside the time."""
    also: tuple[Spans, ...] = ()
    """What else differs in the graphs of the group."""
    insight: Insight | None = None
    follows: tuple[Spans, ...] = ()
    """Graphs that are counted here and differ in something that follows from this."""
    is_one_of: bool = False
    """The proof undoes other causes with it."""
    sides: tuple[str, ...] = ()
    """What the two graphs are called that the address shows."""
    compared: Spans = ()
    """The outputs that the proof compares; empty for all."""


@dataclass(frozen=True, slots=True)
class ModuleData:
    """A module in columns over its instructions, texts shared through tables."""

    name: str
    header: tuple[tuple[str, str], ...]
    computations: tuple[tuple[str, int, int, int], ...]
    """Name, first instruction, end, root."""
    entry: int
    stems: tuple[str, ...]
    stem: Ints
    number: Ints
    """A name is its stem, then a dot and this number unless it is -1."""
    opcodes: tuple[str, ...]
    opcode: Ints
    shapes: tuple[str, ...]
    shape: Ints
    attributes: tuple[str, ...]
    """Attribute texts; a NUL stands where the metadata was."""
    attribute: Ints
    origins: tuple[Origin, ...]
    origin: Ints
    files: tuple[str, ...]
    operand_counts: Ints
    operands: Ints
    """Distances from each user back to its operand."""
    payloads: Mapping[int, str]
    callees: Mapping[int, Ints]
    inputs: Mapping[int, str]
    """Names of parameters by number, of outputs by position, as far as they are known."""
    outputs: Mapping[int, str]

    def to_json(self) -> Json:
        """Plain values for the page."""
        return {
            "name": self.name,
            "header": [list(item) for item in self.header],
            "computations": [list(item) for item in self.computations],
            "entry": self.entry,
            "stems": list(self.stems),
            "stem": list(self.stem),
            "number": deltas(self.number),
            "opcodes": list(self.opcodes),
            "opcode": list(self.opcode),
            "shapes": list(self.shapes),
            "shape": list(self.shape),
            "attributes": list(self.attributes),
            "attribute": list(self.attribute),
            "origins": [origin.to_json() for origin in self.origins],
            "origin": list(self.origin),
            "files": list(self.files),
            "counts": list(self.operand_counts),
            "operands": list(self.operands),
            "payloads": {str(i): text for i, text in self.payloads.items()},
            "callees": {str(i): list(found) for i, found in self.callees.items()},
            "inputs": {str(k): name for k, name in self.inputs.items()},
            "outputs": {str(k): name for k, name in self.outputs.items()},
        }


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from: metadata as printed and as read."""

    text: str
    op_type: str
    op_name: str
    frames: tuple[tuple[int, int, str], ...]
    """File (position in the module's files), line, function; innermost first."""

    def to_json(self) -> list[object]:
        """Plain values for the page."""
        return [self.text, self.op_type, self.op_name, [list(frame) for frame in self.frames]]


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A parameter or output: its positions, its instructions and its name."""

    a: int | None
    b: int | None
    at_a: int | None
    at_b: int | None
    name: str
    note: str

    def to_json(self) -> list[object]:
        """Plain values for the page."""
        return [self.a, self.b, self.at_a, self.at_b, self.name, self.note]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A coalesced collective; for each tensor where it stands on the other side."""

    instruction: int
    opcode: str
    tensors: tuple[str, ...]
    shapes: tuple[str, ...]
    carried: tuple[bool, ...]
    partners: tuple[tuple[int, int] | None, ...]
    """Bucket and position of the same tensor in the other module."""

    def to_json(self) -> Json:
        """Plain values for the page."""
        return {
            "at": self.instruction,
            "opcode": self.opcode,
            "tensors": list(self.tensors),
            "shapes": list(self.shapes),
            "carried": [int(flag) for flag in self.carried],
            "partners": [list(p) if p else None for p in self.partners],
        }


@dataclass(frozen=True, slots=True)
class Section:
    """A computation of A beside its partner in B, either may be -1."""

    a: int
    b: int
    rows_a: Ints
    """Instruction of A in each row, -1 for none."""
    rows_b: Ints


@dataclass(frozen=True, slots=True)
class PairCause:
    """A cause with the instructions it accounts for."""

    card: CauseCard
    a: Ints
    b: Ints


@dataclass(frozen=True, slots=True)
class PairData:
    """Two modules side by side."""

    identifier: str
    title: str
    labels: tuple[str, str]
    """What A and B are called on the page."""
    modules: tuple[str, str]
    """Keys of the modules in the report."""
    verdict: Advice
    proved: bool
    same: bool
    sections: tuple[Section, ...]
    passes: Ints
    """For each instruction of A the pass of the matcher that found its partner."""
    changes: tuple[tuple[int, int, tuple[str, ...], Ints], ...]
    """A's and B's instruction, what differs, and the places of operands that do."""
    follows: tuple[tuple[int, int], ...]
    """Differing row and the origin that it follows from; A's instruction stands for a row,
    ``-1 - y`` for one that only B has."""
    removed: Ints
    added: Ints
    dead_a: Ints
    dead_b: Ints
    causes: tuple[PairCause, ...]
    unexplained_a: Ints
    unexplained_b: Ints
    parameters: tuple[SlotRow, ...]
    outputs: tuple[SlotRow, ...]
    header: tuple[tuple[str, str, str], ...]
    key: tuple[tuple[str, str, str], ...]
    """Components of the cache key that differ although the graphs do not."""
    noise: tuple[str, ...]
    """What was set aside, in words."""
    buckets_a: tuple[Bucket, ...]
    buckets_b: tuple[Bucket, ...]

    def to_json(self) -> Json:
        """Plain values for the page."""
        return {
            "id": self.identifier,
            "title": self.title,
            "labels": list(self.labels),
            "modules": list(self.modules),
            "verdict": {
                "what": said_json(self.verdict.what),
                "where": said_json(self.verdict.where),
                "fix": said_json(self.verdict.fix),
                "notes": [said_json(note) for note in self.verdict.notes],
            },
            "proved": self.proved,
            "same": self.same,
            "sections": [[s.a, s.b, deltas(s.rows_a), deltas(s.rows_b)] for s in self.sections],
            "passes": list(self.passes),
            "meanings": [one.meaning for one in Pass],
            "changes": [[a, b, list(fields), list(at)] for a, b, fields, at in self.changes],
            "follows": deltas(tuple(row for row, _ in self.follows)),
            "origins": [origin for _, origin in self.follows],
            "removed": deltas(self.removed),
            "added": deltas(self.added),
            "deadA": deltas(self.dead_a),
            "deadB": deltas(self.dead_b),
            "causes": [_cause_json(cause) for cause in self.causes],
            "unexplainedA": deltas(self.unexplained_a),
            "unexplainedB": deltas(self.unexplained_b),
            "parameters": [slot.to_json() for slot in self.parameters],
            "outputs": [slot.to_json() for slot in self.outputs],
            "header": [list(change) for change in self.header],
            "key": [list(component) for component in self.key],
            "noise": list(self.noise),
            "bucketsA": [bucket.to_json() for bucket in self.buckets_a],
            "bucketsB": [bucket.to_json() for bucket in self.buckets_b],
        }


def _cause_json(cause: PairCause) -> Json:
    card = cause.card
    return {
        "kind": card.kind.id,
        "title": said_json(card.title),
        "where": said_json(card.where),
        "source": [list(line) for line in card.source],
        "stack": list(card.stack),
        "fix": said_json(card.fix),
        "share": card.share,
        "proved": card.proved,
        "compared": said_json(card.compared),
        "proof": said_json(card.proof),
        "effect": said_json(card.effect),
        "expected": card.expected,
        "evidence": [
            [said_json(e.text), [list(link) for link in e.links], e.more, list(e.sources)]
            for e in card.evidence
        ],
        "a": deltas(cause.a),
        "b": deltas(cause.b),
    }


@dataclass(frozen=True, slots=True)
class PairHead:
    """What the page says of a pair before it is opened."""

    identifier: str
    title: str
    verdict: Spans
    address: str
    """Where it is best opened: at its first cause."""
    note: str = ""
    """Why it is offered before the others."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What the first cause took: the time that its fix gives back."""

    seconds: float
    words: str
    """To what they were lost."""
    matters: bool
    """They are cause for alarm, and nothing worse is."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    subtitle: str
    verdict: Advice
    lost: Lost | None
    """The big number; None where nobody measured, or ranks hang and it is none."""
    stable: bool
    """Nothing to fix."""
    facts: tuple[Fact, ...]
    causes: tuple[CauseCard, ...]
    warm_up: tuple[CauseCard, ...]
    run: RunData | None
    pairs: tuple[PairHead, ...]
    blobs: Mapping[str, str]
    """Packed JSON by name: ``timeline``, ``pair-<identifier>``, ``module-<key>``."""
    kinds: tuple[Kind, ...]
    """The kinds of causes that pair views have cards for."""
    cuts: tuple[str, ...]
    """What was left out for size, each with the option that brings it back."""
    redacted: bool
    ranks: RanksPanel | None = None
    """What was found between the ranks of a run; None where there is but one."""
    comparison: Compared | None = None
    """With an older run, where one was given."""
    aside: str = ""
    """A heading for the causes, where they are not what is wrong first."""
    source: tuple[tuple[int, str, bool], ...] = ()
    """The program's lines at the verdict's place, as `CauseCard.source`; its own card has none."""

    @property
    def letters_shown(self) -> tuple[str, ...]:
        """The graphs whose modules are on the page."""
        found = [name.removeprefix("module-") for name in self.blobs if name.startswith("module-")]
        return tuple(sorted(found, key=lambda letter: (len(letter), letter)))

    @property
    def headline(self) -> tuple[Spans, ...]:
        """What the command says when the page is written."""
        before = self.comparison.what if self.comparison else ()
        return tuple(line for line in (before, self.verdict.what) if line)


def said_json(pieces: Spans) -> list[object]:
    """A sentence for the page: xlagraph's own words as they are, other pieces with their kind."""
    return [text if kind == "text" else [kind, text] for kind, text in pieces]


def deltas(numbers: Ints) -> list[int]:
    """Each number less the one before it: small numbers pack well."""
    return (
        [number - before for before, number in zip((0, *numbers[:-1]), numbers, strict=True)]
        if numbers
        else []
    )
