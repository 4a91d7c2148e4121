"""A kind of cause, with everything that is to be said about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Section(Enum):
    """Where the catalogue lists a kind."""

    VALUES = "Values that Python bakes into the graph"
    INPUTS = "Inputs and types"
    LIVE = "Live tensors"
    PIECES = "Pieces of graph"
    COLLECTIVES = "Collectives and sharding"
    HEADER = "What stands in the header"
    SAME = "The same computation"
    RUN = "Over a whole run"
    RANKS = "Between ranks"
    STREAMS = "Order of streams on CUDA"


class Family(Enum):
    """Kinds of which several findings are one cause when their source lines meet."""

    BRANCH = "branch"
    LIVE = "live"
    HEADER = "header"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Kind:
    """One kind of cause; the documentation, the command line and the report speak from it.

    Up to `examples` all has to be said. What follows has defaults that suit most kinds: it says how
    findings of one kind are put together with others, and what they may be over a whole run.
    """

    id: str
    """Stable identifier, such as ``bucket-carry``; JSON carries it."""
    title: str
    """What it is, in one line."""
    section: Section
    meaning: str
    """What happened, and why that makes another graph."""
    before: str
    """A training script, or the telling part of one, that shows it.

    If ``loader`` occurs in it, tests/rules/test_programs.py runs it under torch_xla, with the names
    that tests/rules/around_programs.py defines: it has to recompile for this kind, and `after`
    must not.
    """
    after: str
    """The same script mended; ``""`` where there is nothing to mend."""
    evidence: str
    """What is cited for it."""
    fix: str
    """What to change. A finding may have more specific advice."""
    proof: str
    """How it is undone on both modules."""
    examples: tuple[str, ...]
    """Committed fixtures that show it: scenarios, or pairs of modules. The first one's verdict
    stands in the documentation."""
    family: Family | None = None
    """Findings of one family become one cause where their source lines meet, or where they touch;
    None: each is a cause by itself."""
    is_piece: bool = False
    """A piece of graph that is there or not: over a run, a loop of changing length."""
    may_grow: bool = False
    """Over a run it may be something that grows from step to step (``growing-graph``)."""
    may_be_meant: bool = False
    """Over a run it may be what somebody switches on purpose: where it comes once and stays, or in
    a rhythm from the start on, it is no problem."""
    anywhere: bool = False
    """Over a run it is one reason wherever it shows: its lines are those of a library's hooks."""
    only_proved: bool = False
    """It means nothing where instructions do not pair off: not named unless all is proved."""
    is_cause: bool = True
    """False for what names that no cause was found."""
    consequences: tuple[str, ...] = ()
    """Kinds that follow from this one when both are found: they become part of it."""
    entails: tuple[str, ...] = ()
    """Over a run: kinds of graphs that come of it, where buckets held tensors at their syncs."""
    short: str = ""
    """What happened in at most eight words, for a verdict; empty where `title` is that short."""
    short_fix: str = ""
    """What to change in at most twelve words; empty where `fix` is that short."""

    @property
    def headings(self) -> tuple[str, str]:
        """What stands before its two programs."""
        if self.section in (Section.RANKS, Section.STREAMS):
            return "Wrong:", "Right:"
        return "Recompiles:", "Does not:"

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"Kind({self.id!r})"
