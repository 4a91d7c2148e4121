"""Time and peak memory of explaining runs of 8, 64 and 500 large graphs.

Takes a run made by `make_run.py` and explains its first graphs with one worker and with two, with
an empty cache and then with a full one. Memory is that of the command and all its workers together
(PSS: shared pages counted once), sampled, and of the command alone; processor time is theirs too::

    python benchmarks/make_run.py /tmp/run500 --graphs 500
    python benchmarks/runs.py /tmp/run500
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SIZES = (8, 64, 500)
JOBS = (1, 2)
SAMPLE_SECONDS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Measured:
    """What one command took."""

    seconds: float
    processor: float
    peak_mb: float
    """Of the command and its workers together."""
    command_mb: float
    """Of the command alone."""


def family(parent: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(rest[1]), []).append(int(entry.name))
    found, stack = [], [parent]
    while stack:
        found.append(stack.pop())
        stack += children.get(found[-1], [])
    return found


def sample(pid: int) -> tuple[float, float]:
    """Processor seconds and megabytes (PSS) of a process now."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    pss = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return (int(fields[11]) + int(fields[12])) / TICKS, pss / 1024


def measure(run: Path, jobs: int) -> Measured:
    """Explains a run as a user does."""
    command = [sys.executable, "-m", "xlagraph", "explain", str(run), "-j", str(jobs)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak, alone, processor = 0.0, 0.0, dict[int, float]()
    while process.poll() is None:
        taken = {pid: sample(pid) for pid in family(process.pid)}
        peak = max(peak, sum(memory for _, memory in taken.values()))
        alone = max(alone, taken[process.pid][1])
        processor.update({pid: spent for pid, (spent, _) in taken.items() if spent})
        time.sleep(SAMPLE_SECONDS)
    if process.returncode not in (0, 1):
        raise SystemExit(f"xlagraph explain ended with {process.returncode}")
    return Measured(time.monotonic() - began, sum(processor.values()), peak, alone)


def first_graphs(run: Path, number: int, folder: Path) -> None:
    """A run folder with the first graphs of another; the texts are linked."""
    (records,) = run.glob("records-*.jsonl")
    lines = records.read_text().splitlines(keepends=True)
    kept, graphs = [], 0
    for line in lines:
        graphs += '"record":"graph"' in line
        kept.append(line)
        if graphs == number:
            break
    folder.mkdir()
    (folder / records.name).write_text("".join(kept) + '{"record":"end"}\n')
    shutil.copytree(run / "graphs", folder / "graphs", copy_function=os.link)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--graphs", type=int, nargs="*", default=SIZES)
    parser.add_argument("--workers", type=int, nargs="*", default=JOBS)
    arguments = parser.parse_args()
    print("| graphs | workers | cache | seconds | processor seconds | peak MB | of the command |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for number in arguments.graphs:
        for jobs in arguments.workers:
            with tempfile.TemporaryDirectory(dir=arguments.run.parent) as folder:
                run = Path(folder) / "run"
                first_graphs(arguments.run, number, run)
                for cache in ("cold", "cached"):
                    one = measure(run, jobs)
                    print(
                        f"| {number} | {jobs} | {cache} | {one.seconds:.1f} "
                        f"| {one.processor:.1f} | {one.peak_mb:.0f} | {one.command_mb:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
