"""What an analysis says: findings with both accesses, the missing edge and its proof.

All values are facts; sentences about them are made in `wording`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlagraph.strings import StrEnum


class Kind(StrEnum):
    """What is wrong; stable identifiers, described in docs/streams.md."""

    RACE = "race"
    """Two accesses to the same bytes, one of them a write, that nothing orders."""
    REUSE = "reuse"
    """Memory was handed out again while an operator on another stream still used it."""
    LATENT_REUSE = "latent-reuse"
    """Memory could have been handed out again while in use; in this log it was not."""
    BUCKET_RACE = "bucket-race"
    """A bucket is reduced before every stream that filled it is done."""
    INITIAL_GRADIENT = "initial-gradient"
    """A backward pass begins before its initial gradient is filled."""


class State(StrEnum):
    """How sure a finding is."""

    FOUND = "found"
    """Nothing orders the accesses."""
    WARNING = "warning"
    """Nothing orders them by contract; in this log they were in order all the same."""
    UNKNOWN = "unknown"
    """The log does not say whether they are in order."""


class Verdict(StrEnum):
    """The answer to the whole log."""

    FOUND = "found"
    NONE_FOUND = "none found in what was seen"
    UNKNOWN = "order unknown"


EXIT_CODES = {Verdict.NONE_FOUND: 0, Verdict.FOUND: 1, Verdict.UNKNOWN: 3}


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, numbered by first use; number 0 stands for none."""

    number: int
    raw: int
    """The driver's handle; the default stream of device *k* is -k."""
    device: int | None
    line: int
    """The line of the log that names it first."""
    site: str
    """Where its first operator was called, as ``file:line function``; ``""`` if not known."""

    @property
    def is_default(self) -> bool:
        """Whether it is a device's default stream."""
        return self.raw <= 0


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of the device, and the tensor that they belong to where that is known."""

    start: int
    size: int
    tensor: str = ""
    """The tensor's name."""
    offset: int = 0
    """Where they begin in the tensor, or else in the allocation."""
    whole: int = 0
    """The size of the tensor, or else of the allocation; 0 where neither is known."""


@dataclass(frozen=True, slots=True)
class Access:
    """What an operator did to memory."""

    line: int
    """The line of the log, from 1."""
    operator: str
    stream: int
    """Number of its `Stream`."""
    writes: bool
    data: Bytes
    node: str = ""
    """The autograd node it ran for."""
    site: str = ""
    forward_site: str = ""
    """The forward line that the node belongs to."""
    parameter: str = ""
    """The parameter whose gradient the node accumulates."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The order that is missing: what to put where.

    ``wait``: `target` waits for `source`. ``record_stream``: the memory is recorded on `source`,
    so that `target`, which it belongs to, is not given it before.
    """

    action: str
    source: int
    target: int
    """Numbers of streams."""
    line: int
    """The line of the log that it has to come before."""
    site: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """Memory that several operators fill and one empties."""

    name: str
    """As its adapter calls it; ``""`` where it was recognized by its use."""
    data: Bytes


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An allocation that ended while it was in use."""

    size: int
    stream: int
    """The stream that it belongs to; 0 where it began before the log."""
    allocated_at: str
    freed_line: int
    freed_at: str
    taken_line: int = 0
    taken_at: str = ""
    """The allocation that got its memory, or could have got it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of the finding when the missing edges were put into the log."""

    vanished: bool
    appeared: int = 0
    """Findings that the log did not have before."""
    alone: bool = True
    """False where the edges of all findings were put in together."""

    @property
    def proved(self) -> bool:
        """The finding vanished, and no other appeared."""
        return self.vanished and not self.appeared


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake, however often the log has it."""

    number: int
    kind: Kind
    state: State
    earlier: tuple[Access, ...]
    """One access; for a bucket one for each part that was not waited for."""
    later: Access | None
    """None where no later access is in the log."""
    edges: tuple[Edge, ...]
    count: int
    """How often it occurs."""
    bucket: Bucket | None = None
    lifetime: Lifetime | None = None
    backward_stream: int = 0
    """The stream that ``backward`` was called on."""
    backward_site: str = ""
    doubt: str = ""
    """Why its order is unknown: ``approximate event threads allocation edges``."""
    same_as: int = 0
    """The number of an earlier finding whose edges remove this one too; 0 for none."""
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was seen, and what was not."""

    records: int
    operators: int
    streams: int
    threads: int
    steps: int
    began: str
    """When recording began, as its recorder says it; ``""`` if it does not."""
    unseen: tuple[tuple[str, int], ...]
    """What could not be seen, and how often it was met; -1 where that cannot be counted."""
    stated: bool
    """Whether the recorder says what it could not see."""
    whole: bool
    """Whether the log ends as it should: no half-written line, no missing end."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that is said about a log."""

    name: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    """In the order in which the log has them."""
    coverage: Coverage
    streams: tuple[Stream, ...]

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        return EXIT_CODES[self.verdict]

    def stream(self, number: int) -> Stream:
        """A stream by its number."""
        return self.streams[number - 1]
