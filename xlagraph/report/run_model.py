"""What the page of a run shows beside causes and pairs: its graphs, its compiles, its timeline."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from xlagraph.report.model import deltas, said_json

if TYPE_CHECKING:
    from xlagraph.report.model import Ints, Json, Spans


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A graph of the run in the table of graphs."""

    letter: str
    colour: int
    parent: str
    """The letter of the graph that it was compared with, ``""`` for none."""
    likeness: str
    digest: str
    step: int
    rank: int
    site: str
    instructions: int
    compiles: int
    hits: str
    """With a plus sign where there may have been more."""
    seconds: str
    summary: Spans
    warm_up: bool
    address: str
    """Of the comparison with `parent`, ``""`` if there is none or it was cut."""

    def to_json(self) -> list[object]:
        """Plain values for the page."""
        how = [self.parent, self.address, said_json(self.summary), self.likeness, self.site]
        numbers = [self.step, self.instructions, self.compiles, self.hits, self.seconds]
        return [self.letter, self.colour, *how, self.digest, *numbers]


@dataclass(frozen=True, slots=True)
class CompileRow:
    """Compiles of one graph in one step, all ranks together."""

    step: int
    letter: str
    colour: int
    ranks: str
    compiles: int
    seconds: str
    site: str

    def to_json(self) -> list[object]:
        """Plain values for the page."""
        return [*astuple(self)]


@dataclass(frozen=True, slots=True)
class GraphSection:
    """The graphs that one cause accounts for."""

    anchor: str
    """Of the cause's card."""
    title: Spans
    expected: str
    """``warm-up`` or ``by design``; empty for a problem."""
    rows: tuple[GraphRow, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every sync of a run: ranks are rows, and columns are steps, or parts of one."""

    steps: Ints
    """Step number of each column."""
    ranks: tuple[RankRow, ...]
    letters: tuple[str, ...]

    def to_json(self) -> Json:
        """Plain values for the page."""
        return {
            "steps": deltas(self.steps),
            "letters": list(self.letters),
            "ranks": [
                {
                    "label": row.label,
                    "columns": deltas(row.columns),
                    "outcomes": row.outcomes,
                    "graphs": list(row.graphs),
                    "ms": list(row.milliseconds),
                    "sites": list(row.sites),
                }
                for row in self.ranks
            ],
        }


@dataclass(frozen=True, slots=True)
class RankRow:
    """The syncs of one process, or of several that did the same."""

    label: str
    columns: Ints
    outcomes: str
    """A character a sync.

    ``c``ompile, ``w``arm-up compile, one by ``d``esign, ``h``it, ``e``mpty, ``u``nknown.
    """
    graphs: Ints
    """Position of the graph in the letters, -1 where it is not known."""
    milliseconds: Ints
    """Compile time of a compile, time of the call otherwise."""
    sites: tuple[str, ...]
    """Call site of every compile, in order."""


@dataclass(frozen=True, slots=True)
class RunData:
    """The overview of a run."""

    sections: tuple[GraphSection, ...]
    compiles: tuple[CompileRow, ...]
    compiles_cut: int
    """Rows of the list of compiles that are left out."""
    first_step: int
    """The first step of the training loop, counted as the columns are."""
    unnamed_hits: int
    """Steps that reused a graph of which it is not known which."""
    notes: tuple[str, ...]
    """What capture noted: dropped data, hooks switched off."""
