"""What a run folder holds: the frozen values that capture writes and analysis reads.

A run folder is a directory (or fsspec URL)::

    RUN/records-<rank>-<host>-<pid>.jsonl   one append-only file per process, one record a line
    RUN/graphs/<digest>.hlo.zst             each distinct module once, named by its digest
    RUN/graphs/<digest>.hlo.pb.zst          the same as a protobuf, where that has Python stacks

Every line is a JSON object with a key ``record`` that names its type (``process``, ``sync``,
``graph``, ``flush``, ``note``, ``source``, ``setting``); the first line is the ``process`` record.
Unknown keys and unknown record types are skipped, so that older readers survive newer writers; a
missing key reads as the empty value of its type. ``xlagraph.run.codec`` has the details.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlagraph.tensors import Holder, Tensor

FORMAT_VERSION = 4
"""2: ``again`` lines. 3: tensors and what holds them are values, no words; older ones are read
by ``xlagraph.run.legacy``. 4: levels have names."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python stack frame: where a sync, a tensor or an instruction came from."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The first line of a record file: which process wrote it, and how capture was set."""

    format: int
    rank: int
    world_size: int
    """Ranks of the job; 0 where the launcher does not say."""
    host: str
    pid: int
    started: float
    """Unix time in seconds."""
    argv: tuple[str, ...]
    level: str
    """``watch``, ``1`` or ``2``; see ``xlagraph.capture.host.levels``."""
    versions: tuple[tuple[str, str], ...]
    """Package name and version: python, torch, torch_xla, xlagraph."""
    lines: bool = False
    """Whether graphs have the program's lines; unknown before format 4."""
    journal: str = ""
    """Token of the shared memory that has the newest steps; see ``xlagraph.run.journal``."""
    dump: str = ""
    """Folder on that host that XLA dumps into as it compiles; see ``xlagraph.run.unfinished``."""
    local_rank: int = 0
    """Its number among the ranks of its host."""
    rank_source: str = ""
    """Who says which rank it is: ``torch_xla``, or the name of a launcher's variable."""


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """A live tensor with pending IR at a sync."""

    output: int
    """The module's output that it becomes; -1 when more than one place is possible."""
    tensor_id: int
    shape: str
    ir_nodes: int
    """Nodes of its own graph; 0 when torch_xla's report would have been too long to ask."""
    tensor: Tensor | None
    """Which one it is, if that is known."""
    holders: tuple[Holder, ...]
    """What keeps the tensor alive in Python, as far as it was looked up."""
    created: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class MissingGradient:
    """A parameter whose gradient an FSDP module waits for, and backward did not give."""

    tensor: Tensor
    shape: str
    owner_class: str
    """Class of the module whose own parameter it is."""
    defined: tuple[Frame, ...]
    """Where that class's ``__init__`` begins, as one frame with the class as its function;
    empty for classes of torch."""


@dataclass(frozen=True, slots=True)
class BucketState:
    """One ``BucketizedReduceScatter`` at one moment: what waits in it and how full it is.

    The fields after ``callbacks`` are known of FSDP's buckets as a sync starts.
    """

    bucket: str
    """The owner: the FSDP module's qualified name, else its class and ordinal."""
    tensors: tuple[Tensor | None, ...]
    """The waiting gradients in bucket order, as far as their parameters are known."""
    shapes: tuple[str, ...]
    watermark_bytes: int
    capacity_bytes: int
    callbacks: int
    hooks: int = 0
    """Parameters of the FSDP module that require a gradient: in forward each gets a hook, and the
    bucket is emptied when the last has run."""
    hooks_left: int = 0
    """Hooks that FSDP still counts on. Below zero where forward ran several times before one
    backward: it starts counting anew each time."""
    without_gradient: tuple[MissingGradient, ...] = ()
    """The parameters whose hooks those are; empty where that is not certain."""
    made: tuple[Frame, ...] = ()
    """Where the program made the bucket (wrapped the module), innermost first."""


@dataclass(frozen=True, slots=True)
class FlushRecord:
    """A reduce-scatter bucket was emptied (or asked to be and was not: ``emptied`` False)."""

    sync: int
    """The index of the sync that follows."""
    before: BucketState
    emptied: bool


def ends_step(kind: str, entry: str) -> bool:
    """Whether a sync of this kind and entry (see `SyncRecord`) ends a step."""
    return kind == "step" or entry == "compile"


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """One sync: the lowering and execution of pending live tensors.

    ``index`` counts all syncs of the process from 0. ``step`` counts the syncs that ended a
    step (kind ``step``, or ``compile`` at the region's end) before this one on the same
    rank, so an ``.item()`` in step 3 has step 3 too.
    """

    index: int
    step: int
    rank: int
    time: float
    """Unix time in seconds at the start of the call."""
    seconds: float
    """Wall time inside the call."""
    kind: str
    """``step`` (``torch_xla.sync``, ``mark_step``, loaders), ``value`` (``.item()``, printing,
    control flow), ``dynamo``, ``compile`` (``torch_xla.compile``) or ``other``."""
    entry: str
    """What was called: ``sync``, ``optimizer_step``, ``parallel_loader``, ``profiler_step``,
    ``item``, ``__bool__``, ``warm_up``, ..., or ``unseen``: counters moved between hooks."""
    outcome: str
    """``compile``, ``hit``, ``empty`` (nothing pending) or ``unknown``."""
    compile_seconds: float
    graphs: tuple[str, ...]
    """Digests of the modules that this sync ran; on a hit as far as known."""
    graph_is_inferred: bool
    """True when the digest of a hit was concluded from its fingerprint, not observed."""
    fingerprint: tuple[int, ...]
    """Cheap measures of the synced graph (IR nodes, aliases); equal graphs have equal ones."""
    call_site: tuple[Frame, ...]
    """Innermost first; frames of torch, torch_xla and xlagraph are left out."""
    live_tensors: tuple[LiveTensor, ...]
    """Empty below level 2."""
    buckets: tuple[BucketState, ...]
    """Reduce-scatter buckets that still hold tensors as the sync starts."""

    @property
    def ends_step(self) -> bool:
        """Whether the step counter moves on with it."""
        return ends_step(self.kind, self.entry)


@dataclass(frozen=True, slots=True)
class ParameterTensor:
    """Which tensor an HLO parameter is, when capture could tell."""

    index: int
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """A module that this process compiled; equal text under two cache keys has two records."""

    digest: str
    """Hex BLAKE2b-128 of the module's text without metadata, before format 4 of the whole text."""
    sync: int
    """Index of the sync that compiled it."""
    module: str
    """The module's own name, as in its header."""
    bytes: int
    key: tuple[tuple[str, str], ...]
    """Cache key and its components as far as known: ``graph_hash`` (the key itself),
    ``computation_hash``, ``inputs``, ``outputs``; on armed steps ``live_tensors`` (their ids,
    in output order), ``live_tensors_agree`` (``True``: they are the module's outputs),
    ``root_hashes`` and ``shardings`` (of each output; ``-``: not known). Digests of what the
    header says of ``parameters`` (shapes in order) and ``donors`` (aliases and donors), and of
    XLA's ``flags``; the ``device``."""
    parameters: tuple[ParameterTensor, ...]
    outputs: tuple[Tensor | None, ...]
    """The tensor that each output becomes, None where that is not known."""


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """Something the reader of a run should know: dropped data, a hook switched off."""

    sync: int
    what: str
    detail: str


AROUND = 2
"""Lines before and after one of the program that are stored with it."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """Lines of a file of the program, as it was when the run refers to one of them."""

    file: str
    """As frames call it."""
    first: int
    """Number of the first of the lines, from 1."""
    lines: tuple[str, ...]
    """Without their ends, and cut where they are very long."""
    line: int = 0
    """The one at which a step ended, where it stands in a loop of its function; else 0."""
    loop: int = 0
    """The line that the innermost such loop begins with."""


@dataclass(frozen=True, slots=True)
class SettingRecord:
    """A statement of the program that sets an option of a layer or a parameter."""

    file: str
    """As frames call it."""
    line: int
    function: str
    option: str
    """``momentum``, ``training`` or ``requires_grad``; ``padding`` to the longest of a batch;
    ``joined`` to one tensor in a collate function; ``cut`` to a drawn length; ``hook``, which is
    attached, and ``collects`` if it fills a list; ``untyped`` if a tensor gets its dtype there from
    values; ``layerdrop``, a share of layers that a model leaves out; ``configuration``, of a
    model."""
    value: str = ""
    """To which constant, as Python writes it; empty where it is computed. Joined: the axis; a
    hook: the name of its function; a tensor: its name; a configuration: that of its class."""


EARLIER_COMPILES = "earlier compiles"
"""What the note is called that says: the process compiled before the capture began."""
NO_END = "no end"
"""What the note is called that a reader adds to records that stop where a process was killed."""
FORMAT_WITH_END = 2
"""From this format on a process that ends says so in its last line."""
EXCEPTION = "exception"
"""What the note is called that names the exception which ended the program, or the capture."""
LIMIT = "limit"
"""What the note is called that says: the bound on bytes is near, hits are recorded no more."""
NO_GRAPH = "no graph"
"""What the note is called that says why a compile has left no module."""
PERSISTENT_CACHE = "persistent cache"
"""What the note is called that says: graphs came from torch_xla's own cache on disk."""

Record = (
    ProcessRecord
    | SyncRecord
    | GraphRecord
    | FlushRecord
    | NoteRecord
    | SourceRecord
    | SettingRecord
)
