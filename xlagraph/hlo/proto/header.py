"""The fields of the ``HloModule`` line, and the stack tables, from a module's message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.graph import StackTables
from xlagraph.hlo.proto.kinds import frontend_text
from xlagraph.hlo.proto.shapes import indexed, read_shape, unknown_value
from xlagraph.hlo.proto.text import spaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.hlo.proto.schema import Message, Unknown
    from xlagraph.hlo.proto.writers import Pair

UNSTATED = frozenset(
    {
        "alias_passthrough_params",
        "allow_spmd_sharding_propagation_to_output",
        "allow_spmd_sharding_propagation_to_parameters",
        "num_partitions",
        "replica_count",
    }
)
"""What XLA prints of a module's configuration, which is no part of the protobuf."""
_ALIAS_KINDS = {2: "must-alias"}


def header_fields(
    head: Message, unknown: Sequence[Unknown], *, is_scheduled: bool
) -> tuple[Pair, ...]:
    """The header fields as XLA prints them (``hlo_module.cc``), in its order."""
    fields: list[Pair] = [("is_scheduled", "true")] if is_scheduled else []
    if head.input_output_alias.entries:
        aliases = (
            f"{spaced(e.output_shape_index)}: ({e.parameter_number},"
            f" {spaced(e.parameter_shape_index)}, {_ALIAS_KINDS.get(e.kind, 'may-alias')})"
            for e in sorted(head.input_output_alias.entries, key=_output)
        )
        fields.append(("input_output_alias", f"{{ {', '.join(aliases)} }}"))
    if head.buffer_donor.entries:
        donors = sorted(
            (entry.parameter_number, list(entry.parameter_shape_index))
            for entry in head.buffer_donor.entries
        )
        texts = (f"({number}, {spaced(index)})" for number, index in donors)
        fields.append(("buffer_donor", f"{{ {', '.join(texts)} }}"))
    if head.HasField("host_program_shape"):
        shapes = indexed([read_shape(shape) for shape in head.host_program_shape.parameters])
        result = read_shape(head.host_program_shape.result)
        fields.append(("entry_computation_layout", f"{{({shapes})->{result}}}"))
    if head.frontend_attributes.map:
        fields.append(("frontend_attributes", frontend_text(head.frontend_attributes)))
    fields += [(f"field.{field.path}", unknown_value(field.value)) for field in unknown]
    return tuple(fields)


def _output(entry: Message) -> list[int]:
    return list(entry.output_shape_index)


def schedule_of(head: Message) -> dict[int, list[int]]:
    """For each scheduled computation, by its id, the ids of its instructions in order."""
    return {entry.key: list(entry.value.instruction_ids) for entry in head.schedule.sequences}


def stack_tables(index: Message) -> StackTables:
    """The numbered tables of source positions; numbers begin at 1, and 0 means none."""
    return StackTables(
        dict(enumerate(map(_name, index.file_names), 1)),
        dict(enumerate(map(_name, index.function_names), 1)),
        {
            number: {
                "file_name_id": place.file_name_id,
                "function_name_id": place.function_name_id,
                "line": place.line,
                "end_line": place.end_line,
                "column": place.column,
                "end_column": place.end_column,
            }
            for number, place in enumerate(index.file_locations, 1)
        },
        {
            number: {
                "file_location_id": frame.file_location_id,
                "parent_frame_id": frame.parent_frame_id,
            }
            for number, frame in enumerate(index.stack_frames, 1)
        },
    )


def _name(data: bytes) -> str:
    return data.decode("utf-8", "replace")
