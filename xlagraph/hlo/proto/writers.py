"""Attributes as XLA's text prints them (``hlo_instructions.cc``), from the fields of a message.

A writer takes the fields it knows out of an instruction and gives ``key, value`` pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from xlagraph.hlo.proto.literals import shaped_literal_text
from xlagraph.hlo.proto.shapes import read_shape
from xlagraph.hlo.proto.sharding import (
    groups_text,
    iota_groups_text,
    mesh_groups_text,
    sharding_text,
)
from xlagraph.hlo.proto.text import braced, flag, quoted, short_float, spaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.hlo.proto.schema import Message

Fields = dict[str, Any]
"""The fields that an instruction sets, by name."""
Pair = tuple[str, str]
Writer = Callable[[Fields], Iterable[Pair]]

FFT = {0: "FFT", 1: "IFFT", 2: "RFFT", 3: "IRFFT"}
DISTRIBUTIONS = {0: "rng_invalid", 1: "rng_uniform", 2: "rng_normal"}
ALGORITHMS = {0: "rng_default", 1: "rng_three_fry", 2: "rng_philox"}
TRANSPOSES = {1: "NO_TRANSPOSE", 2: "TRANSPOSE", 3: "ADJOINT"}
PADDINGS = {1: "PADDING_VALID", 2: "PADDING_SAME"}
SCHEDULES = {1: "SCHEDULE_LATEST", 2: "SCHEDULE_EARLIEST"}
VERSIONS = {
    0: "API_VERSION_UNSPECIFIED",
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}
PRECISIONS = {0: "default", 1: "high", 2: "highest"}
DOT_ALGORITHMS = {
    1: "dot_any_f8_any_f8_f32",
    2: "dot_any_f8_any_f8_f32_fast_accum",
    3: "dot_f16_f16_f16",
    4: "dot_f16_f16_f32",
    5: "dot_bf16_bf16_bf16",
    6: "dot_bf16_bf16_f32",
    7: "dot_bf16_bf16_f32_x3",
    8: "dot_bf16_bf16_f32_x6",
    9: "dot_tf32_tf32_f32",
    10: "dot_tf32_tf32_f32_x3",
    11: "dot_f32_f32_f32",
    12: "dot_f64_f64_f64",
    13: "dot_bf16_bf16_f32_x9",
}
CONVOLUTIONS = {1: "fprop", 2: "dgrad", 3: "wgrad"}
MAX_LABELS = 64
"""Dimensions of a convolution that are labelled."""


def _named(names: dict[int, str], number: int) -> str:
    return names.get(number) or str(number)


# --- made for a field --------------------------------------------------------------------------


def numbers(field: str, key: str) -> Writer:
    """A list of numbers, also where it is empty."""
    return lambda fields: [(key, braced(fields.pop(field, ())))]


def number(field: str, key: str) -> Writer:
    """A number, also where it is 0."""
    return lambda fields: [(key, str(fields.pop(field, 0)))]


def named(field: str, key: str, names: dict[int, str]) -> Writer:
    """The name of an enum's value."""
    return lambda fields: [(key, _named(names, fields.pop(field, 0)))]


def if_true(field: str, key: str) -> Writer:
    """A flag that is printed where it is set."""
    return lambda fields: [(key, "true")] if fields.pop(field, False) else []


def either(field: str) -> Writer:
    """A flag that is printed in both cases."""
    return lambda fields: [(field, flag(value=fields.pop(field, False)))]


def if_set(field: str, key: str) -> Writer:
    """A string that is printed where it is not empty."""
    return lambda fields: [(key, quoted(fields.pop(field)))] if fields.get(field) else []


def one_dimension(key: str) -> Writer:
    """A single number in ``dimensions``, printed without braces, or nothing."""

    def write(fields: Fields) -> list[Pair]:
        dimensions = fields.pop("dimensions", ())
        return [(key, ",".join(map(str, dimensions)))] if dimensions else []

    return write


# --- for what some opcodes have ----------------------------------------------------------------


def some_dimensions(fields: Fields) -> list[Pair]:
    """The dimensions, where there are any."""
    dimensions = fields.pop("dimensions", ())
    return [("dimensions", braced(dimensions))] if dimensions else []


def epsilon(fields: Fields) -> list[Pair]:
    """The small number of a batch norm."""
    return [("epsilon", short_float(fields.pop("epsilon", 0.0)))]


def channel(fields: Fields) -> Iterator[Pair]:
    """The channel of a collective; older XLA called it all_reduce_id."""
    own, older = fields.pop("channel_id", 0), fields.pop("all_reduce_id", 0)
    if own > 0 or older > 0:
        yield "channel_id", str(own if own > 0 else older)


def groups(fields: Fields) -> Iterator[Pair]:
    """The devices that take part, in whichever of four forms, and constrain_layout."""
    old = fields.pop("replica_groups", ())
    listed: Message = fields.pop("collective_device_list", None)
    iota: Message = fields.pop("iota_collective_device_list", None)
    mesh: Message = fields.pop("mesh_axes_replica_group_list", None)
    if listed is not None and listed.HasField("iota_replica_group_list"):
        iota = iota or listed.iota_replica_group_list
    if iota is not None:
        yield "replica_groups", iota_groups_text(iota)
    elif mesh is not None:
        yield "replica_groups", mesh_groups_text(mesh)
    else:
        yield "replica_groups", groups_text(old or (listed.replica_groups if listed else ()))
    yield from if_true("constrain_layout", "constrain_layout")(fields)


def pairs(fields: Fields) -> Iterator[Pair]:
    """Who sends to whom in a permute."""
    texts = (f"{{{p.source},{p.target}}}" for p in fields.pop("source_target_pairs", ()))
    yield "source_target_pairs", f"{{{','.join(texts)}}}"
    if sizes := fields.pop("dynamic_slice_sizes", ()):
        yield "slice_sizes", f"{{{braced(sizes)}}}"


def slices(fields: Fields) -> list[Pair]:
    """Starts, limits, and strides where one is not 1."""
    rows = fields.pop("slice_dimensions", ())
    steps = any(row.stride != 1 for row in rows)
    texts = (f"[{r.start}:{r.limit}{f':{r.stride}' if steps else ''}]" for r in rows)
    return [("slice", f"{{{', '.join(texts)}}}")]


def padding(fields: Fields) -> list[Pair]:
    """Low, high and inner padding of each dimension."""
    config: Message = fields.pop("padding_config", None)
    rows = config.dimensions if config is not None else ()
    inner = any(row.interior_padding for row in rows)
    texts = (
        f"{row.edge_padding_low}_{row.edge_padding_high}"
        + (f"_{row.interior_padding}" if inner else "")
        for row in rows
    )
    return [("padding", "x".join(texts))]


def window(fields: Fields) -> list[Pair]:
    """The window of a convolution or reduction (``window_util.cc``)."""
    found: Message = fields.pop("window", None)
    rows = found.dimensions if found is not None else ()
    return [("window", f"{{{_window_text(rows)}}}")] if rows else []


def _window_text(rows: Iterable[Message]) -> str:
    rows = list(rows)
    parts = [f"size={'x'.join(str(row.size) for row in rows)}"]
    for key, field in (("stride", "stride"), ("lhs_dilate", "base_dilation")):
        if any(getattr(row, field) != 1 for row in rows):
            parts.append(f"{key}={'x'.join(str(getattr(row, field)) for row in rows)}")
        if key == "stride" and any(row.padding_low or row.padding_high for row in rows):
            parts.append(f"pad={'x'.join(f'{r.padding_low}_{r.padding_high}' for r in rows)}")
    if any(row.window_dilation != 1 for row in rows):
        parts.append(f"rhs_dilate={'x'.join(str(row.window_dilation) for row in rows)}")
    if any(row.window_reversal for row in rows):
        parts.append(f"rhs_reversal={'x'.join(str(int(row.window_reversal)) for row in rows)}")
    return " ".join(parts)


def labels(fields: Fields) -> list[Pair]:
    """Which dimensions of a convolution are batch, feature, input, output or spatial."""
    found: Message = fields.pop("convolution_dimension_numbers", None)
    if found is None:
        return []
    left, kernel, result = (
        _side([(first, one), (second, other)], spatial)
        for first, one, second, other, spatial in (
            (
                *("b", found.input_batch_dimension),
                *("f", found.input_feature_dimension),
                found.input_spatial_dimensions,
            ),
            (
                *("i", found.kernel_input_feature_dimension),
                *("o", found.kernel_output_feature_dimension),
                found.kernel_spatial_dimensions,
            ),
            (
                *("b", found.output_batch_dimension),
                *("f", found.output_feature_dimension),
                found.output_spatial_dimensions,
            ),
        )
    )
    return [("dim_labels", f"{left}_{kernel}->{result}")]


def _side(letters: Iterable[tuple[str, int]], spatial: Iterable[int]) -> str:
    """The letters of one operand's dimensions; ``?`` where none is given."""
    places = [*letters, *((str(at), place) for at, place in enumerate(spatial))]
    if any(not 0 <= place < MAX_LABELS for _, place in places):
        return "(" + ",".join(f"{letter}{place}" for letter, place in places) + ")"
    labels = ["?"] * (max(place for _, place in places) + 1)
    for letter, place in places:
        labels[place] = letter
    return "".join(labels)


def group_counts(fields: Fields) -> Iterator[Pair]:
    """Groups of a convolution, where there are several."""
    for key in ("feature_group_count", "batch_group_count"):
        count = fields.pop(key, 1)
        if count != 1:
            yield key, str(count)


def precision(fields: Fields) -> Iterator[Pair]:
    """Precision of operands and algorithm, where they are not the default."""
    config: Message = fields.pop("precision_config", None)
    if config is None:
        return
    if any(config.operand_precision):
        names = ",".join(_named(PRECISIONS, number) for number in config.operand_precision)
        yield "operand_precision", f"{{{names}}}"
    if config.algorithm:
        yield "algorithm", _named(DOT_ALGORITHMS, config.algorithm)


def sparsity(fields: Fields) -> list[Pair]:
    """Which operand of a convolution is sparse, and how."""
    config: Message = fields.pop("sparsity_config", None)
    if config is None:
        return []
    sides = [(key, getattr(config, key)) for key in ("lhs", "rhs") if config.HasField(key)]
    texts = (
        f"{key}={{sparsity={side.num_non_zero}x{side.block_size} dimension={side.dimension}"
        f" stride={side.stride}}}"
        for key, side in sides
    )
    return [("sparsity_config", f"{{{' '.join(texts)}}}")] if sides else []


def _dot_numbers(numbers: Message) -> Iterator[Pair]:
    for side in ("lhs", "rhs"):
        if batch := getattr(numbers, f"{side}_batch_dimensions"):
            yield f"{side}_batch_dims", braced(batch)
        yield f"{side}_contracting_dims", braced(getattr(numbers, f"{side}_contracting_dimensions"))


def dot(fields: Fields) -> Iterator[Pair]:
    """Contracting and batch dimensions of a dot."""
    found: Message = fields.pop("dot_dimension_numbers", None)
    if found is not None:
        yield from _dot_numbers(found)


def ragged_dot(fields: Fields) -> Iterator[Pair]:
    """Dimensions of a dot whose rows come in groups of different size."""
    found: Message = fields.pop("ragged_dot_dimension_numbers", None)
    if found is None:
        return
    yield from _dot_numbers(found.dot_dimension_numbers)
    if found.lhs_ragged_dimensions:
        yield "lhs_ragged_dims", braced(found.lhs_ragged_dimensions)
    if found.rhs_group_dimensions:
        yield "rhs_group_dims", braced(found.rhs_group_dimensions)


def dimension_lists(field: str, always: tuple[str, ...], some: tuple[str, ...]) -> Writer:
    """The lists of a gather or scatter: some only where they are not empty."""

    def write(fields: Fields) -> Iterator[Pair]:
        found: Message = fields.pop(field, None)
        if found is None:
            return
        for key in (*always, *some):
            values = getattr(found, key)
            if values or key in always:
                yield key, braced(values)
        yield "index_vector_dim", str(found.index_vector_dim)

    return write


def options(field: str) -> Writer:
    """Options that XLA prints under the names of their fields, where they are set."""

    def write(fields: Fields) -> Iterator[Pair]:
        found: Message = fields.pop(field, None)
        for descriptor, value in found.ListFields() if found is not None else ():
            name = descriptor.name
            yield name, _named(TRANSPOSES, value) if name == "transpose_a" else flag(value=value)

    return write


def aliasing(fields: Fields) -> list[Pair]:
    """Outputs that share a buffer with an operand."""
    entries = fields.pop("output_operand_aliasing", ())
    texts = (
        f"{spaced(e.output_shape_index)}: ({e.operand_index}, {spaced(e.operand_shape_index)})"
        for e in entries
    )
    return [("output_to_operand_aliasing", f"{{{', '.join(texts)}}}")] if entries else []


def target(fields: Fields) -> Iterator[Pair]:
    """What a custom call calls, and what it knows about its operands."""
    yield "custom_call_target", quoted(fields.pop("custom_call_target", b""))
    shapes = fields.pop("operand_shapes_with_layout", ())
    if fields.pop("constrain_layout", False):
        texts = ", ".join(map(read_shape, shapes))
        yield "operand_layout_constraints", f"{{{texts}}}"
    if fields.pop("custom_call_has_side_effect", False):
        yield "custom_call_has_side_effect", "true"
    literal: Message = fields.pop("literal", None)
    if literal is not None:
        yield "literal", shaped_literal_text(literal)


def custom_call_kind(fields: Fields) -> Iterator[Pair]:
    """Schedule and version of a custom call, where they are not the usual ones."""
    if schedule := fields.pop("custom_call_schedule", 0):
        yield "schedule", _named(SCHEDULES, schedule)
    version = fields.pop("custom_call_api_version", 0)
    if version != 1:
        yield "api_version", _named(VERSIONS, version)


def padding_type(fields: Fields) -> list[Pair]:
    """How a convolution of dynamic shape is padded."""
    kind = fields.pop("padding_type", 0)
    return [("padding_type", _named(PADDINGS, kind))] if kind else []


def associative(fields: Fields) -> list[Pair]:
    """Whether a scan may be reordered, where that is known."""
    state = fields.pop("is_associative", 0)
    return [("is_associative", {1: "true", 2: "false"}.get(state, str(state)))] if state else []


def convolution_kind(fields: Fields) -> list[Pair]:
    """Whether a convolution is a forward one or a gradient."""
    kind = fields.pop("conv_kind", 0)
    return [("convolution_kind", CONVOLUTIONS.get(kind) or f"unknown({kind})")] if kind else []


def domain(fields: Fields) -> Iterator[Pair]:
    """The shardings on both sides of a domain."""
    entry: Message = fields.pop("domain_entry_sharding", None)
    leaving: Message = fields.pop("domain_exit_sharding", None)
    if entry is not None or leaving is not None:
        sides = [sharding_text(side) if side is not None else "{}" for side in (leaving, entry)]
        yield "domain", f'{{kind="sharding", entry={sides[0]}, exit={sides[1]}}}'


def replication(fields: Fields) -> list[Pair]:
    """Which leaves of a parameter are equal on all replicas."""
    replication: Message = fields.pop("parameter_replication", None)
    flags = replication.replicated_at_leaf_buffers if replication is not None else ()
    texts = ",".join(flag(value=value) for value in flags)
    return [("parameter_replication", f"{{{texts}}}")] if flags else []


def outfeed(fields: Fields) -> Iterator[Pair]:
    """The shape that is sent out."""
    if shape := fields.pop("outfeed_shape", b""):
        yield "outfeed_shape", read_shape(shape)


def prefetch(fields: Fields) -> Iterator[Pair]:
    """The number of a prefetch across programs."""
    older = fields.pop("is_cross_program_prefetch", False)
    index = fields.pop("cross_program_prefetch_index", 0 if older else None)
    if index is not None:
        yield "cross_program_prefetch_index", str(index)


def comparison(fields: Fields) -> Iterator[Pair]:
    """Direction and type of a comparison."""
    yield "direction", fields.pop("comparison_direction", "")
    if kind := fields.pop("comparison_type", ""):
        yield "type", kind


def asynchronous(fields: Fields) -> Iterator[Pair]:
    """The thread of an asynchronous call, where it is not the main one."""
    if thread := fields.pop("async_execution_thread", ""):
        yield "async_execution_thread", f'"{thread}"'
