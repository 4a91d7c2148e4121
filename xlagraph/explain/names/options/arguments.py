"""Tensors that one side alone takes in: by what it computes with them, and JAX's by their names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.explain.names.merged import BRANCHES, formula_of
from xlagraph.facts.program.arguments import argument_name, is_jitted
from xlagraph.facts.training.updates import updates
from xlagraph.facts.values.telling import opcodes_in_words
from xlagraph.message import EMPTY, A, B, Code, join, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.initial_state import INITIAL_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Part, Side

ARGUMENT = "Argument"
MAX_NAMED = 2
JITTED_FIX = say("Keep one of two versions; if a static option asks for it, nothing is wrong.")
FIX = say(
    "A key that is missing, or None, makes another program of a jitted function: give the argument "
    "in every call, with values that change nothing (a mask of ones, a weight of 1). If one of two "
    "versions has it, keep one of them; if a static option asks for it, nothing is wrong."
)
START_FIX = say(
    "None, or a missing key, makes another program of a jitted function, which begins with "
    "constants of its own: give the argument in every call, ",
    Code("jnp.zeros(shape)"),
    " in the first. Where two versions of a program differ in it, keep one of them.",
)
START_SHORT_FIX = say("Give it in every call: jnp.zeros in place of None.")
TYPE_FIX = say(
    "An argument's type is part of the program: hand in one type in every call. Where a step gives "
    "the new value back, begin with the type that it gives, ",
    Code("jnp.zeros((), jnp.float32)"),
    " for a count that meets fractions, or cast the new value to the old one's type.",
)
TYPE_SHORT_FIX = say("Begin with the type that the step gives back.")
SHORT_FIX = say("Give it in every call, with values that change nothing (a mask of ones).")


def with_types(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; a piece that takes in an argument of another type is that argument's type."""
    return [_with_type(diff, cause) for cause in causes]


def _with_type(diff: Diff, cause: Cause) -> Cause:
    if cause.kind not in BRANCHES or not cause.proved or not is_jitted(diff.a):
        return cause
    for p, q in zip(*(m.entry_computation.parameters for m in (diff.a, diff.b)), strict=False):
        name = argument_name(diff.a, p)
        shapes = bare_shape(diff.a, p), bare_shape(diff.b, q)
        is_of_cause = (p in cause.a or q in cause.b) and diff.match.to_b[p] != q
        if not (name and is_of_cause and name == argument_name(diff.b, q)):
            continue
        types, sizes = zip(*(shape.split("[", 1) for shape in shapes), strict=True)
        if sizes[0] == sizes[1] and types[0] != types[1]:
            one, other = (short_shape(m, i) for m, i in ((diff.a, p), (diff.b, q)))
            what = say(
                *(ARGUMENT, " ", Code(name), f" is {one} in ", A, f" and {other} in ", B),
            )
            seen = Evidence(what, (p,), (q,))
            return replace(
                cause,
                kind=DTYPE,
                title=what,
                short=what,
                fix=TYPE_FIX,
                short_fix=TYPE_SHORT_FIX,
                evidence=(seen, *cause.evidence),
            )
    return cause


def with_argument(diff: Diff, cause: Cause) -> Cause:
    """The cause of arguments that one side alone takes in, by name, before what it computes."""
    if cause.kind not in (ADDED_INPUT, INITIAL_STATE) or not is_jitted(diff.a):
        return cause
    for side, module, own in _lone(diff, cause):
        inputs = [i for i in module.entry_computation.parameters if i in own]
        names = [Code(name) for i in inputs if (name := argument_name(module, i))]
        if names:
            told = say(
                ARGUMENT if len(names) == 1 else f"{ARGUMENT}s", " ", join(names, MAX_NAMED),
                " is given in " if len(names) == 1 else " are given in ", side, " only",
            )  # fmt: skip
            if cause.kind is INITIAL_STATE:
                told = say(told, ", and made from constants in ", side.other)
                return replace(cause, short=told, fix=START_FIX, short_fix=START_SHORT_FIX)
            more = say(": ", *formula_of(cause)) if " became " in str(cause.short) else say()
            return replace(cause, short=say(told, more), fix=FIX, short_fix=SHORT_FIX)
    return cause


def arguments_first(_: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those of arguments that one side alone is given first.

    These alone make another program, whatever else differs.
    """
    return sorted(causes, key=lambda one: not _is_given(one))


def _is_given(cause: Cause) -> bool:
    return cause.kind is ADDED_INPUT and str(cause.short).startswith(ARGUMENT)


def with_added(diff: Diff, cause: Cause) -> Cause:
    """The cause with the tensors that one side alone takes in, where no formula tells of them.

    And with what it computes with them.
    """
    side, module, own = max(_lone(diff, cause), key=lambda one: len(one[2]))
    other = diff.b if side is A else diff.a
    taken = [i for i in sorted(own) if is_input(module, i)]
    taken = [i for i in taken if not module.shapes[i].endswith("[]")] or taken
    computed = [i for i in own if not is_input(module, i)]
    if not taken or not computed:
        return cause
    names = (
        f"{argument_name(module, i) or f'input {module.payloads[i]}'} ({short_shape(module, i)})"
        for i in taken
    )
    does = opcodes_in_words(module, computed, other)
    is_trained = {*taken} <= updates(module).keys()
    told = say(
        *(side, " also ", "trains " if is_trained else "takes in ", join(names, MAX_NAMED)),
        *(", and computes ", does, *_in_library(cause)),
    )
    return replace(cause, short=told, short_fix=JITTED_FIX if is_jitted(module) else EMPTY)


def _in_library(cause: Cause) -> tuple[Part, ...]:
    """Where a library computes it, of a cause whose own line is only near to that."""
    line = next(iter(cause.lines), None)
    return (" at ", line) if line and line.is_library and cause.place.is_near else ()


def _lone(diff: Diff, cause: Cause) -> tuple[tuple[Side, Module, frozenset[int]], ...]:
    """What of a cause each side has alone."""
    return (
        (A, diff.a, cause.a.intersection(diff.removed)),
        (B, diff.b, cause.b.intersection(diff.added)),
    )
