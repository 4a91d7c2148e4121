"""Matches the collectives of all ranks as the runtime does.

A device runs its modules one after the other and the collectives of each in their order. Each list
of devices is a communicator, and on it the n-th collective of every member belongs together (NCCL,
Gloo); a collective ends when all are there. Such a system comes to the same end whichever device
moves first, so that one order of moves is enough. Where it stops, who waits for whom is a graph.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from xlagraph.ranks.collectives import Collective, Loop, Unread, asked, flat
from xlagraph.ranks.groups import members
from xlagraph.ranks.model import Doubt, Matching, Outcome
from xlagraph.ranks.waits import Head, Standing, doubts_of, met, stuck, why

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.ranks.collectives import Item, Program
    from xlagraph.ranks.groups import Members
    from xlagraph.ranks.model import Executed, Plan, Reason, Wait

MAX_MOVES = 3_000_000
"""Collectives times ranks that are gone through where ranks do not run the same modules."""
_UNCERTAIN = frozenset({Doubt.ORDER, Doubt.REMOVABLE, Doubt.LOOP, Doubt.BRANCH, Doubt.PARTITIONER})
"""Doubts that may keep ranks from stopping where they seem to stop."""
_BY_BUFFER = frozenset({"all-reduce", "all-gather", "reduce-scatter"})
"""Combined, they do the same for each tensor, one after the other."""


def match(plans: Sequence[Plan], programs: Mapping[str, Program], world: int) -> Matching:
    """What becomes of the collectives of the ranks.

    Args:
        plans: what each recorded rank ran, by rank.
        programs: by digest, of each module named in a plan.
        world: the number of ranks; more than were recorded may be missing.
    """
    return _Simulation(plans, programs, world).run()


class _Device:
    """Where one device stands."""

    __slots__ = ("at", "executed", "heads", "is_lost", "number", "place", "plan")

    def __init__(self, number: int, plan: Plan, executed: Sequence[Executed]):
        self.number = number
        self.plan = plan
        self.executed = executed
        self.place = -1
        """Which of its modules runs."""
        self.heads: Sequence[Head] = ()
        self.at = 0
        self.is_lost = False
        """Nothing more is known of it: it is taken to come wherever it is waited for."""

    @property
    def head(self) -> Head | None:
        """What it waits at; None between modules."""
        return self.heads[self.at] if self.at < len(self.heads) else None

    @property
    def following(self) -> str | None:
        """The digest of the module that it runs next; None behind the last."""
        place = self.place + 1
        return self.executed[place].digest if place < len(self.executed) else None


class _Simulation:
    def __init__(self, plans: Sequence[Plan], programs: Mapping[str, Program], world: int):
        self.programs = programs
        self.doubts: set[Doubt] = set()
        self.matched = 0
        self.moves = 0
        self.conflict: tuple[Reason, list[_Device]] | None = None
        grids = {p.grid for p in programs.values() if p.items or p.partitioned_later}
        sizes = {grid.devices for grid in grids if grid.devices > 1}
        devices = max(sizes, default=world)
        self.is_placed = len(sizes) < 2 and devices % world == 0
        self.each = max(1, devices // world)
        """Devices of one rank."""
        self.devices = {
            plan.rank * self.each + k: _Device(plan.rank * self.each + k, plan, self._works(plan))
            for plan in plans
            for k in range(self.each)
        }
        if len(plans) < world:
            self.doubts.add(Doubt.NO_RECORDS)
        self._heads: dict[tuple[str, int], tuple[Head, ...]] = {}
        self._waiting: dict[tuple[Members, bool], set[int]] = {}
        self._need: dict[tuple[Members, bool], int] = {}
        self._same: dict[str, object] = {}

    def _works(self, plan: Plan) -> list[Executed]:
        """What of a plan concerns other ranks."""
        programs = self.programs
        return [
            one
            for one in plan.executed
            if not one.digest
            or programs[one.digest].items
            or programs[one.digest].partitioned_later
        ]

    def run(self) -> Matching:
        """Goes on until nothing moves."""
        if not self.is_placed:
            return self._matching(Outcome.UNKNOWN)
        while not self.conflict and self.moves < MAX_MOVES:
            self._in_step()
            started = [one for one in self.devices.values() if one.head is None and self._next(one)]
            if not started:
                break
            self._settle(deque(started))
        return self._result()

    def _in_step(self) -> None:
        """Passes over modules that every device runs next: each meets itself."""
        devices = list(self.devices.values())
        if len(devices) <= 1 or any(one.head or one.is_lost for one in devices):
            return
        while True:
            following = {one.following for one in devices}
            if None in following or "" in following:
                return
            digests = [digest for digest in following if digest]
            if len({self._sameness(digest) for digest in digests}) > 1:
                return
            self._pass_over(digests)
            for one in devices:
                one.place += 1
                one.heads, one.at = (), 0

    def _sameness(self, digest: str) -> object:
        """Equal for modules with equal collectives in a known order."""
        if digest not in self._same:
            program = self.programs[digest]
            alike = (tuple(map(asked, program.items)), program.grid)
            known = program.ordered and not program.partitioned_later
            self._same[digest] = alike if known else digest
        return self._same[digest]

    def _pass_over(self, digests: Sequence[str]) -> None:
        items = self.programs[digests[0]].items
        self.matched += len(items)
        for item in items:
            if not isinstance(item, Collective):
                self._doubt_of(item)

    def _doubt_of(self, item: Item) -> None:
        if isinstance(item, Unread):
            self.doubts.add(Doubt.UNREAD)
        else:
            self.doubts.add(Doubt.LOOP if isinstance(item, Loop) else Doubt.BRANCH)

    def _next(self, device: _Device) -> bool:
        """Begins the next module of a device; False where it has none, or is lost."""
        digest = device.following
        if device.is_lost or (digest is None and device.plan.ended):
            return False
        if not digest:
            self.doubts.add(Doubt.UNFINISHED if digest is None else Doubt.UNKNOWN_GRAPH)
            device.is_lost = True
            self._ask_again()
            return True
        device.place += 1
        device.heads, device.at = self._heads_of(digest, device.number), 0
        if self.programs[digest].partitioned_later:
            self.doubts.add(Doubt.PARTITIONER)
        return True

    def _ask_again(self) -> None:
        """After a device was lost: others may have waited for it alone."""
        self._need.clear()
        self._settle(deque(one for one in self.devices.values() if one.head))

    def _heads_of(self, digest: str, device: int) -> tuple[Head, ...]:
        key = digest, device
        if key not in self._heads:
            program = self.programs[digest]
            self._heads[key] = tuple(self._resolved(program, device))
        return self._heads[key]

    def _resolved(self, program: Program, device: int) -> Iterable[Head]:
        for item in program.items:
            if isinstance(item, Unread):
                self.doubts.add(Doubt.UNREAD)
            elif isinstance(item, Collective):
                group = _group(item, program, device)
                if len(group) > 1:
                    split = item.opcode in _BY_BUFFER
                    parts = [(b,) for b in item.buffers] if split else [item.buffers]
                    yield from (Head((group, False), item, part, len(parts)) for part in parts)
            else:
                inner = [one for one in flat((item,)) if isinstance(one, Collective)]
                groups = {one for c in inner for one in _group(c, program, device)}
                if len(groups) > 1:
                    yield Head((tuple(sorted(groups)), True), item, (), 1)

    def _settle(self, queue: deque[_Device]) -> None:
        """Moves devices until each waits, or is between modules."""
        while queue and not self.conflict:
            device = queue.popleft()
            head = device.head
            if head is None:
                continue
            here = self._waiting.setdefault(head.key, set())
            here.add(device.number)
            if len(here) == self._needed(head.key):
                del self._waiting[head.key]
                queue.extend(self._meet([self.devices[number] for number in sorted(here)]))

    def _needed(self, key: tuple[Members, bool]) -> int:
        """How many members of a communicator are known to come, or not to."""
        if key not in self._need:
            found = (self.devices.get(number) for number in key[0])
            self._need[key] = sum(1 for one in found if one and not one.is_lost)
        return self._need[key]

    def _meet(self, devices: list[_Device]) -> list[_Device]:
        """All members are there: they go on, or do not match."""
        heads = [device.head for device in devices]
        first = heads[0]
        assert first is not None
        if first.key[1]:
            self._doubt_of(first.item)
        reason = next((r for one in heads[1:] if one and (r := why(first, one))), None)
        if reason:
            self.conflict = reason, devices
            return []
        if len({one.parts for one in heads if one}) > 1:
            self.doubts.add(Doubt.COMBINED)
        if len({device.executed[device.place].digest for device in devices}) > 1:
            self._doubts_between(devices)
        self.matched += 1
        self.moves += len(devices)
        for device in devices:
            device.at += 1
        return devices

    def _doubts_between(self, devices: Iterable[_Device]) -> None:
        """What makes it uncertain that collectives of different modules meet like this."""
        for device in devices:
            program = self.programs[device.executed[device.place].digest]
            if not program.ordered:
                self.doubts.add(Doubt.ORDER)
            item = device.head.item if device.head else None
            if isinstance(item, Collective) and item.removable:
                self.doubts.add(Doubt.REMOVABLE)

    def _result(self) -> Matching:
        if self.conflict:
            reason, devices = self.conflict
            standing = self._standing(devices)
            return self._stopped(Outcome.MISMATCH, reason, met(standing, self.each), devices)
        if self.moves >= MAX_MOVES:
            self.doubts.add(Doubt.TOO_LONG)
            return self._matching(Outcome.UNKNOWN)
        waiting = [one for one in self.devices.values() if one.head and not one.is_lost]
        if waiting:
            gone = {n for n, one in self.devices.items() if not (one.head or one.is_lost)}
            reason, waits = stuck(self._standing(waiting), gone, self.each)
            return self._stopped(Outcome.HANG, reason, waits, waiting)
        return self._matching(Outcome.MATCH)

    def _standing(self, devices: Iterable[_Device]) -> list[Standing]:
        found = []
        for one in devices:
            executed = one.executed[one.place]
            if one.head:
                found.append(Standing(one.number, one.head, executed.step, executed.digest))
        return found

    def _stopped(
        self, outcome: Outcome, reason: Reason, waits: tuple[Wait, ...], devices: list[_Device]
    ) -> Matching:
        """Ranks that do not match, or that wait for ever."""
        self._doubts_between(devices)
        if not all(isinstance(wait.item, Collective) for wait in waits if wait.is_root):
            return self._matching(Outcome.UNKNOWN)
        if outcome is Outcome.HANG:
            self.doubts |= doubts_of(waits, reason)
            if any(self._is_uneven(one.head.key[0]) for one in devices if one.head):
                self.doubts -= {Doubt.ORDER, Doubt.ASYNC}
        doubted = self.doubts & (_UNCERTAIN | {Doubt.ASYNC, Doubt.PERMUTE})
        return Matching(outcome, not doubted, reason, waits, self.matched, _listed(doubted))

    def _matching(self, outcome: Outcome) -> Matching:
        certain = outcome is Outcome.MATCH and not self.doubts
        return Matching(outcome, certain, None, (), self.matched, _listed(self.doubts))

    def _is_uneven(self, group: Members) -> bool:
        """Whether its members come to a communicator in different numbers, in whatever order."""
        found = [self.devices.get(number) for number in group]
        if not all(one and one.plan.ended for one in found):
            return False
        counts = {self._times(one, group) for one in found if one}
        return None not in counts and len(counts) > 1

    def _times(self, device: _Device, group: Members) -> int | None:
        """How often a device comes to a communicator; None where that is not known."""
        times = 0
        for digest, number in Counter(one.digest for one in device.executed).items():
            if not digest or any(head.key[1] for head in self._heads_of(digest, device.number)):
                return None
            heads = self._heads_of(digest, device.number)
            times += number * sum(1 for head in heads if head.key == (group, False))
        return times


def _group(item: Collective, program: Program, device: int) -> Members:
    """The devices that come together at a collective of a device."""
    return members(item.groups, item.counted, program.grid, device) or ()


def _listed(doubts: set[Doubt]) -> tuple[Doubt, ...]:
    return tuple(sorted(doubts, key=list(Doubt).index))
