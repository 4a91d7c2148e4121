"""Reasons of a run that go back to a statement which runs no operation."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from xlagraph.cause.model import Cause, Evidence
from xlagraph.cause.verdict import Place
from xlagraph.facts.shapes.size_makers import INDICES, REPEATED
from xlagraph.message import SourceLine, say
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.run.records import SettingRecord
from xlagraph.runs.causes.blocks import LAYERDROP_FIX, LAYERDROP_SHORT_FIX
from xlagraph.runs.causes.stated import with_statements
from xlagraph.runs.kinds import CHANGING_UPDATES
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.steps.spent import Spent

USED = SourceLine("t.py", 50, "main")


def graph_of(name, shape):
    """A graph with these inputs."""
    inputs = (*enumerate(shape.split()), (9, "f32[8]"))
    return SimpleNamespace(
        record=SimpleNamespace(digest=name),
        sketch=SimpleNamespace(interface=SimpleNamespace(inputs=inputs)),
    )


def group_of(kind, graphs, line, *, expected=False, cause=None):
    """What is told of these graphs at a line."""
    return CauseGroup(
        kind=kind,
        title=say("title"),
        cause=cause,
        further=(),
        graphs=tuple(graph.record.digest for graph in graphs),
        compiles=len(graphs),
        spent=Spent(()),
        expected=expected,
        proved=True,
        place=Place(line),
    )


def place(kind, shapes, *settings, expected=False, cause=None):
    """The line of a group of graphs, each of which has these inputs."""
    graphs = [graph_of(str(k), shape) for k, shape in enumerate(shapes)]
    group = group_of(kind, graphs, USED, expected=expected, cause=cause)
    run = SimpleNamespace(processes=(SimpleNamespace(settings=settings),))
    (found,) = with_statements([group], run, graphs)
    return found.place.line.line


def collate(line, function="collate"):
    return SettingRecord("t.py", line, function, "padding")


LENGTHS = ("s64[4,7]", "s64[4,9]", "s64[4,12]")


def test_batches_are_padded_to_their_longest():
    assert place(INPUT_SHAPE, LENGTHS, collate(7)) == 7
    assert place(INPUT_SHAPE, LENGTHS, collate(7), collate(8)) == 7  # one function
    assert place(INPUT_SHAPE, ("s64[7,4]", "s64[9,4]", "s64[12,4]"), collate(7)) == 7


@pytest.mark.parametrize(
    ("shapes", "settings"),
    [
        (LENGTHS, ()),
        (LENGTHS, (collate(7), collate(20, "collate_pairs"))),  # one of two
        (LENGTHS[:2], (collate(7),)),  # the last batch of an epoch
        (("f32[4,3,8,8]", "f32[4,3,9,9]", "f32[4,3,12,12]"), (collate(7),)),  # of another scale
        (LENGTHS, (SettingRecord("t.py", 7, "main", "requires_grad"),)),
    ],
)
def test_what_is_not_known_to_come_of_padding_stays_where_it_is_used(shapes, settings):
    assert place(INPUT_SHAPE, shapes, *settings) == USED.line


def test_parameters_are_frozen_in_turn():
    drawn = SettingRecord("t.py", 9, "choose", "requires_grad")
    fixed = SettingRecord("t.py", 3, "main", "requires_grad", "False")
    assert place(CHANGING_UPDATES, LENGTHS, fixed, drawn) == 9
    assert place(CHANGING_UPDATES, LENGTHS, fixed) == USED.line
    assert place(CHANGING_UPDATES, LENGTHS, drawn, expected=True) == USED.line


RAGGED = ("s64[70] s64[2,90]", "s64[77] s64[2,98]", "s64[85] s64[2,99]")


def joined(line, axis="0", function="merge"):
    return SettingRecord("t.py", line, function, "joined", axis)


def test_items_of_any_length_are_joined():
    assert place(INPUT_SHAPE, RAGGED, joined(6), joined(7, "1")) == 6
    assert place(INPUT_SHAPE, RAGGED, joined(6), joined(7, "-1")) == 6
    assert place(INPUT_SHAPE, LENGTHS, collate(3), joined(20)) == 3  # padding is asked first


@pytest.mark.parametrize(
    ("shapes", "settings"),
    [
        (RAGGED, (joined(6),)),  # edges are joined along another axis
        (RAGGED, (joined(6), joined(20, "1", "merge_pairs"))),  # one of two
        (RAGGED[:2], (joined(6), joined(7, "1"))),  # the last batch of an epoch
        (LENGTHS, (joined(6),)),  # a longer sequence, not more rows
    ],
)
def test_what_is_not_known_to_come_of_joining_stays_where_it_is_used(shapes, settings):
    assert place(INPUT_SHAPE, shapes, *settings) == USED.line


def test_what_makes_the_sizes_on_the_device_comes_before_what_is_joined():
    cause = SimpleNamespace(short=say("the number of elements that a mask keeps changes"))
    assert place(INPUT_SHAPE, RAGGED, joined(6), joined(7, "1"), cause=cause) == USED.line


def test_a_number_of_indices_may_come_of_what_is_joined():
    cause = Cause(
        kind=INPUT_SHAPE,
        title=say("title"),
        evidence=(),
        fix=say(INDICES.fix),
        proof=say(),
        expected=False,
        proved=True,
        share=1.0,
        a=frozenset(),
        b=frozenset(),
        short=INDICES.short,
    )
    assert place(INPUT_SHAPE, RAGGED, joined(6), joined(7, "1"), cause=cause) == 6


def test_what_pads_the_rows_that_counts_ask_for_is_no_host_padding():
    cause = SimpleNamespace(short=REPEATED.short)
    assert place(INPUT_SHAPE, LENGTHS, collate(7), cause=cause) == USED.line


KEPT = ("s64[5] s64[4,9]", "s64[4] s64[4,7]", "s64[3] s64[4,12]", "s64[2] s64[4,8]")


@pytest.mark.parametrize(
    ("shapes", "title", "line"),
    [
        (KEPT, "input 1 (s64[5]) became s64[4]", 50),
        (KEPT, "input 1 (s64[4,7]) became s64[4,9]", 7),  # no list is cited
        ([f"s64[{k}] s64[4,{2 * k}]" for k in (3, 4, 5, 6)], "input 1 (s64[3]) became s64[4]", 7),
    ],
    ids=["of its own", "padded", "as long as what is padded"],
)
def test_a_list_of_indices_beside_what_is_padded_may_have_a_length_of_its_own(shapes, title, line):
    graphs = [graph_of(str(k), shape) for k, shape in enumerate(shapes)]
    evidence = Evidence(say(title), (), (), ())
    cause = Cause(
        kind=INPUT_SHAPE, title=say(title), evidence=(evidence,), fix=say(), proof=say(),
        proved=True, share=1.0, a=frozenset(), b=frozenset(), place=Place(USED), expected=False,
    )  # fmt: skip
    group = group_of(INPUT_SHAPE, graphs, USED, cause=cause)
    run = SimpleNamespace(processes=(SimpleNamespace(settings=(collate(7),)),))
    (found,) = with_statements([group], run, graphs)
    assert found.place.line.line == line
    assert (found.cause.short == INDICES.short) == (line == USED.line)


def test_what_one_statement_joins_is_one_cause_wherever_it_is_felt():
    graphs = [graph_of(str(k), f"s64[{k + 70}] s64[{2 * k + 90}]") for k in range(9)]
    lines = [SourceLine("t.py", k, "forward") for k in (30, 40, 50)]
    nodes = graphs[:4], graphs[4:7], graphs[7:]
    groups = [group_of(INPUT_SHAPE, *one) for one in zip(nodes, lines, strict=True)]
    run = SimpleNamespace(processes=(SimpleNamespace(settings=(joined(6),)),))
    first, *rest = with_statements(groups, run, graphs)
    assert (first.place.line.line, first.compiles, len(first.graphs)) == (6, 7, 7)
    assert [(one.place.line.line, one.compiles) for one in rest] == [(50, 2)]  # too few to tell


CUT = SettingRecord("t.py", 11, "windows", "cut")


def test_batches_are_cut_to_a_length_that_is_drawn():
    assert place(INPUT_SHAPE, LENGTHS, CUT) == 11
    assert place(INPUT_SHAPE, LENGTHS, CUT, collate(3)) == 3  # padding is asked first


@pytest.mark.parametrize(
    ("shapes", "settings"),
    [
        (LENGTHS, (CUT, SettingRecord("t.py", 30, "crop", "cut"))),  # one of two
        (LENGTHS[:2], (CUT,)),  # the last batch of an epoch
        (("f32[4,3,8,8]", "f32[4,3,9,9]", "f32[4,3,12,12]"), (CUT,)),  # of another scale
    ],
)
def test_what_is_not_known_to_be_cut_stays_where_it_is_used(shapes, settings):
    assert place(INPUT_SHAPE, shapes, *settings) == USED.line


def test_what_makes_the_sizes_on_the_device_comes_before_what_is_cut():
    cause = SimpleNamespace(short=say("the number of elements that a mask keeps changes"))
    assert place(INPUT_SHAPE, LENGTHS, CUT, cause=cause) == USED.line


def layerdrop(line, value, function="build"):
    return SettingRecord("t.py", line, function, "layerdrop", value)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ([layerdrop(7, "0.2"), layerdrop(8, "0.1")], 7),
        ([layerdrop(7, "")], 7),
        ([layerdrop(7, "0.0")], USED.line),
        ([layerdrop(7, "0.2"), layerdrop(30, "0.2", "build_other")], USED.line),
    ],
    ids=["two", "computed", "off", "of two models"],
)
def test_layers_that_a_library_leaves_out_go_back_to_its_option(settings, line):
    graphs = [graph_of("0", "f32[4]")]
    run = SimpleNamespace(processes=(SimpleNamespace(settings=settings),))
    (found,) = with_statements([group_of(SKIPPED_BLOCK, graphs, USED)], run, graphs)
    assert found.place.line.line == line
    assert str(found.fix_in_short).startswith("Set it to 0" if line == 7 else "Run every block")


MODEL = SourceLine("/lib/site-packages/transformers/models/wav2vec2/modeling_wav2vec2.py", 692, "f")


def configured(name, line=7):
    return SettingRecord("t.py", line, "build", "configuration", name)


def _in_model(group, function):
    stack = (MODEL._replace(function=function), USED)
    return replace(group, place=Place(USED, stack))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ([configured("Wav2Vec2Config")], 7),
        ([configured("HubertConfig")], USED.line),
        ([configured("Wav2Vec2Config"), configured("Wav2Vec2Config", 30)], USED.line),
    ],
    ids=["its own", "another model's", "two of them"],
)
def test_what_a_model_does_by_default_goes_back_to_its_configuration(settings, line):
    graphs = [graph_of("0", "f32[4]")]
    run = SimpleNamespace(processes=(SimpleNamespace(settings=settings),))
    dropped = _in_model(group_of(SKIPPED_BLOCK, graphs, USED), "forward")
    dropped = replace(dropped, mend=(LAYERDROP_FIX, LAYERDROP_SHORT_FIX))
    (found,) = with_statements([dropped], run, graphs)
    assert found.place.line.line == line
    assert "layerdrop" in str(found.fix_in_short)
    told = (INPUT_SHAPE, say("rows of a mask"), (), say("Keep all"), 1.0)
    none = frozenset[int]()
    cause = Cause(*told, proved=True, proof=say(""), expected=False, a=none, b=none)
    masked = _in_model(group_of(INPUT_SHAPE, graphs, USED, cause=cause), "_mask_hidden_states")
    (found,) = with_statements([masked], run, graphs)
    assert found.place.line.line == line
    assert ("apply_spec_augment" in str(found.fix_in_short)) is (line == 7)
    (found,) = with_statements([group_of(SKIPPED_BLOCK, graphs, USED)], run, graphs)
    assert found.place.line == USED
