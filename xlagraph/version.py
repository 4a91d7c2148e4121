"""Which xlagraph this is: the release, and the code itself where it is being changed."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def tool_version() -> str:
    """Release, Python, and a digest of the source: equal ones explain alike.

    A few milliseconds, once a process.
    """
    try:
        release = version("xlagraph")
    except PackageNotFoundError:
        release = "0"
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{release}-py{python}-{_source_digest()}"


def _source_digest() -> str:
    root = Path(__file__).parent
    found = hashlib.blake2b(digest_size=8)
    for file in sorted(root.rglob("*.py")):
        found.update(file.relative_to(root).as_posix().encode() + b"\0")
        found.update(file.read_bytes())
    return found.hexdigest()
