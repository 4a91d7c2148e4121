"""One draw more: all that is drawn behind it starts from another seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import ModuleEditor
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.match import match_modules
from xlagraph.facts.training.seeds import Step, seed_steps
from xlagraph.message import count, say
from xlagraph.rules.numbers.random_numbers import RANDOM_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module


class _Extra(NamedTuple):
    """Steps of the seed that one side takes for draws of its own."""

    view: SideView
    other: SideView
    steps: tuple[Step, ...]


def find(case: Case) -> list[Finding]:
    """Seeds that one side draws from alone, before others that both draw from."""
    steps_a, steps_b = seed_steps(case.a), seed_steps(case.b)
    if not (steps_a and steps_b and _begin_alike(case, steps_a[0], steps_b[0])):
        return []
    kept = _kept(case, steps_a, steps_b)
    places_b = [k for _, k in kept]
    if all(j == k for j, k in kept) or places_b != sorted(places_b):
        return []
    shared_a, shared_b = {j for j, _ in kept}, {k for _, k in kept}
    if len(shared_a) != len(kept) or len(shared_b) != len(kept):
        return []
    extra_a = tuple(step for j, step in enumerate(steps_a) if j not in shared_a)
    extra_b = tuple(step for k, step in enumerate(steps_b) if k not in shared_b)
    if bool(extra_a) == bool(extra_b):
        return []  # none, or other draws on each side, as where a graph is cut
    more, less = (case.a, case.b) if extra_a else (case.b, case.a)
    return [_finding(_Extra(more, less, extra_a or extra_b))]


def _begin_alike(case: Case, a: Step, b: Step) -> bool:
    """Whether both chains begin with one seed: a step written otherwise cuts a chain off there."""
    return case.diff.match.to_b[a.before] == b.before


def _kept(case: Case, a: Sequence[Step], b: Sequence[Step]) -> list[tuple[int, int]]:
    """The places of the steps that both sides draw from for the same use.

    Draws are paired by what is done with them: the modules are matched as if all seeds were one.
    """
    known = case.diff.match.known
    to_b = match_modules(_of_one_seed(case.a, a), _of_one_seed(case.b, b), known=known).to_b
    place_b = {draw: k for k, step in enumerate(b) for draw in step.draws}
    pairs = {(j, place_b.get(to_b[draw])) for j, step in enumerate(a) for draw in step.draws}
    return sorted((j, k) for j, k in pairs if k is not None)


def _of_one_seed(view: SideView, steps: Sequence[Step]) -> Module:
    editor = ModuleEditor(view.module)
    for step in steps:
        editor.become_undone(step.value, (), "seed")
    return editor.build()


def _finding(extra: _Extra) -> Finding:
    view, steps = extra.view, extra.steps
    module = view.module
    values = [step.value for step in steps]
    draws = [draw for step in steps for draw in step.draws]
    lines = where(module, draws) or where(module, values)
    times = count(len(steps), "time")

    def undo(edit: Editors) -> None:
        editor = edit[view.side]
        for step in steps:
            _step_over(editor, step)

    cited_a, cited_b = view.ab(tuple(values), ())
    own_a, own_b = view.ab(
        frozenset((*values, *(s.product for s in steps), *draws)), frozenset[int]()
    )
    return Finding(
        kind=RANDOM_NUMBERS,
        title=say(
            view.side,
            f" draws random numbers {times} more than ",
            extra.other.side,
            ", and what it draws behind that starts from other seeds",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    f"the seed takes {count(len(steps), 'step')} in ",
                    view.side,
                    " that it does not in ",
                    extra.other.side,
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        proof=say(f"{count(len(steps), 'step')} of the seed in ", view.side, " left out"),
        a=own_a,
        b=own_b,
        undo=undo,
    )


def _step_over(editor: ModuleEditor, step: Step) -> None:
    """Computes what follows from the seed before; its own draws keep a seed of their own."""
    for draw in step.draws:
        state = editor.operands[draw][0]
        editor.become_undone(state, (), f"seed of {editor.module.names[draw]}")
    editor.replace_uses({step.value: step.before})


RULE = Rule(
    name="shifted-seeds",
    kinds=(),
    find=find,
    after=("moved-factor",),
    before=("loop-carry",),
    rematches=True,
)
"""Draws of one side alone between others, which shift the seeds of all that follow."""
