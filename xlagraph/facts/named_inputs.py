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
    from xlagraph.cause.model import Context
    from xlagraph.graph import Module

LASTING = frozenset({Role.PARAMETER, Role.BUFFER, Role.STATE})
"""What is the same tensor before and after a step."""


def with_inputs_named(context: Context, module: Module) -> Context:
    """The context with the name of each lasting output for the one input that it replaces."""
    known = set(context.parameters.values())
    missing = {
        k: tensor
        for k, tensor in context.outputs.items()
        if tensor.role in LASTING and tensor not in known
    }
    if not missing:
        return context
    values = module.outputs
    nearest = {p: min(found, key=values.__getitem__) for p, found in updates(module).items()}
    times = Counter(nearest.values())
    names = {
        int(module.payloads[p]): missing[k]
        for p, k in nearest.items()
        if k in missing and times[k] == 1 and context.input_tensor(module, p) is None
    }
    return replace(context, parameters={**context.parameters, **names})
