"""Processes that a test has started, as the kernel sees them."""

from __future__ import annotations

import time
from pathlib import Path

PATIENCE_SECONDS = 30.0


def family(parent: int) -> set[int]:
    """The processes below one, with their own children."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\nPPid:\t{parent}\n" in (entry / "status").read_text():
                found |= {int(entry.name)} | family(int(entry.name))
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def wait_for(condition) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.05)
