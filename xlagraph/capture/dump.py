"""Get each compiled module's text from XLA's own dump, at no cost to steps that hit.

XLA writes ``module_NNNN.NAME.before_optimizations.txt`` into ``--xla_dump_to`` only when it
really compiles; torch_xla appends to ``PT_XLA_DEBUG_FILE`` an analysis (graph hash, Python
frames) only when it really compiles. Both are switched on through the environment before
torch_xla starts, into a private folder that is emptied after each compile. A user's own
settings are respected: their folder is read and nothing in it is deleted.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

PRIVATE_PREFIX = ".dump-"
MODULE_SUFFIX = ".before_optimizations.txt"
_DUMP_FLAG = re.compile(r"(?:^|\s)--?xla_dump_to=(\S+)")
_ANALYSIS = "analysis.txt"


@dataclass(frozen=True, slots=True)
class Module:
    """One module as XLA was given it."""

    file: str
    name: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Analysis:
    """One ``Compilation Analysis`` of torch_xla: what it knew as it compiled."""

    cause: str
    graph_hash: str
    computation_hash: str
    inputs: int
    outputs: int
    frames: tuple[tuple[str, int, str], ...]
    """File, line and function, innermost first."""


def user_dump_folder(flags: str) -> str:
    """The folder of the last ``--xla_dump_to`` in ``flags``, or ``""``."""
    found = _DUMP_FLAG.findall(flags)
    return str(found[-1]) if found else ""


@dataclass(slots=True)
class Dump:
    """The dump folder of this process and how far it has been read."""

    folder: Path
    is_private: bool
    analysis_file: Path | None
    owned: Path | None = None
    """What ``remove`` deletes; None: the user's own folder."""
    variables: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """Environment variables set: the value before and the value put."""
    seen: set[str] = field(default_factory=set)
    offset: int = 0

    def take_modules(self) -> list[Module]:
        """Modules complete since the last call, in the order they were compiled.

        A private folder is emptied, save for a module that another thread still writes.

        Raises:
            OSError: the folder cannot be read.
        """
        found: list[Module] = []
        if not self.folder.is_dir():
            return found  # deleted by the user: XLA makes it anew when it next compiles
        names = sorted(entry.name for entry in os.scandir(self.folder))
        for name in names:
            path = self.folder / name
            if not name.endswith(MODULE_SUFFIX) or not name.startswith("module_"):
                self._discard(path)
                continue
            if name in self.seen:
                continue
            text = path.read_bytes()
            if not text.rstrip().endswith(b"}"):
                continue  # another thread is writing it; it is read after that sync
            self.seen.add(name)
            found.append(Module(name, module_name(text), text))
            self._discard(path)
        return found

    def _discard(self, path: Path) -> None:
        if self.is_private and path.name != _ANALYSIS:
            path.unlink(missing_ok=True)
            self.seen.discard(path.name)

    def take_analyses(self) -> list[Analysis]:
        """Analyses appended since the last call.

        Raises:
            OSError: the file cannot be read.
        """
        if self.analysis_file is None or not self.analysis_file.exists():
            return []
        with self.analysis_file.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
        end = data.rfind(b"Computation hash: ")
        if end < 0:
            return []
        end = data.find(b"\n", end) + 1
        if end == 0:
            return []
        self.offset += end
        return parse_analyses(data[:end].decode(errors="replace"))

    def remove(self) -> None:
        """Delete what was made for the dump."""
        if self.owned is not None:
            shutil.rmtree(self.owned, ignore_errors=True)

    def restore(self, env: MutableMapping[str, str]) -> None:
        """Put back the variables, those that nobody changed since."""
        for name, (before, put) in self.variables.items():
            if put not in env.get(name, ""):
                continue
            if before is None:
                rest = env[name].replace(put, "").strip()
                if rest:
                    env[name] = rest
                else:
                    del env[name]
            else:
                env[name] = env[name].replace(put, before)
        self.variables.clear()


def module_name(text: bytes) -> str:
    """The name in a module text's header line, or ``""``."""
    match = re.match(rb"HloModule ([^\s,]+)", text)
    return match[1].decode(errors="replace") if match else ""


def _drop_inherited(flags: str) -> str:
    """``flags`` without a parent process's private dump folder."""
    kept = [
        flag
        for flag in flags.split(" ")
        if not (flag.lstrip("-").startswith("xla_dump_to=") and f"/{PRIVATE_PREFIX}" in flag)
    ]
    return " ".join(kept)


def prepare_dump(run_folder: Path, tag: str, env: MutableMapping[str, str]) -> Dump:
    """Ask XLA and torch_xla, through ``env``, to write what they compile.

    To be called before torch_xla reads ``env``: XLA parses its flags once a process.

    Raises:
        OSError: the private folder cannot be made.
    """
    private = run_folder / f"{PRIVATE_PREFIX}{tag}"
    flags = _drop_inherited(env.get("XLA_FLAGS", ""))
    variables: dict[str, tuple[str | None, str]] = {}
    theirs = user_dump_folder(flags)
    if theirs:
        dump = Dump(Path(theirs), is_private=False, analysis_file=None)
        if dump.folder.is_dir():
            dump.seen.update(entry.name for entry in os.scandir(dump.folder))
        else:
            dump.folder.mkdir(parents=True, exist_ok=True)
    else:
        dump = Dump(private, is_private=True, analysis_file=None)
        put = f"--xla_dump_to={private}"
        env["XLA_FLAGS"] = f"{flags} {put}".strip()
        variables["XLA_FLAGS"] = (None, put)
    _ask_analysis(dump, private, env, variables)
    private.mkdir(parents=True, exist_ok=True)
    dump.owned = private
    dump.variables = variables
    return dump


def _ask_analysis(
    dump: Dump,
    private: Path,
    env: MutableMapping[str, str],
    variables: dict[str, tuple[str | None, str]],
) -> None:
    theirs = env.get("PT_XLA_DEBUG_FILE", "")
    if theirs and f"/{PRIVATE_PREFIX}" not in theirs:
        dump.analysis_file = Path(theirs)
        dump.offset = dump.analysis_file.stat().st_size if dump.analysis_file.exists() else 0
        return
    if env.get("PT_XLA_DEBUG_LEVEL", "") and not theirs:
        return  # the user reads it on their terminal
    dump.analysis_file = private / _ANALYSIS
    if "PT_XLA_DEBUG_LEVEL" not in env:
        variables["PT_XLA_DEBUG_LEVEL"] = (None, "1")
        env["PT_XLA_DEBUG_LEVEL"] = "1"
    put = str(dump.analysis_file)
    variables["PT_XLA_DEBUG_FILE"] = (None, put)
    env["PT_XLA_DEBUG_FILE"] = put


_LINE = re.compile(r"^Compilation Analysis: (.*)$", re.MULTILINE)
_FRAME = re.compile(r"\s*(\S+) \((.*):(\d+)\)$")


def parse_analyses(text: str) -> list[Analysis]:
    """Read torch_xla 2.9's ``Compilation Analysis`` blocks."""
    found: list[Analysis] = []
    for block in text.split("Compilation Analysis: Compilation Cause\n")[1:]:
        computation = re.search(r"^Computation hash: (\w+)", block, re.MULTILINE)
        lines = [line.strip() for line in _LINE.findall(block)]
        frames = [
            (match[2], int(match[3]), match[1])
            for line in lines
            if (match := _FRAME.match(line)) is not None
        ]
        found.append(
            Analysis(
                cause=lines[0] if lines else "",
                graph_hash=_value(lines, "Graph Hash: "),
                computation_hash=computation[1] if computation else "",
                inputs=int(_value(lines, "Number of Graph Inputs: ") or 0),
                outputs=int(_value(lines, "Number of Graph Outputs: ") or 0),
                frames=tuple(frames),
            )
        )
    return found


def _value(lines: list[str], key: str) -> str:
    return next((line.removeprefix(key) for line in lines if line.startswith(key)), "")
