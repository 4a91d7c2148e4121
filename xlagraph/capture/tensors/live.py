"""The live tensors with pending work, seen from Python just before an armed sync.

torch_xla's own report of live tensors prints each one's whole graph, so its cost grows with
the square of a step. Here the tensors are found among the garbage collector's objects and
sorted by torch_xla's id, which is the order of the module's outputs. Tensors that only C++
holds (autograd's saved tensors) are not among them; whether any was missed shows in the
compiled module's number and shapes of outputs, and names are kept only when these agree.

Nothing here outlives the call but numbers and strings: one more reference to a tensor would
make it an output, and one more to its data would stop its buffer from being reused.
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from xlagraph.capture.tensors import heap
from xlagraph.capture.tensors.holders import find_holders
from xlagraph.capture.tensors.keys import UNKNOWN, Key, KeyReader, PendingKey
from xlagraph.capture.tensors.names import TensorNames, as_it_is, is_plain
from xlagraph.capture.tensors.tensor_shapes import entry_shapes, sizes, tensor_shape
from xlagraph.run.records import Frame, LiveTensor, ParameterTensor
from xlagraph.tensors import AUTOGRAD, Tensor

_FREE_SECONDS = 5.0
_COMPILE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Input:
    """Data that the pending graph reads: a tensor's, or a scalar or seed without a name."""

    tensor: Tensor | None
    shape: str


@dataclass(frozen=True, slots=True)
class Pending:
    """What was pending as a sync began: outputs to be, and the inputs of their graph."""

    tensors: tuple[LiveTensor, ...]
    inputs: tuple[Input, ...]
    """What the graph reads, in the order in which its parameters are numbered."""
    text: bytes
    """The module as lowered before the sync; empty where XLA's own dump is read."""
    key: PendingKey
    """By tensor, as ``tensors`` were found."""

    def placed_in(self, text: bytes) -> tuple[Pending, bool]:
        """These tensors with the outputs of module ``text`` that they become, -1 if unsure.

        Outputs left over when all are sure belong to tensors that Python cannot see, and
        are added. True when there are none of these: number and sizes agree.
        """
        outputs = entry_shapes(text)[1]
        theirs = [sizes(one) for one in outputs]
        mine = [sizes(tensor.shape) for tensor in self.tensors]
        places = align(mine, theirs)
        placed = [
            replace(tensor, output=place)
            for tensor, place in zip(self.tensors, places, strict=True)
        ]
        if places and min(places) >= 0:
            left = sorted(set(range(len(outputs))) - set(places))
            placed += [LiveTensor(at, 0, outputs[at], 0, None, (AUTOGRAD,), ()) for at in left]
            placed.sort(key=lambda tensor: tensor.output)
        return replace(self, tensors=tuple(placed)), mine == theirs

    def parameter_tensors(self, text: bytes) -> tuple[ParameterTensor, ...]:
        """The HLO parameters whose tensor is known for sure."""
        theirs = [sizes(one) for one in entry_shapes(text)[0]]
        places = align([sizes(one.shape) for one in self.inputs], theirs)
        return tuple(
            ParameterTensor(place, one.tensor)
            for place, one in zip(places, self.inputs, strict=True)
            if place >= 0 and one.tensor
        )

    def output_key(self, text: bytes) -> Key:
        """The key's parts that belong to the outputs; call on what ``placed_in`` gave."""
        count = len(entry_shapes(text)[1])
        roots, shardings = [UNKNOWN] * count, [UNKNOWN] * count
        seen = (tensor for tensor in self.tensors if AUTOGRAD not in tensor.holders)
        parts = zip(seen, self.key.roots, self.key.shardings, strict=True)
        for tensor, root, sharding in parts:
            if tensor.output >= 0:
                roots[tensor.output] = root
                shardings[tensor.output] = sharding or "none"
        return (("root_hashes", " ".join(roots)), ("shardings", " ".join(shardings)))

    def output_tensors(self, text: bytes) -> tuple[Tensor | None, ...]:
        """For each output which tensor it becomes, if that is known."""
        found: list[Tensor | None] = [None] * len(entry_shapes(text)[1])
        for live in self.tensors:
            if live.output >= 0:
                found[live.output] = live.tensor
        return tuple(found)


def align(mine: list[str], outputs: list[str]) -> list[int]:
    """Where each of ``mine`` stands in ``outputs``, of which they are a part in order.

    The earliest and the latest possible place are found; where they differ it is -1.
    """
    earliest = _embed(mine, outputs)
    latest = [len(outputs) - 1 - place for place in _embed(mine[::-1], outputs[::-1])][::-1]
    if len(earliest) != len(mine) or len(latest) != len(mine):
        return [-1] * len(mine)
    return [first if first == last else -1 for first, last in zip(earliest, latest, strict=True)]


def _embed(part: list[str], whole: list[str]) -> list[int]:
    places: list[int] = []
    for at, one in enumerate(whole):
        if len(places) < len(part) and part[len(places)] == one:
            places.append(at)
    return places


class Budget:
    """Bounds what searching the heap may cost: some seconds, and a share of compiling.

    In the thread's own time, so that what is recorded does not depend on how busy the machine is.
    """

    def __init__(self) -> None:
        self.spent = 0.0

    def allows(self, compile_seconds: float) -> bool:
        """Whether another search is worth it beside ``compile_seconds`` of compiling."""
        return self.spent <= _FREE_SECONDS + _COMPILE_SHARE * compile_seconds


class LiveReader:
    """Finds the pending tensors of this process."""

    def __init__(self, xlac: Any, names: TensorNames) -> None:
        self._xlac = xlac
        self._names = names
        self._keys = KeyReader(xlac)
        self.budget = Budget()
        self.with_holders = False
        self.with_frames = False
        self.with_text = False

    def remember(self, waiting: dict[int, Tensor]) -> None:
        """Note the ids of named tensors after a sync: they are the next graph's inputs.

        ``waiting`` names bucket contents by torch_xla id.
        """
        start = time.thread_time()
        self._names.remember(waiting)
        self.budget.spent += time.thread_time() - start

    def read(self, waiting: dict[int, Tensor]) -> Pending:
        """The pending tensors now; ``waiting`` names bucket contents by Python ``id``."""
        start = time.thread_time()
        torch = sys.modules["torch"]
        classes = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)
        modules, optimizers, found = heap.find(*classes)
        found += _gradients(found)
        names = self._names.of_objects(modules, optimizers)
        names.update(waiting)
        self._names.remember_current()
        tensors = self._pending_of(found)
        holders = find_holders(tensors, names, [found]) if self.with_holders else {}
        inner = [as_it_is(tensor) for tensor in tensors]
        xla_id = self._xlac._xla_get_tensor_id
        live = tuple(
            LiveTensor(
                output=output,
                tensor_id=xla_id(of_xla),
                shape=tensor_shape(tensor),
                ir_nodes=0,
                tensor=names.get(id(tensor)),
                holders=holders.get(id(tensor), ()),
                created=self._created(of_xla) if self.with_frames else (),
            )
            for output, (tensor, of_xla) in enumerate(zip(tensors, inner, strict=True))
        )
        text = b""
        if self.with_text and tensors:
            text = self._xlac._get_xla_tensors_hlo(inner).encode()
        pending = Pending(live, self._inputs_of(inner), text, self._keys.read(inner))
        self.budget.spent += time.thread_time() - start
        return pending

    def _pending_of(self, found: list[Any]) -> list[Any]:
        """Those with pending work, once each, in torch_xla's order.

        Those of this thread's device only: another thread may just be making one.
        """
        device = sys.modules["torch"].device(self._xlac._xla_get_default_device())
        plain = [one for one in found if is_plain(one) and one.is_xla and one.device == device]
        if not plain:
            return []
        inner = [as_it_is(tensor) for tensor in plain]
        needs = self._xlac._check_tensor_need_materialization(inner)
        xla_id = self._xlac._xla_get_tensor_id
        by_id = {
            xla_id(of_xla): tensor
            for tensor, of_xla, need in zip(plain, inner, needs, strict=True)
            if need
        }
        return [by_id[number] for number in sorted(by_id)]

    def _inputs_of(self, tensors: list[Any]) -> tuple[Input, ...]:
        # Under SPMD the question itself would change the graph's hash (torch_xla 2.9.0).
        if not tensors or sys.modules["torch_xla.runtime"].is_spmd():
            return ()
        # The second list holds the inputs' data, so it must not outlive this function.
        try:
            numbers, values = self._xlac._get_tensors_xla_device_data_node(tensors)
        except RuntimeError:  # torch_xla 2.5: of data that the device is still computing
            return ()
        return tuple(
            Input(self._names.of_id(int(number)), tensor_shape(value))
            for number, value in zip(numbers, values, strict=True)
        )

    def _created(self, tensor: Any) -> tuple[Frame, ...]:
        """Where the tensor's value was computed: known to torch_xla where graphs have lines."""
        return parse_frames(self._xlac._get_xla_tensor_debug_info(tensor))


def _gradients(tensors: list[Any]) -> list[Any]:
    """Those of leaves: autograd makes them in C++, and no Python object before it is asked for."""
    leaves = (one for one in tensors if is_plain(one) and one.is_leaf)
    return [one.grad for one in leaves if one.grad is not None]


_LOCATION = re.compile(r"location=([^\s,@]+)@([^\s,:]+):(\d+)")


def parse_frames(text: str) -> tuple[Frame, ...]:
    """The frames in torch_xla's debug text of a tensor."""
    return tuple(Frame(match[2], int(match[3]), match[1]) for match in _LOCATION.finditer(text))
