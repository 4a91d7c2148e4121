"""Graphs that compile only in steps in which another one has a new size."""

from __future__ import annotations

from written_runs import write

READ, END = 12, 20
STEP = """HloModule step

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} tanh(f32[8]{0} %p)
}
"""


def sized(number):
    """The largest of so many numbers."""
    return f"""HloModule sized

%most (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %m = f32[] maximum(f32[] %x, f32[] %y)
}}

ENTRY %main (p: f32[{number}]) -> f32[] {{
  %p = f32[{number}]{{0}} parameter(0)
  %s = f32[{number}]{{0}} sine(f32[{number}]{{0}} %p)
  %least = f32[] constant(0)
  ROOT %o = f32[] reduce(f32[{number}]{{0}} %s, f32[] %least), dimensions={{0}}, to_apply=%most
}}
"""


def placed(start):
    """A number at a place that Python has computed."""
    return f"""HloModule placed

ENTRY %main (p: f32[64]) -> f32[1] {{
  %p = f32[64]{{0}} parameter(0)
  %e = f32[64]{{0}} exponential(f32[64]{{0}} %p)
  ROOT %s = f32[1]{{0}} slice(f32[64]{{0}} %e), slice={{[{start}:{start + 1}]}}
}}
"""


def explained(folder, reports):
    """A run that reads a value of each size, and one at each place."""
    syncs = []
    for number, start in reports:
        syncs += [(END, STEP)] * 3
        syncs += [(READ, sized(number), "value"), (READ, placed(start), "value")]
    return write(folder, syncs)


def test_parts_of_steps_with_a_new_size_are_counted_with_it(tmp_path):
    run = explained(tmp_path, [(n, n) for n in range(5, 40, 5)])
    kinds = {problem.kind.id: problem for problem in run.problems}
    assert "python-index" not in kinds
    problem = kinds["input-shape"]
    assert problem.compiles == 12
    assert problem.further == ()
    (beside,) = problem.follows
    assert "only in steps in which this size was a new one" in str(beside)
    assert str(run.verdict.fix) == "Give it its largest size from the start, and mask the rest."
    assert "grows by 5 per compile: 5, 10, ... 35" in str(run.verdict)


def test_what_compiles_in_other_steps_too_is_a_reason_of_its_own(tmp_path):
    run = explained(tmp_path, [(5 * (1 + k // 2), k) for k in range(12)])
    kinds = {problem.kind.id: problem.compiles for problem in run.problems}
    assert kinds["input-shape"] == 5
    assert kinds["python-index"] == 11


def test_sizes_that_only_grow_are_no_odd_batches(tmp_path):
    sizes = (18, 34, 53, 61, 84, 90, 112, 140)
    told = {
        name: str(write(tmp_path / name, [(END, sized(n)) for n in order]).verdict)
        for name, order in (("grow", sizes), ("few", sizes[:6]), ("fall", (*sizes[1:], 18)))
    }
    assert "grows from compile to compile: 18, 34, ... 140" in told["grow"]
    assert "Give it its largest size from the start" in told["grow"]
    assert not any("grows" in told[name] for name in ("few", "fall"))
