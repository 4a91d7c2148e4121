"""The live tensors with pending work, seen from Python just before an armed sync.

torch_xla's own report of live tensors prints each one's whole graph, so its cost grows with
the square of a step. Here the tensors are found among the garbage collector's objects and
sorted by torch_xla's id, which is the order of the module's outputs. Tensors that only C++
holds (autograd's saved tensors) are not among them; whether any was missed shows in the
compiled module's number and shapes of outputs, and names are kept only when these agree.

Nothing here outlives the call but numbers and strings: one more reference to a tensor would
make it an output, and one more to its data would stop its buffer from being reused.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from typing import Any

from xlagraph.capture.holders import find_holders
from xlagraph.capture.names import Names, objects_of
from xlagraph.capture.shapes import entry_shapes, sizes, tensor_shape
from xlagraph.run.records import Frame, LiveTensor, ParameterName

_FREE_SECONDS = 2.0
_COMPILE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Pending:
    """What was pending as a sync began: outputs to be, and the inputs of their graph."""

    tensors: tuple[LiveTensor, ...]
    inputs: tuple[tuple[int, str], ...]
    """Tensor id (a seed's or scalar's is not a tensor's) and name, in parameter order."""
    text: bytes
    """The module as lowered before the sync; empty where XLA's own dump is read."""

    def explains(self, text: bytes) -> bool:
        """True when module ``text`` has just these inputs and outputs, by number and sizes."""
        parameters, outputs = entry_shapes(text)
        mine = [sizes(tensor.shape) for tensor in self.tensors]
        return len(parameters) == len(self.inputs) and [sizes(one) for one in outputs] == mine

    def parameter_names(self) -> tuple[ParameterName, ...]:
        """The HLO parameters whose tensor is known."""
        named = enumerate(name for _, name in self.inputs)
        return tuple(ParameterName(index, name) for index, name in named if name)

    def output_names(self) -> tuple[str, ...]:
        """For each output its tensor's name, else its holder, else ``""``."""
        return tuple(tensor.name or tensor.holder for tensor in self.tensors)


class Budget:
    """Bounds the time spent searching the heap: some seconds, and a share of compiling."""

    def __init__(self) -> None:
        self.spent = 0.0

    def allows(self, compile_seconds: float) -> bool:
        """Whether another search is worth it beside ``compile_seconds`` of compiling."""
        return self.spent <= _FREE_SECONDS + _COMPILE_SHARE * compile_seconds


class LiveReader:
    """Finds the pending tensors of this process."""

    def __init__(self, xlac: Any, names: Names) -> None:
        self._xlac = xlac
        self._names = names
        self.budget = Budget()
        self.with_holders = False
        self.with_frames = False
        self.with_text = False

    def remember(self) -> None:
        """Note the ids of named tensors after a sync: they are the next graph's inputs."""
        start = time.perf_counter()
        self._names.remember()
        self.budget.spent += time.perf_counter() - start

    def read(self, waiting: dict[int, str]) -> Pending:
        """The pending tensors now; ``waiting`` names bucket contents by Python ``id``."""
        start = time.perf_counter()
        torch = sys.modules["torch"]
        kinds = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)
        modules, optimizers, found = objects_of(*kinds)
        names = self._names.of_objects(modules, optimizers)
        names.update(waiting)
        tensors = self._pending_of(found)
        holders = find_holders(tensors, names, [found]) if self.with_holders else {}
        xla_id = self._xlac._xla_get_tensor_id
        live = tuple(
            LiveTensor(
                output=output,
                tensor_id=xla_id(tensor),
                shape=tensor_shape(tensor),
                ir_nodes=0,
                name=names.get(id(tensor), ""),
                holder=holders.get(id(tensor), ""),
                created=self._created(tensor) if self.with_frames else (),
            )
            for output, tensor in enumerate(tensors)
        )
        text = b""
        if self.with_text and tensors:
            text = self._xlac._get_xla_tensors_hlo(tensors).encode()
        pending = Pending(live, self._inputs_of(tensors), text)
        self.budget.spent += time.perf_counter() - start
        return pending

    def _pending_of(self, found: list[Any]) -> list[Any]:
        """Those with pending work, once each, in torch_xla's order."""
        plain = [tensor for tensor in found if _is_plain(tensor) and tensor.is_xla]
        if not plain:
            return []
        needs = self._xlac._check_tensor_need_materialization(plain)
        xla_id = self._xlac._xla_get_tensor_id
        by_id = {xla_id(tensor): tensor for tensor, need in zip(plain, needs, strict=True) if need}
        return [by_id[number] for number in sorted(by_id)]

    def _inputs_of(self, tensors: list[Any]) -> tuple[tuple[int, str], ...]:
        if not tensors:
            return ()
        # The second list would hold the inputs' data: it is dropped at once.
        numbers = self._xlac._get_tensors_xla_device_data_node(tensors)[0]
        return tuple((int(number), self._names.of_id(int(number))) for number in numbers)

    def _created(self, tensor: Any) -> tuple[Frame, ...]:
        """Where the tensor's value was computed: known to torch_xla under ``XLA_IR_DEBUG``."""
        return parse_frames(self._xlac._get_xla_tensor_debug_info(tensor))


_LOCATION = re.compile(r"location=([^\s,@]+)@([^\s,:]+):(\d+)")


def parse_frames(text: str) -> tuple[Frame, ...]:
    """The frames in torch_xla's debug text of a tensor."""
    return tuple(
        Frame(match[2], int(match[3]), match[1]) for match in _LOCATION.finditer(text)
    )


def _is_plain(tensor: Any) -> bool:
    """False for tensor subclasses that stand for others (fake, functional, sharded)."""
    disabled = sys.modules["torch"]._C._disabled_torch_dispatch_impl
    return getattr(type(tensor), "__torch_dispatch__", disabled) is disabled
