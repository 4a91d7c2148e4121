"""What the first lines say of a run beyond what one comparison knows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from real_modules import FIXTURES, explained_run

from xlagraph.cause.model import Evidence
from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, say
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.runs.kinds import FIRST_GRAPH
from xlagraph.runs.model import Meant
from xlagraph.runs.verdict import run_verdict, stable_after
from xlagraph.tensors import Role, Tensor


@pytest.mark.parametrize(
    ("name", "fix", "note"),
    [
        (
            "pad_to_multiple",
            "Pad to one size that all fit in, or a few.",
            "Dimension 0 of input 4 took 3 sizes, 8 to 24.",
        ),
        ("last_batch", "Pad or drop the odd batch, or use few sizes.", ""),
        (
            "focal_exponent",
            "Send it in one element: torch.tensor([value]).to(device)[0].",
            "The constant took 7 values, 3 to 9.",
        ),
        ("label_dtype", "Convert that input before it is sent: .to(torch.float32)", ""),
    ],
)
def test_what_is_said_suits_the_values_that_were_taken(name: str, fix: str, note: str) -> None:
    verdict = explained_run(FIXTURES / "pairs" / name).verdict
    assert str(verdict.fix) == fix
    assert [text for text in map(str, verdict.notes) if "took" in text] == [note] * bool(note)


def test_an_input_of_another_dtype_comes_with_both() -> None:
    what = str(explained_run(FIXTURES / "pairs" / "label_dtype").verdict.what)
    assert what.endswith("an input ([8,16]) has another dtype (f32 -> f16) in some steps.")


@pytest.mark.parametrize(
    ("number", "problems", "begun", "rest"),
    [
        (2, 1, 2, 0),
        (3, 1, 1, 2),
        (7, 1, 1, 6),
        (4, 0, 4, 0),
        (5, 0, 3, 2),
    ],
)
def test_what_is_meant_takes_few_lines(number: int, problems: int, begun: int, rest: int) -> None:
    run = explained_run(FIXTURES / "pairs" / "label_dtype")
    meant = replace(run.problems[0], expected=True, meant=Meant.RHYTHM)
    places = [Place(SourceLine("train.py", 10 + k, "step")) for k in range(number)]
    groups = (*run.problems[:problems], *(replace(meant, place=place) for place in places))
    verdict = run_verdict(run.run, groups, run.graphs, 3, 20, 0, began_late=False)
    notes = list(map(str, verdict.notes))
    assert sum(note.startswith("In a fixed order since ") for note in notes) == begun
    more = [note for note in notes if "more such changes" in note]
    assert len(more) == bool(rest)
    assert all(one.startswith(f"{rest} more such changes stand in the list") for one in more)
    assert all(f": {rest * meant.compiles} compile" in one for one in more)


@pytest.mark.parametrize(
    ("meant", "told"),
    [
        (Meant.EARLY, ["Settled since step 9: 2 compiles, "]),
        (Meant.SETTLED, ["Settled since step 9: 2 compiles, "]),
        (Meant.PHASE, ["Changed in step 6 and stayed so: ", "Changed in step 9 and stayed so: "]),
    ],
)
def test_what_settled_is_one_note(meant: Meant, told: list[str]) -> None:
    """Whatever it differs in: there is nothing to do, and nobody knows that it was meant."""
    run = explained_run(FIXTURES / "pairs" / "label_dtype")
    first, again = (
        replace(run.problems[0], expected=True, meant=meant, steps=(k,)) for k in (6, 9)
    )
    verdict = run_verdict(run.run, (first, again), run.graphs, 3, 20, 0, began_late=False)
    assert len(verdict.notes) == len(told)
    assert all(str(note).startswith(one) for note, one in zip(verdict.notes, told, strict=True))


@pytest.mark.parametrize(
    ("steps", "notes"),
    [
        ((6,), ["Changed in step 6"]),
        ((6, 20), ["Changed in step 6", "Changed in step 20"]),
        ((6, 7), ["Changed in step 6"]),
        ((6, 20, 21, 40), ["Stages: from step 6 on"]),
    ],
    ids=["one", "two", "goes on beginning", "stages"],
)
def test_changes_that_came_once_are_notes_but_for_the_stages_of_a_program(
    steps: tuple[int, ...], notes: list[str]
) -> None:
    run = explained_run(FIXTURES / "pairs" / "label_dtype")
    groups = [
        replace(run.problems[0], expected=True, meant=Meant.PHASE, steps=(step,)) for step in steps
    ]
    verdict = run_verdict(run.run, groups, run.graphs, 3, 60, 0, began_late=False)
    told = [str(note) for note in verdict.notes]
    assert [one[: len(note)] for one, note in zip(told, notes, strict=True)] == notes
    stages = [one for one in told if one.startswith("Stages")]
    assert all("; from step 20 on" in one and "; from step 40 on" in one for one in stages)
    assert not any("21" in one for one in told)


@pytest.mark.parametrize(
    ("graphs", "last"),
    [((), 8), (("A",), 2), (("A", "B"), 8), (("B",), 8)],
    ids=["not stored", "set aside", "one of two", "another"],
)
def test_a_compile_is_set_aside_only_where_its_graphs_are_known(graphs, last):
    compiles = [(0, ("A",)), (2, ("C",)), (8, graphs)]
    syncs = [SimpleNamespace(step=k, outcome="compile", graphs=g) for k, g in compiles]
    assert stable_after(syncs, 20, frozenset("A")) == last


def notes_of(run, **changed):
    """What is said of a run whose only reason is a phase that is as the first one, but for this."""
    group = replace(run.problems[0], expected=True, meant=Meant.PHASE, steps=(6,), **changed)
    verdict = run_verdict(run.run, (group,), run.graphs, 3, 20, 0, began_late=False)
    return [str(note) for note in verdict.notes if "and stayed so" in str(note)]


def test_the_first_graphs_of_a_part_are_no_note() -> None:
    run = explained_run(FIXTURES / "pairs" / "label_dtype")
    assert len(notes_of(run)) == 1
    assert not notes_of(run, kind=FIRST_GRAPH, cause=None)


@pytest.mark.parametrize(("role", "notes"), [(Role.PARAMETER, 0), (Role.TENSOR, 1)])
def test_weights_of_another_size_are_those_of_another_part(role: Role, notes: int) -> None:
    run = explained_run(FIXTURES / "pairs" / "pad_to_multiple")
    place = replace(run.problems[0].place, tensors=(Tensor("shape", "weight", role),))
    assert len(notes_of(run, place=place)) == notes


@pytest.mark.parametrize(
    ("other", "notes"), [(("module.blocks.0", "module.head"), 0), (("blocks.1", "module.head"), 1)]
)
def test_blocks_of_a_copy_are_no_other_blocks(other: tuple[str, ...], notes: int) -> None:
    run = explained_run(FIXTURES / "pairs" / "label_dtype")
    told = [
        Evidence(say(*(Tensor(owner, "weight", Role.PARAMETER) for owner in owners)))
        for owners in (("blocks.0", "head"), other)
    ]
    cause = replace(run.problems[0].cause, evidence=tuple(told))
    assert len(notes_of(run, kind=SKIPPED_BLOCK, cause=cause)) == notes


@pytest.mark.parametrize(("line", "notes"), [(15, 1), (16, 2)], ids=["its line", "another line"])
def test_a_size_that_came_early_is_one_of_those_in_turn_at_its_line(line: int, notes: int) -> None:
    run = explained_run(FIXTURES / "pairs" / "pad_to_multiple")
    sizes = replace(run.problems[0], expected=True, meant=Meant.SIZES, steps=(2,))
    own = sizes.place.line
    assert own is not None
    place = replace(sizes.place, line=own._replace(line=own.line + line - 15))
    early = replace(sizes, meant=Meant.EARLY, steps=(1,), place=place)
    verdict = run_verdict(run.run, (sizes, early), run.graphs, 3, 20, 0, began_late=False)
    assert len(verdict.notes) == notes
