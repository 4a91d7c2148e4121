"""What to do about a value that is baked in by code of a library, which the user did not write."""

from __future__ import annotations

from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.sources import stack
from xlagraph.facts.shapes.batch_calls import FRAMEWORKS, ON_HOST
from xlagraph.facts.shapes.size_makers import MASKED, MASKED_NUMBERS, ROWS
from xlagraph.message import Code, Message, say
from xlagraph.rules.numbers.batch_norm_momentum import (
    MOMENTUM_SHORT_FIX,
    NONE_SHORT_FIX,
    PASS_SHORT_FIX,
)
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.shapes.sizes import PYTHON_INDEX, PYTHON_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.message import SourceLine

MADE_THERE = frozenset({CONSTANT_VALUE, PYTHON_INDEX, PYTHON_SIZE})
"""What the code decides that computes it; a number that is handed to it is the caller's."""
OF_MASKS = frozenset({MASKED.short_fix, MASKED_NUMBERS.short_fix, ROWS.short_fix})
OWN_FIXES = frozenset({ON_HOST.short_fix, MOMENTUM_SHORT_FIX, NONE_SHORT_FIX, PASS_SHORT_FIX})
"""What those who call a library set themselves, as the momentum of its layers."""
OPTIMIZERS = "/torch/optim/"
OPTIMIZER_FIX = say(
    "it picks elements of gradients by a mask in each step: take another optimizer (Adam, "
    "RMSprop), or write this one with torch.where."
)
MAX_LOOKED = 100
"""Instructions of a cause whose stacks are looked at."""


class LibrarySetting(NamedTuple):
    """The setting of a library that says how often it bakes in another value."""

    short: Message
    fix: Message


SETTINGS = {
    "peft/tuners/adalora/": LibrarySetting(
        say("raise ", Code("deltaT"), " in ", Code("AdaLoraConfig"), "."),
        say(
            "AdaLora allocates the ranks anew in every step that ",
            Code("deltaT"),
            " divides, and each budget is the k of a kthvalue, so a graph of its own: raise ",
            Code("deltaT"),
            " in ",
            Code("AdaLoraConfig"),
            ", so that few budgets are left (and ",
            Code("update_and_allocate()"),
            " rarely allocates).",
        ),
    ),
    "torchmetrics/utilities/data.py": LibrarySetting(
        say(Code("reset()"), " the metric, or take one that keeps sums."),
        say(
            "this metric keeps every value that it was given in a list, and joins the list in ",
            Code("compute()"),
            ": ",
            Code("reset()"),
            " it once it was read, take one that keeps sums (a ",
            Code("MeanMetric"),
            " of what each batch gives), or keep it on the CPU.",
        ),
    ),
}
"""By the folder, or the file, of the code that bakes it in."""
EXPERTS = (
    "/transformers/models/",
    LibrarySetting(
        say(Code('experts_implementation="batched_mm"'), "."),
        say(
            "each expert takes the tokens that were sent to it, another number in every step: load "
            "the model, or make it, with ",
            Code('experts_implementation="batched_mm"'),
            " (",
            Code('config._experts_implementation = "batched_mm"'),
            "), which computes with tensors of one size.",
        ),
    ),
)
"""What the models of transformers that have experts can be told, and where they stand."""
_ANY_FIX = (
    "call that with the same settings in every step, or in fewer steps, or with tensors on the CPU."
)


def in_library(diff: Diff, finding: Finding) -> tuple[Message, Message] | None:
    """Advice to those who call a library, and the same in short; None for code of their own."""
    if told := _of_masks(diff, finding):
        return told
    has_own = finding.made or finding.short_fix in OWN_FIXES
    if has_own or finding.kind not in MADE_THERE:
        return None
    lines = list(islice(_code(diff, finding), MAX_LOOKED))
    found = [line for line in lines if line and line.is_installed]
    if not found or len(found) < len(lines):
        return None
    settings = (one for folder, one in SETTINGS.items() if folder in found[0].file)
    setting = next(settings, None)
    fix = say(
        "It happens inside ",
        found[0],
        ": ",
        setting.fix if setting else _ANY_FIX,
        " In code of your own: ",
        finding.fix or finding.kind.fix,
    )
    line = found[0]._replace(function="")
    short = setting.short if setting else "call it less often, or with CPU tensors."
    return fix, say("Inside ", line, ": ", short)


def _of_masks(diff: Diff, finding: Finding) -> tuple[Message, Message] | None:
    """The same of a library that picks elements by masks.

    An optimizer of PyTorch may, as Rprop does by signs, and experts pick their tokens.
    """
    if finding.short_fix not in OF_MASKS:
        return None
    cited = ((diff.b, i) for one in finding.evidence for i in one.b)
    frames = [frame for module, i in islice(cited, MAX_LOOKED) for frame in stack(module, i)]
    folder, setting = EXPERTS
    for where, fix, short in (
        (OPTIMIZERS, OPTIMIZER_FIX, say("take another optimizer (Adam, RMSprop).")),
        (folder, setting.fix, setting.short),
    ):
        own = next((frame for frame in frames if where in frame.file), None)
        if own is not None:
            told = say("It happens inside ", own, ": ", fix, " In code of your own: ", finding.fix)
            return told, say("Inside ", own._replace(function=""), ": ", short)
    return None


def _code(diff: Diff, finding: Finding) -> Iterator[SourceLine | None]:
    """The line that computes each instruction cited: PyTorch does what it is called with.

    None for what has no line, and for optimizers, which have to run in every step.
    """
    for evidence in finding.evidence:
        for module, cited in ((diff.a, evidence.a), (diff.b, evidence.b)):
            for frames in (stack(module, i) for i in cited):
                steps = any(OPTIMIZERS in frame.file for frame in frames)
                yield None if steps else next(filter(_is_code, frames), None)


def _is_code(frame: SourceLine) -> bool:
    """Whether it is code of the program or of an installed package other than PyTorch."""
    if frame.is_installed:
        return not FRAMEWORKS & set(PurePath(frame.file).parts)
    return not frame.is_library
