"""Which devices take part in a collective: replica groups in all spellings, and their meaning.

What the numbers in a group name depends on the channel and on ``use_global_device_ids``
(``GetCollectiveOpGroupMode``, openxla/xla ``xla/service/collective_ops_utils.cc``): replicas of one
partition, partitions of one replica, whole replicas, or devices counted through.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from xlagraph.canon.spelling import MAX_DEVICES, canonical_attribute
from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Attributes, Module

Members = tuple[int, ...]
"""Devices in the order in which a group lists them, which is part of what it is."""

BY_PARTITION = frozenset(
    {"all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast"}
)
"""Opcodes without ``use_global_device_ids``: with a channel their groups number partitions."""
_LISTED = re.compile(r"\{(?:\{[\d, ]*+\}(?:, ?)?+)*+\}|\{\}")
_GROUP = re.compile(r"\{([\d, ]*+)\}")
_LONG = re.compile(r"\d{10}")
_PAIR = re.compile(r"\{\s*+(\d{1,9})\s*+,\s*+(\d{1,9})\s*+\}")
_MESH = re.compile(r"(?:mesh\[([^\]]*+)\]|@mesh<([^>]*+)>)\s*+\{([^}]*+)\}")
_AXIS = re.compile(r"""['"]?([\w.-]+?)['"]?\s*+=\s*+(\d{1,9})""")
_NAMED = re.compile(r"""['"]?([\w.-]+?)['"]?""")


class Numbering(Enum):
    """What the numbers in replica groups count."""

    REPLICAS = "replicas"
    PARTITIONS = "partitions"
    WHOLE_REPLICAS = "replicas, each with all its partitions"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Grid:
    """The devices of a program: replicas by partitions; device = replica * partitions + partition.

    A module of one device whose groups name more (one process lowered it for many) is read as
    replicas.
    """

    replicas: int
    partitions: int

    def __post_init__(self) -> None:
        if min(self.replicas, self.partitions) < 1:
            raise ValueError(f"{self.replicas} replicas by {self.partitions} partitions")

    @property
    def devices(self) -> int:
        """How many there are."""
        return self.replicas * self.partitions


def grid_of(module: Module) -> Grid:
    """The grid that the module's header asks for."""
    fields = module.header_fields
    return Grid(*(_count(fields.get(key, "1")) for key in ("replica_count", "num_partitions")))


def _count(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def numbering(opcode: str, attributes: Attributes) -> Numbering:
    """What a collective's groups count."""
    has_channel = attributes.get("channel_id") not in (None, "0")
    if opcode in BY_PARTITION:
        return Numbering.PARTITIONS if has_channel else Numbering.REPLICAS
    if attributes.get("use_global_device_ids") == "true":
        return Numbering.DEVICES
    return Numbering.WHOLE_REPLICAS if has_channel else Numbering.REPLICAS


@lru_cache(maxsize=4096)
def read_groups(text: str) -> tuple[Members, ...] | None:
    """The groups of ``replica_groups``; empty for everybody, None where they cannot be read.

    Lists, iota lists (``[2,4]<=[8]``) and meshes of whole axes. Up to `MAX_DEVICES`.
    """
    mesh = _MESH.search(text)
    if mesh:
        return _of_mesh(mesh[1] or mesh[2], mesh[3])
    spelled = canonical_attribute("replica_groups", text)
    if not _LISTED.fullmatch(spelled) or len(spelled) > 8 * MAX_DEVICES:
        return None
    if _LONG.search(spelled):
        return None
    found = (one[1].replace(",", " ").split() for one in _GROUP.finditer(spelled[1:-1]))
    return tuple(tuple(map(int, group)) for group in found if group)


def _of_mesh(axes: str, along: str) -> tuple[Members, ...] | None:
    sizes = {name: int(size) for name, size in _AXIS.findall(axes)}
    names = [part.strip() for part in along.split(",") if part.strip()]
    found = [match[1] if (match := _NAMED.fullmatch(name)) else "" for name in names]
    if not sizes or prod(sizes.values()) > MAX_DEVICES or not set(found) <= set(sizes):
        return None  # parts of axes, among others
    steps, step = {}, 1
    for name in reversed(sizes):
        steps[name] = step
        step *= sizes[name]
    starts = _offsets([(sizes[n], steps[n]) for n in sizes if n not in found])
    within = _offsets([(sizes[n], steps[n]) for n in found])
    return tuple(tuple(start + offset for offset in within) for start in starts)


def _offsets(axes: Sequence[tuple[int, int]]) -> list[int]:
    places = product(*(range(0, size * step, step) for size, step in axes))
    return [sum(place) for place in places]


@lru_cache(maxsize=4096)
def read_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Source and target of each pair of ``source_target_pairs``."""
    return tuple((int(found[1]), int(found[2])) for found in _PAIR.finditer(text))


def members(
    groups: Sequence[Members], counted: Numbering, grid: Grid, device: int
) -> Members | None:
    """The devices of the group that a device is in, in order; None where it is in none."""
    replica, partition = divmod(device, grid.partitions)
    if counted is Numbering.DEVICES:
        return _own(groups, device, grid.devices)
    if counted is Numbering.PARTITIONS:
        own = _own(groups, partition, grid.partitions)
        return own and tuple(replica * grid.partitions + one for one in own)
    own = _own(groups, replica, grid.replicas)
    if own is None or counted is Numbering.REPLICAS:
        return own and tuple(one * grid.partitions + partition for one in own)
    each = range(grid.partitions)
    return tuple(one * grid.partitions + part for one in own for part in each)


def _own(groups: Sequence[Members], number: int, count: int) -> Members | None:
    if not groups:
        return tuple(range(count))
    return next((group for group in groups if number in group), None)
