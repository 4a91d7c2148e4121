"""What is found on a real GPU: ``python benchmarks/streams_gpu.py WHAT ... -o FOLDER``.

WHAT is any of:

- ``programs``: those of ``examples/streams``, each in a process of its own, run once as warm-up
  and once recorded; beside it torch's own sanitizer. Table: found, missed, false alarm.
- ``overhead``: microseconds an operator and milliseconds a step with and without recording.
- ``equal``: losses of a training loop with and without ``XLAGRAPH_STREAMS=3-5``, bit by bit.
- ``deepspeed``: ``average_tensor`` with all that it needs, by ``--deepspeed FOLDER`` with one
  installed version each; on two GPUs, or else on one that stands for both.

Logs go to FOLDER/logs, results to FOLDER/WHAT.json, the tables to standard output. Ends with 1
where something did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.streams.model import Finding

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "streams"
SECONDS = 150
"""A program may take."""
AT_ONCE = 4
REPORT = "torch's sanitizer reports"
REPORTED = "CSAN detected a possible data race"
"""What it prints of each race before it raises."""

sys.path[:0] = [str(ROOT), str(EXAMPLES)]


# ---- programs


def programs(out: Path, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Runs programs twice over: recorded, and under torch's sanitizer.

    ``theirs`` is what the sanitizer reports; ``sanitizer`` also says when the program broke on it.
    """
    import correct
    import more
    import seeds

    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    known = {
        name: one
        for source in (seeds, more, correct)
        for name, one in source.PROGRAMS.items()
        if not only or name in only
    }
    jobs: dict[tuple[str, str], Callable[[], None]] = {}
    for name, (run, _) in known.items():
        log = logs / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        jobs[name, "recorded"] = partial(_recorded, run, log)
        jobs[name, "sanitized"] = partial(_sanitized, run)
    said = _in_children(jobs)
    rows = []
    for name, (_, kind) in known.items():
        error, report = said[name, "recorded"], said[name, "sanitized"]
        row: dict[str, Any] = {"name": name, "expected": kind, "error": error}
        row |= analysis_of(logs / f"{name}.jsonl") if not error else {}
        row["sanitizer"] = report
        row["ours"] = _mark(row.get("found", []), kind, error)
        reported = [kind or "report"] if report.startswith(REPORT) else []
        row["theirs"] = _mark(reported, kind, report if not reported else "")
        rows.append(row)
        print(f"{name:32} {kind or '-':18} {row['ours']:12} {row['theirs']:12}", flush=True)
    for who in ("ours", "theirs"):
        print(f"{who}:", dict(Counter(row[who] for row in rows)))
    return rows


def _recorded(run: Callable[[], None], log: Path) -> None:
    import torch

    import xlagraph

    run()
    torch.cuda.synchronize()
    with xlagraph.record_streams(log):
        run()
    torch.cuda.synchronize()


def _sanitized(run: Callable[[], None]) -> None:
    """Runs it under the sanitizer, which prints its reports and then raises.

    What it raises within a hook that C++ has called (DistributedDataParallel's reducer) is lost on
    the way: the program ends with a SystemError. What was printed counts.
    """
    import contextlib
    import io
    import logging

    import torch
    from torch.cuda import _sanitizer

    logging.disable(logging.CRITICAL)
    torch.cuda.init()
    _sanitizer.enable_cuda_sanitizer()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            run()
    except _sanitizer.CUDASanitizerErrors:
        raise RuntimeError(REPORT) from None
    except Exception as error:
        if REPORTED not in printed.getvalue():
            raise
        raise RuntimeError(f"{REPORT}, then {type(error).__name__}: {error}") from None
    torch.cuda.synchronize()


def _in_children(jobs: dict[tuple[str, str], Callable[[], None]]) -> dict[tuple[str, str], str]:
    """Runs each job in a forked child, some at a time; "" or what went wrong, by job.

    This process must not have used CUDA.
    """
    said: dict[tuple[str, str], str] = {}
    running: dict[int, tuple[tuple[str, str], Any]] = {}
    waiting = list(jobs)
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            key = waiting.pop(0)
            output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the child has ended
            child = os.fork()
            if not child:
                _run_job(jobs[key], len(waiting), output)
            running[child] = key, output
        child, status = os.wait()
        key, output = running.pop(child)
        output.seek(0)
        said[key] = output.read() or (f"ended with status {status}" if status else "")
    return said


def _run_job(run: Callable[[], None], number: int, output: Any) -> None:
    """A child's whole life."""
    os.environ["MASTER_PORT"] = str(29600 + number)
    signal.alarm(SECONDS)
    code = 0
    try:
        run()
    except BaseException:  # noqa: BLE001 - told to the parent
        text, code = traceback.format_exc(), 1
        said = text[text.find(REPORT) :].strip()
        output.write(said if REPORT in text else text[-2000:])
    output.flush()
    sys.stdout.flush()
    os._exit(code)


def analysis_of(log: Path) -> dict[str, Any]:
    """What is found in a log, for a row."""
    from xlagraph.streams.analyze import analyze
    from xlagraph.streams.log import Log
    from xlagraph.streams.model import State

    analysis = analyze(Log.open(str(log)))
    by_state = {
        str(state): [str(one.kind) for one in analysis.findings if one.state is state]
        for state in State
    }
    return {
        "verdict": str(analysis.verdict),
        **by_state,
        "mistakes": [
            str(one.kind)
            for one in analysis.findings
            if one.state is State.FOUND and not one.same_as
        ],
        "buckets": _buckets(analysis.findings),
        "proved": all(one.proof and one.proof.proved for one in analysis.findings),
        "records": analysis.coverage.records,
        "operators": analysis.coverage.operators,
        "unseen": analysis.coverage.unseen,
    }


def _buckets(findings: Sequence[Finding]) -> dict[str, int]:
    """The most streams that a bucket's reduction did not wait for, by the bucket's name."""
    found: dict[str, int] = {}
    for one in findings:
        if one.bucket is not None:
            streams = len({access.stream for access in one.earlier})
            found[one.bucket.name] = max(streams, found.get(one.bucket.name, 0))
    return found


def _mark(found: list[str], kind: str, error: str) -> str:
    if error:
        return "ERROR"
    if not kind:
        return "FALSE ALARM" if found else "silent"
    return "found" if kind in found else "MISSED"


# ---- overhead


def overhead(_out: Path) -> list[dict[str, Any]]:
    """Steps of a small and of a large model: plain, recorded, sanitized."""
    rows = []
    for name in ("small", "large"):
        times: dict[str, Any] = {"name": name}
        for how in ("plain", "recorded", "sanitized"):
            command = [sys.executable, __file__, "--measure", name, how]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            times[how] = json.loads(lines[-1]) if lines else {"error": done.stderr[-1500:]}
        rows.append(times)
        print(json.dumps(times), flush=True)
    return rows


def measure(size: str, how: str) -> None:
    """Milliseconds a step, best of many, and operators a step."""
    import torch
    from torch import nn

    width, layers, batch = (64, 6, 8) if size == "small" else (4096, 6, 8192)
    kind = torch.float32 if size == "small" else torch.bfloat16
    parts = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers)]
    net = nn.Sequential(*parts).to("cuda", kind)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(batch, width, device="cuda", dtype=kind)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        net(x).pow(2).mean().backward()
        optimizer.step()

    def best(steps: int) -> float:
        found = []
        for _ in range(steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - start)
        return 1000 * min(found)

    best(5)
    result: dict[str, Any] = {}
    if how == "recorded":
        import xlagraph

        log = Path(tempfile.mkdtemp()) / "log.jsonl"
        with xlagraph.record_streams(log) as next_step:
            next_step()
            result["ms"] = best(30)
        text = log.read_text()
        result["operators"] = text.count('{"k":"op"') / 30
        result["bytes_a_step"] = len(text) / 30
        result["after_ms"] = best(10)
    else:
        if how == "sanitized":
            from torch.cuda import _sanitizer

            _sanitizer.enable_cuda_sanitizer()
        result["ms"] = best(30)
    print(json.dumps(result))


# ---- equal losses


def equal(out: Path) -> list[dict[str, Any]]:
    """Losses with and without recording."""
    rows = []
    code = (
        "import runpy, sys; sys.argv = sys.argv[1:]; import xlagraph.streams.record.autostart; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )  # what xlagraph_autostart.pth does where the package is installed
    for kind in ("eager", "amp", "compiled"):
        results = []
        for steps in ("", "3-5"):
            log = out / f"train_{kind}.jsonl"
            log.unlink(missing_ok=True)
            env = {
                **os.environ, "PYTHONPATH": _path(), "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                "XLAGRAPH_STREAMS": steps, "XLAGRAPH_STREAMS_LOG": str(log),
            }  # fmt: skip
            command = [sys.executable, "-c", code, str(EXAMPLES / "train.py"), kind]
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            results.append(json.loads(lines[-1]) if lines else {"error": done.stderr[-2000:]})
            said = [line for line in done.stderr.splitlines() if "xlagraph" in line]
        row = {
            "kind": kind, "equal": results[0] == results[1] and "losses" in results[0],
            "plain": results[0], "recorded": results[1], "said": said,
            **(analysis_of(log) if log.exists() else {"error": "no log"}),
        }  # fmt: skip
        rows.append(row)
        shown = {k: row.get(k) for k in ("kind", "equal", "said", "verdict", "found", "warning")}
        print(json.dumps(shown), flush=True)
    return rows


# ---- DeepSpeed


ZERO: dict[tuple[str, bool], set[str]] = {
    ("bucket", False): {"ipg bucket"},
    ("bucket", True): set(),
    ("large", False): {"ipg bucket"},
    ("large", True): {"extra-large gradient"},
    ("refill", False): {"ipg bucket", "race"},
    ("refill", True): {"race"},
}
"""What ``examples/streams/zero.py`` is to show, by layout and whether pull request 8080 is in.

Buckets by name; ``race`` where one is a mistake of its own. A race that the bucket's fix removes is
none: in ``large`` before 8080 a bucket is begun again whose first filling nobody has waited for.
"""


def shown(row: dict[str, Any]) -> set[str]:
    """What of ZERO an analysis shows."""
    return set(row["buckets"]) | {"race"} & set(row["mistakes"])


def deepspeed(out: Path, folders: list[Path]) -> list[dict[str, Any]]:
    """ZeRO-2 of each version: what is found by layout, and whether that is what its code says."""
    import torch

    rows = []
    (out / "logs").mkdir(parents=True, exist_ok=True)
    ranks = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    python = [sys.executable, *(ranks if torch.cuda.device_count() > 1 else [])]
    for folder in folders:
        for layout in ("bucket", "large", "refill"):
            name = f"zero_{folder.name}_{layout}"
            log = out / "logs" / f"{name}.jsonl"
            env = {**os.environ, "PYTHONPATH": _path(folder)}
            command = [*python, str(EXAMPLES / "zero.py"), str(log), layout]
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)
            row: dict[str, Any] = {"name": name, "error": ""}
            said = [line for line in done.stdout.splitlines() if line.startswith('{"deepspeed"')]
            if done.returncode or not log.exists() or not said:
                row["error"] = (done.stdout + done.stderr)[-3000:]
            else:
                row |= json.loads(said[-1]) | analysis_of(log)
                row["as_expected"] = shown(row) == ZERO[layout, row["fixed"]]
                command = [sys.executable, "-c", "from xlagraph.cli import main; main()"]
                text = subprocess.run(
                    [*command, "streams", str(log)], capture_output=True, text=True, env=env
                ).stdout
                (out / f"{name}.txt").write_text(text)
            rows.append(row)
            print(json.dumps({k: v for k, v in row.items() if k != "unseen"}), flush=True)
    return rows


def _path(*first: Path) -> str:
    """Where a child looks for modules: these, this project, then where this process looks."""
    return os.pathsep.join([*map(str, (*first, ROOT)), os.environ.get("PYTHONPATH", "")])


def _compress(out: Path) -> None:
    """Logs as .zst, which is what fixtures are."""
    import zstandard

    for file in (*out.glob("logs/*.jsonl"), *out.glob("*.jsonl")):
        packed = zstandard.ZstdCompressor(level=19).compress(file.read_bytes())
        file.with_name(file.name + ".zst").write_bytes(packed)
        file.unlink()


def _went_wrong(row: dict[str, Any]) -> bool:
    """Whether a row is about something that did not run."""
    parts = [row, *(value for value in row.values() if isinstance(value, dict))]
    return any(part.get("error") for part in parts) or row.get("as_expected") is False


def main() -> None:
    """Runs what is asked for and writes what came of it; 1 if something did not run."""
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    whats = ("programs", "overhead", "equal", "deepspeed")
    parser.add_argument("what", nargs="+", choices=whats)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--deepspeed", type=Path, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=[], help="programs, by name")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of processes in forked children
    failed = False
    for what in given.what:
        start = time.perf_counter()
        run: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "programs": lambda: programs(given.out, given.only),
            "overhead": lambda: overhead(given.out),
            "equal": lambda: equal(given.out),
            "deepspeed": lambda: deepspeed(given.out, given.deepspeed),
        }
        rows = run[what]()
        (given.out / f"{what}.json").write_text(json.dumps(rows, indent=1))
        failed |= any(map(_went_wrong, rows))
        print(f"{what}: {time.perf_counter() - start:.0f} s", flush=True)
    _compress(given.out)
    sys.exit(failed)


if __name__ == "__main__":
    main()
