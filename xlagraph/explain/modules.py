"""Why one module is another than a second one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.inline import inlined
from xlagraph.canon.labels import Level
from xlagraph.cause.model import Context, Explanation
from xlagraph.diff import diff_modules
from xlagraph.explain.causes import causes_of, unexplained
from xlagraph.explain.engine import Search, search
from xlagraph.explain.names.merged import BRANCHES
from xlagraph.explain.names.repacked import in_other_tensors
from xlagraph.explain.orders import differs_in_order_alone, left_in_order
from xlagraph.explain.places import place_left
from xlagraph.explain.registry import rules
from xlagraph.explain.scope import scope_of, scope_sentence
from xlagraph.explain.values import by_values, with_neutral
from xlagraph.explain.verdict import pair_verdict, same_verdict
from xlagraph.explain.versions import of_a_pair
from xlagraph.facts.distributed.buckets import bucket_rows
from xlagraph.facts.program.arguments import same_arguments
from xlagraph.facts.program.versions import is_captured
from xlagraph.message import EMPTY, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.rule import Rule
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Known
    from xlagraph.explain.engine import Found
    from xlagraph.graph import Module
    from xlagraph.message import Message

MAX_AGAIN = 200_000
"""Instructions up to which what has no proof is paired and explained in another way."""

IN_LINE = say("Compared with every function that is called put in line, as XLA does.")


def explain_modules(
    a: Module,
    b: Module,
    context_a: Context | None = None,
    context_b: Context | None = None,
    names: tuple[str, str] = ("A", "B"),
) -> Explanation:
    """Explains why B is another module than A; the contexts add what a capture knows.

    `names`: what the sentences call the two.
    """
    explanation = explain_sides(a, b, context_a or Context(), context_b or Context())
    return explanation.named(*names)


def explain_sides(a: Module, b: Module, context_a: Context, context_b: Context) -> Explanation:
    """`explain_modules` with sentences that speak of sides, so that they can be named later."""
    found = _searched(a, b, context_a, context_b)
    contexts = context_a, context_b
    return in_other_tensors(by_values(found, contexts), contexts)


def _searched(a: Module, b: Module, context_a: Context, context_b: Context) -> Explanation:
    """The explanation that the modules' structure gives."""
    diff = diff_modules(a, b, known=(context_a.names(a), context_b.names(b)))
    asked = [r for r in rules() if not r.last_resort]
    plain = _best(Search(diff, context_a, context_b, asked))
    by_name = _by_arguments(diff, asked, (context_a, context_b))
    is_shorter = by_name and plain.proved and len(plain.causes) < len(by_name.causes)
    return by_name if by_name and not is_shorter else plain


def _names_any(known: Known) -> bool:
    return any(names.inputs or names.outputs for names in known)


def _by_arguments(
    diff: Diff, asked: Sequence[Rule], contexts: tuple[Context, Context]
) -> Explanation | None:
    """The explanation with each argument of a jitted function paired with itself, if a proof.

    Two networks of one shape, as a critic and its target, are told apart by nothing else where
    one takes the other's place.
    """
    is_bare = not _names_any(diff.match.known)
    names = same_arguments(diff.a, diff.b) if is_bare and not diff.same else None
    if names is None:
        return None
    by_name = diff_modules(diff.a, diff.b, known=names)
    if by_name.match.to_b == diff.match.to_b:
        return None
    found = _best(Search(by_name, *contexts, asked))
    return found if found.proved else None


def _best(task: Search) -> Explanation:
    """The explanation of a difference.

    Rules that have a stricter way use it first. What cannot be proved with instructions paired
    by value is tried again with instructions paired by place (constants, then shapes left out
    of account), then with the rules of last resort, and the proof counts.
    """
    stricter = task.stricter()
    if stricter:
        found = search(stricter)
        if found.proved:
            return _explanation(stricter, found)
    found = search(task)
    for level in (Level.CONSTANT_VALUES, Level.SHAPES):
        if found.proved or len(task.diff.a) + len(task.diff.b) > MAX_AGAIN:
            break
        diff = diff_modules(task.diff.a, task.diff.b, level, task.diff.match.known)
        by_place = Search(diff, task.context_a, task.context_b, task.rules)
        again = search(by_place)
        if again.proved:
            return _explanation(by_place, again, level)
    is_small = not found.proved and len(task.diff.a) + len(task.diff.b) <= MAX_AGAIN
    return (_otherwise(task) if is_small else None) or _explanation(task, found)


def _otherwise(task: Search) -> Explanation | None:
    """The explanation by the rules of last resort, or with calls in line where that tells more."""
    last = _last(task)
    if last and last.causes[0].kind not in BRANCHES:
        return last
    return _in_line(task) or last


def _in_line(task: Search) -> Explanation | None:
    """The explanation with each function that is called put in line, as XLA does, if a proof.

    A derivative calls another function than what is not differentiated: what is alike is inside.
    """
    if is_captured(task.context_a, task.context_b) or not any(
        "call" in one.opcodes for one in (task.diff.a, task.diff.b)
    ):
        return None  # what is kept of a run is read beside the modules as they were captured
    a, b = inlined(task.diff.a), inlined(task.diff.b)
    if a is None or b is None:
        return None
    known = (task.context_a.names(a), task.context_b.names(b))
    if not _names_any(known) and _names_any(task.diff.match.known):
        known = same_arguments(a, b) or known
    in_line = replace(task, diff=diff_modules(a, b, known=known))
    found = None if in_line.diff.same else search(in_line)
    return _explanation(in_line, found, note=IN_LINE) if found and found.proved else None


def _last(task: Search) -> Explanation | None:
    """The explanation that rules of last resort lead to, if that is a proof.

    One that is asked in the first round alone is asked without the others first, since these take
    all that it leaves for one piece. Where all of them need several causes one may do with less.
    """
    case = task.start().case()
    last = [rule for rule in rules() if rule.last_resort]
    fitting = [rule for rule in last if rule.ask(case)]
    first = [rule for rule in fitting if rule.first_round_only]
    found = None
    for added in filter(None, (first, last if fitting else ())):
        found = found or _with_last(task, added)
    alone = [[rule] for rule in fitting] if found and len(found.causes) > 1 else []
    others = (_with_last(task, added) for added in alone if added != first)
    return min(filter(None, (found, *others)), key=lambda one: len(one.causes), default=None)


def _with_last(task: Search, added: Sequence[Rule]) -> Explanation | None:
    """The explanation by some of the rules of last resort and all others, if that is a proof."""
    chosen = [rule for rule in rules() if not rule.last_resort or rule in added]
    again = replace(task, rules=chosen)
    found = search(again)
    return _explanation(again, found) if found.proved else None


def _explanation(
    task: Search, found: Found, level: Level = Level.PARAMETER_ORDER, note: Message = EMPTY
) -> Explanation:
    diff = task.diff
    left_a, left_b = unexplained(diff, found)
    contexts = (task.context_a, task.context_b)
    found = with_neutral(task, found)
    causes = () if diff.same else causes_of(diff, found, contexts)
    same = diff.same or differs_in_order_alone(diff, causes, contexts)
    causes = of_a_pair(diff, left_in_order(diff, causes) if same else causes, contexts)
    left = len(left_a) + len(left_b)
    scope = scope_of(found.state)
    place = place_left(diff, left_a, left_b, contexts)
    verdict = (
        same_verdict(diff, causes, *contexts)
        if same
        else pair_verdict(diff, causes, left, place, *contexts)
    )
    if found.proved and scope.sets_aside:
        verdict = replace(verdict, notes=(*verdict.notes, scope_sentence(scope, diff, *contexts)))
    if note:
        verdict = replace(verdict, notes=(*verdict.notes, note))
    return Explanation(
        diff=diff,
        same=same,
        verdict=verdict,
        causes=causes,
        unexplained_a=left_a,
        unexplained_b=left_b,
        left=place,
        proved=found.proved,
        scope=scope,
        compared=scope.compared,
        level=level,
        buckets_a=bucket_rows(diff.a, task.context_a),
        buckets_b=bucket_rows(diff.b, task.context_b),
    )
