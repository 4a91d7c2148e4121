"""XLA as an oracle for whole modules: its parser, its compiler and its CPU, not this project.

`Oracle` keeps a worker process (`xla_worker`) and starts it anew where XLA ended it or where an
answer takes too long.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from xlagraph.diff import Diff
    from xlagraph.evaluate import SameValues

QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""XLA's own passes stay; LLVM's would take most of the time."""
WORKER = Path(__file__).with_name("xla_worker.py")
SECONDS = 60.0


class NoAnswerError(Exception):
    """XLA refused, failed, ended its process or took too long; the text says which."""


class Oracle:
    """Questions to XLA; a context manager."""

    def __init__(self, seconds: float = SECONDS):
        self.seconds = seconds
        self._worker: subprocess.Popen[str] | None = None

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def printed(self, text: str) -> str:
        """XLA's print of a module, names and metadata left out.

        Raises:
            NoAnswerError: it does not read it.
        """
        return str(self._ask("printed", text))

    def acting(self, text: str) -> list[str]:
        """The opcodes with effects that XLA leaves in the compiled module.

        Raises:
            NoAnswerError: it cannot be compiled.
        """
        return list(self._ask("acting", text))

    def disagreement(self, diff: Diff, a: str, b: str, seed: int = 0) -> str:
        """What differs when both texts are run on the same random arguments, ``""`` for nothing.

        The positions that belong together are those of `diff`.

        Raises:
            NoAnswerError: one of them cannot be run here.
        """
        parameters = _pairs((slot.a, slot.b) for slot in diff.parameters)
        one_value = diff.a.opcodes[diff.a.entry_computation.root] != "tuple"  # of any shape
        outputs = None if one_value else _pairs((slot.a, slot.b) for slot in diff.outputs)
        return str(self._ask("agree", a, b, parameters, outputs, seed))

    def other_values(self, found: SameValues, a: str, b: str, seed: int = 0) -> str:
        """What differs when both texts are run on the same random arguments, ``""`` for nothing.

        The positions that belong together are those of `found`, and its tensors more of one text
        are left out.

        Raises:
            NoAnswerError: one of them cannot be run here.
        """
        parameters = [[k, n] for k, n in enumerate(found.parameters)]
        outputs = [[k, n] for k, n in enumerate(found.outputs) if n >= 0]
        return str(self._ask("agree", a, b, parameters, outputs, seed))

    def values(self, text: str, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Random arguments for a module, and what XLA's CPU gives back for them.

        Raises:
            NoAnswerError: it cannot be run here.
        """
        arguments, results = self._ask("values", text, seed)
        return [_array(x) for x in arguments], [_array(x) for x in results]

    def _ask(self, name: str, *arguments: object) -> Any:
        worker = self._worker = self._worker or _started()
        assert worker.stdin
        assert worker.stdout
        worker.stdin.write(json.dumps([name, arguments]) + "\n")
        worker.stdin.flush()
        ready, _, _ = select.select([worker.stdout], [], [], self.seconds)
        line = worker.stdout.readline() if ready else ""
        if not line:
            self._stop()
            raise NoAnswerError("XLA ended its process" if ready else "no answer in time")
        answer = json.loads(line)
        if "error" in answer:
            raise NoAnswerError(answer["error"])
        return answer["answer"]

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker:
            worker.kill()
            worker.wait()
            for stream in (worker.stdin, worker.stdout):
                if stream:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        continue


def _array(told: Any) -> np.ndarray:
    kind, sizes, numbers = told
    if kind.startswith("complex"):
        return np.array([complex(*pair) for pair in numbers], kind).reshape(sizes)
    return np.array(numbers, kind).reshape(sizes)


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICK}"},
    )


def _pairs(slots: Any) -> list[Sequence[int]]:
    return [(a, b) for a, b in slots if a is not None and b is not None]
