"""The ExecutionTrace: which bytes of which storage each operator had as inputs and outputs.

A tensor there is ``[tensor, storage, offset, elements, element size, device]`` with the offset
in elements (Chakra schema 1.1.1, ``torch/csrc/profiler/standalone/execution_trace_observer``).
What an operator writes is in its schema, which the trace has as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from xlagraph.errors import SpecError
from xlagraph.streams.strided import shape_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.streams.traces.files import Json

_TENSOR_LENGTH = 6
_UNREAD = re.compile(r"aten::(?:\w+_like|new_\w+)$")


class Piece(NamedTuple):
    """Bytes of a storage."""

    storage: int
    device: int
    offset: int
    """Bytes from the storage's begin."""
    shape: tuple[int, ...]
    """What it covers from there, as in a range of format v1 after its pointer."""

    @property
    def end(self) -> int:
        """The byte after the last one, in the storage."""
        return self.offset + self.shape[0]


class Node(NamedTuple):
    """What an operator did to the device's memory."""

    name: str
    reads: tuple[Piece, ...]
    writes: tuple[Piece, ...]
    fresh: tuple[Piece, ...]
    """Outputs in storages that are none of the inputs'."""
    is_known: bool
    """Whether its schema says what it does; those of kernels and of nodes in Python do not."""


def read_nodes(trace: Json, name: str) -> dict[int, Node]:
    """Operators by their record function id.

    Raises:
        SpecError: it is no ExecutionTrace.
    """
    nodes = trace.get("nodes")
    if not isinstance(nodes, list):
        raise SpecError(f"{name}: not an ExecutionTrace: it has no list of nodes")
    found: dict[int, Node] = {}
    for node in nodes:
        try:
            attributes = {one["name"]: one.get("value") for one in node["attrs"]}
            number = int(attributes["rf_id"])
            if number:
                found[number] = _node(node, str(attributes.get("op_schema") or ""))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            where = node.get("id") if isinstance(node, dict) else "?"
            raise SpecError(
                f"{name}: node {where} is not as an ExecutionTrace has it: {error!r}"
            ) from None
    return found


def _node(node: Json, schema: str) -> Node:
    inputs = list(_pieces(node["inputs"]))
    outputs = [piece for _, piece in _pieces(node["outputs"])]
    written = _written(schema)
    reads = [piece for place, piece in inputs if place not in written]
    writes = [piece for place, piece in inputs if place in written]
    held = {piece.storage for _, piece in inputs}
    fresh = [piece for piece in outputs if piece.storage not in held]
    if _UNREAD.match(node["name"]):
        reads = []
    return Node(str(node["name"]), tuple(reads), tuple(writes), tuple(fresh), bool(schema))


def _written(schema: str) -> set[int]:
    """Positions of the arguments that a schema marks as changed: ``Tensor(a!) self``."""
    _, _, rest = schema.partition("(")
    found, place, depth = set(), 0, 0
    text = ""
    for letter in rest:
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        if (letter == "," and not depth) or depth < 0:
            argument = text.strip()
            if argument != "*":
                if "!" in argument and "Tensor" in argument:
                    found.add(place)
                place += 1
            text = ""
            if depth < 0:
                break
        else:
            text += letter
    return found


def _pieces(side: Json) -> Iterator[tuple[int, Piece]]:
    """The device's tensors among values, lists of them included, with their positions."""
    values, shapes, strides = side["values"], side["shapes"], side["strides"]
    for place, (value, shape, stride) in enumerate(zip(values, shapes, strides, strict=True)):
        for piece in _of_value(value, shape, stride):
            yield place, piece


def _of_value(value: Any, shape: Any, stride: Any) -> Iterator[Piece]:
    if not isinstance(value, list):
        return
    if _is_tensor(value):
        _, storage, offset, _, item, device = value
        if device.startswith("cuda") and 0 not in shape:
            if min(int(item), int(offset), *shape, *(stride or ())) < 0:
                raise ValueError("a tensor with a size below 0")
            number = int(device.partition(":")[2] or 0)
            covers = shape_range(shape, stride or [0] * len(shape), item)
            yield Piece(int(storage), number, int(offset) * int(item), covers)
        return
    for one, its_shape, its_stride in zip(value, shape, stride, strict=False):
        yield from _of_value(one, its_shape, its_stride)


def _is_tensor(value: list[Any]) -> bool:
    return len(value) == _TENSOR_LENGTH and isinstance(value[-1], str) and ":" in value[-1] + ":"
