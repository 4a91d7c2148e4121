"""A span that is assigned to: where its length changes too, an index that is sent is no mend."""

from __future__ import annotations

import pytest
from written_runs import write

ROWS = 20
PROGRAM = (
    "def blank(x, low, width, begin, end):",
    "    x = x.clone()",
    "    x[:, low : low + width] = 0.0",
    "    x[:, begin:end] = 0.0",
    "    return x",
)


def filled(name, taken, line, low, width):
    """What torch_xla makes of a number that is given to some columns."""
    at = f'metadata={{op_type="aten__fill" source_file="train.py" source_line={line}}}'
    pad = f"padding=0_0x{low}_{ROWS - low - width}, {at}"
    return f"""\
  %f{name} = f32[6,{width}]{{1,0}} broadcast(f32[] %zero), dimensions={{}}, {at}
  %p{name} = f32[6,{ROWS}]{{1,0}} pad(f32[6,{width}]{{1,0}} %f{name}, f32[] %zero), {pad}
  %t{name} = pred[6,{width}]{{1,0}} broadcast(pred[] %true), dimensions={{}}, {at}
  %m{name} = pred[6,{ROWS}]{{1,0}} pad(pred[6,{width}]{{1,0}} %t{name}, pred[] %false), {pad}
  %{name} = f32[6,{ROWS}]{{1,0}} select(%m{name}, %p{name}, %{taken}), {at}
"""


def step(*spans):
    """A step that blanks a span on line 3, and perhaps another one on line 4."""
    names = ["x", *"yz"[: len(spans)]]
    body = "".join(
        filled(names[k + 1], names[k], 3 + k, low, width) for k, (low, width) in enumerate(spans)
    )
    return f"""HloModule step

ENTRY %main (x: f32[6,{ROWS}]) -> (f32[6,{ROWS}]) {{
  %x = f32[6,{ROWS}]{{1,0}} parameter(0)
  %zero = f32[] constant(0)
  %true = pred[] constant(true)
  %false = pred[] constant(false)
{body}  %s = f32[6,{ROWS}]{{1,0}} sine(f32[6,{ROWS}]{{1,0}} %{names[-1]})
  ROOT %r = (f32[6,{ROWS}]{{1,0}}) tuple(f32[6,{ROWS}]{{1,0}} %s)
}}
"""


def run_of(folder, *steps):
    return write(folder, [(20, step(*spans)) for spans in steps], program=PROGRAM)


PLACES = [(k % 9) + (k % 2) * 4 for k in range(12)]
MOVED = [((low, 4),) for low in PLACES]
BOTH = [((low, 4 if k < 9 else 4 + k % 3),) for k, low in enumerate(PLACES)]


@pytest.mark.parametrize(("steps", "is_masked"), [(MOVED, False), (BOTH, True)])
def test_the_length_decides_what_mends_it(tmp_path, steps, is_masked):
    run = run_of(tmp_path, *steps)
    causes = [one.cause for one in run.problems if one.place.line.line == 3]
    fixes = {str(cause.fix_in_short) for cause in causes}
    assert str(run.problems[0].kind) == "python-index"
    assert len(fixes) == 1
    (fix,) = fixes
    assert ("masked_fill_" in fix) == is_masked
    assert ("index = torch.arange(low, low + width)" in fix) != is_masked
    assert ("span that is assigned to" in str(run.verdict.what)) == is_masked


def test_another_span_beside_it_needs_the_same_fix(tmp_path):
    steps = [((low, 3 + k % 4), (12 - k, 2 + k % 3)) for k, low in enumerate(PLACES)]
    run = run_of(tmp_path, *steps)
    assert "The same changes at line 4: mend these likewise." in str(run.verdict)


def test_a_mask_mends_a_span_that_only_moves_as_well(tmp_path):
    steps = [((low, 3 + k % 4), (12 - k, 2)) for k, low in enumerate(PLACES)]
    run = run_of(tmp_path, *steps)
    assert "The same changes at line 4: mend these likewise." in str(run.verdict)
