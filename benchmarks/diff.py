"""How long a comparison takes: the real big pair, and modules from 1,000 to 1M instructions.

::

    python benchmarks/make_big.py          # once: the real pair
    python benchmarks/diff.py              # all
    python benchmarks/diff.py --max 100000 # smaller series

For each pair: ``xlagraph diff`` as a process of its own, start included and with byte code
written before, as an installed package has it; XLA's own parser (jaxlib) reading both files in
a process that is already running; and difflib on the two texts (stopped after a minute). The
first two take turns, and their processor time is told, which a busy machine changes less. The
series puts copies of a real training graph side by side under one root, and changes one
constant; time is that of reading and of explaining, on the processor.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
BIG = ROOT / "fixtures" / "big"
DIFFLIB_SECONDS = 60
TURNS = 7


def diff_seconds(command: list[str], byte_code: str) -> tuple[float, float]:
    """Wall and processor time in seconds of one run of a command, its byte code in a folder.

    The exit code tells nothing: 1 is that of modules that differ, and of a traceback.
    """
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = byte_code
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, env=env, cwd=ROOT)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not done.stderr, done.stderr.decode()
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def parser_seconds(texts: list[str]) -> float:
    """Seconds on the processor that XLA's parser needs to read the texts."""
    from jaxlib import _hlo

    start = time.process_time()
    for text in texts:
        _hlo.hlo_module_from_text(text)
    return time.process_time() - start


def _difflib(a: list[str], b: list[str]) -> None:
    import difflib

    for _ in difflib.unified_diff(a, b):
        pass


def difflib_seconds(files: list[Path]) -> str:
    """Seconds of difflib on the two texts, or that it was stopped."""
    lines = [file.read_text().splitlines() for file in files]
    process = multiprocessing.Process(target=_difflib, args=lines)
    start = time.perf_counter()
    process.start()
    process.join(DIFFLIB_SECONDS)
    if process.is_alive():
        process.kill()
        return f"over {DIFFLIB_SECONDS} s, stopped"
    return f"{time.perf_counter() - start:.2f} s"


def pair(first: Path, second: Path) -> None:
    """Prints one row for a real pair: the best of several turns."""
    command = [sys.executable, "-c", "from xlagraph.cli import main; main()", "diff"]
    command += [str(first), str(second)]
    texts = [first.read_text(), second.read_text()]
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as byte_code:
        diff_seconds(command, byte_code)
        for _ in range(TURNS):
            ours.append(diff_seconds(command, byte_code))
            theirs.append(parser_seconds(texts))
    wall, processor = (min(seconds) for seconds in zip(*ours, strict=True))
    print(
        f"{first.name} {second.name} ({sum(map(len, texts)) / 1e6:.1f} MB): "
        f"xlagraph diff {wall:.2f} s end to end, {processor:.2f} s on the processor; "
        f"XLA's parser, both files {min(theirs):.2f} s on the processor; "
        f"difflib {difflib_seconds([first, second])}",
        flush=True,
    )


def series_text(copies: int, constant: str) -> str:
    """A module of several copies of a real training graph, one constant of it set."""
    sys.path.insert(0, str(ROOT / "tests"))
    from real_modules import RUNS

    from xlagraph.run.reader import read_run
    from xlagraph.runs.explain import graph_order

    run = read_run(RUNS / "fixed")
    _, record, _ = graph_order(run)[-1]
    text = run.graph_text(record.digest)
    start = text.index("ENTRY")
    regions = text[text.index("\n", text.index("HloModule")) : start]
    body = text[text.index("\n", start) + 1 : text.rindex("}")].splitlines()
    lines, roots, parameters = [], [], 0
    for copy in range(copies):
        for line in body:
            name, _, rest = line.partition(" = ")
            if " parameter(" in rest:
                head, _, tail = rest.partition(" parameter(")
                rest = f"{head} parameter({parameters}){tail.partition(')')[2]}"
                parameters += 1
            if name.lstrip().startswith("ROOT"):
                name = "  " + name.split()[1]
                roots.append(f"{name.strip()}.c{copy}")
            new = f"{name} = {rest}".replace("to_apply=%", "to_apply=@")
            lines.append(_suffixed(new, copy))
    lines.append(f"  %number = f32[] constant({constant})")
    lines.append("  %mark = f32[] negate(%number)")
    shapes = ", ".join(["()"] * len(roots) + ["f32[]"])
    lines.append(f"  ROOT %all = ({shapes}) tuple({', '.join([*roots, '%mark'])})")
    return f"HloModule series\n{regions}ENTRY %main {{\n" + "\n".join(lines) + "\n}\n"


def _suffixed(line: str, copy: int) -> str:
    return re.sub(r"%([\w.\-]+)", rf"%\1.c{copy}", line).replace("@", "%")


def series(largest: int) -> None:
    """Prints a row for each size: seconds and peak memory of a process of its own."""
    print(f"{'instructions':>14} {'MB':>7} {'read s':>8} {'explain s':>10} {'peak MB':>9}")
    for target in (1_000, 10_000, 40_000, 100_000, 300_000, 1_000_000):
        if target <= largest:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(_measure, (max(1, target // 2334),)), flush=True)


def _measure(copies: int) -> str:
    from xlagraph.explain import explain_modules
    from xlagraph.hlo import read_module

    texts = [series_text(copies, constant) for constant in ("1", "2")]
    gc.freeze()
    gc.disable()
    start = time.process_time()
    a, b = (read_module(text) for text in texts)
    middle = time.process_time()
    explanation = explain_modules(a, b)
    end = time.process_time()
    assert [cause.kind.id for cause in explanation.causes] == ["constant-value"]
    assert explanation.proved
    return (
        f"{len(a):>14,} {sum(map(len, texts)) / 1e6:>7.1f} {middle - start:>8.2f} "
        f"{end - middle:>10.2f} {_peak_megabytes():>9.0f}"
    )


def _peak_megabytes() -> float:
    """Most memory that this process held; getrusage would count the parent's before exec."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


@click.command()
@click.option("--max", "largest", default=1_000_000, help="Largest module of the series.")
def main(largest: int) -> None:
    """Runs the benchmark."""
    files = sorted(BIG.glob("fsdp64_*.hlo"))
    if len(files) < 2:
        print("no big pair here: run benchmarks/make_big.py first")
    for first, second in combinations(files, 2):
        pair(first, second)
    series(largest)


if __name__ == "__main__":
    main()
