"""Names of tensors: which module, optimizer state or bucket a tensor id belongs to.

Modules and optimizers are found among the garbage collector's objects, by type, and only
when something has compiled: nothing is registered at construction and nothing is held. A
tensor is known by torch_xla's tensor id, which is never used twice in a process, so an old
entry can become useless but never wrong.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_WRAPPERS = ("_fsdp_wrapped_module", "_fpw_module", "_orig_mod", "_checkpoint_wrapped_module")
_SHARD_PREFIX = "_fsdp_shard."
_SEPARATOR = "_FSDP_SHARD_SEPARATOR_"


def clean_name(name: str) -> str:
    """``name`` without the parts that FSDP, checkpoint and compile wrappers put in."""
    parts = name.replace(_SHARD_PREFIX, "").replace(_SEPARATOR, ".").split(".")
    return ".".join(part for part in parts if part not in _WRAPPERS and part != "_fsdp_shard")


def objects_of(kind: type) -> list[Any]:
    """Objects of ``kind`` that the collector tracks; by real type, so proxies stay asleep."""
    cache: dict[type, bool] = {}
    found = []
    for one in gc.get_objects():
        of = type(one)
        is_kind = cache.get(of)
        if is_kind is None:
            is_kind = cache[of] = issubclass(of, kind)
        if is_kind:
            found.append(one)
    return found


@dataclass(slots=True)
class Names:
    """What is known so far, refreshed when asked."""

    _tensors: dict[int, str] = field(default_factory=dict)
    _modules: weakref.WeakKeyDictionary[Any, str] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def module(self, module: Any) -> str:
        """The module's path from its root, ``""`` for a root or an unknown module."""
        return self._modules.get(module, "")

    def knows_module(self, module: Any) -> bool:
        """True when the last refresh saw ``module``."""
        return module in self._modules

    def tensor(self, tensor_id: int) -> str:
        """The name of the tensor with this torch_xla id, or ``""``."""
        return self._tensors.get(tensor_id, "")

    def find_modules(self) -> None:
        """Name every live module by its path from the module that nothing contains."""
        torch = sys.modules["torch"]
        modules = objects_of(torch.nn.Module)
        inner = {id(child) for module in modules for child in module._modules.values() if child}
        for module in modules:
            if id(module) not in inner:
                for path, one in module.named_modules():
                    self._modules.setdefault(one, clean_name(path))

    def find_tensors(self) -> None:
        """Name parameters, their gradients, buffers and optimizer state by tensor id."""
        torch = sys.modules["torch"]
        self.find_modules()
        by_object: dict[int, str] = {}
        for module in objects_of(torch.nn.Module):
            path = self.module(module)
            for name, tensor in _own_tensors(module):
                full = clean_name(f"{path}.{name}" if path else name)
                by_object[id(tensor)] = full
                self._name(tensor, full)
                if tensor.is_leaf and tensor.grad is not None:
                    self._name(tensor.grad, f"{full}.grad")
        for optimizer in objects_of(torch.optim.Optimizer):
            for name, tensor in _state_tensors(optimizer, by_object):
                self._name(tensor, name)

    def _name(self, tensor: Any, name: str) -> None:
        if tensor.is_xla:
            number = sys.modules["_XLAC"]._xla_get_tensor_id(tensor)
            self._tensors[number] = name


def _own_tensors(module: Any) -> Iterator[tuple[str, Any]]:
    for held in (module._parameters, module._buffers):
        for name, tensor in held.items():
            if tensor is not None:
                yield name, tensor


def _state_tensors(optimizer: Any, names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    torch = sys.modules["torch"]
    kind = type(optimizer).__name__
    for parameter, state in optimizer.state.items():
        owner = names.get(id(parameter), "")
        if isinstance(state, dict):
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    yield f"{kind} {key} of {owner or 'an unnamed parameter'}", value
