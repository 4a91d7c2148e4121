"""How long a run of real models takes to explain: nested FSDP on models of transformers.

    python benchmarks/transformers.py [NAME ...]

One line a run of fixtures/transformers: its graphs that are compared, the instructions of the
largest, how many comparisons are proved, and the processor time of ``xlagraph explain`` as a
process of its own, the least of three. ``fixtures/make_transformers.py`` makes the runs anew.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "fixtures" / "transformers"
TURNS = 3
Graph = dict[str, Any]
"""A graph of the JSON that docs/json.md describes."""


def explain(run: Path) -> tuple[float, list[Graph]]:
    """Processor seconds of one explanation, and its graphs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "xlagraph", "explain", "--json"]
    command += ["--no-cache", "-j", "1", str(run)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, capture_output=True, env=env)
    assert not done.stderr, done.stderr.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, json.loads(done.stdout)["graphs"]


def is_proved(graph: Graph) -> bool:
    """Whether the causes of a graph are known, and proved."""
    causes = graph["causes"]
    return bool(causes) and all(cause["proved"] for cause in causes)


def main() -> None:
    """Prints a table in Markdown."""
    print("| run | graphs compared | instructions | proved | seconds |")
    print("|---|---:|---:|---:|---:|")
    for name in sys.argv[1:] or sorted(path.name for path in RUNS.iterdir()):
        turns = [explain(RUNS / name) for _ in range(TURNS)]
        graphs = [graph for graph in turns[0][1] if graph["nearest"]]
        proved = sum(1 for graph in graphs if is_proved(graph))
        size = max(graph["instructions"] for graph in graphs)
        seconds = min(seconds for seconds, _ in turns)
        print(f"| {name} | {len(graphs)} | {size:,} | {proved} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
