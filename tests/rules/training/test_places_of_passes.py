"""Where a pass is run that some steps compute more often than others."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine

PROGRAM = """\
def accumulate(batches):
    while len(batches):
        x = next(batches)
        h = x @ w
        loss = h.sin()
    return loss


def train():
    for update in range(9):
        loss = accumulate(batches)
        step(loss)
        sync()


train()
"""
LINES = {"train.py": dict(enumerate(PROGRAM.splitlines(), 1))}
TABLES = """HloModule step

FileNames
1 "train.py"

FunctionNames
1 "accumulate"
2 "train"
3 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=3 line=16 end_line=16 column=0 end_column=0}
2 {file_name_id=1 function_name_id=2 line=11 end_line=11 column=0 end_column=0}
3 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=0 end_column=0}
4 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=3}
"""
SITE = SourceLine("train.py", 13, "train")
MODULE = SourceLine("train.py", 16, "<module>")


def accumulated(turns: int) -> str:
    """A step of so many passes, whose losses are added up."""
    body, total = "", ""
    for k in range(turns):
        body += f"""  x{k} = f32[4,4] parameter({k + 1})
  h{k} = f32[4,4] dot(x{k}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    metadata={{op_name="dot" stack_frame_id=3}}
  l{k} = f32[4,4] sine(h{k}), metadata={{op_name="sin" stack_frame_id=4}}
"""
        body += f"  s{k} = f32[4,4] add({total}, l{k})\n" if total else ""
        total = f"s{k}" if total else f"l{k}"
    root = f"  ROOT t = (f32[4,4]) tuple({total})\n"
    return f"{TABLES}\nENTRY main {{\n  w = f32[4,4] parameter(0)\n{body}{root}}}\n"


@pytest.mark.parametrize(
    ("context", "line"),
    [
        (Context(call_site=SITE, program=LINES), 4),
        (Context(call_site=SITE, program=LINES, stacks={SITE: (SITE, MODULE)}), 4),
        (Context(call_site=SITE), 11),
        (Context(call_site=SourceLine("train.py", 6, "accumulate"), program=LINES), 11),
        (Context(), 11),
    ],
    ids=["text", "text and stack", "no text", "another loop", "nothing"],
)
def test_a_pass_is_placed_within_the_loop_of_the_step(context, line):
    modules = [read_module(accumulated(turns), "m") for turns in (3, 5)]
    found = explain_modules(*modules, context, context)
    (cause,) = [c for c in found.causes if str(c.kind) == "accumulation-count"]
    assert cause.place.line is not None
    assert (cause.place.line.file, cause.place.line.line) == ("train.py", line)
