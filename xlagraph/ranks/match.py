"""Matches the collectives of all ranks as the runtime does.

A device runs its modules one after the other and the collectives of each in their order. Each list
of devices is a communicator, and on it the n-th collective of every member belongs together (NCCL,
Gloo); a collective ends when all are there. Such a system comes to the same end whichever device
moves first, so that one order of moves is enough. Where it stops, who waits for whom is a graph.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from xlagraph.collectives.groups import members
from xlagraph.collectives.program import OPCODES, Collective, Loop, Unread, asked, flat
from xlagraph.ranks.model import Doubt, Matching, Outcome
from xlagraph.ranks.waits import Head, Meeting, Standing, doubts_of, met, stuck, why

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.collectives.groups import Grid, Members, Numbering
    from xlagraph.collectives.program import Item, Program
    from xlagraph.ranks.model import Executed, Plan, Reason, Wait

MAX_MOVES = 3_000_000
"""Collectives times ranks that are gone through where ranks do not run the same modules."""
_UNCERTAIN = frozenset(
    {
        *(Doubt.ORDER, Doubt.REMOVABLE, Doubt.LOOP),
        *(Doubt.BRANCH, Doubt.PARTITIONER, Doubt.GROUPS, Doubt.ASSIGNMENT),
    }
)
"""Doubts that may keep ranks from stopping where they seem to stop."""
MOST_DEVICES = 1 << 16
"""More are not walked: what a header says costs nothing to write."""
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
        self.is_placed = len(sizes) < 2 and devices % world == 0 and devices <= MOST_DEVICES
        self.each = max(1, devices // world)
        """Devices of one rank."""
        self.devices = {
            plan.rank * self.each + k: _Device(plan.rank * self.each + k, plan, self._works(plan))
            for plan in plans
            for k in range(self.each if self.is_placed else 0)
        }
        if len(plans) < world:
            self.doubts.add(Doubt.NO_RECORDS)
        self._heads: dict[tuple[str, int], tuple[Head, ...]] = {}
        self._meetings: dict[tuple[Members, bool], Meeting] = {}
        self._placed: dict[tuple[int, Numbering, Grid], tuple[Meeting, ...]] = {}
        self._waiting: dict[Meeting, set[int]] = {}
        self._need: dict[Meeting, int] = {}
        self._same: dict[str, object] = {}
        self._known: dict[tuple[str, ...], int] = {}
        """How many collectives meet where the devices, in order, run these modules."""

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
            together = self._in_step()
            before = self.matched
            started = [one for one in self.devices.values() if one.head is None and self._next(one)]
            if not started:
                break
            self._settle(deque(started))
            if together and not any(one.head or one.is_lost for one in started):
                self._known[together] = self.matched - before
        return self._result()

    def _in_step(self) -> tuple[str, ...]:
        """Passes over modules that meet as they are known to, and gives back those that follow.

        These are one for each device; none where devices stand within modules.
        """
        devices = list(self.devices.values())
        if any(one.head or one.is_lost for one in devices):
            return ()
        while True:
            following = tuple(one.following or "" for one in devices)
            if "" in following:
                return ()
            if following not in self._known:
                digests = sorted(set(following))
                if len({self._sameness(digest) for digest in digests}) > 1:
                    return following
                self._pass_over(digests[0])
                self._known[following] = len(self.programs[digests[0]].items)
            self.matched += self._known[following]
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

    def _pass_over(self, digest: str) -> None:
        for item in self.programs[digest].items:
            if not isinstance(item, Collective):
                self._doubt_of(item)

    def _doubt_of(self, item: Item) -> None:
        if isinstance(item, Unread):
            self.doubts.add(Doubt.GROUPS if item.opcode in OPCODES else Doubt.UNREAD)
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
                self._doubt_of(item)
            elif isinstance(item, Collective):
                meeting = self._meeting_of(item, program.grid, device)
                self._doubt_place(meeting, program.grid)
                if len(meeting.members) > 1:
                    split = item.opcode in _BY_BUFFER
                    parts = [(b,) for b in item.buffers] if split else [item.buffers]
                    yield from (Head(meeting, item, part, len(parts)) for part in parts)
            else:
                inner = [one for one in flat((item,)) if isinstance(one, Collective)]
                met = {self._meeting_of(one, program.grid, device) for one in inner}
                devices = {number for one in met for number in one.members}
                if len(devices) > 1:
                    yield Head(self._meeting(tuple(sorted(devices)), is_open=True), item, (), 1)

    def _doubt_place(self, meeting: Meeting, grid: Grid) -> None:
        """Who is in a group of some devices depends on which of them is which."""
        if min(grid.replicas, grid.partitions) > 1 and len(meeting.members) < grid.devices:
            self.doubts.add(Doubt.ASSIGNMENT)

    def _meeting_of(self, item: Collective, grid: Grid, device: int) -> Meeting:
        """The devices that come together at a collective of a device; none if it takes no part."""
        key = id(item.groups), item.counted, grid
        if key not in self._placed:
            found = (members(item.groups, item.counted, grid, k) for k in range(grid.devices))
            self._placed[key] = tuple(self._meeting(one or (), is_open=False) for one in found)
        placed = self._placed[key]
        return placed[device] if device < len(placed) else self._meeting((), is_open=False)

    def _meeting(self, devices: Members, *, is_open: bool) -> Meeting:
        """The one value for a list of devices."""
        key = devices, is_open
        if key not in self._meetings:
            self._meetings[key] = Meeting(devices, is_open)
        return self._meetings[key]

    def _settle(self, queue: deque[_Device]) -> None:
        """Moves devices until each waits, or is between modules."""
        while queue and not self.conflict:
            device = queue.popleft()
            head = device.head
            if head is None:
                continue
            here = self._waiting.setdefault(head.meeting, set())
            here.add(device.number)
            if len(here) == self._needed(head.meeting):
                del self._waiting[head.meeting]
                queue.extend(self._meet([self.devices[number] for number in sorted(here)]))

    def _needed(self, meeting: Meeting) -> int:
        """How many members of a communicator are known to come, or not to."""
        if meeting not in self._need:
            found = (self.devices.get(number) for number in meeting.members)
            self._need[meeting] = sum(1 for one in found if one and not one.is_lost)
        return self._need[meeting]

    def _meet(self, devices: list[_Device]) -> list[_Device]:
        """All members are there: they go on, or do not match."""
        heads = [device.head for device in devices]
        first = heads[0]
        assert first is not None
        if first.meeting.is_open:
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
            if any(map(self._is_uneven, {one.head.meeting for one in devices if one.head})):
                self.doubts -= {Doubt.ORDER, Doubt.ASYNC}
        doubted = self.doubts & (_UNCERTAIN | {Doubt.ASYNC, Doubt.PERMUTE})
        return Matching(outcome, not doubted, reason, waits, self.matched, _listed(doubted))

    def _matching(self, outcome: Outcome) -> Matching:
        certain = outcome is Outcome.MATCH and not self.doubts
        return Matching(outcome, certain, None, (), self.matched, _listed(self.doubts))

    def _is_uneven(self, meeting: Meeting) -> bool:
        """Whether its members come to a communicator in different numbers, in whatever order."""
        found = [self.devices.get(number) for number in meeting.members]
        if not all(one and one.plan.ended for one in found):
            return False
        counts = {self._times(one, meeting) for one in found if one}
        return None not in counts and len(counts) > 1

    def _times(self, device: _Device, meeting: Meeting) -> int | None:
        """How often a device comes to a communicator; None where that is not known."""
        times = 0
        for digest, number in Counter(one.digest for one in device.executed).items():
            heads = self._heads_of(digest, device.number) if digest else ()
            if not digest or any(head.meeting.is_open for head in heads):
                return None
            times += number * sum(1 for head in heads if head.meeting is meeting)
        return times


def _listed(doubts: set[Doubt]) -> tuple[Doubt, ...]:
    return tuple(sorted(doubts, key=list(Doubt).index))
