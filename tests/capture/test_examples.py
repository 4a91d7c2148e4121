"""Every program of examples/scenarios computes the same with capture and without."""

import json
import re
from pathlib import Path

import pytest

from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("_"))
# One process for several programs, as most of its time goes into imports; those that set up
# the runtime have one each.
ALONE = [name for name in NAMES if "use_spmd" in (EXAMPLES / f"{name}.py").read_text()]
TOGETHER = [name for name in NAMES if name not in ALONE]
GROUPS = [TOGETHER[start::6] for start in range(6)] + [[name] for name in ALONE]


def run_examples(run_program, programs, tmp_path, names, level):
    analysis = tmp_path / f"analysis-{level}"
    done = run_program(
        programs / "examples.py",
        NAMES=",".join(names),
        STEPS="5",
        BLOCKS="1",
        BUCKET="0.1",
        PYTHONHASHSEED="0",
        PT_XLA_DEBUG_LEVEL="1",
        PT_XLA_DEBUG_FILE=str(analysis),
        XLAGRAPH=level,
        XLAGRAPH_DIR=str(tmp_path / f"run-{level}"),
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return results, re.findall(r"Graph Hash: (\w+)", analysis.read_text())


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_same_values_hashes_and_counters(programs, run_program, tmp_path, names):
    plain, plain_hashes = run_examples(run_program, programs, tmp_path, names, "0")
    assert [one["name"] for one in plain] == names
    assert all(one["UncachedCompile"] or one["CachedCompile"] for one in plain)
    results, hashes = run_examples(run_program, programs, tmp_path, names, "1")
    assert results == plain
    assert hashes == plain_hashes
    processes = read_run(tmp_path / "run-1").processes
    compiled = [s for p in processes for s in p.syncs if s.outcome == "compile"]
    assert len(compiled) == len(plain_hashes)  # counters are cleared by dynamo of torch_xla 2.6
    assert {note.what for p in processes for note in p.notes} <= {"looked away"}
