"""Known edits of real modules, made at random: the ground truth of `mutations.py`.

Edits made together keep apart: none touches an instruction next to another's, since two that
touch are one piece computed in another way to any reader.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from xlagraph.canon.labels import Interner
from xlagraph.canon.live import live_instructions, mark
from xlagraph.cause.editor import ModuleEditor
from xlagraph.diff.header import donors
from xlagraph.diff.match import prepare
from xlagraph.facts.distributed.bucket_tensors import tokens
from xlagraph.graph import Attributes, Computation, Module

NOTHING = Attributes("", (), "", (), ())
UNARY = ("negate", "exponential", "tanh", "abs")
ELEMENTWISE = ("add", "multiply", "subtract", "divide", "maximum", "minimum")
STARTS = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}
"""What a reduction by each of these starts from."""


class Edited:
    """A module's entry computation under edit; numbers of old instructions stay."""

    def __init__(self, module: Module):
        self.module = module
        self.opcodes = list(module.opcodes)
        self.shapes = list(module.shapes)
        self.operands = list(module.operands)
        self.attributes = list(module.attributes)
        self.payloads = dict(module.payloads)
        self.header = dict(module.header)
        self.parameters = list(module.entry_computation.parameters)
        self.gone: set[int] = set()
        self.touched = tokens(ModuleEditor(module))
        """What is off limits: torch_xla's tokens, which no program edits, and what is edited."""
        self.site: set[int] = set()
        """What the present edit changed or made, and what uses it."""
        live = live_instructions(module)
        entry = module.entry_computation
        self.rewired: set[int] = set()
        self.body = [i for i in range(entry.start, entry.stop) if live[i] and i != entry.root]
        self.alive = {*self.body, entry.root}

    @property
    def root(self) -> int:
        """The tuple of outputs."""
        return self.module.entry_computation.root

    def free(self, opcodes: Iterable[str]) -> list[int]:
        """Live instructions with one of these opcodes, away from all edits."""
        wanted, taken = set(opcodes), self.touched | self.gone
        return [
            i
            for i in dict.fromkeys((*self.body, *self.parameters))
            if self.opcodes[i] in wanted and i not in taken and self.uses(i)
            if taken.isdisjoint(self.operands[i])
            if taken.isdisjoint(user for user, _ in self.uses(i))
        ]

    def arrays(self) -> list[int]:
        """Computed f32 values away from all edits."""
        floats = {o for o in self.opcodes if o not in ("parameter", "constant", "iota")}
        return [i for i in self.free(floats) if self.shapes[i].startswith("f32[")]

    def claim(self, *instructions: int) -> None:
        """Notes what an edit changed; its neighbours are off limits for the next ones."""
        users = {user for i in instructions for user, _ in self.uses(i)}
        around = {o for i in (*instructions, *users) if i != self.root for o in self.operands[i]}
        self.site |= users.union(instructions) - {self.root}
        self.touched |= (around | self.site) - {self.root}

    def add(self, opcode: str, shape: str, operands: tuple[int, ...], payload: str = "") -> int:
        """A new instruction."""
        self.opcodes.append(opcode)
        self.shapes.append(shape)
        self.operands.append(operands)
        self.attributes.append(NOTHING)
        self.alive.add(len(self.opcodes) - 1)
        if payload:
            self.payloads[len(self.opcodes) - 1] = payload
        return len(self.opcodes) - 1

    def uses(self, i: int) -> list[tuple[int, int]]:
        """Users of an instruction in the entry, and at which place."""
        extra = range(len(self.module), len(self.opcodes))
        users = self.module.users[i] if i < len(self.module) else ()
        return [
            (user, k)
            for user in dict.fromkeys((*users, *self.rewired, *extra))
            if user in self.alive and user not in self.gone
            for k, o in enumerate(self.operands[user])
            if o == i
        ]

    def rewire(self, user: int, place: int, value: int) -> None:
        """Lets one operand be another value."""
        operands = list(self.operands[user])
        operands[place] = value
        self.operands[user] = tuple(operands)
        self.rewired.add(user)

    def build(self, chance: random.Random) -> tuple[Module, dict[int, int]]:
        """The module with a random text order and new names, and where each instruction is."""
        module, entry = self.module, self.module.entry_computation
        extra = range(len(module), len(self.opcodes))
        outer = [i for c in module.computations for i in range(c.start, c.stop) if c is not entry]
        inner = [i for i in (*range(entry.start, entry.stop), *extra) if i not in self.gone]
        order = outer + self._order(inner, chance)
        new = {old: k for k, old in enumerate(order)}
        chance.shuffle(self.parameters)
        parameters = [p for p in self.parameters if p not in self.gone]
        payloads = self.payloads | {p: str(n) for n, p in enumerate(parameters)}
        computations = [
            replace(
                c,
                start=new[c.start],
                stop=new[c.stop - 1] + 1,
                root=new[c.root],
                parameters=tuple(new[p] for p in c.parameters),
            )
            for c in module.computations
            if c is not entry
        ]
        last = Computation(
            entry.index,
            entry.name,
            len(outer),
            len(order),
            new[entry.root],
            tuple(new[p] for p in parameters),
            1,
        )
        names = [f"{self.opcodes[i]}.{chance.getrandbits(30)}.{k}" for k, i in enumerate(order)]
        number = {p: n for n, p in enumerate(parameters)}
        built = Module(
            name="mutated",
            header=tuple((k, self._renumbered(k, v, number)) for k, v in self.header.items()),
            computations=(*computations, last),
            entry=module.entry,
            names=names,
            opcodes=[self.opcodes[i] for i in order],
            shapes=[self.shapes[i] for i in order],
            operands=[tuple(new[o] for o in self.operands[i]) for i in order],
            attributes=[self.attributes[i] for i in order],
            payloads={new[i]: text for i, text in payloads.items() if i in new},
            callees={new[i]: c for i, c in module.callees.items() if i in new},
            controls={new[i]: tuple(new[c] for c in cs) for i, cs in module.controls.items()},
            tables=module.tables,
            file="mutated",
        )
        return built, new

    def _order(self, inner: list[int], chance: random.Random) -> list[int]:
        rank = {i: i + chance.randrange(8) if i < len(self.module) else 0 for i in inner}
        done: set[int] = set()
        order: list[int] = []
        for start in sorted(inner, key=lambda i: (rank[i], i)):
            stack = [start]
            while stack:
                i = stack[-1]
                below = [
                    o
                    for o in (*self.operands[i], *self.module.controls.get(i, ()))
                    if o not in done
                ]
                if i in done or not below:
                    stack.pop()
                    if i not in done:
                        done.add(i)
                        order.append(i)
                else:
                    stack.extend(below)
        return order

    def _renumbered(self, key: str, text: str, number: dict[int, int]) -> str:
        if key != "buffer_donor":
            return text
        before = self.module.entry_computation.parameters
        found = sorted(number[before[n]] for n, _ in donors(text) if before[n] in number)
        return "{ " + ", ".join(f"({n}, {{}})" for n in found) + " }"


Edit = Callable[[Edited, random.Random], bool]


def constant(edited: Edited, chance: random.Random) -> bool:
    """Another value for a number that is used."""
    found = [i for i in edited.free(["constant"]) if edited.shapes[i].startswith("f32[]")]
    if not found:
        return False
    i = chance.choice(found)
    edited.payloads[i] = str(chance.randrange(3, 90) + 0.25)
    edited.claim(i)
    return True


def more_outputs(edited: Edited, chance: random.Random) -> bool:
    """A value computed from one on the way is kept alive."""
    found = edited.arrays()
    if not found:
        return False
    value = chance.choice(found)
    new = edited.add(chance.choice(UNARY), edited.shapes[value], (value,))
    _insert_output(edited, chance, new)
    edited.claim(new)
    return True


def output_order(edited: Edited, chance: random.Random) -> bool:
    """Two outputs, each computed like no other one, change places."""
    side = prepare(edited.module, Interner())
    outputs = list(edited.operands[edited.root])
    values = [side.expressions[o] if o < len(edited.module) else -o for o in outputs]
    count = Counter(values)
    free = [
        k
        for k, o in enumerate(outputs)
        if count[values[k]] == 1 and o not in edited.touched and o < len(edited.module)
    ]
    if len(free) < 2:
        return False
    j, k = chance.sample(free, 2)
    outputs[j], outputs[k] = outputs[k], outputs[j]
    edited.operands[edited.root] = tuple(outputs)
    edited.claim(outputs[j], outputs[k])
    return True


def insertion(edited: Edited, chance: random.Random) -> bool:
    """All users of a value take the result of another step on it."""
    found = edited.arrays()
    if not found:
        return False
    i = chance.choice(found)
    uses = edited.uses(i)
    new = edited.add(chance.choice(UNARY), edited.shapes[i], (i,))
    for user, place in uses:
        edited.rewire(user, place, new)
    edited.claim(new)
    return True


def clipping(edited: Edited, chance: random.Random) -> bool:
    """Several values are scaled by a number computed from all of them."""
    found = edited.arrays()
    if len(found) < 6:
        return False
    chosen: list[int] = []
    total = edited.add("abs", "f32[]", ())
    for i in chance.sample(found, len(found)):
        if i in edited.touched or len(chosen) == 4 or _needs(edited, i, set(chosen)):
            continue
        if not any(_needs(edited, o, {i}) for o in chosen):
            uses = edited.uses(i)
            chosen.append(i)
            edited.operands[total] = tuple(chosen)
            scaled = edited.add("multiply", edited.shapes[i], (i, total))
            for user, place in uses:
                edited.rewire(user, place, scaled)
            edited.claim(scaled, total)
    return bool(chosen)


def replacement(edited: Edited, chance: random.Random) -> bool:
    """One element-wise step is another one."""
    found = edited.free(ELEMENTWISE)
    if not found:
        return False
    i = chance.choice(found)
    edited.opcodes[i] = chance.choice([o for o in ELEMENTWISE if o != edited.opcodes[i]])
    edited.claim(i)
    return True


def scalar(edited: Edited, chance: random.Random) -> bool:
    """A scalar parameter becomes the constant 1."""
    found = [p for p in edited.free(["parameter"]) if edited.shapes[p].startswith("f32[]")]
    if not found:
        return False
    p = chance.choice(found)
    new = edited.add("constant", edited.shapes[p], (), "1")
    for user, place in edited.uses(p):
        edited.rewire(user, place, new)
    edited.gone.add(p)
    edited.claim(new)
    return True


def donor(edited: Edited, chance: random.Random) -> bool:
    """A parameter is no longer donated."""
    found = sorted(n for n, _ in donors(edited.header.get("buffer_donor", "")))
    if not found:
        return False
    found.remove(chance.choice(found))
    edited.header["buffer_donor"] = "{ " + ", ".join(f"({n}, {{}})" for n in found) + " }"
    return True


def lower_precision(edited: Edited, chance: random.Random) -> bool:
    """One element-wise step is computed in bf16, between conversions."""
    found = [i for i in edited.free(ELEMENTWISE) if edited.shapes[i].startswith("f32[")]
    if not found:
        return False
    i = chance.choice(found)
    uses = edited.uses(i)
    for place, o in enumerate(edited.operands[i]):
        lower = edited.add("convert", edited.shapes[o].replace("f32", "bf16", 1), (o,))
        edited.rewire(i, place, lower)
    result = edited.add("convert", edited.shapes[i], (i,))
    edited.shapes[i] = edited.shapes[i].replace("f32", "bf16", 1)
    for user, place in uses:
        edited.rewire(user, place, result)
    edited.claim(i, result, *edited.operands[i])
    return True


def dimension(edited: Edited, chance: random.Random) -> bool:
    """An input is larger in one dimension, and so is all that follows."""
    if edited.site or edited.gone:
        return False
    module, entry = edited.module, edited.module.entry_computation
    inputs = [_sizes(module.shapes[p]) for p in entry.parameters]
    fixed = {n for i in range(entry.start, entry.stop) for n in _fixed_sizes(module, i)}
    found = sorted({n for sizes in inputs for n in sizes if n > 4} - fixed)
    if not found:
        return False
    old = chance.choice(found)
    new = old + 1
    while any(new in sizes for sizes in inputs):
        new += 1
    for i in range(entry.start, entry.stop):
        edited.shapes[i] = _resized(edited.shapes[i], old, new)
        if edited.shapes[i] != module.shapes[i]:
            edited.site.add(i)
    edited.touched |= edited.site
    return True


def bucket_order(edited: Edited, chance: random.Random) -> bool:
    """The tensors of one bucket stand in another order."""
    found = [i for i in edited.free(["reduce-scatter"]) if len(edited.operands[i]) > 2]
    if not found:
        return False
    i = chance.choice(found)
    order = list(range(len(edited.operands[i])))
    chance.shuffle(order)
    _rebucket(edited, i, order)
    return order != sorted(order)


def bucket_member(edited: Edited, chance: random.Random) -> bool:
    """A tensor of the module's last bucket is not reduced with the others: it waits."""
    found = [i for i in edited.free(["reduce-scatter"]) if len(edited.operands[i]) > 2]
    if not found:
        return False
    i = max(found)
    place = chance.randrange(1, len(edited.operands[i]))  # the first one's result makes a token
    waiting = edited.operands[i][place]
    for user in edited.module.users[i]:
        if edited.attributes[user].get("index") == str(place):
            for other, k in edited.uses(user):
                edited.rewire(other, k, waiting)
            edited.gone.add(user)
    _rebucket(edited, i, [k for k in range(len(edited.operands[i])) if k != place])
    return True


def _rebucket(edited: Edited, i: int, order: list[int]) -> None:
    """Puts a bucket's tensors into this order, those not in it left out."""
    parts = _parts(edited.shapes[i])
    place = {k: n for n, k in enumerate(order)}
    for user in edited.module.users[i]:
        k = int(edited.attributes[user].get("index") or 0)
        if k in place:
            _set_index(edited, user, place[k])
    edited.operands[i] = tuple(edited.operands[i][k] for k in order)
    edited.shapes[i] = "(" + ", ".join(parts[k] for k in order) + ")"
    edited.claim(i)


def groups(edited: Edited, chance: random.Random) -> bool:
    """A collective runs over other groups of replicas."""
    found = edited.free(["all-gather", "all-reduce", "reduce-scatter"])
    if not found:
        return False
    i = chance.choice(found)
    items = tuple(
        (k, "{{0,1},{2,3}}" if k == "replica_groups" else v) for k, v in edited.attributes[i].items
    )
    edited.attributes[i] = replace(edited.attributes[i], items=items, text=_text(items))
    edited.claim(i)
    return True


def reduction(edited: Edited, chance: random.Random) -> bool:
    """A reduction applies another operation, and starts from that one's value if it has a start."""
    found = [
        (i, root)
        for i in edited.free(["reduce", "reduce-scatter", "all-reduce"])
        if (root := _combiner(edited.module, i)) is not None
    ]
    if not found:
        return False
    i, root = chance.choice(found)
    edited.opcodes[root] = chance.choice([o for o in STARTS if o != edited.opcodes[root]])
    if edited.opcodes[i] == "reduce":
        shape = edited.shapes[edited.operands[i][1]]
        edited.rewire(i, 1, edited.add("constant", shape, (), STARTS[edited.opcodes[root]]))
    edited.claim(i)
    return True


def _combiner(module: Module, i: int) -> int | None:
    """The operation on f32 that a reduction applies, unless another one applies it, too."""
    (called,) = module.callees[i]
    root = module.computations[called].root
    is_shared = sum(called in callees for callees in module.callees.values()) > 1
    fits = module.opcodes[root] in STARTS and module.shapes[root].startswith("f32[]")
    return root if fits and not is_shared else None


def index(edited: Edited, chance: random.Random) -> bool:
    """A slice of the same length begins one further on."""
    found = [i for i in edited.free(["slice"]) if _can_move(edited, i)]
    if not found:
        return False
    i = chance.choice(found)
    items = tuple(
        (k, _SLICE.sub(lambda m: f"[{int(m[1]) + 1}:{int(m[2]) + 1}]", v, 1) if k == "slice" else v)
        for k, v in edited.attributes[i].items
    )
    edited.attributes[i] = replace(edited.attributes[i], items=items, text=_text(items))
    edited.claim(i)
    return True


def cut(edited: Edited, chance: random.Random) -> bool:
    """The graph ends in a value on the way: someone read it."""
    if edited.site or edited.gone:
        return False
    entry = edited.module.entry_computation
    numbers = prepare(edited.module, Interner()).expressions
    outputs = {numbers[i] for i in edited.operands[edited.root]}
    early = [
        i
        for i in edited.arrays()
        if 10 < _ancestors(edited.module, i) < (entry.stop - entry.start) // 2
        and numbers[i] not in outputs
    ]
    if not early:
        return False
    i = chance.choice(early)
    edited.operands[edited.root] = (i,)
    kept = bytearray(len(edited.module))
    mark(edited.module, kept, [i])
    edited.gone.update(p for p in entry.parameters if not kept[p])
    edited.header.pop("buffer_donor", None)
    edited.site.add(i)
    return True


_SLICE = re.compile(r"\[(\d+):(\d+)\]")
_SIZES = re.compile(r"\[([\d,]*)\]")


def _can_move(edited: Edited, i: int) -> bool:
    """Whether the first bound of a slice can move on by one."""
    (operand,) = edited.operands[i]
    found = _SLICE.search(edited.attributes[i].get("slice") or "")
    sizes = _sizes(edited.shapes[operand])
    return bool(found and sizes and int(found[2]) < sizes[0])


def _sizes(shape: str) -> list[int]:
    found = _SIZES.search(shape)
    return [int(n) for n in found[1].split(",")] if found and found[1] else []


def _fixed_sizes(module: Module, i: int) -> set[int]:
    """Dimensions that an instruction splits, merges or cuts, so that they cannot just grow."""
    opcode = module.opcodes[i]
    own = _sizes(module.shapes[i])
    below = [n for o in module.operands[i] for n in _sizes(module.shapes[o])]
    if opcode == "reshape":
        return set((Counter(own) - Counter(below)) + (Counter(below) - Counter(own)))
    if opcode in ("slice", "concatenate", "pad", "gather", "scatter", "dynamic-slice", "iota"):
        return {*own, *below}
    if opcode in ("all-gather", "reduce-scatter", "constant", "custom-call", "convolution"):
        return {*own, *below}
    return set()


def _resized(shape: str, old: int, new: int) -> str:
    def one(found: re.Match[str]) -> str:
        sizes = found[1].split(",")
        return "[" + ",".join(str(new) if n == str(old) else n for n in sizes) + "]"

    return _SIZES.sub(one, shape)


def _parts(shape: str) -> list[str]:
    return re.findall(r"\w+\[[\d,]*\](?:\{[\d,]*\})?", shape)


def _set_index(edited: Edited, i: int, number: int) -> None:
    items = (("index", str(number)),)
    edited.attributes[i] = replace(edited.attributes[i], items=items, text=_text(items))


def _text(items: tuple[tuple[str, str], ...]) -> str:
    return "".join(f", {k}={v}" for k, v in items)


def _ancestors(module: Module, i: int) -> int:
    """How many instructions a value is computed from; 0 if none of them is a parameter."""
    needed = bytearray(len(module))
    mark(module, needed, [i])
    is_input = any(needed[p] for p in module.entry_computation.parameters)
    return sum(needed) if is_input else 0


def _needs(edited: Edited, high: int, below: set[int]) -> bool:
    """Whether an instruction depends on any of others, in the module as it was."""
    low = min(below, default=high)
    seen, stack = {high}, [high]
    while stack:
        for o in edited.module.operands[stack.pop()]:
            if o >= low and o not in seen:
                seen.add(o)
                stack.append(o)
    return not seen.isdisjoint(below)


def _insert_output(edited: Edited, chance: random.Random, value: int) -> None:
    outputs = list(edited.operands[edited.root])
    outputs.insert(chance.randrange(len(outputs) + 1), value)
    edited.operands[edited.root] = tuple(outputs)


EDITS: dict[str, tuple[Edit, frozenset[str]]] = {
    "constant": (constant, frozenset({"constant-value"})),
    "more outputs": (more_outputs, frozenset({"live-tensor"})),
    "output order": (output_order, frozenset({"output-order", "outputs-moved"})),
    "insertion": (insertion, frozenset({"extra-subgraph"})),
    "clipping": (clipping, frozenset({"clipping", "extra-subgraph", "optimizer-option"})),
    "replacement": (replacement, frozenset({"replaced-subgraph"})),
    "scalar": (scalar, frozenset({"special-scalar"})),
    "donor": (donor, frozenset({"donors"})),
    "precision": (lower_precision, frozenset({"dtype"})),
    "bucket order": (bucket_order, frozenset({"bucket-composition"})),
    "bucket member": (bucket_member, frozenset({"bucket-composition", "bucket-carry"})),
    "replica groups": (groups, frozenset({"replica-groups"})),
    "index": (index, frozenset({"python-index"})),
    "reduction": (reduction, frozenset({"other-reduction"})),
}
"""Name, how it is made, and the kinds of cause that name it rightly."""

ALONE: dict[str, tuple[Edit, frozenset[str]]] = {
    "dimension": (dimension, frozenset({"input-shape"})),
    "cut": (cut, frozenset({"early-execution"})),
}
"""Edits of the whole module, made alone."""


def noise(edited: Edited, chance: random.Random) -> None:
    """What means nothing: dead code and repeated constants (order and names come later)."""
    for i in chance.sample(edited.body, min(3, len(edited.body))):
        if edited.opcodes[i] not in ("parameter", "constant") and i not in edited.module.callees:
            copy = edited.add(edited.opcodes[i], edited.shapes[i], edited.operands[i])
            edited.attributes[copy] = edited.attributes[i]
    constants = [i for i in edited.body if edited.opcodes[i] == "constant" and edited.uses(i)]
    if constants:
        i = chance.choice(constants)
        user, place = edited.uses(i)[0]
        edited.rewire(user, place, edited.add("constant", edited.shapes[i], (), edited.payloads[i]))
