"""An input of one type on one side, and of another type, converted at once, on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces import open_edges
from xlagraph.message import Change, count, join, say
from xlagraph.rules.dtype import DTYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors

FIX = say(
    "Give the tensor one dtype where it is made: torch.tensor, numpy and pandas take it from the "
    "values, so that a batch of whole numbers comes as int64 and one with a fraction as float32. "
    "Write torch.tensor(rows, dtype=torch.float32), or convert on the host before it is sent."
)
SHORT = say("An input has another dtype in some steps")
SHORT_FIX = say("Give the tensor one dtype where it is made.")


def find(case: Case) -> list[Finding]:
    """Inputs that one side uses as they come and the other only once they are converted."""
    found = []
    for plain, typed in case.both_ways:
        inputs = _inputs(case, plain, typed)
        if inputs:
            found.append(_finding(plain, typed, inputs))
    return found


def _inputs(case: Case, plain: SideView, typed: SideView) -> dict[int, int]:
    """For inputs that `typed` does nothing with but convert them, those that `plain` has instead.

    Neither has a partner of its own, nor two names.
    """
    module = typed.module
    found: dict[int, set[int]] = {}
    for edge in open_edges(case):
        one, cast = edge.value(plain), edge.value(typed)
        if module.opcodes[cast] != "convert" or not is_input(plain.module, one):
            continue
        (source,) = module.operands[cast]
        if (
            is_input(module, source)
            and max(plain.partners[one], typed.partners[source], typed.partners[cast]) < 0
            and _dimensions(plain, one) == _dimensions(typed, source)
            and not _are_two(plain, one, typed, source)
        ):
            found.setdefault(source, set()).add(one)
    return {
        source: ones.pop()
        for source, ones in found.items()
        if len(ones) == 1
        and all(
            module.opcodes[user] == "convert"
            and bare_shape(module, user) == bare_shape(plain.module, next(iter(ones)))
            for user in module.users[source]
        )
    }


def _dimensions(view: SideView, i: int) -> str:
    return bare_shape(view.module, i).partition("[")[2]


def _are_two(plain: SideView, one: int, typed: SideView, source: int) -> bool:
    """Whether the capture tells that they are two tensors."""
    first, second = plain.input_tensor(one), typed.input_tensor(source)
    return first is not None and second is not None and first != second


def _finding(plain: SideView, typed: SideView, inputs: Mapping[int, int]) -> Finding:
    module = typed.module
    casts = {user for source in inputs for user in module.users[source]}
    lines = where(module, inputs) or where(plain.module, inputs.values()) or where(module, casts)
    own = frozenset(inputs.values())
    claimed_a, claimed_b = plain.ab(own, frozenset({*inputs, *casts}))
    types = dict.fromkeys(
        plain.ab(_type(plain, one), _type(typed, source)) for source, one in inputs.items()
    )
    changes = join(Change(old, new) for old, new in types)
    by_value = any(old.startswith(("f", "bf")) != new.startswith(("f", "bf")) for old, new in types)
    names = join(parameter_name(typed, source) for source in inputs)
    is_one = len(inputs) == 1

    def undo(edit: Editors) -> None:
        for source, one in inputs.items():
            edit[typed.side].shapes[source] = edit[plain.side].shapes[one]
        edit[typed.side].bypass(casts)

    return Finding(
        kind=DTYPE,
        title=say(
            "an input has" if is_one else f"{count(len(inputs), 'input')} have",
            " another dtype (",
            changes,
            "): ",
            typed.side,
            " converts ",
            names,
            ", where ",
            plain.side,
            " takes in ",
            join(parameter_name(plain, one) for one in inputs.values()),
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    plain.side,
                    " uses ",
                    "it" if is_one else "them",
                    " as ",
                    typed.side,
                    f" uses what it converts; {'both have' if is_one else 'they have'} the same "
                    "dimensions",
                ),
                tuple(sorted(claimed_a)),
                tuple(sorted(claimed_b)),
                lines,
            ),
        ),
        fix=FIX if by_value else say(),
        short=SHORT,
        short_fix=SHORT_FIX if by_value else say(),
        proof=say(
            "the inputs of ",
            typed.side,
            " were given the types of those of ",
            plain.side,
            ", and the conversions left out",
        ),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
    )


def _type(view: SideView, i: int) -> str:
    return bare_shape(view.module, i).partition("[")[0]


RULE = Rule(
    name="input-dtype",
    kinds=(),
    find=find,
    after=("reordered-operands",),
    before=("dtype",),
    rematches=True,
)
