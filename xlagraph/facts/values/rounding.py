"""Whether two numbers of different types are one number, rounded to the narrower type."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_BITS = {"f64": (11, 52), "f32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "c64": (8, 23)}
_SMALL = re.compile(r"f\d+e(\d+)m(\d+)")
"""Types of 8 bits and less have the widths of exponent and mantissa in their names."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Format(NamedTuple):
    """A floating-point format as IEEE 754 lays it out."""

    exponent: int
    """Bits."""
    mantissa: int
    """Bits, without the leading one."""

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float((2 - 2.0**-self.mantissa) * 2.0 ** (2 ** (self.exponent - 1) - 1))

    def rounded(self, number: float) -> float:
        """The nearest number of this format, the even one of two; overflow is not looked at."""
        if not number or not math.isfinite(number):
            return number
        least = 2 - 2 ** (self.exponent - 1)
        unit = max(math.frexp(number)[1] - 1, least) - self.mantissa
        return math.ldexp(round(math.ldexp(number, -unit)), unit)


def format_of(type_name: str) -> Format | None:
    """The format of an HLO element type; None for integers and the like."""
    small = _SMALL.match(type_name)
    if small:
        return Format(int(small[1]), int(small[2]))
    bits = _BITS.get("f64" if type_name == "c128" else type_name)
    return Format(*bits) if bits else None


def same_number(old: str, new: str, old_type: str, new_type: str) -> bool:
    """Whether the texts of two constants are the same numbers, each rounded to its type.

    The largest number of one type and that of the other, as masks have them, count as one.
    """
    if old == new:
        return True
    formats = format_of(old_type), format_of(new_type)
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in (old, new)]
    if NUMBER.sub("#", old) != NUMBER.sub("#", new) or len(numbers[0]) != len(numbers[1]):
        return False
    first, second = formats
    if first is None or second is None:
        return numbers[0] == numbers[1]
    narrow = min(first, second, key=lambda f: f.mantissa)
    return all(
        narrow.rounded(p) == narrow.rounded(q)
        or (_is_largest(first, p) and _is_largest(second, q) and p * q > 0)
        for p, q in zip(*numbers, strict=True)
    )


def _is_largest(form: Format, number: float) -> bool:
    return form.rounded(abs(number)) == form.largest
