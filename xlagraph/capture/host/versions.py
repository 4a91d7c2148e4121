"""What the installed torch_xla cannot give, in one line; the table is in docs/capture.md."""

from __future__ import annotations

import re

OLDEST, NEWEST = (2, 5), (2, 9)
"""The releases of torch_xla that capture supports."""
_MISSING = {
    (2, 5): "computation hashes, and names of inputs that the device is still computing",
    (2, 6): "computation hashes, and names of inputs that the device is still computing",
}


def said_of(version: str) -> str:
    """What a capture under this torch_xla lacks; ``""`` for nothing."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    release = (int(match[1]), int(match[2])) if match is not None else (0, 0)
    if not OLDEST <= release <= NEWEST:
        return (
            f"capture is tested with torch_xla {_dotted(OLDEST)} to {_dotted(NEWEST)}; with "
            f"{version or 'an unknown version'} something may be missing"
        )
    missing = _MISSING.get(release)
    return f"under torch_xla {version} these are not recorded: {missing}" if missing else ""


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
