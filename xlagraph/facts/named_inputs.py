"""Names of inputs that a capture did not see, from the outputs that replace them.

In the first step of a program the tensors behind the inputs are gone when names are looked up:
the parameters already hold their new values, which are known by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.updates import updates
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.model import Context
    from xlagraph.graph import Module

LASTING = frozenset({Role.PARAMETER, Role.BUFFER, Role.STATE})
"""What is the same tensor before and after a step."""


def replaced_inputs(
    module: Module, updated: Mapping[int, Sequence[int]] | None = None
) -> dict[int, int]:
    """Parameter number to the output that replaces it, where that replaces no other.

    `updated`: the module's `updates`, if they are known.
    """
    values, found = module.outputs, updates(module) if updated is None else updated
    nearest = {p: min(places, key=values.__getitem__) for p, places in found.items()}
    times = Counter(nearest.values())
    return {int(module.payloads[p]): k for p, k in nearest.items() if times[k] == 1}


def with_inputs_named(context: Context, replaced: Mapping[int, int]) -> Context:
    """The context with the name of each lasting output for the one input that it replaces.

    `replaced`: what `replaced_inputs` says of the module.
    """
    known = set(context.parameters.values())
    names = {
        number: tensor
        for number, k in replaced.items()
        if (tensor := context.outputs.get(k))
        and tensor.role in LASTING
        and tensor not in known
        and number not in context.parameters
    }
    return replace(context, parameters={**context.parameters, **names}) if names else context
