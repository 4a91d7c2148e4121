"""The readers beside XLA's own: ``python benchmarks/reader.py [FILE | FOLDER ...]``.

Without files it takes every module over 100 kB in ``fixtures/corpus`` and ``fixtures/protos``
and written modules of 1,000 to 1,000,000 instructions, each as text and as protobuf: that of a
dump folder if there is one, else the one XLA makes of the text. Each measurement runs in a
process of its own: best of several runs for the time, resident memory added by the first run
for the peak. Needs jaxlib (``pip install xlagraph[test]``).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parent.parent / "fixtures"
SMALL_PROTO = FIXTURES / "corpus" / "jax_scan.hlo.pb"
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


def reader(parser: str, path: str) -> Callable[[], Any]:
    """Reads one module with one parser; what it imports is imported."""
    data = Path(path).read_bytes()
    small = "HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"
    if parser == "text":
        from xlagraph.hlo import read_module

        read_module(small)
        text = data.decode()
        return lambda: read_module(text)
    if parser == "proto":
        from xlagraph.hlo.proto.reader import read_proto

        read_proto(SMALL_PROTO.read_bytes())
        return lambda: read_proto(data)
    from jaxlib import _hlo

    _hlo.hlo_module_from_text(small)
    if parser == "xla-proto":
        return lambda: _hlo.HloModule.from_serialized_hlo_module_proto(data)
    text = data.decode()
    return lambda: _hlo.hlo_module_from_text(text)


def measure(parser: str, path: str) -> dict[str, float]:
    """Seconds (best) and megabytes (added by the first run) of one parser on one module."""
    read = reader(parser, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best, spent = float("inf"), 0.0
    megabytes = 0.0
    while spent < 2.0:
        start = time.process_time()
        module = read()
        seconds = time.process_time() - start
        if not spent:
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            megabytes = (after - before) / 1024
        best, spent = min(best, seconds), spent + max(seconds, 1e-4)
    count = 0 if parser.startswith("xla") else len(module)
    return {"seconds": best, "megabytes": megabytes, "instructions": count}


def convert(text: str, proto: str) -> None:
    """Writes the protobuf that XLA makes of a text."""
    from jaxlib import _hlo

    module = _hlo.hlo_module_from_text(Path(text).read_text(encoding="utf-8"))
    Path(proto).write_bytes(module.as_serialized_hlo_module_proto())


def in_a_process(*arguments: str) -> str:
    """What this script prints for these arguments."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def module_bytes(proto: bytes) -> bytes:
    """The HloModuleProto within an HloProto, which is what XLA reads."""
    from xlagraph.hlo.proto.wire import module_span

    start, stop = module_span(proto, "module")
    return proto[start:stop]


def side_by_side(name: str, text: str, proto: bytes | None) -> None:
    """Prints one line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {"text": f"{folder}/module.hlo", "proto": f"{folder}/module.hlo.pb"}
        Path(paths["text"]).write_text(text, encoding="utf-8")
        if proto is None:
            in_a_process("--convert", paths["text"], paths["proto"])
        else:
            Path(paths["proto"]).write_bytes(module_bytes(proto))
        size = Path(paths["proto"]).stat().st_size
        results = {
            parser: json.loads(in_a_process("--measure", parser, paths[parser.split("-")[-1]]))
            for parser in ("text", "proto", "xla-text", "xla-proto")
        }
    seconds = {parser: result["seconds"] for parser, result in results.items()}
    peaks = {parser: result["megabytes"] for parser, result in results.items()}
    print(
        f"{name:<44} {len(text) / _MEGA:7.2f} {size / _MEGA:7.2f}"
        f" {results['text']['instructions']:9,.0f}"
        f" {seconds['text'] * 1e3:8.1f} {seconds['proto'] * 1e3:8.1f}"
        f" {seconds['text'] / seconds['proto']:6.2f}"
        f" {seconds['xla-text'] / seconds['text']:9.2f}"
        f" {seconds['xla-proto'] / seconds['proto']:9.2f}"
        f" {peaks['text']:7.0f} {peaks['proto']:7.0f} {peaks['xla-text']:7.0f}",
        flush=True,
    )


def main() -> None:
    """Measures the corpus, or the files and folders named, and written modules."""
    from xlagraph.hlo import open_entries

    print(
        f"{'module':<44} {'MB text':>7} {'proto':>7} {'instr.':>9}"
        f" {'ms text':>8} {'proto':>8} {'t/p':>6} {'XLA/text':>9} {'XLA/proto':>9}"
        f" {'MB mem':>7} {'proto':>7} {'XLA':>7}"
    )
    corpus = [*FIXTURES.glob("corpus/**/*.hlo*.gz"), *FIXTURES.glob("corpus/**/*.txt.gz")]
    folders = [path for path in FIXTURES.glob("protos/*") if path.is_dir()]
    for path in sys.argv[1:] or sorted(map(str, corpus)) + sorted(map(str, folders)):
        entries = {entry.graph_hash or entry.spec: entry for entry in open_entries(path).entries}
        for entry in entries.values():
            text = entry.text_beside if entry.form == "proto" else entry.source().text
            proto = bytes(entry.data()) if entry.form == "proto" else None
            if len(text) >= SMALLEST:
                label = f"{Path(path).name.removesuffix('.gz')}:{entry.ordinal}:{entry.stage}"
                side_by_side(label.removesuffix(":")[-44:], text, proto)
    for size in () if sys.argv[1:] else SIZES:
        side_by_side(f"written, {size:,} instructions", written(size), None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:4])))
    elif sys.argv[1:2] == ["--convert"]:
        convert(*sys.argv[2:4])
    else:
        main()
