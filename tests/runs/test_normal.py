"""Programs whose graphs are several by design, and others that only look like them, run live."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest
import torch_programs

from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

PROGRAMS = Path(__file__).parent / "programs"
pytestmark = [
    pytest.mark.torch_xla,
    pytest.mark.skipif(
        importlib.util.find_spec("torch_xla") is None, reason="needs the capture extra"
    ),
]
NORMAL = {
    "accumulation": "graphs by design (micro-batch, accumulate, update); stable",
    "accumulation_two_lines": "graphs by design (micro-batch, accumulate, update); stable",
    "scalars_accumulated": "graphs by design (micro-batch, accumulate, step at ",
    "evaluation_by_helper": "graphs by design (training, evaluation); stable",
    "sanity_check_first": "graphs by design (evaluation, training); stable",
    "two_optimizers": "graphs by design (update of ",
    "own_sync_line": "graphs by design (training, step at ",
    "metric_read_apart": "graphs by design (training, evaluation); stable",
    "read_under_loader": "Stable after warm-up: 2 compiles,",
    "truncated_window": "graphs by design (evaluation, training); stable",
    "penalty_every_third": "Stable: 2 compiles,",
    "target_every_fourth": "Stable: 2 compiles,",
    "target_copied": "Stable: 3 compiles,",
    "frozen_copy": "Stable after warm-up: 2 compiles,",
    "lookahead_in_buckets": "Stable: 5 compiles,",
    "average_of_copy": "graphs by design (training, step at ",
    "averaged_model": "Stable: 5 compiles,",
    "average_later": "graphs by design (update at ",
    "momentum_with_decay": "Stable after warm-up: 2 compiles,",
    "moving_average": "Stable after warm-up: 2 compiles,",
    "unfreezing": "Stable: 4 compiles,",
    "stages_accumulated": "graphs by design (micro-batch, accumulate, update at ",
    "unfreezing_in_stages": "Stable: 9 compiles,",
    "network_grows": "Stable: 4 compiles,",
    "coin_of_two": "Stable: 3 compiles,",
    "sampler": "graphs by design (training, evaluation, evaluation at the end of each ",
    "adapters": "graphs by design (update of one.0.bias and 3 more, evaluation, ",
    "length_buckets": "Stable: 4 compiles,",
    "progressive_resizing": "Stable: 4 compiles,",
    "evaluation_in_buckets": "graphs by design (training, evaluation); stable",
    "evaluation_gathers": "graphs by design (training, evaluation, ",
    "longer_rollouts": "Stable: 3 compiles,",
    "loops_in_buckets": "Stable: 3 compiles,",
    "widths_and_logs": "Stable: 8 compiles,",
    "left_by_validation": "graphs by design (training, evaluation, training at the start ",
    "lookahead_copied": "Stable: 3 compiles,",
    "stages_of_one_function": "Stable: 5 compiles,",
    "larger_and_unfrozen": "graphs by design (update at ",
    "averaged_by_chance": "Stable: 2 compiles,",
    "coins_of_two_layers": "Stable: 5 compiles,",
    "kept_before_evaluation": "graphs by design (training, evaluation); stable",
    "kept_first_of_epoch": "graphs by design (training, evaluation); stable",
    "norm_every_fifth": "Stable: 2 compiles,",
    "sizes_with_unfreezing": "Stable: 2 compiles,",
    "probe_and_resize": "Stable: 10 compiles,",
    "rollouts_of_three": "Stable: 3 compiles,",
    "head_returns": "Stable: 4 compiles,",
    "spmd": "Stable after warm-up: 2 compiles,",
    "spmd_mesh": "Stable after warm-up: 2 compiles,",
}
PROBLEMS = {
    "kv_cache": 7,
    "shapes_keep_compiling": 11,
    "late_state": 2,
    "rotating_shapes": 3,
    "evaluation_grows": 4,
    "evaluation_odd_batch": 1,
    "average_of_all": 5,
    "short_window": 1,
    "skipped_updates": 1,
    "layers_dropped": 2,
    "accumulation_leak": 7,
    "branch_returns": 1,
    "deeper_and_deeper": 5,
    "batch_doubles": 1,
    "sizes_in_turn": 2,
    "checkpoint_reads": 5,
    "part_of_a_table": 3,
    "solver_reads": 10,
    "coins_in_a_loop": 6,
    "coins_drawn": 3,
    "pool_by_chance": 5,
    "groups_of_batches": 3,
    "steps_of_clients": 3,
    "layers_dropped_late": 2,
    "layers_copied": 4,
    "adapters_mixed": 7,
    "longer_each_epoch": 5,
    "loops_of_any_length": 5,
    "stage_reads": 1,
    "logs_get_longer": 8,
    "larger_each_epoch": 10,
    "unfreezes_each_epoch": 10,
    "state_not_detached": 6,
    "history_retained": 7,
    "loops_that_draw": 6,
    "epochs_without_sync": 9,
    "hooks_of_each_call": 7,
}
"""How many compiles beyond warm-up there are."""
MEANT = {
    "averaged_model": "Changed in step 9 and stayed so: ",
    "penalty_every_third": "In a fixed order since step 1: ",
    "target_every_fourth": "In a fixed order since step 3: a target network or average moves ",
    "target_copied": "In a fixed order since step 2: one input here is two inputs there at ",
    "lookahead_in_buckets": "In turn since steps 2, 10: an input comes in 2 sizes (",
    "length_buckets": "In turn since steps 1, 3, 4: an input comes in 3 sizes (",
    "evaluation_in_buckets": "In turn since steps 1, 3, 4: an input comes in 3 sizes (",
    "progressive_resizing": "Changed in steps 14, 28 and stayed so: an input has another size in ",
    "coin_of_two": "One of two in each step since step 2: tanh is computed in some steps only at ",
    "larger_and_unfrozen": "Changed in steps 11, 22 and stayed so: parameters are trained from ",
    "network_grows": "Changed in step 11 and stayed so: a part of the model is trained from ",
    "longer_rollouts": "Changed in steps 9, 18 and stayed so: ",
    "widths_and_logs": "In turn since steps 1, 2, 3: an input comes in 3 sizes (",
    "loops_in_buckets": "In turn since step 2: an input comes in ",
    "lookahead_copied": "In a fixed order since step 5: ",
    "stages_of_one_function": "Changed in step 11 and stayed so: some steps use tensors that ",
    "unfreezing_in_stages": "Changed in step 31 and stayed so: parameters are trained from ",
    "stages_accumulated": "Changed in steps 60, 61 and stayed so: a tensor is kept from then on",
    "averaged_by_chance": "Settled since step 2: ",
    "coins_of_two_layers": "Settled since step 7: ",
    "kept_before_evaluation": "Settled since step 7: ",
    "kept_first_of_epoch": "Settled since step 1: ",
    "rollouts_of_three": "Settled since step 4: ",
    "norm_every_fifth": "Settled since step 4: ",
    "head_returns": "Settled since step ",
    "probe_and_resize": "Changed in steps 24, 25 and stayed so: an input has another size in ",
    "sizes_with_unfreezing": "Settled since step 9: ",
    "unfreezing": "Changed in step 5 and stayed so: parameters are trained from then on, or ",
}
"""What is said of changes that are made on purpose."""

REASONS = {
    "checkpoint_reads": "early-execution at checkpoint_reads.py:15",
    "part_of_a_table": "input-shape at part_of_a_table.py:12",
    "solver_reads": "extra-subgraph at solver_reads.py:20",
    "groups_of_batches": "accumulation-count at groups_of_batches.py:19",
    "steps_of_clients": "missing-barrier at steps_of_clients.py:16",
    "layers_dropped": "skipped-block at layers_dropped.py:17",
    "layers_dropped_late": "skipped-block at layers_dropped_late.py:17",
    "coins_in_a_loop": "other-operand at coins_in_a_loop.py:26",
    "coins_drawn": "other-operand at coins_drawn.py:23",
    "pool_by_chance": "added-input at pool_by_chance.py:25",
    "state_not_detached": "growing-graph at state_not_detached.py:22",
    "history_retained": "growing-graph at history_retained.py:18",
    "loops_that_draw": "extra-subgraph at loops_that_draw.py:20",
    "epochs_without_sync": "growing-graph at epochs_without_sync.py:18",
    "hooks_of_each_call": "repeated-hook at hooks_of_each_call.py:25",
}
"""Graphs of one reason, whatever else differs in some of them as its consequence."""


def explained(program, folder, **options):
    """The explanation of a program's run, and its exit status."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("XLAGRAPH")}
    env |= {
        "XLAGRAPH": "1",
        "XLAGRAPH_DIR": str(folder / "run"),
        "XLAGRAPH_SUMMARY": "0",
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": torch_programs.FAST,
    }
    done = torch_programs.run(PROGRAMS / program, env=env, cwd=folder, **options)
    return explain_run(read_run(folder / "run")), done.returncode


@pytest.mark.parametrize("name", NORMAL)
def test_graphs_by_design_are_no_alarm(name, tmp_path):
    run, status = explained(f"normal/{name}.py", tmp_path)
    assert status == 0
    told = re.sub(r"^\d+ (?=graphs? by design)", "", str(run.verdict))
    assert told.startswith(NORMAL[name])
    assert not run.has_problem
    assert any(group.meant for group in run.groups) == (name in MEANT)
    notes = "".join(map(str, run.verdict.notes))  # in the order of what they cost
    assert MEANT.get(name, "") in notes


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_never_taken_for_normal(name, tmp_path):
    run, status = explained(f"problem/{name}.py", tmp_path)
    assert status == 0
    assert sum(g.compiles for g in run.groups if not g.expected) == PROBLEMS[name]
    assert run.has_problem
    reasons = [
        f"{group.kind} at {Path(group.place.line.file).name}:{group.place.line.line}"
        for group in run.groups
        if name in REASONS and not group.expected
    ]
    assert "".join(reasons) == REASONS.get(name, "")


def test_a_program_that_an_exception_ended_is_not_stable(tmp_path):
    run, status = explained("problem/failed.py", tmp_path, whole_end=True)
    assert status == 1
    assert str(run.verdict) == (
        f"No problem seen in 6 steps: 1 compile, {run.spent} of warm-up; but RuntimeError ended "
        "the program, so it is not known to be stable."
    )
    assert run.has_problem


def test_what_comes_of_a_history_that_grows_is_one_cause(tmp_path):
    run, status = explained("problem/history_grows.py", tmp_path)
    assert status == 0
    (problem,) = [group for group in run.groups if not group.expected]
    assert (problem.kind.id, problem.further) == ("growing-graph", ())
    assert "each step takes in 2 tensors more (2 x f32[21]) than the one" in str(problem.title)
    assert str(problem.title).endswith("; kept by LBFGS as old_dirs, old_stps, ro")
    assert (problem.place.line.line, problem.compiles) == (22, 22)


def test_an_average_that_is_never_detached_is_told_where_it_is_made(tmp_path):
    run, status = explained("problem/average_not_detached.py", tmp_path)
    assert status == 0
    problem = next(group for group in run.groups if group.kind.id == "growing-graph")
    assert problem.place.line.line == 17
    assert (
        str(problem.fix_in_short)
        == "Detach it before its next use: self.average = self.average.detach()."
    )


def test_every_program_is_tried():
    there = {f"{path.parent.name}/{path.stem}" for path in PROGRAMS.glob("*/*.py")}
    tried = {f"normal/{name}" for name in NORMAL} | {f"problem/{name}" for name in PROBLEMS}
    told = {f"problem/{name}" for name in ("average_not_detached", "failed", "history_grows")}
    assert there - tried == told
