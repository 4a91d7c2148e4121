"""Detector for tensors in another order in memory, with the copies that XLA adds for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count, parameter_name
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies that one side alone makes, and the changed pairs that take them in."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    users: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.a) + len(self.b)

    @property
    def claimed_a(self) -> frozenset[int]:
        """What they account for in A."""
        return frozenset(self.a) | {x for x, _ in self.users}

    @property
    def claimed_b(self) -> frozenset[int]:
        """What they account for in B."""
        return frozenset(self.b) | {y for _, y in self.users}

    def skip(self, draft_a: Draft, draft_b: Draft) -> None:
        """Lets their users take the original."""
        draft_a.bypass(self.a)
        draft_b.bypass(self.b)


def lone_copies(case: Case) -> Copies:
    """The copies that have no partner and that nothing accounts for yet."""
    a, b = case.diff.a, case.diff.b
    lone_a = tuple(x for x in case.diff.removed if _is_free(a, x, case.claimed_a))
    lone_b = tuple(y for y in case.diff.added if _is_free(b, y, case.claimed_b))
    users = tuple(
        (x, y)
        for x, y, fields in case.open_changes()
        if fields == ("operands",)
        and (set(lone_a).intersection(a.operands[x]) or set(lone_b).intersection(b.operands[y]))
    )
    return Copies(lone_a, lone_b, users)


def _is_free(module: Module, i: int, claimed: set[int]) -> bool:
    return module.opcodes[i] == "copy" and i not in claimed


def layout_change(case: Case) -> list[Finding]:
    """The same tensors in another order of dimensions in memory.

    Before optimization only those of inputs and outputs are asked for; the lowering writes the
    others as it happens, and XLA chooses them anew.
    """
    a, b = case.diff.a, case.diff.b
    pairs = [(x, y) for x, y, fields in case.open_changes() if fields == ("layout",)]
    if not pairs:
        return []
    copies = lone_copies(case)
    inputs = [(x, y) for x, y in pairs if y in b.entry_computation.parameters]
    asked = inputs or any(y in output_values(b) for _, y in pairs)
    x, y = (inputs or pairs)[0]
    name = f"{parameter_name(b, case.context_b, y)}, " if inputs else ""
    lines = where(b, [q for _, q in pairs]) or where(b, b.users[y])
    more = f" and {count(len(copies), 'copy', 'copies')} on one side only" if copies else ""

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for p, q in pairs:
            draft_a.shapes[p] = draft_b.shapes[q]
        copies.skip(draft_a, draft_b)

    return [
        Finding(
            kind="layout",
            title=f"{count(len(pairs), 'value')} in another layout: {name}{a.shapes[x]} became "
            f"{b.shapes[y]}{at(lines)}",
            evidence=(
                Evidence(
                    f"{a.shapes[x]} -> {b.shapes[y]}, first at {b.names[y]}{more}",
                    (*(p for p, _ in pairs), *copies.a),
                    (*(q for _, q in pairs), *copies.b),
                    lines,
                ),
            ),
            fix="Send inputs in one memory format (contiguous or channels_last) in every step.",
            proof=f"{A}'s values were given {B}'s layouts"
            + (", and copies bypassed" if copies else ""),
            a=frozenset(p for p, _ in pairs) | copies.claimed_a,
            b=frozenset(q for _, q in pairs) | copies.claimed_b,
            undo=undo,
            incidental=not asked and "is_scheduled" not in b.header_fields,
        )
    ]
