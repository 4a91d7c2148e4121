"""Numbers that a library computes: what is advised fits where they are made."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

TABLES = """HloModule step

FileNames
1 "train.py"
2 "/venv/lib/python3.11/site-packages/{library}/mixup.py"

FunctionNames
1 "train"
2 "_mix_batch"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=7 end_line=7 column=0 end_column=0}}
2 {{file_name_id=2 function_name_id=2 line=211 end_line=211 column=0 end_column=0}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
"""
CUT = """
ENTRY main {{
  x = f32[8,32] parameter(0)
  w = f32[8,32] parameter(1)
  taken = f32[8,32] {opcode}(x)
  part = f32[8,{size}] slice(taken), slice={{[0:8], [0:{size}]}}, metadata={{stack_frame_id=2}}
  sum = f32[8,{size}] sine(part)
  zero = f32[] constant(0)
  whole = f32[8,32] pad(sum, zero), padding=0_0x0_{rest}
  h = f32[8,32] multiply(whole, w)
  t = f32[8,32] tanh(h)
  ROOT r = (f32[8,32]) tuple(t)
}}
"""
WEIGHT = Context(parameters={0: Tensor("head", "weight", Role.PARAMETER)})


def cut(size: int, library: str, opcode: str = "negate"):
    body = CUT.format(size=size, rest=32 - size, opcode=opcode)
    return read_module(TABLES.format(library=library) + body, "m")


@pytest.mark.parametrize(
    ("library", "context", "on_host"),
    [
        ("timm/data", Context(), True),
        ("torch/nn", Context(), False),
        ("timm/data", WEIGHT, False),
    ],
    ids=["a batch", "torch itself", "a weight"],
)
def test_a_batch_is_cut_on_the_host(library, context, on_host):
    found = explain_modules(cut(12, library), cut(20, library), context, context)
    cause = found.causes[0]
    assert str(cause.kind) == "python-index"
    assert str(cause.fix_in_short).startswith("Call it on the host") == on_host


RANKED = """HloModule step

less {{
  i = f32[] parameter(0)
  j = f32[] parameter(1)
  ROOT l = pred[] compare(i, j), direction=LT
}}

ENTRY main {{
  x = f32[64] parameter(0)
  made = f32[64] {made}
  one = f32[1] slice(made), slice={{[{k}:{end}]}}
  bound = f32[64] broadcast(one), dimensions={{0}}
  mask = pred[64] compare(x, bound), direction=GT
  ROOT r = (pred[64]) tuple(mask)
}}
"""


@pytest.mark.parametrize(
    ("made", "is_ranked"),
    [("sort(x), dimensions={0}, to_apply=less", True), ("tanh(x)", False)],
)
def test_a_place_in_what_is_sorted_is_told_as_that(made, is_ranked):
    a, b = (read_module(RANKED.format(made=made, k=k, end=k + 1), "m") for k in (2, 5))
    cause = explain_modules(a, b).causes[0]
    assert str(cause.kind) == "python-index"
    assert ("sorted" in str(cause.in_short)) == is_ranked


CALLED = """
ENTRY main {{
  x = f32[8] parameter(0)
  t = f32[8] tanh(x), metadata={{stack_frame_id=2}}
{more}
  ROOT r = f32[8] cosine({last}), metadata={{stack_frame_id=2}}
}}
"""
MORE = """\
  p = f32[8] sine(t), metadata={{stack_frame_id={frame}}}
  q = f32[8] multiply(p, t), metadata={{stack_frame_id={frame}}}
  s = f32[8] add(q, x), metadata={{stack_frame_id=2}}"""


@pytest.mark.parametrize(("frame", "kind"), [(2, "call-option"), (1, "extra-subgraph")])
def test_a_piece_that_the_program_itself_computes_is_no_more_of_a_librarys_call(frame, kind):
    """One operation of a library, a sum of its result with a new term, makes no call of it."""
    texts = (CALLED.format(more=more, last=last) for more, last in (
        ("", "t"), (MORE.format(frame=frame), "s"),
    ))  # fmt: skip
    found = explain_modules(
        *(read_module(TABLES.format(library="optax") + text, "m") for text in texts)
    )
    assert [str(cause.kind) for cause in found.causes] == [kind]
    is_call = str(found.verdict.what) == "A call of _mix_batch computes more in B than in A."
    assert is_call == (kind == "call-option")
