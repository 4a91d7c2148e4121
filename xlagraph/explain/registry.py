"""The rules, collected from their files and put in order."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
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
    found = walk_packages(xlagraph.rules.__path__, f"{xlagraph.rules.__name__}.")
    return tuple(import_module(one.name) for one in found if not one.ispkg)
