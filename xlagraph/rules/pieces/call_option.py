"""A library's function that computes more in one module, called from the same line in both."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, line_of
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.values.telling import HEAVY
from xlagraph.message import Code, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.case import Case
    from xlagraph.cause.finding import Finding
    from xlagraph.graph import Module

    Call = tuple[object, str, str]
    """The program's line, the library's file and its function."""

CALL_OPTION = Kind(
    id="call-option",
    title="A library call computes more on one side",
    section=Section.PIECES,
    meaning="The same line calls the same function of a library in both modules, and in one of "
    "them it computes more: an argument switched a part of it on, such as label_smoothing, a class "
    "weight, a mask or a penalty. Functions leave out what an argument of 0 or None does not need.",
    before="""\
for step, (x, y) in enumerate(batches):
    smoothing = 0.1 if step >= 4 else 0.0
    update(F.cross_entropy(model(x), y, label_smoothing=smoothing))
""",
    after="""\
for step, (x, y) in enumerate(batches):
    smoothing = torch.tensor([0.1 if step >= 4 else 0.0]).to("xla")
    logs = F.log_softmax(model(x), dim=1)
    update((1 - smoothing) * F.nll_loss(logs, y) - smoothing * logs.mean())
""",
    evidence="The function and the line that calls it (needs XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1).",
    fix="Look at the arguments of this call: one of them switches a part on (0, None and False "
    "leave it out). Give the same ones in every step; what is to change can be a tensor on the "
    "device, in a formula that does not leave it out.",
    proof="What the function computes beyond is bypassed.",
    examples=(),
    family=Family.BRANCH,
    short="A library call computes more in some steps",
    short_fix="Call the function with the same arguments in every step.",
    is_piece=True,
    may_be_meant=True,
)
MOSTLY = 0.8
"""This part of a piece comes from the function."""


def find(case: Case) -> list[Finding]:
    """Pieces that come from one library function, which both modules call from one line.

    No optimizer's: what it updates depends on the gradients that there are.
    """
    return [finding for found in bypasses(case) if (finding := _finding(found))]


def _finding(found: Bypass) -> Finding | None:
    module = found.more.module
    calls = _calls(module, found.piece)
    if not calls or any(module.opcodes[i] in HEAVY for i in found.piece):
        return None
    call, number = calls.most_common(1)[0]
    if number < MOSTLY * (calls.total() + _of_the_program(module, found.piece)):
        return None
    if "torch/optim/" in call[1]:
        return None
    less = found.less.module
    live = found.less.matched.live
    if call not in _calls(less, (i for i in range(len(less)) if live[i])):
        return None
    _, _, function = call
    title = say(
        Code(function), " computes ", found.words, " in ", found.more.side,
        " that it does not in ", found.less.side, at(found.lines),
    )  # fmt: skip
    return bypass_finding(found, CALL_OPTION, title)


def _of_the_program(module: Module, instructions: Iterable[int]) -> int:
    """How many instructions the program's own lines compute, without a library between."""
    lines = (line_of(module, i) for i in instructions)
    return sum(line is not None and not line.is_library and line.called is None for line in lines)


def _calls(module: Module, instructions: Iterable[int]) -> Counter[Call]:
    """The library's functions that the program's lines lead to, and how many instructions."""
    found: Counter[Call] = Counter()
    for i in instructions:
        line = line_of(module, i)
        if line and line.called and line.called.function:
            own = line.forward._replace(called=None)
            found[own, line.called.file, line.called.function] += 1
    return found


RULE = Rule(
    name="call-option",
    kinds=(CALL_OPTION,),
    find=find,
    after=("clipping",),
)
