"""The state of loops in an order of its own: what a ``while`` carries in its tuple.

JAX carries the leaves of what a scan is given, by the names in its dictionaries or the order of
its fields, so that the same loop written with other containers has another tuple. Where a value
stands in it means nothing: here it goes by what it begins as and what the loop does with it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.form import computation_digests
from xlagraph.canon.labels import Level, instruction_text
from xlagraph.canon.order import Colours, digest_of
from xlagraph.canon.structure import call_order
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.graph import Attributes, Computation, Module

MAX_LOOPS = 16
"""More loops than these are left as they are: each is looked at by itself."""
ROUNDS = 3
"""How often what the values of a loop are to each other is taken in."""
_INDEX = re.compile(r"\bindex=\d+")


def has_loop(module: Module) -> bool:
    """Whether a module has a ``while``."""
    return "while" in module.opcodes


def with_ordered_state(module: Module) -> Module:
    """The module with the values that each of its loops carries in a canonical order.

    Inner loops first. A loop is left as it is where its tuple is used as a whole, or where others
    call its body too. Time grows with the number of loops times the size of the module.
    """
    loops = [i for i, opcode in enumerate(module.opcodes) if opcode == "while"]
    if len(loops) > MAX_LOOPS:
        return module
    place = {number: at for at, number in enumerate(call_order(module))}
    for i in sorted(loops, key=lambda i: place[module.computation_of(i).index]):
        state = _state(module, i)
        module = state.ordered() if state else module
    return module


@dataclass(frozen=True, slots=True)
class _State:
    """One loop whose tuple is taken apart wherever it is used."""

    module: Module
    loop: int
    first: int
    """The tuple that the loop begins with."""
    body: Computation
    condition: Computation

    def ordered(self) -> Module:
        """The module with the values of this loop in their order."""
        keys = self._keys()
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if order == list(range(len(keys))):
            return self.module
        module, places = self.module, {old: new for new, old in enumerate(order)}
        operands, shapes = list(module.operands), list(module.shapes)
        attributes = list(module.attributes)
        for i in (self.first, self.body.root):
            operands[i] = tuple(operands[i][k] for k in order)
        tuples = [self.body.parameters[0], self.condition.parameters[0], self.loop]
        for i in (*tuples, self.first, self.body.root):
            parts = read_shape(shapes[i]).parts
            shapes[i] = f"({', '.join(str(parts[k]) for k in order)})"
        for i in (user for whole in tuples for user in module.users[whole]):
            attributes[i] = _with_index(attributes[i], places[_index(module, i)])
        return replace(module, operands=operands, shapes=shapes, attributes=attributes)

    def _keys(self) -> list[bytes]:
        """What each value is: how it begins, and how the body makes the next one of it."""
        module = self.module
        called = computation_digests(module)
        begun = _expressions(module, module.operands[self.first], called)
        keys = [digest_of([begun[i]]) for i in module.operands[self.first]]
        for _ in range(ROUNDS):
            keys = self._refined(keys, called)
        return keys

    def _refined(self, keys: Sequence[bytes], called: Mapping[int, str]) -> list[bytes]:
        module, parameter = self.module, self.body.parameters[0]
        picked = {i: _index(module, i) for i in module.users[parameter]}

        def leaf(i: int) -> str:
            if i in picked:
                return f"state {keys[picked[i]].hex()}"
            if i in (parameter, self.body.root):
                return "whole"
            return _leaf(module, i, called)

        results = module.operands[self.body.root]
        colours = Colours(module, self.body, leaf, [key.hex() for key in keys]).found
        uses: list[list[bytes]] = [[] for _ in keys]
        for i, k in picked.items():
            if i in colours:  # what is picked and not needed has none
                uses[k].append(colours[i])
        return [
            digest_of([key, colours[result], *sorted(used)])
            for key, result, used in zip(keys, results, uses, strict=True)
        ]


def _state(module: Module, loop: int) -> _State | None:
    """A loop's state, if every use of its tuple picks one value of it."""
    first, *others = module.operands[loop]
    called = module.callees.get(loop, ())
    if others or module.opcodes[first] != "tuple" or module.users[first] != (loop,):
        return None
    keys = [key for key, _ in module.attributes[loop].callees]
    if sorted(keys) != ["body", "condition"] or len(called) != len(keys):
        return None
    found = {key: module.computations[c] for key, c in zip(keys, called, strict=True)}
    body, condition = found["body"], found["condition"]
    calls = Counter(c for many in module.callees.values() for c in many)
    if any(calls[one.index] != 1 or len(one.parameters) != 1 for one in (body, condition)):
        return None
    if module.opcodes[body.root] != "tuple" or module.users[body.root]:
        return None
    wholes = (loop, body.parameters[0], condition.parameters[0])
    users = [user for whole in wholes for user in module.users[whole]]
    is_apart = all(module.opcodes[user] == "get-tuple-element" for user in users)
    gives_whole = loop == module.computation_of(loop).root
    return None if gives_whole or not is_apart else _State(module, loop, first, body, condition)


def _expressions(
    module: Module, starts: Sequence[int], called: Mapping[int, str]
) -> dict[int, bytes]:
    """A digest of what each of these instructions computes; inputs count by their shapes."""
    found: dict[int, bytes] = {}
    stack = list(starts)
    while stack:
        i = stack[-1]
        pending = [o for o in module.operands[i] if o not in found]
        if i not in found and not pending:
            below = [found[o] for o in module.operands[i]]
            found[i] = digest_of([_leaf(module, i, called).encode(), *below])
        stack.extend(pending)
        if not pending:
            stack.pop()
    return found


def _leaf(module: Module, i: int, called: Mapping[int, str]) -> str:
    shape, opcode, payload, attributes = instruction_text(module, i, Level.PARAMETER_ORDER)
    below = [called.get(c, "") for c in module.callees.get(i, ())]
    return "\0".join((shape, opcode, "" if opcode == "parameter" else payload, attributes, *below))


def _index(module: Module, i: int) -> int:
    return int(module.attributes[i].get("index") or 0)


def _with_index(attributes: Attributes, index: int) -> Attributes:
    items = tuple((key, str(index) if key == "index" else value) for key, value in attributes.items)
    return replace(attributes, text=_INDEX.sub(f"index={index}", attributes.text), items=items)
