"""What capture adds to a stable step, against no capture and against torch_xla's own means.

    python benchmarks/capture_overhead.py [--sizes 1000,10000,40000] [--steps 300] [--json F]

Each size's step is a chain of that many instructions, compiled once; then come stable steps.
Blocks of steps with the hooks in alternate with blocks without, in one process, and the first
steps of each block are left out. "In hooks" is the time of the hooked call without that of
torch_xla's function inside it, less the same difference without hooks (what the clocks and
their functions cost): it is measured step by step, so that it is sharp where the difference
between blocks ("added") drowns in noise. Most steps are alike, so the median is shown; "mean" is
of a block of ``--steps`` steps, with those among them that write what the others left, in CPU
time of the thread, for XLA's threads push it off its core now and then. Caches are as cold as
they are in training: the step has just been traced and synced. torch_xla's own means are set
by environment variables that are read once, so each has its process, with the same program;
their overhead is the difference from a process without any. FSDP's step is that of
examples/fsdp_bucket_carry.py.

Lines: the levels but ``watch`` have torch_xla keep the Python stack of each operation, which costs
tracing time. It is switched on and off in turns, in one process without any hook; shown is the
thread's CPU time of a whole step, traced and synced. Size 0 is a model of 20 layers under AdamW.

Import: what the line of the .pth file takes with the variable unset.
"""

# ruff: noqa: SLF001 - what is measured has private names

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xlagraph.capture.host.levels import LEVELS

BLOCK = 30
TURNS = 10
"""Blocks with lines, and as many without."""
LAYERS = 20
SETTLE = 8
"""Steps at a block's start that are left out: the first go the long way."""
WARM_UP = 20
EXAMPLE = Path(__file__).parent.parent / "examples" / "fsdp_bucket_carry.py"
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


class _Probe:
    """Clocks around the hooked step marker and around torch_xla's own inside it."""

    def __init__(self, xlac: Any, hub: Any) -> None:
        self.xlac, self.hub = xlac, hub
        self.within = self.total = 0.0
        self.clock = time.perf_counter
        hub.uninstall()
        original = xlac._xla_step_marker

        def inner(*arguments: object, **options: object) -> object:
            start = self.clock()
            result = original(*arguments, **options)
            self.within = self.clock() - start
            return result

        self.inner = xlac._xla_step_marker = inner

    def block(
        self, step: Callable[[], object], *, hooks: bool, steps: int = BLOCK
    ) -> list[tuple[float, float]]:
        """Seconds of each step's marker, and those of them that are not torch_xla's."""
        if hooks:
            self.hub.install()
        marker = self.xlac._xla_step_marker

        def outer(*arguments: object, **options: object) -> object:
            start = self.clock()
            result = marker(*arguments, **options)
            self.total = self.clock() - start
            return result

        self.xlac._xla_step_marker = outer
        found = []
        for _ in range(steps):
            step()
            found.append((self.total, self.total - self.within))
        self.xlac._xla_step_marker = marker
        if hooks:
            self.hub.uninstall()
        return found[SETTLE:]


def _run_paired(level: str, size: int, steps: int) -> dict[str, float]:
    """A chain of ``size`` instructions, or for size 0 an FSDP step."""
    import xlagraph
    from xlagraph.capture import process

    with (
        tempfile.TemporaryDirectory() as folder,
        xlagraph.capture(folder, level=level, arm_steps=0),
    ):
        import torch_xla

        if size:
            _prepare(size)
        step = (lambda: _step(size)) if size else _fsdp_step()
        probe = _Probe(torch_xla._XLAC, process.the_hub())
        plan = [(time.perf_counter, BLOCK)] * max(1, steps // (2 * BLOCK))
        rows: dict[tuple[bool, bool], list[tuple[float, float]]] = defaultdict(list)
        for clock, number in (*plan, (time.thread_time, steps)):
            for hooks in (True, False):  # from one line, as a training loop would
                probe.clock = clock
                found = probe.block(step, hooks=hooks, steps=number)
                rows[clock is time.thread_time, hooks] += found
    middle = [
        [statistics.median(column) for column in zip(*rows[False, hooks], strict=True)]
        for hooks in (True, False)
    ]
    mean = [statistics.mean(own for _, own in rows[True, hooks]) for hooks in (True, False)]
    return {
        "sync_us": MICRO * middle[1][0],
        "added_us": MICRO * (middle[0][0] - middle[1][0]),
        "hooks_us": MICRO * (middle[0][1] - middle[1][1]),
        "mean_us": MICRO * (mean[0] - mean[1]),
    }


def _fsdp_step() -> Callable[[], object]:
    """A warmed-up training step of the FSDP example; MODE says whether its buckets carry."""
    import torch
    import torch_xla

    example = runpy.run_path(str(EXAMPLE), run_name="example")
    example["fsdp_module"].BucketizedReduceScatter = example["CarryOverBucket"]
    model = example["shard"](example["Model"]())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        x = torch.randn(example["BATCH"], example["TOKENS"], example["HIDDEN"]).to("xla")
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        torch_xla.core.xla_model.wait_device_ops()

    for _ in range(WARM_UP):
        step()
    return step


def _run_lines(size: int, steps: int) -> dict[str, float]:
    """A step's CPU time with source lines and without; ``size`` 0: a model's with 20 layers."""
    import torch_xla

    step: Callable[[], object] = (lambda: _step(size)) if size else _deep_step()
    if size:
        _prepare(size)
    spent: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * TURNS):
        on = turn % 2 == 1
        torch_xla._XLAC._set_ir_debug(on)
        for number in range(max(3, steps // (2 * TURNS))):
            start = time.thread_time()
            step()
            if number:  # caches are those of this setting from the second on
                spent[on].append(time.thread_time() - start)
    without, with_lines = (MICRO * statistics.median(spent[on]) for on in (False, True))
    return {"without_us": without, "lines_us": with_lines, "added": with_lines / without - 1}


def _deep_step() -> Callable[[], object]:
    """A training step of a model with many small layers, called through modules as usual."""
    import torch
    import torch_xla

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64)
            self.down = torch.nn.Linear(64, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(LAYERS))).to("xla")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 32).to("xla")
    torch_xla.sync()

    def step() -> None:
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        torch_xla.core.xla_model.wait_device_ops()

    for _ in range(3):
        step()
    return step


def _import_cost() -> float:
    """Microseconds of the .pth file's line, variable unset."""
    os.environ.pop("XLAGRAPH", None)
    line = (Path(__file__).parent.parent / "xlagraph_autostart.pth").read_text().strip()
    code = compile(line, "pth", "exec")
    return MICRO * min(timeit.repeat(lambda: exec(code, {}), number=10000, repeat=5)) / 10000


def _measure(size: int, steps: int) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    if not size:
        for mode in ("fixed", "carry"):
            rows[f"XLAGRAPH=1, FSDP, MODE={mode}"] = _child("1", 0, steps, {"MODE": mode})
        return rows
    for level in LEVELS:
        rows[f"XLAGRAPH={level}"] = _child(level, size, steps, {})
    with tempfile.TemporaryDirectory() as folder:
        for name, variables in MEANS.items():
            extra = dict(variables)
            if "XLA_SAVE_TENSORS_FMT" in extra:
                extra["XLA_SAVE_TENSORS_FILE"] = f"{folder}/saved"
            rows[name] = _child("plain", size, max(20, steps // 10), extra)
            rows[name]["added_us"] = rows[name]["sync_us"] - rows["none"]["sync_us"]
    return rows


def _measure_lines(options: argparse.Namespace) -> dict[str, object]:
    print(f"{'instructions':>12}  {'without lines us':>17} {'with lines us':>14} {'added':>7}")
    rows: dict[str, object] = {}
    for size in (*map(int, filter(None, options.sizes.split(","))), 0):
        row = rows[str(size)] = _child("lines", size, options.steps, {})
        print(
            f"{size or '20 layers':>12}  {row['without_us']:17.0f} {row['lines_us']:14.0f} "
            f"{row['added']:7.0%}"
        )
    return rows


def main() -> None:
    """Print a table; with ``--json``, write the figures too. Exit code 1 over the budget."""
    options = _parse()
    if options.child in ("plain", "lines"):
        measure = _run_plain if options.child == "plain" else _run_lines
        print(json.dumps(measure(options.size, options.steps)))
        return
    if options.child:
        print(json.dumps(_run_paired(options.child, options.size, options.steps)))
        return
    results: dict[str, object] = {"pth_line_us": _import_cost()}
    print(f"the .pth line: {results['pth_line_us']:.1f} us; load {os.getloadavg()[0]:.1f}")
    worst = 0.0
    names = f"{'sync us':>10} {'added us':>10} {'in hooks us':>12} {'mean us':>8}"
    print(f"{'instructions':>12}  {'what':30} {names}")
    for size in (*map(int, filter(None, options.sizes.split(","))), 0):
        rows = _measure(size, options.steps)
        results[str(size)] = rows
        for name, row in rows.items():
            if name in ("XLAGRAPH=watch", "XLAGRAPH=1"):
                worst = max(worst, row["hooks_us"])
            hooks = f"{row['hooks_us']:12.1f} {row['mean_us']:8.1f}" if "hooks_us" in row else ""
            print(f"{size:12d}  {name:30} {row['sync_us']:10.1f} {row['added_us']:10.1f} {hooks}")
    results["lines"] = _measure_lines(options)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=2) + "\n")
    if worst >= BUDGET_US:
        sys.exit(f"a stable step spends {worst:.1f} us in hooks, {BUDGET_US:.0f} allowed")


if __name__ == "__main__":
    main()
