"""Tensors and their holders as records of formats 1 and 2 have them: in words.

Newer records hold the values of `xlagraph.tensors`; here the words are taken apart.
"""

from __future__ import annotations

import re

from xlagraph.tensors import AUTOGRAD, Holder, Role, Tensor

_STATE = re.compile(r"(.*) \((\w+) (\w+)\)", re.S)
_HELD = re.compile(r"gradient of (.*), held by its callback", re.S)
_WAITING = re.compile(r"waiting gradient of (.*)", re.S)
_SHARD = re.compile(r"([^:]*): (.*) shard", re.S)
_SHAPE = re.compile(r"\(?[a-z][a-z0-9]*\[[\d,<=? ]*\].*", re.S)
_AUTOGRAD = "held by C++ only"

FIELDS = {("LiveTensor", "tensor"): "name", ("LiveTensor", "holders"): "holder"} | {
    ("ParameterTensor", "tensor"): "name",
    ("Holder", "via"): "kind",
}
"""Fields of today's records, by class, that had another name."""


def tensor_of(text: str) -> Tensor | None:
    """The tensor that a name in words stands for; None for a shape, or nothing."""
    for pattern, role in ((_HELD, Role.HELD), (_WAITING, Role.WAITING)):
        found = pattern.fullmatch(text)
        if found:
            return _named(found[1], role)
    found = _STATE.fullmatch(text)
    if found:
        return _named(found[1], Role.STATE, found[2], found[3])
    if not text or _SHAPE.fullmatch(text):
        return None
    if text.endswith(".grad"):
        return _named(text.removesuffix(".grad"), Role.GRADIENT)
    return _named(text, Role.BUCKET if _SHARD.fullmatch(text) else Role.TENSOR)


def holders_of(text: str) -> tuple[Holder, ...]:
    """The holders that were listed in words, as they stand."""
    if text.startswith(_AUTOGRAD):
        return (AUTOGRAD,)
    return (Holder("", text),) if text else ()


def _named(text: str, role: Role, optimizer: str = "", key: str = "") -> Tensor:
    found = _SHARD.fullmatch(text)
    if found:
        return Tensor(found[1], found[2], role, optimizer, key, shard=True)
    owner, _, name = text.rpartition(".")
    return Tensor(owner, name, role, optimizer, key)
