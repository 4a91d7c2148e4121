"""What capture adds to a stable step, against no capture and against torch_xla's own means.

    python benchmarks/capture_overhead.py [--sizes 1000,10000,40000] [--steps 300] [--json F]

Each size's step is a chain of that many instructions, compiled once; then come stable steps.
Levels are paired in one process: blocks of steps with the session listening alternate with
blocks in which the hooks are out, and the difference of the blocks' medians is reported,
beside the CPU time spent inside the hooks themselves. torch_xla's own means are set by
environment variables that are read once, so each has its process, with the same program;
their overhead is the difference from a process without any.

Import: the start of an interpreter with and without the .pth file, alternating.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = 20
MICRO = 1e6
BUDGET_US = 50.0
MEANS = {
    "none": {},
    "PT_XLA_DEBUG_LEVEL=2": {"PT_XLA_DEBUG_LEVEL": "2"},
    "XLA_SAVE_TENSORS_FILE (hlo)": {"XLA_SAVE_TENSORS_FMT": "hlo"},
}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1000,10000,40000")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", default="")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def _environment(extra: dict[str, str]) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("XLAGRAPH")}
    # Unoptimized code: a long chain compiles in seconds, and stable steps do not change.
    flags = "--xla_backend_optimization_level=0"
    return {**env, "PJRT_DEVICE": "CPU", "XLA_FLAGS": flags, **extra}


def _child(kind: str, size: int, steps: int, extra: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", kind, "--size", str(size)]
    done = subprocess.run(
        [*command, "--steps", str(steps)],
        env=_environment(extra),
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _step(size: int) -> float:
    """One training step's worth of tracing and its sync; the seconds that the sync call took."""
    import torch
    import torch_xla

    value = _step.input  # type: ignore[attr-defined]
    for _ in range(size):
        value = torch.sin(value)
    start = time.perf_counter()
    torch_xla.sync()
    spent = time.perf_counter() - start
    torch_xla.core.xla_model.wait_device_ops()
    return spent


def _prepare(size: int) -> None:
    import torch
    import torch_xla

    _step.input = torch.ones(4, 4, device="xla")  # type: ignore[attr-defined]
    torch_xla.sync()
    for _ in range(3):
        _step(size)


def _run_plain(size: int, steps: int) -> dict[str, float]:
    _prepare(size)
    return {"sync_us": MICRO * statistics.median(_step(size) for _ in range(steps))}


def _run_paired(level: int, size: int, steps: int) -> dict[str, float]:
    """Blocks with and without capture alternate; also the time spent inside the hooks."""
    import xlagraph
    from xlagraph.capture import process

    spent: list[float] = []
    on: list[float] = []
    off: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        xlagraph.capture(folder, level=level, arm_steps=0),
    ):
        _prepare(size)
        hub = process.the_hub()
        assert hub is not None
        for number in range(max(2, steps // BLOCK)):
            if number % 2:
                hub.uninstall()
                off += [_step(size) for _ in range(BLOCK)]
                hub.install()
            else:
                on += [_step(size) for _ in range(BLOCK)]
        spent = _hook_times(hub, size, min(steps, 2 * BLOCK))
    return {
        "sync_us": MICRO * statistics.median(off),
        "added_us": MICRO * (statistics.median(on) - statistics.median(off)),
        "hooks_us": MICRO * statistics.median(spent),
    }


def _hook_times(hub: object, size: int, steps: int) -> list[float]:
    """CPU seconds inside the hooks, a step: what other programs of the machine do not change.

    Measured around the hooks, so with two clock reads (2 us) more.
    """
    guard = hub.guard  # type: ignore[attr-defined]
    inner = guard.run
    total = [0.0]
    depth = [0]

    def run(name: str, hook: object, *arguments: object) -> object:
        if name != "sync" or depth[0]:  # a step's hooks, not what they call
            return inner(name, hook, *arguments)
        depth[0] += 1
        start = time.thread_time()
        try:
            return inner(name, hook, *arguments)
        finally:
            total[0] += time.thread_time() - start
            depth[0] -= 1

    guard.run = run
    found: list[float] = []
    for _ in range(steps):
        total[0] = 0.0
        _step(size)
        found.append(total[0])
    guard.run = inner
    return found


def _import_seconds(extra: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *extra, "-c", "pass"], env=env, check=True)
    return time.perf_counter() - start


def _import_cost(rounds: int = 40) -> dict[str, float]:
    """Interpreter start with the .pth read and not, variable unset; milliseconds."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("XLAGRAPH")}
    line = (Path(__file__).parent.parent / "xlagraph_autostart.pth").read_text().strip()
    repeats = 10000
    start = time.perf_counter()
    code = compile(line, "pth", "exec")
    for _ in range(repeats):
        exec(code, {})
    line_us = (time.perf_counter() - start) / repeats * MICRO
    starts = [_import_seconds([], env) for _ in range(rounds)]
    return {"start_ms": 1e3 * statistics.median(starts), "pth_line_us": line_us}


def _measure(size: int, steps: int) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for level in (1, 2):
        rows[f"XLAGRAPH={level}"] = _child(f"level{level}", size, steps, {})
    with tempfile.TemporaryDirectory() as folder:
        for name, variables in MEANS.items():
            extra = dict(variables)
            if "XLA_SAVE_TENSORS_FMT" in extra:
                extra["XLA_SAVE_TENSORS_FILE"] = f"{folder}/saved"
            rows[name] = _child("plain", size, max(20, steps // 10), extra)
            rows[name]["added_us"] = rows[name]["sync_us"] - rows["none"]["sync_us"]
    return rows


def main() -> None:
    """Print a table; with ``--json``, write the figures too. Exit code 1 over the budget."""
    options = _parse()
    if options.child == "plain":
        print(json.dumps(_run_plain(options.size, options.steps)))
        return
    if options.child:
        level = int(options.child.removeprefix("level"))
        print(json.dumps(_run_paired(level, options.size, options.steps)))
        return
    results: dict[str, object] = {"import": _import_cost()}
    print(f"import: {results['import']}")
    worst = 0.0
    print(f"{'instructions':>12}  {'what':30} {'sync us':>10} {'added us':>10} {'in hooks us':>12}")
    for size in map(int, options.sizes.split(",")):
        rows = _measure(size, options.steps)
        results[str(size)] = rows
        worst = max(worst, rows["XLAGRAPH=1"]["hooks_us"])
        for name, row in rows.items():
            hooks = f"{row['hooks_us']:12.1f}" if "hooks_us" in row else ""
            print(f"{size:12d}  {name:30} {row['sync_us']:10.1f} {row['added_us']:10.1f} {hooks}")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=2) + "\n")
    if worst >= BUDGET_US:
        sys.exit(f"level 1 spends {worst:.1f} us a step in its hooks, {BUDGET_US:.0f} allowed")


if __name__ == "__main__":
    main()
