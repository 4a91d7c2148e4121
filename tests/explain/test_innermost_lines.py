"""Text of torch_xla has the innermost frame alone: what it tells of pieces, and where they are."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Cause
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def made(operation: str, file: str = "", line: int = 1) -> str:
    """The metadata that torch_xla writes; without a file that of a derivative."""
    place = f' source_file="{file}" source_line={line}' if file else ""
    return f', metadata={{op_type="{operation}"{place}}}'


LIBRARY = "site-packages/torch/"
FUNCTIONAL = f"{LIBRARY}nn/functional.py"


def causes(plain: str, edited: str) -> tuple[Cause, ...]:
    assert plain != edited
    explanation = explain_modules(read_module(plain, "a"), read_module(edited, "b"))
    assert explanation.proved
    return explanation.causes


def cause(plain: str, edited: str) -> Cause:
    (found,) = causes(plain, edited)
    return found


MODEL = f"""HloModule step

ENTRY main {{
  x = f32[8] parameter(0)
  h = f32[8] tanh(x){made("aten__tanh", "train.py", 7)}
  ROOT y = f32[8] sine(h){made("aten__sin", "train.py", 9)}
}}
"""
DRAWN = """
  low = f32[] constant(0)
  high = f32[] constant(1)
  u = f32[8] rng(low, high), distribution=rng_uniform{made}
  d = f32[8] multiply(h, u){made}
  ROOT y = f32[8] sine(d)"""


def drawn(operation: str, file: str) -> str:
    text = DRAWN.replace("{made}", made(operation, file, 1418))
    return MODEL.replace("\n  ROOT y = f32[8] sine(h)", text)


def test_coins_of_torchs_layers_are_dropout():
    found = cause(MODEL, drawn("aten__bernoulli", FUNCTIONAL))
    assert found.kind.id == "random-numbers"
    assert str(found.in_short) == "Dropout is on in B only: p is 0 in A, or eval() was called"
    assert str(found.fix_in_short).startswith("Keep one mode (train(), eval())")
    assert str(found.place.in_short).startswith("near train.py:")


def test_the_side_with_dropout_is_named():
    found = cause(drawn("aten__bernoulli", FUNCTIONAL), MODEL)
    assert str(found.in_short).startswith("Dropout is on in A only")


@pytest.mark.parametrize(
    ("operation", "file"),
    [("aten__bernoulli", "train.py"), ("aten__uniform", FUNCTIONAL)],
)
def test_other_random_numbers_are_not_called_dropout(operation: str, file: str):
    found = cause(MODEL, drawn(operation, file))
    assert str(found.in_short) == "Random numbers are drawn in some steps only"


RADAM = f"{LIBRARY}optim/radam.py"
OPERATOR = f"{LIBRARY}_tensor.py"
UPDATE = f"""HloModule step

ENTRY main {{
  p = f32[4] parameter(0)
  g = f32[4] parameter(1)
  n = f32[4] tanh(g){made("aten__tanh", "train.py", 7)}
  q = f32[4] add(p, n){made("aten__add", "FILE", 300)}
  ROOT r = (f32[4]) tuple(q)
}}
"""
RECTIFIED = f"""
  s = f32[4] sqrt(n){made("aten__sqrt", "FILE", 337)}
  t = f32[4] cosine(s){made("aten__reciprocal", OPERATOR, 1079)}
  q = f32[4] add(p, t)"""


def rectified(file: str) -> Cause:
    second = UPDATE.replace("\n  q = f32[4] add(p, n)", RECTIFIED)
    return cause(UPDATE.replace("FILE", file), second.replace("FILE", file))


def test_an_operator_in_python_is_the_optimizers_that_calls_it():
    found = rectified(RADAM)
    assert found.kind.id == "optimizer-option"
    assert str(found.in_short) == "RAdam begins to rectify its steps"
    assert str(found.place.in_short).startswith("torch/optim/radam.py:337")


def test_an_operator_beside_the_programs_own_lines_is_no_optimizers():
    found = rectified("train.py")
    assert found.kind.id == "extra-subgraph"
    assert str(found.place.in_short) == "train.py:337"


MOMENTUM = f"""HloModule step

ENTRY main {{
  x = f32[8] parameter(0)
  running = f32[8] parameter(1)
  h = f32[8] tanh(x){made("aten__native_batch_norm", FUNCTIONAL, 2813)}
  part = f32[] constant(PART){made("xla__moving_average", FUNCTIONAL, 2813)}
  parts = f32[8] broadcast(part), dimensions={{}}{made("xla__moving_average", FUNCTIONAL, 2813)}
  new = f32[8] multiply(h, parts){made("xla__moving_average", FUNCTIONAL, 2813)}
  next = f32[8] add(running, new){made("xla__moving_average", FUNCTIONAL, 2813)}
  y = f32[8] sine(h){made("aten__sin", "train.py", 43)}
  ROOT r = (f32[8], f32[8]) tuple(next, y)
}}
"""


def test_the_momentum_of_a_batch_norm_has_its_values_and_the_line_behind_the_layer():
    found = cause(MOMENTUM.replace("PART", "0.5"), MOMENTUM.replace("PART", "0.3"))
    assert str(found.in_short) == "BatchNorm's momentum is baked into the graph: 0.5 became 0.3"
    assert str(found.place.in_short) == "near train.py:43"


def test_what_shares_an_input_alone_is_no_line_near_it():
    shared = MOMENTUM.replace("sine(h)", "sine(x)")
    found = cause(shared.replace("PART", "0.5"), shared.replace("PART", "0.3"))
    assert not found.place.is_near


BACKWARD = f"""HloModule step

ENTRY main {{
  x = f32[4,4] parameter(0)
  w = f32[4,4] parameter(1)
  u = f32[4,4] parameter(2)
  rate = f32[] parameter(3)
  rates = f32[4,4] broadcast(rate), dimensions={{}}{made("aten__mul", "SGD", 361)}
  y = f32[4,4] sine(x){made("aten__sin", "train.py", 7)}
  s = f32[4,4] cosine(y){made("aten__sin_backward")}
  g = f32[4,4] multiply(s, y){made("aten__mul")}
  d = f32[4,4] multiply(rates, g){made("aten__mul", "SGD", 361)}
  n = f32[4,4] subtract(w, d){made("aten__sub", "SGD", 361)}
  k = f32[4,4] multiply(rates, u){made("aten__mul", "SGD", 361)}
  v = f32[4,4] subtract(u, k){made("aten__sub", "SGD", 361)}EXTRA
  ROOT r = (f32[4,4], f32[4,4], f32[4,4]) tuple(y, n, v)
}}
""".replace("SGD", f"{LIBRARY}optim/sgd.py").replace("EXTRA", "")
FURTHER = """
  e = f32[4,4] exponential(s){made}
  f = f32[4,4] tanh(e){made}
  g = f32[4,4] multiply(f, y)"""


def further(metadata: str) -> str:
    return BACKWARD.replace("\n  g = f32[4,4] multiply(s, y)", FURTHER.format(made=metadata))


def test_derivatives_alone_are_told_as_such():
    found = cause(BACKWARD, further(made("aten__tanh_backward")))
    assert str(found.in_short) in {f"The backward pass computes more in {side}" for side in "AB"}
    assert "create_graph" in str(found.fix_in_short)


def test_a_piece_with_a_line_of_the_program_is_no_backward_pass():
    found = cause(BACKWARD, further(made("aten__tanh", "train.py", 8)))
    assert "backward" not in str(found.in_short)
    assert "create_graph" not in str(found.fix_in_short)


BLOCK = """
  h = f32[4,4] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}MADE
  t = f32[4,4] tanh(h)MADE
  y = f32[4,4] sine(t)""".replace("MADE", made("aten__mm", "model.py", 12))


def test_a_part_whose_weights_go_on_to_be_updated_is_left_out():
    found = cause(BACKWARD.replace("\n  y = f32[4,4] sine(x)", BLOCK), BACKWARD)
    assert str(found.in_short).startswith("Some steps leave blocks of the model out")
    assert str(found.fix_in_short) == "Run every part; multiply by 0 or 1, drawn on the device."
    assert str(found.place.in_short) == "model.py:12"


def test_a_product_with_weights_that_run_elsewhere_is_no_part_of_its_own():
    used = BACKWARD.replace("y = f32[4,4] sine(x)", "y = f32[4,4] add(x, u)")
    block = BLOCK.replace("sine(t)", "add(t, u)")
    found = cause(used.replace("\n  y = f32[4,4] add(x, u)", block), used)
    assert not str(found.in_short).startswith("Some steps leave blocks")


def test_a_number_of_a_library_call_stands_where_the_call_is_given_its_values():
    made_by = made("aten__threshold", FUNCTIONAL, 1667)
    text = f"""HloModule step

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[8] parameter(0)
  h = f32[8] tanh(x){made("aten__tanh", "train.py", 7)}
  bound = f32[] constant(0.5){made_by}
  bounds = f32[8] broadcast(bound), dimensions={{}}{made_by}
  low = f32[] constant(0){made_by}
  lows = f32[8] broadcast(low), dimensions={{}}{made_by}
  is_over = pred[8] compare(h, bounds), direction=GT{made_by}
  y = f32[8] select(is_over, h, lows){made_by}
  ROOT z = f32[] reduce(y, low), dimensions={{0}}, to_apply=add{made("aten__sum", "train.py", 92)}
}}
"""
    found = cause(text, text.replace("constant(0.5)", "constant(0.05)"))
    assert str(found.place.in_short).startswith("near train.py:7")
    alone = text.replace(
        f"h = f32[8] tanh(x){made('aten__tanh', 'train.py', 7)}", "h = f32[8] tanh(x)"
    )
    found = cause(alone, alone.replace("constant(0.5)", "constant(0.05)"))
    assert str(found.place.in_short).startswith("near train.py:92")
