"""How parameters, outputs and shapes are called in a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.message import Change, Code, Message, join, say

if TYPE_CHECKING:
    from xlagraph.cause.case import SideView
    from xlagraph.graph import Attributes, Module
    from xlagraph.tensors import Holder

MAX_SHAPE = 48
CONTAINERS = frozenset({"closure", "dict", "frozenset", "list", "set", "tuple"})
"""Python's own; the name of any other class is the program's."""


def parameter_name(view: SideView, instruction: int) -> Message:
    """A parameter as a person knows it: its tensor if captured, else its number; its shape."""
    tensor = view.input_tensor(instruction)
    number = view.module.payloads[instruction]
    return say(tensor or f"input {number}", f" ({short_shape(view.module, instruction)})")


def output_name(view: SideView, position: int) -> Message:
    """An output as a person knows it: its number, its tensor if captured, its shape."""
    tensor = view.context.outputs.get(position)
    shape = short_shape(view.module, view.module.outputs[position])
    return say(f"output {position}", *((": ", tensor) if tensor else ()), f" ({shape})")


def holder_name(holder: Holder) -> Message:
    """What holds a tensor: ``history[0] in module train (list)``."""
    name, owner = Code(holder.name), Code(holder.owner)
    match holder.via:
        case "autograd":
            return say("C++ only (autograd, or the base of a view)")
        case "variable":
            return say(name, " in module ", owner)
        case "attribute":
            return say("attribute ", name, " of a ", owner, " object")
        case "":
            return say(name)
    via = holder.via if holder.via in CONTAINERS else Code(holder.via)
    place = say(" in module ", owner) if holder.owner else say()
    return say(name, place, " (", via, ")") if holder.name else say("a ", via)


def short_shape(module: Module, instruction: int) -> str:
    """A shape without layout, long tuples cut."""
    text = bare_shape(module, instruction)
    return text if len(text) <= MAX_SHAPE else text[: MAX_SHAPE - 3] + "..."


def attribute_changes(first: Attributes, second: Attributes) -> Message:
    """What differs between the attributes of two instructions: ``dimensions: {0} -> {1}``."""
    old, new = dict(first.items), dict(second.items)
    keys = differing_keys(first, second)
    shown = (_change(key, old.get(key, "none"), new.get(key, "none")) for key in sorted(keys))
    return join(shown, len(keys), "; ")


_PADDED = re.compile(r"(-?\d+)_(-?\d+)(?:_(\d+))?")
"""One dimension of a padding in HLO text: ``low_high``, or ``low_high_interior``."""


def _change(key: str, old: str, new: str) -> Message:
    """An attribute's two values; those of a padding in words."""
    if key == "padding":
        before, after = ([_PADDED.fullmatch(one) for one in text.split("x")] for text in (old, new))
        pairs = [(k, p, q) for k, (p, q) in enumerate(zip(before, after, strict=False)) if p and q]
        if len(before) == len(after) == len(pairs):
            said = (
                f"{_padded(p)} -> {_padded(q)} in dimension {k}"
                for k, p, q in pairs
                if _padded(p) != _padded(q)
            )
            return say("padding: ", join(said, 4))
    return say(f"{key}: ", Change(old, new))


def _padded(one: re.Match[str]) -> str:
    """``2 before and 12 after``."""
    low, high, within = one.groups()
    spread = f", {within} between elements" if within and within != "0" else ""
    return f"{low} before and {high} after{spread}"


def differing_keys(first: Attributes, second: Attributes) -> set[str]:
    """The attributes that one instruction has otherwise than another, or not at all."""
    old, new = dict(first.items), dict(second.items)
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
