"""Scripts of the repository that are no package: benchmarks, fuzzers and makers, as modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def script(path: str) -> Any:
    """The script at this path of the repository; it finds those beside it as when it is run."""
    folder, name = str((ROOT / path).parent), Path(path).stem
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
