"""Causes that are another optimizer: by what it keeps of each weight, and how it steps by that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.verdict import NOWHERE
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.training.updates import formula, in_updates, updates
from xlagraph.facts.values.formulas import is_weight
from xlagraph.message import A, B, Change, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.training.optimizer_option import (
    OPTIMIZER_OPTION,
    RADAM_FIX,
    ROOT_FIX,
    ROOT_ONLY,
    ROOT_SHORT,
    ROOT_SHORT_FIX,
    ROOTS,
)
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED, OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

SGD, MOMENTUM, SIGNS = "SGD", "SGD with momentum", "Lion"
ADAM, RMSPROP, ADAGRAD = "Adam", "RMSprop", "Adagrad"
OF_STATE = (OPTIMIZER_STATE, NEWLY_UPDATED, ADDED_INPUT)
"""What state is told as that one side alone has."""
MOST = 0.8
"""This part of the weights that are trained is stepped by one optimizer."""
FEWEST = 3
"""So many weights that are stepped alike tell of an optimizer."""
FIX = say(
    "Each optimizer is a graph of its own, with state of its own: keep one, and load its state "
    "with it."
)


def with_optimizer(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of an optimizer that is another, with its numbers and state.

    And beside a larger piece that its steps are divided by a root on one side only.
    """
    causes = _with_root(diff, causes)
    if not any(c.kind in OF_STATE for c in causes):
        return list(causes)
    became = family(diff.a), family(diff.b)
    if "" in became or became[0] == became[1] or {*became} <= {SGD, MOMENTUM}:
        return list(causes)
    steps = in_updates(diff.a), in_updates(diff.b)
    own = [c for c in causes if c.proved and _is_of_step(diff, c, *steps)]
    first = next((c for c in own if c.kind in (OPTIMIZER_OPTION, *BRANCHES)), None)
    if first is None:
        return list(causes)
    told = say("the optimizer is another one: ", Change(*became, "became"))
    words = {"title": told, "short": told, "fix": FIX, "short_fix": say("Keep one optimizer.")}
    return merged(causes, first, own, kind=OPTIMIZER_OPTION, **words)


def _with_root(diff: Diff, causes: Sequence[Cause]) -> Sequence[Cause]:
    """The causes, and what RAdam does from its sixth step on where a larger piece has that too.

    Both sides keep squares of gradients, and one of them divides no step by their roots yet.
    """
    first, *others = causes or (None,)
    if first is None or not first.proved or first.kind not in BRANCHES:
        return causes
    if any(cause.kind is OPTIMIZER_OPTION for cause in others):
        return causes
    roots = [_roots_of_steps(module) for module in (diff.a, diff.b)]
    side, own = (B, roots[1]) if not roots[0] else (A, roots[0])
    claimed = first.b if side is B else first.a
    if None in roots or not own or roots[0] == roots[1] or not own <= claimed or own == claimed:
        return causes
    short = say(ROOT_SHORT, side, ROOT_ONLY)
    in_a, in_b = (frozenset[int](), own) if side is B else (own, frozenset[int]())
    cited = Evidence(short, tuple(sorted(in_a)), tuple(sorted(in_b)))
    told = replace(
        first, kind=OPTIMIZER_OPTION, title=short, short=short, fix=say(ROOT_FIX, RADAM_FIX),
        short_fix=ROOT_SHORT_FIX, evidence=(cited,), a=in_a, b=in_b, place=NOWHERE,
        share=len(own) / max(diff.differing, 1),
    )  # fmt: skip
    return [first, told, *others]


def _roots_of_steps(module: Module) -> frozenset[int] | None:
    """The roots that steps take of weights whose gradients' squares are kept; None without any."""
    new = updates(module)
    weights = [p for p in new if is_weight(module, p) and not module.shapes[p].startswith("f32[]")]
    squares = Counter(
        bare_shape(module, p)
        for p, ks in new.items()
        if p not in weights and _has_square(module, formula(module, _own_value(module, ks)))
    )
    stepped = [p for p in weights if squares[bare_shape(module, p)]]
    made = [formula(module, max(map(module.outputs.__getitem__, new[p]))) for p in stepped]
    taken = [one for one in ({i for i in own if module.opcodes[i] in ROOTS} for own in made) if one]
    if len(stepped) < FEWEST or 0 < len(taken) < MOST * len(stepped):
        return None
    return frozenset[int]().union(*taken)


def _is_of_step(diff: Diff, cause: Cause, a: set[int], b: set[int]) -> bool:
    """Whether all that a cause is of belongs to new values of weights and of state."""
    if cause.kind not in (*OF_STATE, *BRANCHES, OPTIMIZER_OPTION, SPECIAL_SCALAR):
        return False
    sides = (diff.a, cause.a, a), (diff.b, cause.b, b)
    return bool(cause.a or cause.b) and all(_belong(*side) for side in sides)


def _belong(module: Module, own: Collection[int], steps: set[int]) -> bool:
    """Whether each is of a step, or a number, an input or a constant for one."""
    idle = ("parameter", "constant", "broadcast", "convert", "reshape", "tuple")
    return all(
        i in steps or module.opcodes[i] in idle or bare_shape(module, i).endswith("[]") for i in own
    )


def family(module: Module) -> str:
    """The optimizer that steps nearly all weights; empty where none does, or it is not known."""
    new = updates(module)
    weights = [p for p in new if is_weight(module, p) and not module.shapes[p].startswith("f32[]")]
    found = Counter(_of_weight(module, p, new) for p in weights)
    name, number = next(iter(found.most_common(1)), ("", 0))
    return name if number >= MOST * len(weights) else ""


def _of_weight(module: Module, weight: int, new: Mapping[int, Sequence[int]]) -> str:
    """The optimizer that steps one weight, by its state; empty where that is not known.

    State is decayed and added to: squares of gradients whose root the step is divided by, and
    what the gradient is averaged in, which RMSprop keeps of what is divided already.
    """
    value = max((module.outputs[k] for k in new[weight]), key=lambda i: len(formula(module, i)))
    made = formula(module, value)
    state = [
        (q, _own_value(module, ks))
        for q, ks in new.items()
        if q in made and q != weight and module.shapes[q] == module.shapes[weight]
    ]
    squares = [q for q, own in state if _has_square(module, formula(module, own))]
    moments = [own for q, own in state if q not in squares]
    roots = {i for i in made if module.opcodes[i] in ("sqrt", "rsqrt")}
    if roots and not squares:
        return ""
    if not squares:
        signs = any(module.opcodes[i] == "sign" for i in made)
        return SIGNS if signs and moments else "" if signs else MOMENTUM if moments else SGD
    if not roots:
        return ""
    if any(roots & formula(module, own) for own in moments):
        return RMSPROP
    if moments:
        return ADAM
    (first, *_) = (own for q, own in state if q in squares)
    decays = any(module.opcodes[i] == "multiply" and squares[0] in module.operands[i] for i in made)
    return RMSPROP if decays or module.opcodes[first] != "add" else ADAGRAD


def _own_value(module: Module, places: Sequence[int]) -> int:
    """The new value of state itself: the one that the fewest instructions lead to."""
    return min((module.outputs[k] for k in places), key=lambda i: len(formula(module, i)))


def _has_square(module: Module, made: set[int]) -> bool:
    """Whether a value is multiplied by itself, or raised to a power."""
    return any(
        (module.opcodes[i] == "multiply" and len({*module.operands[i]}) == 1)
        or module.opcodes[i] == "power"
        for i in made
    )
