"""Shardings as modules write them down, for GSPMD and for Shardy.

JAX writes each sharding twice, for GSPMD (``sharding={devices=[2,1]<=[2]}``) and, by the names
of the mesh's axes, for Shardy (``xla.sdy.sharding`` among the frontend attributes; the mesh stands
in the header). torch_xla writes the first one only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.graph import Attributes, Module

_SHARDY = re.compile(r'xla\.sdy\.[\w.]+=(?:"(?:[^"\\]|\\.)*"|\{(?:[^{}]|\{[^{}]*\})*\}),?')
"""A frontend attribute that Shardy reads."""
_AXES = re.compile(r"@\w+, (\[.*?\])(?:, replicated=\{.*?\})?>")
_MESH = re.compile(r"#sdy\.mesh<\[([^\]]*)\]")


def mesh_of(module: Module) -> str:
    """The mesh that Shardy is given: ``"x"=2, "y"=2``, or ``""``."""
    found = _MESH.search(module.header_fields.get("frontend_attributes", ""))
    return found[1].replace('"', "") if found else ""


def without_shardy(text: str) -> str:
    """Frontend attributes without those that tell of shardings; ``""`` where none is left."""
    rest = _SHARDY.sub("", text).replace(",}", "}")
    return "" if rest.strip() == "{}" else rest


def sharding_text(attributes: Attributes) -> str:
    """A sharding in Shardy's words if there are any, else in GSPMD's."""
    axes = _AXES.search((attributes.get("frontend_attributes") or "").replace("\\", ""))
    if axes:
        return axes[1].replace('"', "")
    return attributes.get("sharding") or "not sharded"
