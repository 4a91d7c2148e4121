"""Names of parameters, gradients, buffers and optimizer state, as in XLA capture."""

# ruff: noqa: SLF001 - modules and optimizers keep their tensors under private names

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xlagraph.capture.tensors import heap
from xlagraph.capture.tensors.names import TensorNames

if TYPE_CHECKING:
    from collections.abc import Iterator


def live() -> tuple[list[Any], list[Any]]:
    """Modules and optimizers that are alive; one pass over the heap."""
    torch = sys.modules["torch"]
    modules, optimizers = heap.find(torch.nn.Module, torch.optim.Optimizer)
    return modules, optimizers


def named_tensors(modules: list[Any], optimizers: list[Any]) -> Iterator[tuple[Any, str]]:
    """Every tensor of these modules and optimizers, with its name."""
    names = TensorNames().of_objects(modules, optimizers)
    for tensor in _tensors(modules, optimizers):
        name = names.get(id(tensor))
        if name is not None:
            yield tensor, str(name)


def _tensors(modules: list[Any], optimizers: list[Any]) -> Iterator[Any]:
    tensor_type = sys.modules["torch"].Tensor
    for module in modules:
        for held in (module._parameters, module._buffers):
            for tensor in held.values():
                if tensor is not None:
                    yield tensor
                    if tensor.is_leaf and tensor.grad is not None:
                        yield tensor.grad
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                if isinstance(value, tensor_type):
                    yield value
