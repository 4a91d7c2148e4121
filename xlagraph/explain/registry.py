"""The rules, collected from their files and put in order."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import xlagraph.rules
from xlagraph.cause.kinds import Kind
from xlagraph.cause.rule import Rule, in_order


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, in the order in which they are asked.

    Raises:
        RuleError: the rules contradict each other.
    """
    return in_order(module.RULE for module in _files() if hasattr(module, "RULE"))


@cache
def rule_kinds() -> tuple[Kind, ...]:
    """Every kind that the files of `xlagraph.rules` define, in the order of the rules."""
    further = (kind for module in _files() for kind in getattr(module, "KINDS", ()))
    return (*(kind for rule in rules() for kind in rule.kinds), *further)


@cache
def _files() -> tuple[ModuleType, ...]:
    names = sorted(found.name for found in iter_modules(xlagraph.rules.__path__))
    return tuple(import_module(f"{xlagraph.rules.__name__}.{name}") for name in names)
