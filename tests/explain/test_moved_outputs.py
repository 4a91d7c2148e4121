"""Two versions that hand out the same in another order; steps of one program that do."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

FIRST = "r = (f32[4], f32[4]) tuple(s, t)"
OTHER = "r = (f32[4], f32[4]) tuple(t, s)"


def module(root, name="jit_step", file="", names=("", "")):
    """Two layers of one shape in a chain; each is updated."""
    at = f'source_file="{file}" source_line=3' if file else ""
    lines = (
        f'a = f32[4] parameter(0), metadata={{op_name="{names[0]}"}}',
        f'b = f32[4] parameter(1), metadata={{op_name="{names[1]}"}}',
        f'u = f32[4] tanh(a), metadata={{op_name="jit/tanh" {at}}}',
        f'v = f32[4] multiply(u, b), metadata={{op_name="jit/mul" {at}}}',
        f's = f32[4] add(a, v), metadata={{op_name="jit/add" {at}}}',
        f't = f32[4] subtract(b, v), metadata={{op_name="jit/sub" {at}}}',
    )
    body = "".join(f"  {line}\n" for line in lines)
    return read_module(f"HloModule {name}\nENTRY main {{\n{body}  ROOT {root}\n}}\n")


def exchanged(**told):
    """The same chain, where each layer stands in the other's place and keeps its output's."""
    names = ("w['b']", "w['a']")
    return module(OTHER, names=names, **told)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (module(FIRST), module(OTHER, name="jit_learn")),
        (module(FIRST, file="a.py"), module(OTHER, file="b.py")),
        (
            module(FIRST, "SyncTensorsGraph.9", file="a.py"),
            module(OTHER, "SyncTensorsGraph.9", file="b.py"),
        ),
    ],
)
def test_two_versions_may_hand_out_what_they_compute_in_any_order(first, other):
    found = explain_modules(first, other)
    assert found.same
    said = "Same computation: only the order of outputs differs: 2 outputs moved"
    assert str(found.verdict.what).startswith(said)
    assert str(found.causes[0].kind) == "outputs-moved"


@pytest.mark.parametrize(
    ("first", "other", "context"),
    [
        (module(FIRST), module(OTHER), Context(key={"graph_hash": "1"})),
        (module(FIRST), module(OTHER), Context(outputs={0: Tensor("a", "weight", Role.PARAMETER)})),
        (module(FIRST, file="a.py"), module(OTHER, file="a.py"), Context()),
        (module(FIRST), module(OTHER, name="jit_learn"), Context(key={"graph_hash": "1"})),
        (
            module(FIRST, "SyncTensorsGraph.9", file="a.py"),
            module(OTHER, "SyncTensorsGraph.9", file="a.py"),
            Context(),
        ),
    ],
)
def test_steps_of_one_program_compile_again(first, other, context):
    found = explain_modules(first, other, context)
    assert not found.same
    assert [str(cause.kind) for cause in found.causes] == ["output-order"]


@pytest.mark.parametrize("name", ["jit_step", "SyncTensorsGraph.9", "IrToHlo.12"])
def test_where_nothing_tells_versions_from_steps_the_computation_is_the_same(name):
    found = explain_modules(module(FIRST, name), module(OTHER, name))
    (cause,) = found.causes
    said = "The same computation; 2 outputs come in another order."
    assert (found.same, str(found.verdict.what), str(cause.kind)) == (True, said, "outputs-moved")
    assert "XLA compiles each order by itself all the same" in str(found.verdict.notes[0])
    assert "Between two versions of a program: none needed" in str(cause.fix)
    assert "create the tensors in the same order in every step" in str(cause.fix)


def test_lines_of_one_file_may_be_of_steps_and_the_words_fit_both():
    found = explain_modules(module(FIRST, file="a.py"), module(OTHER, file="a.py"))
    (cause,) = found.causes
    said = "The same computation; its outputs come in another order."
    assert (found.same, str(found.verdict.what)) == (False, said)
    assert "Two versions: none needed" in str(found.verdict.fix)
    assert "Between two versions of a program: none needed" in str(cause.fix)


def test_steps_of_one_run_are_told_to_keep_the_order():
    found = explain_modules(module(FIRST), module(OTHER), Context(key={"graph_hash": "1"}))
    assert str(found.verdict.what) == "The same outputs come in another order."
    assert str(found.verdict.fix) == "Create tensors in the same order in every step."


def test_arguments_that_may_have_taken_each_other_s_places_are_not_called_the_same():
    first = module(FIRST, names=("w['a']", "w['b']"))
    assert "same computation" not in str(explain_modules(first, exchanged()).verdict.what)


def test_named_arguments_that_take_each_other_s_places_are_another_computation():
    first = module(FIRST, names=("w['a']", "w['b']"))
    assert not explain_modules(first, exchanged(name="jit_learn")).same
    renamed = module(OTHER, name="jit_learn", names=("p['a']", "p['b']"))
    assert explain_modules(first, renamed).same


def test_another_difference_beside_the_order_stays_one():
    other = module(OTHER, name="jit_learn")
    text = read_module(
        "HloModule jit_learn\nENTRY main {\n  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n"
        "  u = f32[4] cosine(a)\n  v = f32[4] multiply(u, b)\n  s = f32[4] add(a, v)\n"
        f"  t = f32[4] subtract(b, v)\n  ROOT {OTHER}\n}}\n"
    )
    assert not explain_modules(module(FIRST), text).same
    assert not explain_modules(text, module(FIRST)).same
    assert explain_modules(other, module(FIRST)).same
