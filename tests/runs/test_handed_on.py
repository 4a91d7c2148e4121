"""The second step of a sampler takes in what the first gave: no part of it ran early."""

from __future__ import annotations

from written_runs import write

END, READ = 20, 12
TABLE = "t = f32[9] parameter(0)"
BODY = """  s = f32[1] slice(t), slice={{[{k}:{end}]}}
  r = f32[] reshape(s)
  b = f32[4] broadcast(r), dimensions={{}}
  y = f32[4] multiply({x}, b)
  ROOT z = f32[4] tanh(y)
}}
"""
NOISE = """  q = f32[] parameter({seed})
  i = f32[4] broadcast(q), dimensions={{}}
  n = f32[4] sine(i)
  m = f32[4] exponential(n)
  x = f32[4] cosine(m)
"""


def first(k):
    """Noise is made, and taken by the first number of a table."""
    head = f"HloModule first\n\nENTRY main {{\n  {TABLE}\n{NOISE.format(seed=1)}"
    return head + BODY.format(x="x", k=k, end=k + 1)


def later(k):
    """The same of what comes in."""
    head = f"HloModule later\n\nENTRY main {{\n  {TABLE}\n  x = f32[4] parameter(1)\n"
    return head + BODY.format(x="x", k=k, end=k + 1)


ALONE = NOISE.format(seed=0).replace("  x =", "  ROOT x =")
NOISE_ALONE = f"HloModule noise\n\nENTRY main {{\n{ALONE}}}\n"


def kinds(run):
    return {node.letter: node.explanation.causes[0].kind.id for node in run.graphs[1:]}


def test_what_the_step_before_left_did_not_run_early(tmp_path):
    run = write(tmp_path, [(END, first(8)), *[(END, later(k)) for k in range(7, -1, -1)]])
    assert set(kinds(run).values()) == {"python-index"}
    (problem,) = run.problems
    assert (problem.kind.id, problem.compiles) == ("python-index", 8)
    assert run.graphs[1].explanation.causes[-1].expected


def test_a_read_between_two_steps_cuts_the_second(tmp_path):
    syncs = [(END, later(k)) for k in range(7, -1, -1)]
    run = write(tmp_path, [(END, first(8)), (READ, NOISE_ALONE, "value"), *syncs])
    causes = [cause for node in run.graphs[1:] for cause in node.explanation.causes]
    assert any(cause.kind.id == "early-execution" and not cause.expected for cause in causes)
