"""What in Python keeps a tensor alive: found by asking the collector for referrers.

Costs a pass over the whole heap for each of two levels, so only when asked for.
"""

from __future__ import annotations

import gc
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

_MAX_HOLDERS = 3


def find_holders(
    tensors: list[Any], names: dict[int, str], ignored: list[object]
) -> dict[int, str]:
    """For each tensor without a name, by Python ``id``, what refers to it.

    ``ignored`` are the caller's own containers. A tensor that only C++ or a running
    function's local variables hold has no entry.
    """
    wanted = {id(tensor): tensor for tensor in tensors if id(tensor) not in names}
    if not wanted:
        return {}
    targets = list(wanted.values())
    skip = {id(one) for one in (tensors, targets, wanted, *ignored)}
    containers = [one for one in gc.get_referrers(*targets) if id(one) not in skip]
    skip.add(id(containers))
    owners = _owners(containers, skip)
    found: dict[int, list[str]] = {}
    for container in containers:
        for key, target in _entries(container, wanted):
            text = _describe(container, key, owners.get(id(container), ""))
            if text:
                found.setdefault(target, []).append(text)
    return {target: ", ".join(texts[:_MAX_HOLDERS]) for target, texts in found.items()}


def _owners(containers: list[Any], skip: set[int]) -> dict[int, str]:
    """What holds each container: ``history in module train``, ``attribute cache of Model``."""
    by_id = {id(one): one for one in containers}
    if not by_id:
        return {}
    owners: dict[int, str] = {}
    for owner in gc.get_referrers(*by_id.values()):
        if id(owner) in skip or owner is by_id or isinstance(owner, FrameType):
            continue
        if isinstance(owner, ModuleType):
            owners[id(vars(owner))] = f"module {owner.__name__}"
        elif isinstance(owner, dict):
            name = str(owner.get("__name__", ""))
            for key, value in owner.items():
                if id(value) in by_id and isinstance(key, str):
                    where = f" in module {name}" if name else ""
                    owners.setdefault(id(value), f"{key}{where}")
        elif isinstance(owner, FunctionType):
            owners.setdefault(id(owner.__closure__), f"closure of {owner.__qualname__}")
        elif id(getattr(owner, "__dict__", None)) in by_id:
            owners[id(owner.__dict__)] = f"{type(owner).__name__} object"
    return owners


def _entries(container: Any, wanted: dict[int, Any]) -> list[tuple[str, int]]:
    if isinstance(container, dict):
        return [(f"[{key!r}]", id(one)) for key, one in container.items() if id(one) in wanted]
    if isinstance(container, (list, tuple)):
        return [(f"[{at}]", id(one)) for at, one in enumerate(container) if id(one) in wanted]
    if isinstance(container, CellType):
        return [("", id(container.cell_contents))]
    if isinstance(container, (set, frozenset)):
        return [("", id(one)) for one in container if id(one) in wanted]
    return []


def _describe(container: Any, key: str, owner: str) -> str:
    if isinstance(container, dict) and owner.startswith("module "):
        return f"{key[2:-2]} in {owner}"
    if isinstance(container, dict) and owner.endswith(" object"):
        return f"attribute {key[2:-2]} of a {owner}"
    kind = "closure" if isinstance(container, CellType) else type(container).__name__
    name, within, place = owner.partition(" in ")
    return f"{name}{key}{within}{place} ({kind})" if owner else f"a {kind}{key}"
