"""The arguments of a jitted function, by the names that JAX gives the inputs of its module."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.diff.known import KnownTensors

if TYPE_CHECKING:
    from xlagraph.graph import Module

_NAME = re.compile(r"[A-Za-z_][\w.]*(\[[^\]/]*\])*")
_NUMBERED = re.compile(r"(Arg|arg|p|param|parameter)_?\d*$|$")
"""Names that a text's writer gives parameters without one."""
_JITTED = ("jit_", "pjit_", "pmap_")
"""How the names of modules begin that JAX traces from a function."""


def argument_name(module: Module, parameter: int) -> str:
    """What JAX calls an argument, ``params['w']``; empty where it has no such name.

    In a text without metadata it is the parameter's own name, ``params__w__.1``.
    """
    metadata = module.metadata(parameter)
    if metadata is None and is_jitted(module):
        name = module.names[parameter].rpartition(".")[0]
        return "" if _NUMBERED.match(name) else name
    if metadata is None or metadata.op_type or not _NAME.fullmatch(metadata.op_name):
        return ""
    return metadata.op_name


def is_jitted(module: Module) -> bool:
    """Whether JAX has traced a module from a function (``jax.jit``, ``jax.pmap``), by its name."""
    return module.name.startswith(_JITTED)


def same_arguments(a: Module, b: Module) -> tuple[KnownTensors, KnownTensors] | None:
    """The inputs by name, if both modules take in the same arguments of the same shapes.

    Where one of them takes in others, its arguments may be nested or permuted in another way, and
    an equal name says little.
    """
    names_a, names_b = _names(a), _names(b)
    inputs_a = {name: a.shapes[p] for p, name in names_a.items()}
    inputs_b = {name: b.shapes[p] for p, name in names_b.items()}
    is_one = len(inputs_a) == len(a.entry_computation.parameters) and inputs_a == inputs_b
    if "" in inputs_a or not (inputs_a and is_one):
        return None
    return KnownTensors(names_a), KnownTensors(names_b)


def named_arguments(module: Module) -> KnownTensors:
    """The inputs that have a name."""
    return KnownTensors({p: name for p, name in _names(module).items() if name})


def _names(module: Module) -> dict[int, str]:
    return {p: argument_name(module, p) for p in module.entry_computation.parameters}
