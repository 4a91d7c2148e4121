"""Who is who by name: what a capture recorded of inputs and outputs constrains the pairing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from xlagraph.canon.labels import Interner


@dataclass(frozen=True, slots=True)
class KnownTensors:
    """The tensors that instructions of one module's entry computation are known to be."""

    inputs: Mapping[int, Hashable] = field(default_factory=dict)
    """Parameter to tensor."""
    outputs: Mapping[int, Hashable] = field(default_factory=dict)
    """Instruction to the tensor that its value becomes."""


NO_NAMES = KnownTensors()
"""Nothing is known: a bare file."""


@dataclass(frozen=True, slots=True)
class Identities:
    """The instructions of one module whose names stand once on both sides, with their numbers."""

    inputs: Mapping[int, int] = field(default_factory=dict)
    outputs: Mapping[int, int] = field(default_factory=dict)
    renewed: Mapping[int, int] = field(default_factory=dict)
    """Output to the input that it is a new value of, by a name that this module alone need know."""

    def label(self, labels: Sequence[int], interner: Interner) -> Sequence[int]:
        """Labels that also say which tensor a parameter is."""
        if not self.inputs:
            return labels
        made = list(labels)
        for i, name in self.inputs.items():
            made[i] = interner.number(("named", name, labels[i]))
        return made


def identities(
    a: KnownTensors, b: KnownTensors, interner: Interner
) -> tuple[Identities, Identities]:
    """What the names of two modules say together.

    A name that only one side has says nothing: the other side may not have recorded it.
    """
    inputs_a, inputs_b = _common(a.inputs, b.inputs, interner)
    outputs_a, outputs_b = _common(a.outputs, b.outputs, interner)
    return (
        Identities(inputs_a, outputs_a, _renewed(a)),
        Identities(inputs_b, outputs_b, _renewed(b)),
    )


def _renewed(known: KnownTensors) -> dict[int, int]:
    inputs = _once(known.inputs)
    outputs = _once(known.outputs).items()
    return {i: inputs[name] for name, i in outputs if name in inputs}


def _common(
    a: Mapping[int, Hashable], b: Mapping[int, Hashable], interner: Interner
) -> tuple[dict[int, int], dict[int, int]]:
    once_a, once_b = _once(a), _once(b)
    numbers = {name: interner.number(("name", name)) for name in once_a if name in once_b}
    return (
        {once_a[name]: number for name, number in numbers.items()},
        {once_b[name]: number for name, number in numbers.items()},
    )


def _once(names: Mapping[int, Hashable]) -> dict[Hashable, int]:
    """The instruction of each name that stands once."""
    counts = Counter(names.values())
    return {name: i for i, name in names.items() if counts[name] == 1}
