"""What is said of two modules that are written otherwise and give the same values."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from math import isclose
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.case import Case
from xlagraph.cause.names import differing_keys, output_name, parameter_name
from xlagraph.cause.sources import line_of
from xlagraph.cause.verdict import Verdict
from xlagraph.diff import diff_modules
from xlagraph.explain.names.options.by_hand import unsure_mean
from xlagraph.explain.names.training.detached import FURTHER
from xlagraph.facts.program.arguments import is_jitted, same_arguments
from xlagraph.facts.program.versions import are_versions, nothing_tells
from xlagraph.facts.shapes.products import values
from xlagraph.message import EMPTY, A, B, count, join, say, without_stop
from xlagraph.message import Change as Became
from xlagraph.rules.calls.inlined_calls import INLINED_CALLS
from xlagraph.rules.calls.loop_carry import LOOP_CARRY
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.other_reduction import OTHER_REDUCTION
from xlagraph.rules.pieces.repeated_expression import REPEATED_EXPRESSION
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.exchanged_axes import EXCHANGED_AXES
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK

if TYPE_CHECKING:
    from xlagraph.cause.finding import Finding
    from xlagraph.cause.model import Cause, Context, Explanation
    from xlagraph.diff import Change, Diff
    from xlagraph.evaluate import SameValues
    from xlagraph.evaluate.pairing.handed_in import Follows
    from xlagraph.evaluate.question import HandedIn
    from xlagraph.explain.engine import Found, Search
    from xlagraph.graph import Module
    from xlagraph.message import Message

MAX_INSTRUCTIONS = 20_000
"""Instructions of both up to which they are evaluated."""
MAX_ALONE = 6_000
"""The same for undoing causes one by one."""
MAX_FRONTIER = 12
"""So many values are asked at most, whether they count."""
MAX_FINDINGS = 8
"""So many are undone one by one at most."""
LARGE = 200
"""Instructions of the causes beyond which they are no edit of how an index or a number is read."""
MORE_FIX = say(
    "None for the values. What is given back more is still alive in Python, or the base of a view: "
    "drop it, or keep it in both; either way it costs one compile."
)
REWRITTEN = 3
"""So many causes at least tell of a program that was written anew."""
FORMS = frozenset(
    {
        *(EXTRA_SUBGRAPH, LIVE_TENSOR, OTHER_OPERAND, REPLACED_SUBGRAPH, REPEATED_EXPRESSION),
        *(INLINED_CALLS, LOOP_CARRY, OUTPUT_ORDER, REORDERED_OPERANDS, REORDERED_SUM),
        *(LONGER_BACKWARD, SKIPPED_BLOCK),
    }
)
"""Causes that say in which form something is computed. Another type, layout, option or number is
told as that, though the values be the same."""
OF_REWRITING = frozenset(
    {EXCHANGED_AXES, OTHER_REDUCTION, PYTHON_INDEX, PYTHON_SIZE, SPECIAL_SCALAR}
)
"""What says no more than that beside several others, as of a loop that became one operation."""
_NARROW = re.compile(r"(?:bf16|f16|f8\w*)\[")
_ROUNDS = frozenset({"convert", "convolution", "dot", "reduce"})
_HINTS = frozenset(
    {
        *("indices_are_sorted", "is_stable", "operand_precision", "sharding", "unique_indices"),
        *("algorithm", "backend_config"),
    }
)
"""Attributes that say how to compute, and may leave the values as they are."""
_AT_EQUALITY = ({"GT", "GE"}, {"LT", "LE"})


def by_values(explanation: Explanation, contexts: tuple[Context, Context]) -> Explanation:
    """The explanation, as of the same computation where two versions give the same values.

    What is proved to differ in writing stays among its causes; suspicions are of no use then. Two
    steps of one run are two modules all the same, and bare texts may be of steps only where they
    share no line.
    """
    diff = explanation.diff
    if explanation.same or not may_be_versions(diff, contexts):
        return explanation
    further = OF_REWRITING if len(explanation.causes) >= REWRITTEN else frozenset()
    are_forms = not explanation.proved or all(
        c.kind in further or is_form(diff, c) for c in explanation.causes
    )
    found = _same_values(diff) if are_forms else None
    if found is None or (explanation.proved and _is_one_edit(explanation, found)):
        return explanation
    unsure = unsure_mean(Case.of(diff, *contexts), found)
    if unsure is not None:
        return replace(explanation, verdict=unsure, evaluated=found.points)
    return _told(explanation, found, contexts)


def with_neutral(task: Search, found: Found) -> Found:
    """The findings of a proof, those marked that two versions only write otherwise.

    Each is undone alone, and the module as it was and as it is then are evaluated.
    """
    diff, contexts = task.diff, (task.context_a, task.context_b)
    is_asked = found.proved and 1 < len(found.findings) <= MAX_FINDINGS
    if not (is_asked and may_be_versions(diff, contexts)):
        return found
    if len(diff.a) + len(diff.b) > MAX_ALONE:
        return found
    findings = [replace(f, is_neutral=_is_neutral(task, f)) for f in found.findings]
    return replace(found, findings=findings)


def _is_neutral(task: Search, finding: Finding) -> bool:
    """Whether undoing one finding leaves what both modules compute, but for rounding."""
    drops = finding.dropped_a or finding.dropped_b or finding.is_silent
    if finding.kind not in FORMS or drops:
        return False
    start = task.start()
    alone, _ = start.without([finding])
    if alone is start:
        return False
    from xlagraph.evaluate.influence import with_root_shape  # numpy is loaded where it is needed

    asked = [
        diff_modules(module, with_root_shape(editor.build()))
        for module, editor in zip((task.diff.a, task.diff.b), alone.edit, strict=True)
    ]
    changed = [diff for diff in asked if diff.differing]
    return bool(changed) and all(map(_keeps_values, changed))


def _keeps_values(diff: Diff) -> bool:
    """Whether a module and what an edit made of it give the same values at the same places.

    What the edit leaves has to take in what is seen to count. Its numbers are no others.
    """
    from xlagraph.evaluate import same_for_equal_inputs
    from xlagraph.evaluate.influence import all_count

    frontier = _frontier(diff)
    is_asked = 0 < len(frontier) <= MAX_FRONTIER
    found = same_for_equal_inputs(_by_arguments(diff)) if is_asked else None
    if found is None or not all_count(diff.a, frontier):
        return False
    conditions = (found.assumed, found.handed_in, found.more_in_a, found.more_in_b)
    is_free = not any(conditions) and not found.parts_at_zero
    return is_free and not found.moved_outputs


def _frontier(diff: Diff) -> list[int]:
    """Instructions of A that differ, or are gone, and that something takes in that does not.

    Nothing where one of a called computation differs: it may not be asked alone.
    """
    a = diff.a
    own = diff.differing_in_a
    if any(a.computation_of(i).index != a.entry for i in own):
        return []
    return sorted(i for i in own if i in a.outputs or any(u not in own for u in a.users[i]))


def _told(
    explanation: Explanation, found: SameValues, contexts: tuple[Context, Context]
) -> Explanation:
    """The explanation where both give the same values for the same arguments."""
    diff = explanation.diff
    told = replace(explanation, evaluated=found.points)
    if found.more_in_a or found.more_in_b:
        kept = tuple(cause for cause in explanation.causes if _is_of_more(diff, cause, found))
        verdict = _of_more(explanation, found, contexts)
        return replace(told, verdict=verdict, causes=kept, unexplained_a=(), unexplained_b=())
    is_sure = are_versions(diff, contexts) is True
    verdict = _verdict(explanation, found, contexts, is_sure=is_sure)
    same = replace(told, same=True, verdict=verdict)
    if explanation.proved:
        return same
    return replace(same, causes=(), unexplained_a=(), unexplained_b=())


def _is_one_edit(explanation: Explanation, found: SameValues) -> bool:
    """Whether values agree on conditions, or but for one, and few edits tell where they do not."""
    if all(cause.kind is ATTRIBUTE for cause in explanation.causes):
        return found.parts_at_zero  # along which axes something is computed holds for all values
    on_conditions = (found.assumed, found.parts_at_large, found.more_in_a, found.more_in_b)
    few = len(explanation.causes) < REWRITTEN
    is_small = sum(len(cause.a) + len(cause.b) for cause in explanation.causes) < LARGE
    is_of_a_read = is_small and (found.in_rows or found.handed_in)
    is_told = few and (any(on_conditions) or bool(is_of_a_read))
    return found.parts_at_zero or is_told


def may_be_versions(diff: Diff, contexts: tuple[Context, Context]) -> bool:
    """Whether both may be versions of one program, before optimization, and are small enough."""
    is_small = len(diff.a) + len(diff.b) <= MAX_INSTRUCTIONS
    if not is_small or diff.a.is_scheduled or diff.b.is_scheduled:
        return False
    if _rounded(diff.a) != _rounded(diff.b) or any(_is_at_equality(diff, c) for c in diff.changes):
        return False
    return are_versions(diff, contexts) is True or nothing_tells(diff, contexts)


def is_form(diff: Diff, cause: Cause) -> bool:
    """Whether a cause says how something is written, as along which axes, and not how to run it."""
    if cause.kind is DTYPE:
        return _is_of_a_number(diff.a, cause.a) and _is_of_a_number(diff.b, cause.b)
    if cause.kind is CONSTANT_VALUE:
        return all(_is_turned(diff, c) for c in diff.changes if c.a in cause.a)
    if cause.kind is not ATTRIBUTE:
        return cause.kind in FORMS
    own = (c for c in diff.changes if c.a in cause.a and "attributes" in c.fields)
    keys = (differing_keys(diff.a.attributes[c.a], diff.b.attributes[c.b]) for c in own)
    return _HINTS.isdisjoint(chain.from_iterable(keys))


def _is_turned(diff: Diff, change: Change) -> bool:
    """Whether a constant is the other one with another sign, or 1 by it, as in a quotient."""
    if "payload" not in change.fields:
        return True
    a, b = values(Became(diff.a.payloads[change.a], diff.b.payloads[change.b]))
    return bool(a and b) and (isclose(abs(a), abs(b)) or isclose(abs(a * b), 1.0))


def _is_of_a_number(module: Module, claimed: frozenset[int]) -> bool:
    """Whether these are Python numbers that torch_xla hands in, in any of its types, spread."""
    return not is_jitted(module) and all(
        module.opcodes[i] in ("broadcast", "convert", "reshape")
        or (module.opcodes[i] == "parameter" and module.shapes[i].endswith("[]"))
        for i in claimed
    )


def _rounded(module: Module) -> Counter[tuple[str, str]]:
    """How often each operation rounds to a narrow type, which evaluating them does not show."""
    return Counter(
        (opcode, shape.partition("[")[0])
        for opcode, shape in zip(module.opcodes, module.shapes, strict=True)
        if opcode in _ROUNDS and _NARROW.match(shape)
    )


def _is_at_equality(diff: Diff, change: Change) -> bool:
    """Whether two comparisons of fractions differ where both are equal, at no random point."""
    a, b = diff.a, diff.b
    if a.opcodes[change.a] != "compare" or b.opcodes[change.b] != "compare":
        return False
    directions = (a.attributes[change.a].get("direction"), b.attributes[change.b].get("direction"))
    is_float = "f" in a.shapes[a.operands[change.a][0]].partition("[")[0]
    return is_float and {*directions} in _AT_EQUALITY


def _same_values(diff: Diff) -> SameValues | None:
    from xlagraph.evaluate import same_values  # numpy is loaded where it is needed

    return same_values(_by_arguments(diff))


def _by_arguments(diff: Diff) -> Diff:
    """The same modules with inputs paired that are arguments of one name, if none is known."""
    if any(known.inputs for known in diff.match.known):
        return diff
    names = same_arguments(diff.a, diff.b)
    return diff if names is None else diff_modules(diff.a, diff.b, known=names)


def _verdict(
    explanation: Explanation,
    found: SameValues,
    contexts: tuple[Context, Context],
    *,
    is_sure: bool,
) -> Verdict:
    diff = explanation.diff
    outputs = len(found.outputs)
    agree = "its one output" if outputs == 1 else f"all {count(outputs, 'output')}"
    what = say(
        but_for(found),
        where(Case.of(diff, *contexts), found),
        f": evaluated at {found.points} random inputs, ",
        *(A, " and ", B, f" agree in {agree}."),
    )
    moved = found.moved_outputs
    differing = count(diff.differing, "instruction")
    told, causes = explanation.verdict, explanation.causes
    written = say(
        f"{differing} {'is' if diff.differing == 1 else 'are'} written otherwise",
        say(": ", without_stop(told.what), causes[0].place.within)
        if explanation.proved and FURTHER not in str(told.what).lower()  # values would be others
        else EMPTY,
        f"; {count(moved, 'output')} come in another order" if moved else "",
        _reshaped(diff, found),
        "; at exact ties, as of inputs that are 0, some values may be others"
        if found.parts_at_zero
        else "",
        "; XLA compiles both forms, once each",
        "." if is_sure else ": steps of one run should keep to one.",
    )
    return Verdict(what, notes=(written, *unset(Case.of(diff, *contexts), found)))


def but_for(found: SameValues) -> str:
    """What stays aside where values are called the same."""
    return f"The same values, but for rounding{' and overflow' if found.parts_at_large else ''}"


def where(case: Case, found: SameValues) -> Message:
    """Which numbers inputs have to be for the modules to agree; empty where they always do."""
    inputs = case.diff.a.entry_computation.parameters
    told = [
        say(
            parameter_name(case.a, inputs[k]),
            f" is {' or '.join(f'{number:g}' for number in numbers)}",
            ", ones first in each row" if found.ones_first else "",
        )
        for k, numbers in found.assumed
        if found.ones_first or not case.diff.a.shapes[inputs[k]].startswith("pred[")
    ]
    told += [say("indices are in range")] if found.in_rows else []
    told += [
        _handed_in(case, one, one.follows)
        for one in found.handed_in
        if one.follows and not one.bounds_nothing
    ]
    fitting = [
        [str(one.number) for one in found.handed_in if one.side == side and not one.follows]
        for side in (0, 1)
    ]
    sides = (
        say(f"inputs {', '.join(own)} of ", s)
        for own, s in zip(fitting, (A, B), strict=True)
        if own
    )
    told += [say(join(sides, between=" and "), " fit each other")] if any(fitting) else []
    return say(", where ", join(told, 4)) if told else EMPTY


def unset(case: Case, found: SameValues) -> tuple[Message, ...]:
    """The note of which bounds were taken as not set; none where there are none."""
    bounds = [_number(case, one) for one in found.handed_in if one.bounds_nothing]
    number = count(len(bounds), "bound")
    told = f"{number} taken as not set, for which torch_xla hands in the largest number: "
    return (say(told, join(bounds, 4), ".").sentence,) if bounds else ()


def _reshaped(diff: Diff, found: SameValues) -> str:
    """How many outputs have an axis of one element more or less."""
    pairs = ((k, n) for k, n in enumerate(found.outputs) if n >= 0)
    a, b = diff.a, diff.b
    number = sum(bare_shape(a, a.outputs[k]) != bare_shape(b, b.outputs[n]) for k, n in pairs)
    has = "has" if number == 1 else "have"
    return f"; {count(number, 'output')} {has} axes of size 1 more or less" if number else ""


def _number(case: Case, one: HandedIn) -> Message:
    """The name of a Python number that is handed in, and its side."""
    view = case.a if one.side == 0 else case.b
    number = view.module.entry_computation.parameters[one.number]
    return say(parameter_name(view, number), " of ", view.side)


def _handed_in(case: Case, one: HandedIn, follows: Follows) -> Message:
    """What a Python number is that one module takes in, and the other another way or not at all."""
    views = (case.a, case.b) if one.side == 0 else (case.b, case.a)
    inputs = [view.module.entry_computation.parameters for view in views]
    own = _number(case, one)
    power, factor, offset = follows
    if one.other is None:
        return say(own, " is -inf, or as low" if one.hides else f" is {offset:g}")
    other = say(parameter_name(views[1], inputs[1][one.other]), " of ", views[1].side)
    other = say("the root of ", other) if abs(power) < 1 else other
    signed = say("minus " if factor < 0 else "", "1 / " if power < 0 else "", other)
    scaled = say(signed, f" times {abs(factor):g}") if abs(factor) != 1.0 else signed
    return say(own, " is ", say("1 ", scaled) if offset else scaled)


def _is_of_more(diff: Diff, cause: Cause, found: SameValues) -> bool:
    """Whether a cause tells of what one module gives out beside all that both do."""
    more_a = {diff.a.outputs[k] for k in found.more_in_a}
    more_b = {diff.b.outputs[k] for k in found.more_in_b}
    cited = ({*one.a} & more_a or {*one.b} & more_b for one in cause.evidence)
    return cause.kind is LIVE_TENSOR and any(cited)


def _of_more(
    explanation: Explanation, found: SameValues, contexts: tuple[Context, Context]
) -> Verdict:
    """What is said of two modules that agree, but that one gives something more."""
    case = Case.of(explanation.diff, *contexts)
    view, places = (case.a, found.more_in_a) if found.more_in_a else (case.b, found.more_in_b)
    lines = (line_of(view.module, view.module.outputs[k]) for k in places)
    line = next(filter(None, lines), None)
    agreeing = len(found.outputs) - len(found.more_in_a)
    what = say(
        "The same values, but for rounding",
        " and overflow" if found.parts_at_large else "",
        where(case, found),
        f": evaluated at {found.points} random inputs, both agree in {agreeing} outputs; ",
        *(view.side, f" gives back {count(len(places), 'tensor')} more ("),
        join((output_name(view, k) for k in places), 3),
        ").",
    )
    notes = unset(case, found)
    return Verdict(what, where=say(line) if line else EMPTY, fix=MORE_FIX, notes=notes)
