"""Which rank a process is, by torch_xla or by the launcher's environment."""

from __future__ import annotations

import pytest

from xlagraph.capture.host.identity import Identity, from_environment
from xlagraph.run.reader import read_run

STEPS = """
import torch, torch_xla
x = torch.ones(4, device="xla")
for _ in range(3):
    x = x + 1
    torch_xla.sync()
"""


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, Identity(3, 8, 1, "RANK")),
        ({"RANK": "0", "WORLD_SIZE": "2"}, Identity(0, 2, 0, "RANK")),
        ({"RANK": "3"}, Identity(3, 0, 0, "RANK")),
        ({"RANK": "0"}, None),
        ({"RANK": "three", "WORLD_SIZE": "8"}, None),
        ({"RANK": "9", "WORLD_SIZE": "8"}, Identity(9, 0, 0, "RANK")),
        (
            {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1"},
            Identity(5, 16, 1, "SLURM_PROCID"),
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "16"}, None),  # a batch script, not srun
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            },
            Identity(2, 4, 0, "OMPI_COMM_WORLD_RANK"),
        ),
        (
            {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b,c"},
            Identity(1, 3, 0, "TPU_WORKER_ID"),
        ),
        (
            {"NEURON_PJRT_PROCESS_INDEX": "1", "NEURON_PJRT_PROCESSES_NUM_DEVICES": "32,32"},
            Identity(1, 2, 0, "NEURON_PJRT_PROCESS_INDEX"),
        ),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
            Identity(1, 2, 0, "RANK"),  # torchrun, one of it on each node
        ),
    ],
)
def test_the_launcher_says_which_rank_it_is(env, found):
    assert from_environment(env) == found


def test_a_process_of_its_own_has_the_launchers_rank(run_program, tmp_path):
    program = tmp_path / "steps.py"
    program.write_text(STEPS)
    run_program(program, XLAGRAPH="1", RANK="3", WORLD_SIZE="8", LOCAL_RANK="1")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    record = process.record
    assert (record.rank, record.world_size, record.local_rank) == (3, 8, 1)
    assert record.rank_source == "RANK"
    assert {sync.rank for sync in process.syncs} == {3}


def test_what_torch_xla_says_comes_first(run_program, tmp_path):
    program = tmp_path / "threads.py"
    program.write_text(
        "import torch, torch_xla\n"
        "def work(index):\n"
        "    x = torch.ones(4, device='xla') + 1\n"
        "    torch_xla.sync()\n"
        "if __name__ == '__main__':\n"
        "    torch_xla.launch(work)\n"
    )
    run_program(program, XLAGRAPH="1", CPU_NUM_DEVICES="2", RANK="3", WORLD_SIZE="8")
    processes = [one for one in read_run(tmp_path / "xlagraph-run").processes if one.syncs]
    assert {one.record.rank_source for one in processes} == {"torch_xla"}
    assert {sync.rank for one in processes for sync in one.syncs} == {0, 1}
