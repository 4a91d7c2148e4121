"""Names of inputs that a capture did not see, from the outputs that replace them.

In the first step of a program the tensors behind the inputs are gone when names are looked up:
the parameters already hold their new values, which are known by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.training.updates import elementwise, formula, updates
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.model import Context
    from xlagraph.graph import Module
    from xlagraph.tensors import Tensor

LASTING = frozenset({Role.PARAMETER, Role.BUFFER, Role.STATE})
"""What is the same tensor before and after a step."""


def replaced_inputs(
    module: Module, updated: Mapping[int, Sequence[int]] | None = None
) -> dict[int, tuple[int, ...]]:
    """Parameter number to the output that replaces it, where that replaces no other.

    Behind it further outputs that are new values of this input alone, and not only by the nearest:
    a momentum, too, makes a weight's new value, but through its own.
    `updated`: the module's `updates`, if they are known.
    """
    values, found = module.outputs, updates(module) if updated is None else updated
    nearest = {p: min(places, key=values.__getitem__) for p, places in found.items()}
    times = Counter(nearest.values())
    shared = Counter(k for places in found.values() for k in places)
    return {
        int(module.payloads[p]): (
            k,
            *(
                o
                for o in found[p]
                if o != k and shared[o] == 1 and _reaches(module, values[o], p, values[k])
            ),
        )
        for p, k in nearest.items()
        if times[k] == 1
    }


def _reaches(module: Module, value: int, parameter: int, without: int) -> bool:
    """Whether a value is computed from a parameter element by element past another value, too."""

    def sources(module: Module, i: int) -> Sequence[int]:
        return () if i == without else elementwise(module, i)

    return parameter in formula(module, value, sources)


def with_inputs_named(context: Context, replaced: Mapping[int, Sequence[int]]) -> Context:
    """The context with the name of each lasting output for the one input that it replaces.

    `replaced`: what `replaced_inputs` says of the module.
    """
    known = set(context.parameters.values())
    names = {
        number: tensor
        for number, outputs in replaced.items()
        if (tensor := _replaced([context.outputs.get(k) for k in outputs]))
        and tensor.role in LASTING
        and tensor not in known
        and number not in context.parameters
    }
    return replace(context, parameters={**context.parameters, **names}) if names else context


def _replaced(outputs: Sequence[Tensor | None]) -> Tensor | None:
    """The tensor that an input is, of those that its new values are, the nearest first.

    Weight decay makes a momentum's first value from the weight: the weight is there, and the
    momentum is not yet.
    """
    nearest = outputs[0]
    if nearest is None or not nearest.is_optimizer_state:
        return nearest
    owner = replace(nearest, role=Role.PARAMETER, optimizer="", key="")
    return owner if owner in outputs else nearest
