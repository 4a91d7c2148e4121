"""A rule: how one family of causes is found, and where it stands among the others."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from xlagraph.errors import RuleWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xlagraph.cause.case import Case
    from xlagraph.cause.finding import Finding
    from xlagraph.cause.kinds import Kind

    Find = Callable[[Case], list[Finding]]


class RuleError(Exception):
    """Rules that contradict each other; whoever wrote the last one has to mend it."""


def left_out(what: str, error: Exception) -> None:
    """Says that a part of the explanation failed; what another try cannot mend is raised again."""
    if isinstance(error, MemoryError):
        raise error
    kind = type(error).__name__
    text = f"{what} failed and is left out; please report it ({kind}: {error})"
    warnings.warn(text, RuleWarning, stacklevel=3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One family of causes.

    Rules are asked in order about what those before them left open: what explains most
    specifically comes first. The present order is listed in docs/causes/README.md. A new rule
    between two that follow each other names one of them in `after` and the other one in `before`:
    of each two neighbours one has to name the other, so that nothing is left to the names.
    """

    name: str
    kinds: tuple[Kind, ...]
    """The kinds that this rule defines; it may find causes of other rules' kinds, too."""
    find: Find
    after: tuple[str, ...] = ()
    """Rules that must have taken what is theirs before."""
    before: tuple[str, ...] = ()
    """Rules that must find only what this one leaves."""
    first_round_only: bool = False
    """It looks at what undoing a cause may change: it sees the modules as they are."""
    rematches: bool = False
    """Undoing what it finds lets instructions pair off better: a round ends with it."""
    closes_round: bool = False
    """It is asked even where a round ends before its turn, since it has only the first."""
    stricter: Find | None = None
    """Another way to find and undo the same causes, which compares more. It is tried first,
    and kept only where it leads to a proof."""
    last_resort: bool = False
    """What it undoes lets much be alike: it is asked only where the other rules came to no proof,
    and kept only where it leads to one."""

    def ask(self, case: Case) -> list[Finding]:
        """What it finds; nothing, and a `RuleWarning`, where it raises."""
        try:
            return self.find(case)
        except Exception as error:  # noqa: BLE001 - whatever it stumbles on
            left_out(f"the rule {self.name}", error)
            return []


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules in an order that respects `after` and `before`; by name where both are silent.

    Raises:
        RuleError: two rules or kinds have one name, a rule stands after one that does not
            exist, or after itself.
    """
    known: dict[str, Rule] = {}
    kinds: dict[str, str] = {}
    for rule in rules:
        if rule.name in known:
            raise RuleError(f"two rules are called {rule.name!r}")
        known[rule.name] = rule
        for kind in rule.kinds:
            if kind.id in kinds:
                raise RuleError(f"{rule.name} and {kinds[kind.id]} both define {kind.id!r}")
            kinds[kind.id] = rule.name
    graph: dict[str, set[str]] = {name: set() for name in known}
    for rule in known.values():
        for name in (*rule.after, *rule.before):
            if name not in known:
                raise RuleError(f"{rule.name} stands before or after {name!r}, which is no rule")
        graph[rule.name].update(rule.after)
        for name in rule.before:
            graph[name].add(rule.name)
    return tuple(known[name] for name in _sorted(graph))


def _sorted(graph: dict[str, set[str]]) -> list[str]:
    """Names with those that they must follow, so that equal graphs give equal orders."""
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise RuleError(
            f"rules follow each other in a circle: {' -> '.join(error.args[1])}"
        ) from None
    found: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        first = ready.pop(0)
        found.append(first)
        sorter.done(first)
    return found
