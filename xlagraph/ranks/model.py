"""What is found between ranks, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.collectives.program import Item


class Doubt(Enum):
    """Why something is not certain."""

    ORDER = "XLA itself orders collectives that do not need each other"
    REMOVABLE = "XLA may take away or merge a collective that gives nothing new"
    COMBINED = "collectives are combined on one side, and not on the other"
    ASYNC = "a collective is started before another one is waited for"
    PERMUTE = "a rank that only sends may go on before it is received"
    LOOP = "how often a loop runs is not known"
    BRANCH = "which branch runs is not known"
    ASSIGNMENT = "which device has which replica and partition is assumed: row by row"
    GROUPS = "replica groups of a collective cannot be read"
    UNREAD = "a custom call or a send may wait for other ranks"
    PARTITIONER = "XLA's partitioner adds collectives that the graph does not show"
    UNKNOWN_GRAPH = "which graph ran is not known everywhere"
    NO_RECORDS = "some ranks left no records"
    UNFINISHED = "the records of some ranks end before the ranks did"
    TOO_LONG = "the run is longer than what is walked"


class Outcome(Enum):
    """What becomes of the collectives of all ranks."""

    MATCH = "match"
    HANG = "hang"
    """Ranks wait for ranks that never come."""
    MISMATCH = "mismatch"
    """Ranks meet, and want different things: it fails, hangs, or gives wrong values."""
    UNKNOWN = "unknown"


STOPS = (Outcome.HANG, Outcome.MISMATCH)
"""Where the job does not go on as it should."""


class Reason(Enum):
    """Why ranks hang, or do not match."""

    CYCLE = "cycle"
    """They wait for each other."""
    ENDED = "ended"
    """They wait for ranks that have nothing more to run."""
    OPERATION = "operation"
    ELEMENT_TYPE = "element type"
    SIZE = "size"
    REDUCTION = "reduction"
    PAIRS = "pairs"


@dataclass(frozen=True, slots=True)
class Executed:
    """One run of a module by a rank."""

    step: int
    digest: str
    """``""`` where it is not known which module it was."""
    ends_step: bool = False
    """The sync that ran it ended its step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one rank ran, in its order."""

    rank: int
    executed: tuple[Executed, ...]
    ended: bool
    """Nothing follows: the record has its end."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Ranks at one collective."""

    ranks: tuple[int, ...]
    group: tuple[int, ...]
    """The ranks that have to come together there, in the order of the group."""
    missing: tuple[int, ...]
    """Those of them that are not there."""
    step: int
    digest: str
    item: Item
    buffers: tuple[tuple[str, int], ...]
    """Element type and number of elements of what is sent now."""
    is_root: bool
    """False where it only follows from another wait."""


@dataclass(frozen=True, slots=True)
class Matching:
    """What comes of matching the collectives of all ranks as the runtime would."""

    outcome: Outcome
    certain: bool
    reason: Reason | None
    waits: tuple[Wait, ...]
    """Those that cause it first; empty where collectives match."""
    matched: int
    """Collectives that came together before that, each counted once for all its ranks."""
    doubts: tuple[Doubt, ...]
