"""What the entry's caller passes and gets: ``entry_computation_layout`` beside the instructions.

Before optimization the field is the only place of a layout that a program asks for: parameters
and root have the default one. Where the field is left out, XLA takes the layouts of parameters
and root (``HloParserImpl::ParseHloModule``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.spelling import canonical_layout
from xlagraph.errors import InputError
from xlagraph.hlo.header_values import EntryLayout, read_entry_layout
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.graph import Module
    from xlagraph.hlo.shapes import Shape

FIELD = "entry_computation_layout"


class Asked(NamedTuple):
    """Layouts that the field asks for where the instructions have others, by position."""

    parameters: Mapping[int, str]
    """The layouts of a parameter's arrays, joined: ``{0,1}``, or ``{0,1} {0}`` of a tuple."""
    outputs: Mapping[int, str]


NOTHING = Asked({}, {})


def asked_layouts(module: Module) -> Asked | None:
    """What the entry's layout asks for beyond the instructions' own layouts.

    None where the field says nothing that fits the module: other parameters, or no shapes.
    """
    text = module.header_fields.get(FIELD)
    if text is None:
        return NOTHING
    entry = module.entry_computation
    try:
        layout = _read(text)
        outputs = layout.result.parts if module.opcodes[entry.root] == "tuple" else ()
        asked = Asked(
            _differing(module, entry.parameters, layout.parameters),
            _differing(module, module.outputs, outputs or (layout.result,)),
        )
    except (InputError, ValueError):
        return None
    return asked


@lru_cache(maxsize=16)
def _read(text: str) -> EntryLayout:
    return read_entry_layout(text)


def _differing(module: Module, values: Sequence[int], asked: Sequence[Shape]) -> dict[int, str]:
    """The layouts asked for that the values do not have.

    Raises:
        ValueError: there are other values, or values of other shapes.
    """
    found = {}
    for place, (value, wanted) in enumerate(zip(values, asked, strict=True)):
        if module.shapes[value] != str(wanted):
            own = read_shape(module.shapes[value])
            if own.without_layout() != wanted.without_layout():
                raise ValueError(place)
            layouts = _joined(wanted)
            if layouts != _joined(own):
                found[place] = layouts
    return found


def own_layouts(module: Module, value: int) -> str:
    """The layouts of an instruction's own shape, as `Asked` has them."""
    return _joined(read_shape(module.shapes[value]))


def _joined(shape: Shape) -> str:
    return " ".join(_layouts(shape))


def _layouts(shape: Shape) -> list[str]:
    """The layout of each array in a shape, ``{}`` for a scalar."""
    if shape.parts:
        return [layout for part in shape.parts for layout in _layouts(part)]
    return [canonical_layout(shape) or "{}"]
