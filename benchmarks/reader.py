"""The reader beside XLA's own parser: ``python benchmarks/reader.py [FILE ...]``.

Without files it takes every module over 100 kB in ``fixtures/corpus`` and written modules of
1,000 to 1,000,000 instructions. Each measurement runs in a process of its own: best of
several runs for the time, resident memory added by the first run for the peak. Needs
jaxlib (``pip install xlagraph[test]``).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures"
SMALLEST = 100_000
"""Characters from which a corpus module is measured."""
SIZES = (1_000, 10_000, 100_000, 1_000_000)
_MEGA = 1e6


def written(instructions: int) -> str:
    """A training-like module: layers of dot, broadcast, add, maximum with constants."""
    lines = ["HloModule written\n", "ENTRY %main (p0: f32[64,64]) -> f32[64,64] {"]
    lines.append("  %p.0 = f32[64,64]{1,0} parameter(0)")
    shape, last = "f32[64,64]{1,0}", "%p.0"
    for number in range(1, instructions - 4, 5):
        place = f'metadata={{op_name="layer{number % 97}" source_line={number % 89}}}'
        contraction = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        operands = f"{shape} {last}, {shape} %p.0"
        lines += [
            f"  %constant.{number} = f32[] constant({number % 13}), {place}",
            f"  %broadcast.{number} = {shape} broadcast(f32[] %constant.{number}), dimensions={{}}",
            f"  %dot.{number} = {shape} dot({operands}), {contraction}, {place}",
            f"  %add.{number} = {shape} add({shape} %dot.{number}, {shape} %broadcast.{number})",
            f"  %maximum.{number} = {shape} maximum({shape} %add.{number}, {shape} %dot.{number})",
        ]
        last = f"%maximum.{number}"
    lines += [f"  ROOT %root = {shape} negate({shape} {last})", "}\n"]
    return "\n".join(lines)


def measure(parser: str, path: str) -> dict[str, float]:
    """Seconds (best) and megabytes (added by the first run) of one parser on one text."""
    text = Path(path).read_text(encoding="utf-8")
    if parser == "xla":
        from jaxlib import _hlo

        read = _hlo.hlo_module_from_text
    else:
        from xlagraph.hlo import read_module

        read = read_module
    read("HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best, spent = float("inf"), 0.0
    megabytes = 0.0
    while spent < 2.0:
        start = time.process_time()
        module = read(text)
        seconds = time.process_time() - start
        if not spent:
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            megabytes = (after - before) / 1024
        best, spent = min(best, seconds), spent + max(seconds, 1e-4)
    count = 0 if parser == "xla" else len(module)
    return {"seconds": best, "megabytes": megabytes, "instructions": count}


def side_by_side(name: str, text: str) -> None:
    """Prints one line of the table."""
    with tempfile.NamedTemporaryFile("w", suffix=".hlo", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        results = {}
        for parser in ("ours", "xla"):
            command = [sys.executable, __file__, "--measure", parser, file.name]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results[parser] = json.loads(output)
    ours, xla = results["ours"], results["xla"]
    print(
        f"{name:<44} {len(text) / _MEGA:8.2f} {ours['instructions']:9,.0f}"
        f" {len(text) / _MEGA / ours['seconds']:8.1f} {len(text) / _MEGA / xla['seconds']:8.1f}"
        f" {ours['instructions'] / ours['seconds']:11,.0f}"
        f" {xla['seconds'] / ours['seconds']:7.2f}"
        f" {ours['megabytes']:8.0f} {xla['megabytes']:8.0f}",
        flush=True,
    )


def main() -> None:
    """Measures the corpus, or the files named, and written modules."""
    from xlagraph.hlo import open_entries

    print(
        f"{'module':<44} {'MB':>8} {'instr.':>9} {'MB/s':>8} {'XLA MB/s':>8}"
        f" {'instr./s':>11} {'times':>7} {'MB mem':>8} {'XLA mem':>8}"
    )
    corpus = [*FIXTURES.glob("corpus/**/*.hlo*.gz"), *FIXTURES.glob("corpus/**/*.txt.gz")]
    paths = sys.argv[1:] or sorted(map(str, corpus))
    for path in paths:
        entries = {entry.graph_hash or entry.spec: entry for entry in open_entries(path).entries}
        for entry in entries.values():
            text = entry.source().text
            if len(text) >= SMALLEST:
                side_by_side(f"{Path(path).name.removesuffix('.gz')}:{entry.ordinal}"[-44:], text)
    for size in () if sys.argv[1:] else SIZES:
        side_by_side(f"written, {size:,} instructions", written(size))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:4])))
    else:
        main()
