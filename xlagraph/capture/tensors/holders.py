"""What in Python keeps a tensor alive: found by asking the collector for referrers.

Costs a pass over the whole heap for each of two levels, so only when asked for.
"""

from __future__ import annotations

import gc
from collections.abc import Container
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from xlagraph.tensors import Holder

_MAX_HOLDERS = 3


def find_holders(
    tensors: list[Any], known: Container[int], ignored: list[object]
) -> dict[int, tuple[Holder, ...]]:
    """For each tensor that is not known, by Python ``id``, what refers to it.

    ``ignored`` are the caller's own containers. A tensor that only C++ or a running
    function's local variables hold has no entry.
    """
    wanted = {id(tensor): tensor for tensor in tensors if id(tensor) not in known}
    if not wanted:
        return {}
    targets = list(wanted.values())
    skip = {id(one) for one in (tensors, targets, wanted, *ignored)}
    containers = [one for one in gc.get_referrers(*targets) if id(one) not in skip]
    skip.add(id(containers))
    owners = _owners(containers, skip)
    found: dict[int, list[Holder]] = {}
    for container in containers:
        for key, target in _entries(container, wanted):
            holder = _holder(container, key, owners.get(id(container)))
            found.setdefault(target, []).append(holder)
    return {target: tuple(holders[:_MAX_HOLDERS]) for target, holders in found.items()}


class _Owner(NamedTuple):
    """What holds a container."""

    what: str
    """``module`` or ``object`` for a namespace, ``variable`` for what a namespace names."""
    name: str
    module: str = ""


def _owners(containers: list[Any], skip: set[int]) -> dict[int, _Owner]:
    """What holds each container, by its Python ``id``: a module, an object, a variable."""
    by_id = {id(one): one for one in containers}
    if not by_id:
        return {}
    owners: dict[int, _Owner] = {}
    for owner in gc.get_referrers(*by_id.values()):
        if id(owner) in skip or owner is by_id or isinstance(owner, FrameType):
            continue
        if isinstance(owner, ModuleType):
            owners[id(vars(owner))] = _Owner("module", owner.__name__)
        elif isinstance(owner, dict):
            module = str(owner.get("__name__", ""))
            for key, value in owner.items():
                if id(value) in by_id and isinstance(key, str):
                    owners.setdefault(id(value), _Owner("variable", key, module))
        elif isinstance(owner, FunctionType):
            owners.setdefault(id(owner.__closure__), _Owner("variable", owner.__qualname__))
        elif id(getattr(owner, "__dict__", None)) in by_id:
            owners[id(owner.__dict__)] = _Owner("object", type(owner).__name__)
    return owners


def _entries(container: Any, wanted: dict[int, Any]) -> list[tuple[object, int]]:
    """The keys or places at which a container holds wanted tensors; None for a set or a cell."""
    if isinstance(container, dict):
        return [(key, id(one)) for key, one in container.items() if id(one) in wanted]
    if isinstance(container, (list, tuple)):
        return [(at, id(one)) for at, one in enumerate(container) if id(one) in wanted]
    if isinstance(container, CellType):
        return [(None, id(container.cell_contents))]
    if isinstance(container, (set, frozenset)):
        return [(None, id(one)) for one in container if id(one) in wanted]
    return []


def _holder(container: Any, key: object, owner: _Owner | None) -> Holder:
    if owner is not None and isinstance(container, dict) and owner.what != "variable":
        via = "variable" if owner.what == "module" else "attribute"
        return Holder(via, str(key), owner.name)
    via = "closure" if isinstance(container, CellType) else type(container).__name__
    place = "" if key is None else f"[{key!r}]"
    return Holder(via, f"{owner.name if owner else ''}{place}", owner.module if owner else "")
