"""Where a called computation is reached from: the body of which loop, which branch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import where
from xlagraph.message import HloName, Message, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.graph import Computation, Module

_ROLES = {
    "body": "the body of ",
    "condition": "the condition of ",
    "true_computation": "the true branch of ",
    "false_computation": "the false branch of ",
    "calls": "fusion ",
}

_STEPS = 16
"""So many of the calls on the way to the entry are told; programs nest fewer."""

_CONTROL = frozenset({"while", "conditional"})


def placed(diff: Diff, finding: Finding) -> Finding:
    """The finding with the calls that lead to it, if all it cites lies in one computation."""
    for module, instructions in ((diff.b, finding.b), (diff.a, finding.a)):
        computation = _common(module, instructions)
        if computation is None:
            continue
        callers = callers_of(module, computation.index)
        if not callers:
            return finding
        steps = [role(module, caller, c) for caller, c in callers]
        lines = where(module, [callers[-1][0]]) or where(module, [callers[0][0]])
        place = next((k for k, (i, _) in enumerate(callers) if module.opcodes[i] in _CONTROL), -1)
        others = len(_calls(module, computation.index)) - 1
        text = say(
            "it stands in ",
            HloName(computation.name),
            ": ",
            join(steps, _STEPS, ", in "),
            f"; called from {others + 1} places" if others else "",
        )
        site = say(" (", lines[0], ")") if lines and not finding.lines else say()
        return replace(
            finding,
            title=say(finding.title, ", in ", steps[place], site),
            evidence=(*finding.evidence, Evidence(text, sources=lines)),
        )
    return finding


def callers_of(module: Module, computation: int) -> list[tuple[int, int]]:
    """The calls from a computation up to the entry: instruction and computation called.

    Where several instructions call the same computation the first one stands for all.
    """
    found: list[tuple[int, int]] = []
    while computation != module.entry and len(found) <= len(module.computations):
        calls = _calls(module, computation)
        if not calls:
            return []
        found.append((calls[0], computation))
        computation = module.computation_of(calls[0]).index
    return found


def role(module: Module, caller: int, computation: int) -> Message:
    """What a computation is to the instruction that calls it: ``the body of while.6``."""
    opcode = module.opcodes[caller]
    name = HloName(module.names[caller], opcode)
    wanted = module.computations[computation].name
    for key, names in module.attributes[caller].callees:
        if wanted in names:
            if key == "branch_computations":
                return say(f"branch {names.index(wanted)} of ", name)
            if key == "to_apply":
                return (
                    say("call ", name)
                    if opcode == "call"
                    else say(f"what {opcode} ", name, " applies")
                )
            return say(_ROLES.get(key, f"{key} of "), name)
    return say(f"{opcode} ", name)


def _calls(module: Module, computation: int) -> list[int]:
    return list(module.callers.get(computation, ()))


def _common(module: Module, instructions: Iterable[int]) -> Computation | None:
    """The computation that holds all these instructions, if not the entry.

    Apart from constants, and from what they call themselves.
    """
    listed = list(instructions)
    computed = [i for i in listed if module.opcodes[i] != "constant"] or listed
    entry = module.entry_computation
    if any(entry.start <= i < entry.stop for i in computed):
        return None
    called = {c for i in computed for c in module.callees.get(i, ())}
    found = {module.computation_of(i).index for i in computed} - called
    if len(found) != 1:
        return None
    return module.computations[found.pop()]
