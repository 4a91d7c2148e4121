"""Graphs that differ in an order that Python shuffles, told by their causes and the text."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from xlagraph.cause.kinds import Kind
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import EMPTY, Message, SourceLine
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.order.rewired_operations import CONNECTED
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_SIZE
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT
from xlagraph.runs.causes.shuffled import in_drawn_order, shuffled, shuffled_beside

FILE = "t.py"
TEXT = """def project(self, parts):
    others = list(parts)
    {shuffle}
    total = 0
    for part in {through}:
        total = total + self.scale * part
    return total
"""


SUM = """def scale(part):
    return 2 * part
def main():
    for step in range(9):
        {pick}
        loss = sum(scale(part) for part in {through})
        torch_xla.sync()
"""


def told(text: str, kind=OTHER_OPERAND, number: int = 3, line: int = 6):
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))})
    at = SourceLine(FILE, line, "project")
    cause = SimpleNamespace(kind=kind, title="", proved=False, place=Place(at, (at,)), evidence=())
    causes = [(SimpleNamespace(digest=str(k)), cause) for k in range(number)]
    found = shuffled(causes, program)
    return found["0"].shuffle.line if found else None


@pytest.mark.parametrize(
    ("shuffle", "through", "line"),
    [
        ("random.shuffle(others)", "others", 3),
        ("rng.shuffle(others)", "enumerate(others)", 3),
        ("others = random.sample(others, len(others))", "others", 3),
        ("others = torch.randperm(4).tolist()", "others", 3),
        ("others.sort(key=self.load)", "others", 3),
        ("pass", "sorted(others, key=self.load)", 5),
    ],
)
def test_what_a_loop_goes_through_is_shuffled(shuffle, through, line):
    assert told(TEXT.format(shuffle=shuffle, through=through)) == line


@pytest.mark.parametrize(
    ("shuffle", "through"),
    [
        ("random.shuffle(names)", "others"),  # another list
        ("others.sort()", "others"),
        ("random.shuffle(others)", "sorted(parts)"),
    ],
)
def test_another_list_is_shuffled_or_none(shuffle, through):
    assert told(TEXT.format(shuffle=shuffle, through=through)) is None


def test_only_an_order_that_keeps_coming_is_told():
    text = TEXT.format(shuffle="random.shuffle(others)", through="others")
    assert told(text, REORDERED_OPERANDS) == 3
    assert told(text, number=2) is None
    assert told(text, ADDED_INPUT) is None
    assert told(text, line=4) is None  # outside of the loop


def told_of_sum(text: str, kind, loops=()):
    """Of a function that a comprehension calls."""
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))}, frozenset(loops))
    at = SourceLine(FILE, 2, "scale")
    place = Place(at, (at, SourceLine(FILE, 6, "main")))
    cause = SimpleNamespace(kind=kind, title="", proved=False, place=place, evidence=())
    found = shuffled([(SimpleNamespace(digest=str(k)), cause) for k in range(3)], program)
    return (found["0"].shuffle.line, found["0"].is_picked) if found else None


CALLED = """def project(self, parts):
    random.shuffle(parts)
    for part in parts:
        total = dot(total, part)
    return total
def backward(self, parts):
    parts = grads(parts)
    return self.project(parts)
"""


def exchanged(name: str, *lines: int, place: int = 8):
    """A graph that takes other values on these lines, told where the function is called."""
    here = [
        SimpleNamespace(sources=(SourceLine(FILE, line, "project" if line < 6 else "backward"),))
        for line in lines
    ]
    at = SourceLine(FILE, place, "project" if place < 6 else "backward")
    node = SimpleNamespace(digest=name)
    return node, SimpleNamespace(
        kind=OTHER_OPERAND, title="", proved=True, place=Place(at, (at,)), evidence=here
    )


@pytest.mark.parametrize(
    ("lines", "is_of_order"),
    [((8, 4, 4), True), ((4, 4), True), ((8, 7, 4), False), ((7,), False), ((), False)],
)
def test_what_is_told_where_the_function_is_called_goes_back_to_its_loop(lines, is_of_order):
    program = ProgramText({FILE: dict(enumerate(CALLED.splitlines(), 1))})
    direct = [exchanged(name, 4, place=4) for name in "abc"]
    found = shuffled([*direct, exchanged("d", *lines)], program)
    assert set(found) == {*"abc", *"d" * is_of_order}
    assert not shuffled([exchanged(name, *lines) for name in "abc"], program)


@pytest.mark.parametrize("kind", [REORDERED_SUM, EXTRA_SUBGRAPH, ACCUMULATION_COUNT])
def test_some_of_a_list_are_drawn(kind):
    assert told_of_sum(SUM.format(pick="pass", through="rng.sample(PARTS, 2)"), kind) == (6, True)


def test_a_sample_of_as_many_as_there_are_is_an_order():
    for through in ("rng.sample(PARTS, len(PARTS))", "rng.sample(sorted(PARTS), k=len(PARTS))"):
        text = SUM.format(pick="pass", through=through)
        assert told_of_sum(text, REORDERED_SUM) == (6, False)
        assert told_of_sum(text, EXTRA_SUBGRAPH) is None
    fewer = SUM.format(pick="pass", through="rng.sample(PARTS, len(PARTS) - 1)")
    assert told_of_sum(fewer, REORDERED_SUM) == (6, True)


@pytest.mark.parametrize(
    ("pick", "through", "kind"),
    [
        ("random.shuffle(parts)", "parts", EXTRA_SUBGRAPH),  # of all of them none is missing
        ("pass", "PARTS", REORDERED_SUM),
    ],
)
def test_an_order_leaves_out_nothing(pick, through, kind):
    assert told_of_sum(SUM.format(pick=pick, through=through), kind) is None


def test_the_order_of_the_data_is_no_order_within_a_step():
    text = """def main():
    random.shuffle(files)
    for file in files:
        total = total + part
        torch_xla.sync()
"""
    lines = {FILE: dict(enumerate(text.splitlines(), 1))}
    at = SourceLine(FILE, 4, "main")
    cause = SimpleNamespace(
        kind=OTHER_OPERAND, title="", proved=True, place=Place(at, (at,)), evidence=()
    )
    causes = [(SimpleNamespace(digest=str(k)), cause) for k in range(3)]
    assert shuffled(causes, ProgramText(lines))
    assert not shuffled(causes, ProgramText(lines, frozenset({(FILE, 3)})))


@pytest.mark.parametrize(
    ("shuffle", "through", "is_drawn"),
    [
        ("random.shuffle(others)", "others", True),
        ("others.sort(key=self.load)", "others", False),  # may be meant: few orders, in a rhythm
        ("pass", "others", False),
    ],
)
def test_an_order_that_is_drawn_is_never_meant(shuffle, through, is_drawn):
    text = TEXT.format(shuffle=shuffle, through=through)
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))})
    at = SourceLine(FILE, 6, "project")
    cause = SimpleNamespace(
        kind=OTHER_OPERAND, title="", proved=True, place=Place(at, (at,)), evidence=()
    )
    outcome = SimpleNamespace(causes=[cause])
    nodes = [
        SimpleNamespace(digest=str(k), warm_up=k == 0, explanation=outcome if k else None)
        for k in range(4)
    ]
    assert in_drawn_order(nodes, program) == ({"1", "2", "3"} if is_drawn else set())
    assert in_drawn_order(nodes[:3], program) == set()


@pytest.mark.parametrize(
    ("shuffle", "kind", "proved", "number", "is_told"),
    [
        ("others = random.sample(others, 2)", ATTRIBUTE, False, 3, True),
        ("others = random.sample(others, 2)", PYTHON_SIZE, False, 3, True),
        ("others = random.sample(others, 2)", LIVE_TENSOR, False, 3, True),
        ("others = random.sample(others, 2)", OUTPUT_ORDER, True, 3, True),
        ("random.shuffle(others)", OUTPUT_ORDER, True, 3, True),
        ("others = random.sample(others, 2)", ATTRIBUTE, True, 3, False),
        ("random.shuffle(others)", PYTHON_SIZE, False, 3, False),
        ("others = random.sample(others, 2)", ADDED_INPUT, False, 3, False),
        ("others = random.sample(others, 2)", ATTRIBUTE, False, 2, False),
    ],
    ids=[
        "attribute", "size", "live", "outputs", "outputs-shuffled",
        "proved", "all are computed", "inputs", "seldom",
    ],
)  # fmt: skip
def test_items_of_other_shapes_look_like_other_causes(shuffle, kind, proved, number, is_told):
    text = TEXT.format(shuffle=shuffle, through="others")
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))})
    at = SourceLine(FILE, 6, "project")
    kinds = [(OTHER_OPERAND, True)] * number + [(kind, proved)]
    causes = [
        (
            SimpleNamespace(digest=str(k)),
            SimpleNamespace(kind=one, title="", proved=sure, place=Place(at), evidence=()),
        )
        for k, (one, sure) in enumerate(kinds)
    ]
    assert (str(number) in shuffled(causes, program)) is is_told


GIVEN = """def main():
    for step in range(20):
        for task, x in {through}:
            loss = model(x)
            loss.backward()
        optimizer.step()
"""


def _of_order(kind, line: int, title: str = ""):
    at = SourceLine(FILE, line, "main")
    return SimpleNamespace(kind=kind, title=title, proved=True, place=Place(at, (at,)), evidence=())


@pytest.mark.parametrize(
    ("through", "is_told"),
    [
        ("mixer.round()", True),
        ("draw(tasks)", True),
        ("tasks", False),
        ("zip(names, batches)", False),
        ("tasks.items()", False),
        ("batch.split(4)", False),
    ],
)
def test_sums_in_another_order_tell_of_what_gives_their_terms(through, is_told):
    text = GIVEN.format(through=through)
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))}, frozenset({(FILE, 2)}))
    nodes = [SimpleNamespace(digest=str(k)) for k in range(5)]
    sums = [(node, _of_order(REORDERED_SUM, 4)) for node in nodes[:3]]
    wires = (nodes[3], _of_order(OTHER_OPERAND, 6, f"{CONNECTED} at line 6"))
    piece = (nodes[4], _of_order(OTHER_OPERAND, 6, "a piece was added"))
    found = shuffled([*sums, wires, piece], program)
    assert set(found) == ({"0", "1", "2", "3"} if is_told else set())
    assert {one.shuffle.line for one in found.values()} == ({3} if is_told else set())


def test_what_gives_terms_in_the_order_of_steps_is_no_shuffle():
    text = GIVEN.format(through="mixer.round()")
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))}, frozenset({(FILE, 3)}))
    nodes = [SimpleNamespace(digest=str(k)) for k in range(3)]
    assert not shuffled([(node, _of_order(REORDERED_SUM, 4)) for node in nodes], program)


@dataclass(frozen=True)
class Said:
    """As much of a cause as an order is told by."""

    kind: Kind
    place: Place
    title: str = ""
    proved: bool = False
    evidence: tuple[()] = ()
    fix: Message = EMPTY
    short: Message = EMPTY
    short_fix: Message = EMPTY


@pytest.mark.parametrize(
    ("shuffle", "kind", "number", "is_told"),
    [
        ("random.shuffle(others)", REORDERED_OPERANDS, 3, True),
        ("random.shuffle(others)", REORDERED_OPERANDS, 2, False),
        ("random.shuffle(others)", PYTHON_SIZE, 3, False),
        ("pass", REORDERED_OPERANDS, 3, False),
    ],
    ids=["shuffled", "seldom", "a size", "in one order"],
)
def test_an_order_is_told_beside_a_number_that_changes(shuffle, kind, number, is_told):
    text = TEXT.format(shuffle=shuffle, through="others")
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))})
    at = SourceLine(FILE, 6, "project")
    nodes = [SimpleNamespace(digest=str(k)) for k in range(9)]
    causes = [(node, Said(kind, Place(at, (at,)))) for node in nodes[:number]]
    found = shuffled_beside(causes, nodes, program)
    assert [one.place.line.line for one in found] == [3] * is_told
    assert [str(one.short) for one in found] == [
        "Python shuffles the order of operations"
    ] * is_told
