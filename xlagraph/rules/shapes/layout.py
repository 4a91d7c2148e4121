"""Tensors in another order in memory, with the copies that XLA adds for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.copies import lone_copies
from xlagraph.message import A, B, HloName, count, say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors

LAYOUT = Kind(
    id="layout",
    title="The same tensors in another order in memory",
    section=Section.INPUTS,
    meaning="Inputs, outputs or values have another layout: another order of dimensions in memory, "
    "with the copies that XLA adds for it. Before optimization only the layouts of inputs and "
    "outputs are asked for by the program; the lowering writes the others as it happens, and XLA "
    "chooses them anew.",
    before="""\
here = SingleDeviceSharding(jax.devices()[0])
for order in ((0, 1), (1, 0)):
    step = jax.jit(forward, in_shardings=Format(Layout(order), here))
    step(x)
""",
    after="""\
here = SingleDeviceSharding(jax.devices()[0])
step = jax.jit(forward, in_shardings=Format(Layout((0, 1)), here))
step(x)
""",
    evidence="Both layouts, and the copies that one side alone makes.",
    fix="Send inputs in one memory format (contiguous or channels_last) in every step.",
    proof="A's values get B's layouts, and copies are bypassed; what the header alone asks for "
    "is left out of the comparison.",
    examples=("layout_of_input", "layout_of_input.after"),
    short="Tensors lie in memory in another order",
    short_fix="Send inputs in one memory format in every step.",
)


def find(case: Case) -> list[Finding]:
    """The same tensors in another order of dimensions in memory."""
    pairs = case.changed_alone("layout")
    if not pairs:
        return []
    a, b = case.diff.a, case.diff.b
    copies = lone_copies(case)
    inputs = [(x, y) for x, y in pairs if y in b.entry_computation.parameters]
    is_asked = inputs or any(y in b.outputs for _, y in pairs)
    x, y = (inputs or pairs)[0]
    name = say(parameter_name(case.b, y), ", ") if inputs else say()
    lines = where(b, [q for _, q in pairs]) or where(b, b.users[y])
    more = f" and {count(len(copies), 'copy', 'copies')} on one side only" if copies else ""

    def undo(edit: Editors) -> None:
        for p, q in pairs:
            edit.a.shapes[p] = edit.b.shapes[q]
        copies.skip(edit)

    return [
        Finding(
            kind=LAYOUT,
            title=say(
                f"{count(len(pairs), 'value')} in another layout: ",
                name,
                f"{a.shapes[x]} became {b.shapes[y]}",
                at(lines),
            ),
            evidence=(
                Evidence(
                    say(
                        f"{a.shapes[x]} -> {b.shapes[y]}, first at ",
                        HloName(b.names[y], b.opcodes[y]),
                        more,
                    ),
                    (*(p for p, _ in pairs), *copies.a),
                    (*(q for _, q in pairs), *copies.b),
                    lines,
                ),
            ),
            proof=say(
                A,
                "'s values were given ",
                B,
                "'s layouts",
                ", and copies bypassed" if copies else "",
            ),
            a=frozenset(p for p, _ in pairs) | copies.claimed_a,
            b=frozenset(q for _, q in pairs) | copies.claimed_b,
            undo=undo,
            incidental=not is_asked and "is_scheduled" not in b.header_fields,
        )
    ]


RULE = Rule(
    name="layout",
    kinds=(LAYOUT,),
    find=find,
    after=("control-dependencies",),
)
