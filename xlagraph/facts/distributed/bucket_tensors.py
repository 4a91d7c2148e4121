"""Buckets undone tensor by tensor: what each tensor becomes is one operation on it alone.

torch_xla ties collectives to an order: each adds a token, made from the results of those before,
to what it takes in, and FSDP puts optimization barriers around what must not move. With other
tensors in the buckets both look different everywhere. Here they are taken away first; then the
results of the buckets are paired by what uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from xlagraph.canon.barriers import BARRIER, passed_values
from xlagraph.cause.editor import ModuleEditor, is_input
from xlagraph.cause.slices import exclusive_slice
from xlagraph.diff import diff_modules
from xlagraph.facts.distributed.buckets import BUCKETED, near_buckets, origin, reach
from xlagraph.facts.distributed.kept_parameters import accounted, kept_parameters
from xlagraph.facts.training.updates import at_zero
from xlagraph.message import A, Message, count, say

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.cause.model import BucketRow
    from xlagraph.diff import Diff
    from xlagraph.facts.distributed.kept_parameters import Kept
    from xlagraph.graph import Module
    from xlagraph.message import Side
    from xlagraph.tensors import Tensor


ORDER_AWAY = say("barriers and tokens, which only order collectives, were taken away")
"""What `take_away_order` does, at the end of a proof in words."""


@dataclass(frozen=True, slots=True, eq=False)
class SideTensors:
    """What the buckets of one module give back, its order of collectives taken away."""

    side: Side
    made: Mapping[int, int]
    """What picks a tensor out of a bucket's result, to where that tensor was made."""
    lone: frozenset[int]
    """Those results that the other module has not."""
    zeros: frozenset[int]
    """Instructions that are zero where the lone results with known names are."""
    left: Mapping[int, int]
    """Sums with such zeros, to the other summand."""
    dropped: frozenset[int]
    """Outputs to be set aside."""
    claimed: frozenset[int]
    """The instructions that undoing changes, or makes needless."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketTensors:
    """The tensors in the buckets of both modules, paired."""

    a: SideTensors
    b: SideTensors
    pairs: tuple[tuple[int, int], ...]
    """Results of the same tensor."""
    alike: frozenset[int]
    """A's results whose tensor is made in the same way on both sides."""

    kept: tuple[Kept, ...]
    """Full parameters that one side alone takes in ready-made."""

    def undo(self, edit: Editors) -> None:
        """Makes one operation of what happens to each tensor, or a parameter of both."""
        for one in (self.a, self.b):
            take_away_order(edit[one.side])
            edit[one.side].replace_uses(one.left)
        for x, y in self.pairs:
            if x in self.alike:
                edit.a.become_undone(x, [self.a.made[x]])
                edit.b.become_undone(y, [self.b.made[y]])
            else:
                edit.a.become_parameter([x], edit.a.shapes[x])
                edit.b.become_parameter([y], edit.b.shapes[y])
        for kept in self.kept:
            kept.undo(edit)

    def claimed(self, side: Side) -> frozenset[int]:
        """What is accounted for on one side."""
        own = self.a if side is A else self.b
        return own.claimed | accounted(self.kept, side)

    def proof(self) -> Message:
        """What `undo` does, in words."""
        became = "one operation on each" if self.alike else "parameters"
        tensors = count(len(self.pairs), "tensor")
        parts: list[str] = []
        if self.pairs:
            parts.append(f"what {tensors} become in the buckets of both was made {became}")
        added = sum(len(one.lone & one.zeros) for one in (self.a, self.b))
        dropped = len(self.a.dropped) + len(self.b.dropped)
        if added:
            parts.append(f"{added} that one side adds to them taken to be zero")
        if dropped:
            number = count(dropped, "output")
            parts.append(f"{number} of what only one side reduces, or that wait, left out")
        if self.kept:
            number = count(len(self.kept), "kept parameter")
            parts.append(f"{number} taken for what the other side gathers")
        return say(", ".join(parts), "; " if parts else "", ORDER_AWAY)


def bucket_tensors(
    case: Case, rows: tuple[Sequence[BucketRow], Sequence[BucketRow]]
) -> BucketTensors:
    """Pairs what both modules' buckets give back, tensor by tensor."""
    opened = without_order(case)
    made_a, made_b = _results(opened.a, rows[0]), _results(opened.b, rows[1])
    names_a = _input_tensors(case, opened.a, case.a, made_a)
    names_b = _input_tensors(case, opened.b, case.b, made_b)
    pairs = _paired(opened, made_a, made_b, names_a, names_b)
    lone_a = frozenset(made_a.keys() - {x for x, _ in pairs})
    lone_b = frozenset(made_b.keys() - {y for _, y in pairs})
    is_whole = not (lone_a or lone_b)  # else one of several tensors of a shape may be mistaken
    to_b = opened.match.to_b
    near = [near_buckets(view.module, r) for view, r in zip((case.a, case.b), rows, strict=True)]

    def side(
        view: SideView, made: Mapping[int, int], lone: frozenset[int], named: Collection[int]
    ) -> SideTensors:
        module = view.mine((opened.a, opened.b))
        zeros, left = at_zero(module, lone.intersection(named))  # unnamed ones may be mistaken
        own, other = view.ab(*near)  # this side's first
        dropped = _set_aside(view, opened, lone - zeros, (own, other))
        gone = exclusive_slice(view.module, dropped) | zeros | left.keys()
        carried = {i for i in own if view.module.opcodes[i] == "parameter"}
        claimed = frozenset(order_of(view.module) | gone | carried)
        return SideTensors(
            view.side, made, lone, frozenset(zeros), left, frozenset(dropped), claimed
        )

    return BucketTensors(
        a=side(case.a, made_a, lone_a, names_a),
        b=side(case.b, made_b, lone_b, names_b),
        pairs=tuple(pairs),
        alike=frozenset(x for x, y in pairs if is_whole and to_b[made_a[x]] == made_b[y]),
        kept=tuple(kept_parameters(case, opened)),
    )


def without_order(case: Case) -> Diff:
    """Both modules compared past barriers and tokens, which only order collectives.

    Rules ask for it one after another; it is made once for each difference.
    """
    known = _WITHOUT_ORDER.get(case.diff)
    if known is None:
        known = _WITHOUT_ORDER[case.diff] = _compared_without_order(case)
    return known


_WITHOUT_ORDER: WeakKeyDictionary[Diff, Diff] = WeakKeyDictionary()


def _compared_without_order(case: Case) -> Diff:
    first, second = ModuleEditor(case.diff.a), ModuleEditor(case.diff.b)
    take_away_order(first)
    take_away_order(second)
    a, b = first.build(), second.build()
    return diff_modules(a, b, known=(case.a.context.names(a), case.b.context.names(b)))


def take_away_order(editor: ModuleEditor) -> None:
    """Lets every value pass optimization barriers, and takes all tokens for one."""
    editor.replace_uses(passed_values(editor))
    made = tokens(editor)
    used = {
        o
        for i, operands in enumerate(editor.operands)
        if i not in made
        for o in operands
        if o in made
    }
    if used:
        editor.become_parameter(used, editor.shapes[min(used)])


def tokens(editor: ModuleEditor) -> set[int]:
    """The scalars made of one element of each collective's result, multiplied up."""
    found: set[int] = set()
    for i, operands in enumerate(editor.operands):
        opcode = editor.opcodes[i]
        if opcode == "gather" and editor.shapes[i].endswith("[]"):
            source = operands[0]
            if editor.opcodes[source] == "get-tuple-element":
                source = editor.operands[source][0]
            if editor.opcodes[source] in BUCKETED:
                found.add(i)
        elif opcode == "multiply" and not found.isdisjoint(operands):
            found.add(i)
    return found


def order_of(module: Module) -> set[int]:
    """The buckets' results, the barriers and the tokens: what is undone."""
    editor = ModuleEditor(module)
    picked = set(passed_values(editor))
    barriers = {i for i, opcode in enumerate(module.opcodes) if opcode == BARRIER}
    tuples = {o for i in barriers for o in module.operands[i]}
    made = tokens(editor)
    spread = {u for i in made for u in module.users[i] if module.opcodes[u] == "broadcast"}
    buckets = {i for i, o in enumerate(module.opcodes) if o in BUCKETED}
    users = {u for i in buckets for u in module.users[i]}
    results = {u for u in users if module.opcodes[u] == "get-tuple-element"}
    return picked | barriers | tuples | made | spread | buckets | results


def _input_tensors(
    case: Case, module: Module, view: SideView, made: Mapping[int, int]
) -> dict[int, Tensor]:
    """The tensors that waited, by result, where both modules' parameters have names."""
    if not (case.a.context.parameters and case.b.context.parameters):
        return {}
    inputs = {
        x: view.context.input_tensor(module, i) for x, i in made.items() if is_input(module, i)
    }
    return {x: tensor for x, tensor in inputs.items() if tensor}


def _paired(
    opened: Diff,
    made_a: Mapping[int, int],
    made_b: Mapping[int, int],
    names_a: Mapping[int, Tensor],
    names_b: Mapping[int, Tensor],
) -> list[tuple[int, int]]:
    """Results of the same tensor, identified by where it is made, else by what uses it.

    Tensors that waited are parameters, which are identified by their names where these are known.
    """
    to_b = opened.match.to_b
    by_origin: dict[Tensor | int, list[int]] = {}
    for y, origin_b in made_b.items():
        by_origin.setdefault(names_b.get(y, origin_b), []).append(y)
    pairs = []
    for x, origin_a in made_a.items():
        found = by_origin.get(names_a.get(x, to_b[origin_a]), [])
        if found:
            pairs.append((x, found.pop(0)))
    taken_a, taken_b = {x for x, _ in pairs}, {y for _, y in pairs}
    left = [x for x in made_a if x not in taken_a and to_b[x] in made_b and to_b[x] not in taken_b]
    return pairs + [(x, to_b[x]) for x in left]


def _results(module: Module, rows: Sequence[BucketRow]) -> dict[int, int]:
    """What picks a tensor out of a bucket's result, and where that tensor was made."""
    found = {}
    for row in rows:
        operands = module.operands[row.instruction]
        if not module.shapes[row.instruction].startswith("("):
            found[row.instruction] = origin(module, operands[0])
            continue
        for u in module.users[row.instruction]:
            index = module.attributes[u].get("index") or ""
            if index.isdecimal() and int(index) < len(operands):
                found[u] = origin(module, operands[int(index)])
    return found


def _set_aside(
    view: SideView, opened: Diff, lone: Collection[int], near: tuple[set[int], set[int]]
) -> set[int]:
    """Outputs made from a tensor that only one side reduces, and those that wait.

    `near`: the instructions on the way into this side's buckets, and into the other's.
    """
    own, other = near
    module = view.mine((opened.a, opened.b))
    partners = view.mine((opened.match.to_b, opened.match.to_a))
    reached = reach(module, lone)
    values = module.outputs
    found = set()
    for slot in opened.outputs:
        k, paired = view.own(slot), view.theirs(slot)
        if k is None:
            continue
        waits = values[k] in own or partners[values[k]] in other
        if reached[values[k]] or (waits and paired is None):
            found.add(k)
    return found
