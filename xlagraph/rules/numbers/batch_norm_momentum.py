"""BatchNorm's momentum, a Python number: as a schedule sets it, or by a cumulative average."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, stack, where
from xlagraph.message import A, B, Change, Code, Quoted, count, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

EVEN = 1e-6
"""How far, in parts of it, a number of f32 may be from the fraction that it stands for."""
BY_HAND = frozenset({(4, 5)})
"""1/4 and 1/5: as numbers, 0.25 and 0.2, they may come of a schedule just as well."""
SHORT = say(Code("momentum=None"), " in BatchNorm bakes in a new number each step")
FIX = say(
    "BatchNorm with ",
    Code("momentum=None"),
    " keeps a cumulative average: the n-th batch counts 1 / n, a Python number that is a constant "
    "of the graph, and each layer reads its counter from the device. Give ",
    Code("momentum"),
    " a number. For an exact average let it be 1.0, sum the running statistics of each batch in "
    "tensors, and divide at the end; or collect them on the host.",
)
MOMENTUM_SHORT = say("the momentum of BatchNorm changes from step to step")
MOMENTUM_FIX = say(
    "The momentum of BatchNorm's running statistics is a constant of the graph. Where ",
    Code(".momentum"),
    " is set by a schedule, leave it as it is, or let it take few values (once in many steps): a "
    "tensor is not taken there.",
)
MOMENTUM_SHORT_FIX = say("Leave ", Code(".momentum"), " as it is, or set it seldom.")
NONE_SHORT_FIX = say("Give ", Code("momentum"), " a number, or collect the statistics on the host.")
PASS_FIX = say(
    Code("update_bn()"),
    " sets ",
    Code("momentum=None"),
    " in BatchNorm: the n-th batch counts 1 / n, a Python number that is a constant of the graph, "
    "and each layer reads its counter from the device. Write the pass yourself, with ",
    Code("momentum"),
    " a number: reset_running_stats(), model.train(), and the forward passes. For an exact average "
    "let it be 1.0, sum the running statistics of each batch in tensors, and divide at the end. "
    "Or run ",
    Code("update_bn()"),
    " with a copy of the model on the host.",
)
PASS_SHORT_FIX = say("Run the pass with ", Code("momentum"), " a number, or do it on the host.")


def find(case: Case) -> list[Finding]:
    """Factors of moving averages that were 1 / n and are 1 / (n + 1)."""
    a, b = case.diff.a, case.diff.b
    groups: defaultdict[tuple[str, str, tuple[SourceLine, ...]], list[tuple[int, int]]]
    groups = defaultdict(list)
    for x, y in case.changed_alone("payload"):
        if a.opcodes[x] == "constant" and _is_average(b, y):
            groups[a.payloads[x], b.payloads[y], where(b, [y])].append((x, y))
    findings, others = [], []
    for (old, new, lines), pairs in sorted(groups.items()):
        batches = _batches(old), _batches(new)
        caller = _pass_line(stack(b, pairs[0][1]))
        is_next = batches[0] > 0 and batches[1] == batches[0] + 1
        if is_next and (caller or batches not in BY_HAND):
            findings.append(_finding(case, Change(old, new, "became"), lines, pairs, caller))
        else:
            others += pairs
    return [*findings, *([_scheduled(case, others)] if others else [])]


def _scheduled(case: Case, pairs: Sequence[tuple[int, int]]) -> Finding:
    """The finding for all layers whose momentum is another one."""
    a, b = case.diff.a, case.diff.b
    lines = where(b, [y for _, y in pairs])
    x, y = pairs[0]
    change = Change(a.payloads[x], b.payloads[y], "became")
    return replace(
        _finding(case, change, lines, pairs, None),
        title=say(
            "the momentum of BatchNorm's running statistics is baked into the graph: ",
            change,
            f" at {count(len(pairs), 'place')}",
            at(lines),
        ),
        short=MOMENTUM_SHORT,
        fix=MOMENTUM_FIX,
        short_fix=MOMENTUM_SHORT_FIX,
        option="momentum",
        proof=say("the constants in ", A, " were set to those of ", B),
    )


def _is_average(module: Module, i: int) -> bool:
    metadata = module.metadata(i)
    return metadata is not None and metadata.op_type == "xla__moving_average"


def _batches(payload: str) -> int:
    """The n of 1 / n; 0 for another number."""
    try:
        number = float(payload)
    except ValueError:
        return 0
    batches = round(1 / number) if 0 < number <= 1 else 0
    return batches if abs(number * batches - 1) <= EVEN else 0


def _pass_line(frames: Sequence[SourceLine]) -> SourceLine | None:
    """The program's line that has torch run a pass for the statistics alone; None without one."""
    inner = (
        k
        for k, frame in enumerate(frames)
        if frame.function == "update_bn" and frame.file.endswith("torch/optim/swa_utils.py")
    )
    begin = next(inner, len(frames))
    return next((frame for frame in frames[begin:] if not frame.is_library), None)


def _finding(
    case: Case,
    change: Change,
    lines: tuple[SourceLine, ...],
    pairs: Sequence[tuple[int, int]],
    caller: SourceLine | None,
) -> Finding:
    b = case.diff.b

    def undo(edit: Editors) -> None:
        for x, y in pairs:
            edit.a.payloads[x] = b.payloads[y]

    return Finding(
        kind=CONSTANT_VALUE,
        title=say(
            "the part of a batch in BatchNorm's running statistics, 1 / n, is baked into the "
            "graph: ",
            change,
            f" at {count(len(pairs), 'place')}",
            at(lines),
            say(", in the pass that update_bn() makes", at((caller,))) if caller else "",
        ),
        evidence=(
            Evidence(
                say("constant ", Change(change.old, change.new)),
                tuple(x for x, _ in pairs),
                tuple(y for _, y in pairs),
                (caller, *lines) if caller else lines,
            ),
        ),
        short=SHORT,
        fix=PASS_FIX if caller else FIX,
        short_fix=PASS_SHORT_FIX if caller else NONE_SHORT_FIX,
        proof=say("the constant in ", A, " was set to ", Quoted(change.new, 40)),
        a=frozenset(x for x, _ in pairs),
        b=frozenset(y for _, y in pairs),
        undo=undo,
    )


RULE = Rule(
    name="batch-norm-momentum",
    kinds=(),
    find=find,
    after=("other-operation",),
    before=("constant-value",),
)
