"""Where the programs of these tests are."""

from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def programs():
    return PROGRAMS
