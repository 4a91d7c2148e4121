"""One instruction as its evaluation sees it: its shape, its attributes, and whom it may call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xlagraph.evaluate.errors import NotEvaluatedError
from xlagraph.hlo.shapes import read_shape
from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from xlagraph.evaluate.budget import Budget
    from xlagraph.graph import Module
    from xlagraph.hlo.shapes import Shape

    Array: TypeAlias = npt.NDArray[Any]

_INTEGER = re.compile(r"-?\d{1,18}")
_KINDS = {"pred": np.bool_, "c64": np.complex128, "c128": np.complex128}
_KINDS |= {f"s{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)}
_KINDS |= {f"u{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)}
_FLOATS = frozenset({"f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2"})


def is_float(kind: str) -> bool:
    """Whether an element type is a floating type that is evaluated."""
    return kind in _FLOATS


def type_of(kind: str) -> np.dtype[Any]:
    """How values of an element type are held: floats as float64, integers as they are."""
    if kind in _FLOATS:
        return np.dtype(np.float64)
    if kind not in _KINDS:
        raise NotEvaluatedError(f"values of type {kind} are not evaluated")
    return np.dtype(_KINDS[kind])


@lru_cache(maxsize=4096)
def integers(text: str) -> tuple[int, ...]:
    """The numbers of an attribute such as ``{0,1}``."""
    return tuple(map(int, _INTEGER.findall(text)))


@dataclass(frozen=True, eq=False)
class Calls:
    """How an instruction evaluates what it calls."""

    call: Callable[[int, Sequence[Any]], Any]
    """A computation by number, with its arguments."""
    lifted: Callable[[int, Sequence[Any]], Any]
    """A computation over scalars, at once for arrays of them."""
    budget: Budget
    device: int
    """The number that stands for this replica and partition."""


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction that is evaluated."""

    module: Module
    number: int

    @property
    def opcode(self) -> str:
        """Its opcode."""
        return self.module.opcodes[self.number]

    @cached_property
    def shape(self) -> Shape:
        """Its shape."""
        return read_shape(self.module.shapes[self.number])

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.shape.dimensions

    @property
    def kind(self) -> str:
        """Its element type."""
        return self.shape.element_type

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """How its values are held."""
        return type_of(self.kind)

    def operand_shape(self, place: int) -> Shape:
        """The shape of an operand."""
        return read_shape(self.module.shapes[self.module.operands[self.number][place]])

    def text(self, key: str, default: str = "") -> str:
        """The text of an attribute."""
        return self.module.attributes[self.number].get(key) or default

    def integers(self, key: str) -> tuple[int, ...]:
        """The numbers of an attribute."""
        return integers(self.text(key))

    def integer(self, key: str, default: int = 0) -> int:
        """The number of an attribute."""
        return next(iter(self.integers(key)), default)

    def is_true(self, key: str) -> bool:
        """Whether a flag is set."""
        return self.text(key) == "true"

    def callee(self, key: str) -> int:
        """The number of the computation that an attribute names."""
        place = 0
        for name, names in self.module.attributes[self.number].callees:
            if name == key:
                return self.module.callees[self.number][place]
            place += len(names)
        raise self.not_evaluated(f"it has no {key}")

    def expects(self, dimensions: Sequence[int]) -> None:
        """Makes sure that a result is as large as the shape says, before it is made."""
        if tuple(dimensions) != self.dimensions:
            raise self.not_evaluated("its attributes do not fit its shape")

    def not_evaluated(self, why: str) -> NotEvaluatedError:
        """What is raised where this instruction is not evaluated."""
        name = self.module.names[self.number]
        return NotEvaluatedError(f"{self.opcode} is not evaluated here: {why} ({name})")
