"""Buckets undone tensor by tensor: what each tensor becomes is one operation on it alone.

torch_xla ties collectives to an order: each adds a token, made from the results of those before,
to what it takes in, and FSDP puts optimization barriers around what must not move. With other
tensors in the buckets both look different everywhere. Here they are taken away first; then the
results of the buckets are paired by what uses them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.bucket_rows import BUCKETED, element, lone_rows, origin, reach
from xlagraph.cause.buckets import composition_finding, near_buckets, other_buckets
from xlagraph.cause.draft import Draft, exclusive_slice, is_input
from xlagraph.cause.finding import count
from xlagraph.cause.sides import A, B
from xlagraph.cause.updates import at_zero
from xlagraph.diff import diff_modules
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.finding import Case, Finding
    from xlagraph.cause.model import BucketRow
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

SIZE_FIX = (
    "Reduce in buckets in every step or in none: one reduce_scatter_bucket_size_mb for the whole "
    "program."
)


def bucket_results(case: Case) -> list[Finding]:
    """Other tensors in the buckets of two modules, or buckets in one of them alone."""
    diff = case.diff
    rows = rows_by_tensor(case)
    if rows is None:
        return []
    draft_a, draft_b = Draft(diff.a), Draft(diff.b)
    take_away_order(draft_a)
    take_away_order(draft_b)
    opened = diff_modules(draft_a.build(), draft_b.build())
    made_a, made_b = _results(opened.a, rows[0]), _results(opened.b, rows[1])
    names_a, names_b = _input_names(case, opened, made_a, made_b)
    pairs, lone_a, lone_b = _paired(opened, made_a, made_b, names_a, names_b)
    is_whole = not (lone_a or lone_b)  # else one of several tensors of a shape may be mistaken
    alike = {x for x, y in pairs if is_whole and opened.match.to_b[made_a[x]] == made_b[y]}
    zeros_a, left_a = at_zero(opened.a, lone_a & names_a.keys())  # unnamed ones may be mistaken
    zeros_b, left_b = at_zero(opened.b, lone_b & names_b.keys())
    dropped_a = _set_aside(case, opened, rows, lone_a - zeros_a, forward=True)
    dropped_b = _set_aside(case, opened, rows, lone_b - zeros_b, forward=False)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for draft, left in ((draft_a, left_a), (draft_b, left_b)):
            take_away_order(draft)
            draft.replace_uses(left)
        for x, y in pairs:
            if x in alike:
                draft_a.become_undone(x, [made_a[x]])
                draft_b.become_undone(y, [made_b[y]])
            else:
                draft_a.become_parameter([x], draft_a.shapes[x])
                draft_b.become_parameter([y], draft_b.shapes[y])

    proof = _proof(
        len(pairs),
        "one operation on each" if alike else "parameters",
        len(lone_a & zeros_a) + len(lone_b & zeros_b),
        len(dropped_a) + len(dropped_b),
    )
    gone_a = exclusive_slice(diff.a, dropped_a) | zeros_a | left_a.keys()
    gone_b = exclusive_slice(diff.b, dropped_b) | zeros_b | left_b.keys()
    return [
        replace(
            _told(case, rows),
            proof=proof,
            a=frozenset(_order_of(diff.a) | gone_a),
            b=frozenset(_order_of(diff.b) | gone_b),
            dropped_a=frozenset(dropped_a),
            dropped_b=frozenset(dropped_b),
            undo=undo,
        )
    ]


def _proof(paired: int, became: str, added: int, dropped: int) -> str:
    parts = [f"what {count(paired, 'tensor')} become in the buckets of both was made {became}"]
    if added:
        parts.append(f"{added} that one side adds to them taken to be zero")
    if dropped:
        set_aside = count(dropped, "output")
        parts.append(f"{set_aside} of what only one side reduces, or that wait, set aside")
    return ", ".join(parts) + "; barriers and tokens, which only order collectives, were taken away"


def rows_by_tensor(case: Case) -> tuple[Sequence[BucketRow], Sequence[BucketRow]] | None:
    """The buckets of two modules that reduce other tensors together; None if one reduces none.

    Where one has no buckets, its collectives of a single tensor count as buckets of one.
    """
    rows = other_buckets(case)
    if rows is None:
        return None
    opcodes = {row.opcode for side in rows for row in side}
    rows_a = rows[0] or lone_rows(case.diff.a, case.context_a, opcodes)
    rows_b = rows[1] or lone_rows(case.diff.b, case.context_b, opcodes)
    return (rows_a, rows_b) if rows_a and rows_b else None


def _told(case: Case, rows: tuple[Sequence[BucketRow], Sequence[BucketRow]]) -> Finding:
    """The finding in words; a module without buckets reduces its tensors one by one."""
    lone = next((k for k in (0, 1) if all(len(r.tensors) == 1 for r in rows[k])), None)
    if lone is None:
        return composition_finding(case, *rows)
    alone, together = (A, B) if lone == 0 else (B, A)
    finding = composition_finding(case, *(() if k == lone else rows[k] for k in (0, 1)))
    kind, buckets = rows[1 - lone][0].opcode, rows[1 - lone]
    number = sum(len(row.tensors) for row in buckets)
    return replace(
        finding,
        title=f"{kind} buckets in {together} only: {alone} reduces "
        f"{count(len(rows[lone]), 'tensor')} one by one, {together} {number} in "
        f"{count(len(buckets), 'bucket')}",
        fix=SIZE_FIX,
    )


def take_away_order(draft: Draft) -> None:
    """Lets every value pass optimization barriers, and takes all tokens for one."""
    draft.replace_uses(_through_barriers(draft))
    made = tokens(draft)
    used = {
        o
        for i, operands in enumerate(draft.operands)
        if i not in made
        for o in operands
        if o in made
    }
    if used:
        draft.become_parameter(used, draft.shapes[min(used)])


def _through_barriers(draft: Draft) -> dict[int, int]:
    """What is picked out of a tuple, or of a barrier on one, to what stands in the tuple."""
    partners: dict[int, int] = {}
    for i, opcode in enumerate(draft.opcodes):
        part = element(draft, i) if opcode == "get-tuple-element" else None
        if part is not None:
            partners[i] = partners.get(part, part)
    return partners


def tokens(draft: Draft) -> set[int]:
    """The scalars made of one element of each collective's result, multiplied up."""
    found: set[int] = set()
    for i, operands in enumerate(draft.operands):
        opcode = draft.opcodes[i]
        if opcode == "gather" and draft.shapes[i].endswith("[]"):
            source = operands[0]
            if draft.opcodes[source] == "get-tuple-element":
                source = draft.operands[source][0]
            if draft.opcodes[source] in BUCKETED:
                found.add(i)
        elif opcode == "multiply" and not found.isdisjoint(operands):
            found.add(i)
    return found


def _order_of(module: Module) -> set[int]:
    """The buckets' results, the barriers and the tokens: what is undone."""
    draft = Draft(module)
    picked = set(_through_barriers(draft))
    barriers = {i for i, opcode in enumerate(module.opcodes) if opcode == "opt-barrier"}
    tuples = {o for i in barriers for o in module.operands[i]}
    made = tokens(draft)
    spread = {u for i in made for u in module.users[i] if module.opcodes[u] == "broadcast"}
    buckets = {i for i, o in enumerate(module.opcodes) if o in BUCKETED}
    users = {u for i in buckets for u in module.users[i]}
    results = {u for u in users if module.opcodes[u] == "get-tuple-element"}
    return picked | barriers | tuples | made | spread | buckets | results


def _input_names(
    case: Case, opened: Diff, made_a: Mapping[int, int], made_b: Mapping[int, int]
) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """The names of tensors that waited, by result, where both modules' parameters have names."""
    known_a, known_b = case.context_a.parameters, case.context_b.parameters
    if not (known_a and known_b):
        return {}, {}
    return _named(opened.a, known_a, made_a), _named(opened.b, known_b, made_b)


def _named(module: Module, known: Mapping[int, str], made: Mapping[int, int]) -> dict[int, str]:
    inputs = {x: int(module.payloads[i]) for x, i in made.items() if is_input(module, i)}
    return {x: known[number] for x, number in inputs.items() if number in known}


def _paired(
    opened: Diff,
    made_a: Mapping[int, int],
    made_b: Mapping[int, int],
    names_a: Mapping[int, str],
    names_b: Mapping[int, str],
) -> tuple[list[tuple[int, int]], set[int], set[int]]:
    """Results of the same tensor, told by where it is made, else by what uses it; and the rest.

    Tensors that waited are parameters, which are told by their names where these are known.
    """
    to_b = opened.match.to_b
    by_origin: dict[str | int, list[int]] = {}
    for y, origin_b in made_b.items():
        by_origin.setdefault(names_b.get(y, origin_b), []).append(y)
    pairs = []
    for x, origin_a in made_a.items():
        found = by_origin.get(names_a.get(x, to_b[origin_a]), [])
        if found:
            pairs.append((x, found.pop(0)))
    taken_a, taken_b = {x for x, _ in pairs}, {y for _, y in pairs}
    left = [x for x in made_a if x not in taken_a and to_b[x] in made_b and to_b[x] not in taken_b]
    pairs += [(x, to_b[x]) for x in left]
    return (
        pairs,
        set(made_a) - {x for x, _ in pairs},
        set(made_b) - {y for _, y in pairs},
    )


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
    case: Case,
    opened: Diff,
    rows: tuple[Sequence[BucketRow], Sequence[BucketRow]],
    lone: Collection[int],
    *,
    forward: bool,
) -> set[int]:
    """Outputs made from a tensor that only one side reduces, and those that wait."""
    module = opened.a if forward else opened.b
    partners = opened.match.to_b if forward else opened.match.to_a
    reached = reach(module, lone)
    near_a, near_b = (
        near_buckets(m, r) for m, r in zip((case.diff.a, case.diff.b), rows, strict=True)
    )
    own, other = (near_a, near_b) if forward else (near_b, near_a)
    values = output_values(module)
    found = set()
    for slot in opened.outputs:
        k, paired = (slot.a, slot.b) if forward else (slot.b, slot.a)
        if k is None:
            continue
        waits = values[k] in own or partners[values[k]] in other
        if reached[values[k]] or (waits and paired is None):
            found.add(k)
    return found
