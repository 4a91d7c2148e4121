"""Expected outputs as files. ``UPDATE_GOLDEN=1 pytest`` rewrites them: read the change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def check(text: str, file: Path) -> None:
    """Compares a text with the file that holds what is expected."""
    text = "\n".join(text.splitlines()) + "\n"
    assert [line for line in text.splitlines() if line.endswith(" ")] == []
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.exists(), f"{file} is missing: run with UPDATE_GOLDEN=1 and read what it writes"
    assert text == file.read_text()
