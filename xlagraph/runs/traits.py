"""What a step's graph does to the tensors of a training: what it updates, takes in, gives out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.diff.header import given_away
from xlagraph.facts.updates import updates
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.model import Context
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.tensors import Tensor

    Names = Mapping[int, Tensor]
    """Instruction of an input to the tensor that it is."""
    Weight = tuple[Tensor, str]
    """A parameter and its shape: other models may have parameters of the same name."""


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What one graph does; scalars are left out."""

    trained: frozenset[Weight]
    """The parameters that it gives new values."""
    others_updated: int
    """Inputs without a known name whose buffers go to new values of theirs: perhaps parameters."""
    gradients: Counter[str]
    """Shapes of the gradients that it takes in."""
    sums_gradients: bool
    """What it computes has their shapes: they may be given back with something added."""
    states: Counter[str]
    """Shapes of the optimizer's state that it takes in."""
    gives: Counter[str]
    """Shapes of what it gives out beside new values of inputs: a loss, gradients, activations."""
    reads: Counter[str]
    """Shapes of its inputs."""


def input_names(module: Module, context: Context) -> dict[int, Tensor]:
    """The tensors that the inputs of a module are, as far as its capture knows."""
    known = ((p, context.input_tensor(module, p)) for p in module.entry_computation.parameters)
    return {p: tensor for p, tensor in known if tensor}


def names_from(diff: Diff, names: Names) -> dict[int, Tensor]:
    """Names for the inputs of the second module, of their partners in the first."""
    a, b = (module.entry_computation.parameters for module in (diff.a, diff.b))
    pairs = ((slot.a, slot.b) for slot in diff.parameters)
    known = ((a[x], b[y]) for x, y in pairs if x is not None and y is not None)
    return {q: names[p] for p, q in known if p in names and diff.a.shapes[p] == diff.b.shapes[q]}


def traits_of(module: Module, context: Context, names: Names) -> Traits:
    """The traits of a graph; `names` are those of its inputs.

    An input counts as updated if an output is computed from it element by element, and is known by
    name as its new value or takes its buffer over.
    """
    inputs = [p for p in module.entry_computation.parameters if not _is_scalar(module, p)]
    new_values = {p: found for p, found in updates(module).items() if not _is_scalar(module, p)}
    away = given_away(module)
    trained, others = set(), 0
    for p, positions in new_values.items():
        tensor = names.get(p) or next(filter(None, map(context.outputs.get, positions)), None)
        if tensor and tensor.role in (Role.PARAMETER, Role.STATE):
            if tensor.role is Role.PARAMETER:
                trained.add((tensor, _shape(module, p)))
        elif tensor is None and int(module.payloads[p]) in away:
            others += 1
    values = module.outputs
    for k, tensor in context.outputs.items():
        if k < len(values) and tensor.role is Role.PARAMETER and not is_input(module, values[k]):
            trained.add((tensor, _shape(module, values[k])))
    renewed = {k for positions in new_values.values() for k in positions}

    def shapes(role: Role) -> Counter[str]:
        return Counter(_shape(module, p) for p in inputs if p in names and names[p].role is role)

    gradients = shapes(Role.GRADIENT)
    return Traits(
        trained=frozenset(trained),
        others_updated=others,
        gradients=gradients,
        sums_gradients=gradients
        <= Counter(_shape(module, value) for value in values if not is_input(module, value)),
        states=shapes(Role.STATE),
        gives=Counter(
            _shape(module, value)
            for k, value in enumerate(values)
            if k not in renewed and not is_input(module, value) and not _is_scalar(module, value)
        ),
        reads=Counter(_shape(module, p) for p in inputs),
    )


def _is_scalar(module: Module, i: int) -> bool:
    return module.shapes[i].endswith("[]")


def _shape(module: Module, i: int) -> str:
    """The shape without its layout."""
    return module.shapes[i].partition("{")[0]
