"""What XLA's parser reads is read here: a small part of ``fuzz/parsers.py``."""

from __future__ import annotations

import pytest
from repository import script
from xla_oracle import Oracle

parsers = script("fuzz/parsers.py")
TEXTS = [path.read_bytes().decode() for path in sorted(parsers.DIALECTS.glob("*.hlo"))]


@pytest.mark.parametrize("seed", range(4))
def test_changed_texts_that_xla_reads_are_read(seed):
    """But for a few with brackets left open, which nobody would write: 12 in 30,000."""
    with Oracle() as oracle:
        found = list(parsers.refused(TEXTS, 700, seed, oracle))
    assert len(found) <= 1, [str(error) for _, error in found]
