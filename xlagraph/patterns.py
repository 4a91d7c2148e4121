"""Regular expressions with possessive quantifiers (``*+``), on which the readers' speed rests.

Python has them from 3.11 on; before that the library ``regex`` takes the same patterns.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 11):
    import re
else:
    import regex as re

__all__ = ["re"]
