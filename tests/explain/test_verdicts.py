"""Differences that real programs rarely show on one CPU device, made by editing real text."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import zstandard

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run, graph_order

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@cache
def text(folder: str, letter: str) -> str:
    run = read_run(FIXTURES / folder)
    digest = {found: graph.digest for found, graph, _ in graph_order(run)}[letter]
    return run.graph_text(digest)


def explained(before: str, after: str, **contexts: Context):
    assert before != after
    return explain_modules(
        read_module(before, "a"),
        read_module(after, "b"),
        contexts.get("context_a"),
        contexts.get("context_b"),
    )


def kinds(explanation) -> list[str]:
    assert explanation.proved
    assert explanation.unexplained_share == 0
    return [cause.kind.id for cause in explanation.causes]


def header(addition: str) -> str:
    return text("pairs/stable", "A").replace("buffer_donor=", addition + ", buffer_donor=", 1)


def test_donors():
    stable = text("pairs/stable", "A")
    fewer = re.sub(r"buffer_donor=\{ \(0, \{\}\), ", "buffer_donor={ ", stable)
    explanation = explained(stable, fewer)
    assert kinds(explanation) == ["donors"]
    assert "input 0" in str(explanation.causes[0].title)


def test_alias():
    alias = header("input_output_alias={ {1}: (0, {}, may-alias) }")
    assert kinds(explained(text("pairs/stable", "A"), alias)) == ["alias"]


@pytest.mark.parametrize(
    ("addition", "kind"),
    [
        ("replica_count=2", "replica-count"),
        ("num_partitions=4", "partitions"),
        ('frontend_attributes={a="1"}', "frontend-attributes"),
        ("spmd_output_sharding={replicated}", "sharding"),
    ],
)
def test_header_fields(addition, kind):
    assert kinds(explained(text("pairs/stable", "A"), header(addition))) == [kind]


def test_sharding_of_an_instruction():
    stable = text("pairs/stable", "A")
    sharded = re.sub(
        r"(p\d+\.\d+ = f32\[8,16\]\{1,0\} parameter\(\d+\))", r"\1, sharding={replicated}", stable
    )
    assert kinds(explained(stable, sharded)) == ["sharding"]


def test_replica_groups():
    carry = text("runs/carry", "E")
    other = carry.replace("replica_groups={}", "replica_groups={{0}}")
    explanation = explained(carry, other)
    assert set(kinds(explanation)) == {"replica-groups"}


def test_layout():
    stable = text("pairs/stable", "A")
    other = re.sub(r"(%?dot\.\d+ = f32\[\d+,\d+\])\{1,0\}", r"\1{0,1}", stable, count=1)
    assert kinds(explained(stable, other)) == ["layout"]


def test_metadata_only():
    stable = text("pairs/stable", "A")
    explanation = explained(stable, re.sub(r"source_line=\d+", "source_line=7", stable))
    assert kinds(explanation) == ["metadata"]
    assert explanation.diff.same
    assert explanation.diff.noise.metadata > 0
    assert str(explanation.verdict).startswith("Same computation")


def test_same_graph_other_key():
    module = read_module(text("pairs/stable", "A"), "a")
    explanation = explain_modules(
        module,
        replace(module),
        Context(key={"graph_hash": "1", "inputs": "8"}),
        Context(key={"graph_hash": "2", "inputs": "8"}),
    )
    assert "another cache key" in str(explanation.verdict)
    assert "graph_hash" in str(explanation.verdict)


def _other_lines(module):
    return re.sub(r"source_line=\d+", "source_line=7", module)


def _other_name(module):
    return module.replace("HloModule ", "HloModule another_", 1)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (_other_name, "same-graph", "another cache key"),
        (_other_lines, "metadata", "only metadata differs"),
    ],
)
def test_a_run_that_compiles_the_same_graph_again(tmp_path, change, kind, said):
    source = FIXTURES / "pairs" / "stable"
    shutil.copytree(source, tmp_path / "run")
    (records,) = (tmp_path / "run").glob("records-*.jsonl")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    graph = next(line for line in lines if line["record"] == "graph")
    syncs = [line for line in lines if line["record"] == "sync"]
    other = change(text("pairs/stable", "A")).encode()
    digest = hashlib.blake2b(other, digest_size=16).hexdigest()
    packed = zstandard.ZstdCompressor().compress(other)
    (tmp_path / "run" / "graphs" / f"{digest}.hlo.zst").write_bytes(packed)
    syncs[-2].update(outcome="compile", graphs=[digest], compile_seconds=0.5)
    key = [["graph_hash", "another"], ["computation_hash", "another"]]
    lines.append({**graph, "digest": digest, "sync": syncs[-2]["index"], "key": key})
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = explain_run(read_run(tmp_path / "run"))
    (problem,) = [group for group in run.groups if not group.expected]
    assert problem.kind.id == kind
    assert said in str(problem.title)
    assert problem.compiles == 1


WHILE = """HloModule loop

body {
  state = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8] get-tuple-element(state), index=1
  factor = f32[] constant(0.5)
  wide = f32[8] broadcast(factor), dimensions={}
  y = f32[8] multiply(x, wide)
  ROOT out = (s32[], f32[8]) tuple(next, y)
}

condition {
  state.1 = (s32[], f32[8]) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  limit = s32[] constant(10)
  ROOT less = pred[] compare(i.1, limit), direction=LT
}

ENTRY main {
  start = s32[] constant(0)
  data = f32[8] parameter(0)
  first = (s32[], f32[8]) tuple(start, data)
  loop = (s32[], f32[8]) while(first), condition=condition, body=body
  result = f32[8] get-tuple-element(loop), index=1
  twice = f32[8] add(result, result)
  ROOT outputs = (f32[8]) tuple(twice)
}
"""


def test_constant_in_a_loop():
    explanation = explained(WHILE, WHILE.replace("constant(10)", "constant(12)"))
    assert kinds(explanation) == ["constant-value"]
    assert "10 became 12" in str(explanation.causes[0].title)


def test_other_step_in_a_loop():
    other = WHILE.replace("multiply(x, wide)", "add(x, wide)")
    explanation = explained(WHILE, other)
    assert kinds(explanation) == ["replaced-subgraph"]


REDUCTIONS = """HloModule reductions

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

max {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT most = f32[] maximum(c, d)
}

ENTRY main {
  x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  one = f32[4] reduce(x, zero), dimensions={0}, to_apply=add
  two = f32[4] reduce(y, zero), dimensions={0}, to_apply=add
  three = f32[2,4] reduce-scatter(x), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add
  wide = f32[8,4] broadcast(zero), dimensions={}
  held = f32[8,4] maximum(x, wide)
  four = f32[4] reduce(held, low), dimensions={0}, to_apply=max
  started = f32[8,4] all-reduce-start(y), replica_groups={{0,1,2,3}}, to_apply=add
  five = f32[8,4] all-reduce-done(started)
  ROOT outputs = (f32[4], f32[4], f32[2,4], f32[4], f32[8,4]) tuple(one, two, three, four, five)
}
"""


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("reduce", "reduce(x, zero)", "reduce(x, low)"),
        ("reduce", "reduce(y, zero)", "reduce(y, low)"),
        ("reduce", "reduce(y, zero)", "reduce(y, zero)"),
        ("reduce-scatter", "reduce-scatter(x)", "reduce-scatter(x)"),
        ("all-reduce-start", "all-reduce-start(y)", "all-reduce-start(y)"),
    ],
)
def test_reductions_that_share_what_they_apply_and_start_from(name, before, after):
    lines = REDUCTIONS.splitlines(keepends=True)
    (k,) = (k for k, line in enumerate(lines) if before in line)
    lines[k] = lines[k].replace(before, after).replace("to_apply=add", "to_apply=max")
    for pair in ((REDUCTIONS, "".join(lines)), ("".join(lines), REDUCTIONS)):
        explanation = explained(*pair)
        assert kinds(explanation) == ["other-reduction"]
        assert f"in 1 {name}" in str(explanation.causes[0].title)


SCATTERS = """HloModule m

write {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

least {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT less = f32[] minimum(c, d)
}

ENTRY main {
  x = f32[8] parameter(0)
  i = s32[1] parameter(1)
  u = f32[1] parameter(2)
  one = f32[8] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=write
  two = f32[8] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=least
  ROOT outputs = (f32[8], f32[8]) tuple(one, two)
}
"""  # noqa: E501


SEGMENTS = """HloModule segments

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

most {
  d = f32[] parameter(0)
  e = f32[] parameter(1)
  ROOT f = f32[] maximum(d, e)
}

ENTRY main {
  i = s32[3,1] parameter(0)
  u = f32[3] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[8] broadcast(zero), dimensions={}
  low = f32[] constant(-inf)
  lows = f32[8] broadcast(low), dimensions={}
  one = f32[8] scatter(zeros, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  wave = f32[8] sine(one)
  two = f32[8] scatter(zeros, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT sum = f32[8] subtract(wave, two)
}
"""  # noqa: E501


def test_a_scatter_of_another_operation_starts_from_another_number():
    first, found, last = SEGMENTS.partition("  two = ")
    other = first + found + last.replace("zeros", "lows").replace("to_apply=add", "to_apply=most")
    for pair, title, start in (
        ((SEGMENTS, other), "add became maximum in 1 scatter", "what it starts from: 0 -> -inf"),
        ((other, SEGMENTS), "maximum became add in 1 scatter", "what it starts from: -inf -> 0"),
    ):
        explanation = explained(*pair)
        assert kinds(explanation) == ["other-reduction"]
        (cause,) = explanation.causes
        assert str(cause.title) == title
        assert str(cause.evidence[1].text) == start


def test_another_start_of_the_same_scatter_is_told():
    first, found, last = SEGMENTS.partition("  two = ")
    explanation = explained(SEGMENTS, first + found + last.replace("zeros", "lows"))
    assert kinds(explanation) == ["constant-value"]


def test_a_scatter_that_applies_what_another_one_applies():
    other = SCATTERS.replace("to_apply=write", "to_apply=least")
    for pair, title in (
        ((SCATTERS, other), "overwrite became minimum in 1 scatter"),
        ((other, SCATTERS), "minimum became overwrite in 1 scatter"),
    ):
        explanation = explained(*pair)
        assert kinds(explanation) == ["other-reduction"]
        assert explanation.proved
        assert str(explanation.causes[0].title) == title


@pytest.mark.parametrize(
    ("before", "after", "further"),
    [
        ("reduce(y, zero), dimensions={0}", "reduce(y, low), dimensions={1}", "attribute"),
        ("{{0,1,2,3}}, dimensions", "{{0,2,1,3}}, dimensions", "replica-groups"),
        (
            "  two = f32[4] reduce(y, zero)",
            "  wave = f32[4,4] cosine(y)\n  two = f32[4] reduce(wave, low)",
            "extra-subgraph",
        ),
        (
            "  started = f32[4,4] all-reduce-start(y)",
            "  wave = f32[4,4] cosine(y)\n  started = f32[4,4] all-reduce-start(wave)",
            "extra-subgraph",
        ),
    ],
)
def test_what_else_differs_in_another_reduction_is_told_beside_it(before, after, further):
    square = REDUCTIONS.replace("[8,4]", "[4,4]").replace("[2,4]", "[1,4]")
    lines = square.splitlines(keepends=True)
    (k,) = (k for k, line in enumerate(lines) if before in line)
    lines[k] = lines[k].replace(before, after).replace("to_apply=add", "to_apply=max")
    for pair in ((square, "".join(lines)), ("".join(lines), square)):
        assert sorted(kinds(explained(*pair))) == sorted(["other-reduction", further])


def test_seed_attribute():
    explanation = explained(
        WHILE.replace("add(result, result)", 'custom-call(result), custom_call_target="r", seed=1'),
        WHILE.replace("add(result, result)", 'custom-call(result), custom_call_target="r", seed=2'),
    )
    assert kinds(explanation) == ["attribute"]


def test_dead_and_repeated_constants_are_noise():
    more = WHILE.replace(
        "  twice =", "  dead = f32[] constant(3)\n  again = s32[] constant(0)\n  twice ="
    )
    explanation = explained(WHILE, more)
    assert kinds(explanation) == ["dead-code"]
    assert explanation.diff.same


def test_what_nobody_knows_is_unexplained():
    other = text("pairs/growing_sequence", "A")
    explanation = explained(text("pairs/stable", "A"), other)
    assert explanation.proved or explanation.unexplained_share > 0
    if not explanation.proved:
        assert not str(explanation.verdict).startswith("An input")


GATED = """HloModule gated

ENTRY main {
  x = f32[4,8] parameter(0)
  h = f32[4] parameter(1)
  first = f32[4,4] slice(x), slice={[0:4], [0:4]}
  z = f32[4,4] logistic(first)
  second = f32[4,4] slice(x), slice={[0:4], [4:8]}
  r = f32[4,4] logistic(second)
  wide = f32[4,4] broadcast(h), dimensions={0}
  part = f32[4,4] multiply(GATE, wide)
  whole = f32[4,4] multiply(z, part)
  ROOT o = f32[4,4] tanh(whole)
}
"""


def test_an_operand_that_only_one_side_computes_is_told():
    a, b = (read_module(GATED.replace("GATE", gate), gate) for gate in "rz")
    for one, other, more, less in ((a, b, "A", "B"), (b, a, "B", "A")):
        explanation = explain_modules(one, other)
        (cause,) = explanation.causes
        assert cause.proved
        assert "takes r" in str(cause.title)
        assert f"in {more} and z" in str(cause.title)
        assert str(cause.title).endswith(f", which both sides compute, in {less}")
        assert "takes another tensor" in str(explanation.verdict.what)


def test_a_module_before_optimization_and_one_after_it_are_told_as_such():
    before = text("runs/demo", "D")
    name, rest = before.split(",", 1)
    after = f"{name}, is_scheduled=true,{rest}".replace(" multiply(", " maximum(", 1)
    assert str(explained(before, after).verdict).startswith("B is a module after optimization, the")
    assert str(explained(after, before).verdict).startswith("A is a module after optimization, the")
    assert "optimization" not in str(
        explained(after, after.replace(" maximum(", " minimum(")).verdict
    )
