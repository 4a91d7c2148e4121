"""Tensors as records of formats 1 and 2 name them: in words, which are taken apart here.

Newer records hold `xlagraph.tensors.Tensor` values; see ``xlagraph.run.records``.
"""

from __future__ import annotations

import re

from xlagraph.tensors import Role, Tensor

_STATE = re.compile(r"(.*) \((\w+) (\w+)\)", re.S)
_HELD = re.compile(r"gradient of (.*), held by its callback", re.S)
_WAITING = re.compile(r"waiting gradient of (.*)", re.S)
_SHARD = re.compile(r"([^:]*): (.*) shard", re.S)
_SHAPE = re.compile(r"\(?[a-z][a-z0-9]*\[[\d,<=? ]*\].*", re.S)


def tensor_of(text: str) -> Tensor | str:
    """The tensor that a name in words stands for; a shape, or nothing, stays as it is."""
    for pattern, role in ((_HELD, Role.HELD), (_WAITING, Role.WAITING)):
        found = pattern.fullmatch(text)
        if found:
            return _named(found[1], role)
    found = _STATE.fullmatch(text)
    if found:
        return _named(found[1], Role.STATE, found[2], found[3])
    if not text or _SHAPE.fullmatch(text):
        return text
    if text.endswith(".grad"):
        return _named(text.removesuffix(".grad"), Role.GRADIENT)
    return _named(text, Role.BUCKET if _SHARD.fullmatch(text) else Role.TENSOR)


def _named(text: str, role: Role, optimizer: str = "", key: str = "") -> Tensor:
    found = _SHARD.fullmatch(text)
    if found:
        return Tensor(found[1], found[2], role, optimizer, key, shard=True)
    owner, _, name = text.rpartition(".")
    return Tensor(owner, name, role, optimizer, key)
