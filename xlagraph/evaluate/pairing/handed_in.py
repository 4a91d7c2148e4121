"""Python numbers that torch_xla hands in, in two texts that write one formula otherwise.

A number is an input of its own, whatever it is: ``p.add_(d, alpha=-lr)`` takes another one than
``p - lr * d``, ``x / s`` another one than ``x * (1 / s)``, and ``clamp(min=0)`` takes a largest
number too, which ``relu`` does not. So the numbers of one text are drawn, and those of the other
are sought with which its outputs are the same, among what is likely: one that does alike, what
follows from another one, a size. They are asked where all arrays of a shape are equal, so that
nothing has to be known of which input is which.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice, product, zip_longest
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from xlagraph.canon.live import live_instructions
from xlagraph.evaluate.domains import LARGEST, applied, columns, unbounding
from xlagraph.evaluate.never import behind
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from xlagraph.graph import Module

    Uses = tuple[tuple[str, int, tuple[int, ...]], ...]

MAX_NUMBERS = 24
"""Numbers of one module that are sought."""
MAX_TURNS = 6
"""Ways in which numbers that do alike may follow from the others otherwise."""
MAX_LIKELY = 16
"""Values that are tried for one number."""
MANY_USES = 8
"""Uses beyond which it is one number for all weights, however many these are."""
_MANY_TIMES = "many times"
FORMS = frozenset({"broadcast", "convert", "copy", "reshape"})
MANY_SIZES = 3
"""Sizes of what a number is used for beyond which it is used for all weights, whatever these are:
the other module may hold them in other tensors."""
MAX_RANKED = 20_000
"""Combinations of these that are ranked."""
MAX_STARTS = 48
"""Combinations that are tried."""
MAX_CONSTANTS = 4
"""Numbers of the first module's text that are tried."""
MAX_PARTNERS = 6
"""Ways in which further numbers may follow from others."""
HIDDEN = -1e38
"""What scores are where a mask hides them: -inf, or so low that nothing is left of them."""
_MANY = 10**9
"""A whole number that bounds nothing."""
_ANY = 3
"""What is handed in for a whole number that one module alone has, such as what wraps an index."""
_LINEAR = frozenset(("broadcast", "convert", "copy", "divide", "multiply", "reshape", "transpose"))
"""What hands the sign of a number on, to where it is added."""
SOFTPLUS = 20.0
"""Where torch's softplus hands on what it is given, if nobody says otherwise."""
FRACTIONS = ("f64[]", "f32[]", "f16[]", "bf16[]")
_WHOLE = ("s64[]", "s32[]")
_SCORES = FORMS | {"add", "multiply", "subtract", "transpose"}
"""What stands between masked scores and their softmax."""
MAX_SCORES = 16
_ANYWHERE = frozenset({"add", "maximum", "minimum", "multiply", "select"})
"""What takes a number at either place: a select by a condition, or by its opposite."""


def are_handed_in(*modules: Module) -> bool:
    """Whether numbers may be inputs in these modules, as torch_xla makes them."""
    return all(module.name.startswith(("IrToHlo", "SyncTensorsGraph")) for module in modules)


def takes_more(a: Module, b: Module) -> bool:
    """Whether the first module takes more numbers than the second."""
    return len(roles(a, FRACTIONS)) > len(roles(b, FRACTIONS))


class Role(NamedTuple):
    """What a number does in its module."""

    uses: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Of each use the opcode, the place among its operands, and the sizes of what it computes but
    for those of 1; once, and without sizes, of one with many of these."""
    is_taken_off: bool
    """Whether what it makes is subtracted."""
    counts: frozenset[int] = frozenset()
    """How many numbers the sums are of that it divides."""
    shapes: frozenset[tuple[int, ...]] = frozenset()
    """The sizes of all that it is used for; none of one that is used for all weights."""

    @property
    def bound(self) -> float:
        """The number that bounds nothing, of one that bounds a value alone; else 0."""
        return unbounding({(opcode, place) for opcode, place, _ in self.uses})

    @property
    def scales(self) -> bool:
        """Whether values are multiplied or divided by it."""
        return bool(self.uses) and self.uses[0][0] in ("divide", "multiply")

    @property
    def is_picked(self) -> bool:
        """Whether it is what values are where a condition holds, or does not."""
        return bool(self.uses) and {opcode for opcode, *_ in self.uses} == {"select"}

    def fits(self, other: Role) -> bool:
        """Whether what it makes has sizes that another number is used for."""
        return any({sizes for *_, sizes in self.uses} & {sizes for *_, sizes in other.uses})

    @property
    def divides(self) -> bool:
        """Whether it only divides values."""
        return {(opcode, place) for opcode, place, _ in self.uses} == {("divide", 1)}

    @property
    def sizes(self) -> list[int]:
        """How many elements there are, and along each axis, in what it is used for."""
        found = {prod(sizes) for _, _, sizes in self.uses}
        return sorted(found | self.counts | {n for _, _, sizes in self.uses for n in sizes})


def roles(module: Module, types: Collection[str]) -> dict[int, Role]:
    """What each number of these types that is handed in does, by its place among the inputs."""
    inputs, live = module.entry_computation.parameters, live_instructions(module)
    return {k: _role(module, p, live) for k, p in enumerate(inputs) if module.shapes[p] in types}


def _role(module: Module, parameter: int, live: bytearray) -> Role:
    uses: list[tuple[str, int, tuple[int, ...]]] = []
    is_taken_off = False
    for user, form in applied(module, parameter):
        if live[user]:
            opcode, every = module.opcodes[user], read_shape(module.shapes[user]).dimensions
            sizes = tuple(n for n in every if n > 1)
            place = 0 if opcode in _ANYWHERE else module.operands[user].index(form)
            uses.append((opcode, place, sizes))
            is_taken_off = is_taken_off or _is_taken_off(module, form, user, live)
    counts = frozenset(_reduced(module, parameter, live))
    shapes = frozenset(sizes for *_, sizes in uses)
    if len(shapes) > MANY_SIZES or len(uses) > MANY_USES:
        uses = [
            (_MANY_TIMES, 0, ()),
            *dict.fromkeys((opcode, place, ()) for opcode, place, _ in uses),
        ]
    told = shapes if len(shapes) <= MANY_SIZES else frozenset[tuple[int, ...]]()
    return Role(tuple(sorted(uses)), is_taken_off, counts, told)


def _reduced(module: Module, parameter: int, live: bytearray) -> Iterator[int]:
    """Of how many numbers each is a sum that a number divides."""
    for user, form in applied(module, parameter):
        if live[user] and module.opcodes[user] == "divide" and module.operands[user][1] == form:
            total = behind(module, module.operands[user][0], FORMS)
            if module.opcodes[total] == "reduce":
                shapes = (module.shapes[i] for i in (module.operands[total][0], total))
                taken, left = (prod(read_shape(shape).dimensions) for shape in shapes)
                yield taken // max(left, 1)


def _is_taken_off(module: Module, made_of: int, i: int, live: bytearray) -> bool:
    """Whether a product ends as what is subtracted, handed on by one user after the other."""
    while module.opcodes[i] in _LINEAR:
        users = [user for user in module.users[i] if live[user]]
        if len(users) != 1:
            return False
        made_of, (i,) = i, users
    return module.opcodes[i] == "subtract" and module.operands[i][1] == made_of


# -- what a number is --------------------------------------------------------------------------


class Follows(NamedTuple):
    """How a number follows from another one: ``factor * x ** power + offset``."""

    power: float
    """0 of one that is `offset`, whatever the other is."""
    factor: float = 1.0
    offset: float = 0.0

    def of(self, x: Any) -> Any:
        """The number that follows from one."""
        return self.factor * x**self.power + self.offset if self.power else self.offset


SAME = Follows(1)
MINUS = Follows(1, -1.0)
ONE_MINUS = Follows(1, -1.0, 1.0)
_FORMULAS = (SAME, Follows(-1), MINUS, ONE_MINUS, Follows(-1, -1.0), Follows(-0.5), Follows(0.5))
"""The number itself, ``1 / x``, ``-x``, ``1 - x``, ``-1 / x``, and those of its root, as attention
scales both factors of a product, in the order in which they are tried."""


class Guess(NamedTuple):
    """What a number may be."""

    label: int
    """The class of numbers from which it follows; 0 of one that is fixed."""
    follows: Follows


@dataclass(frozen=True, slots=True)
class Numbers:
    """What numbers of two modules are, where those of the second follow from the first's."""

    labels: Mapping[int, int] = field(default_factory=dict)
    """A number of the first to its class; numbers of one class do alike."""
    members: Mapping[int, Guess] = field(default_factory=dict)
    """A number of the second that has a partner in a class of the first."""
    surplus: Mapping[int, tuple[int, Follows]] = field(default_factory=dict)
    """Further ones of the second, each to a member, and how it follows from that one's partner."""
    fixed: tuple[Mapping[int, float], Mapping[int, float]] = field(default_factory=lambda: ({}, {}))
    """Of both modules the inputs that are one number alone."""
    fitting: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    """Those of them that may be others, if these of the other module are so too."""

    def label(self, side: int, number: int) -> int | None:
        """The class of a number that has a partner; 0 of one that follows, None of other inputs."""
        if number in self.fixed[side] or (side and number in self.surplus):
            return 0
        if side:
            return self.members[number].label if number in self.members else None
        return self.labels.get(number)

    def draw(self, point: int, arguments: list[Any]) -> None:
        """Puts numbers between 0 and 1 into the first module's arguments, others at each point.

        Bounds that hold nothing back there stay as they are.
        """
        for number in self.labels:
            if abs(arguments[number]) < LARGEST:
                arguments[number] = 0.05 + 0.9 * (0.618034 * (number + 1) * (point + 2) % 1.0)
        self.fill(0, arguments)

    def fill(self, side: int, arguments: list[Any]) -> None:
        """Puts the numbers in, where those that have partners are as these have them."""
        for number, value in self.fixed[side].items():
            arguments[number] = value
        if side:
            for number, (member, follows) in self.surplus.items():
                arguments[number] = follows.of(arguments[member])
            for number, guess in self.members.items():
                arguments[number] = guess.follows.of(_positive(arguments[number]))
        else:
            for number in self.labels:
                arguments[number] = _positive(arguments[number])


def _positive(x: Any) -> Any:
    """A number without its sign, of which there is a root; a bound that holds nothing as it is."""
    return abs(x) if abs(x) < LARGEST else x


class Search:
    """The numbers of two modules: drawn ones of the first, sought ones of the second."""

    def __init__(
        self, known: Module, sought: Module, sizes: Mapping[int, float] | None = None
    ) -> None:
        """`sizes`: numbers of the first module that are sizes, and not drawn."""
        self.modules = (known, sought)
        self.own, self.other = roles(known, FRACTIONS), roles(sought, FRACTIONS)
        uses = [role.uses for side in (self.own, self.other) for role in side.values()]
        names = {one: label for label, one in enumerate(dict.fromkeys(uses), 1)}
        self.names: Mapping[Uses, int] = names
        self.shared = {r.uses for r in self.own.values()} & {r.uses for r in self.other.values()}
        fixed = [self._bounds(side) for side in (self.own, self.other)]
        for side, whole in enumerate(_whole_alone(known, sought)):
            module = self.modules[side]
            fixed[side] |= whole | _thresholds(module, {*whole, *self._alone(side)})
            hiding = (k for k in self._alone(side) if _hides(module, k))
            fixed[side] |= dict.fromkeys(hiding, HIDDEN)
        self.fixed = ({**fixed[0], **(sizes or {})}, fixed[1])
        self.classes = {k: names[r.uses] for k, r in self.own.items() if k not in self.fixed[0]}

    def _bounds(self, side: Mapping[int, Role]) -> dict[int, float]:
        told = {k: role.bound for k, role in side.items() if role.uses not in self.shared}
        return {k: bound for k, bound in told.items() if bound}

    def _alone(self, number: int) -> Iterator[int]:
        """The numbers of one side that no number of the other does alike."""
        side = (self.own, self.other)[number]
        return (k for k, role in side.items() if role.uses not in self.shared)

    def sized(self) -> Iterator[dict[int, float]]:
        """What numbers of the first module may be that divide, and that the second does not use so.

        A mean of means divides by one size after the other, where the other module's divides by
        their product.
        """
        divisors = {
            k: [float(n) for n in reversed(role.sizes) if n > 1]
            for k, role in self.own.items()
            if role.divides and role.uses not in self.shared
        }
        known = {k: some for k, some in divisors.items() if some}
        for way in islice(product(*known.values()), MAX_TURNS if known else 0):
            yield dict(zip(known, way, strict=True))

    @property
    def is_asked(self) -> bool:
        """Whether there are numbers to be sought, and not too many."""
        return 0 < len(self.other) <= MAX_NUMBERS and len(self.own) <= len(self.other)

    @property
    def sought(self) -> set[int]:
        """The second module's inputs that are numbers, sought or fixed."""
        return {*self.other, *self.fixed[1]}

    def given(self) -> dict[int, float]:
        """The first module's numbers, one for each class."""
        return {**self.fixed[0], **{k: drawn(label) for k, label in self.classes.items()}}

    def guesses(self) -> Iterator[dict[int, Guess]]:
        """What the second module's numbers may be, the likelier the sooner."""
        alike = {k: self.names[r.uses] for k, r in self.other.items() if r.uses in self.shared}
        further = [k for k in self.other if k not in alike and k not in self.fixed[1]]
        uses = dict.fromkeys(self.other[k].uses for k in alike)
        ways = islice(product(*map(self._otherwise, uses)), MAX_TURNS)
        turned = [{k: how for some in way for k, how in some.items()} for way in ways]
        likely = [self._likely(self.other[k]) for k in further]
        ranked = islice(product(*(range(len(some)) for some in likely)), MAX_RANKED)
        for way in sorted(ranked, key=sum)[: MAX_STARTS // len(turned)]:
            chosen = {k: some[n] for k, some, n in zip(further, likely, way, strict=True)}
            for turn in turned:
                same = {k: Guess(label, turn.get(k, SAME)) for k, label in alike.items()}
                yield same | chosen

    def changes(self, guess: Mapping[int, Guess]) -> Iterator[list[Mapping[int, Guess]]]:
        """For each number that no number of the first module does alike, its other values."""
        for k, own in guess.items():
            if self.other[k].uses not in self.shared:
                likely = self._likely(self.other[k])
                yield [{**guess, k: one} for one in likely if one != own]

    def _otherwise(self, uses: Uses) -> list[dict[int, Follows]]:
        """How numbers that do alike may follow from the others, where they are not the same.

        What is subtracted has the other sign, and a further one may be what is left to 1.
        """
        mine = [role.is_taken_off for role in self.own.values() if role.uses == uses]
        theirs = {k: role.is_taken_off for k, role in self.other.items() if role.uses == uses}
        if len(theirs) > len(mine):
            return [{k: ONE_MINUS} for k in theirs]
        taken = [k for k, is_taken in theirs.items() if is_taken]
        if sum(mine) == len(taken):
            return [{}]
        if len(taken) > sum(mine):
            return [dict.fromkeys(taken, MINUS)]
        return [{k: MINUS} for k in theirs if k not in taken]

    def _likely(self, role: Role) -> list[Guess]:
        """What a number may be that no number of the first module does alike."""
        free = [
            label
            for k, label in self.classes.items()
            if self.own[k].uses not in self.shared and self.own[k].scales == role.scales
        ]
        every = sorted({*self.classes.values()})
        follow = [Guess(label, one) for one in _FORMULAS for label in free]
        if role.is_picked:
            alike = [label for k, label in self.classes.items() if self.own[k].fits(role)]
            follow += [Guess(label, one) for one in (SAME, ONE_MINUS) for label in alike]
        follow += [Guess(label, one) for label in every for one in (SAME, ONE_MINUS)]
        opcode, _, sizes = role.uses[0] if role.uses else ("", 0, ())
        counts = [float(n) for n in reversed(role.sizes) if n > 1]
        own = [*counts, 2.0] if opcode == "divide" else [2.0, *(1 / n for n in counts), 0.5]
        own = [0.5, *own] if opcode == "compare" else own
        fixed = [Guess(0, Follows(0, offset=x)) for x in (*own, *self._constants)]
        is_fixed = (sizes and role.scales) or opcode == "compare"
        first, then = (fixed, follow) if is_fixed else (follow, fixed)
        found = [one for both in zip_longest(first, then) for one in both if one]
        return [*dict.fromkeys(found)][:MAX_LIKELY]

    @property
    def _constants(self) -> list[float]:
        """Numbers that the first module has in its text, and the second has not."""
        own, other = ({*_constants(module)} for module in self.modules)
        return sorted(own - other)[:MAX_CONSTANTS]

    def values(self, guessed: Mapping[int, Guess]) -> dict[int, float]:
        """The second module's numbers, as they are guessed."""
        told = {k: float(one.follows.of(drawn(one.label))) for k, one in guessed.items()}
        return {**self.fixed[1], **told}

    def told(self, guessed: Mapping[int, Guess]) -> Iterator[Numbers]:
        """A guess, for each way in which further numbers may follow from others of a class."""
        room = Counter(self.classes.values())
        members: dict[int, Guess] = {}
        surplus: dict[int, Guess] = {}
        fixed = dict(self.fixed[1])
        for k, one in sorted(guessed.items(), key=_likelihood):
            if not one.label:
                fixed[k] = one.follows.offset
            elif room[one.label]:
                room[one.label] -= 1
                members[k] = one
            else:
                surplus[k] = one
        if any(room.values()):
            return  # a number of the first module would have no partner
        followed = [
            [n for n, own in members.items() if own.label == one.label] for one in surplus.values()
        ]
        for way in islice(product(*followed), MAX_PARTNERS):
            told = {k: (n, one.follows) for (k, one), n in zip(surplus.items(), way, strict=True)}
            yield Numbers(self.classes, members, told, (self.fixed[0], fixed))


def drawn(label: int) -> float:
    """What all numbers of a class are."""
    return 0.1 + 0.8 * (0.618034 * label % 1.0)


def _likelihood(item: tuple[int, Guess]) -> int:
    follows = item[1].follows
    return _FORMULAS.index(follows) if follows in _FORMULAS else len(_FORMULAS)


def _constants(module: Module) -> Iterator[float]:
    for i, text in module.payloads.items():
        if module.opcodes[i] == "constant" and module.shapes[i].startswith("f32[]"):
            value = float(text)
            if value not in (0.0, 1.0) and abs(value) < LARGEST:
                yield value


def _thresholds(module: Module, alone: Iterable[int]) -> dict[int, float]:
    """Which of these numbers softplus compares with, in its derivative too, and what they are.

    Where less it is a logarithm of 1 and more.
    """
    inputs = module.entry_computation.parameters
    compared = {k: [user for user, _ in applied(module, inputs[k])] for k in alone}
    found = {
        k: own
        for k, own in compared.items()
        if own and all(module.opcodes[i] == "compare" for i in own)
    }
    picks = (user for own in found.values() for i in own for user in module.users[i])
    return dict.fromkeys(found, SOFTPLUS) if any(_is_softplus(module, i) for i in picks) else {}


def _is_softplus(module: Module, pick: int) -> bool:
    """Whether a select picks a logarithm of 1 and more, divided by a number perhaps."""
    operands = module.operands[pick][1:] if module.opcodes[pick] == "select" else ()
    divided = (module.operands[o][0] if module.opcodes[o] == "divide" else o for o in operands)
    return any(module.opcodes[behind(module, o, FORMS)] == "log-plus-one" for o in divided)


def _hides(module: Module, number: int) -> bool:
    """Whether a number is only picked under masks, for what an exponential is taken of."""
    picks = [user for user, _ in applied(module, module.entry_computation.parameters[number])]
    return bool(picks) and all(
        module.opcodes[user] == "select" and _ends_in_softmax(module, user) for user in picks
    )


def _ends_in_softmax(module: Module, pick: int) -> bool:
    front = [pick]
    for i in front:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] == "exponential":
                return True
            if module.opcodes[user] in _SCORES and user not in front and len(front) < MAX_SCORES:
                front.append(user)
    return False


def _whole_alone(a: Module, b: Module) -> tuple[dict[int, float], dict[int, float]]:
    """Whole numbers of one module that no number of the other does alike, with what they may be.

    Each is as many columns as rows are counted in, or bounds nothing, or is any.
    """
    sides = roles(a, _WHOLE), roles(b, _WHOLE)
    uses = [Counter(role.uses for role in side.values()) for side in sides]
    more = (uses[0] - uses[1], uses[1] - uses[0])
    found = [
        {
            k: float(columns(module, k)) or _bound(role)
            for k, role in side.items()
            if role.uses in extra
        }
        for module, side, extra in zip((a, b), sides, more, strict=True)
    ]
    return found[0], found[1]


def _bound(role: Role) -> int:
    """A whole number that bounds nothing, or is any."""
    return _MANY if role.bound > 0 else -_MANY if role.bound else _ANY
