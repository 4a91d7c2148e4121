"""Shardings, meshes and device groups as XLA's text prints them.

Sources: ``hlo_sharding.cc``, ``named_sharding.cc``, ``mesh_and_axis.cc``, ``replica_group.cc``,
``tile_assignment.cc`` and ``hlo_op_metadata.cc``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from xlagraph.hlo.proto.shapes import indexed
from xlagraph.hlo.proto.text import braced, decoded, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.hlo.proto.schema import Message

_REPLICATED, _MAXIMAL, _TUPLE, _OTHER = 0, 1, 2, 3
TYPES = {0: "replicated", 1: "maximal", 4: "manual", 5: "unknown", 6: "unreduced"}
_quoted_once = lru_cache(maxsize=1 << 12)(quoted)
"""Operations and files, which many instructions share."""
_METADATA: dict[str, Callable[[Any], str]] = {
    "op_type": _quoted_once,
    "op_name": _quoted_once,
    "source_file": _quoted_once,
    "source_line": str,
    "source_end_line": str,
    "source_column": str,
    "source_end_column": str,
    "profile_type": braced,
    "deduplicated_name": quoted,
    "scheduling_name": quoted,
    "stack_frame_id": str,
}
"""Fields in the order in which they are printed, where they are set."""
_METADATA_ITEMS = tuple(_METADATA.items())
_METADATA_VALUES = attrgetter(*_METADATA)
_REDUCTIONS = {0: "", 1: "max", 2: "min"}


def sharding_text(sharding: Message) -> str:
    """One sharding in its braces, such as ``{devices=[2,2]<=[4] last_tile_dim_replicate}``."""
    if sharding.HasField("named_sharding"):
        return _named(sharding.named_sharding)
    if sharding.type == _TUPLE:
        return f"{{{indexed([sharding_text(part) for part in sharding.tuple_shardings])}}}"
    parts = [_assignment(sharding)]
    if sharding.is_shard_group:
        kind = "shard_as" if not sharding.shard_group_type else "shard_like"
        parts.append(f"{kind} {sharding.shard_group_id}")
    if sharding.metadata:
        parts.append(f"metadata={{{_metadata_list(sharding.metadata)}}}")
    return f"{{{' '.join(parts)}}}"


def _metadata_list(metadata: Sequence[Message]) -> str:
    texts = [metadata_text(item) for item in metadata]
    return texts[0] if len(texts) == 1 else ", ".join(f"{{{text}}}" for text in texts)


def _assignment(sharding: Message) -> str:
    """What comes before the shard group and the metadata."""
    devices = sharding.tile_assignment_devices
    if sharding.type == _MAXIMAL:
        return f"maximal device={','.join(map(str, devices))}"
    if sharding.type != _OTHER:
        return TYPES.get(sharding.type) or f"type{sharding.type}"
    if _on_one_device(sharding):
        return TYPES[_REPLICATED]
    sizes = ",".join(map(str, sharding.tile_assignment_dimensions))
    if sharding.iota_reshape_dims:
        order = iota_text(sharding.iota_reshape_dims[:], sharding.iota_transpose_perm[:])
        text = f"devices=[{sizes}]<={order}"
    else:
        text = f"devices=[{sizes}]{','.join(map(str, devices))}"
    if sharding.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if sharding.last_tile_dims:
        kinds = ", ".join(TYPES.get(kind) or f"type{kind}" for kind in sharding.last_tile_dims)
        text += f" last_tile_dims={{{kinds}}}"
    return text


def _on_one_device(sharding: Message) -> bool:
    """Tiles on a single device, which XLA reads as replicated."""
    if sharding.iota_reshape_dims:
        return all(size == 1 for size in sharding.iota_reshape_dims)
    return len(sharding.tile_assignment_devices) == 1


def iota_text(reshape: Sequence[int], transpose: Sequence[int]) -> str:
    """``[4,2]T(1,0)``: devices counted through a shape whose dimensions are swapped."""
    text = f"[{','.join(map(str, reshape))}]"
    return f"{text}T({','.join(map(str, transpose))})" if len(reshape) > 1 else text


def metadata_text(metadata: Message) -> str:
    """What stands in the braces of ``metadata={...}``."""
    values = _METADATA_VALUES(metadata)
    stated = compress(zip(_METADATA_ITEMS, values, strict=True), values)
    parts = [f"{key}={show(value)}" for (key, show), value in stated]
    if metadata.HasField("metadata_payload") and metadata.metadata_payload.HasField("value"):
        parts.append(f"metadata_payload={quoted(metadata.metadata_payload.value)}")
    return " ".join(parts)


def _named(sharding: Message) -> str:
    mesh = sharding.mesh
    parts = [mesh_text(mesh)]
    parts += _named_parts(sharding, mesh)
    if sharding.metadata:
        texts = ", ".join(f"{{{metadata_text(item)}}}" for item in sharding.metadata)
        parts.append(f"metadata={{{texts}}}")
    return f"{{{', '.join(parts)}}}"


def _named_parts(sharding: Message, mesh: Message) -> list[str]:
    dimensions = sharding.dim_shardings
    replicated, unreduced, manual = (
        _axes(getattr(sharding, key), mesh)
        for key in ("replicated_axes", "unreduced_axes", "manual_axes")
    )
    reduction = _REDUCTIONS.get(sharding.reduction_op, f"op{sharding.reduction_op}")
    if not dimensions:
        if not (replicated or unreduced or manual):
            return [] if not mesh.axes and mesh.device_ids else ["replicated"]
        if _covers(sharding.unreduced_axes, mesh):
            return [f"unreduced={reduction}" if reduction else "unreduced"]
        if _covers(sharding.manual_axes, mesh):
            return ["manual"]
    rows = ", ".join(_dimension(dimension, mesh) for dimension in dimensions)
    parts = [f"[{rows}]"]
    if replicated:
        parts.append(f"replicated={{{', '.join(replicated)}}}")
    if unreduced:
        parts.append(f"unreduced={reduction}{{{', '.join(unreduced)}}}")
    if manual:
        parts.append(f"manual={{{', '.join(manual)}}}")
    return parts


def _covers(axes: Sequence[Message], mesh: Message) -> bool:
    """Whether axes are all those of the mesh, whole and in order."""
    single = {at for at, axis in enumerate(mesh.axes) if axis.size == 1}
    wanted = [at for at in range(len(mesh.axes)) if at not in single]
    given = [axis.mesh_axis_index for axis in axes if axis.mesh_axis_index not in single]
    return bool(axes) and given == wanted and not any(a.HasField("sub_axis_info") for a in axes)


def _dimension(dimension: Message, mesh: Message) -> str:
    axes = _axes(dimension.axes, mesh)
    if not dimension.is_closed:
        axes.append("?")
    return f"{{{', '.join(axes)}}}"


def _axes(axes: Sequence[Message], mesh: Message) -> list[str]:
    return [_axis(axis, mesh) for axis in axes]


def _axis(axis: Message, mesh: Message) -> str:
    number = axis.mesh_axis_index
    known = 0 <= number < len(mesh.axes)
    text = f"'{decoded(mesh.axes[number].name)}'" if known else str(number)
    if axis.HasField("sub_axis_info"):
        part = axis.sub_axis_info
        text += f":({part.pre_size}){part.size}"
    return text


def mesh_text(mesh: Message) -> str:
    """``mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0))``; a mesh of one device has no axes."""
    if not mesh.axes and mesh.device_ids:
        return f"maximal_mesh[device_id={mesh.device_ids[0]}]"
    axes = ",".join(f"'{decoded(axis.name)}'={axis.size}" for axis in mesh.axes)
    text = f"mesh[{axes}]"
    if mesh.device_ids:
        return f"{text}, device_ids=({','.join(map(str, mesh.device_ids))})"
    if mesh.HasField("iota_transform"):
        iota = mesh.iota_transform
        return f"{text}, device_ids=({iota_text(iota.reshape_dims[:], iota.transpose_perm[:])})"
    return text


def groups_text(groups: Sequence[Message]) -> str:
    """Device groups one by one: ``{{0,1},{2,3}}``."""
    return f"{{{','.join(braced(group.replica_ids) for group in groups)}}}"


def iota_groups_text(groups: Message) -> str:
    """Device groups by counting: ``[2,4]<=[4,2]T(1,0)``."""
    sizes = f"[{groups.num_replica_groups},{groups.num_devices_per_group}]"
    return f"{sizes}<={iota_text(groups.iota_reshape_dims[:], groups.iota_transpose_perm[:])}"


def mesh_groups_text(groups: Message) -> str:
    """Device groups along axes of a mesh: ``mesh['x'=2,'y'=2] {'x'}``."""
    return f"{mesh_text(groups.mesh)} {{{','.join(_axes(groups.axes, groups.mesh))}}}"
