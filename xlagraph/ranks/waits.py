"""Who waits for whom where ranks stop, and why collectives that meet do not match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.collectives.program import Collective
from xlagraph.ranks.model import Doubt, Reason, Wait

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.collectives.groups import Members
    from xlagraph.collectives.program import Item


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """The devices that have to come together; there is one value for each list of them."""

    members: Members
    is_open: bool
    """At a loop or a branch, where it is not known what for."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a device waits at."""

    meeting: Meeting
    item: Item
    buffers: tuple[tuple[str, int], ...]
    parts: int
    """Collectives that were combined with it, itself included."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A device that waits."""

    device: int
    head: Head
    step: int
    digest: str


def why(one: Head, other: Head) -> Reason | None:
    """Why two collectives on one communicator do not match; None if they do."""
    x, y = one.item, other.item
    if not (isinstance(x, Collective) and isinstance(y, Collective)):
        return None if type(x) is type(y) else Reason.OPERATION
    if x.opcode != y.opcode:
        return Reason.OPERATION
    if x.pairs != y.pairs:
        return Reason.PAIRS
    if [count for _, count in one.buffers] != [count for _, count in other.buffers]:
        return Reason.SIZE
    if one.buffers != other.buffers:
        return Reason.ELEMENT_TYPE
    return Reason.REDUCTION if x.reduction != y.reduction else None


def met(standing: Sequence[Standing], each: int) -> tuple[Wait, ...]:
    """Devices that came together and want different things."""
    return tuple(_waits(standing, (), each, is_root=True))


def stuck(
    standing: Sequence[Standing], gone: Collection[int], each: int
) -> tuple[Reason, tuple[Wait, ...]]:
    """Devices that wait for ever, those first that cause it.

    What waits is a communicator: its members that are there wait for those that are not, which
    wait at another one or have nothing more to run. A cycle among them is a deadlock.

    Args:
        standing: every device that waits.
        gone: devices with nothing more to run.
        each: devices of one rank.
    """
    import networkx as nx

    here: dict[Meeting, list[Standing]] = {}
    for one in standing:
        here.setdefault(one.head.meeting, []).append(one)
    at = {one.device: one.head.meeting for one in standing}
    missing = {
        key: [n for n in key.members if n in gone or at.get(n, key) is not key] for key in here
    }
    graph = nx.DiGraph()
    graph.add_nodes_from(here)
    graph.add_edges_from((key, at[n]) for key, many in missing.items() for n in many if n in at)
    cycles = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    in_cycle = set().union(*cycles)
    left = {key for key, many in missing.items() if any(n in gone for n in many)}
    roots = in_cycle or left
    waits = [
        wait
        for key, many in here.items()
        for wait in _waits(many, missing[key], each, is_root=key in roots)
    ]
    waits.sort(key=lambda wait: (not wait.is_root, wait.step, wait.ranks))
    return (Reason.CYCLE if in_cycle else Reason.ENDED), tuple(waits)


def _waits(
    standing: Sequence[Standing], missing: Sequence[int], each: int, *, is_root: bool
) -> list[Wait]:
    """The waits of one communicator, ranks at one instruction of one module together."""
    alike: dict[tuple[str, int, int], list[Standing]] = {}
    for one in standing:
        alike.setdefault((one.digest, one.step, one.head.item.instruction), []).append(one)
    found = []
    for (digest, step, _), many in alike.items():
        item = many[0].head.item
        found.append(
            Wait(
                ranks=_ranks((one.device for one in many), each),
                group=tuple(dict.fromkeys(n // each for n in many[0].head.meeting.members)),
                missing=_ranks(missing, each),
                step=step,
                digest=digest,
                item=item,
                buffers=many[0].head.buffers,
                is_root=is_root,
            )
        )
    return found


def _ranks(devices: Iterable[int], each: int) -> tuple[int, ...]:
    return tuple(sorted({device // each for device in devices}))


def doubts_of(waits: Sequence[Wait], reason: Reason) -> set[Doubt]:
    """What may yet let ranks go on that wait for each other."""
    found = set()
    for wait in waits:
        item = wait.item
        if not (wait.is_root and isinstance(item, Collective)):
            continue
        if item.is_async and reason is Reason.CYCLE:
            found.add(Doubt.ASYNC)
        if item.opcode == "collective-permute":
            found.add(Doubt.PERMUTE)
    return found
