"""The training scripts of the catalogue do what it says: the first recompiles, the second not."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlagraph.catalogue import kinds
from xlagraph.cause.kinds import Kind
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

pytestmark = pytest.mark.torch_xla

AROUND = Path(__file__).with_name("around_programs.py")
PROGRAMS = [kind for kind in kinds().values() if "loader" in kind.before]
"""The others are JAX's."""
VARIABLES = {"sharding": {"CPU_NUM_DEVICES": "4"}}
NEVER_ALONE = {"own-graph"}
"""In a run that begins with it, it is a first graph; see tests/explain/test_module_pairs.py."""
NARROWER = {"extra-subgraph": "call-option"}
"""With lines the program's piece is told to be a library's, called with other arguments."""


def explained(run_program, folder: Path, kind: Kind, program: str):
    variables = VARIABLES.get(kind.id, {})
    run_program(AROUND, PROGRAM=program, XLAGRAPH="1", XLAGRAPH_DIR=str(folder), **variables)
    return explain_run(read_run(folder))


@pytest.mark.parametrize("kind", [k for k in PROGRAMS if k.id not in NEVER_ALONE], ids=str)
def test_the_first_program_recompiles_for_this_reason(kind: Kind, run_program, tmp_path):
    run = explained(run_program, tmp_path / "before", kind, kind.before)
    found = [cause.kind for n in run.graphs if n.explanation for cause in n.explanation.causes]
    told = {one.id for one in (*found, *(group.kind for group in run.groups))}
    assert told & {kind.id, NARROWER.get(kind.id)}, str(run.verdict)


@pytest.mark.parametrize("kind", [kind for kind in PROGRAMS if kind.after], ids=str)
def test_the_second_program_does_not(kind: Kind, run_program, tmp_path):
    run = explained(run_program, tmp_path / "after", kind, kind.after)
    assert not run.has_problem, str(run.verdict)
