"""What instructions of a kind have in common: opcode, attributes, literal, what they call.

An instruction's bytes without its name, id, shape, operands and metadata are its *kind*. A
training graph of 14,000 instructions has some hundred; each is read once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.graph import Attributes
from xlagraph.hlo.proto.literals import ELIDED, literal_text
from xlagraph.hlo.proto.opcodes import WRITERS
from xlagraph.hlo.proto.schema import CLASSES, has_unknown, unknown_fields
from xlagraph.hlo.proto.shapes import unknown_value
from xlagraph.hlo.proto.sharding import sharding_text
from xlagraph.hlo.proto.text import (
    braced,
    decoded,
    flag,
    json_or_quoted,
    quoted,
    short_double,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.hlo.proto.schema import Message
    from xlagraph.hlo.proto.writers import Fields, Pair

Calls = tuple[tuple[str, tuple[str, ...]], ...]
Pairs = tuple[tuple[str, str], ...]
Further = tuple[Pairs, Pairs, Pairs]
"""See `Kind.shared`, `Kind.notes` and `Kind.backend_config`."""
NO_ATTRIBUTES = Attributes("", (), "", (), ())
_NOTHING: Further = ((), (), ())

_TO_APPLY = frozenset(
    {
        "all-reduce",
        "all-reduce-start",
        "call",
        "map",
        "reduce",
        "reduce-scatter",
        "reduce-window",
        "scan",
        "scatter",
        "sort",
    }
)
_LISTS = frozenset({"branch_computations", "called_computations"})
MODES = {1: "highest"}
_DEFAULT_COMPARISONS = {"p": "UNSIGNED", "u": "UNSIGNED", "s": "SIGNED"}
"""The comparison that is meant where none is printed, by the first letter of the type."""


class Kind(NamedTuple):
    """All that equal kinds have in common."""

    opcode: str
    own: Pairs
    """Attributes of the opcode, printed before what is called."""
    shared: Pairs
    """Sharding and frontend attributes, printed behind what is called."""
    notes: Pairs
    """Printed behind the control predecessors."""
    backend_config: Pairs
    payload: str | None
    """Literal of a constant, number of a parameter."""
    callees: tuple[int, ...]
    """Ids of computations, in XLA's order."""
    controls: tuple[int, ...]
    """Ids of control predecessors."""
    plain: Attributes
    """The attribute list without metadata and without what it links to."""
    is_linked: bool
    """Whether the attribute list names others, or depends on the operands' types."""
    calls_as: str = ""
    """The opcode under whose keys callees are printed, where that is another one."""

    def with_metadata(self, metadata: str) -> Attributes:
        """The attribute list of a kind that links to nothing."""
        if not metadata:
            return self.plain
        text, rest = self.plain.text, ""
        if self.backend_config:
            rest = _listed(self.backend_config)
            text = text.removesuffix(rest)
        text = f"{text}, metadata={{{metadata}}}{rest}"
        return Attributes(text, self.plain.items, metadata, (), ())


def make_kind(
    opcode: str,
    own: Pairs,
    further: Further,
    payload: str | None = None,
    callees: tuple[int, ...] = (),
    controls: tuple[int, ...] = (),
    calls_as: str = "",
) -> Kind:
    """A kind of its parts."""
    shared, notes, backend = further
    items = own + shared + notes + backend
    plain = Attributes(_listed(items), items, "", (), ())
    is_linked = bool(callees or controls or opcode == "compare")
    return Kind(
        opcode, own, shared, notes, backend, payload, callees, controls, plain, is_linked, calls_as
    )


class Row:
    """A kind with shape and metadata: all instructions that agree in these share one."""

    __slots__ = ("attributes", "is_special", "kind", "metadata", "opcode", "shape")

    def __init__(self, kind: Kind, shape: str, metadata: str):
        self.kind = kind
        self.shape = shape
        self.metadata = metadata
        self.opcode = kind.opcode
        self.attributes = NO_ATTRIBUTES if kind.is_linked else kind.with_metadata(metadata)
        """Those that do not depend on where the instruction stands."""
        self.is_special = kind.is_linked or kind.payload is not None


def read_kind(data: bytes, payloads: Sequence[bytes]) -> Kind:
    """Reads the bytes that instructions of a kind share.

    Raises:
        LiteralError: a literal that does not fit its shape.
        ValueError: there is no opcode.
    """
    message = CLASSES["HloInstructionProto"].FromString(data)
    fields: Fields = {descriptor.name: value for descriptor, value in message.ListFields()}
    opcode = fields.pop("opcode", "")
    if not opcode:
        raise ValueError("an instruction without an opcode")
    payload = _payload(opcode, fields)
    callees = tuple(fields.pop("called_computation_ids", ()))
    controls = tuple(fields.pop("control_predecessor_ids", ()))
    own = tuple(pair for write in WRITERS.get(opcode, ()) for pair in write(fields))
    further = _further(fields, opcode, message, payloads) if fields else _NOTHING
    if has_unknown(message):
        more = tuple(
            (f"field.{field.path}", unknown_value(field.value))
            for field in unknown_fields("HloInstructionProto", data)
        )
        further = further[0], further[1] + more, further[2]
    return make_kind(opcode, own, further, payload, callees, controls)


def _further(fields: Fields, opcode: str, message: Message, payloads: Sequence[bytes]) -> Further:
    """What is not the opcode's own: see `Kind.shared`, `Kind.notes` and `Kind.backend_config`."""
    shared = _shared(fields)
    if opcode == "call" and fields.pop("is_composite", False):
        shared.insert(0, ("is_composite", "true"))
    notes = _notes(fields)
    backend = _backend_config(fields, payloads)
    return tuple(shared), (*notes, *_left_over(message, fields)), backend


def _payload(opcode: str, fields: Fields) -> str | None:
    if opcode == "parameter":
        return str(fields.pop("parameter_number", 0))
    if opcode == "constant":
        literal: Message = fields.pop("literal", None)
        return ELIDED if literal is None else literal_text(literal)
    return None


def _shared(fields: Fields) -> list[Pair]:
    pairs = []
    sharding: Message = fields.pop("sharding", None)
    if sharding is not None:
        pairs.append(("sharding", sharding_text(sharding)))
    attributes: Message = fields.pop("frontend_attributes", None)
    if attributes is not None and attributes.map:
        pairs.append(("frontend_attributes", frontend_text(attributes)))
    return pairs


def frontend_text(attributes: Message) -> str:
    """Frontend attributes, sorted by key: ``{a="b",mesh={x=2}}``."""
    entries = sorted({entry.key: entry.value for entry in attributes.map}.items())
    return f"{{{','.join(f'{decoded(key)}={json_or_quoted(value)}' for key, value in entries)}}}"


def _notes(fields: Fields) -> list[Pair]:
    pairs = []
    statistics: Message = fields.pop("statistics_viz", None)
    if statistics is not None and statistics.statistics:
        values = (
            f"{decoded(item.stat_name)}={short_double(item.stat_val)}"
            for item in statistics.statistics
        )
        index = f"visualizing_index={statistics.stat_index_to_visualize}"
        pairs.append(("statistics", f"{{{','.join((index, *values))}}}"))
    accuracy: Message = fields.pop("result_accuracy", None)
    if accuracy is not None and accuracy.mode:
        mode = MODES.get(accuracy.mode) or str(accuracy.mode)
        pairs.append(("result_accuracy", f"{{mode={mode}}}"))
    elif accuracy is not None and accuracy.HasField("tolerance"):
        allowed = accuracy.tolerance
        text = f"atol={short_double(allowed.atol)},rtol={short_double(allowed.rtol)}"
        pairs.append(("result_accuracy", f"{{tolerance={{{text},ulps={allowed.ulps}}}}}"))
    return pairs


def _backend_config(fields: Fields, payloads: Sequence[bytes]) -> Pairs:
    """The config, which newer XLA may keep in a list of the module."""
    config: bytes = fields.pop("backend_config", b"")
    payload: Message = fields.pop("backend_config_payload", None)
    if payload is not None and not config:
        if payload.HasField("id") and 0 <= payload.id < len(payloads):
            config = payloads[payload.id]
        elif payload.HasField("value"):
            config = payload.value
        else:
            return (("backend_config_payload", f"{{id={payload.id}}}"),)
    return (("backend_config", json_or_quoted(config)),) if config else ()


def _left_over(message: Message, fields: Fields) -> Iterator[Pair]:
    """Fields that the opcode's text does not have, under their own names."""
    for name, value in fields.items():
        if isinstance(value, bool):
            yield name, flag(value=value)
        elif isinstance(value, (bytes, str)):
            yield name, quoted(value if isinstance(value, bytes) else value.encode())
        elif isinstance(value, (int, float)):
            yield name, str(value)
        else:
            yield from _left_over_message(message, name, value)


def _left_over_message(message: Message, name: str, value: Message) -> Iterator[Pair]:
    """A message, or a list of messages or numbers; empty messages say nothing."""
    is_message = message.DESCRIPTOR.fields_by_name[name].message_type is not None
    if not is_message:
        yield name, braced(value)
        return
    from google.protobuf.text_format import MessageToString

    parts = [value] if hasattr(value, "ByteSize") else value
    text = "; ".join(MessageToString(part, as_one_line=True) for part in parts)
    if text:
        yield name, quoted(text.encode())


def calls_of(opcode: str, names: Sequence[str], operand_type: str) -> Calls:
    """The computations that an instruction calls, by the keys under which XLA prints them."""
    if not names:
        return ()
    if opcode == "while" and len(names) == 2:
        return ("condition", (names[1],)), ("body", (names[0],))
    if opcode == "select-and-scatter" and len(names) == 2:
        return ("select", (names[0],)), ("scatter", (names[1],))
    if opcode == "conditional":
        if operand_type == "pred" and len(names) == 2:
            return ("true_computation", (names[0],)), ("false_computation", (names[1],))
        return (("branch_computations", tuple(names)),)
    if opcode == "custom-call":
        return (("called_computations", tuple(names)),)
    return (("to_apply" if opcode in _TO_APPLY else "calls", tuple(names)),)


def make_attributes(
    kind: Kind,
    metadata: str,
    calls: Calls = (),
    controls: tuple[str, ...] = (),
    operand_type: str = "",
) -> Attributes:
    """The attribute list of an instruction, with the text that XLA would print."""
    own = kind.own
    if kind.opcode == "compare":
        usual = _DEFAULT_COMPARISONS.get(operand_type[:1], "FLOAT")
        own = tuple(pair for pair in own if pair != ("type", usual))
    parts = [_listed(own)]
    for key, names in calls:
        called = ", ".join(f"%{name}" for name in names)
        parts.append(f", {key}={{{called}}}" if key in _LISTS else f", {key}={called}")
    if kind.shared:
        parts.append(_listed(kind.shared))
    if controls:
        parts.append(f", control-predecessors={{{', '.join(f'%{name}' for name in controls)}}}")
    if kind.notes:
        parts.append(_listed(kind.notes))
    if metadata:
        parts.append(f", metadata={{{metadata}}}")
    if kind.backend_config:
        parts.append(_listed(kind.backend_config))
    items = own + kind.shared + kind.notes + kind.backend_config
    return Attributes("".join(parts), items, metadata, calls, controls)


def _listed(pairs: Sequence[Pair]) -> str:
    return "".join([f", {key}={value}" for key, value in pairs])
