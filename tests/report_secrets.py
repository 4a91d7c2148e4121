"""Programs in disguise: real modules and runs in which everything that tells is a secret."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import zstandard

from xlagraph.hlo import read_module
from xlagraph.report.model import Report
from xlagraph.report.pack import unpack
from xlagraph.report.render import render, render_streams

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xlagraph.report.stream_model import StreamReport

SECRET = "zq"
"""Every secret holds it, and no word of XLA, torch or this project does."""
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
_WORD = re.compile(r"[A-Za-z_][\w.\-]*")
_KEPT = {
    *("shard", "waiting", "gradient", "of", "held", "by", "its", "callback", "root", "by"),
    *("SGD", "momentum_buffer", "f32", "s64"),
}


def disguised(text: str, secret: Callable[[str], str], quoted: Callable[[str], str]) -> str:
    """A module's text with its names, and all that is quoted in it, replaced."""
    module = read_module(text, "real.hlo")
    opcodes = set(module.opcodes)
    names = {module.name, *module.names, *(c.name for c in module.computations)} - opcodes

    def word(found: re.Match[str]) -> str:
        return secret(found[0]) if found[0] in names else found[0]

    pieces = _QUOTED.split(text)
    pieces[::2] = [_WORD.sub(word, piece) for piece in pieces[::2]]
    pieces[1::2] = [f'"{quoted(piece)}"' for piece in pieces[1::2]]
    return "".join(pieces)


def disguise_run(folder: Path, secret: Callable[[str], str]) -> None:
    """Replaces what tells in the records and the graphs of a run folder."""
    for file in folder.glob("records-*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(_record(line, secret)) + "\n" for line in lines))
    for file in (folder / "graphs").glob("*.hlo.zst"):
        text = zstandard.ZstdDecompressor().decompress(file.read_bytes()).decode()
        file.write_bytes(
            zstandard.ZstdCompressor().compress(disguised(text, secret, secret).encode())
        )


def _record(record: dict[str, object], secret: Callable[[str], str]) -> dict[str, object]:
    def told(value: object) -> object:
        if isinstance(value, str):
            return _WORD.sub(lambda w: w[0] if w[0] in _KEPT else secret(w[0]), value)
        if isinstance(value, list):
            return [told(one) for one in value]
        if isinstance(value, dict):
            return {key: told(one) for key, one in value.items()}
        return value

    kept = {"record", "kind", "entry", "outcome", "digest", "graphs", "key", "shape", "shapes"}
    kept |= {"versions", "what", "journal"}
    return {
        key: [told_tensor(one, told) for one in value]
        if key == "live_tensors" and isinstance(value, list)
        else value
        if key in kept
        else told(value)
        for key, value in record.items()
    }


def told_tensor(tensor: dict[str, object], told: Callable[[object], object]) -> dict[str, object]:
    """A live tensor in disguise; its shape stays."""
    return {key: one if key == "shape" else told(one) for key, one in tensor.items()}


def all_that_is_said(report: Report | StreamReport) -> str:
    """The page without its own style and script, and the packed data."""
    page = render(report) if isinstance(report, Report) else render_streams(report)
    page = re.sub(r"<style>.*?</style>|<script type=.module.>.*?</script>", "", page, flags=re.S)
    page = re.sub(r'<script type="application/octet-stream".*?</script>', "", page, flags=re.S)
    return page + "".join(str(unpack(text)) for text in report.blobs.values())
