"""Groups with equal numbers: what is alone with its number, then what is interchangeable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pass
from xlagraph.diff.passes.neighbours import pair_neighbours
from xlagraph.diff.passes.outputs import aligned_outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.diff.pairing import Pairing


def pair_groups(
    pairing: Pairing, found_a: dict[int, int], found_b: dict[int, int], by: Pass, *, by_text: bool
) -> bool:
    """Pairs instructions with equal numbers; those that are alone with theirs first.

    Alike instructions are interchangeable. Outputs among them are paired by their places,
    the others in text order where `by_text`, if there are equally many. Each pair is
    followed to its neighbours before the next one is made, so that interchangeable pieces
    stay whole. Returns whether some were left that text order would pair.
    """
    groups_a, groups_b = _group(found_a), _group(found_b)
    alike = []
    for number, members in groups_a.items():
        others = groups_b.get(number, [])
        if len(members) == len(others) == 1:
            pairing.pair(members[0], others[0], by)
        elif others:
            alike.append((members, others))
    pair_neighbours(pairing)
    if not alike:
        return False
    alike.sort(key=lambda group: min(map(pairing.a.place, group[0])))
    partners = aligned_outputs(pairing)
    are_left = False
    for members, others in alike:
        _pair_outputs(pairing, members, partners)
        are_left |= _pair_in_order(pairing, members, others, by_text=by_text)
    return are_left


def _group(found: dict[int, int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for i in sorted(found):
        groups.setdefault(found[i], []).append(i)
    return groups


def _pair_outputs(pairing: Pairing, members: Sequence[int], partners: Mapping[int, int]) -> None:
    """Pairs those that are outputs at corresponding places."""
    labels_a, labels_b = pairing.a.labels, pairing.b.labels
    for x in members:
        y = partners.get(x, -1)
        if y >= 0 and labels_a[x] == labels_b[y] and pairing.pair(x, y, Pass.OUTPUT):
            pairing.ambiguous += 1
            pair_neighbours(pairing)


def _pair_in_order(
    pairing: Pairing, members: Sequence[int], others: Sequence[int], *, by_text: bool
) -> bool:
    """Pairs what is left of a group one by one, if both sides have equally many.

    Returns whether it was left to text order.
    """
    free_a = sorted((x for x in members if pairing.to_b[x] < 0), key=pairing.a.place)
    free_b = sorted((y for y in others if pairing.to_a[y] < 0), key=pairing.b.place)
    if len(free_a) != len(free_b):
        return False
    are_outputs = _are_outputs(pairing, free_a, free_b)
    if not (by_text or are_outputs):
        return True
    if not free_a or pairing.a.closed[free_a[0]]:
        return False  # what is made of constants is identified by its users
    if len(free_a) > 1:
        pairing.ambiguous += len(free_a)
    by = Pass.OUTPUT if are_outputs else Pass.TEXT_ORDER
    for x, y in zip(free_a, free_b, strict=True):
        if pairing.pair(x, y, by):
            pair_neighbours(pairing)
    return False


def _are_outputs(pairing: Pairing, free_a: Sequence[int], free_b: Sequence[int]) -> bool:
    outputs_a, outputs_b = pairing.a.outputs, pairing.b.outputs
    return all(x in outputs_a for x in free_a) and all(y in outputs_b for y in free_b)
