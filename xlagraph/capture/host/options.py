"""What capture is asked to do: one frozen value, read from ``XLAGRAPH*`` variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from signal import Signals

from xlagraph.capture.host.inherited import OFF
from xlagraph.capture.host.levels import LINES, Level, OptionError, level_of
from xlagraph.limits import bytes_from

DEFAULT_MAX_BYTES = 1 << 30
DEFAULT_ARM_STEPS = 4

_WHOLE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Numbers:
    """A set of non-negative whole numbers such as ``0-3,8,100-``; empty means all."""

    ranges: tuple[tuple[int, int | None], ...] = ()

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        if not self.ranges:
            return True
        return any(low <= number and (high is None or number <= high) for low, high in self.ranges)

    @classmethod
    def parse(cls, text: str, what: str) -> Numbers:
        """Read ``3``, ``3-8``, ``3-`` and lists of these.

        Raises:
            OptionError: the text is none of these; ``what`` names it in the message.
        """
        ranges: list[tuple[int, int | None]] = []
        for part in filter(None, text.replace(" ", "").split(",")):
            match = re.fullmatch(r"([0-9]{1,18})(-([0-9]{0,18}))?", part)
            if match is None:
                raise OptionError(f"{what}: want numbers such as 0-3,8,100-; got {text!r}")
            low = int(match[1])
            high = low if match[2] is None else (int(match[3]) if match[3] else None)
            ranges.append((low, high))
        return cls(tuple(ranges))


def parse_bytes(text: str, what: str) -> int:
    """Read ``1000``, ``64K``, ``512M``, ``2G``.

    Raises:
        OptionError: the text is none of these.
    """
    size = bytes_from(text)
    if size is None:
        raise OptionError(f"{what}: want bytes such as 512M or 2G; got {text!r}")
    return size


@dataclass(frozen=True, slots=True)
class Options:
    """How to capture. Every field has its ``XLAGRAPH*`` variable; see docs/capture.md."""

    path: str = ""
    """Run folder or fsspec URL; ``""``: a fresh ``xlagraph-run`` in the working directory."""
    level: Level = LINES
    steps: Numbers = Numbers()
    """Steps looked at closely at level 2."""
    ranks: Numbers = Numbers()
    max_bytes: int = DEFAULT_MAX_BYTES
    """Bound for each process on what it adds to the folder."""
    arm_steps: int = DEFAULT_ARM_STEPS
    """Steps after a compile for which the costly hooks stay armed."""
    holders: bool = False
    """Search the garbage collector's objects for what holds each live tensor."""
    summary: bool = True
    signal: Signals | None = None
    """Arrives to ask for a close look at the next steps."""


def _flag(text: str) -> bool:
    return text.strip().lower() not in OFF


def _whole(text: str, what: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise OptionError(f"{what}: want a whole number; got {text!r}")
    return int(text)


def _signal(text: str) -> Signals | None:
    name = text.strip().upper()
    if not name:
        return None
    found = getattr(Signals, f"SIG{name.removeprefix('SIG')}", None)
    if found is None or found in (Signals.SIGKILL, Signals.SIGSTOP):
        raise OptionError(f"XLAGRAPH_SIGNAL: want a signal such as USR2; got {text!r}")
    return Signals(found)


def options_from(env: Mapping[str, str]) -> Options:
    """The options that the ``XLAGRAPH*`` variables of ``env`` ask for.

    Raises:
        OptionError: a variable's value cannot be read.
    """
    return Options(
        path=env.get("XLAGRAPH_DIR", ""),
        level=level_of(env.get("XLAGRAPH", "1"), "XLAGRAPH"),
        steps=Numbers.parse(env.get("XLAGRAPH_STEPS", ""), "XLAGRAPH_STEPS"),
        ranks=Numbers.parse(env.get("XLAGRAPH_RANKS", ""), "XLAGRAPH_RANKS"),
        max_bytes=parse_bytes(
            env.get("XLAGRAPH_MAX_BYTES", str(DEFAULT_MAX_BYTES)), "XLAGRAPH_MAX_BYTES"
        ),
        arm_steps=_whole(
            env.get("XLAGRAPH_ARM_STEPS", str(DEFAULT_ARM_STEPS)), "XLAGRAPH_ARM_STEPS"
        ),
        holders=_flag(env.get("XLAGRAPH_HOLDERS", "")),
        summary=_flag(env.get("XLAGRAPH_SUMMARY", "1")),
        signal=_signal(env.get("XLAGRAPH_SIGNAL", "")),
    )
