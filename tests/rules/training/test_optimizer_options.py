"""A term of the optimizer's formula is told by the stack that computes it, however far within."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.message import words

STACKS = """
FileNames
1 "train.py"
2 "site-packages/torch/optim/FILE.py"
3 "site-packages/torch/_tensor.py"

FunctionNames
1 "step"
2 "_single_tensor"
3 "__rdiv__"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=300 end_line=300 column=1 end_column=2}
3 {file_name_id=3 function_name_id=3 line=1079 end_line=1079 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
"""
STEP = """HloModule step, buffer_donor={ (0, {}) }
STACKS
ENTRY main {
  p = f32[4] parameter(0)
  g = f32[4] parameter(1)
  n = f32[4] tanh(g), metadata={op_type="aten__tanh" stack_frame_id=1}
  q = f32[4] add(p, n), metadata={op_type="aten__add" stack_frame_id=2}
  ROOT r = (f32[4]) tuple(q)
}
"""
TERM = """  s = f32[4] sqrt(n), metadata={op_type="aten__reciprocal" stack_frame_id=3}
  q = f32[4] add(p, s)"""


def cause(file: str):
    first = STEP.replace("STACKS", STACKS.replace("FILE", file))
    second = first.replace("  q = f32[4] add(p, n)", TERM)
    assert first != second
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert explanation.proved
    (found,) = explanation.causes
    return found


def test_a_helper_that_an_optimizer_calls_belongs_to_the_optimizer():
    found = cause("adamw")
    assert found.kind.id == "optimizer-option"
    assert "may be tiny" in str(found.fix_in_short)


def test_another_formula_of_radam_is_said_as_such():
    found = cause("radam")
    assert str(found.in_short) == "RAdam begins to rectify its steps"
    assert "capturable=True" in str(found.fix)


PLAIN = """HloModule step

ENTRY main {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  g = f32[4] parameter(2)
  rate = f32[] parameter(3)
  rates = f32[4] broadcast(rate), dimensions={}
  s = f32[4] sine(g)
  c = f32[4] cosine(g)
  dp = f32[4] multiply(rates, s)
  dq = f32[4] multiply(rates, c)
  np = f32[4] subtract(p, dp)
  nq = f32[4] subtract(q, dq)
  ROOT r = (f32[4], f32[4]) tuple(np, nq)
}
"""
ONE = "  np = f32[4] subtract(p, dp)\n"
TWO = ONE + "  nq = f32[4] subtract(q, dq)\n"


def kinds(old: str, new: str) -> list[str]:
    edited = PLAIN.replace(old, new)
    assert edited != PLAIN
    modules = read_module(PLAIN, "a"), read_module(edited, "b")
    both = [explain_modules(*modules), explain_modules(*reversed(modules))]
    assert all(explanation.proved for explanation in both)
    one, other = ([cause.kind.id for cause in explanation.causes] for explanation in both)
    assert one == other
    return one


@pytest.mark.parametrize("function", ["exponential", "abs", "negate", "tanh"])
def test_a_function_of_one_weight_alone_is_no_option(function):
    inserted = f"  e = f32[4] {function}(p)\n{ONE.replace('(p,', '(e,')}"
    assert kinds(ONE, inserted) == ["extra-subgraph"]


def test_the_same_function_of_all_weights_is_one():
    inserted = f"  e = f32[4] negate(p)\n  f = f32[4] negate(q)\n{TWO}"
    inserted = inserted.replace("(p, ", "(e, ").replace("(q, ", "(f, ")
    assert kinds(TWO, inserted) == ["optimizer-option"]


def test_a_factor_of_one_weight_is_one():
    """A group of parameters may be of one tensor: a decoupled weight decay."""
    inserted = f"  e = f32[4] multiply(rates, p)\n{ONE.replace('(p,', '(e,')}"
    assert kinds(ONE, inserted) == ["optimizer-option"]


LARGEST = """  m = f32[4] parameter(4)
  n = f32[4] parameter(5)
  sm = f32[4] maximum(m, s)
  cn = f32[4] maximum(n, c)
  dp = f32[4] multiply(rates, sm)
  dq = f32[4] multiply(rates, cn)
"""
SECOND_STATE = (
    PLAIN.replace("  dp = f32[4] multiply(rates, s)\n  dq = f32[4] multiply(rates, c)\n", LARGEST)
    .replace("(f32[4], f32[4]) t", "(f32[4], f32[4], f32[4], f32[4]) t")
    .replace("tuple(np, nq)", "tuple(np, nq, sm, cn)")
)


def both(first: str, second: str) -> list[list[str]]:
    modules = read_module(first, "a"), read_module(second, "b")
    found = [explain_modules(*modules), explain_modules(*reversed(modules))]
    assert all(explanation.proved for explanation in found)
    return [sorted(cause.kind.id for cause in explanation.causes) for explanation in found]


def test_an_option_and_its_state_are_one_cause():
    assert both(PLAIN, SECOND_STATE) == [["optimizer-option"]] * 2
    explanation = explain_modules(read_module(PLAIN, "a"), read_module(SECOND_STATE, "b"))
    (cause,) = explanation.causes
    assert "amsgrad" in str(cause.fix_in_short)
    assert "tiny" not in str(cause.fix)
    assert "for 2 tensors" in str(cause.title)


def test_a_mask_that_is_only_read_is_no_state():
    read = SECOND_STATE.replace("tuple(np, nq, sm, cn)", "tuple(np, nq)")
    read = read.replace("(f32[4], f32[4], f32[4], f32[4]) t", "(f32[4], f32[4]) t")
    assert both(PLAIN, read.replace("maximum", "multiply")) == [["added-input"]] * 2
    assert both(PLAIN, read) == [["added-input"]] * 2


def test_state_that_the_option_does_not_take_in_stays_a_cause_of_its_own():
    """Weight decay of one weight, and momentum of another that comes into being beside it."""
    decay = f"  e = f32[4] multiply(rates, p)\n{ONE.replace('(p,', '(e,')}"
    momentum = PLAIN.replace(ONE, decay).replace(
        "  dq = f32[4] multiply(rates, c)\n",
        "  m = f32[4] parameter(4)\n  old = f32[4] multiply(m, rates)\n  new = f32[4] add(old, c)\n"
        "  dq = f32[4] multiply(rates, new)\n",
    )
    momentum = momentum.replace("(f32[4], f32[4]) t", "(f32[4], f32[4], f32[4]) t")
    first = PLAIN.replace("(f32[4], f32[4]) t", "(f32[4], f32[4], f32[4]) t")
    found = both(
        first.replace("tuple(np, nq)", "tuple(np, nq, c)"),
        momentum.replace("tuple(np, nq)", "tuple(np, nq, new)"),
    )
    assert found == [["optimizer-option", "optimizer-state"]] * 2


DECAY = """HloModule step

ENTRY main {{
  p = f32[4] parameter(0)
  m = f32[4] parameter(1)
  g = f32[4] parameter(2)
  keep = f32[] parameter(3)
  kept = f32[4] broadcast(keep), dimensions={{}}
  s = f32[4] sine(g), metadata={{source_file="{file}" source_line=3}}
  wide = f32[4,4] dot(p, g), lhs_contracting_dims={{}}, rhs_contracting_dims={{}}
  old = f32[4] multiply(m, kept)
  rate = f32[] parameter(4)
  rates = f32[4] broadcast(rate), dimensions={{}}
  d = f32[4] multiply(p, rates)
{piece}
  ROOT r = (f32[4], f32[4], f32[4,4]) tuple(new, moved, wide)
}}
"""
AT = ', metadata={source_file="torch/optim/adam.py" source_line=%d}'
COUPLED = f"""  e = f32[4] add(s, d){AT % 5}
  moved = f32[4] add(old, e){AT % 6}
  f = f32[4] sqrt(moved)
  new = f32[4] subtract(p, f){AT % 8}"""
DECOUPLED = f"""  moved = f32[4] add(old, s){AT % 6}
  f = f32[4] sqrt(moved)
  u = f32[4] subtract(f, d){AT % 7}
  new = f32[4] subtract(p, u){AT % 8}"""


def versions(first: str, second: str) -> str:
    """What is said first of two versions with these pieces."""
    sides = (DECAY.format(file=f, piece=p) for f, p in (("a.py", first), ("b.py", second)))
    explanation = explain_modules(*map(read_module, sides))
    assert explanation.proved
    return str(explanation.verdict.what)


def test_decay_that_goes_elsewhere_is_told_as_such():
    what = versions(COUPLED, DECOUPLED)
    assert what == (
        "Weight decay goes into the gradient in A and into the weight alone in B (Adam, AdamW)."
    )
    assert versions(DECOUPLED, COUPLED).startswith("Weight decay goes into the weight alone in A")


def test_decay_on_one_side_is_told_by_name():
    lines = DECAY.format(file="a.py", piece=COUPLED).replace("old, e", "old, s").split("\n")
    without = "\n".join(line for line in lines if "rate" not in line and "  e =" not in line)
    modules = read_module(without), read_module(DECAY.format(file="b.py", piece=COUPLED))
    for (one, other), side in ((modules, "B"), (modules[::-1], "A")):
        explanation = explain_modules(one, other)
        assert explanation.proved
        assert str(explanation.verdict.what) == f"Weight decay is on in {side} only."


def test_what_differs_beside_decay_is_not_told_as_decay():
    both = DECOUPLED.replace("sqrt(moved)", "sqrt(bent)")
    both = both.replace("  f =", "  bent = f32[4] cosine(moved)\n  f =")
    assert "decay" not in versions(COUPLED, both)


def test_an_average_of_weights_is_no_decay():
    average = DECOUPLED.replace("subtract(f, d)", "subtract(m, d)").replace("(p, u)", "(u, d)")
    without = average.replace("subtract(m, d)", "negate(m)")
    assert "decay" not in versions(without, average)


def test_what_changes_beside_a_new_value_is_not_joined_to_it():
    beside = COUPLED.replace("sqrt(moved)", "sqrt(bent)")
    beside = beside.replace("  f =", "  bent = f32[4] cosine(moved)\n  f =")
    what = versions(COUPLED, beside)
    assert ", and " not in what


NESTEROV = """HloModule jit_step
ENTRY main {{
  g = f32[4] parameter(0)
  b = f32[4] parameter(1)
  w = f32[4] parameter(2)
  o = f32[4] parameter(3)
  n = f32[] constant(0.9)
  t = f32[4] broadcast(n), dimensions={{}}
  c = f32[] constant(-0.1)
  s = f32[4] broadcast(c), dimensions={{}}
  bt = f32[4] multiply(b, t)
  m = f32[4] add(bt, g)
  mt = f32[4] multiply(m, t)
  ahead = f32[4] add({of}, mt)
  step = f32[4] multiply({taken}, s)
  v = f32[4] {moved}(w, step)
  ROOT r = (f32[4], f32[4], f32[4]) tuple(v, m, o)
}}"""


def _against_plain(of: str, moved: str = "add") -> list[str]:
    plain = NESTEROV.format(of="g", taken="m", moved="add")
    other = NESTEROV.format(of=of, taken="ahead", moved=moved)
    found = explain_modules(read_module(plain), read_module(other))
    return [str(cause.title) for cause in found.causes]


def test_nesterov_is_told_by_its_formula_and_alone():
    (told,) = _against_plain("g")
    assert told.startswith("the optimizer looks ahead in B and not in A, for 1 tensor")


def test_nesterov_is_told_beside_another_edit():
    told = _against_plain("g", moved="subtract")
    assert any("looks ahead" in one for one in told)
    assert len(told) == 2


def test_momentum_with_something_else_does_not_look_ahead():
    assert not any("looks ahead" in one for one in _against_plain("o"))


def test_decay_that_goes_elsewhere_is_told_beside_another_edit():
    other = DECAY.replace(
        "  wide = f32[4,4] dot(p, g)",
        '  l = f32[4] exponential(g), metadata={{source_file="b.py" source_line=2}}\n'
        "  wide = f32[4,4] dot(p, l)",
    )
    a = read_module(DECAY.format(file="a.py", piece=COUPLED))
    explanation = explain_modules(a, read_module(other.format(file="b.py", piece=DECOUPLED)))
    option, edit = explanation.causes
    assert words(option.short).startswith("weight decay goes into the gradient in A")
    assert str(edit.kind) == "extra-subgraph"


def test_decay_is_not_on_in_one_alone_where_an_option_beside_is_not_known():
    other = DECAY.replace("dot(p, g)", "dot(v, g)").replace(
        "  s = f32[4]", "  l = f32[4] exponential(g)\n  v = f32[4] multiply(l, g)\n  s = f32[4]"
    )  # p is no weight any more
    a = read_module(DECAY.format(file="a.py", piece=COUPLED))
    explanation = explain_modules(a, read_module(other.format(file="b.py", piece=DECOUPLED)))
    assert not any("weight decay" in words(cause.short) for cause in explanation.causes)


SAMPLED = """HloModule sample

ENTRY main {{
  x = f32[2,8] parameter(0)
  w = f32[8,8] parameter(1)
  v = f32[8,8] parameter(2)
  u = f32[8,8] parameter(3)
  t = f32[8,8] parameter(4)
{weights}
  d = f32[2,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[2,8] dot(d, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  f = f32[2,8] dot(e, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  g = f32[2,8] dot(f, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = f32[2,8] tanh(g)
{more}
  n = f32[2,8] subtract(x, {step})
  ROOT r = ({shapes}) tuple(n{trained})
}}
"""
MORE = "  m = f32[2,8] multiply(x, x)\n  k = f32[2,8] subtract(c, m)"


@pytest.mark.parametrize("is_trained", [True, False])
def test_what_is_sampled_has_no_optimizer(is_trained):
    moved = "  new = f32[8,8] subtract(w, v)" if is_trained else ""
    shapes = "f32[2,8], f32[8,8]" if is_trained else "f32[2,8]"
    told = {"weights": moved, "shapes": shapes, "trained": ", new" if is_trained else ""}
    a = SAMPLED.format(more="", step="c", **told)
    b = SAMPLED.format(more=MORE, step="k", **told)
    (found,) = explain_modules(read_module(a, "a"), read_module(b, "b")).causes
    assert found.proved
    assert (found.kind.id == "optimizer-option") is is_trained
