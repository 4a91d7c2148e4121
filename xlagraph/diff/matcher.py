"""The search for a pairing of two modules' instructions.

Exact first: expressions that occur once in each module are anchors, and everything below
an anchor pairs off by operand position. Then outwards from what is paired: users and
operands that are the only candidates of their kind. Alike pieces are told apart by the places
of their outputs. What is left is offered to the neighbours' vote, a bounded similarity.
(GumTree's order of phases, Falleri et al. 2014, on ordered term graphs instead of trees.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from operator import eq
from typing import TYPE_CHECKING

from xlagraph.diff.align import aligned, filled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.canon.labels import Interner
    from xlagraph.diff.match import Side
    from xlagraph.graph import Computation

MAX_CANDIDATES = 24
"""Neighbours that may vote for one instruction; more are left unpaired and reported."""
MAX_ROUNDS = 6
MAX_STEPS = 2
"""How far above a paired value an unpaired one is looked for: past one that has no counterpart."""


class Matcher:
    """Pairs the instructions of two prepared sides; the result is in its attributes."""

    def __init__(self, a: Side, b: Side, interner: Interner):
        self.a, self.b = a, b
        self.interner = interner
        self.to_b = [-1] * len(a.module)
        self.to_a = [-1] * len(b.module)
        self.root = a.module.entry_computation.root
        self.operands_a, self.operands_b = a.module.operands, b.module.operands
        self.users_a, self.users_b = a.module.users, b.module.users
        self.computations: dict[int, int] = {}
        self.calling = sorted(a.module.callees)
        self.ambiguous = 0
        self.is_alike_left = False
        self.queue: list[tuple[int, int]] = []
        self.scalars: list[tuple[int, int]] = []
        """As `queue`, looked at when that is empty: scalars are alike, and tokens among them."""

    def match_computation(self, first: Computation, second: Computation) -> None:
        """Pairs two computations, and all that paired calls lead to."""
        pending = [(first, second)]
        while pending:
            ca, cb = pending.pop()
            if ca.index in self.computations:
                continue
            self.computations[ca.index] = cb.index
            if ca.index == self.a.module.entry:
                self._match_entry(ca, cb)
            else:
                self._match_callee(ca, cb)
            pending.extend(self._callee_pairs(ca))

    def _callee_pairs(self, ca: Computation) -> list[tuple[Computation, Computation]]:
        """Computations that paired calls of a computation lead to, the last ones first."""
        a, b = self.a.module, self.b.module
        first, behind = (bisect_left(self.calling, i) for i in (ca.start, ca.stop))
        pairs = []
        for i in self.calling[first:behind]:
            callees = b.callees.get(self.to_b[i], ())
            for x, y in zip(a.callees[i], callees, strict=False):
                pairs.append((a.computations[x], b.computations[y]))
        pairs.reverse()
        return pairs

    def _match_entry(self, ca: Computation, cb: Computation) -> None:
        self._pair(ca.root, cb.root)
        self._match_anchors(self.a.expressions, self.b.expressions, ca, cb)
        self.queue = self._frontier(ca, cb)
        self._spread()
        self._refine(ca, cb)

    def _match_callee(self, ca: Computation, cb: Computation) -> None:
        """Computations are small, and their parameters are told apart by number."""
        for x, y in zip(ca.parameters, cb.parameters, strict=False):
            self._pair(x, y)
        self._pair(ca.root, cb.root)
        self._spread()
        if self._unpaired(ca, cb):
            self._refine(ca, cb)

    def _unpaired(self, ca: Computation, cb: Computation) -> bool:
        return -1 in self.to_b[ca.start : ca.stop] or -1 in self.to_a[cb.start : cb.stop]

    def _pair(self, x: int, y: int) -> bool:
        if self.to_b[x] >= 0 or self.to_a[y] >= 0:
            return False
        self.to_b[x] = y
        self.to_a[y] = x
        self.queue.append((x, y))
        return True

    # -- exact ---------------------------------------------------------------------------

    def _match_anchors(
        self, numbers_a: Sequence[int], numbers_b: Sequence[int], ca: Computation, cb: Computation
    ) -> None:
        """Pairs instructions whose number occurs once on each side, and all below them."""
        count_a = Counter(numbers_a[ca.start : ca.stop])
        count_b = Counter(numbers_b[cb.start : cb.stop])
        place_b = {numbers_b[y]: y for y in range(cb.start, cb.stop)}
        closed = self.a.closed
        to_b, to_a = self.to_b, self.to_a
        for x in range(ca.stop - 1, ca.start - 1, -1):
            number = numbers_a[x]
            if number < 0 or to_b[x] >= 0 or count_a[number] != 1 or count_b[number] != 1:
                continue
            if closed[x]:
                continue  # told by its users: the same number may mean something else
            y = place_b[number]
            if to_a[y] < 0:
                self._pair_below(x, y, numbers_a, numbers_b)

    def _pair_below(
        self, x: int, y: int, numbers_a: Sequence[int], numbers_b: Sequence[int]
    ) -> None:
        a, b = self.a.module.operands, self.b.module.operands
        to_b, to_a, queue = self.to_b, self.to_a, self.queue
        stack_a, stack_b = [x], [y]
        while stack_a:
            x, y = stack_a.pop(), stack_b.pop()
            if to_b[x] >= 0 or to_a[y] >= 0 or numbers_a[x] != numbers_b[y]:
                continue
            to_b[x] = y
            to_a[y] = x
            queue.append((x, y))
            stack_a += a[x]
            stack_b += b[y]

    def _frontier(self, ca: Computation, cb: Computation) -> list[tuple[int, int]]:
        """The paired neighbours of unpaired instructions, seen from the side with fewer."""
        loose_a = self._loose(self.a, ca, self.to_b)
        loose_b = self._loose(self.b, cb, self.to_a)
        forward = len(loose_a) <= len(loose_b)
        module, partner = (self.a.module, self.to_b) if forward else (self.b.module, self.to_a)
        operands, users = module.operands, module.users
        near = {
            n
            for i in (loose_a if forward else loose_b)
            for n in (*operands[i], *users[i])
            if partner[n] >= 0
        }
        pairs = [(i, partner[i]) for i in sorted(near)]
        return pairs if forward else [(x, y) for y, x in pairs]

    # -- outwards ------------------------------------------------------------------------

    def _spread(self) -> None:
        """Pairs neighbours of paired instructions while only one candidate fits."""
        scalars, shapes = self.scalars, self.a.module.shapes
        while self.queue or scalars:
            x, y = (self.queue or scalars).pop()
            if shapes[x].endswith("[]") and self.queue:
                scalars.append((x, y))
                continue
            self._spread_down(x, y)
            self._spread_up(x, y)

    def _spread_down(self, x: int, y: int) -> None:
        below_a, below_b = self.operands_a[x], self.operands_b[y]
        if x == self.root:
            return  # outputs come and go: their position tells nothing
        if len(below_a) != len(below_b):
            return
        for p, q in zip(below_a, below_b, strict=True):
            if self.to_b[p] < 0 and self.to_a[q] < 0 and self.a.labels[p] == self.b.labels[q]:
                self._pair(p, q)

    def _spread_up(self, x: int, y: int) -> None:
        to_b, live_a = self.to_b, self.a.live
        users_a = [u for u in self.users_a[x] if to_b[u] < 0 and live_a[u]]
        if not users_a or len(users_a) > MAX_CANDIDATES:
            return
        to_a, live_b = self.to_a, self.b.live
        users_b = [u for u in self.users_b[y] if to_a[u] < 0 and live_b[u]]
        if not users_b or len(users_b) > MAX_CANDIDATES:
            return
        for p, q in _unique_pairs(
            [(self._use(self.a, x, u), u) for u in users_a],
            [(self._use(self.b, y, u), u) for u in users_b],
        ):
            self._pair(p, q)

    def _use(self, side: Side, i: int, user: int) -> object:
        """How `user` uses `i`; equal on both sides for instructions that may be paired."""
        return (side.labels[user], _positions(side, i, user))

    # -- refinement ----------------------------------------------------------------------

    def _refine(self, ca: Computation, cb: Computation) -> None:
        """Contexts and expressions, then places of outputs, then text order, then the vote."""
        self._alternate(ca, cb, by_text=False)
        if self._unpaired(ca, cb):
            self._part_constants(ca)
            if ca.index == self.a.module.entry:
                self._pair_outputs_by_place()
            if self.is_alike_left:
                self._alternate(ca, cb, by_text=True)
            self._bridge(ca)
            self._vote(ca)
            self._part_strays(ca)

    def _alternate(self, ca: Computation, cb: Computation, *, by_text: bool) -> None:
        """Pairs by contexts from above and expressions below until nothing new is paired."""
        loose_a = self._loose(self.a, ca, self.to_b)
        loose_b = self._loose(self.b, cb, self.to_a)
        for _ in range(MAX_ROUNDS):
            before = len(loose_a)
            for numbers in (self._contexts, self._anchored_expressions):
                labels_a = {self.a.labels[x] for x in loose_a}
                # What has no counterpart by label cannot pair and tells nothing apart.
                common = labels_a.intersection(self.b.labels[y] for y in loose_b)
                self._pair_groups(
                    numbers(self.a, [x for x in loose_a if self.a.labels[x] in common], self.to_b),
                    numbers(self.b, [y for y in loose_b if self.b.labels[y] in common], None),
                    by_text=by_text,
                )
                self._spread()
                loose_a = [x for x in loose_a if self.to_b[x] < 0]
                loose_b = [y for y in loose_b if self.to_a[y] < 0]
            if before == len(loose_a):
                break

    def _part_constants(self, ca: Computation) -> None:
        """Parts constants that are alike but that no paired users use alike."""
        a, b = self.a.module, self.b.module
        for x in range(ca.start, ca.stop):
            y = self.to_b[x]
            if a.opcodes[x] != "constant" or y < 0:
                continue
            users = [u for u in a.users[x] if self.to_b[u] >= 0 and u != ca.root]
            if users and not any(y in b.operands[self.to_b[u]] for u in users):
                self.to_b[x] = self.to_a[y] = -1

    def _part_strays(self, ca: Computation) -> None:
        """Parts what is made of other constants where no user has a partner on either side."""
        a, b = self.a, self.b
        for x in reversed(range(ca.start, ca.stop)):
            y = self.to_b[x]
            if y < 0 or not a.closed[x] or a.expressions[x] == b.expressions[y]:
                continue
            users = (self.to_b[u] for u in a.module.users[x])
            others = (self.to_a[u] for u in b.module.users[y])
            if max(users, default=0) < 0 and max(others, default=0) < 0:
                self.to_b[x] = self.to_a[y] = -1

    def _loose(self, side: Side, computation: Computation, partners: Sequence[int]) -> list[int]:
        """Live instructions without a partner, in text order."""
        live = side.live
        return [
            i for i in range(computation.start, computation.stop) if partners[i] < 0 and live[i]
        ]

    def _anchor(self, i: int, to_b: Sequence[int] | None) -> int:
        """A number for a paired instruction, equal on both sides; -1 for an unpaired one."""
        if to_b is not None:
            return to_b[i]
        return i if self.to_a[i] >= 0 else -1

    def _contexts(
        self, side: Side, loose: Sequence[int], to_b: Sequence[int] | None
    ) -> dict[int, int]:
        """Numbers for how unpaired instructions are used, seen from the paired ones."""
        found: dict[int, int] = {}
        users = side.module.users
        for i in reversed(loose):
            uses = []
            for u in users[i][:MAX_CANDIDATES]:
                if side.live[u]:
                    anchor = self._anchor(u, to_b)
                    uses.append((anchor, found.get(u, -1), _positions(side, i, u)))
            uses.sort()
            found[i] = self.interner.number(("context", side.labels[i], tuple(uses)))
        return found

    def _anchored_expressions(
        self, side: Side, loose: Sequence[int], to_b: Sequence[int] | None
    ) -> dict[int, int]:
        """Expression numbers of unpaired instructions, with paired operands as leaves."""
        found: dict[int, int] = {}
        for i in loose:
            below = tuple(
                (self._anchor(o, to_b), found.get(o, -1)) for o in side.module.operands[i]
            )
            found[i] = self.interner.number(("anchored", side.labels[i], below))
        return found

    def _pair_groups(
        self, found_a: dict[int, int], found_b: dict[int, int], *, by_text: bool
    ) -> None:
        """Pairs instructions with equal numbers; those that are alone with theirs first.

        Alike instructions are interchangeable. Outputs among them are paired by their places,
        the others in text order where `by_text`, if there are equally many. Each pair is
        followed to its neighbours before the next one is made, so that interchangeable pieces
        stay whole.
        """
        groups_a, groups_b = _group(found_a), _group(found_b)
        alike = []
        for number, members in groups_a.items():
            others = groups_b.get(number, [])
            if len(members) == len(others) == 1:
                self._pair(members[0], others[0])
            elif others:
                alike.append((members, others))
        self._spread()
        if not alike:
            return
        alike.sort(key=lambda group: min(map(self.a.place, group[0])))
        partners = self._aligned_outputs()
        for members, others in alike:
            self._pair_alike(members, others, partners, by_text=by_text)

    def _aligned_outputs(self, *, by_place: bool = False) -> dict[int, int]:
        """Outputs of A to those of B at the corresponding place, where they may be the same.

        `by_place` adds those between them, where both sides have equally many.
        """
        values_a, values_b = list(self.a.outputs), list(self.b.outputs)
        pairs = aligned(
            [self._output_key(self.a, i, self.to_b) for i in values_a],
            [self._output_key(self.b, i, None) for i in values_b],
        )
        if by_place:
            pairs = filled(pairs, len(values_a), len(values_b))
        return {values_a[j]: values_b[k] for j, k in pairs}

    def _output_key(self, side: Side, i: int, to_b: Sequence[int] | None) -> tuple[int, int]:
        anchor = self._anchor(i, to_b)
        return (anchor, -1 if anchor >= 0 else side.expressions[i])

    def _pair_outputs_by_place(self) -> None:
        """Pairs outputs whose neighbours are paired, if they do the same with something else."""
        for x, y in self._aligned_outputs(by_place=True).items():
            if self.a.labels[x] == self.b.labels[y]:
                self._pair(x, y)
        self._spread()

    def _pair_alike(
        self,
        members: list[int],
        others: list[int],
        partners: Mapping[int, int],
        *,
        by_text: bool,
    ) -> None:
        for x in members:
            y = partners.get(x, -1)
            if y >= 0 and self.a.labels[x] == self.b.labels[y] and self._pair(x, y):
                self.ambiguous += 1
                self._spread()
        free_a = sorted((x for x in members if self.to_b[x] < 0), key=self.a.place)
        free_b = sorted((y for y in others if self.to_a[y] < 0), key=self.b.place)
        if len(free_a) != len(free_b):
            return
        if not (by_text or self._are_outputs(free_a, free_b)):
            self.is_alike_left = True
            return
        if not free_a or self.a.closed[free_a[0]]:
            return  # what is made of constants is told by its users
        if len(free_a) > 1:
            self.ambiguous += len(free_a)
        for x, y in zip(free_a, free_b, strict=True):
            if self._pair(x, y):
                self._spread()

    def _are_outputs(self, free_a: Sequence[int], free_b: Sequence[int]) -> bool:
        outputs_a, outputs_b = self.a.outputs, self.b.outputs
        return all(x in outputs_a for x in free_a) and all(y in outputs_b for y in free_b)

    def _bridge(self, ca: Computation) -> None:
        """Pairs across what only one side has: the only one of its kind within a few steps."""
        for x in self._loose(self.a, ca, self.to_b):
            y = self._across(x) if self.to_b[x] < 0 else -1
            if y >= 0 and self._pair(x, y):
                self._spread()

    def _across(self, x: int) -> int:
        """The partner of `x` as seen from a paired operand or user, or -1."""
        a, b, label = self.a.module, self.b.module, self.a.labels[x]
        for near, edges_a, edges_b in (
            (a.operands[x], a.users, b.users),
            (a.users[x][:MAX_CANDIDATES], a.operands, b.operands),
        ):
            for i in near:
                if self.to_b[i] < 0 or i == a.entry_computation.root:
                    continue
                mine = _reached(self.a, i, edges_a, self.to_b, label)
                theirs = _reached(self.b, self.to_b[i], edges_b, self.to_a, label)
                if mine == [x] and len(theirs) == 1:
                    return theirs[0]
        return -1

    def _vote(self, ca: Computation) -> None:
        """Bounded similarity: the candidate that most paired neighbours lead to."""
        unpaired = self._loose(self.a, ca, self.to_b)
        for _ in range(MAX_ROUNDS):
            for x in unpaired:
                votes = self._votes(x) if self.to_b[x] < 0 else None
                if votes:
                    best = max(votes, key=lambda y: (votes[y], *self._likeness(x, y), -y))
                    self._pair(x, best)
                    self._spread()
            left = [x for x in unpaired if self.to_b[x] < 0]
            if len(left) == len(unpaired):
                break
            unpaired = left

    def _votes(self, x: int) -> Counter[int]:
        a, b = self.a.module, self.b.module
        opcode = a.opcodes[x]
        votes: Counter[int] = Counter()
        for o in a.operands[x]:
            partner = self.to_b[o]
            if partner >= 0:
                here = _positions(self.a, o, x)
                for u in b.users[partner][:MAX_CANDIDATES]:
                    if self.to_a[u] < 0 and b.opcodes[u] == opcode and self.b.live[u]:
                        votes[u] += 1 + (_positions(self.b, partner, u) == here)
        for u in a.users[x][:MAX_CANDIDATES]:
            partner = self.to_b[u]
            if partner >= 0 and len(b.operands[partner]) <= MAX_CANDIDATES:
                here = _positions(self.a, x, u)
                for o in dict.fromkeys(b.operands[partner]):
                    if self.to_a[o] < 0 and b.opcodes[o] == opcode and self.b.live[o]:
                        votes[o] += 1 + (_positions(self.b, o, partner) == here)
        return votes

    def _likeness(self, x: int, y: int) -> tuple[int, int]:
        """How many dimensions of two shapes agree, and how many neighbours in the text."""
        first, second = _sizes(self.a.module.shapes[x]), _sizes(self.b.module.shapes[y])
        alike = sum(map(eq, first, second)) + 1 if len(first) == len(second) else 0
        beside = (self.to_b[x - 1] == y - 1) + (self.to_b[x + 1] == y + 1)
        return alike, beside


def _reached(
    side: Side, start: int, edges: Sequence[Sequence[int]], partners: Sequence[int], label: int
) -> list[int]:
    """Unpaired instructions with this label that unpaired ones lead to from `start`."""
    found: list[int] = []
    seen = {start}
    front = [start]
    for _ in range(MAX_STEPS):
        near = dict.fromkeys(o for i in front for o in edges[i])
        front = [i for i in near if partners[i] < 0 and i not in seen]
        if not front or len(front) > MAX_CANDIDATES:
            break
        seen.update(front)
        found += [i for i in front if side.labels[i] == label and side.live[i]]
    return found


def _positions(side: Side, i: int, user: int) -> tuple[int, ...]:
    """At which places `user` takes `i`; in a long list the place may move and says nothing."""
    operands = side.module.operands[user]
    return () if len(operands) > 4 else tuple(k for k, o in enumerate(operands) if o == i)


def _sizes(shape: str) -> list[str]:
    """The dimensions of an array's shape, as written."""
    return shape.partition("[")[2].partition("]")[0].split(",")


def _group(found: dict[int, int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for i in sorted(found):
        groups.setdefault(found[i], []).append(i)
    return groups


def _unique_pairs(
    a: list[tuple[object, int]], b: list[tuple[object, int]]
) -> list[tuple[int, int]]:
    """Pairs the entries whose key occurs exactly once on each side."""
    single_a, single_b = _singles(a), _singles(b)
    return [
        (x, single_b[key]) for key, x in single_a.items() if x >= 0 and single_b.get(key, -1) >= 0
    ]


def _singles(entries: list[tuple[object, int]]) -> dict[object, int]:
    """The entry of each key; -1 where a key has several."""
    found: dict[object, int] = {}
    for key, entry in entries:
        found[key] = -1 if key in found else entry
    return found
