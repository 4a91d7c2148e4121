"""What a step's graph does to the tensors of a training: what it updates, takes in, gives out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.runs.graphs.sketch import without_layout
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.model import Context
    from xlagraph.runs.graphs.sketch import Interface
    from xlagraph.tensors import Tensor

    Names = Mapping[int, Tensor]
    """Place of an input to the tensor that it is."""
    Weight = tuple[Tensor, str]
    """A parameter and its shape: other models may have parameters of the same name."""


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What one graph does; scalars are left out."""

    trained: frozenset[Weight]
    """The parameters that it gives new values."""
    others_updated: int
    """Inputs without a known name whose buffers go to new values of theirs: perhaps parameters;
    but for those of one element, as sums of losses are."""
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


def input_names(interface: Interface, context: Context) -> dict[int, Tensor]:
    """The tensors that the inputs of a module are, as far as its capture knows."""
    known = ((k, context.parameters.get(n)) for k, (n, _) in enumerate(interface.inputs))
    return {k: tensor for k, tensor in known if tensor}


def names_from(partners: Iterable[int], names: Names) -> dict[int, Tensor]:
    """Names for the inputs of the second module of a pair, of their partners in the first.

    `partners`: for each input of the second the place of one of the same shape, or -1.
    """
    return {k: names[other] for k, other in enumerate(partners) if other in names}


def traits_of(interface: Interface, context: Context, names: Names) -> Traits:
    """The traits of a graph; `names` are those of its inputs.

    An input counts as updated if an output is computed from it element by element, and is known by
    name as its new value or takes its buffer over.
    """
    shapes = [without_layout(shape) for _, shape in interface.inputs]
    inputs = [k for k, shape in enumerate(shapes) if not _is_scalar(shape)]
    new_values = {k: found for k, found in interface.updates if not _is_scalar(shapes[k])}
    away = frozenset(interface.given_away)
    trained, others = set(), 0
    for k, positions in new_values.items():
        tensor = _updated(names.get(k), map(context.outputs.get, positions))
        if tensor and tensor.role in (Role.PARAMETER, Role.STATE):
            if tensor.role is Role.PARAMETER:
                trained.add((tensor, shapes[k]))
        elif tensor is None and interface.inputs[k][0] in away and not _is_total(shapes[k]):
            others += 1
    outputs = interface.outputs
    renewed = {k for positions in new_values.values() for k in positions}

    def taken(role: Role) -> Counter[str]:
        return Counter(shapes[k] for k in inputs if k in names and names[k].role is role)

    gradients = taken(Role.GRADIENT)
    return Traits(
        trained=frozenset(trained),
        others_updated=others,
        gradients=gradients,
        sums_gradients=gradients <= Counter(shape for shape, is_input in outputs if not is_input),
        states=taken(Role.STATE),
        gives=Counter(
            shape
            for k, (shape, is_input) in enumerate(outputs)
            if k not in renewed and not is_input and not _is_scalar(shape)
        ),
        reads=Counter(shapes[k] for k in inputs),
    )


def _updated(taken: Tensor | None, given: Iterable[Tensor | None]) -> Tensor | None:
    """The tensor that gets a new value: a copy that was just made of another shares its input."""
    known = [tensor for tensor in given if tensor]
    return taken if taken in known or not known else known[0]


def _is_scalar(shape: str) -> bool:
    return shape.endswith("[]")


def _is_total(shape: str) -> bool:
    """Whether it is of one element, however many dimensions it has."""
    return set(shape.partition("[")[2].rstrip("]").split(",")) == {"1"}
