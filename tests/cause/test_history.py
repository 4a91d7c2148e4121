"""What is training and what is warm-up, on runs written for the question."""

from __future__ import annotations

import dataclasses

from xlagraph.cause.history import history_of
from xlagraph.cause.run_explain import explain_run
from xlagraph.run.reader import Run, read_run
from xlagraph.run.records import FORMAT_VERSION, Frame, GraphRecord, ProcessRecord, SyncRecord
from xlagraph.run.writer import RunWriter

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


def test_a_sync_behind_the_loop_does_not_make_it_warm_up(tmp_path):
    run = write_run(tmp_path, [(20, size, 900) for size in range(2, 12)] + [(30, 2, 30)])
    assert history_of(run).first_step == 0
    assert problems(run) == 8, "the second may still be state that the first step brings"


def test_an_evaluation_with_more_steps_than_training(tmp_path):
    run = write_run(tmp_path, [(20, size, 900) for size in range(2, 12)] + [(40, 30, 300)] * 60)
    assert history_of(run).first_step == 0
    assert problems(run) >= 8


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
