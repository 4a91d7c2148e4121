"""The sentences that a run's explanation begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import Quoted, count, join, say
from xlagraph.runs.kinds import UNEXPLAINED, UNLIKE_GRAPH
from xlagraph.runs.model import failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import Message
    from xlagraph.run.reader import Run
    from xlagraph.run.records import SyncRecord
    from xlagraph.runs.model import CauseGroup

WITHOUT_CAUSE = (UNEXPLAINED, UNLIKE_GRAPH)
"""Kinds of groups that name what could not be explained."""


def stable_after(syncs: Sequence[SyncRecord], steps: int) -> int | None:
    """The last step that compiled, 0 if none did; None if that is the last step of all."""
    compiled = max((s.step for s in syncs if s.outcome == "compile"), default=-1)
    return None if compiled >= steps - 1 else max(compiled, 0)


def run_verdict(
    run: Run,
    groups: Sequence[CauseGroup],
    stable: int | None,
    steps: int,
    unseen: int,
    parts: Sequence[Message] = (),
    *,
    began_late: bool,
) -> Message:
    """The verdict, and what it could not take into account.

    Args:
        run: the run.
        groups: the reasons, problems first.
        stable: the step after which nothing compiled.
        steps: how many there were.
        unseen: compiles whose module is not stored.
        parts: what the sorts of step are called that have graphs by design.
        began_late: the process had compiled before the capture began.
    """
    unread = sum(process.unread_lines for process in run.processes)
    missing = [f"{count(unseen, 'compile')} without a stored graph"] if unseen else []
    missing += [f"{count(unread, 'record')} that cannot be read"] if unread else []
    problems = [group for group in groups if not group.expected]
    warm_up = [group for group in groups if group.expected]
    said: list[Message | str] = []
    if problems:
        said.append(_problems(problems))
    elif not unseen:
        failed = failures(run)
        said.append(
            _failed(warm_up, failed[0], steps)
            if failed
            else _by_design(warm_up, parts, stable, steps)
            if parts and stable is not None and not began_late
            else _none(warm_up, stable, steps, began_late=began_late)
        )
    if missing:
        said.append(f"Not explained: {' and '.join(missing)}.")
    if began_late:
        said.append(
            "The process had compiled before the capture began, and nothing is known of that"
            + (": the first graphs here may be no warm-up." if warm_up else ".")
        )
    return join(said, len(said), " ")


def _spent(groups: Sequence[CauseGroup]) -> str:
    compiles = sum(group.compiles for group in groups)
    return f"{count(compiles, 'compile')} ({sum(group.seconds for group in groups):.1f} s)"


def _failed(groups: Sequence[CauseGroup], error: str, steps: int) -> Message:
    return say(
        f"No problem found in {count(steps, 'step')}: {_spent(groups)}, all of them warm-up; but ",
        Quoted(error),
        " ended the program, so that it is not known to be stable.",
    )


def _by_design(
    groups: Sequence[CauseGroup], parts: Sequence[Message], stable: int, steps: int
) -> Message:
    return say(
        f"{count(len(parts), 'graph')} by design (",
        join(parts, 6),
        f"); stable since step {stable + 1}: {_spent(groups)}, none in the "
        f"{count(steps - 1 - stable, 'step')} since.",
    )


def _none(groups: Sequence[CauseGroup], stable: int | None, steps: int, *, began_late: bool) -> str:
    spent = _spent(groups)
    if stable is None:
        warm_up = "" if began_late else ", all of them warm-up"
        return (
            f"No problem found: {spent}{warm_up}; the run ended before it could be seen to be "
            "stable."
        )
    if not any(group.compiles for group in groups):
        return "Stable: nothing compiled."
    head = "No problem seen" if began_late else "Stable after warm-up"
    after = count(steps - 1 - stable, "step")
    return f"{head}: {spent}, the last in step {stable}; none in the {after} after it."


def _problems(problems: Sequence[CauseGroup]) -> Message:
    compiles = sum(group.compiles for group in problems)
    seconds = sum(group.seconds for group in problems)
    first, number = problems[0], len(problems)
    told = "one main cause" if first.further else "one cause"
    if first.kind in WITHOUT_CAUSE:
        told = "no cause found"
    if number > 1:
        told = f"{number} causes, the costliest first"
    lead = f"{count(compiles, 'compile')} beyond warm-up ({seconds:.1f} s), {told}"
    unsure = sum(1 for group in problems if group.cause and not group.proved)
    if unsure and number > 1:
        lead += f", {unsure} of them not for sure"
    more = f" (and {count(len(first.further), 'further cause')})" if first.further else ""
    if first.cause and not first.proved:
        unsure_too = ", not for sure" if number == 1 else ""
        return say(f"{lead}{unsure_too}. Suspected: ", first.title, f"{more}.")
    return say(f"{lead}: ", first.title.sentence, f"{more}.")
