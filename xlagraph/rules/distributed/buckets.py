"""Bucketed collectives whose tensors move, or are carried over the step.

FSDP's ``reduce_scatter_bucket_size_mb`` collects gradients and reduces a bucket when it is
full (pytorch/xla issue 4160). Callbacks that outlive backward leave gradients for the next
step: they become outputs of this module and parameters of the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import where
from xlagraph.facts.distributed.bucket_tensors import bucket_tensors
from xlagraph.facts.distributed.bucket_words import extents, filled, moves, side_evidence
from xlagraph.facts.distributed.buckets import (
    MAX_STEPS,
    bucket_rows,
    chain,
    lone_rows,
    near_buckets,
    origin,
    reach,
)
from xlagraph.facts.distributed.kept_parameters import kept_evidence
from xlagraph.facts.distributed.unfinished import (
    missing_gradients,
    unfinished_effect,
    unfinished_evidence,
    unfinished_fix,
    unfinished_in_short,
    unfinished_short_fix,
)
from xlagraph.message import EMPTY, A, B, Message, count, join, say
from xlagraph.rules.effects.effect_order import EFFECT_ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.cause.model import BucketRow, Member
    from xlagraph.graph import Module
    from xlagraph.message import Side

    Rows = Sequence[BucketRow]
    Identities = Sequence[Sequence[tuple[object, ...]]]

BUCKET_CARRY = Kind(
    id="bucket-carry",
    title="Buckets carry tensors over the step",
    section=Section.COLLECTIVES,
    meaning="A bucketed reduce-scatter (FSDP with reduce_scatter_bucket_size_mb), all-gather or "
    "all-reduce collects tensors during backward and runs when the bucket is full. What is still "
    "in a bucket as the step ends waits for the next one (pytorch/xla issue 4160): it is an output "
    "of this graph, an input of the next, and the next bucket fills at another place. The step's "
    "graph changes from step to step until the pattern repeats, if it does.",
    before="""\
options = {"reduce_scatter_bucket_size_mb": 0.03, "pin_layout_in_collective_ops": False}
net = nn.Sequential(FSDP(block0, **options), FSDP(block1, **options), head)
net.scale = nn.Parameter(torch.ones(64, device="xla"))  # nobody uses it: it gets no gradient,
model = FSDP(net, **options)  # and FSDP waits for it before it flushes the last bucket
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in loader:
    update(model(x.repeat(1, 4)).pow(2).mean())
""",
    after="""\
options = {"reduce_scatter_bucket_size_mb": 0.03, "pin_layout_in_collective_ops": False}
net = nn.Sequential(FSDP(block0, **options), FSDP(block1, **options), head)
model = FSDP(net, **options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in loader:
    update(model(x.repeat(1, 4)).pow(2).mean())
""",
    evidence="Each bucket with its tensors, which of them are left over from an earlier step, and "
    "the callbacks that waited as the step ended; from a capture, the hooks that FSDP still "
    "waits for and the parameters that got no gradient. Outputs that stand elsewhere because of it "
    "belong to it.",
    fix="Flush the bucket at the end of every backward, so that no gradient waits for the next "
    "step (in FSDP: when the last post-backward hook has run), or set "
    "reduce_scatter_bucket_size_mb=0.",
    proof="Where both modules have buckets, what each tensor becomes is made one operation on it "
    "(a parameter of both, where one side has tensors that the other does not reduce), tokens "
    "and barriers are taken away, and outputs of what only one side reduces are left out. Where "
    "one module has none, outputs that pass through a bucket, or wait for one, are left out, "
    "not compared.",
    examples=("carry",),
    anywhere=True,
    consequences=("output-order", "bucket-carry", "live-tensor"),
    entails=("optimizer-state", "newly-updated", "live-tensor", "output-order"),
    short="Buckets keep gradients until the next step",
    short_fix="Empty the bucket after every backward, or set reduce_scatter_bucket_size_mb=0.",
)
BUCKET_COMPOSITION = Kind(
    id="bucket-composition",
    title="Buckets hold other tensors, or the same ones in another order",
    section=Section.COLLECTIVES,
    meaning="The buckets of a collective are filled otherwise, though nothing is carried over the "
    "step: another capacity, other gradients present, gradients that become ready in another "
    "order.",
    before="""\
model = FSDP(model, reduce_scatter_bucket_size_mb=1, pin_layout_in_collective_ops=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step, (x, y) in enumerate(loader):
    model.reduce_scatter_op.bucket_size_bytes = 2600 if step % 4 == 3 else 520
    update(model(x).pow(2).mean())
""",
    after="""\
model = FSDP(model, reduce_scatter_bucket_size_mb=1, pin_layout_in_collective_ops=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in loader:
    update(model(x).pow(2).mean())
""",
    evidence="Each bucket with its tensors, and the places of those that moved.",
    fix="Fill the buckets in the same order in every step: fixed parameter order, same set of "
    "gradients.",
    proof="Other tensors: as for bucket-carry, where a collective of a single tensor is a bucket "
    "of one if only one side has buckets. Another order: what each tensor becomes is made a "
    "parameter on both sides.",
    examples=("bucket_size", "buckets_or_alone"),
    anywhere=True,
    short="Buckets hold other gradients than before",
    short_fix="Fill the buckets in the same order in every step.",
)
SIZE_FIX = say(
    "Reduce in buckets in every step or in none: one reduce_scatter_bucket_size_mb for the whole "
    "program."
)


def find(case: Case) -> list[Finding]:
    """Buckets with other tensors than in the other module, or in another order."""
    rows_a, rows_b, ids_a, ids_b = _buckets_of(case)
    if list(map(Counter, ids_a)) == list(map(Counter, ids_b)):
        return [] if ids_a == ids_b else [_order_finding(case, (rows_a, rows_b), (ids_a, ids_b))]
    rows = _other_tensors(rows_a, rows_b)
    return [_set_aside(case, _Told.of(case, *rows), *rows)] if rows else []


def find_by_tensor(case: Case) -> list[Finding]:
    """The same, where other tensors in buckets can be undone one by one."""
    rows_a, rows_b, ids_a, ids_b = _buckets_of(case)
    if list(map(Counter, ids_a)) == list(map(Counter, ids_b)):
        return find(case)
    if not _other_tensors(rows_a, rows_b):
        return []
    opcodes = {row.opcode for row in (*rows_a, *rows_b)}
    one_by_one_a = rows_a or lone_rows(case.diff.a, case.a.context, opcodes)
    one_by_one_b = rows_b or lone_rows(case.diff.b, case.b.context, opcodes)
    told = _Told.of(case, rows_a, rows_b)
    if one_by_one_a and one_by_one_b and not (rows_a and rows_b):
        told = told.with_lone(one_by_one_a, one_by_one_b, alone=B if rows_a else A)
    return [_undone_singly(case, told, one_by_one_a, one_by_one_b)]


def _other_tensors(rows_a: Rows, rows_b: Rows) -> tuple[Rows, Rows] | None:
    """The buckets of both modules, if they take other tensors."""
    is_other = list(map(filled, rows_a)) != list(map(filled, rows_b))
    return (rows_a, rows_b) if is_other else None


def _buckets_of(case: Case) -> tuple[Rows, Rows, Identities, Identities]:
    rows_a = bucket_rows(case.diff.a, case.a.context)
    rows_b = bucket_rows(case.diff.b, case.b.context)
    return (
        rows_a,
        rows_b,
        [_identities(case.a, row) for row in rows_a],
        [_identities(case.b, row) for row in rows_b],
    )


def _identities(view: SideView, row: BucketRow) -> list[tuple[object, ...]]:
    """The tensors of a bucket, comparable between the modules: by partner, else by kind."""
    found: list[tuple[object, ...]] = []
    operands = view.module.operands[row.instruction]
    for o, shape, carried in zip(operands, row.shapes, row.carried, strict=True):
        i = origin(view.module, o)
        partner = view.partners[i]
        in_b = partner if view.is_a else i
        found.append((row.opcode, shape, carried, in_b if partner >= 0 else -1))
    return found


def _order_finding(
    case: Case, rows: tuple[Rows, Rows], ids: tuple[Identities, Identities]
) -> Finding:
    """The same tensors in every bucket, in another order."""
    a, b = case.diff.a, case.diff.b
    results: list[tuple[list[int], list[int]]] = []
    evidence = []
    for number, (row_a, row_b) in enumerate(zip(*rows, strict=True)):
        first, second = ids[0][number], ids[1][number]
        if first == second:
            continue
        places: dict[object, list[int]] = {}
        for k in reversed(range(len(second))):
            places.setdefault(second[k], []).append(k)
        moves = [(k, places[identity].pop()) for k, identity in enumerate(first)]
        results += [
            (_results(a, row_a.instruction, j), _results(b, row_b.instruction, k)) for j, k in moves
        ]
        moved = [say(row_a.tensors[j], f": place {j} -> {k}") for j, k in moves if j != k]
        evidence.append(
            Evidence(
                say(f"bucket {number + 1}: ", join(moved)),
                (row_a.instruction,),
                (row_b.instruction,),
                where(b, [row_b.instruction]),
            )
        )

    def undo(edit: Editors) -> None:
        for in_a, in_b in results:
            if in_a and in_b:
                edit.a.become_parameter(in_a, edit.a.shapes[in_a[0]])
                edit.b.become_parameter(in_b, edit.b.shapes[in_b[0]])

    opcode = rows[1][0].opcode
    return Finding(
        kind=BUCKET_COMPOSITION,
        title=say(
            f"{count(len(evidence), f'{opcode} bucket')} "
            f"{'takes' if len(evidence) == 1 else 'take'} the same tensors in another order"
        ),
        evidence=tuple(evidence),
        proof=say(f"what each tensor becomes in its {opcode} was made a parameter on both sides"),
        a=frozenset(i for e in evidence for i in e.a).union(*(x for x, _ in results)),
        b=frozenset(i for e in evidence for i in e.b).union(*(y for _, y in results)),
        undo=undo,
    )


def _results(module: Module, bucket: int, place: int) -> list[int]:
    """What picks the element at `place` out of a bucket's result."""
    index = str(place)
    return [
        u
        for u in module.users[bucket]
        if module.opcodes[u] == "get-tuple-element" and module.attributes[u].get("index") == index
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """Other tensors in the buckets, in words."""

    kind: Kind
    opcode: str
    title: Message
    evidence: tuple[Evidence, ...]
    fix: Message = EMPTY
    short: Message = EMPTY
    short_fix: Message = EMPTY
    effect: Message = EMPTY

    @classmethod
    def of(cls, case: Case, rows_a: Rows, rows_b: Rows) -> _Told:
        pending_a = _pending(case.a, case.b, rows_b)
        pending_b = _pending(case.b, case.a, rows_a)
        is_carried = bool(pending_a or pending_b) or _carried(rows_a) != _carried(rows_b)
        opcode = (rows_b or rows_a)[0].opcode
        if not is_carried and _in_turn(case, rows_a, rows_b):
            return cls._of_order(case, opcode, rows_a, rows_b)
        what = _carry(case) if is_carried else say("are composed differently")
        extent = extents(rows_a, rows_b)
        is_known = is_carried and bool(missing_gradients(case))
        return cls(
            kind=BUCKET_CARRY if is_carried else BUCKET_COMPOSITION,
            opcode=opcode,
            title=say(
                f"{opcode} buckets ",
                what,
                *(() if is_known else (": ", extent)),
            ),
            fix=unfinished_fix(case) if is_carried else EMPTY,
            short=unfinished_in_short(case) if is_carried else EMPTY,
            short_fix=unfinished_short_fix(case) if is_carried else EMPTY,
            effect=unfinished_effect(case) if is_carried else EMPTY,
            evidence=(
                *(unfinished_evidence(case) if is_carried else ()),
                *((Evidence(extent),) if is_known else ()),
                *side_evidence(case.a, rows_a, pending_a),
                *side_evidence(case.b, rows_b, pending_b),
                *moves(rows_a, rows_b),
            ),
        )

    @classmethod
    def _of_order(cls, case: Case, opcode: str, rows_a: Rows, rows_b: Rows) -> _Told:
        number = f"{len(rows_a)} {opcode}s"
        return cls(
            kind=EFFECT_ORDER,
            opcode=opcode,
            title=say(f"{number} of the same tensors come in another order"),
            evidence=(*side_evidence(case.a, rows_a, []), *side_evidence(case.b, rows_b, [])),
        )

    def with_lone(self, rows_a: Rows, rows_b: Rows, *, alone: Side) -> _Told:
        """Where one module reduces its tensors one by one: rows of one tensor each."""
        lone, buckets = (rows_a, rows_b) if alone is A else (rows_b, rows_a)
        number = sum(len(row.tensors) for row in buckets)
        return replace(
            self,
            title=say(
                f"{self.opcode} buckets in ",
                alone.other,
                " only: ",
                alone,
                f" reduces {count(len(lone), 'tensor')} one by one, ",
                alone.other,
                f" {number} in {count(len(buckets), 'bucket')}",
            ),
            fix=SIZE_FIX,
            short=say("Gradients are reduced in buckets in some steps only"),
            short_fix=say("Use one reduce_scatter_bucket_size_mb for the whole program."),
        )


def _undone_singly(case: Case, told: _Told, rows_a: Rows, rows_b: Rows) -> Finding:
    tensors = bucket_tensors(case, (rows_a, rows_b))
    return Finding(
        kind=told.kind,
        title=told.title,
        evidence=(*told.evidence, *kept_evidence(case, tensors.kept)),
        fix=told.fix,
        short=told.short,
        short_fix=told.short_fix,
        effect=told.effect,
        proof=tensors.proof(),
        a=tensors.claimed(A),
        b=tensors.claimed(B),
        dropped_a=tensors.a.dropped,
        dropped_b=tensors.b.dropped,
        undo=tensors.undo,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Reach:
    """What the buckets of one module touch."""

    depends: bytearray
    """One byte an instruction: 1 where it is or depends on a bucket."""
    near: frozenset[int]
    """The instructions on the way into the buckets, and into what is updated with them."""

    @classmethod
    def of(cls, module: Module, rows: Rows) -> _Reach:
        starts = [row.instruction for row in rows]
        return cls(reach(module, starts), frozenset(near_buckets(module, rows)))

    def instructions(self, module: Module) -> set[int]:
        """What depends on a bucket."""
        root = module.entry_computation.root
        return {i for i, flag in enumerate(self.depends) if flag and i != root}


def _set_aside(case: Case, told: _Told, rows_a: Rows, rows_b: Rows) -> Finding:
    """Outputs that pass through buckets are left out of the comparison."""
    a, b = case.diff.a, case.diff.b
    reach_a, reach_b = _Reach.of(a, rows_a), _Reach.of(b, rows_b)
    dropped_a = _bucket_outputs(case, case.a, reach_a, reach_b)
    dropped_b = _bucket_outputs(case, case.b, reach_b, reach_a)
    return Finding(
        kind=told.kind,
        title=told.title,
        evidence=told.evidence,
        fix=told.fix,
        short=told.short,
        short_fix=told.short_fix,
        effect=told.effect,
        proof=say(
            f"{count(len(dropped_a), 'output')} of ",
            A,
            f" and {count(len(dropped_b), 'output')} of ",
            B,
            f" that pass through these {told.opcode}s, or wait for one, were left out, "
            "not compared",
        ),
        a=frozenset(exclusive_slice(a, dropped_a) | reach_a.instructions(a)),
        b=frozenset(exclusive_slice(b, dropped_b) | reach_b.instructions(b)),
        dropped_a=frozenset(dropped_a),
        dropped_b=frozenset(dropped_b),
    )


def _bucket_outputs(case: Case, view: SideView, own: _Reach, other: _Reach) -> set[int]:
    """Outputs that depend on a bucket, or that the other side puts into one."""
    found = set()
    values = view.module.outputs
    for slot in case.diff.outputs:
        k, paired = view.own(slot), view.theirs(slot)
        if k is None:
            continue
        value = values[k]
        waits = value in own.near or view.partners[value] in other.near
        if own.depends[value] or (waits and paired is None):
            found.add(k)
    return found


def _carry(case: Case) -> Message:
    tensors = missing_gradients(case)
    if not tensors:
        return say("carry tensors over the step")
    get = "gets" if len(tensors) == 1 else "get"
    return say("carry tensors over the step, as ", join(tensors, 1), f" {get} no gradient")


def _in_turn(case: Case, rows_a: Rows, rows_b: Rows) -> bool:
    """Whether both sides have the same buckets, one after the other in another order.

    Numbers in them, such as the token that chains collectives, tell nothing.
    """
    found = []
    for view, rows in ((case.a, rows_a), (case.b, rows_b)):
        ids = [
            [one for one in _identities(view, row) if not str(one[1]).endswith("[]")]
            for row in rows
        ]
        if any(one[-1] == -1 for row in ids for one in row):
            return False
        found.append(Counter(frozenset(row) for row in ids))
    return len(rows_a) > 1 and found[0] == found[1]


def _carried(rows: Rows) -> Counter[str]:
    """The shapes of tensors left over from an earlier step."""
    pairs = (pair for row in rows for pair in zip(row.shapes, row.carried, strict=True))
    return Counter(shape for shape, carried in pairs if carried)


def _pending(one: SideView, other: SideView, rows: Rows) -> list[Message]:
    """Outputs of one side that the other side puts into a bucket in the same step."""
    names: dict[int, Member] = {
        i: name
        for row in rows
        for o, name in zip(other.module.operands[row.instruction], row.tensors, strict=True)
        for i in chain(other.module, o)[:MAX_STEPS]
    }
    found = []
    taken: set[Member] = set()
    for k, value in enumerate(one.module.outputs):
        name = names.get(one.partners[value])
        if name and name not in taken:
            taken.add(name)
            shape = bare_shape(one.module, value)
            found.append(say(one.context.outputs.get(k) or name, f" ({shape})"))
    return found


RULE = Rule(
    name="buckets",
    kinds=(BUCKET_CARRY, BUCKET_COMPOSITION),
    find=find,
    after=("sharding",),
    stricter=find_by_tensor,
)
