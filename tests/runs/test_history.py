"""What is training and what is warm-up, on runs written for the question."""

from __future__ import annotations

import dataclasses

from real_modules import FIXTURES

from xlagraph.run.reader import Run, read_run
from xlagraph.run.records import FORMAT_VERSION, Frame, GraphRecord, ProcessRecord, SyncRecord
from xlagraph.run.writer import RunWriter
from xlagraph.runs.explain import explain_run
from xlagraph.runs.steps.history import history_of

MODULE = """HloModule m{size}

ENTRY %main (p: f32[{size},4]) -> f32[{size},4] {{
  %p = f32[{size},4]{{1,0}} parameter(0)
  %c = f32[] constant(2)
  %b = f32[{size},4]{{1,0}} broadcast(f32[] %c), dimensions={{}}
  %m = f32[{size},4]{{1,0}} multiply(f32[{size},4]{{1,0}} %p, f32[{size},4]{{1,0}} %b)
  ROOT %e = f32[{size},4]{{1,0}} exponential(f32[{size},4]{{1,0}} %m)
}}
"""


def write_run(folder, plan, ranks=1):
    """A run of steps: line of the program, size of its graph, IR nodes."""
    for rank in range(ranks):
        process = ProcessRecord(FORMAT_VERSION, rank, ranks, "h", 10 + rank, 1.0, (), 1, ())
        writer = RunWriter(folder, process, 1 << 30)
        known = set()
        for index, (line, size, nodes) in enumerate(plan):
            text = MODULE.format(size=size).encode()
            digest = writer.store_graph(text)
            is_new = digest not in known
            known.add(digest)
            sync = SyncRecord(
                index=index,
                step=index,
                rank=rank,
                time=100.0 + index,
                seconds=0.01,
                kind="step",
                entry="sync",
                outcome="compile" if is_new else "hit",
                compile_seconds=0.5 if is_new else 0.0,
                graphs=(digest,),
                graph_is_inferred=not is_new,
                fingerprint=(nodes,),
                call_site=(Frame("train.py", line, "main"),),
                live_tensors=(),
                buckets=(),
            )
            writer.write(sync)
            if is_new:
                writer.write(GraphRecord(digest, index, f"m{size}", len(text), (), (), ()))
        writer.close()
    return read_run(folder)


def problems(run):
    return sum(g.compiles for g in explain_run(run).groups if not g.expected)


TRAINING = [(20, 8, 900)] * 10


def test_setting_up_layer_by_layer_is_not_training(tmp_path):
    setting_up = [(5, size, 20) for size in range(2, 7)]
    run = write_run(tmp_path, setting_up + TRAINING)
    assert history_of(run).first_step == 5
    assert problems(run) == 0


def test_a_line_that_sets_up_is_no_kind_of_step():
    """Wrapping layer by layer compiles at lines of its own, before the training begins."""
    explained = explain_run(read_run(FIXTURES / "runs" / "demo_fixed"))
    assert [node.step < explained.first_step for node in explained.graphs] == [True] * 3 + [
        False
    ] * 2
    assert not any(node.by_design or node.part for node in explained.graphs[:3])
    assert str(explained.verdict).startswith("Stable after warm-up: 5 compiles")


def test_a_sync_behind_the_loop_does_not_make_it_warm_up(tmp_path):
    run = write_run(tmp_path, [(20, size, 900) for size in range(2, 12)] + [(30, 2, 30)])
    assert history_of(run).first_step == 0
    assert problems(run) == 9, "the second has another input, which is no state that a step brings"


def test_an_evaluation_with_more_steps_than_training(tmp_path):
    run = write_run(tmp_path, [(20, size, 900) for size in range(2, 12)] + [(40, 30, 300)] * 60)
    assert history_of(run).first_step == 0
    assert problems(run) >= 8


TRAIN, STEP, OTHER = "main", "train_step", "evaluate"


def frames(*places):
    """A call site, outermost first."""
    return tuple(Frame("train.py", line, function) for function, line in reversed(places))


def explained_run(folder, plan):
    """The explanation of syncs: call site, kind, size of the graph (0: nothing was pending)."""
    process = ProcessRecord(FORMAT_VERSION, 0, 1, "h", 10, 1.0, (), 1, ())
    writer = RunWriter(folder, process, 1 << 30)
    known, step = set(), 0
    for index, (site, kind, size) in enumerate(plan):
        text = MODULE.format(size=size).encode()
        digest = writer.store_graph(text) if size else ""
        is_new = digest not in known
        known.add(digest)
        sync = SyncRecord(
            index=index,
            step=step,
            rank=0,
            time=100.0 + index,
            seconds=0.01,
            kind=kind,
            entry="item" if kind == "value" else "sync",
            outcome=("compile" if is_new else "hit") if size else "empty",
            compile_seconds=0.5 if is_new else 0.0,
            graphs=(digest,) if size else (),
            graph_is_inferred=not is_new,
            fingerprint=(size * 10,) if size else (),
            call_site=site,
            live_tensors=(),
            buckets=(),
        )
        step += kind == "step"
        writer.write(sync)
        if is_new and size:
            writer.write(GraphRecord(digest, index, f"m{size}", len(text), (), (), ()))
    writer.close()
    return explain_run(read_run(folder))


STEPS = [(frames((TRAIN, 20), (STEP, 9)), "step", 8)] * 5
BEHIND = (frames((TRAIN, 22), (OTHER, 5)), "value", 3)
BEFORE = (frames((TRAIN, 18)), "value", 3)


def test_a_value_read_behind_the_steps_begins_another_part(tmp_path):
    explained = explained_run(tmp_path, [*STEPS, BEHIND, BEHIND, *STEPS, BEHIND])
    assert not explained.has_problem
    late = [g for g in explained.groups if "another part of the program" in str(g.title)]
    assert [(g.kind.id, g.compiles) for g in late] == [("first-graph", 1)]
    assert "train.py:5" in str(late[0].title)


def test_steps_that_are_far_larger_in_a_later_stage_do_not_make_the_first_one_small(tmp_path):
    later = [(STEPS[0][0], "step", 30)] * 9
    explained = explained_run(tmp_path, [*STEPS * 2, BEHIND, *later, BEHIND])
    late = [g for g in explained.groups if "another part of the program" in str(g.title)]
    assert [(g.kind.id, g.compiles) for g in late] == [("first-graph", 1)]


def test_another_graph_at_the_same_place_is_a_problem(tmp_path):
    other = (*BEHIND[:2], 4)
    explained = explained_run(tmp_path, [*STEPS, BEHIND, *STEPS, other])
    assert sum(g.compiles for g in explained.groups if not g.expected) == 1


def test_a_value_read_before_the_end_of_the_step_is_no_other_part(tmp_path):
    explained = explained_run(tmp_path, [*STEPS, BEFORE, *STEPS])
    assert sum(g.compiles for g in explained.groups if not g.expected) == 1


def test_a_value_read_behind_steps_of_other_sizes_is_another_part(tmp_path):
    """The first step does less than others, as where each has as many turns as its data asks."""
    first, other = ((*STEPS[0][:2], size) for size in (5, 12))
    steps = [first, STEPS[0], other, *STEPS]
    assert not problems_at(explained_run(tmp_path, [*steps, BEHIND, *STEPS]), "train.py:5")
    (bad,) = problems_at(explained_run(tmp_path / "cut", [*steps, BEFORE, *STEPS]), "train.py:18")
    assert bad.sync_kind == "value"


def problems_at(explained, place):
    bad = {digest for group in explained.problems for digest in group.graphs}
    return [n for n in explained.graphs if n.digest in bad and str(n.call_site) == place]


def test_a_loop_that_begins_with_its_sync_tells_nothing_by_its_lines(tmp_path):
    site = frames((TRAIN, 10))
    steps = [(site, "step", 8)] * 5
    read = (frames((TRAIN, 12), ("log", 5)), "value", 3)
    explained = explained_run(tmp_path, [(site, "step", 0), *steps, read, *steps])
    assert sum(g.compiles for g in explained.groups if not g.expected) == 1
    explained = explained_run(tmp_path / "small", [(site, "step", 1), *steps, read, *steps])
    bad = [
        str(node.call_site)
        for g in explained.groups
        if not g.expected
        for node in explained.graphs
        if node.digest in g.graphs
    ]
    assert "train.py:5" in bad


class Counted(tuple):
    """Syncs that count how often somebody goes through all of them."""

    passes = 0

    def __iter__(self):
        type(self).passes += 1
        return super().__iter__()


def test_syncs_are_gone_through_equally_often_whatever_the_number_of_graphs(tmp_path):
    passes = []
    for graphs in (3, 30):
        plan = [(20, 2 + k % graphs, 900) for k in range(60)]
        run = write_run(tmp_path / str(graphs), plan, ranks=4)
        counted = [dataclasses.replace(p, syncs=Counted(p.syncs)) for p in run.processes]
        Counted.passes = 0
        explained = explain_run(Run(run.name, run.path, tuple(counted)))
        assert len(explained.graphs) == graphs
        passes.append(Counted.passes)
    assert passes[0] == passes[1]
