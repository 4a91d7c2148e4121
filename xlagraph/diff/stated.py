"""Two modules brought to what both sources can state, so that they can be compared.

XLA's text leaves out the values of large constants unless it is asked for them, and a protobuf
has no place for the module's configuration. What one of two modules cannot state is left out of
the other: whether it is equal is not known, and must count neither as equal nor as different.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from xlagraph.graph import Module

ELIDED = "{...}"
"""What XLA prints in place of a large constant."""
SMALL = 10
"""Elements up to which XLA prints the values of a constant (``HloConstantInstruction``)."""


def stated_alike(a: Module, b: Module) -> tuple[Module, Module]:
    """The modules without what only one of them states; the same objects if there is nothing."""
    unstated = a.unstated | b.unstated
    elided = _leaves_out(a) or _leaves_out(b)
    return (
        _reduced(a, unstated, elided=elided),
        _reduced(b, unstated, elided=elided),
    )


def _leaves_out(module: Module) -> bool:
    return any(
        payload == ELIDED and module.opcodes[i] == "constant"
        for i, payload in module.payloads.items()
    )


def _reduced(module: Module, unstated: frozenset[str], *, elided: bool) -> Module:
    header = tuple(field for field in module.header if field[0] not in unstated)
    if len(header) < len(module.header) or module.unstated != unstated:
        module = replace(module, header=header, unstated=unstated)
    if elided and (large := _large_constants(module)):
        module = replace(module, payloads={**module.payloads, **dict.fromkeys(large, ELIDED)})
    return module


def _large_constants(module: Module) -> list[int]:
    """Constants that XLA's text would leave out, and that this module has."""
    is_large: dict[str, bool] = {}
    found = []
    for i, payload in module.payloads.items():
        if module.opcodes[i] != "constant" or payload == ELIDED:
            continue
        text = module.shapes[i]
        if text not in is_large:
            shape = read_shape(text) if text else None
            is_large[text] = shape is not None and (shape.is_tuple or shape.elements > SMALL)
        if is_large[text]:
            found.append(i)
    return found
