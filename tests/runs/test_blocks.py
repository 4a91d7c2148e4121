"""Blocks that some steps leave out are told where it is decided which of them run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.runs.causes import blocks
from xlagraph.runs.causes.blocks import Skipped, block_groups, drawn_again
from xlagraph.runs.model import Meant
from xlagraph.runs.steps.spent import Spent

LOSSES = """\
def task_loss(kind, output, target):
    if kind == "ordinal":
        return F.cross_entropy(output, target)
    return F.mse_loss(output, target)
def train():
    for batch in stream:
        losses = {t: task_loss(kinds[t], outputs[t], labels[t]) for t in labels}
        xm.mark_step()
"""
ONE_LINE = """\
def head_loss(head, h, y):
    return F.mse_loss(head(h), y)
def train():
    for batch in stream:
        for name, head in heads.items():
            if name in labels:
                total = total + head_loss(head, h, labels[name])
        xm.mark_step()
"""
OWN_CONDITION = """\
def forward(x):
    if self.index in self.left_out:
        return x
    return x + self.layer(x)
def train():
    for batch in stream:
        for block in blocks:
            x = block(x)
        xm.mark_step()
"""
BOTH_LINES = """\
def forward(x):
    if self.index not in self.left_out:
        y = self.up(x)
        x = x + self.down(y)
def train():
    for batch in stream:
        for block in blocks:
            x = block(x)
        xm.mark_step()
"""
STEPS = """\
def head_loss(head, h, y):
    return F.mse_loss(head(h), y)
def train():
    for name in stream:
        total = head_loss(heads[name], h, labels[name])
        xm.mark_step()
"""
DRAWN = """\
def forward(x):
    for layer in self.layers:
        if random.random() < self.kept:
            x = layer(x)
def train():
    for batch in stream:
        y = forward(x)
        xm.mark_step()
"""


def line_said(text, loop, *stacks, function="train", kind=ADDED_INPUT):
    """The line that is told of graphs whose blocks have these frames: line and function."""
    frames = [tuple(SourceLine("t.py", *one) for one in stack) for stack in stacks]
    nodes = [
        SimpleNamespace(
            digest=str(k),
            explanation=SimpleNamespace(
                causes=(SimpleNamespace(kind=kind, place=Place(stack[0], stack)),)
            ),
            compiles=1,
            spent=Spent(()),
            call_site=SourceLine("t.py", text.count("\n"), function),
        )
        for k, stack in enumerate(frames)
    ]
    lines = dict(enumerate(text.splitlines(), 1))
    program = ProgramText({"t.py": lines}, frozenset({("t.py", loop)}))
    skipped = Skipped(frozenset(node.digest for node in nodes), SKIPPED_BLOCK, ("a", "b"))
    (group,) = block_groups([skipped], nodes, program)
    assert not group.place.stack or group.place.stack[0] == group.place.line
    return group.place.line.line, group.place.line.function


CALL = ((7, "<dictcomp>"), (7, "train"))


def test_blocks_that_return_at_lines_of_their_own_are_told_where_the_function_is_called():
    stacks = [((3, "task_loss"), *CALL), ((4, "task_loss"), *CALL)]
    assert line_said(LOSSES, 6, *stacks) == (7, "train")


def test_a_call_in_a_loop_is_told_with_its_condition():
    assert line_said(ONE_LINE, 4, ((2, "head_loss"), (7, "train"))) == (6, "train")


GUARDED = """\
def train():
    for batch in stream:
        for name in names:
            if name not in batch["present"]:
                continue
            # its own head
            y = heads[name](h)
        xm.mark_step()
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GUARDED, 4),
        (GUARDED.replace(":\n                continue", ": continue\n"), 4),
        (GUARDED.replace("# its own head", "if skip: continue"), 7),  # any of two
        (GUARDED.replace("continue", "count += 1"), 7),
        (GUARDED.replace("# its own head", "for part in name:\n                pass"), 4),
    ],
)
def test_a_condition_that_goes_on_with_the_next_block_is_told(text, line):
    at = next(k for k, one in enumerate(text.splitlines(), 1) if "heads[" in one)
    assert line_said(text, 2, ((at, "train"),)) == (line if line == 4 else at, "train")


@pytest.mark.parametrize(
    ("text", "stacks"),
    [
        (LOSSES, [((3, "task_loss"), *CALL)]),  # its own condition may decide
        (OWN_CONDITION, [((4, "forward"), (8, "train"))]),
        (BOTH_LINES, [((3, "forward"), (8, "train")), ((4, "forward"), (8, "train"))]),
    ],
)
def test_a_condition_nearer_to_the_block_may_decide(text, stacks):
    assert line_said(text, 6, *stacks) == stacks[0][0]


def test_the_loop_in_which_steps_end_runs_no_block_a_turn():
    assert line_said(STEPS, 4, ((2, "head_loss"), (5, "train"))) == (2, "head_loss")


def test_what_lies_around_the_function_that_ends_the_step_is_no_loop_of_blocks():
    stack = (2, "head_loss"), (5, "train")
    assert line_said(STEPS, 0, stack, function="head_loss") == (2, "head_loss")
    assert line_said(STEPS, 0, stack) == (5, "train")


def test_a_draw_is_told_before_the_call():
    assert line_said(DRAWN, 6, ((4, "forward"), (7, "train"))) == (3, "forward")


def test_the_draw_around_a_piece_is_told_where_no_input_is_missing():
    """An optimizer takes the weights in although their block did not run."""
    stack = (4, "forward"), (7, "train")
    assert line_said(DRAWN, 6, stack, kind=EXTRA_SUBGRAPH) == (3, "forward")
    undrawn = DRAWN.replace("random.random() < self.kept", "layer in self.kept")
    assert line_said(undrawn, 6, stack, kind=EXTRA_SUBGRAPH) == (8, "train"), "the step's end"


def test_blocks_of_which_no_line_is_known_are_told_where_the_step_ends():
    node = SimpleNamespace(
        digest="0",
        explanation=SimpleNamespace(causes=()),
        compiles=1,
        spent=Spent(()),
        call_site=SourceLine("t.py", 4, "forward"),
    )
    program = ProgramText({"t.py": dict(enumerate(DRAWN.splitlines(), 1))}, frozenset())
    (group,) = block_groups([Skipped(frozenset("0"), SKIPPED_BLOCK, ("a",))], [node], program)
    assert group.place.line == node.call_site


LIBRARY = "/env/site-packages/transformers/models/bart/modeling_bart.py"
LAYERS = """\
for layer in self.layers:
    if not to_drop:
        x = layer(x)
"""


@pytest.mark.parametrize(
    ("text", "path", "file", "is_told"),
    [
        (LAYERS, "model.encoder.layers.1", LIBRARY, True),
        (LAYERS.replace("if not to_drop:", "    continue\n"), "encoder.layers.1", LIBRARY, True),
        (
            LAYERS.replace("        x", "        # all of them\n        x"),
            "layers.1",
            LIBRARY,
            True,
        ),
        (LAYERS.replace("if not to_drop:", "else:"), "encoder.layers.1", LIBRARY, False),
        (LAYERS, "model.layers.1.mlp.experts.3", LIBRARY, False),
        (LAYERS, "model.encoder.layers.1", "/env/site-packages/other/models/bart.py", False),
    ],
)
def test_layers_that_a_model_of_transformers_leaves_out_are_mended_in_its_configuration(
    text, path, file, is_told
):
    lines = dict(enumerate(text.splitlines(), 1))
    called = SourceLine(file, len(lines), "forward")
    own = SourceLine("t.py", 7, "train")
    place = Place(own, (called, own))
    program = ProgramText({file: lines, "t.py": dict(enumerate(DRAWN.splitlines(), 1))})
    skipped = Skipped(frozenset(), SKIPPED_BLOCK, (path,))
    assert blocks._is_layerdrop(skipped, place, program) is is_told


def choices(*kept):
    """Graphs of these choices of blocks, each compared with the first; how each is meant."""
    causes = (SimpleNamespace(kind=ADDED_INPUT),)
    return [
        SimpleNamespace(
            digest=f"{blocks}{k}",
            nearest=f"{kept[0][0]}0",
            explanation=SimpleNamespace(causes=causes),
            warm_up=meant is not Meant.NOT,
            meant=meant,
            begins_reading=False,
        )
        for k, (blocks, meant) in enumerate(kept)
    ]


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ([("ab", Meant.PHASE), ("a", Meant.NOT), ("b", Meant.EARLY)], {"a1", "b2"}),
        ([("ab", Meant.PHASE), ("a", Meant.NOT), ("b", Meant.PHASE)], {"a1"}),
        ([("ab", Meant.PHASE), ("a", Meant.NOT), ("ab", Meant.SETTLED)], {"a1"}),
        ([("ab", Meant.PHASE), ("a", Meant.EARLY), ("b", Meant.SETTLED)], set()),
    ],
    ids=["beside a problem", "a phase", "of the same choice", "all ran again"],
)
def test_choices_that_only_ran_again_belong_to_one_that_is_a_problem(kept, found):
    kind = SimpleNamespace(entails=())
    assert blocks._left_out(choices(*kept), kind, lambda digest: digest[:-1]) == found


@pytest.mark.parametrize(
    ("read", "kind", "step", "found"),
    [
        ("ab", SPECIAL_SCALAR, 1, True),
        ("b", SPECIAL_SCALAR, 1, False),  # another choice
        ("ab", INPUT_SHAPE, 1, False),
        ("ab", SPECIAL_SCALAR, 3, False),  # compared with a later step's graph
    ],
)
def test_the_first_choice_comes_again_with_what_it_made(monkeypatch, read, kind, step, found):
    """A rate that rises from 0 is no cause beside the blocks."""
    causes = (SimpleNamespace(kind=kind, expected=False),)
    common = {"call_site": SourceLine("t.py", 9, "train"), "rank": 0}
    nodes = [
        SimpleNamespace(
            digest="first", nearest="", explanation=None, warm_up=True, step=step, **common
        ),
        SimpleNamespace(digest="other", nearest="first", explanation=None, **common),
        SimpleNamespace(
            digest="again",
            nearest="first",
            explanation=SimpleNamespace(proved=True, causes=causes),
            **common,
        ),
    ]
    weights = {"first": "ab", "other": "b", "again": read}
    known = {digest: SimpleNamespace(read=frozenset(one)) for digest, one in weights.items()}
    monkeypatch.setattr(blocks, "weights_by_digest", lambda _: known)
    skipped = Skipped(frozenset({"other"}), SKIPPED_BLOCK, ("a",))
    again = drawn_again([skipped], (), nodes, 1)
    assert again == (frozenset({"again"}) if found else frozenset())


def part(digest, step, kind=ADDED_INPUT, **options):
    explained = SimpleNamespace(causes=[SimpleNamespace(kind=kind)] if kind else [])
    known = {"call_site": SourceLine("t.py", 9, "log"), "sync_kind": "value", "warm_up": False}
    known |= {"digest": digest, "step": step, "rank": 0, "explanation": explained}
    node = {"nearest": "", **known}
    return SimpleNamespace(**node | options)


@pytest.mark.parametrize(
    ("changed", "is_part"),
    [
        ({}, True),
        ({"kind": EXTRA_SUBGRAPH}, True),
        ({"step": 9}, False),  # in a step that leaves nothing else out
        ({"kind": INPUT_SHAPE}, False),
        ({"kind": None}, False),
        ({"kind": None, "step": 5, "nearest": "b"}, True),  # the next part of that step
        ({"kind": None, "step": 8, "nearest": "b"}, False),
        ({"sync_kind": "step"}, False),
        ({"warm_up": True}, False),
    ],
)
def test_parts_that_a_read_ends_in_steps_without_a_block_are_of_it(changed, is_part):
    ends = [part(str(step), step, sync_kind="step") for step in (3, 5, 8, 9)]
    skipped = Skipped(frozenset("358"), SKIPPED_BLOCK, ("a",))
    parts = [part("a", 3), part("b", 5), part(**{"digest": "c", "step": 8} | changed)]
    found = blocks._parts(skipped, [*ends, *parts], parts)
    left = frozenset("ab") if {"sync_kind", "warm_up"} & {*changed} else frozenset()
    assert found == (frozenset("abc") if is_part else left)
    beside = part("d", 9, call_site=SourceLine("t.py", 20, "report"))
    assert blocks._parts(skipped, [*ends, *parts, beside], [*parts, beside]) == found
