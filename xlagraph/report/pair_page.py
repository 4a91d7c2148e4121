"""From an explanation to the data of its pair view."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from xlagraph.cause.model import Context, Explanation
from xlagraph.cause.names import holder_name
from xlagraph.diff.changes import differing_operands
from xlagraph.explain.noise import noise_in_words
from xlagraph.message import join, words
from xlagraph.report.align import align
from xlagraph.report.model import (
    Bucket,
    CauseCard,
    EvidenceLine,
    PairCause,
    PairData,
    SlotRow,
)
from xlagraph.report.moves import bucket_partners
from xlagraph.report.wording import ShownPair, advice, excerpt, frames, member_name, source_line

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.cause.model import BucketRow, Cause, Evidence
    from xlagraph.diff.changes import Diff, Slot
    from xlagraph.report.moves import Seat
    from xlagraph.report.names import Names

    Lookup = Callable[[int], T | None]

MAX_LINKS = 6
"""Instructions of one evidence line that get a link of their own."""


def pair_data(
    view: ShownPair,
    modules: tuple[str, str],
    contexts: tuple[Context, Context] = (Context(), Context()),
) -> PairData:
    """The two modules of an explanation, aligned, with what differs and why."""
    explanation, names, links = view.explanation, view.names, view.links
    assert isinstance(explanation, Explanation)
    assert links is not None
    diff = explanation.diff
    to_b, to_a = bucket_partners(explanation)
    return PairData(
        identifier=view.identifier,
        title=" → ".join(view.labels),
        labels=view.labels,
        modules=modules,
        verdict=advice(explanation.verdict, names),
        proved=explanation.proved,
        same=explanation.same,
        sections=align(diff.match),
        passes=tuple(diff.match.passes),
        changes=tuple(
            (c.a, c.b, c.fields, differing_operands(diff.match, c.a, c.b)) for c in diff.changes
        ),
        follows=tuple(sorted(links.origins.follows.items())),
        removed=diff.removed,
        added=diff.added,
        dead_a=_dead(diff.match.a.live),
        dead_b=_dead(diff.match.b.live),
        causes=tuple(
            PairCause(
                cause_card(cause, view, anchor=f"cause-{k + 1}"),
                tuple(sorted(cause.a)),
                tuple(sorted(cause.b)),
            )
            for k, cause in enumerate(explanation.causes)
        ),
        unexplained_a=explanation.unexplained_a,
        unexplained_b=explanation.unexplained_b,
        parameters=_parameters(diff, names, contexts),
        outputs=_outputs(diff, names, contexts),
        header=tuple((h.field, names.attributes(h.a), names.attributes(h.b)) for h in diff.header),
        key=_key(contexts, names) if explanation.same else (),
        noise=tuple(noise_in_words(diff.noise)),
        buckets_a=_buckets(explanation.buckets_a, names, to_b),
        buckets_b=_buckets(explanation.buckets_b, names, to_a),
    )


def cause_card(
    cause: Cause,
    view: ShownPair,
    *,
    anchor: str,
    seconds: float | None = None,
    compiles: int = 0,
    graphs: tuple[tuple[str, int], ...] = (),
) -> CauseCard:
    """A cause under the report's names; evidence links into the pair, if it is shown."""
    return CauseCard(
        anchor=anchor,
        kind=cause.kind,
        title=view.said(cause.title.sentence),
        evidence=tuple(_evidence(e, view) for e in cause.evidence),
        fix=view.said(cause.fix.sentence),
        share=cause.share,
        proved=cause.proved,
        proof=view.said(cause.proof),
        where=view.said(cause.place.message),
        source=excerpt(cause.place, view.names),
        stack=frames(cause.place, view.names),
        expected=cause.expected,
        seconds=seconds,
        compiles=compiles,
        graphs=graphs,
        address=view.opening(cause),
        effect=view.said(cause.effect),
        is_one_of=len(view.explanation.causes) > 1,
        sides=view.labels,
        compared=view.said(view.explanation.compared.named(*view.labels)) if cause.proved else (),
    )


def _evidence(evidence: Evidence, view: ShownPair) -> EvidenceLine:
    cited = view.cited(evidence)
    return EvidenceLine(
        text=view.said(evidence.text),
        links=tuple(cited[:MAX_LINKS]),
        more=max(0, len(cited) - MAX_LINKS),
        sources=tuple(words(source.place, view.names) for source in evidence.sources),
    )


def _dead(live: bytearray) -> tuple[int, ...]:
    return tuple(i for i, flag in enumerate(live) if not flag)


def _parameters(diff: Diff, names: Names, contexts: tuple[Context, Context]) -> tuple[SlotRow, ...]:
    in_a, in_b = diff.a.entry_computation.parameters, diff.b.entry_computation.parameters
    rows = []
    for slot in diff.parameters:
        tensor = _first(slot, contexts[0].parameters.get, contexts[1].parameters.get)
        rows.append(_slot_row(slot, in_a, in_b, member_name(tensor, names), ""))
    return tuple(rows)


def _outputs(diff: Diff, names: Names, contexts: tuple[Context, Context]) -> tuple[SlotRow, ...]:
    in_a, in_b = diff.a.outputs, diff.b.outputs
    rows = []
    for slot in diff.outputs:
        tensor = _first(slot, contexts[0].outputs.get, contexts[1].outputs.get)
        created = _first(slot, contexts[0].created.get, contexts[1].created.get)
        holders = _first(slot, contexts[0].holders.get, contexts[1].holders.get) or ()
        held = words(join(map(holder_name, holders)), names)
        note = " · ".join(
            part
            for part in (
                f"made at {source_line(created, names)}" if created else "",
                f"held by {held}" if held else "",
            )
            if part
        )
        rows.append(_slot_row(slot, in_a, in_b, member_name(tensor, names), note))
    return tuple(rows)


def _first(slot: Slot, of_a: Lookup[T], of_b: Lookup[T]) -> T | None:
    found = of_b(slot.b) if slot.b is not None else None
    return of_a(slot.a) if found is None and slot.a is not None else found


def _slot_row(
    slot: Slot, in_a: Sequence[int], in_b: Sequence[int], name: str, note: str
) -> SlotRow:
    return SlotRow(
        slot.a,
        slot.b,
        None if slot.a is None else in_a[slot.a],
        None if slot.b is None else in_b[slot.b],
        name,
        note,
    )


def _key(contexts: tuple[Context, Context], names: Names) -> tuple[tuple[str, str, str], ...]:
    a, b = contexts[0].key, contexts[1].key
    return tuple(
        (name, names.attributes(a[name]), names.attributes(b[name]))
        for name in sorted(a.keys() & b.keys())
        if a[name] != b[name]
    )


def _buckets(
    rows: Sequence[BucketRow], names: Names, partners: Mapping[Seat, Seat]
) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(
            row.instruction,
            row.opcode,
            tuple(member_name(tensor, names) for tensor in row.tensors),
            row.shapes,
            row.carried,
            tuple(partners.get((k, position)) for position in range(len(row.tensors))),
        )
        for k, row in enumerate(rows)
    )
