"""Programs of collectives for several ranks, made at random: the same for all but for one edit.

A program is a list of modules, a module a list of `Call`s; each takes in what the one before gave,
so that their order is that of the text. `text_of` writes a module as HLO for ranks that are
replicas or, with channels and device numbers, partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    Groups = tuple[tuple[int, ...], ...]

WIDTH = 8
"""Elements that are handed on."""
ODD = ((0, 2), (1, 3))
WITH_IDS = ("all-reduce", "all-gather", "reduce-scatter")
"""Opcodes that take ``use_global_device_ids``."""


@dataclass(frozen=True)
class Call:
    """One collective, or a loop around one."""

    opcode: str
    groups: Groups
    size: int = WIDTH
    reduction: str = "add"
    type: str = "f32"
    trips: int = 1
    """More than one: a loop that counts to it."""
    channel: int = 0
    iota: bool = False
    """Groups are written as an iota list."""
    local: int = 0
    """Operations of its own before it."""


Program = tuple[tuple[Call, ...], ...]


def base_program(chance: random.Random, world: int) -> Program:
    """The same for all ranks."""
    return tuple(
        tuple(_call(chance, world) for _ in range(chance.randint(1, 3)))
        for _ in range(chance.randint(1, 3))
    )


def groups_of(chance: random.Random, world: int) -> Groups:
    """Everybody, or a division into two rows."""
    everybody = (tuple(range(world)),)
    if world != 4:
        return everybody
    return chance.choice((everybody, ((0, 1), (2, 3)), ODD))


def _call(chance: random.Random, world: int) -> Call:
    groups = groups_of(chance, world)
    several = len(groups[0])
    opcodes = ["all-reduce", "all-reduce", "all-gather", "collective-permute"]
    if WIDTH % several == 0:
        opcodes += ["reduce-scatter", "all-to-all"]
    opcode = chance.choice(opcodes)
    if opcode == "collective-permute":
        groups = (tuple(range(world)),)
    return Call(
        opcode=opcode,
        groups=groups,
        size=WIDTH if opcode in ("reduce-scatter", "all-to-all") else chance.choice((4, WIDTH)),
        reduction=chance.choice(("add", "maximum")),
        trips=chance.choice((1, 1, 1, 3)),
        iota=chance.random() < 0.5 and groups != ODD,
    )


def _size(_: random.Random, call: Call, __: int) -> Call | None:
    has_sizes = call.opcode in ("all-reduce", "all-gather")
    return replace(call, size=WIDTH + 4 - call.size) if has_sizes else None


def _operation(_: random.Random, call: Call, __: int) -> Call | None:
    other = "all-gather" if call.opcode == "all-reduce" else "all-reduce"
    return replace(call, opcode=other, size=4)


def _reduction(_: random.Random, call: Call, __: int) -> Call | None:
    other = "add" if call.reduction == "maximum" else "maximum"
    return replace(call, reduction=other) if call.opcode == "all-reduce" else None


def _type(_: random.Random, call: Call, __: int) -> Call | None:
    return replace(call, type="s32") if call.opcode == "all-reduce" else None


def _groups(chance: random.Random, call: Call, _: int) -> Call | None:
    rows = [row for row in (((0, 1), (2, 3)), ODD, ((0, 1, 2, 3),)) if row != call.groups]
    fits = call.opcode != "collective-permute"
    return replace(call, groups=chance.choice(rows), iota=False) if fits else None


def _group_order(_: random.Random, call: Call, __: int) -> Call | None:
    turned = tuple(group[::-1] for group in call.groups)
    fits = call.opcode != "collective-permute"
    return replace(call, groups=turned, iota=False) if fits else None


def _trips(_: random.Random, call: Call, __: int) -> Call | None:
    return replace(call, trips=call.trips + 1)


def _channels(_: random.Random, call: Call, __: int) -> Call | None:
    return replace(call, channel=call.channel + 7) if call.opcode in WITH_IDS else None


def _local(_: random.Random, call: Call, __: int) -> Call | None:
    return replace(call, local=3)


def _iota(_: random.Random, call: Call, __: int) -> Call | None:
    return replace(call, iota=not call.iota) if call.groups != ODD else None


_ONE = {
    "size": _size,
    "operation": _operation,
    "reduction": _reduction,
    "type": _type,
    "groups": _groups,
    "group-order": _group_order,
    "trips": _trips,
    "channels": _channels,
    "local": _local,
    "iota": _iota,
}
"""Edits of one call."""


def _drop(_: random.Random, calls: list[Call], at: int, __: int) -> list[list[Call]]:
    return [calls[:at] + calls[at + 1 :]]


def _add(chance: random.Random, calls: list[Call], at: int, world: int) -> list[list[Call]]:
    return [[*calls[:at], _call(chance, world), *calls[at:]]]


def _swap(_: random.Random, calls: list[Call], __: int, ___: int) -> list[list[Call]]:
    return [[*calls[1:2], calls[0], *calls[2:]]]


def _divide(_: random.Random, calls: list[Call], __: int, ___: int) -> list[list[Call]]:
    return [calls[:1], calls[1:]] if len(calls) > 1 else [calls]


def _module_without(_: random.Random, calls: list[Call], __: int, ___: int) -> list[list[Call]]:
    return [[], calls]


def _module_again(_: random.Random, calls: list[Call], __: int, ___: int) -> list[list[Call]]:
    return [calls, calls]


_MODULE = {
    "drop": _drop,
    "add": _add,
    "swap": _swap,
    "divide": _divide,
    "module-without": _module_without,
    "module-again": _module_again,
}
"""Edits of one module, which becomes one or several."""


EDITS = (*_ONE, *_MODULE, "swap-modules", "same")


def edited(chance: random.Random, program: Program, world: int, edit: str) -> Program | None:
    """The program with one edit; None where that changes nothing."""
    if edit == "same":
        return program
    m = chance.randrange(len(program))
    calls = list(program[m])
    at = chance.randrange(len(calls))
    if edit == "swap-modules":
        found = (*program[1:2], program[0], *program[2:])
    elif edit in _ONE:
        changed = _ONE[edit](chance, calls[at], world)
        middle = [*calls[:at], changed or calls[at], *calls[at + 1 :]]
        found = (*program[:m], tuple(middle), *program[m + 1 :])
    else:
        modules = [tuple(one) for one in _MODULE[edit](chance, calls, at, world)]
        found = (*program[:m], *modules, *program[m + 1 :])
    return None if found == program else found


def text_of(calls: tuple[Call, ...], grid: tuple[int, int]) -> str:
    """A module as HLO."""
    return _Writer(grid).text(calls)


class _Writer:
    def __init__(self, grid: tuple[int, int]):
        self.grid = grid
        self.is_spmd = grid[1] > 1
        self.world = grid[0] * grid[1]
        self.computations: list[str] = []

    def text(self, calls: tuple[Call, ...]) -> str:
        number = "partition-id" if self.is_spmd else "replica-id"
        lines = [
            f"  rank = u32[] {number}(){self.note}",
            f"  as_float = f32[] convert(rank){self.note}",
            f"  spread = f32[{WIDTH}] broadcast(as_float), dimensions={{}}{self.note}",
            f"  count = f32[{WIDTH}] iota(), iota_dimension=0{self.note}",
            f"  v0 = f32[{WIDTH}] add(spread, count){self.note}",
        ]
        last = "v0"
        for k, call in enumerate(calls, 1):
            for one in range(call.local):
                lines.append(f"  own{k}_{one} = f32[{WIDTH}] negate({last}){self.note}")
                last = f"own{k}_{one}"
            if call.local % 2:
                lines.append(f"  own{k} = f32[{WIDTH}] negate({last}){self.note}")
                last = f"own{k}"
            lines += self.looped(call, k, last) if call.trips > 1 else self.step(call, k, last)
            last = f"v{k}"
        head = f"HloModule m, replica_count={self.grid[0]}, num_partitions={self.grid[1]}\n"
        root = f"  ROOT out = (f32[{WIDTH}]) tuple({last}){self.note}"
        entry = "\n".join(["ENTRY main {", *lines, root, "}"])
        return "\n\n".join([head, *self.computations, entry]) + "\n"

    @property
    def note(self) -> str:
        return ", sharding={manual}" if self.is_spmd else ""

    def step(self, call: Call, k: int, value: str) -> list[str]:
        """The collective on the first elements; a number of its result goes on in all."""
        shape = f"{call.type}[{call.size}]"
        lines = [f"  a{k} = f32[{call.size}] slice({value}), slice={{[0:{call.size}]}}{self.note}"]
        into = f"a{k}"
        if call.type != "f32":
            lines.append(f"  c{k} = {shape} convert(a{k}){self.note}")
            into = f"c{k}"
        result, line = self.collective(call, k, into)
        lines.append(line)
        lines += [
            f"  w{k} = {call.type}[1] slice(r{k}), slice={{[{result - 1}:{result}]}}{self.note}",
            f"  f{k} = f32[1] convert(w{k}){self.note}",
            f"  e{k} = f32[] reshape(f{k}){self.note}",
            f"  b{k} = f32[{WIDTH}] broadcast(e{k}), dimensions={{}}{self.note}",
            f"  h{k} = f32[] constant(0.5){self.note}",
            f"  hb{k} = f32[{WIDTH}] broadcast(h{k}), dimensions={{}}{self.note}",
            f"  m{k} = f32[{WIDTH}] multiply({value}, hb{k}){self.note}",
            f"  v{k} = f32[{WIDTH}] add(m{k}, b{k}){self.note}",
        ]
        return lines

    def collective(self, call: Call, k: int, into: str) -> tuple[int, str]:
        """The elements of the result, and the line."""
        several = len(call.groups[0])
        attributes, size = [f"replica_groups={self.groups(call)}"], call.size
        has_ids = call.opcode in WITH_IDS
        if call.opcode in ("all-reduce", "reduce-scatter"):
            attributes.append(f"to_apply={self.reducer(call)}")
        if call.opcode not in ("all-reduce", "collective-permute"):
            attributes.append("dimensions={0}")
        if call.opcode == "all-gather":
            size *= several
        if call.opcode == "reduce-scatter":
            size //= several
        if call.opcode == "collective-permute":
            ring = ",".join(f"{{{n},{(n + 1) % self.world}}}" for n in range(self.world))
            attributes = [f"source_target_pairs={{{ring}}}"]
        if self.is_spmd or call.channel:
            attributes.append(f"channel_id={call.channel + k}")
            if self.is_spmd and has_ids:
                attributes.append("use_global_device_ids=true")
        listed = ", ".join(attributes)
        return size, f"  r{k} = {call.type}[{size}] {call.opcode}({into}), {listed}{self.note}"

    def groups(self, call: Call) -> str:
        if call.iota:
            return f"[{len(call.groups)},{len(call.groups[0])}]<=[{self.world}]"
        rows = ("{" + ",".join(map(str, group)) + "}" for group in call.groups)
        return "{" + ",".join(rows) + "}"

    def reducer(self, call: Call) -> str:
        name = f"{call.reduction}_{call.type}"
        text = (
            f"{name} {{\n  x = {call.type}[] parameter(0)\n  y = {call.type}[] parameter(1)\n"
            f"  ROOT z = {call.type}[] {call.reduction}(x, y)\n}}"
        )
        if text not in self.computations:
            self.computations.append(text)
        return name

    def looped(self, call: Call, k: int, value: str) -> list[str]:
        """A loop that counts to `trips` around the collective."""
        state = f"(s32[], f32[{WIDTH}])"
        inner = "\n".join(self.step(call, k, f"x{k}"))
        note = self.note
        self.computations.append(
            f"condition{k} {{\n  p{k} = {state} parameter(0)\n"
            f"  i{k} = s32[] get-tuple-element(p{k}), index=0\n"
            f"  n{k} = s32[] constant({call.trips})\n"
            f"  ROOT t{k} = pred[] compare(i{k}, n{k}), direction=LT\n}}"
        )
        self.computations.append(
            f"body{k} {{\n  q{k} = {state} parameter(0)\n"
            f"  j{k} = s32[] get-tuple-element(q{k}), index=0{note}\n"
            f"  one{k} = s32[] constant(1){note}\n  next{k} = s32[] add(j{k}, one{k}){note}\n"
            f"  x{k} = f32[{WIDTH}] get-tuple-element(q{k}), index=1{note}\n{inner}\n"
            f"  ROOT z{k} = {state} tuple(next{k}, v{k})\n}}"
        )
        return [
            f"  zero{k} = s32[] constant(0){note}",
            f"  state{k} = {state} tuple(zero{k}, {value})",
            f"  loop{k} = {state} while(state{k}), condition=condition{k}, body=body{k}",
            f"  v{k} = f32[{WIDTH}] get-tuple-element(loop{k}), index=1{note}",
        ]
