"""Enumerations whose members are strings, as ``enum.StrEnum`` of Python 3.11 has them."""

from __future__ import annotations

from enum import Enum


class StrEnum(str, Enum):
    """Members compare, print and format as their values."""

    __str__ = str.__str__

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)
