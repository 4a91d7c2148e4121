"""Pieces that one side computes on the way, between values that the other connects directly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import is_forward, line_of, operations, where
from xlagraph.facts.pieces.pieces import OUTPUT, computed, open_edges, piece_of, pieces
from xlagraph.facts.values.telling import opcodes_in_words
from xlagraph.facts.values.terms import ANY_ORDER
from xlagraph.message import count, say

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.cause.kinds import Kind
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.message import Message, SourceLine


@dataclass(frozen=True, slots=True, eq=False)
class Bypass:
    """A piece of one side, and the uses where it stands before a value that both sides have."""

    more: SideView
    less: SideView
    uses: Mapping[Edge, int]
    """Uses of the piece's values; for each the value, in `more`, that the other side uses."""
    piece: frozenset[int]
    turned: frozenset[Edge]
    """The uses by an operation that takes its other value at the other place, too."""

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The source lines of the piece, of those of its forward pass the one that it begins at."""
        module, found = self.more.module, where(self.more.module, self.piece)
        entry = module.entry_computation
        inside = (i for i in sorted(self.piece) if entry.start <= i < entry.stop)
        first = next(filter(None, (line_of(module, i) for i in inside)), None)
        if first not in found or not is_forward(first):
            return found
        return (first, *(line for line in found if line != first))

    @property
    def words(self) -> Message:
        """What it computes: ``rng-bit-generator, select and 35 more instructions``."""
        return opcodes_in_words(self.more.module, self.piece, self.less.module)

    @property
    def other_values(self) -> Mapping[Edge, int]:
        """The uses, if each takes another value of the same operation: what was picked differs.

        Empty where the piece treats what the other side uses further, and so is on the way.
        """
        module = self.more.module
        below = {o for i in self.piece for o in module.operands[i]}
        picked = all(
            edge.place != OUTPUT
            and module.opcodes[edge.value(self.more)] == module.opcodes[value]
            and value not in below
            for edge, value in self.uses.items()
        )
        return self.uses if picked else {}

    def among(self, values: Collection[int]) -> Bypass | None:
        """What of it ends in these values, if that shares no instruction with the rest but numbers.

        Without lines all that one side puts on the way is one bypass, of however many reasons.
        """
        edges = [edge for edge in self.uses if edge.value(self.more) in values]
        rest = {e.value(self.more) for e in self.uses} - {e.value(self.more) for e in edges}
        piece = frozenset(piece_of(self.more, [edge.value(self.more) for edge in edges]))
        shared = piece & piece_of(self.more, rest)
        module = self.more.module
        if not (edges and rest) or any(not module.shapes[i].endswith("[]") for i in shared):
            return None
        uses = {edge: self.uses[edge] for edge in edges}
        return replace(self, uses=uses, piece=piece, turned=self.turned.intersection(edges))

    def undo(self, edit: Editors) -> None:
        """Connects the values directly in the module that has the piece."""
        editor = edit[self.more.side]
        for i in self.piece:
            if has_effect(self.more.module, i):
                editor.become_undone(i, ())
        for edge, value in self.uses.items():
            if edge.place == OUTPUT:
                editor.replace_outputs({edge.value(self.more): value})
            else:
                user = edge.user(self.more)
                editor.set_operand(user, edge.place, value)
                if edge in self.turned:
                    editor.set_operands(user, editor.operands[user][::-1])


def bypasses(case: Case) -> list[Bypass]:
    """What stands on the way in one module alone, B's first."""
    edges = open_edges(case)
    return [
        _bypass(more, less, group)
        for more, less in reversed(case.both_ways)
        for group in pieces(case, _bypassed(more, less, edges))
    ]


def _bypassed(more: SideView, less: SideView, edges: Sequence[Edge]) -> list[Edge]:
    """Edges where one side uses a value of its own and the other one that both have."""
    return [
        edge
        for edge in edges
        if more.partners[edge.value(more)] < 0 <= less.partners[edge.value(less)]
        and edge.value(more) not in more.claimed
    ]


def _bypass(more: SideView, less: SideView, edges: Sequence[Edge]) -> Bypass:
    uses = {edge: less.partners[edge.value(less)] for edge in edges}
    across = {edge: found for edge in edges if (found := _across(more, less, edge)) is not None}
    piece = frozenset(piece_of(more, [edge.value(more) for edge in edges]))
    return Bypass(more, less, uses | across, piece, frozenset(across))


def _across(more: SideView, less: SideView, edge: Edge) -> int | None:
    """What the other side uses, where it stands at the other place: ``b * a`` for ``f(a) * b``."""
    user = edge.user(more)
    taken, direct = more.module.operands[user], less.module.operands[edge.user(less)]
    if edge.place == OUTPUT or more.module.opcodes[user] not in ANY_ORDER or len(taken) != 2:
        return None
    other = less.partners[direct[1 - edge.place]]
    same = taken[1 - edge.place]
    is_across = same == less.partners[direct[edge.place]] and other >= 0 and other != same
    return other if is_across else None


def bypass_finding(
    found: Bypass,
    kind: Kind,
    title: Message,
    *further: Evidence,
    fix: Message | None = None,
    lines: tuple[SourceLine, ...] | None = None,
    stands: Message | None = None,
) -> Finding:
    """The finding that a piece stands in one module alone.

    `lines`: where it is from, if that is not the lines of its instructions.
    `stands`: in place of what, if it does not stand between two values.
    """
    more, less, piece = found.more, found.less, set(found.piece)
    users_a = {edge.x for edge in found.uses if edge.place != OUTPUT}
    users_b = {edge.y for edge in found.uses if edge.place != OUTPUT}
    piece_a, piece_b = more.ab(piece, set[int]())
    cited_a, cited_b = (piece, users_b) if more.is_a else (users_a, piece)
    between = Evidence(
        stands
        or say(
            more.side,
            f" puts {count(computed(more.module, piece), 'instruction')}",
            operations(more.module, piece),
            " between values that ",
            less.side,
            " connects directly",
        ),
        tuple(sorted(cited_a))[:50],
        tuple(sorted(cited_b))[:50],
        found.lines if lines is None else lines,
    )
    return Finding(
        kind=kind,
        title=title,
        evidence=(between, *further),
        proof=say(f"the {count(len(piece), 'extra instruction')} of ", more.side, " were bypassed"),
        fix=fix or say(),
        a=frozenset(piece_a | users_a),
        b=frozenset(piece_b | users_b),
        undo=found.undo,
    )
