"""Something computed with tensors that the other side does not take in: masks, adapters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, called_at
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.program.arguments import argument_name
from xlagraph.facts.training.updates import updates
from xlagraph.message import A, count, join, say
from xlagraph.rules.training.optimizer_option import option_of
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.message import Side

ADDED_INPUT = Kind(
    id="added-input",
    title="Something is computed with tensors that the other side does not take in",
    section=Section.PIECES,
    meaning="A pruning mask, an adapter such as LoRA's, a second head, a table of biases, noise "
    "from the host: from some step on the graph takes in tensors that it did not have, and puts "
    "what it computes with them between values that were connected before.",
    before="""\
mask = None
for step, (x, y) in enumerate(loader):
    if step == 4:
        mask = (model[0].weight.detach().abs() > 0.1).float()
        torch_xla.sync()
    weight = model[0].weight if mask is None else model[0].weight * mask
    update(loss_fn(model[2](F.linear(x, weight, model[0].bias).relu()), y))
""",
    after="""\
mask = torch.ones(32, 16).to("xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    if step == 4:
        mask = (model[0].weight.detach().abs() > 0.1).float()
        torch_xla.sync()
    weight = model[0].weight * mask
    update(loss_fn(model[2](F.linear(x, weight, model[0].bias).relu()), y))
""",
    evidence="The tensors, and what is computed with them.",
    fix="Let the graph have them from the first step on, with values that change nothing: a mask "
    "of ones, an adapter whose last layer is zero, a head whose loss is multiplied by a number "
    "that is nearly zero. Later only the values change. Where it comes once and stays, one "
    "compile is its price.",
    proof="What is computed with the tensors is bypassed.",
    examples=("mask_late", "pruning_mask", "adapter_late", "second_head"),
    short="Some steps use tensors that others do not",
    short_fix="Let every step have them; only their values change.",
    consequences=("newly-updated",),
    may_be_meant=True,
)


def find(case: Case) -> list[Finding]:
    """Pieces that take in tensors of one side alone."""
    return [finding for found in bypasses(case) if (finding := _finding(found))]


def _of_inputs(found: Bypass, inputs: Sequence[int]) -> Bypass:
    """Of a bypass without lines what is made of these inputs, if that is apart from the rest."""
    module = found.more.module
    made = set(inputs)
    for i in sorted(found.piece):
        if not made.isdisjoint(module.operands[i]):
            made.add(i)
    values = {edge.value(found.more) for edge in found.uses}
    return (None if found.lines else found.among(values & made)) or found


def _finding(found: Bypass) -> Finding | None:
    more, less, module = found.more, found.less, found.more.module
    lone = [j for j in less.module.entry_computation.parameters if less.partners[j] < 0]
    partners = {less.module.shapes[j] for j in lone}
    names = {name for j in lone if (name := argument_name(less.module, j))}
    inputs = sorted(
        i
        for i in found.piece
        if is_input(module, i)
        and more.partners[i] < 0
        and module.shapes[i] not in partners
        and argument_name(module, i) not in names
        and not module.shapes[i].partition("{")[0].endswith("[]")
    )
    if not inputs:
        return None
    found = _of_inputs(found, inputs)
    tensors = [more.input_tensor(p) for p in inputs]
    option = option_of(found)
    if option and option.piece.issuperset(inputs):
        return None
    if any(tensor and tensor.is_optimizer_state for tensor in tensors):
        return None
    is_block = all(tensor and tensor.role is Role.PARAMETER for tensor in tensors)
    lines = called_at(module, found.piece) if is_block else found.lines
    is_read = not updates(module).keys() & set(inputs)
    title = say(
        more.side,
        f" takes in {count(len(inputs), 'tensor')} that ",
        less.side,
        " does not (",
        join(parameter_name(more, p) for p in inputs),
        "), which it only reads, and computes " if is_read else "), and computes ",
        found.words,
        " with " + ("it" if len(inputs) == 1 else "them"),
        at(lines),
    )
    finding = bypass_finding(found, ADDED_INPUT, title, lines=lines)
    return replace(finding, brings=partial(_brings, more.side)) if is_read else finding


def _brings(side: Side, finding: Finding, _diff: Diff) -> bool:
    """Whether what is updated follows from tensors that one side only reads.

    It does not where the other side updates more: no adapter is trained in place of those weights,
    so that somebody has frozen them as well.
    """
    own, others = finding.dropped_a, finding.dropped_b
    return bool(own if side is A else others) or not (own or others)


RULE = Rule(
    name="added-input",
    kinds=(ADDED_INPUT,),
    find=find,
    after=("repeated-pass",),
)
