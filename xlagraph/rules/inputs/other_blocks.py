"""Two steps that run other blocks of a model: each uses weights that the other leaves out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, called_at
from xlagraph.facts.training.gradients import is_multiplied, products_of, through_forms
from xlagraph.facts.training.updates import renewed
from xlagraph.message import A, B, join, say
from xlagraph.rules.shapes.convolution_option import CONVOLUTION_OPTION
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.diff import Diff
    from xlagraph.message import Message

MAX_NAMED = 8


class _Weights(NamedTuple):
    """The weights of one side, by what they are on both sides: a tensor, or an output's place."""

    used: dict[Hashable, int]
    """Those that the forward pass multiplies with."""
    idle: dict[Hashable, int]
    """Those that are only updated, with gradients that are zero."""


def find(case: Case) -> list[Finding]:
    """Weights in each other's place, of which each side leaves alone what the other uses.

    All else may be equal: the modules are the same but for the options of the blocks' layers, and
    the order of outputs and of lists of all gradients. Inputs have no names in a text. But the
    outputs are ordered by the creation of the tensors, and weights are created once.
    """
    found = exchanged_weights(case)
    if found is None or {case.a.partners[p] for p in found[0]} != set(found[1]):
        return []
    return [_finding(case, *found)]


def exchanged_weights(case: Case) -> tuple[list[int], list[int]] | None:
    """The weights that A uses and B leaves alone, and as many with which it is the other way."""
    ranks_a, ranks_b = _ranks(case)
    a, b = _weights(case.a, ranks_a), _weights(case.b, ranks_b)
    own, other = _left_out(a, b, case.a, case.b), _left_out(b, a, case.b, case.a)
    return (sorted(own), sorted(other)) if own and len(own) == len(other) else None


def _ranks(case: Case) -> tuple[dict[int, int], dict[int, int]]:
    """For the outputs of each side that are paired which one it is, in the order of that side."""
    paired = [(s.a, s.b) for s in case.diff.outputs if s.a is not None and s.b is not None]
    places = sorted(x for x, _ in paired), sorted(y for _, y in paired)
    return {x: k for k, x in enumerate(places[0])}, {y: k for k, y in enumerate(places[1])}


def _weights(view: SideView, ranks: Mapping[int, int]) -> _Weights:
    module = view.module
    new = renewed(module)
    multiplied = {p for p in new if is_multiplied(module, p)}
    stepped = {k for p in multiplied for k in new[p]}
    weights = _Weights({}, {})
    for p, positions in new.items():
        tensor = view.input_tensor(p)
        first = min(positions, key=module.outputs.__getitem__)
        key = (tensor or ranks.get(first), module.shapes[p])
        if key[0] is None:
            continue
        if p in multiplied:
            weights.used[key] = p
        elif stepped.isdisjoint(positions):
            weights.idle[key] = p
    return weights


def _left_out(mine: _Weights, theirs: _Weights, view: SideView, other: SideView) -> list[int]:
    """The used weights that the other side only updates, or of whose name it has no tensor."""
    inputs = other.module.entry_computation.parameters
    known = {tensor for q in inputs if (tensor := other.input_tensor(q))}

    def is_left_out(key: Hashable, p: int) -> bool:
        tensor = view.input_tensor(p)
        is_gone = bool(known and tensor) and tensor not in known
        return key not in theirs.used and (key in theirs.idle or is_gone)

    return [p for key, p in mine.used.items() if is_left_out(key, p)]


def _finding(case: Case, own: list[int], other: list[int]) -> Finding:
    evidence = told(case, own, other)
    return Finding(
        kind=SKIPPED_BLOCK,
        title=title(evidence),
        evidence=evidence,
        proof=say("weights are known by name or by the output that is their new value"),
        reorders=True,
        brings=partial(brings, own),
    )


def title(evidence: Sequence[Evidence]) -> Message:
    """What is said of weights that are exchanged."""
    return say("other blocks of the model run in ", A, " than in ", B, at(evidence[0].sources))


def told(case: Case, own: list[int], other: list[int]) -> tuple[Evidence, ...]:
    """Which weights each side uses, at the products with them."""
    products_a, products_b = (
        tuple(i for p in inputs for i in products_of(view.module, p))
        for view, inputs in ((case.a, own), (case.b, other))
    )
    lines = called_at(case.b.module, products_b)
    both = _used(case.a, own), _used(case.b, other)
    return Evidence(both[0], products_a, products_b, lines), Evidence(both[1])


def _used(view: SideView, inputs: list[int]) -> Message:
    named = join((_named(view, p) for p in inputs), MAX_NAMED)
    return say(view.side, " multiplies with ", named, ", which ", view.side.other, " leaves alone")


def _named(view: SideView, p: int) -> Message:
    """A weight by name; else by its shape and its new value, since inputs stand in any order."""
    if view.input_tensor(p):
        return parameter_name(view, p)
    module = view.module
    first = min(renewed(module)[p], key=module.outputs.__getitem__)
    return say(f"the weight ({short_shape(module, p)}) whose new value is output {first}")


def brings(weights: Collection[int], finding: Finding, diff: Diff) -> bool:
    """Whether convolutions with another option are of these weights, or derivatives of such."""
    cited = [x for evidence in finding.evidence for x in evidence.a]
    return finding.kind is not CONVOLUTION_OPTION or all(
        any(through_forms(diff.a, o) in weights for o in diff.a.operands[x]) for x in cited
    )


RULE = Rule(
    name="other-blocks",
    kinds=(),
    find=find,
    after=("live-tensors",),
    before=("output-order",),
    first_round_only=True,
)
