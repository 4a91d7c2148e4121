"""Which steps are recorded: training steps, counted from 0 by their optimizer."""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlagraph.capture.host.options import DEFAULT_MAX_BYTES, Numbers, parse_bytes
from xlagraph.capture.host.say import say
from xlagraph.streams.record.session import Recording
from xlagraph.streams.unseen import STEP

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_LOG = "xlagraph-streams.jsonl"
EVERY = "all"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What to record, and where."""

    steps: Numbers
    path: str = ""
    """The log's file; ``""``: ``xlagraph-streams.jsonl``, or the next free name."""
    max_bytes: int = DEFAULT_MAX_BYTES
    rank: str = ""
    """This process's rank where there are several: it goes into the file's name."""


def options_from(env: Mapping[str, str]) -> StreamOptions:
    """The options that the ``XLAGRAPH_STREAMS*`` variables ask for.

    Raises:
        OptionError: a variable's value cannot be read.
    """
    steps = env.get("XLAGRAPH_STREAMS", "").strip()
    size = env.get("XLAGRAPH_MAX_BYTES", "")
    return StreamOptions(
        Numbers.parse("" if steps.lower() == EVERY else steps, "XLAGRAPH_STREAMS"),
        env.get("XLAGRAPH_STREAMS_LOG", ""),
        parse_bytes(size, "XLAGRAPH_MAX_BYTES") if size else DEFAULT_MAX_BYTES,
        env.get("RANK", "") if int(env.get("WORLD_SIZE", "1") or 1) > 1 else "",
    )


def free_path(options: StreamOptions) -> Path:
    """The file to create: the one asked for, or the first that is not there."""
    wanted = Path(options.path or DEFAULT_LOG)
    if options.rank:
        wanted = wanted.with_name(f"{wanted.stem}-rank{options.rank}{wanted.suffix}")
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
    return path


class Steps:
    """Begins and ends recordings as the program's steps go by.

    Each range of steps has a log of its own: between two of them too much would be unseen.
    """

    def __init__(self, options: StreamOptions):
        self.options = options
        self.step = 0
        self.recording: Recording | None = None
        self.paths: list[Path] = []
        self._optimizer: int | None = None
        self._failed = False
        self._first = 0

    def install(self) -> None:
        """Follows optimizers from now on; ``torch`` must have been imported."""
        torch = sys.modules["torch"]
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._stepped)
        os.register_at_fork(after_in_child=self._forked)
        if 0 in self.options.steps:
            torch.cuda._lazy_call(self._update)  # noqa: SLF001 - as CUDA is first used
        atexit.register(self.end)

    def advance(self) -> None:
        """A step has ended."""
        self.step += 1
        self._update()

    def end(self) -> None:
        """The program ends, or asks for it."""
        self._stop()
        if not self.paths and not self._failed:
            say(f"no stream log: the program ended after {self.step} optimizer steps")
            self._failed = True

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = id(optimizer)
        if id(optimizer) == self._optimizer:
            self.advance()

    def _update(self) -> None:
        wanted = self.step in self.options.steps and not self._failed
        if self.recording is not None and not wanted:
            self._stop()
        elif self.recording is not None:
            self.recording.step()
        elif wanted:
            self._start()

    def _start(self) -> None:
        path = free_path(self.options)
        try:
            if not sys.modules["torch"].cuda.is_available():
                raise OSError("torch has no CUDA device")  # noqa: TRY301 - told as any other reason
            recording = Recording(path, self.options.max_bytes, f"{STEP}{self.step}")
            recording.start()
        except Exception as error:  # noqa: BLE001 - the program must go on whatever happens
            say(f"no stream log: {error}")
            self._failed = True
            return
        self.recording, self._first = recording, self.step
        self.paths.append(path)

    def _stop(self) -> None:
        recording, self.recording = self.recording, None
        if recording is None:
            return
        recording.stop()
        steps = f"{self._first}-{self.step - 1}" if self.step - 1 > self._first else self._first
        say(
            f"steps {steps}: {recording.records:,} records; next: xlagraph streams {recording.path}"
        )

    def _forked(self) -> None:
        if self.recording is not None:
            self.recording.forget()
            self.recording = None
        self._failed = True
