"""Random numbers that one side draws and the other does not: dropout, noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, bare, line_of
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.training.masks import Masks, masks_of
from xlagraph.facts.values.telling import HEAVY, RANDOM, telling_opcodes
from xlagraph.message import count, say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

RANDOM_NUMBERS = Kind(
    id="random-numbers",
    title="One side draws random numbers and the other does not",
    section=Section.PIECES,
    meaning="Dropout is on in some steps only, as when model.eval() was called and train() is "
    "forgotten, or noise is added to some batches. Under eval(), or where p is 0, nothing is drawn "
    "and nothing multiplied: the graph is another one.",
    before="""\
dropout = nn.Dropout(0.1)
for step, (x, y) in enumerate(loader):
    if step == 4:
        dropout.eval()
    update(loss_fn(dropout(model(x)), y))
""",
    after="""\
keep = torch.full((), 0.9).to("xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    if step == 4:
        keep.fill_(1.0)  # nothing is dropped any more, by the same graph
        torch_xla.sync()
    out = model(x)
    update(loss_fn(out * (torch.rand_like(out) < keep) / keep, y))
""",
    evidence="What draws them and what is done with them.",
    fix="If dropout was switched here (train(), eval()): keep a training loop in one mode, and "
    "evaluate between two calls of torch_xla.sync(). With p=0 nothing is drawn either: a p that is "
    "0 for a while, or is to change while training, can be a probability on the device: "
    "x * (torch.rand_like(x) < keep) / keep, with keep a tensor.",
    proof="What is drawn, and what is done with it, is bypassed.",
    examples=("dropout_late", "eval_dropout"),
    family=Family.BRANCH,
    short="Random numbers are drawn in some steps only",
    short_fix="Keep train() or eval() the same in every training step.",
    is_piece=True,
    may_be_meant=True,
)
COINS = frozenset({"bernoulli", "native_dropout"})
"""The operations by which torch draws what dropout keeps."""
DROPOUT_SHORT = say("Dropout is on in some steps only, as by train() and eval()")
DROPOUT_SHORT_FIX = say("Call train() after each evaluation; keep one mode while training.")


def find(case: Case) -> list[Finding]:
    """Pieces that draw random numbers and use them."""
    if not (_draws(case.a) or _draws(case.b)):
        return []
    masks = [found for sides in case.both_ways if (found := masks_of(*sides))]
    if masks:
        return [_of_masks(case, found) for found in masks]
    return [_finding(found) for found in bypasses(case) if _draws_only(found)]


def _of_masks(case: Case, masks: Masks) -> Finding:
    """The finding of a side that draws masks alone, where the other does not draw: dropout."""
    more = masks.side
    less = case.b if more.is_a else case.a
    finding = _finding(Bypass(more, less, {}, masks.piece, frozenset()))
    number = count(len(masks.products), "product")
    idle_a, idle_b = more.ab(frozenset(masks.idle), frozenset[int]())
    told = say(more.side, " multiplies by masks that it draws, and ", less.side, " does not draw")
    return replace(
        finding,
        evidence=(replace(finding.evidence[0], text=told),),
        short=DROPOUT_SHORT,
        fix=say(RANDOM_NUMBERS.fix),
        short_fix=DROPOUT_SHORT_FIX,
        proof=say(f"{number} by masks of ", more.side, " were replaced by what is multiplied"),
        a=finding.a | idle_a,
        b=finding.b | idle_b,
        undo=masks.undo,
    )


def _draws_only(found: Bypass) -> bool:
    """Whether a piece draws random numbers, and is no whole layer that does so inside."""
    opcodes = telling_opcodes(found.more.module, found.piece).keys()
    return not opcodes.isdisjoint(RANDOM) and opcodes.isdisjoint(HEAVY)


def _draws(view: SideView) -> bool:
    return any(view.module.opcodes[i] in RANDOM for i in view.open_lone())


def _finding(found: Bypass) -> Finding:
    more, less = found.more.side, found.less.side
    title = say(
        more, " draws random numbers and ", less, " does not: ", found.words, at(found.lines)
    )
    finding = bypass_finding(found, RANDOM_NUMBERS, title)
    if _draws_for_layers(found):
        fix = say(RANDOM_NUMBERS.fix)
        finding = replace(finding, short=DROPOUT_SHORT, fix=fix, short_fix=DROPOUT_SHORT_FIX)
    return replace(finding, option="training") if any(map(_is_dropout, found.lines)) else finding


def _is_dropout(line: SourceLine) -> bool:
    """Whether a line led to torch's dropout, which train() and eval() switch."""
    inner = line.called or line
    return inner.is_library and "dropout" in inner.function


def _draws_for_layers(found: Bypass) -> bool:
    """Whether torch's own layers draw all of the piece's numbers, as coins: they do for dropout.

    The text of torch_xla names a line of theirs, and no function.
    """
    module = found.more.module
    drawn = [i for i in found.piece if module.opcodes[i] in RANDOM]
    return bool(drawn) and all(_is_coin_of_layer(module, i) for i in drawn)


def _is_coin_of_layer(module: Module, i: int) -> bool:
    line, metadata = line_of(module, i), module.metadata(i)
    inner = line and (line.called or line)
    is_layer = inner is not None and inner.is_library and "torch/nn/" in inner.file
    return is_layer and metadata is not None and bare(metadata.op_type) in COINS


RULE = Rule(
    name="random-numbers",
    kinds=(RANDOM_NUMBERS,),
    find=find,
    after=("added-input",),
)
