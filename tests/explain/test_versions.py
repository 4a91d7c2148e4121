"""Two versions of a program: what each computes, and a fix that speaks of no steps."""

from __future__ import annotations

import pytest

from xlagraph.cause.kinds import Kind
from xlagraph.cause.model import Cause, Context
from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.explain.versions import of_a_pair
from xlagraph.hlo import read_module
from xlagraph.message import say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT

SHARED = 8
"""Operations that both have before what differs, each on a line of its own."""


def module(piece, taken, file="a.py", moved=0):
    """A module that computes `taken` of n and g by a piece, with lines of a file."""

    def at(line):
        return f'metadata={{op_name="f" source_file="{file}" source_line={line + moved}}}'

    shared = [
        f"e{k} = f32[4] tanh({'p0' if k == 0 else f'e{k - 1}'}), {at(k + 1)}" for k in range(SHARED)
    ]
    lines = [
        "p0 = f32[4] parameter(0)",
        "n0 = f32[4] parameter(1)",
        *shared,
        f"n = f32[4] exponential(n0), {at(20)}",
        "eps = f32[] constant(0.001)",
        "e = f32[4] broadcast(eps), dimensions={}",
        *(f"{line}, {at(30 + k)}" for k, line in enumerate(piece.splitlines())),
        f"q = f32[4] divide(e{SHARED - 1}, {taken}), {at(38)}",
        f"ROOT r = f32[4] sine(q), {at(40)}",
    ]
    return read_module("HloModule m\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n")


OUTSIDE = ("s = f32[4] sqrt(n)\nd = f32[4] add(s, e)", "d")
INSIDE = ("d = f32[4] add(n, e)\ns = f32[4] sqrt(d)", "s")


@pytest.mark.parametrize(("file", "moved"), [("b.py", 0), ("a.py", 3)])
def test_two_versions_are_told_by_formulas_and_not_as_steps(file, moved):
    explanation = explain_modules(module(*OUTSIDE), module(*INSIDE, file, moved))
    assert explanation.proved
    (cause,) = explanation.causes
    assert cause.kind.id == "replaced-subgraph"
    assert "x / (sqrt(y) + 0.001) became x / sqrt(y + 0.001)" in str(explanation.verdict.what)
    assert "where x is tanh f32[4], y is exponential f32[4]" in str(cause.evidence[0].text)
    said = " ".join(map(str, (explanation.verdict, cause.fix)))
    assert "two versions" in said
    assert "steps" not in said
    assert "torch.where" not in said


def test_where_nothing_tells_versions_from_steps_the_words_fit_both():
    (cause,) = explain_modules(module(*OUTSIDE), module(*INSIDE)).causes
    assert "torch.where" in str(cause.fix)
    assert "If these are two versions" in str(cause.fix)
    assert str(cause.fix_in_short) == "Do the same work in every step, or keep one version."


def test_what_one_run_captured_is_of_one_program():
    captured = Context(key={"graph_hash": "1"})
    moved = module(*INSIDE, moved=3)
    (cause,) = explain_modules(module(*OUTSIDE), moved, captured, captured).causes
    said = (cause.fix, cause.short, cause.fix_in_short)
    assert "version" not in " ".join(map(str, said))


def test_one_line_elsewhere_is_another_call_and_no_other_version():
    text = "HloModule m\nENTRY main {{\n  p = f32[4] parameter(0)\n{}\n}}\n"
    sides = [
        text.format(
            f'  t = f32[4] tanh(p), metadata={{source_file="a.py" source_line={line}}}\n'
            f"  ROOT r = f32[4] {last}(t)"
        )
        for line, last in ((1, "exponential"), (9, "cosine"))
    ]
    (cause,) = explain_modules(*map(read_module, sides)).causes
    assert "two versions of the program differ" not in str(cause.fix)


def test_pieces_of_both_sides_that_do_not_touch_stay_two_changes():
    chain = "u = f32[4] sine({})\nv = f32[4] tanh(u)\nw = f32[4] cosine(v)"
    first = module("c = f32[4] ceil(n)\n" + chain.format("c"), "w")
    other = module(chain.format("n") + "\nk = f32[4] floor(w)", "k")
    explanation = explain_modules(first, other)
    assert explanation.proved
    assert [cause.kind.id for cause in explanation.causes] == ["extra-subgraph"] * 2


OPTION = """HloModule m

ENTRY main {{
  x = f32[4] parameter(0)
  n = f32[] constant({number})
  c = f32[4] broadcast(n), dimensions={{}}
  m = pred[4] compare(x, c), direction={direction}
  ROOT r = f32[4] select(m, x, c)
}}
"""


def said(context: Context | None = None, **changed: str) -> str:
    first = {"number": "-1e30", "direction": "LE"}
    texts = [OPTION.format(**kept) for kept in (first, first | changed)]
    a, b = (read_module(text, "m") for text in texts)
    explanation = explain_modules(a, b, context, context)
    assert explanation.proved
    return str(explanation.verdict.what)


def test_an_option_and_a_number_are_told_with_both_values():
    assert said(direction="LT") == "A comparison is another one: x <= y became x < y."
    assert said(number="0") == "A number baked into the graph: -1e30 became 0."


def test_of_steps_of_one_run_the_next_values_are_others():
    run = Context(key={"graph_hash": "1"})
    assert said(run, direction="LT").startswith("An operation has other options")
    assert said(run, number="0").startswith("A number baked into the graph changed")


GROUPED = """HloModule m

sum {{
  i = f32[] parameter(0)
  j = f32[] parameter(1)
  ROOT s = f32[] add(i, j)
}}

ENTRY main {{
  x = f32[4,6] parameter(0)
  w = f32[2,5] parameter(1)
  zero = f32[] constant(0)
  t = f32[4,6] tanh(x), metadata={{source_file="{file}" source_line=1}}
{piece}
}}
"""


def versions_of(first: str, other: str):
    sides = [
        read_module(GROUPED.format(file=file, piece=piece))
        for file, piece in (("a.py", first), ("b.py", other))
    ]
    return explain_modules(*sides)


def groups(shape: str, rows: int, file: str) -> str:
    return f"""  g = {shape} reshape(t), metadata={{source_file="{file}" source_line=2}}
  n = {shape} exponential(g)
  k = f32[{rows}] reduce(n, zero), dimensions={{1}}, to_apply=sum
  z = f32[] reduce(k, zero), dimensions={{0}}, to_apply=sum
  ROOT r = f32[] sqrt(z)"""


def test_other_groups_of_the_same_values_are_told_as_such():
    explanation = versions_of(groups("f32[8,3]", 8, "a.py"), groups("f32[2,12]", 2, "b.py"))
    assert explanation.proved
    what = "Values are divided into other groups: f32[8,3] became f32[2,12]."
    assert str(explanation.verdict.what) == what
    assert "b.py:2" in str(explanation.verdict.where)
    assert "mask" not in str(explanation.verdict.fix)


def test_a_size_that_python_computes_stays_one():
    piece = """  c = f32[{n}] broadcast(zero), dimensions={{}}
  e = f32[{n}] cosine(c)
  z = f32[] reduce(e, zero), dimensions={{0}}, to_apply=sum
  y = f32[4,6] broadcast(z), dimensions={{}}
  ROOT r = f32[4,6] add(t, y)"""
    explanation = versions_of(piece.format(n=3), piece.format(n=5))
    assert explanation.proved
    assert str(explanation.verdict.what).startswith("A tensor made in the step changed size")


def test_the_option_that_makes_a_size_is_told_with_both_values():
    piece = """  c = f32[{n}] reduce(t, zero), dimensions={{{d}}}, to_apply=sum
  e = f32[{n}] cosine(c)
  z = f32[] reduce(e, zero), dimensions={{0}}, to_apply=sum
  ROOT r = f32[] sqrt(z)"""
    explanation = versions_of(piece.format(n=4, d=1), piece.format(n=6, d=0))
    assert explanation.proved
    assert str(explanation.verdict.what).startswith("Sum's dimensions")
    assert "{1}" in str(explanation.verdict.what)
    assert "{0}" in str(explanation.verdict.what)


def test_another_axis_comes_before_how_it_is_spread_again():
    piece = """  s = f32[4,4] dot(t, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  c = f32[4] reduce(s, zero), dimensions={{{d}}}, to_apply=sum
  e = f32[4,4] broadcast(c), dimensions={{{k}}}
  ROOT r = f32[4,4] divide(s, e)"""
    explanation = versions_of(piece.format(d=1, k=0), piece.format(d=0, k=1))
    assert explanation.proved
    assert str(explanation.verdict.what).startswith("Sum of f32[4,4] runs over axis 1 in ")


def test_how_a_value_is_spread_is_told_where_nothing_else_differs():
    piece = """  c = f32[4] constant({{1,2,3,4}})
  e = f32[4,4] broadcast(c), dimensions={{{k}}}
  s = f32[4,4] dot(t, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT r = f32[4,4] divide(s, e)"""
    explanation = versions_of(piece.format(k=0), piece.format(k=1))
    assert explanation.proved
    assert str(explanation.verdict.what) == "Broadcast's dimensions: {0} became {1}."


def cause_of(kind: Kind) -> Cause:
    none = frozenset[int]()
    return Cause(
        kind=kind,
        title=say(kind.title),
        evidence=(),
        fix=say(kind.fix),
        share=0.5,
        proved=True,
        proof=say(),
        expected=False,
        a=none,
        b=none,
    )


def first_words(*kinds: Kind, file: str = "b.py") -> list[str]:
    """What is said in short of causes of these kinds, of versions or of one program."""
    diff = diff_modules(module(*OUTSIDE), module(*INSIDE, file))
    told = of_a_pair(diff, tuple(map(cause_of, kinds)), (Context(), Context()))
    return [str(cause.in_short) for cause in told]


def test_a_number_of_passes_follows_from_an_edit_that_is_told():
    passes, piece = first_words(ACCUMULATION_COUNT), first_words(EXTRA_SUBGRAPH)
    assert first_words(ACCUMULATION_COUNT, EXTRA_SUBGRAPH) == piece + passes
    of_one = first_words(ACCUMULATION_COUNT, EXTRA_SUBGRAPH, file="a.py")
    assert of_one[0].startswith("Some steps compute more passes")


def test_state_of_one_version_alone_does_not_come_into_being():
    assert "has weights or optimizer state" in first_words(OPTIMIZER_STATE)[0]
    assert "came into being" in first_words(OPTIMIZER_STATE, file="a.py")[0]
