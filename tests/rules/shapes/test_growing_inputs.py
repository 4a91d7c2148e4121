"""A carried tensor grows where it is made longer, wherever else it is joined with something."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine


def attention(rows: int, given_back: str = "kept", old: str = "memory") -> str:
    """A memory that is joined for an attention (line 4), and kept with what is new (line 9)."""
    use, keep = (f'metadata={{source_file="t.py" source_line={line}}}' for line in (4, 9))
    return f"""HloModule step

ENTRY main {{
  memory = f32[{rows},4] parameter(0), {use}
  new = f32[8,4] parameter(1), {use}
  all = f32[{rows + 8},4] concatenate(memory, new), dimensions={{0}}, {use}
  t = f32[{rows + 8},4] tanh(all), {use}
  own = f32[{rows},4] slice(memory), slice={{[0:{rows}], [0:4]}}
  kept = f32[{rows + 8},4] concatenate({old}, new), dimensions={{0}}, {keep}
  ROOT r = (f32[{rows + 8},4], f32[{rows + 8},4]) tuple(t, {given_back})
}}
"""


@pytest.mark.parametrize(("given_back", "line"), [("kept", 9), ("all", 4)])
def test_the_line_is_the_one_that_makes_it_longer(given_back, line):
    a, b = (read_module(attention(rows, given_back), "m") for rows in (8, 16))
    found = explain_modules(a, b)
    assert found.proved
    assert str(found.causes[0].kind) == "growing-input"
    assert str(found.verdict.where) == f"t.py:{line}"


def test_a_memory_of_which_all_is_kept_so_far_grows_as_well():
    """``torch.cat([memory[drop:], new])``, where nothing is dropped yet."""
    a, b = (read_module(attention(rows, old="own"), "m") for rows in (8, 16))
    found = explain_modules(a, b)
    assert found.proved
    assert str(found.causes[0].kind) == "growing-input"


SENT = """HloModule step

FileNames
1 "train.py"

FunctionNames
1 "train"
2 "send"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=30 end_line=30 column=0 end_column=0}}
2 {{file_name_id=1 function_name_id=2 line=7 end_line=7 column=0 end_column=0}}
3 {{file_name_id=1 function_name_id=1 line=33 end_line=33 column=0 end_column=0}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
3 {{file_location_id=3 parent_frame_id=1}}

ENTRY main {{
  tokens = f32[{rows},4] parameter(0), metadata={{op_type="send" stack_frame_id=2}}
  new = f32[8,4] parameter(1), metadata={{op_type="send" stack_frame_id=2}}
  sum = f32[{rows},4] tanh(tokens), metadata={{op_type="tanh" stack_frame_id=1}}
  kept = f32[{longer},4] concatenate(tokens, new), dimensions={{0}},
    metadata={{op_type="cat" stack_frame_id=3}}
  ROOT r = (f32[{rows},4], f32[{longer},4]) tuple(sum, kept)
}}
"""


@pytest.mark.parametrize(
    ("joins", "kind", "line"), [("tokens", "growing-input", 33), ("sum", "input-shape", 30)]
)
def test_the_line_that_asks_for_it_is_not_the_one_that_makes_it_longer(joins, kind, line):
    texts = [SENT.format(rows=rows, longer=rows + 8) for rows in (8, 16)]
    a, b = (
        read_module(one.replace("concatenate(tokens", f"concatenate({joins}"), "m") for one in texts
    )
    context = Context(call_site=SourceLine("train.py", 40, "train"))
    cause = explain_modules(a, b, context, context).causes[0]
    assert cause.kind.id == kind
    assert str(cause.place.in_short).startswith(f"train.py:{line} in ")


def masked(rows: int, mask: int, name: str = "kept") -> str:
    """An attention over a memory of so many rows, with a mask that comes from the host."""
    keep = 'metadata={source_file="t.py" source_line=9}'
    return f"""HloModule step

ENTRY main {{
  mask = f32[{mask},4] parameter(0), metadata={{source_file="t.py" source_line=2}}
  memory = f32[{rows},4] parameter(1), metadata={{source_file="t.py" source_line=4}}
  new = f32[8,4] parameter(2), metadata={{source_file="t.py" source_line=4}}
  kept = f32[{rows + 8},4] concatenate(memory, new), dimensions={{0}}, {keep}
  wide = f32[{rows + mask + 8},4] concatenate(kept, mask), dimensions={{0}}
  t = f32[{rows + mask + 8},4] tanh(wide)
  ROOT r = (f32[{rows + mask + 8},4], f32[{rows + 8},4]) tuple(t, {name})
}}
"""


def test_a_mask_that_is_longer_with_what_is_carried_follows_from_it():
    a, b = (read_module(masked(rows, rows + 8), "m") for rows in (8, 16))
    found = explain_modules(a, b)
    assert found.proved
    (cause,) = found.causes
    assert str(cause.kind) == "growing-input"
    assert "input 0" not in str(cause.title)
    assert any("other inputs go with it: input 0" in str(e.text) for e in cause.evidence)
    assert str(found.verdict.where) == "t.py:9"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (masked(8, 6), masked(16, 10)),  # a size of its own
        (masked(8, 16), masked(24, 32)),  # not what the step gives back
    ],
)
def test_what_has_sizes_of_its_own_is_no_growth(first, second):
    found = explain_modules(read_module(first, "m"), read_module(second, "m"))
    (kind,) = {str(cause.kind) for cause in found.causes if "input 0" in str(cause.title)}
    assert kind == "input-shape"
