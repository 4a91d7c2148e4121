"""The search for causes: rules are asked, what they suspect is undone, the rest is asked again.

A finding is believed when undoing it, together with the others, turns the two modules into
the same computation. What no finding accounts for is listed as unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlagraph.cause.case import Case
from xlagraph.explain.citations import uncited_inputs
from xlagraph.explain.proof import ProofState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.cause.model import Context
    from xlagraph.cause.rule import Rule
    from xlagraph.diff import Diff

MAX_ROUNDS = 5
"""How often what is left after undoing the causes found so far is searched again."""
MAX_SINGLE = 800_000
"""Instructions times suspicions up to which these are undone one by one as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Two modules to explain, what a capture knows of them, and the rules to ask."""

    diff: Diff
    context_a: Context
    context_b: Context
    rules: Sequence[Rule]

    def start(self) -> ProofState:
        """The modules as they are, nothing undone."""
        return ProofState(self.diff, self.context_a, self.context_b)

    def stricter(self) -> Search | None:
        """The same with rules that compare more, where some have such a way to find causes."""
        case = self.start().case()
        asked = [_stricter(rule, case) for rule in self.rules]
        changed = any(now is not rule for now, rule in zip(asked, self.rules, strict=True))
        return replace(self, rules=asked) if changed else None


def _stricter(rule: Rule, case: Case) -> Rule:
    """The rule with its stricter way, if that finds something: what it found is answered first."""
    again = rule.stricter
    found = replace(rule, find=again).ask(case) if again else []
    if not (again and found):
        return rule
    answers = [found]
    return replace(rule, find=lambda now: answers.pop() if answers else again(now))


@dataclass(slots=True, eq=False)
class Found:
    """What a search has come to."""

    findings: list[Finding] = field(default_factory=list)
    """About the modules as they were."""
    state: ProofState = field(kw_only=True)
    proved: bool = field(kw_only=True)


def search(task: Search) -> Found:
    """Asks the rules in rounds, each about what undoing the findings so far has left."""
    found = Found(state=task.start(), proved=task.diff.same)
    for number in range(MAX_ROUNDS):
        if found.proved:
            break
        suspected = _ask(found.state.case(), task.rules, is_first=number == 0)
        accepted, found.state, found.proved = _accept(found.state, suspected)
        found.findings += accepted
        if found.proved and number:
            found.findings = _needed_of_all(task.start(), found.findings)
        if found.proved and any(uncited_inputs(task.diff, found.findings)):
            found.proved = False
            break
        if not accepted:
            break
    return found


def _ask(case: Case, rules: Sequence[Rule], *, is_first: bool) -> list[Finding]:
    """Asks every rule about what the ones before it left open."""
    findings: list[Finding] = []
    is_over = False
    for rule in rules:
        if (rule.first_round_only and not is_first) or (is_over and not rule.closes_round):
            continue
        found = rule.ask(case)
        for finding in found:
            case.claim(finding)
        findings += found
        is_over = is_over or bool(found and rule.rematches)
    return findings


def _accept(state: ProofState, found: Sequence[Finding]) -> tuple[list[Finding], ProofState, bool]:
    """The suspicions that stand up: undone, the modules are equal or at least closer.

    Undone together first; if that does not do, one after the other, so that a wrong one is
    not carried along by the rest.
    """
    if not found:
        return [], state, False
    together, proved = state.without(found)
    is_small = (len(state.diff.a) + len(state.diff.b)) * len(found) <= MAX_SINGLE
    if proved:
        needed = _needed(state, found) if is_small else list(found)
        return [state.original(f) for f in needed], together, True
    if not is_small:
        if together.left() < state.left():
            return [state.original(f) for f in found], together, False
        return [], state, False
    return _accept_singly(state, found)


def _needed(state: ProofState, found: Sequence[Finding]) -> list[Finding]:
    """The suspicions without which the proof fails; general ones are left out first.

    A silent one may concern the header, which the proof does not look at.
    """
    needed = list(found)
    for finding in reversed(found):
        if len(needed) > 1 and not finding.is_silent:
            others = [f for f in needed if f is not finding]
            if state.without(others)[1] and not _left_out(state, others, needed):
                needed = others
    return needed


def _left_out(state: ProofState, findings: Sequence[Finding], more: Sequence[Finding]) -> bool:
    """Whether these findings leave an input of one side unmentioned that `more` tell of."""
    return uncited_inputs(state.now, findings) != uncited_inputs(state.now, more)


def _needed_of_all(start: ProofState, findings: list[Finding]) -> list[Finding]:
    """Of the suspicions of several rounds those without which there is no proof.

    What a later round explains may make one of an earlier round needless.
    """
    is_small = (len(start.diff.a) + len(start.diff.b)) * len(findings) <= MAX_SINGLE
    return _needed(start, findings) if is_small and start.without(findings)[1] else findings


def _accept_singly(
    state: ProofState, found: Sequence[Finding]
) -> tuple[list[Finding], ProofState, bool]:
    """Takes the suspicions one by one and keeps those that bring the modules closer."""
    accepted: list[Finding] = []
    best, proved = state, False
    for finding in found:
        tried, proved = state.without([*accepted, finding])
        is_silent = tried is not state and finding.is_silent
        if proved or tried.left() < best.left() or is_silent:
            accepted.append(finding)
            best = tried
        if proved:
            break
    return [state.original(f) for f in accepted], best, proved
