"""Names of tensors: which module, optimizer state or bucket holds each of them.

Modules and optimizers are found among the garbage collector's objects, by type, and only
on armed steps: nothing is registered at construction and nothing is held. A tensor is
remembered by torch_xla's tensor id, which is never used twice in a process. An in-place
update gives the Python tensor a new id, so a graph's *inputs* carry the ids that tensors had
after the sync before, and its *outputs* those they have as the sync starts.
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from xlagraph.capture.tensors import heap
from xlagraph.capture.tensors.roots import Roots
from xlagraph.tensors import Role, Tensor

_WRAPPERS = ("_fsdp_wrapped_module", "_fpw_module", "_orig_mod", "_checkpoint_wrapped_module")
_SEPARATOR = "_FSDP_SHARD_SEPARATOR_"
_UNNAMED = Tensor("", "an unnamed parameter")


def clean_name(name: str) -> str:
    """``name`` without the parts that FSDP, checkpoint and compile wrappers put in."""
    parts = name.replace(_SEPARATOR, ".").split(".")
    return ".".join(part for part in parts if part not in _WRAPPERS and part != "_fsdp_shard")


@dataclass(slots=True)
class TensorNames:
    """What is known so far, refreshed when asked."""

    _by_id: dict[int, Tensor] = field(default_factory=dict)
    _optimizers: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    _settled: weakref.WeakKeyDictionary[Any, str] = field(default_factory=weakref.WeakKeyDictionary)
    _modules: weakref.WeakKeyDictionary[Any, str] = field(default_factory=weakref.WeakKeyDictionary)
    _roots: Roots = field(default_factory=Roots)

    def module(self, module: Any) -> str:
        """The module's path from its root as last searched; ``""`` for a root."""
        return self._modules.get(module, "")

    def settled_module(self, module: Any) -> str:
        """The path of a module that is training, so that its model is complete by now.

        An earlier search may have seen it before its parent was built: the first question
        about a module searches again, and its answer stays.
        """
        path = self._settled.get(module)
        if path is None:
            self.find_modules()
            self._settled.update(self._modules)
            path = self._settled.setdefault(module, "")
        return path

    def of_id(self, tensor_id: int) -> Tensor | None:
        """The tensor that had this torch_xla id, if it is known."""
        return self._by_id.get(tensor_id)

    def find_modules(self) -> None:
        """Name every live module by its path from the module that nothing contains."""
        (modules,) = heap.find(sys.modules["torch"].nn.Module)
        self._name_modules(modules)

    def _name_modules(self, modules: list[Any]) -> None:
        inner = {id(child) for module in modules for child in module._modules.values() if child}
        found: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        roots = {id(module): module for module in modules if id(module) not in inner}
        for root, name in self._roots.names(list(roots.values())).items():
            for path, one in roots[root].named_modules(prefix=name):
                found.setdefault(one, clean_name(path))
        self._modules = found

    def of_objects(self, modules: list[Any], optimizers: list[Any]) -> dict[int, Tensor]:
        """By Python ``id``: parameters, gradients, buffers and optimizer state.

        Valid only while the tensors live: to be used at once and dropped.
        """
        self._name_modules(modules)
        self._optimizers = weakref.WeakSet(optimizers)
        names: dict[int, Tensor] = {}
        for tensor, name in _named_tensors(list(self._modules.items()), optimizers):
            names.setdefault(id(tensor), name)
        return names

    def remember(self, more: dict[int, Tensor]) -> None:
        """Keep the current tensor ids of everything that has a name: the next inputs.

        Looks only at the modules and optimizers of the last search: no pass over the heap.
        """
        self._by_id = {**self._current(), **more}

    def remember_current(self) -> None:
        """Keep the ids that named tensors have now, too: of those that this step left alone.

        They are those of its inputs also where no step before was looked at.
        """
        self._by_id |= self._current()

    def _current(self) -> dict[int, Tensor]:
        xla_id = sys.modules["_XLAC"]._xla_get_tensor_id
        names: dict[int, Tensor] = {}
        for tensor, name in _named_tensors(list(self._modules.items()), list(self._optimizers)):
            if tensor.is_xla and is_plain(tensor):
                names.setdefault(xla_id(as_it_is(tensor)), name)
        return names


def _plain_dispatch() -> object:
    return sys.modules["torch"]._C._disabled_torch_dispatch_impl


def is_plain(tensor: Any) -> bool:
    """False for tensors that stand for others: subclasses (fake, sharded), torch.func's."""
    if getattr(type(tensor), "__torch_dispatch__", None) is not _plain_dispatch():
        return False
    return not sys.modules["torch"]._C._functorch.is_functorch_wrapped_tensor(tensor)


def as_it_is(tensor: Any) -> Any:
    """What torch_xla has of ``tensor`` now: to be asked about it, and dropped before a sync.

    Asked about ``tensor`` itself, torch_xla first brings a view up to date whose base was
    changed in place, and so makes an output of it that the program would not have had.
    """
    torch = sys.modules["torch"]
    return torch._from_functional_tensor(tensor) if torch._is_functional_tensor(tensor) else tensor


def _named_tensors(
    modules: list[tuple[Any, str]], optimizers: list[Any]
) -> Iterator[tuple[Any, Tensor]]:
    """Parameters, their gradients, buffers and optimizer state, and which they are."""
    names: dict[int, Tensor] = {}
    for module, path in modules:
        for own, tensor, role in _own_tensors(module):
            owner, _, name = clean_name(f"{path}.{own}" if path else own).rpartition(".")
            known = names.setdefault(id(tensor), Tensor(owner, name, role))
            yield tensor, known
            if tensor.is_leaf and tensor.grad is not None:
                yield tensor.grad, replace(known, role=Role.GRADIENT)
    for optimizer in optimizers:
        yield from _state_tensors(optimizer, names)


def _own_tensors(module: Any) -> Iterator[tuple[str, Any, Role]]:
    for held, role in ((module._parameters, Role.PARAMETER), (module._buffers, Role.BUFFER)):
        for name, tensor in held.items():
            if tensor is not None:
                yield name, tensor, role


def _state_tensors(optimizer: Any, names: dict[int, Tensor]) -> Iterator[tuple[Any, Tensor]]:
    tensor_type = sys.modules["torch"].Tensor
    optimizer_class = type(optimizer).__name__
    for parameter, state in optimizer.state.items():
        if not isinstance(state, dict):
            continue
        owner = names.get(id(parameter), _UNNAMED)
        own = replace(owner, role=Role.STATE, optimizer=optimizer_class)
        for key, value in state.items():
            if isinstance(value, tensor_type):
                yield value, replace(own, key=str(key))
            elif isinstance(value, (list, tuple)):  # a history, as L-BFGS has
                for place, one in enumerate(value):
                    if isinstance(one, tensor_type):
                        yield one, replace(own, key=f"{key}[{place}]")
