"""What an explanation is: causes with evidence and proof, and what stays unexplained."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.verdict import NOWHERE
from xlagraph.diff.known import KnownTensors
from xlagraph.message import EMPTY, A, B, Code, Message, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.canon.labels import Level
    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.verdict import Place, Verdict
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import HloName, SourceLine
    from xlagraph.tensors import Holder, Tensor

    Member = Tensor | HloName | str
    """A tensor in a bucket: by its name, by the instruction that made it, or by its shape."""


AROUND = 2
"""Lines of the program shown before and after one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line that supports a cause, with the instructions it cites."""

    text: Message
    a: tuple[int, ...] = ()
    """Instructions of module A."""
    b: tuple[int, ...] = ()
    """Instructions of module B."""
    sources: tuple[SourceLine, ...] = ()

    def named(self, a: str, b: str) -> Evidence:
        """The same with both modules called by name."""
        return replace(self, text=self.text.named(a, b))


class Seen(NamedTuple):
    """A number that Python computes: what is known for choosing one that is large enough."""

    name: str
    """What the number is called."""
    most: int
    """The largest that was seen."""
    room: int
    """The smallest size of the dimension that it is a part of."""

    @property
    def message(self) -> Message:
        """A sentence about the number, and what taking all costs."""
        if self.most > self.room:
            return say(
                Code(self.name),
                f" was at most {self.most:,}; some steps have only {self.room:,} to "
                "take from, and each size of that compiles as well: pad it.",
            )
        seen = (
            say(f" was up to {self.most:,}, which is all there are. ")
            if self.most == self.room
            else say(
                f" was at most {self.most:,} so far: a smaller k_max than {self.room:,} is faster, "
                "if ",
                Code(self.name),
                " never exceeds it. ",
            )
        )
        return say(
            Code(self.name),
            seen,
            "Divide averages by ",
            Code(self.name),
            "; sums stay, and a softmax needs float('-inf') in place of 0.",
        )

    def joined(self, other: Seen) -> Seen:
        """Of two pairs of graphs what holds for both."""
        return Seen(self.name, max(self.most, other.most), min(self.room, other.room))


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One coalesced collective as a row of its tensors."""

    instruction: int
    opcode: str
    tensors: tuple[Member, ...]
    shapes: tuple[str, ...]
    carried: tuple[bool, ...]
    """Whether each tensor came in as a parameter, that is from an earlier step."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A named reason for a difference."""

    kind: Kind
    title: Message
    """One sentence, without a capital letter and a full stop."""
    evidence: tuple[Evidence, ...]
    fix: Message
    share: float
    """Part of the differing instructions that this cause accounts for, 0 to 1."""
    proved: bool
    """Undoing this cause, with the others, made the modules equal."""
    proof: Message
    """What was undone, in words."""
    expected: bool
    """Part of a normal warm-up rather than a problem."""
    a: frozenset[int]
    b: frozenset[int]
    """The instructions of A and of B that it accounts for."""
    short: Message = EMPTY
    """What happened in at most ten words; empty: `Kind.short`."""
    short_fix: Message = EMPTY
    """What to change in at most twelve words; empty: `Kind.short_fix`."""
    effect: Message = EMPTY
    """What it does to the training beside the time, where that is known: one sentence."""
    place: Place = NOWHERE
    seen: Seen | None = None
    """How large the number was that Python computes, where a largest one is to be chosen."""
    is_exact: bool = False
    """It changes no value: see `Finding.is_exact`."""
    is_neutral: bool = False
    """It changes no value but for rounding: see `Finding.is_neutral`."""

    @property
    def in_short(self) -> Message:
        """What happened in at most ten words, without a full stop."""
        return self.short or say(self.kind.short or self.kind.title)

    @property
    def fix_in_short(self) -> Message:
        """What to change in at most twelve words."""
        return self.short_fix or say(self.kind.short_fix or self.kind.fix)

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The source lines of the first evidence that has any."""
        return next((e.sources for e in self.evidence if e.sources), ())

    def named(self, a: str, b: str) -> Cause:
        """The same with both modules called by name."""
        return replace(
            self,
            title=self.title.named(a, b),
            evidence=tuple(one.named(a, b) for one in self.evidence),
            fix=self.fix.named(a, b),
            proof=self.proof.named(a, b),
            short=self.short.named(a, b),
            place=self.place.named(a, b),
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """The outputs that a proof sets aside, by position, and how many the modules have."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    outputs_a: int
    outputs_b: int

    @property
    def sets_aside(self) -> bool:
        """Whether the proof compares less than everything."""
        return bool(self.a or self.b)

    @property
    def compared(self) -> Message:
        """``31 of 85 outputs``; empty where it compares everything."""
        if not self.sets_aside:
            return say()
        kept = self.outputs_a - len(self.a)
        if self.outputs_a == self.outputs_b:
            return say(f"{kept} of {self.outputs_a} outputs")
        return say(f"{kept} of ", A, f"'s {self.outputs_a} and ", B, f"'s {self.outputs_b} outputs")


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why B is another module than A."""

    diff: Diff
    same: bool
    """The same computation; two versions of a program may hand out their outputs in any order, and
    compute the same values in another way (`evaluated`)."""
    verdict: Verdict
    causes: tuple[Cause, ...]
    """Largest share first."""
    unexplained_a: tuple[int, ...]
    unexplained_b: tuple[int, ...]
    left: Place
    """The line that all of them were called from, as far as one is known."""
    proved: bool
    """All causes undone, the modules are the same computation."""
    scope: Scope
    compared: Message
    """The outputs that the proof compares, in words; empty for all."""
    level: Level
    """At which the instructions were paired."""
    buckets_a: tuple[BucketRow, ...]
    buckets_b: tuple[BucketRow, ...]
    evaluated: int = 0
    """At how many random inputs both gave the same values, where the verdict tells of that."""

    @property
    def unexplained_share(self) -> float:
        """Part of the differing instructions that no cause accounts for, 0 to 1."""
        total = self.diff.differing
        left_b = set(self.unexplained_b)
        left_a = set(self.unexplained_a)
        pairs = sum(1 for c in self.diff.changes if c.a in left_a and c.b in left_b)
        return (len(left_a) + len(left_b) - pairs) / total if total else 0.0

    def instruction(self, side: str, number: int) -> tuple[str, str]:
        """Name and opcode of an instruction; `side` is ``a`` or ``b``."""
        module = self.diff.a if side == "a" else self.diff.b
        return module.names[number], module.opcodes[number]

    def named(self, a: str, b: str) -> Explanation:
        """The same with both modules called by name in every sentence."""
        return replace(
            self,
            verdict=self.verdict.named(a, b),
            compared=self.compared.named(a, b),
            causes=tuple(cause.named(a, b) for cause in self.causes),
        )


class Setting(NamedTuple):
    """A statement of the program that sets an option of a layer or a parameter."""

    line: SourceLine
    option: str
    """``momentum``, ``training`` or ``requires_grad``; ``padding`` to the longest of a batch."""
    value: str
    """To which constant, as Python writes it; empty where it is computed."""


@dataclass(frozen=True, slots=True)
class MissingGradient:
    """A parameter whose gradient an FSDP module waits for, and backward did not give."""

    tensor: Tensor
    shape: str
    owner_class: str
    """Class of the module whose own parameter it is."""
    defined: SourceLine | None
    """Where that class's ``__init__`` begins."""


@dataclass(frozen=True, slots=True)
class UnfinishedBackward:
    """An FSDP module that has not emptied its bucket as the sync began: hooks have not run."""

    module: str
    """Its path from the root, ``root`` for the root itself."""
    hooks: int
    hooks_left: int
    """Below zero where forward ran several times before one backward."""
    missing: tuple[MissingGradient, ...]
    """Empty where it is not certain which parameters got no gradient."""
    made: SourceLine | None
    """Where the program wrapped the module."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a capture knows of one module beyond its text; empty for a bare file."""

    parameters: Mapping[int, Tensor] = field(default_factory=dict)
    """Parameter number to tensor."""
    outputs: Mapping[int, Tensor] = field(default_factory=dict)
    """Output position to tensor."""
    created: Mapping[int, SourceLine] = field(default_factory=dict)
    """Output position to the line that made the live tensor."""
    holders: Mapping[int, tuple[Holder, ...]] = field(default_factory=dict)
    """Output position to what keeps the live tensor in Python."""
    sync_kind: str = ""
    call_site: SourceLine | None = None
    flushed: tuple[tuple[Member, ...], ...] = ()
    """The tensors of each bucket that was emptied before the sync, in order of emptying."""
    waiting: tuple[Member, ...] = ()
    """Tensors that sat in buckets as the sync began."""
    unfinished: tuple[UnfinishedBackward, ...] = ()
    """FSDP modules that keep tensors in their buckets because hooks of theirs have not run."""
    key: Mapping[str, str] = field(default_factory=dict)
    """Cache-key components."""
    argv: tuple[str, ...] = ()
    """The captured program and its arguments."""
    stacks: Mapping[SourceLine, tuple[SourceLine, ...]] = field(default_factory=dict)
    """The frames around lines that this capture tells of, innermost first."""
    program: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Lines of the program's files by number, as far as they were stored with the run."""
    settings: tuple[Setting, ...] = ()
    """The statements of the program that set options of layers and parameters."""

    def around(self, line: SourceLine | None, first: int = 0) -> tuple[tuple[int, str], ...]:
        """A line of the program with those around it; empty where it was not stored.

        `first`: a line before it that is to be among them.
        """
        texts = self.program.get(line.file, {}) if line else {}
        if line is None or line.line not in texts:
            return ()
        begin = min(line.line - AROUND, first or line.line)
        near = range(begin, line.line + AROUND + 1)
        return tuple((number, texts[number]) for number in near if number in texts)

    def names(self, module: Module) -> KnownTensors:
        """The tensors that inputs and outputs of this module are known to be."""
        entry = {p: self.input_tensor(module, p) for p in module.entry_computation.parameters}
        inputs = {p: tensor for p, tensor in entry.items() if tensor}
        values = Counter(module.outputs)
        outputs = {
            module.outputs[k]: tensor
            for k, tensor in self.outputs.items()
            if k < len(module.outputs) and values[module.outputs[k]] == 1
        }
        return KnownTensors(inputs, {i: t for i, t in outputs.items() if i not in entry})

    def input_tensor(self, module: Module, parameter: int) -> Tensor | None:
        """The tensor that this parameter of the entry computation is; None if not known.

        An input that `xlagraph.cause.editor` made has no number, and no tensor either.
        """
        number = module.payloads[parameter]
        return self.parameters.get(int(number)) if number.isdecimal() else None
