"""Loops that carry more values on one side than on the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.inline import inlined
from xlagraph.canon.labels import clean
from xlagraph.canon.live import mark
from xlagraph.cause.editor import ModuleEditor
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.match import match_modules
from xlagraph.diff.same import same_computation
from xlagraph.facts.calls.handed_on import body_of, can_narrow_loop
from xlagraph.facts.calls.inlining import inline_both
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Attributes, Module
    from xlagraph.hlo.shapes import Shape

MAX_CHOICES = 64
"""Ways tried to tell which of the values carried are those that one side only has."""

LOOP_CARRY = Kind(
    id="loop-carry",
    title="A loop carries more values",
    section=Section.PIECES,
    meaning="A loop that runs on the device (scan, while_loop, fori_loop) carries a tuple of "
    "values from turn to turn. Here the tuple has another length: a statistic, a mask or a "
    "second state is carried in some steps only.",
    before="""\
def body(i, state):
    w, trace = state
    return update(i, w), trace.at[i].set(norm(w))


if log:
    w, trace = lax.fori_loop(0, n, body, (w, trace))
else:
    w = lax.fori_loop(0, n, update, w)
""",
    after="""\
w, trace = lax.fori_loop(0, n, body, (w, trace))  # always carried, read only when logged
""",
    evidence="The shapes and positions of the further values, and the outputs that depend on them.",
    fix="Carry the same values through the loop in every step; what is only watched can be "
    "computed after the loop, or be carried always.",
    proof="Calls are put in line, the values taken out of the loop's tuple, and outputs that "
    "depend on them left out.",
    examples=("scan_more_carried",),
    short_fix="Carry the same values through the loop in every step.",
)


LATE = say(
    "One version uses what the turn before has handed on where the other uses what this turn has: "
    "all that follows from it stands one turn off. Which of both is meant is the algorithm's "
    "choice (a flag of this step or of the next one); use one of them in both."
)
LATE_SHORT_FIX = say("Use the value of one turn, this or the one before, in both versions.")


class Carried(NamedTuple):
    """The positions in a loop's tuple that the other side has not."""

    loop: int
    """A ``while`` of the module with its calls put in line."""
    positions: tuple[int, ...]
    is_late: bool = False
    """Each turn uses there what the turn before hands on, and the other side what this one has."""


def find(case: Case) -> list[Finding]:
    """A loop that carries further values, with what computes and takes them.

    Found only where it is all that differs, since it is proved by leaving the values out.
    """
    if not _loop_differs(case):
        return []
    flat_a, flat_b = inlined(case.diff.a), inlined(case.diff.b)
    if flat_a is None or flat_b is None:
        return []
    match = match_modules(flat_a, flat_b)
    for x, y in enumerate(match.to_b):
        if y < 0 or not flat_a.opcodes[x] == flat_b.opcodes[y] == "while":
            continue
        parts_a, parts_b = _parts(flat_a, x), _parts(flat_b, y)
        if len(parts_a) == len(parts_b):
            continue
        a_has_more = len(parts_a) > len(parts_b)
        more, other, loop = (flat_a, flat_b, x) if a_has_more else (flat_b, flat_a, y)
        less = ModuleEditor(other).build()
        fewer, many = sorted((parts_a, parts_b), key=len)
        for carried in _ways(more, loop, _choices(many, fewer)):
            dropped = [] if carried.is_late else _outputs_of(more, carried)
            if same_computation(_without(more, carried, dropped), less):
                return [_finding(case, case.a if a_has_more else case.b, more, carried, dropped)]
    return []


def _ways(module: Module, loop: int, choices: Iterable[tuple[int, ...]]) -> Iterator[Carried]:
    """What may be carried more, and for what: to be given out, or to be used a turn later."""
    for positions in choices:
        yield Carried(loop, positions)
        if can_narrow_loop(module, loop):
            yield Carried(loop, positions, is_late=True)


def _loop_differs(case: Case) -> bool:
    """Whether a loop's tuple differs, or a loop has no partner."""
    opcodes = case.diff.a.opcodes
    return any(opcodes[i] == "while" for i in case.diff.removed) or any(
        opcodes[c.a] == "while" and "shape" in c.fields for c in case.diff.changes
    )


def _parts(module: Module, i: int) -> tuple[Shape, ...]:
    return read_shape(clean(module.shapes[i])).parts


def _choices(many: tuple[Shape, ...], fewer: tuple[Shape, ...]) -> Iterable[tuple[int, ...]]:
    """Positions whose removal leaves the shapes that the other loop carries."""
    texts, wanted = [str(p) for p in many], [str(p) for p in fewer]
    ways = combinations(range(len(many)), len(many) - len(fewer))
    for positions in islice(ways, MAX_CHOICES):
        if [t for k, t in enumerate(texts) if k not in positions] == wanted:
            yield positions


def _outputs_of(module: Module, carried: Carried) -> list[int]:
    """The outputs that depend on these values."""
    taken = [
        u
        for u in module.users[carried.loop]
        if module.opcodes[u] == "get-tuple-element" and _index(module, u) in carried.positions
    ]
    found = []
    for k, value in enumerate(module.outputs):
        below = bytearray(len(module))
        mark(module, below, [value])
        if any(below[u] for u in taken):
            found.append(k)
    return found


def _without(module: Module, carried: Carried, outputs: Iterable[int]) -> Module:
    """The module with a loop that does not carry these values, outputs of them set aside."""
    editor = ModuleEditor(module)
    gone = set(outputs)
    editor.keep_outputs([k for k in range(len(editor.outputs)) if k not in gone])
    drop_carried(editor, carried)
    return editor.build()


def drop_carried(editor: ModuleEditor, carried: Carried) -> None:
    """Takes values out of a loop's tuple: of its start, its computations and its users."""
    module, loop, positions = editor.module, carried.loop, carried.positions
    if carried.is_late:
        body = body_of(module, loop)
        given = module.operands[body.root]
        taken = (u for u in module.users[body.parameters[0]] if _index(module, u) in positions)
        editor.replace_uses({u: given[_index(module, u)] for u in taken})
    tuples = [loop, *module.operands[loop]]
    for c in module.callees[loop]:
        computation = module.computations[c]
        tuples += computation.parameters
        if computation.root != computation.parameters[0]:
            tuples.append(computation.root)
    for i in dict.fromkeys(tuples):
        shape = read_shape(clean(module.shapes[i]))
        if not shape.is_tuple:
            continue  # the condition's root
        kept = tuple(p for k, p in enumerate(shape.parts) if k not in positions)
        editor.shapes[i] = str(replace(shape, parts=kept))
        if module.opcodes[i] == "tuple":
            operands = enumerate(module.operands[i])
            editor.set_operands(i, tuple(o for k, o in operands if k not in positions))
        for u in module.users[i]:
            if module.opcodes[u] == "get-tuple-element":
                index = _index(module, u)
                shift = sum(1 for p in positions if p < index)
                editor.attributes[u] = _with_index(module.attributes[u], index - shift)


def _index(module: Module, i: int) -> int:
    return int(module.attributes[i].get("index") or 0)


def _with_index(attributes: Attributes, index: int) -> Attributes:
    items = tuple((k, str(index) if k == "index" else v) for k, v in attributes.items)
    return replace(attributes, items=items)


def _finding(
    case: Case, view: SideView, flat: Module, carried: Carried, dropped: list[int]
) -> Finding:
    module, side = view.module, view.side
    loop = module.names.index(flat.names[carried.loop])
    parts = _parts(flat, carried.loop)
    values = join(f"{parts[k].without_layout()} at {k}" for k in carried.positions)
    lines = where(module, [loop])
    cited_a, cited_b = view.ab((loop,), ())
    dropped_a, dropped_b = view.ab(frozenset(dropped), frozenset[int]())

    def undo(edit: Editors) -> None:
        inline_both(edit)
        drop_carried(edit[side], carried)

    named = say("the loop ", HloName(module.names[loop], "while"))
    number = count(len(carried.positions), "value")
    late = say(
        " uses ", number, " of the turn before in ", side, ", of the same turn in ", side.other
    )
    more = say(" carries ", number, " more in ", side)
    return Finding(
        kind=LOOP_CARRY,
        title=say(named, late if carried.is_late else more, " (", values, ")", at(lines)),
        fix=LATE if carried.is_late else EMPTY,
        short=say("a loop", late) if carried.is_late else EMPTY,
        short_fix=LATE_SHORT_FIX if carried.is_late else EMPTY,
        evidence=(
            Evidence(
                say(
                    f"{len(parts)} values in ",
                    side,
                    f", {len(parts) - len(carried.positions)} on the other side; "
                    f"{count(len(dropped), 'output')} of ",
                    side,
                    f" {'depends' if len(dropped) == 1 else 'depend'} on what is more",
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        proof=say("calls were put in line, and the values taken out of the loop of ", side),
        a=frozenset({c.a for c in case.diff.changes} | set(case.diff.removed)),
        b=frozenset({c.b for c in case.diff.changes} | set(case.diff.added)),
        dropped_a=dropped_a,
        dropped_b=dropped_b,
        undo=undo,
    )


RULE = Rule(
    name="loop-carry",
    kinds=(LOOP_CARRY,),
    find=find,
    after=("inlined-calls",),
    first_round_only=True,
    rematches=True,
)
