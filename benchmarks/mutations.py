"""Edits real modules at random, in known ways, and counts what is found again.

Each trial takes a committed real module, applies one to three known edits (and always some that
mean nothing: new names, another text order, permuted parameters, dead code, repeated constants),
explains the difference and compares: pairs of instructions with the true pairs, kinds of causes
with the edits made. "Wrong and proved" counts causes that were proved and yet are no edit's.

    python benchmarks/mutations.py [--trials N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from xlagraph.canon.live import live_instructions
from xlagraph.cause import Explanation, explain_modules
from xlagraph.diff.header import donors
from xlagraph.graph import Attributes, Computation, Module
from xlagraph.hlo import read_module
from xlagraph.run.reader import read_run

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MODULES = 16
NOTHING = Attributes("", (), "", (), ())
UNARY = ("negate", "exponential", "tanh", "abs")
ELEMENTWISE = ("add", "multiply", "subtract", "divide", "maximum", "minimum")


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
        self.touched: set[int] = set()
        live = live_instructions(module)
        entry = module.entry_computation
        self.body = [i for i in range(entry.start, entry.stop) if live[i] and i != entry.root]

    @property
    def root(self) -> int:
        """The tuple of outputs."""
        return self.module.entry_computation.root

    def add(self, opcode: str, shape: str, operands: tuple[int, ...], payload: str = "") -> int:
        """A new instruction."""
        self.opcodes.append(opcode)
        self.shapes.append(shape)
        self.operands.append(operands)
        self.attributes.append(NOTHING)
        if payload:
            self.payloads[len(self.opcodes) - 1] = payload
        return len(self.opcodes) - 1

    def uses(self, i: int) -> list[tuple[int, int]]:
        """Users of an instruction in the entry, and at which place."""
        return [
            (user, k)
            for user in [*self.body, self.root]
            if user not in self.gone
            for k, o in enumerate(self.operands[user])
            if o == i
        ]

    def rewire(self, user: int, place: int, value: int) -> None:
        """Lets one operand be another value."""
        operands = list(self.operands[user])
        operands[place] = value
        self.operands[user] = tuple(operands)

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
    found = [
        i
        for i in edited.body
        if edited.opcodes[i] == "constant"
        and i not in edited.touched
        and edited.shapes[i].startswith("f32[]")
        and edited.uses(i)
    ]
    if not found:
        return False
    i = chance.choice(found)
    edited.payloads[i] = str(chance.randrange(3, 90) + 0.25)
    edited.touched.add(i)
    return True


def more_outputs(edited: Edited, chance: random.Random) -> bool:
    """A value computed from one on the way is kept alive."""
    value = chance.choice([i for i in edited.body if _is_array(edited, i)])
    new = edited.add(chance.choice(UNARY), edited.shapes[value], (value,))
    outputs = list(edited.operands[edited.root])
    outputs.insert(chance.randrange(len(outputs) + 1), new)
    edited.operands[edited.root] = tuple(outputs)
    return True


def output_order(edited: Edited, chance: random.Random) -> bool:
    """Two outputs change places."""
    outputs = list(edited.operands[edited.root])
    if len(outputs) < 2:
        return False
    j, k = chance.sample(range(len(outputs)), 2)
    outputs[j], outputs[k] = outputs[k], outputs[j]
    edited.operands[edited.root] = tuple(outputs)
    return outputs[j] != outputs[k]


def insertion(edited: Edited, chance: random.Random) -> bool:
    """All users of a value take the result of another step on it."""
    found = [i for i in edited.body if _is_array(edited, i) and i not in edited.touched]
    i = chance.choice(found)
    uses = edited.uses(i)
    if not uses:
        return False
    new = edited.add(chance.choice(UNARY), edited.shapes[i], (i,))
    for user, place in uses:
        edited.rewire(user, place, new)
    edited.touched.add(i)
    return True


def replacement(edited: Edited, chance: random.Random) -> bool:
    """One element-wise step is another one."""
    found = [i for i in edited.body if edited.opcodes[i] in ELEMENTWISE and i not in edited.touched]
    if not found:
        return False
    i = chance.choice(found)
    others = [opcode for opcode in ELEMENTWISE if opcode != edited.opcodes[i]]
    edited.opcodes[i] = chance.choice(others)
    edited.touched.add(i)
    return True


def scalar(edited: Edited, chance: random.Random) -> bool:
    """A scalar parameter becomes the constant 1."""
    found = [
        p
        for p in edited.parameters
        if edited.shapes[p].startswith("f32[]") and edited.uses(p) and p not in edited.gone
    ]
    if not found:
        return False
    p = chance.choice(found)
    new = edited.add("constant", edited.shapes[p], (), "1")
    for user, place in edited.uses(p):
        edited.rewire(user, place, new)
    edited.gone.add(p)
    return True


def donor(edited: Edited, chance: random.Random) -> bool:
    """A parameter is no longer donated."""
    found = sorted(n for n, _ in donors(edited.header.get("buffer_donor", "")))
    if not found:
        return False
    found.remove(chance.choice(found))
    edited.header["buffer_donor"] = "{ " + ", ".join(f"({n}, {{}})" for n in found) + " }"
    return True


def _is_array(edited: Edited, i: int) -> bool:
    return edited.shapes[i].startswith("f32[") and edited.opcodes[i] not in (
        "constant",
        "parameter",
        "iota",
    )


EDITS: dict[str, tuple[Edit, frozenset[str]]] = {
    "constant": (constant, frozenset({"constant-value"})),
    "more outputs": (more_outputs, frozenset({"live-tensor"})),
    "output order": (output_order, frozenset({"output-order"})),
    "insertion": (insertion, frozenset({"extra-subgraph"})),
    "replacement": (replacement, frozenset({"replaced-subgraph"})),
    "scalar": (scalar, frozenset({"special-scalar"})),
    "donor": (donor, frozenset({"donors"})),
}
"""Name, how it is made, and the kinds of cause that name it rightly."""


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


NOISE_KINDS = {"parameter-order", "dead-code", "repeated-constants", "metadata"}
"""What every trial adds on top, and what is named where nothing else differs."""


@dataclass(slots=True)
class Score:
    """Counts over the trials with one set of edits."""

    trials: int = 0
    pairs: int = 0
    right_pairs: int = 0
    true_pairs: int = 0
    causes: int = 0
    right_causes: int = 0
    true_causes: int = 0
    proved: int = 0
    wrong_proved: int = 0
    wrong: Counter[str] = field(default_factory=Counter)

    def count(
        self, explanation: Explanation, new: dict[int, int], wanted: list[frozenset[str]]
    ) -> None:
        """Adds one trial."""
        match = explanation.diff.match
        side = match.a
        true = {
            i: new[i]
            for i in range(len(side.module))
            if side.live[i] and i in new and match.b.live[new[i]]
        }
        found = {i: y for i, y in enumerate(match.to_b) if y >= 0 and side.live[i]}
        self.trials += 1
        self.pairs += len(found)
        self.true_pairs += len(true)
        self.right_pairs += sum(1 for i, y in found.items() if true.get(i) == y)
        kinds = {cause.kind for cause in explanation.causes} - NOISE_KINDS
        allowed = frozenset[str]().union(*wanted)
        self.causes += len(kinds)
        self.right_causes += len(kinds & allowed)
        self.true_causes += len(wanted)
        self.proved += explanation.proved
        for group in wanted:
            self.wrong["missed " + "/".join(sorted(group))] += not kinds & group
        if explanation.proved and kinds - allowed:
            self.wrong_proved += 1
            self.wrong.update(kinds - allowed)

    @property
    def recall(self) -> float:
        """Part of the edits whose kind was named."""
        missed = sum(n for kind, n in self.wrong.items() if kind.startswith("missed "))
        return 1 - missed / self.true_causes if self.true_causes else 1.0


def modules() -> list[Module]:
    """Real modules of the committed captures, small ones first."""
    found = []
    for folder in sorted((*(FIXTURES / "pairs").iterdir(), *(FIXTURES / "runs").iterdir())):
        if folder.is_dir():
            run = read_run(folder)
            found += [read_module(run.graph_text(d), folder.name) for d in run.digests()]
    usable = [m for m in found if m.entry == len(m.computations) - 1 and len(m) > 60]
    usable.sort(key=len)
    step = max(1, len(usable) // MODULES)
    return usable[::step]


def trial(module: Module, names: list[str], seed: int) -> tuple[Explanation, Score] | None:
    """Makes the edits, explains, counts; None where an edit has no place in the module."""
    chance = random.Random(seed)
    edited = Edited(module)
    for name in names:
        if not EDITS[name][0](edited, chance):
            return None
    noise(edited, chance)
    mutated, new = edited.build(chance)
    explanation = explain_modules(module, mutated)
    score = Score()
    score.count(explanation, new, [EDITS[name][1] for name in names])
    return explanation, score


def main() -> int:
    """Runs the trials and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4, help="per module and set of edits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print each trial that went wrong")
    arguments = parser.parse_args()
    originals = modules()
    chance = random.Random(arguments.seed)
    sets: dict[str, tuple[int, tuple[str, ...]]] = {name: (1, (name,)) for name in EDITS}
    sets["nothing (noise only)"] = (0, ())
    sets["2 edits at once"] = (2, tuple(EDITS))
    sets["3 edits at once"] = (3, tuple(EDITS))
    print(
        f"{len(originals)} real modules of {len(originals[0])} to {len(originals[-1])} "
        "instructions\n"
    )
    print(
        "| edits | trials | pairs: precision | recall | causes: precision | recall | proved "
        "| wrong and proved |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    bad = 0
    for label, (number, among) in sets.items():
        total = Score()
        for k, module in enumerate(originals):
            for j in range(arguments.trials * max(number, 1)):
                names = chance.sample(among, number)
                done = trial(module, names, arguments.seed * 100_003 + k * 101 + j)
                if done is None:
                    continue
                explanation, score = done
                _add(total, score)
                if arguments.show and (score.wrong_proved or score.recall < 1):
                    print(
                        module.file,
                        len(module),
                        names,
                        k,
                        j,
                        explanation.proved,
                        [c.kind for c in explanation.causes],
                        file=sys.stderr,
                    )
        bad += total.wrong_proved
        print(
            f"| {label} | {total.trials} | {_part(total.right_pairs, total.pairs)} "
            f"| {_part(total.right_pairs, total.true_pairs)} "
            f"| {_part(total.right_causes, total.causes)} | {total.recall:.1%} "
            f"| {_part(total.proved, total.trials)} | {total.wrong_proved} |"
        )
    print(f"\n{bad} proved explanations named a cause that no edit made.")
    return 0


def _add(total: Score, score: Score) -> None:
    for name in Score.__dataclass_fields__:
        if name == "wrong":
            total.wrong.update(score.wrong)
        else:
            setattr(total, name, getattr(total, name) + getattr(score, name))


def _part(number: int, of: int) -> str:
    return f"{number / of:.1%}" if of else "-"


if __name__ == "__main__":
    sys.exit(main())
