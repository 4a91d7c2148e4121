"""A difference as an edit script, and its replay: script applied to A gives B.

The script keeps what is paired and equal without naming it; it says which instructions of A
go, which are changed in which field, and which are new. Replaying it is the check that a
diff is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from xlagraph.canon.live import acting, roots
from xlagraph.canon.structure import call_order
from xlagraph.graph import Attributes, Computation, Module

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.diff.changes import Diff

T = TypeVar("T")

Ref = int
"""An instruction of the result: A's number if not negative, else ``-1 - k`` for `inserts[k]`."""


@dataclass(frozen=True, slots=True)
class Update:
    """New values for fields of a kept instruction; None leaves a field as it is in A."""

    a: int
    opcode: str | None = None
    shape: str | None = None
    payload: str | None = None
    attributes: Attributes | None = None
    operands: tuple[Ref, ...] | None = None
    controls: tuple[Ref, ...] | None = None
    callees: tuple[int, ...] | None = None
    """Numbers of the result's computations."""


@dataclass(frozen=True, slots=True)
class Insert:
    """A new instruction."""

    name: str
    opcode: str
    shape: str
    payload: str | None
    attributes: Attributes
    operands: tuple[Ref, ...]
    controls: tuple[Ref, ...]
    callees: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One computation of the result: what it takes, what it does, and what it returns."""

    name: str
    parameters: tuple[Ref, ...]
    acting: tuple[Ref, ...]
    """What acts on the world, in text order."""
    root: Ref
    suffix: str
    """Text behind the closing brace."""


@dataclass(frozen=True, slots=True, eq=False)
class EditScript:
    """What turns A into B."""

    removed: tuple[int, ...]
    updates: tuple[Update, ...]
    inserts: tuple[Insert, ...]
    computations: tuple[Plan, ...]
    """In call order; the entry stands last."""
    callees: dict[int, int]
    """A's computations to the result's, for calls that no update names."""
    header: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        """The number of edits."""
        return len(self.removed) + len(self.updates) + len(self.inserts)


def edit_script(diff: Diff) -> EditScript:
    """The edits that turn A into B; linear in instructions plus operands."""
    return _Writer(diff).script()


class _Writer:
    def __init__(self, diff: Diff):
        self.diff = diff
        self.a, self.b = diff.a, diff.b
        reachable = _reachable(self.b)
        self.order = [c for c in call_order(self.b) if c in reachable and c != self.b.entry]
        self.order.append(self.b.entry)
        self.numbers = {c: k for k, c in enumerate(self.order)}
        self.sources = self._sources()
        self.inserts: list[Insert] = []
        self.refs: dict[int, Ref] = {}

    def _sources(self) -> dict[int, int]:
        """For each computation of B the one of A that it is made from."""
        sources: dict[int, int] = {}
        for x, y in self.diff.match.computations.items():
            sources.setdefault(y, x)
        return sources

    def script(self) -> EditScript:
        b = self.b
        updates: list[Update] = []
        plans: list[Plan] = []
        for c in self.order:
            computation = b.computations[c]
            for y in _needed(b, computation):
                x = self._kept(y, c)
                if x < 0:
                    self._insert(y)
                else:
                    self.refs[y] = x
                    update = self._update(x, y)
                    if update:
                        updates.append(update)
            plans.append(
                Plan(
                    computation.name,
                    self._map(computation.parameters),
                    self._map(acting(b, computation)),
                    self.refs[computation.root],
                    computation.suffix,
                )
            )
        kept = {ref for ref in self.refs.values() if ref >= 0}
        return EditScript(
            removed=tuple(
                x for x in range(len(self.a)) if self.diff.match.a.live[x] and x not in kept
            ),
            updates=tuple(updates),
            inserts=tuple(self.inserts),
            computations=tuple(plans),
            callees={
                x: self.numbers[y]
                for x, y in self.diff.match.computations.items()
                if y in self.numbers
            },
            header=self.b.header,
        )

    def _kept(self, y: int, c: int) -> int:
        x = self.diff.match.to_a[y]
        source = self.sources.get(c)
        if x < 0 or source is None:
            return -1
        home = self.a.computations[source]
        return x if home.start <= x < home.stop else -1

    def _map(self, instructions: Iterable[int]) -> tuple[Ref, ...]:
        return tuple(self.refs[y] for y in instructions)

    def _insert(self, y: int) -> None:
        b = self.b
        self.refs[y] = -1 - len(self.inserts)
        self.inserts.append(
            Insert(
                b.names[y],
                b.opcodes[y],
                b.shapes[y],
                b.payloads.get(y),
                b.attributes[y],
                self._map(b.operands[y]),
                self._map(b.controls.get(y, ())),
                tuple(self.numbers[c] for c in b.callees.get(y, ())),
            )
        )

    def _update(self, x: int, y: int) -> Update | None:
        a, b = self.a, self.b
        operands, controls = self._map(b.operands[y]), self._map(b.controls.get(y, ()))
        wanted = tuple(self.numbers[c] for c in b.callees.get(y, ()))
        pairs = self.diff.match.computations
        given = tuple(self.numbers.get(pairs.get(c, -1), -1) for c in a.callees.get(x, ()))
        update = Update(
            x,
            opcode=_new(a.opcodes[x], b.opcodes[y]),
            shape=_new(a.shapes[x], b.shapes[y]),
            payload=_new(a.payloads.get(x), b.payloads.get(y)),
            attributes=None if _same_items(a.attributes[x], b.attributes[y]) else b.attributes[y],
            operands=_new(a.operands[x], operands),
            controls=_new(a.controls.get(x, ()), controls),
            callees=_new(given, wanted),
        )
        return None if update == Update(x) else update


def _new(old: T, new: T) -> T | None:
    return None if old == new else new


def _same_items(a: Attributes, b: Attributes) -> bool:
    return a.items == b.items


def _reachable(module: Module) -> set[int]:
    found: set[int] = set()
    stack = [module.entry]
    while stack:
        number = stack.pop()
        if number in found:
            continue
        found.add(number)
        for i in _needed(module, module.computations[number]):
            stack.extend(module.callees.get(i, ()))
    return found


def _needed(module: Module, computation: Computation) -> list[int]:
    """Parameters and everything that the roots depend on, in text order."""
    seen: set[int] = set()
    stack = [*roots(module, computation), *computation.parameters]
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            stack.extend(module.operands[i])
            stack.extend(module.controls.get(i, ()))
    return sorted(seen)


def replay(script: EditScript, a: Module) -> Module:
    """Applies a script to the module that it was made for."""
    return _Player(script, a).module()


class _Player:
    def __init__(self, script: EditScript, a: Module):
        self.script, self.a = script, a
        self.updates = {update.a: update for update in script.updates}
        self.numbers: dict[Ref, int] = {}
        self.names: list[str] = []
        self.opcodes: list[str] = []
        self.shapes: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Attributes] = []
        self.payloads: dict[int, str] = {}
        self.callees: dict[int, tuple[int, ...]] = {}
        self.controls: dict[int, tuple[int, ...]] = {}

    def module(self) -> Module:
        computations = [
            self._computation(index, plan) for index, plan in enumerate(self.script.computations)
        ]
        return replace(
            self.a,
            header=self.script.header,
            computations=tuple(computations),
            entry=len(computations) - 1,
            names=self.names,
            opcodes=self.opcodes,
            shapes=self.shapes,
            operands=self.operands,
            attributes=self.attributes,
            payloads=self.payloads,
            callees=self.callees,
            controls=self.controls,
        )

    def _computation(self, index: int, plan: Plan) -> Computation:
        start = len(self.names)
        for ref in (*plan.parameters, *plan.acting, plan.root):
            self._place(ref)
        return Computation(
            index,
            plan.name,
            start,
            len(self.names),
            self.numbers[plan.root],
            tuple(self.numbers[p] for p in plan.parameters),
            1,
            plan.suffix,
        )

    def _place(self, start: Ref) -> None:
        """Puts an instruction behind everything that it needs."""
        stack = [start]
        while stack:
            ref = stack[-1]
            if ref in self.numbers:
                stack.pop()
                continue
            made = self._made(ref)
            missing = [o for o in (*made.operands, *made.controls) if o not in self.numbers]
            if missing:
                stack.extend(reversed(missing))
            else:
                self._append(ref, made)
                stack.pop()

    def _made(self, ref: Ref) -> Insert:
        """The instruction that a reference stands for, its edits applied."""
        if ref < 0:
            return self.script.inserts[-1 - ref]
        a = self.a
        update = self.updates.get(ref, Update(ref))
        callees = tuple(self.script.callees.get(c, -1) for c in a.callees.get(ref, ()))
        return Insert(
            a.names[ref],
            _or(update.opcode, a.opcodes[ref]),
            _or(update.shape, a.shapes[ref]),
            _or(update.payload, a.payloads.get(ref)),
            _or(update.attributes, a.attributes[ref]),
            _or(update.operands, a.operands[ref]),
            _or(update.controls, a.controls.get(ref, ())),
            _or(update.callees, callees),
        )

    def _append(self, ref: Ref, made: Insert) -> None:
        number = self.numbers[ref] = len(self.names)
        self.names.append(f"{made.opcode}.{number}")
        self.opcodes.append(made.opcode)
        self.shapes.append(made.shape)
        self.attributes.append(made.attributes)
        self.operands.append(self._numbers(made.operands))
        if made.payload is not None:
            self.payloads[number] = made.payload
        if made.controls:
            self.controls[number] = self._numbers(made.controls)
        if made.callees:
            self.callees[number] = made.callees

    def _numbers(self, refs: Sequence[Ref]) -> tuple[int, ...]:
        return tuple(self.numbers[ref] for ref in refs)


def _or(new: T | None, old: T) -> T:
    return old if new is None else new
