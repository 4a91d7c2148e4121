"""Why FSDP has not emptied a bucket as a sync began: hooks of its parameters that never ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.facts.distributed.unused import is_unused
from xlagraph.facts.program.wrapped import attribute_path, wrapped_name
from xlagraph.message import EMPTY, Code, Listing, Message, count, join, say
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.model import MissingGradient, UnfinishedBackward
    from xlagraph.message import SourceLine

ROOT = "root"
"""What a capture calls the FSDP module that nothing contains."""
_WHOLE = "model"
"""What the model is called where the program's own name for it is not known."""
_FREEZE = "(requires_grad=False)"
_NO_BUCKETS = "set reduce_scatter_bucket_size_mb=0"


def unfinished_evidence(case: Case) -> list[Evidence]:
    """A line for each FSDP module that waits for hooks; of both modules in one where equal."""
    in_a, in_b = case.a.context.unfinished, case.b.context.unfinished
    found = [_evidence(EMPTY, one) for one in in_b if one in in_a]
    for view, own, other in ((case.a, in_a, in_b), (case.b, in_b, in_a)):
        found += [_evidence(say(view.side, ": "), one) for one in own if one not in other]
    return found


def missing_gradients(case: Case) -> tuple[Tensor, ...]:
    """The parameters without a gradient that FSDP waits for, in either module."""
    return tuple(dict.fromkeys(one.tensor for one in _missing(case)))


def unfinished_fix(case: Case) -> Message:
    """What to change so that the hooks run; nothing where none is waited for."""
    tensors = missing_gradients(case)
    found = _all(case)
    if tensors:
        it = "it" if len(tensors) == 1 else "them"
        return say(
            "Put a frozen copy in its place before FSDP wraps the model",
            *((" at ", made) if (made := _made(case)) else ()),
            "" if _model(case) else f" ({_WHOLE}: as it is before FSDP)",
            ":",
            _frozen(case),
            "A copy, so that what is tied to ",
            f"{it} is trained as before. If ",
            join(tensors),
            f" should be trained, use {it} in the loss instead. Or {_NO_BUCKETS}.",
        )
    if any(one.hooks_left < 0 for one in found):
        return say(
            "Call each FSDP module once before each backward (several inputs as one batch), for "
            f"it starts counting its hooks anew in every forward; or {_NO_BUCKETS}."
        )
    if found:
        return say(
            "Find the parameters that get no gradient in backward; freeze them "
            f"(requires_grad=False) before FSDP wraps the model, or use them; or {_NO_BUCKETS}."
        )
    return EMPTY


def unfinished_in_short(case: Case) -> Message:
    """Why a bucket is kept, in a few words; nothing where no hook is waited for."""
    tensors = missing_gradients(case)
    late = "wrong training: some gradients are applied a step late, as "
    if tensors:
        gets = "gets" if len(tensors) == 1 else "get"
        return say(f"{late}FSDP waits for ", join(tensors, 1), f", which {gets} none")
    found = _all(case)
    if any(one.hooks_left < 0 for one in found):
        return say("wrong training: an FSDP module runs forward twice before backward")
    return say(f"{late}FSDP waits for others that never come") if found else EMPTY


def unfinished_short_fix(case: Case) -> Message:
    """`unfinished_fix` in a dozen words."""
    tensors = missing_gradients(case)
    if tensors:
        made = _made(case)
        above = f"above line {made.line}" if made else "before FSDP wraps it"
        more = len(tensors) - 1
        rest = f" (and for {more} more)" if more else ""
        return say(f"If it is not to be trained, insert {above}{rest}:", _frozen(case))
    if any(one.hooks_left < 0 for one in _all(case)):
        return say("Call each FSDP module once before each backward.")
    return say("Freeze what gets no gradient, or use it.") if _all(case) else EMPTY


def unfinished_effect(case: Case) -> Message:
    """What waiting does to the training; nothing where no hook is waited for.

    torch_xla's FSDP gives a shard its gradient in a callback of the bucket's reduce-scatter, which
    adds to the gradient that is there (``reduce_scatter_done`` in
    ``xla_fully_sharded_data_parallel.py``, ``flush`` in ``fsdp/utils.py``).
    """
    if not _all(case):
        return EMPTY
    late = " miss this optimizer.step(), and are added to the next step's."
    found = list(_missing_in(case))
    if not found:
        return say(f"Gradients that wait{late}")
    unused = [tensor for view, tensor in found if is_unused(view, tensor)]
    if len(unused) == len(found):
        why = say("Nothing in the step uses ", join(dict.fromkeys(unused), 1), ": ")
    else:
        why = EMPTY
    use = "use it in the loss instead, if it is to be trained. " if why else ""
    held = f"FSDP holds back its last bucket until it has all gradients; those in it{late}"
    return say(why, use, held)


def _frozen(case: Case) -> Message:
    """What to write so that a copy without gradient stands in the place of each parameter.

    A copy, for the parameter may be tied to one that is trained.
    """
    first, *_ = missing_gradients(case)
    owner = attribute_path(_model(case) or _WHOLE, first.owner)
    name = first.name
    copy = f"m.{name} = torch.nn.Parameter(m.{name}.data.clone(), requires_grad=False)"
    return say(Listing((f"m = {owner}", copy)))


def _model(case: Case) -> str:
    """What the program calls the module that the root FSDP module wraps; empty if not known."""
    found = [one for one in _all(case) if one.missing]
    made = _made(case)
    if made is None or any(one.module != ROOT for one in found):
        return ""
    programs = (view.context.program.get(made.file, {}) for view in (case.a, case.b))
    names = (wrapped_name(lines, made.line) for lines in programs)
    return next(filter(None, names), "")


def _made(case: Case) -> SourceLine | None:
    """Where the program wraps the module that waits for gradients."""
    lines = (one.made for one in _all(case) if one.missing)
    return next((line for line in lines if line and not line.is_library), None)


def _all(case: Case) -> tuple[UnfinishedBackward, ...]:
    return case.a.context.unfinished + case.b.context.unfinished


def _missing(case: Case) -> Iterable[MissingGradient]:
    return (missing for one in _all(case) for missing in one.missing)


def _missing_in(case: Case) -> Iterable[tuple[SideView, Tensor]]:
    """The parameters without a gradient, each with the module in whose step it got none."""
    return (
        (view, missing.tensor)
        for view in (case.a, case.b)
        for one in view.context.unfinished
        for missing in one.missing
    )


def _evidence(before: Message, one: UnfinishedBackward) -> Evidence:
    lines = (one.made, *(missing.defined for missing in one.missing))
    return Evidence(
        say(before, _named(one.module), _state(one)),
        sources=tuple(dict.fromkeys(line for line in lines if line)),
    )


def _named(module: str) -> Message:
    if module == ROOT:
        return say("the root FSDP module")
    return say("the FSDP module ", Tensor("", module))


def _state(one: UnfinishedBackward) -> Message:
    if one.hooks_left < 0:
        return say(
            f" has counted its post-backward hooks down to {one.hooks_left} as the step ends: "
            "its forward ran more than once before backward, and the count began anew",
        )
    of = f"{one.hooks_left} of {count(one.hooks, 'post-backward hook')}"
    waits = f" still waits for {of} as the step ends"
    if not one.missing:
        return say(f"{waits}; which parameters got no gradient is not known")
    return say(
        f"{waits}: ",
        join(_described(missing) for missing in one.missing),
        " got no gradient",
    )


def _described(one: MissingGradient) -> Message:
    line = say(", ", one.defined) if one.defined else EMPTY
    return say(one.tensor, f" ({one.shape}, of a ", Code(one.owner_class), line, ")")
