"""Changes to a module that leave its meaning alone, or change it in a known way."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.graph import Computation, Module
from xlagraph.hlo.header_values import read_donors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Attributes


def arrange(module: Module, orders: Sequence[Sequence[int]], names: Sequence[str]) -> Module:
    """The module with its computations' instructions in new text orders and with new names."""
    order = [i for part in orders for i in part]
    new = {old: k for k, old in enumerate(order)}
    computations = []
    start = 0
    for computation, part in zip(module.computations, orders, strict=True):
        computations.append(
            Computation(
                computation.index,
                f"region_{computation.index}.{start}",
                start,
                start + len(part),
                new[computation.root],
                tuple(new[p] for p in computation.parameters),
                1,
            )
        )
        start += len(part)
    return replace(
        module,
        computations=tuple(computations),
        names=[names[i] for i in order],
        opcodes=[module.opcodes[i] for i in order],
        shapes=[module.shapes[i] for i in order],
        operands=[tuple(new[o] for o in module.operands[i]) for i in order],
        attributes=[module.attributes[i] for i in order],
        payloads={new[i]: text for i, text in module.payloads.items()},
        callees={new[i]: c for i, c in module.callees.items()},
        controls={new[i]: tuple(new[c] for c in cs) for i, cs in module.controls.items()},
    )


def shuffled(module: Module, seed: int) -> Module:
    """Another topological order of the text, and every instruction with another name."""
    chance = random.Random(seed)
    names = [f"{opcode}.{chance.getrandbits(40)}.{i}" for i, opcode in enumerate(module.opcodes)]
    orders = [_random_order(module, computation, chance) for computation in module.computations]
    return arrange(module, orders, names)


def _random_order(module: Module, computation: Computation, chance: random.Random) -> list[int]:
    body = range(computation.start, computation.stop)
    waiting = {i: len({*module.operands[i], *module.controls.get(i, ())}) for i in body}
    followers: dict[int, list[int]] = {i: [] for i in body}
    for i in body:
        for o in {*module.operands[i], *module.controls.get(i, ())}:
            followers[o].append(i)
    ready = [i for i in body if not waiting[i]]
    order = []
    while ready:
        i = ready.pop(chance.randrange(len(ready)))
        order.append(i)
        for user in followers[i]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return order


def with_parameters_permuted(module: Module, seed: int) -> Module:
    """The entry's parameters under other numbers, the same ones donated."""
    entry = module.entry_computation
    parameters = list(entry.parameters)
    random.Random(seed).shuffle(parameters)
    payloads = dict(module.payloads) | {p: str(k) for k, p in enumerate(parameters)}
    computations = list(module.computations)
    computations[module.entry] = replace(entry, parameters=tuple(parameters))
    header = tuple((key, _renumbered(key, text, entry, payloads)) for key, text in module.header)
    return replace(module, payloads=payloads, computations=tuple(computations), header=header)


def _renumbered(key: str, text: str, entry: Computation, numbers: dict[int, str]) -> str:
    if key != "buffer_donor":
        return text
    found = sorted(int(numbers[entry.parameters[donor.parameter]]) for donor in read_donors(text))
    return "{ " + ", ".join(f"({n}, {{}})" for n in found) + " }"


def with_outputs_permuted(module: Module, seed: int) -> Module:
    """The root tuple's operands in another order."""
    root = module.entry_computation.root
    outputs = list(module.operands[root])
    random.Random(seed).shuffle(outputs)
    operands = list(module.operands)
    operands[root] = tuple(outputs)
    return replace(module, operands=operands)


def appended(
    module: Module,
    additions: Sequence[tuple[str, str, str | None, Attributes, tuple[int, ...]]],
) -> Module:
    """More instructions at the end of the last computation, which must be the entry."""
    assert module.entry == len(module.computations) - 1
    columns = {
        "names": list(module.names),
        "opcodes": list(module.opcodes),
        "shapes": list(module.shapes),
        "operands": list(module.operands),
        "attributes": list(module.attributes),
    }
    payloads = dict(module.payloads)
    for opcode, shape, payload, attributes, operands in additions:
        number = len(columns["names"])
        columns["names"].append(f"extra_{opcode}.{number}")
        columns["opcodes"].append(opcode)
        columns["shapes"].append(shape)
        columns["operands"].append(operands)
        columns["attributes"].append(attributes)
        if payload is not None:
            payloads[number] = payload
    entry = module.entry_computation
    computations = list(module.computations)
    computations[module.entry] = replace(entry, stop=len(columns["names"]))
    return replace(module, computations=tuple(computations), payloads=payloads, **columns)


def with_dead_code(module: Module, seed: int) -> Module:
    """Copies of some instructions of the entry that nobody uses."""
    chance = random.Random(seed)
    entry = module.entry_computation
    body = [
        i
        for i in range(entry.start, entry.stop)
        if module.opcodes[i] not in ("parameter", "tuple") and i not in module.callees
    ]
    chosen = chance.sample(body, min(5, len(body)))
    return appended(
        module,
        [
            (
                module.opcodes[i],
                module.shapes[i],
                module.payloads.get(i),
                module.attributes[i],
                module.operands[i],
            )
            for i in chosen
        ],
    )


def with_constants_split(module: Module, seed: int) -> Module:
    """Users of one constant get copies of their own."""
    chance = random.Random(seed)
    constants = [
        i
        for i, opcode in enumerate(module.opcodes)
        if opcode == "constant" and i >= module.entry_computation.start and len(module.users[i]) > 1
    ]
    if not constants:
        return module
    constant = chance.choice(constants)
    more = appended(
        module,
        [
            (
                "constant",
                module.shapes[constant],
                module.payloads[constant],
                module.attributes[constant],
                (),
            )
        ],
    )
    copy = len(more) - 1
    operands = list(more.operands)
    user = chance.choice(module.users[constant])
    operands[user] = tuple(copy if o == constant else o for o in operands[user])
    split = replace(more, operands=operands)
    entry = split.entry_computation
    orders: list[Sequence[int]] = [range(c.start, c.stop) for c in split.computations]
    orders[split.entry] = [*range(entry.start, user), copy, *range(user, copy)]
    return arrange(split, orders, split.names)
